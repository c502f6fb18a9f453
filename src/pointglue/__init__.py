"""Physics-based animation and mesh deformation on the best-fit rigid transform.

The names below are loaded on first use, so that ``import pointglue`` itself is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from . import assets as assets
    from . import deform as deform
    from . import elastic as elastic
    from . import errors as errors
    from . import geometry as geometry
    from . import glue as glue
    from . import particles as particles
    from . import procrustes as procrustes
    from . import scene as scene
    from . import view as view
    from .compute import threads as threads
    from .deform import HandleDeformer as HandleDeformer
    from .deform import Skeleton as Skeleton
    from .deform import deform_cloud as deform_cloud
    from .elastic import Bond as Bond
    from .elastic import ClothEnergy as ClothEnergy
    from .elastic import Contact as Contact
    from .elastic import ElasticBody as ElasticBody
    from .elastic import FleshEnergy as FleshEnergy
    from .elastic import ForceEnergy as ForceEnergy
    from .elastic import HexahedronEnergy as HexahedronEnergy
    from .elastic import ImplicitSolver as ImplicitSolver
    from .elastic import JointBond as JointBond
    from .elastic import Motor as Motor
    from .elastic import RigidBody as RigidBody
    from .elastic import ShapeMatchingEnergy as ShapeMatchingEnergy
    from .elastic import SolverState as SolverState
    from .elastic import SpringEnergy as SpringEnergy
    from .elastic import TargetEnergy as TargetEnergy
    from .glue import Assembly as Assembly
    from .glue import Attachment as Attachment
    from .glue import BodyFrames as BodyFrames
    from .glue import Embedding as Embedding
    from .glue import Glue as Glue
    from .glue import Joint as Joint
    from .glue import Slider as Slider
    from .glue import Spring as Spring
    from .glue import assemble as assemble
    from .glue import bind_glue as bind_glue
    from .glue import bind_joint as bind_joint
    from .glue import bind_linear as bind_linear
    from .glue import bind_slider as bind_slider
    from .glue import embed as embed
    from .particles import OrientedBody as OrientedBody
    from .particles import ParticleSolver as ParticleSolver
    from .particles import ParticleState as ParticleState
    from .procrustes import Groups as Groups
    from .procrustes import RestShape as RestShape
    from .procrustes import RigidFit as RigidFit
    from .procrustes import fit_rigid as fit_rigid
    from .procrustes import special_procrustes as special_procrustes
    from .scene import load_scene as load_scene
    from .scene import run_scene as run_scene


_HOME = {
    "Assembly": "glue",
    "Attachment": "glue",
    "Bond": "elastic",
    "ClothEnergy": "elastic",
    "Contact": "elastic",
    "ElasticBody": "elastic",
    "Embedding": "glue",
    "FleshEnergy": "elastic",
    "ForceEnergy": "elastic",
    "BodyFrames": "glue",
    "Glue": "glue",
    "Groups": "procrustes",
    "HandleDeformer": "deform",
    "HexahedronEnergy": "elastic",
    "ImplicitSolver": "elastic",
    "Joint": "glue",
    "JointBond": "elastic",
    "Motor": "elastic",
    "OrientedBody": "particles",
    "ParticleSolver": "particles",
    "ParticleState": "particles",
    "RestShape": "procrustes",
    "RigidBody": "elastic",
    "RigidFit": "procrustes",
    "ShapeMatchingEnergy": "elastic",
    "Skeleton": "deform",
    "Slider": "glue",
    "SolverState": "elastic",
    "Spring": "glue",
    "SpringEnergy": "elastic",
    "TargetEnergy": "elastic",
    "assemble": "glue",
    "bind_glue": "glue",
    "bind_joint": "glue",
    "bind_linear": "glue",
    "bind_slider": "glue",
    "deform_cloud": "deform",
    "embed": "glue",
    "fit_rigid": "procrustes",
    "load_scene": "scene",
    "run_scene": "scene",
    "special_procrustes": "procrustes",
    "threads": "compute",
}

_MODULES = (
    "assets",
    "deform",
    "elastic",
    "errors",
    "geometry",
    "glue",
    "particles",
    "procrustes",
    "scene",
    "view",
)

__all__ = list(_HOME)


if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            return getattr(import_module(f".{_HOME[name]}", __name__), name)
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
