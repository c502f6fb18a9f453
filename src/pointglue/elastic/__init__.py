"""Implicit solids: energies with exact derivatives, and the solver that steps them."""

from .bodies import Bond, ElasticBody, JointBond, Motor
from .contact.options import Contact
from .energies.base import Damped, Elements, Energy
from .energies.cloth import ClothEnergy
from .energies.flesh import FleshEnergy
from .energies.hexahedra import HexahedronEnergy
from .energies.shape_matching import ShapeMatchingEnergy
from .energies.springs import ForceEnergy, SpringEnergy, TargetEnergy, gravity
from .linalg.blocks import BlockPattern
from .model.rigid_bodies import RigidBody
from .solver import ImplicitSolver
from .state import BondEvent, Load, SolverState, Stall, StepError, StepReport

__all__ = [
    "BlockPattern",
    "Bond",
    "BondEvent",
    "ClothEnergy",
    "Contact",
    "Damped",
    "ElasticBody",
    "Elements",
    "Energy",
    "FleshEnergy",
    "ForceEnergy",
    "HexahedronEnergy",
    "ImplicitSolver",
    "JointBond",
    "Load",
    "Motor",
    "RigidBody",
    "ShapeMatchingEnergy",
    "SolverState",
    "SpringEnergy",
    "Stall",
    "StepError",
    "StepReport",
    "TargetEnergy",
    "gravity",
]
