import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The first example of a property may compile kernels, so that a deadline would measure the compiler.
settings.register_profile("pointglue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pointglue")


@pytest.fixture
def rng():
    return np.random.default_rng(20110801)
