"""Implicit solids: energies with exact derivatives, and the solver that steps them."""

from .blocks import BlockPattern
from .bodies import Bond, ElasticBody, JointBond
from .cloth import ClothEnergy
from .contact import Contact
from .energy import Damped, Elements, Energy
from .events import BondEvent
from .flesh import FleshEnergy
from .rigid import RigidBody
from .shape_matching import ShapeMatchingEnergy
from .solver import ImplicitSolver
from .springs import ForceEnergy, SpringEnergy, TargetEnergy, gravity
from .state import SolverState, Stall, StepError, StepReport

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
    "ImplicitSolver",
    "JointBond",
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
