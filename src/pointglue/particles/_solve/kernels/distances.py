"""Closest points of two segments, and of a point and a triangle."""

from ....compute import kernel

__all__ = ["between_segments"]


@kernel
def between_segments(a, b, c, d):
    """Return where two segments ab and cd are closest: the share of b in the first and of d in the second.

    Segments may be points. If they are parallel, one of the closest places.
    """
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = d[0] - c[0], d[1] - c[1], d[2] - c[2]
    wx, wy, wz = a[0] - c[0], a[1] - c[1], a[2] - c[2]
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    uw, vw = ux * wx + uy * wy + uz * wz, vx * wx + vy * wy + vz * wz
    det = uu * vv - uv * uv
    # The best on the first line for the second line, then the best on the second segment for that, then the
    # best on the first segment for that.
    s = min(max((uv * vw - vv * uw) / det, 0.0), 1.0) if det > 1e-12 * uu * vv else 0.5
    t = min(max((uv * s + vw) / vv, 0.0), 1.0) if vv > 0.0 else 0.0
    s = min(max((uv * t - uw) / uu, 0.0), 1.0) if uu > 0.0 else 0.0
    return s, t
