"""Closest points of two segments, and of a point and a triangle."""

from .....compute import kernel

__all__ = ["between_segments", "on_triangle"]


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


@kernel
def on_triangle(p, a, b, c):
    """Return the shares of the corners a, b and c in the point of a triangle that is closest to p.

    It is the foot of the perpendicular where that falls inside, else the closest point of the three edges.
    """
    ux, uy, uz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    vx, vy, vz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    wx, wy, wz = p[0] - a[0], p[1] - a[1], p[2] - a[2]
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    uw, vw = ux * wx + uy * wy + uz * wz, vx * wx + vy * wy + vz * wz
    det = uu * vv - uv * uv
    if det > 1e-12 * uu * vv:
        s, t = (vv * uw - uv * vw) / det, (uu * vw - uv * uw) / det
        if s >= 0.0 and t >= 0.0 and s + t <= 1.0:
            return 1.0 - s - t, s, t
    s, first = _on_segment(p, a, b)
    t, second = _on_segment(p, a, c)
    r, third = _on_segment(p, b, c)
    if first <= second and first <= third:
        return 1.0 - s, s, 0.0
    if second <= third:
        return 1.0 - t, 0.0, t
    return 0.0, 1.0 - r, r


@kernel
def _on_segment(p, a, b):
    """Return the share of b in the point of a segment that is closest to p, and the squared distance."""
    s, _ = between_segments(a, b, p, p)
    x, y, z = (
        a[0] + s * (b[0] - a[0]) - p[0],
        a[1] + s * (b[1] - a[1]) - p[1],
        a[2] + s * (b[2] - a[2]) - p[2],
    )
    return s, x * x + y * y + z * z
