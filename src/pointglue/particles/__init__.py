"""Oriented particles: rigid, plastic and soft solids, ropes, cloth and volumes from few particles."""

from ..geometry.rigid_motion import Motion
from ..geometry.solids import Ball, Box, Capsule, Collider, Cylinder, Plane
from .authoring import editing
from .authoring.skinning import Skin
from .body import OrientedBody
from .builders import block, hinged_boxes, rope, sheet
from .colliders.mesh import MeshCollider
from .forces import Buoyancy, Force, Wind
from .solver import KinematicParticles, ParticleSolver
from .state import ParticleState, RestPose

__all__ = [
    "Ball",
    "Box",
    "Buoyancy",
    "Capsule",
    "Collider",
    "Cylinder",
    "Force",
    "KinematicParticles",
    "MeshCollider",
    "Motion",
    "OrientedBody",
    "ParticleSolver",
    "ParticleState",
    "Plane",
    "RestPose",
    "Skin",
    "Wind",
    "block",
    "editing",
    "hinged_boxes",
    "rope",
    "sheet",
]
