"""Oriented particles: rigid, plastic and soft solids, ropes, cloth and volumes from few particles."""

from . import editing
from .body import OrientedBody
from .builders import block, hinged_boxes, rope, sheet
from .colliders import Ball, Box, Capsule, Collider, MeshCollider, Motion, Plane
from .forces import Buoyancy, Force, Wind
from .skinning import Skin
from .solver import ParticleSolver, Script
from .state import ParticleState, RestPose

__all__ = [
    "Ball",
    "Box",
    "Buoyancy",
    "Capsule",
    "Collider",
    "Force",
    "MeshCollider",
    "Motion",
    "OrientedBody",
    "ParticleSolver",
    "ParticleState",
    "Plane",
    "RestPose",
    "Script",
    "Skin",
    "Wind",
    "block",
    "editing",
    "hinged_boxes",
    "rope",
    "sheet",
]
