"""A run with an object of every kind, to be written and read again."""

import numpy as np

from pointglue.geometry.shapes import box
from pointglue.io import Frame, FrameStore, StoredObject

CLOTH = np.array([[0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1.0]])
BOX, BOX_FACES = box((0.2, 0.3, 0.4), (1, 1, 1))


def stored_objects():
    return [
        StoredObject(name="cloth", rest=CLOTH, faces=[[0, 2, 1], [0, 3, 2]], color=(0.9, 0.1, 0.1)),
        StoredObject(name="box", rest=BOX, faces=BOX_FACES, color=(0.1, 0.1, 0.9), motion="transform"),
        StoredObject(
            name="rope",
            rest=[[0, 0, 0], [0.5, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1.0]],
            segments=[[0, 1], [1, 2], [3, 4]],
            radius=0.02,
            color=(0.9, 0.7, 0.2),
        ),
        StoredObject(name="dust", rest=np.float32([[0, 0.5, 0], [1, 0.5, 1]]), radius=0.03),
        StoredObject(
            name="stone", rest=0.5 * BOX - [0.6, 0, 0], faces=BOX_FACES, color=(0.5, 0.5, 0.5), motion="still"
        ),
    ]


def frame(number, first=1, rate=24.0):
    rng, time = np.random.default_rng(number), (number - first) / rate
    c, s = np.cos(time), np.sin(time)
    transform = np.array([[c, 0, s, 0.1], [0, 1, 0, 1 - time], [-s, 0, c, time], [0, 0, 0, 1]])
    return Frame(
        number=number,
        time=time,
        points={
            "cloth": CLOTH + 0.1 * rng.standard_normal((4, 3)),
            "rope": 0.1 * rng.standard_normal((5, 3)),
            "dust": rng.random((2, 3)).astype(np.float32),
        },
        transforms={"box": transform},
        stats={"iterations": number, "residual": 0.1 / number},
    )


def write_run(directory, numbers=range(1, 4), **options):
    with FrameStore.create(directory, stored_objects(), **{"rate": 24.0, **options}) as store:
        for number in numbers:
            store.add(frame(number))
    return store
