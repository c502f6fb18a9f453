"""Convex hulls in contact with each other, with half spaces and with ellipsoids: where, how deep, which way.

Corners and faces of all hulls are in world coordinates, as they lie at the end of the substep: `pose_hulls`.
Two hulls touch along the axis on which they overlap least: the normal of a face, or the direction across an
edge of each. The part of one face above the other is then their contact.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.ellipsoids import shape_matrix, support
from .colliders import away, scaled, unscaling

__all__ = [
    "CONTACT", "GAP", "NORMAL", "POINT", "SIZE", "collect_contacts", "collect_particle_contacts",
    "collect_plane_contacts", "meets", "near_hulls", "pose_hulls",
]  # fmt: skip

# Columns of a contact.
NORMAL = 0  # from the first side to the second (3)
POINT = 3  # on the first side (3), m
GAP = 6  # negative for an overlap, m
SIZE = 7  # of the smaller one, which recovery is measured by, m
CONTACT = 8

# Ratio to the size of a hull: contacts that are farther apart are not looked at.
MARGIN = 0.02
# Ratio to the size of a hull by which an axis has to be better than that of a face, so that faces are taken.
PREFERENCE = 0.005
# Ratio to the size of a hull: what goes farther in a substep is followed on its way.
FAST = 0.25
# Corners of a polygon that is cut.
CORNERS = 64


@kernel
def pose_hulls(start, stop, hulls, poses, world):
    """Compute corners, normals and middles of hulls that stand at p = R q + t, `poses` (hulls, 12)."""
    for k in range(start, stop):
        R = poses[k]
        for e in range(hulls.corner_starts[k], hulls.corner_starts[k + 1]):
            _posed(R, hulls.corners[e], 1.0, world.corners[e])
        for f in range(hulls.face_starts[k], hulls.face_starts[k + 1]):
            _posed(R, hulls.normals[f], 0.0, world.normals[f])
            n, p = world.normals[f], world.corners[hulls.loops[hulls.loop_starts[f]]]
            world.offsets[f] = n[0] * p[0] + n[1] * p[1] + n[2] * p[2]
        _posed(R, hulls.middles[k], 1.0, world.middles[k])


@kernel
def _posed(R, q, f, p):
    """Compute p = R q + f t."""
    for j in range(3):
        p[j] = R[3 * j] * q[0] + R[3 * j + 1] * q[1] + R[3 * j + 2] * q[2] + f * R[9 + j]


@kernel
def _face_axis(a, b, shift, hulls, world):
    """Return the face of hull a that is farthest from hull b + shift, and its distance, negative if deep."""
    best, face = -math.inf, -1
    for f in range(hulls.face_starts[a], hulls.face_starts[a + 1]):
        n = world.normals[f]
        least = math.inf
        for e in range(hulls.corner_starts[b], hulls.corner_starts[b + 1]):
            p = world.corners[e]
            least = min(least, n[0] * p[0] + n[1] * p[1] + n[2] * p[2])
        gap = least + n[0] * shift[0] + n[1] * shift[1] + n[2] * shift[2] - world.offsets[f]
        if gap > best:
            best, face = gap, f
    return face, best


@kernel
def _edge_axis(a, b, shift, hulls, world, axis, ends):
    """Return how far two edges are apart along the direction across both, at the best; `axis` from a to b.

    Only edges whose normals cross on the sphere of directions bound the difference of the hulls.
    """
    best = -math.inf
    c = world.middles[a]
    for e in range(hulls.edge_starts[a], hulls.edge_starts[a + 1]):
        p, q = world.corners[hulls.edges[e, 0]], world.corners[hulls.edges[e, 1]]
        m, n = world.normals[hulls.edges[e, 2]], world.normals[hulls.edges[e, 3]]
        ux, uy, uz = q[0] - p[0], q[1] - p[1], q[2] - p[2]
        vx, vy, vz = n[1] * m[2] - n[2] * m[1], n[2] * m[0] - n[0] * m[2], n[0] * m[1] - n[1] * m[0]
        for f in range(hulls.edge_starts[b], hulls.edge_starts[b + 1]):
            s, t = world.normals[hulls.edges[f, 2]], world.normals[hulls.edges[f, 3]]
            first = -(s[0] * vx + s[1] * vy + s[2] * vz)
            second = -(t[0] * vx + t[1] * vy + t[2] * vz)
            if first * second >= 0.0:
                continue
            wx, wy, wz = t[1] * s[2] - t[2] * s[1], t[2] * s[0] - t[0] * s[2], t[0] * s[1] - t[1] * s[0]
            third = m[0] * wx + m[1] * wy + m[2] * wz
            fourth = n[0] * wx + n[1] * wy + n[2] * wz
            if third * fourth >= 0.0 or first * fourth <= 0.0:
                continue
            g, o = world.corners[hulls.edges[f, 0]], world.corners[hulls.edges[f, 1]]
            dx, dy, dz = o[0] - g[0], o[1] - g[1], o[2] - g[2]
            x, y, z = uy * dz - uz * dy, uz * dx - ux * dz, ux * dy - uy * dx
            length = math.sqrt(x * x + y * y + z * z)
            if length * length < 1e-6 * (ux * ux + uy * uy + uz * uz) * (dx * dx + dy * dy + dz * dz):
                continue
            if x * (p[0] - c[0]) + y * (p[1] - c[1]) + z * (p[2] - c[2]) < 0.0:
                length = -length
            x, y, z = x / length, y / length, z / length
            gap = x * (g[0] + shift[0] - p[0]) + y * (g[1] + shift[1] - p[1]) + z * (g[2] + shift[2] - p[2])
            if gap > best:
                best = gap
                axis[0], axis[1], axis[2] = x, y, z
                ends[0], ends[1] = e, f
    return best


@kernel
def meets(a, b, shift, hulls, world, axis, ends):
    """Return whether two hulls overlap, the second of them shifted."""
    return (
        _face_axis(a, b, shift, hulls, world)[1] <= 0.0
        and _face_axis(b, a, (-shift[0], -shift[1], -shift[2]), hulls, world)[1] <= 0.0
        and _edge_axis(a, b, shift, hulls, world, axis, ends) <= 0.0
    )


@kernel
def _cut(polygon, count, n, offset, result):
    """Cut a polygon by the half space n x <= offset; return how many corners are left in `result`."""
    left = 0
    for k in range(count):
        p, q = polygon[k], polygon[(k + 1) % count]
        a = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - offset
        b = n[0] * q[0] + n[1] * q[1] + n[2] * q[2] - offset
        if a <= 0.0 and left < CORNERS:
            result[left, 0], result[left, 1], result[left, 2] = p[0], p[1], p[2]
            left += 1
        if (a < 0.0 < b or b < 0.0 < a) and left < CORNERS:
            t = a / (a - b)
            for j in range(3):
                result[left, j] = p[j] + t * (q[j] - p[j])
            left += 1
    return left


@kernel
def _face_contacts(b, face, shift, margin, flipped, solids, room, found):
    """Write the contacts of a face of a hull with hull b + shift; return how many there are then in `found`.

    `flipped` says that b is the first side.
    """
    (hulls, world), (one, other) = solids, room
    n = world.normals[face]
    against, least = -1, math.inf
    for f in range(hulls.face_starts[b], hulls.face_starts[b + 1]):
        m = world.normals[f]
        dot = n[0] * m[0] + n[1] * m[1] + n[2] * m[2]
        if dot < least:
            against, least = f, dot
    count = 0
    for e in range(hulls.loop_starts[against], hulls.loop_starts[against + 1]):
        p = world.corners[hulls.loops[e]]
        for j in range(3):
            one[count, j] = p[j] + shift[j]
        count += 1
    side = np.empty(3)
    first, end = hulls.loop_starts[face], hulls.loop_starts[face + 1]
    for e in range(first, end):
        p = world.corners[hulls.loops[e]]
        q = world.corners[hulls.loops[e + 1 if e + 1 < end else first]]
        x, y, z = q[0] - p[0], q[1] - p[1], q[2] - p[2]
        side[0], side[1], side[2] = y * n[2] - z * n[1], z * n[0] - x * n[2], x * n[1] - y * n[0]
        count = _cut(one, count, side, side[0] * p[0] + side[1] * p[1] + side[2] * p[2], other)
        one, other = other, one
    contacts, total = found
    for k in range(count):
        p = one[k]
        gap = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - world.offsets[face]
        if gap > margin:
            continue
        if total < len(contacts):
            c = contacts[total]
            sign = -1.0 if flipped else 1.0
            for j in range(3):
                c[NORMAL + j] = sign * n[j]
                # On the first side: on the face itself, or on the other hull where it is.
                c[POINT + j] = p[j] - shift[j] if flipped else p[j] - gap * n[j]
            c[GAP] = gap - (n[0] * shift[0] + n[1] * shift[1] + n[2] * shift[2])
        total += 1
    return total


@kernel
def _edge_contact(shift, solids, best, gap, found):
    """Write the contact of two edges, where they are closest."""
    (hulls, world), (axis, ends) = solids, best
    contacts, total = found
    if total < len(contacts):
        p, q = world.corners[hulls.edges[ends[0], 0]], world.corners[hulls.edges[ends[0], 1]]
        g, o = world.corners[hulls.edges[ends[1], 0]], world.corners[hulls.edges[ends[1], 1]]
        u, v = (q[0] - p[0], q[1] - p[1], q[2] - p[2]), (o[0] - g[0], o[1] - g[1], o[2] - g[2])
        w = (p[0] - g[0] - shift[0], p[1] - g[1] - shift[1], p[2] - g[2] - shift[2])
        uu = u[0] * u[0] + u[1] * u[1] + u[2] * u[2]
        uv = u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
        vv = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
        uw = u[0] * w[0] + u[1] * w[1] + u[2] * w[2]
        vw = v[0] * w[0] + v[1] * w[1] + v[2] * w[2]
        t = min(max((uv * vw - vv * uw) / (uu * vv - uv * uv), 0.0), 1.0)
        c = contacts[total]
        for j in range(3):
            c[NORMAL + j] = axis[j]
            c[POINT + j] = p[j] + t * u[j]
        c[GAP] = gap - (axis[0] * shift[0] + axis[1] * shift[1] + axis[2] * shift[2])
    return total + 1


@kernel
def collect_contacts(pairs, hulls, world, moves, room, contacts, counts):
    """Write the contacts of pairs of hulls (k, 2); counts (k,) become those of each pair; return their sum.

    `moves` (hulls, 3) are the displacements of the hulls' middles in the substep. What goes far is followed
    from where it came, and stopped where it first meets the other. There may be more than there is room for.
    """
    axis, ends = np.empty(3), np.empty(2, np.int64)
    total = 0
    for k in range(len(pairs)):
        a, b = pairs[k, 0], pairs[k, 1]
        before = total
        size = min(hulls.sizes[a], hulls.sizes[b])
        x, y, z = moves[b, 0] - moves[a, 0], moves[b, 1] - moves[a, 1], moves[b, 2] - moves[a, 2]
        steps = min(1000.0, math.ceil(math.sqrt(x * x + y * y + z * z) / (FAST * size)))
        shift, margin = (0.0, 0.0, 0.0), MARGIN * size
        if steps > 1.0:
            for s in range(int(steps)):
                f = -(1.0 - (s + 1) / steps)
                if meets(a, b, (f * x, f * y, f * z), hulls, world, axis, ends):
                    # The last place where they were apart, or the one where they began.
                    f -= 1.0 / steps
                    shift, margin = (f * x, f * y, f * z), FAST * size + MARGIN * size
                    break
        found = (contacts, total)
        total = _pair_contacts((a, b), shift, margin, size, (hulls, world), room, (axis, ends), found)
        counts[k] = total - before
        for e in range(before, min(total, len(contacts))):
            contacts[e, SIZE] = size
    return total


@kernel
def _pair_contacts(sides, shift, margin, size, solids, room, best, found):
    """Write the contacts of two hulls, the second of them shifted; return how many contacts there are."""
    (a, b), (hulls, world), (axis, ends) = sides, solids, best
    back = (-shift[0], -shift[1], -shift[2])
    f, deep_f = _face_axis(a, b, shift, hulls, world)
    if deep_f > margin:
        return found[1]
    g, deep_g = _face_axis(b, a, back, hulls, world)
    if deep_g > margin:
        return found[1]
    deep = _edge_axis(a, b, shift, hulls, world, axis, ends)
    if deep > margin:
        return found[1]
    if deep > max(deep_f, deep_g) + PREFERENCE * size:
        return _edge_contact(shift, solids, best, deep, found)
    if deep_g > deep_f + PREFERENCE * size:
        return _face_contacts(a, g, back, margin, True, solids, room, found)
    return _face_contacts(b, f, shift, margin, False, solids, room, found)


@kernel
def near_hulls(hulls, world, moves, family, movable, pairs):
    """List the pairs of hulls whose swept balls meet; return how many, which may be more than there is room.

    Hulls of one family, or neither of which is movable, do not collide.
    """
    count, total = len(hulls.sizes), 0
    for a in range(count):
        p = world.middles[a]
        for b in range(a + 1, count):
            if not (movable[a] or movable[b]) or (family[a] >= 0 and family[a] == family[b]):
                continue
            q = world.middles[b]
            square = move = 0.0
            for j in range(3):
                d = moves[b, j] - moves[a, j]
                square += (q[j] - p[j] - 0.5 * d) ** 2
                move += d * d
            reach = 1.1 * (hulls.bounds[a] + hulls.bounds[b]) + 0.5 * math.sqrt(move)
            if square < reach * reach:
                if total < len(pairs):
                    pairs[total, 0], pairs[total, 1] = a, b
                total += 1
    return total


@kernel
def collect_plane_contacts(a, normal, offset, hulls, world, contacts, total):
    """Write the contacts of hull a with the half space n x <= offset, from there to the hull."""
    margin = MARGIN * hulls.sizes[a]
    for e in range(hulls.corner_starts[a], hulls.corner_starts[a + 1]):
        p = world.corners[e]
        gap = normal[0] * p[0] + normal[1] * p[1] + normal[2] * p[2] - offset
        if gap > margin:
            continue
        if total < len(contacts):
            c = contacts[total]
            for j in range(3):
                c[NORMAL + j] = normal[j]
                c[POINT + j] = p[j] - gap * normal[j]
            c[GAP], c[SIZE] = gap, hulls.sizes[a]
        total += 1
    return total


@kernel
def collect_particle_contacts(solids, poses, moves, hidden, particles, buffers, contacts, sides):
    """Write the contacts of all hulls with particles that are not `hidden` in them, from hull to particle.

    sides (k, 2) take the numbers of hull and particle. `poses` are a pair (hulls, 12) of before and now.
    There may be more than there is room for.
    """
    hulls, world = solids
    bounds, fixed, C = particles.bounds, particles.fixed, particles.shapes
    X, P, E = buffers.X, buffers.P, buffers.E
    G, M, normal, start = np.empty(9), np.empty(9), np.empty(3), np.empty(3)
    total = 0
    for i in range(len(bounds)):
        if hidden[i]:
            continue
        for a in range(len(hulls.sizes)):
            if fixed[i] and hulls.leads[a] < 0:
                continue
            square = way = 0.0
            for j in range(3):
                square += (P[i, j] - world.middles[a, j]) ** 2
                way += (P[i, j] - X[i, j] - moves[a, j]) ** 2
            if square > (1.1 * (bounds[i] + hulls.bounds[a]) + math.sqrt(way)) ** 2:
                continue
            # Where the particle began, as seen from the hull as it lies now.
            way = 0.0
            for j in range(3):
                start[j] = poses[1][a, 9 + j]
                for k in range(3):
                    back = 0.0
                    for e in range(3):
                        back += poses[0][a, 3 * e + k] * (X[i, e] - poses[0][a, 9 + e])
                    start[j] += poses[1][a, 3 * j + k] * back
                way += (P[i, j] - start[j]) ** 2
            shape_matrix(E[i], C[i], G)
            gap = _ellipsoid_gap(a, P[i], start, way > bounds[i] ** 2, G, M, solids, normal)
            if gap > MARGIN * bounds[i]:
                continue
            if total < len(contacts):
                sides[total, 0], sides[total, 1] = a, i
                c, r = contacts[total], support(G, normal[0], normal[1], normal[2])
                for j in range(3):
                    lever = (G[3 * j] * normal[0] + G[3 * j + 1] * normal[1] + G[3 * j + 2] * normal[2]) / r
                    c[NORMAL + j] = normal[j]
                    c[POINT + j] = P[i, j] - lever - gap * normal[j]
                c[GAP], c[SIZE] = gap, bounds[i]
            total += 1
    return total


@kernel
def _ellipsoid_gap(a, p, start, fast, G, M, solids, normal):
    """Return how far an ellipsoid at p is from hull a, negative if they overlap; `normal` from the hull."""
    hulls, world = solids
    first, end = hulls.face_starts[a], hulls.face_starts[a + 1]
    best, inside, enter, leave, entered = -math.inf, True, 0.0, 1.0, -1
    for f in range(first, end):
        n = world.normals[f]
        height = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - world.offsets[f]
        inside = inside and height <= 0.0
        gap = height - support(G, n[0], n[1], n[2])
        if gap > best:
            best = gap
            normal[0], normal[1], normal[2] = n[0], n[1], n[2]
        if fast:
            came = n[0] * start[0] + n[1] * start[1] + n[2] * start[2] - world.offsets[f]
            if came > height and came / (came - height) > enter:
                enter, entered = came / (came - height), f
            elif came < height:
                leave = min(leave, came / (came - height))
            elif came == height and came > 0.0:
                leave = -1.0
    if fast and entered >= 0 and enter <= leave:
        # It went into the hull on its way, and leaves it by the same face.
        n = world.normals[entered]
        normal[0], normal[1], normal[2] = n[0], n[1], n[2]
        height = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - world.offsets[entered]
        return height - support(G, n[0], n[1], n[2])
    if inside or best > 0.0:
        return best
    unscaling(G, M)
    least = math.inf
    for f in range(first, end):
        n = world.normals[f]
        if n[0] * p[0] + n[1] * p[1] + n[2] * p[2] <= world.offsets[f]:
            continue  # only faces that are seen from the centre can be the nearest
        e = hulls.loop_starts[f]
        q = world.corners[hulls.loops[e]]
        u = scaled(M, q[0] - p[0], q[1] - p[1], q[2] - p[2])
        for k in range(e + 1, hulls.loop_starts[f + 1] - 1):
            q, r = world.corners[hulls.loops[k]], world.corners[hulls.loops[k + 1]]
            v = scaled(M, q[0] - p[0], q[1] - p[1], q[2] - p[2])
            w = scaled(M, r[0] - p[0], r[1] - p[1], r[2] - p[2])
            x, y, z = _nearest(u, v, w)
            square = x * x + y * y + z * z
            if square < least:
                least = square
                normal[0], normal[1], normal[2] = away(M, x, y, z)
    return (math.sqrt(least) - 1.0) * support(G, normal[0], normal[1], normal[2])


@kernel
def _dot(u, v):
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


@kernel
def _nearest(a, b, c):
    """Return the point of the triangle a, b, c that is nearest to the origin, by its Voronoi regions."""
    ab, ac = (b[0] - a[0], b[1] - a[1], b[2] - a[2]), (c[0] - a[0], c[1] - a[1], c[2] - a[2])
    d1, d2 = -_dot(ab, a), -_dot(ac, a)
    if d1 <= 0.0 and d2 <= 0.0:
        return a
    d3, d4 = -_dot(ab, b), -_dot(ac, b)
    if d3 >= 0.0 and d4 <= d3:
        return b
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / (d1 - d3)
        return (a[0] + t * ab[0], a[1] + t * ab[1], a[2] + t * ab[2])
    d5, d6 = -_dot(ab, c), -_dot(ac, c)
    if d6 >= 0.0 and d5 <= d6:
        return c
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / (d2 - d6)
        return (a[0] + t * ac[0], a[1] + t * ac[1], a[2] + t * ac[2])
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return (b[0] + t * (c[0] - b[0]), b[1] + t * (c[1] - b[1]), b[2] + t * (c[2] - b[2]))
    s, t = vb / (va + vb + vc), vc / (va + vb + vc)
    return (a[0] + s * ab[0] + t * ac[0], a[1] + s * ab[1] + t * ac[1], a[2] + s * ab[2] + t * ac[2])
