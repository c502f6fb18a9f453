"""The core: the best-fit rigid transform of a point set, with exact first and second derivatives."""

from .fit import RigidFit
from .groups import Groups
from .matrices import special_procrustes
from .rest import RestShape, fit_rigid

__all__ = ["Groups", "RestShape", "RigidFit", "fit_rigid", "special_procrustes"]
