"""Clouds in files, for tests of deforming them."""

from pathlib import Path

import numpy as np

__all__ = ["COUNT", "VERTEX", "leftovers", "ply", "records"]

COUNT = 333  # of points: no multiple of a block
VERTEX = [("x", "f4"), ("y", "f4"), ("z", "f8"), ("red", "u1"), ("nx", "f4"), ("ny", "f8"), ("nz", "f4")]
PLY_NAMES = {"i1": "char", "u1": "uchar", "i4": "int32", "f4": "float", "f8": "double"}


def records(points, dtype, rng, scale=None):
    """Records at these points; the other fields are noise."""
    dtype = np.dtype(dtype)
    rows = np.frombuffer(rng.bytes(len(points) * dtype.itemsize), dtype).copy()
    for k, name in enumerate("XYZ" if scale else "xyz"):
        rows[name] = np.rint(points[:, k] / scale) if scale else points[:, k]
    return rows


def leftovers(folder, *expected):
    return sorted({path.name for path in Path(folder).iterdir()} - set(expected))


def ply(rows, order="<", before=b"", lists=True, end="\n"):
    """A PLY file of vertices and of faces with lists, as bytes; `before` is an element of bytes."""
    lines = ["ply", f"format binary_{'little' if order == '<' else 'big'}_endian 1.0", "comment a, b  c"]
    if before:
        lines += [f"element camera {len(before)}", "property uchar value"]
    lines += [f"element vertex {len(rows)}"]
    lines += [f"property {PLY_NAMES[rows.dtype[name].str[1:]]} {name}" for name in rows.dtype.names]
    body = before + rows.astype(rows.dtype.newbyteorder(order)).tobytes()
    if lists:
        lines += [f"element face {len(rows) - 2}", "property list uchar int vertex_indices"]
        for k in range(len(rows) - 2):
            body += b"\x03" + np.array([k, k + 1, k + 2], order + "i4").tobytes()
    return (end.join([*lines, "end_header"]) + end).encode() + body
