import pytest
from streams import COUNT

from pointglue.deform import HandleDeformer


@pytest.fixture
def scene(rng):
    """Points, one of them on a handle, and handles before and after."""

    class Scene:
        points = rng.standard_normal((COUNT, 3))
        handles = rng.standard_normal((6, 3))
        now = handles + 0.3 * rng.standard_normal((6, 3))

        def moved(self, points=None, **options):
            points = self.points if points is None else points
            return HandleDeformer(points, self.handles, **options).deform(self.now)

    Scene.points[70] = Scene.handles[2]
    return Scene()
