"""Contact of thin parts: particles with triangles and edges, and edges with each other, continuously.

A contact has four particles with weights c_k that add up to 0: their point of contact on one side minus that
on the other is sum_k c_k x_k. A point stands against a triangle with weights (1, -a, -b, -c), two edges with
(1 - s, s, t - 1, -t); a point against an edge is an edge whose ends are one particle.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.distances import between_segments, on_triangle
from ..shapes.ellipsoids import shape_matrix, support
from .rigid import apply_impulse, corrected_position, inverse_effective_mass

__all__ = [
    "NEIGHBOURS", "choose_candidates", "find_crossings", "find_passing", "item_paths", "note_moves",
    "separate_thin", "survey", "thin_friction", "thin_restitution",
]  # fmt: skip

# How far from their ends edges cross, as a share of them, and how near they come there.
_INNER, _NEAR = 0.05, 0.1
# Steps of the search for the time of a contact; each takes what is left of the distance off.
_MARCH = 64
# Share of the distance of contact that is left when the search ends.
_TOUCH = 1.02
# Ratio of distances at rest, to that of contact, up to which parts of a body are neighbours there.
NEIGHBOURS = 3.0
# Ratio to the distance of contact: what comes nearer than that may have passed.
_PASSING = 0.1
# Ratios to the distance of contact, and to the way so far, of the margin for what constraints still move.
_MARGIN, _WAYS = 0.5, 2.0


@kernel
def find_crossings(start, stop, pairs, X, cross):
    """Find out which pairs (k, 2, 2) of edges cross each other at rest."""
    for k in range(start, stop):
        a, b, c, d = pairs[k, 0, 0], pairs[k, 0, 1], pairs[k, 1, 0], pairs[k, 1, 1]
        s, t = between_segments(X[a], X[b], X[c], X[d])
        square, size = 0.0, 0.0
        for j in range(3):
            square += (X[a, j] + s * (X[b, j] - X[a, j]) - X[c, j] - t * (X[d, j] - X[c, j])) ** 2
            size += (X[b, j] - X[a, j]) ** 2
        inner = _INNER < s < 1.0 - _INNER and _INNER < t < 1.0 - _INNER
        cross[k] = inner and square < _NEAR * _NEAR * size


@kernel
def note_moves(which, margin, P, seen) -> bool:
    """Return whether a particle is farther than a margin from where it was `seen`, in any coordinate, or NaN.

    If so, all are seen where they are now.
    """
    moved = False
    for k in range(len(which)):
        for j in range(3):
            moved = moved or not abs(P[which[k], j] - seen[k, j]) <= margin
    if moved:
        for k in range(len(which)):
            for j in range(3):
                seen[k, j] = P[which[k], j]
    return moved


@kernel
def survey(sheets, piece_of, bounds, X, P, E, found) -> None:
    """Find out which patches of sheets may meet something, and which particles may meet a patch.

    Where all rotations of a sheet are within an angle a of one rotation, two of its points are at least
    (1 - 2 k sin(a / 2)) times as far from each other as at rest, k the largest ratio of their distance along
    the sheet to that through space: while that is above 0, it is calm, since it cannot meet itself.
    """
    sheet_of, patch_of, detours = sheets.sheet_of, sheets.patch_of, sheets.detours
    calm, boxes, active, wanted = found.calm, found.boxes, found.active, found.wanted
    _find_calm(sheet_of, detours, E, calm)
    count = len(boxes) - 1  # the last one is about them all
    for p in range(count + 1):
        for j in range(3):
            boxes[p, j], boxes[p, 3 + j] = math.inf, -math.inf
    for k in range(len(sheets.corners)):
        i = sheets.corners[k]
        _widen(boxes[sheets.patches[k]], i, bounds[i], X, P)
    for p in range(count):
        active[p] = not calm[sheets.sheets[p]]
        for j in range(3):
            boxes[count, j] = min(boxes[count, j], boxes[p, j])
            boxes[count, 3 + j] = max(boxes[count, 3 + j], boxes[p, 3 + j])
    for p in range(count):
        for q in range(p):
            if sheets.sheets[p] != sheets.sheets[q] and _overlap(boxes[p], boxes[q]):
                active[p] = active[q] = True
    box = np.empty(6)
    for i in range(len(sheet_of)):
        wanted[i] = False
        if sheet_of[i] >= 0:
            continue
        for j in range(3):
            box[j], box[3 + j] = math.inf, -math.inf
        _widen(box, i, bounds[i], X, P)
        if _overlap(box, boxes[count]):
            for p in range(count):
                own = sheets.pieces[sheets.sheets[p]] == piece_of[i]
                if not (own and calm[sheets.sheets[p]]) and _overlap(box, boxes[p]):
                    active[p] = wanted[i] = True
    for i in range(len(sheet_of)):
        if sheet_of[i] >= 0:
            wanted[i] = active[patch_of[i]]


@kernel
def _find_calm(sheet_of, detours, E, calm):
    """Find out which sheets cannot meet themselves: see `survey`."""
    count = len(calm)
    Q, least = np.zeros((count, 9)), np.full(count, 3.0)
    for i in range(len(sheet_of)):
        if sheet_of[i] >= 0:
            for j in range(9):
                Q[sheet_of[i], j] += E[i, j]
    for p in range(count):
        _orthonormalise(Q[p])
    for i in range(len(sheet_of)):
        p = sheet_of[i]
        if p >= 0:
            trace = 0.0
            for j in range(9):
                trace += Q[p, j] * E[i, j]
            least[p] = min(least[p], trace)
    for p in range(count):
        calm[p] = 0.25 * (3.0 - least[p]) <= (0.5 / detours[p]) ** 2


@kernel
def _widen(box, i, reach, X, P):
    """Widen a box, (6,), so that it holds the path of a particle."""
    for j in range(3):
        box[j] = min(box[j], X[i, j] - reach, P[i, j] - reach)
        box[3 + j] = max(box[3 + j], X[i, j] + reach, P[i, j] + reach)


@kernel
def _orthonormalise(Q):
    """Make a matrix a rotation: its first row, its second without that, and their cross product."""
    a = math.sqrt(Q[0] * Q[0] + Q[1] * Q[1] + Q[2] * Q[2])
    for j in range(3):
        Q[j] = Q[j] / a if a > 0.0 else 0.0
    a = Q[0] * Q[3] + Q[1] * Q[4] + Q[2] * Q[5]
    for j in range(3):
        Q[3 + j] -= a * Q[j]
    a = math.sqrt(Q[3] * Q[3] + Q[4] * Q[4] + Q[5] * Q[5])
    for j in range(3):
        Q[3 + j] = Q[3 + j] / a if a > 0.0 else 0.0
    Q[6], Q[7], Q[8] = Q[1] * Q[5] - Q[2] * Q[4], Q[2] * Q[3] - Q[0] * Q[5], Q[0] * Q[4] - Q[1] * Q[3]


@kernel
def _overlap(a, b):
    """Return whether two boxes, (6,) each, overlap."""
    return a[0] <= b[3] and b[0] <= a[3] and a[1] <= b[4] and b[1] <= a[4] and a[2] <= b[5] and b[2] <= a[5]


@kernel
def item_paths(start, stop, members, radii, X, P, paths):
    """Compute the centres of items (k, m) of particles before and after, and balls that hold them [m]."""
    begin, end, bounds = paths
    count = members.shape[1]
    for k in range(start, stop):
        for j in range(3):
            begin[k, j] = end[k, j] = 0.0
            for m in range(count):
                begin[k, j] += X[members[k, m], j] / count
                end[k, j] += P[members[k, m], j] / count
        most = 0.0
        for m in range(count):
            before = after = 0.0
            for j in range(3):
                before += (X[members[k, m], j] - begin[k, j]) ** 2
                after += (P[members[k, m], j] - end[k, j]) ** 2
            most = max(most, before, after)
        bounds[k] = radii[k] + math.sqrt(most)


@kernel
def choose_candidates(start, stop, family, particles, X, P, candidates, kept):
    """Keep the candidates whose parts may meet, and set the distance at which they do, and where they start.

    What shares a particle, a family, or is fixed altogether does not meet, nor do neighbours at rest: their
    particles keep these apart, and their shape does.
    """
    faces, reach, starts = candidates.faces, candidates.reach, candidates.starts
    fixed, piece_of, bounds, rest = particles.fixed, particles.piece_of, particles.bounds, particles.rest
    c = np.empty(4)
    for k in range(start, stop):
        v, split = candidates.particles[k], 1 if faces[k] else 2
        kept[k] = not (fixed[v[0]] and fixed[v[1]] and fixed[v[2]] and fixed[v[3]])
        for m in range(split):
            for e in range(split, 4):
                related = family[v[m]] >= 0 and family[v[m]] == family[v[e]]
                if v[m] == v[e] or related:
                    kept[k] = False
        if not kept[k]:
            continue
        starts[k] = _gap(v, faces[k], 0.0, X, P, c)[0]
        widest = reach[k] + (bounds[v[0]] if candidates.bulky[k] else 0.0)
        kept[k] = starts[k] < (1.0 + _MARGIN) * widest + _WAYS * _relative_way(v, split, X, P)
        if kept[k] and piece_of[v[0]] == piece_of[v[3]]:
            kept[k] = _gap(v, faces[k], 0.0, rest, rest, c)[0] > NEIGHBOURS * widest


@kernel
def _gap(v, face, t, X, P, c):
    """Return the distance of the two sides at a time from 0 to 1 on the way from X to P, and its direction.

    The weights go into c. The direction is from the second side to the first; zero if they meet.
    """
    s = 1.0 - t
    p0 = (s * X[v[0], 0] + t * P[v[0], 0], s * X[v[0], 1] + t * P[v[0], 1], s * X[v[0], 2] + t * P[v[0], 2])
    p1 = (s * X[v[1], 0] + t * P[v[1], 0], s * X[v[1], 1] + t * P[v[1], 1], s * X[v[1], 2] + t * P[v[1], 2])
    p2 = (s * X[v[2], 0] + t * P[v[2], 0], s * X[v[2], 1] + t * P[v[2], 1], s * X[v[2], 2] + t * P[v[2], 2])
    p3 = (s * X[v[3], 0] + t * P[v[3], 0], s * X[v[3], 1] + t * P[v[3], 1], s * X[v[3], 2] + t * P[v[3], 2])
    if face:
        a, b, d = on_triangle(p0, p1, p2, p3)
        c[0], c[1], c[2], c[3] = 1.0, -a, -b, -d
    else:
        a, b = between_segments(p0, p1, p2, p3)
        c[0], c[1], c[2], c[3] = 1.0 - a, a, b - 1.0, -b
    x = c[0] * p0[0] + c[1] * p1[0] + c[2] * p2[0] + c[3] * p3[0]
    y = c[0] * p0[1] + c[1] * p1[1] + c[2] * p2[1] + c[3] * p3[1]
    z = c[0] * p0[2] + c[1] * p1[2] + c[2] * p2[2] + c[3] * p3[2]
    d = math.sqrt(x * x + y * y + z * z)
    if d == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    return d, x / d, y / d, z / d


@kernel
def _relative_way(v, split, X, P):
    """Return how far the two sides come towards each other between X and P, at most [m]."""
    first = second = 0.0
    mx = my = mz = 0.0
    for m in range(4):
        mx += 0.25 * (P[v[m], 0] - X[v[m], 0])
        my += 0.25 * (P[v[m], 1] - X[v[m], 1])
        mz += 0.25 * (P[v[m], 2] - X[v[m], 2])
    for m in range(4):
        i = v[m]
        x, y, z = P[i, 0] - X[i, 0] - mx, P[i, 1] - X[i, 1] - my, P[i, 2] - X[i, 2] - mz
        way = math.sqrt(x * x + y * y + z * z)
        if m < split:
            first = max(first, way)
        else:
            second = max(second, way)
    return first + second


@kernel
def _contact(k, candidates, shapes, X, P, E, G, c):
    """Return the distance of contact [m], or -1 for none, and the normal from the second side to the first.

    The weights go into c. If one may have passed the other on the way, it is where they first came as near
    as that; if it cannot have, where they are at the end.
    """
    v, face, reach = candidates.particles[k], candidates.faces[k], candidates.reach[k]
    bulky, begun = candidates.bulky[k], candidates.starts[k]
    widest = reach
    if bulky:
        shape_matrix(E[v[0]], shapes[v[0]], G)
        widest = reach + math.sqrt(max(G[0], G[4], G[8]) + abs(G[1]) + abs(G[2]) + abs(G[5]))
    way = _relative_way(v, 1 if face else 2, X, P)
    if begun - way >= widest:
        return -1.0, 0.0, 0.0, 0.0
    if way < begun:
        d, nx, ny, nz = _gap(v, face, 1.0, X, P, c)
        distance = reach + (support(G, nx, ny, nz) if bulky else 0.0)
        return (distance if d < distance else -1.0), nx, ny, nz
    t = 0.0
    for _ in range(_MARCH):
        d, nx, ny, nz = _gap(v, face, t, X, P, c)
        distance = reach + (support(G, nx, ny, nz) if bulky else 0.0)
        if d <= _TOUCH * distance:
            break
        t += (d - distance) / way
        if t >= 1.0:
            return -1.0, 0.0, 0.0, 0.0
    # From there on neither goes beyond the plane between them, though it may have slid past the other's end.
    gap = 0.0
    for m in range(4):
        gap += c[m] * (nx * P[v[m], 0] + ny * P[v[m], 1] + nz * P[v[m], 2])
    if gap < distance:
        return distance, nx, ny, nz
    d, nx, ny, nz = _gap(v, face, 1.0, X, P, c)
    distance = reach + (support(G, nx, ny, nz) if bulky else 0.0)
    return (distance if d < distance else -1.0), nx, ny, nz


@kernel
def _inverse_mass(v, c, points, normal, group_of, rows, inverse_mass):
    """Return how far the two sides part along the normal for an impulse of 1.

    What moves as one may have several corners, which help each other: then c^2 would be too little.
    """
    w = 0.0
    for m in range(4):
        point = (points[m, 0], points[m, 1], points[m, 2])
        share = abs(c[m]) if group_of[v[m]] >= 0 else c[m] * c[m]
        w += share * inverse_effective_mass(v[m], point, normal, group_of, rows, inverse_mass)
    if v[0] == v[1]:
        w += 2.0 * c[0] * c[1] * inverse_mass[v[0]] if group_of[v[0]] < 0 else 0.0
    return w


@kernel
def separate_thin(start, stop, base, recovery, candidates, groups, particles, buffers):
    """Move the two sides of each contact apart, by impulses along its normal on its four particles.

    Overlaps of before the substep are resolved by at most `recovery` times the distance of contact.
    """
    depths, normals, weights = candidates.depths, candidates.normals, candidates.weights
    inverse_mass, piece_of, C = particles.inverse_mass, particles.piece_of, particles.shapes
    group_of, rows = groups.group_of, groups.rows
    X, P, E, touched = buffers.X, buffers.P, buffers.E, buffers.touched
    G, c, points = np.empty(9), np.empty(4), np.empty((4, 3))
    for k in range(base + start, base + stop):
        v = candidates.particles[k]
        distance, nx, ny, nz = _contact(k, candidates, C, X, P, E, G, c)
        if distance <= 0.0:
            continue
        normal = (nx, ny, nz)
        same = piece_of[v[0]] == piece_of[v[3]]
        gap = before = 0.0
        for m in range(4):
            points[m, 0], points[m, 1], points[m, 2] = corrected_position(v[m], group_of, rows, P)
            gap += c[m] * (nx * points[m, 0] + ny * points[m, 1] + nz * points[m, 2])
            before += c[m] * (nx * X[v[m], 0] + ny * X[v[m], 1] + nz * X[v[m], 2])
        depth = min(distance - gap, before - gap + recovery * distance)
        if depth <= 0.0:
            continue
        w = _inverse_mass(v, c, points, normal, group_of, rows, inverse_mass)
        if w == 0.0:
            continue
        for m in range(4):
            point = (points[m, 0], points[m, 1], points[m, 2])
            apply_impulse(v[m], depth / w * c[m], point, normal, group_of, rows, inverse_mass, P)
            weights[k, m] = c[m]
            if not same:
                touched[v[m]] = True
        depths[k] += depth
        normals[k, 0], normals[k, 1], normals[k, 2] = nx, ny, nz


@kernel
def find_passing(start, stop, candidates, particles, buffers, passing):
    """Find out whose two sides come so near on the way from X to P that they may have passed.

    What starts nearer than that may come half as near.
    """
    C, inverse_mass = particles.shapes, particles.inverse_mass
    X, P, E = buffers.X, buffers.P, buffers.E
    G, c = np.empty(9), np.empty(4)
    for k in range(start, stop):
        v, face, begun = candidates.particles[k], candidates.faces[k], candidates.starts[k]
        passing[k] = False
        way = _relative_way(v, 1 if face else 2, X, P)
        still = inverse_mass[v[0]] + inverse_mass[v[1]] + inverse_mass[v[2]] + inverse_mass[v[3]] == 0.0
        distance = candidates.reach[k]
        if candidates.bulky[k]:
            shape_matrix(E[v[0]], C[v[0]], G)
            distance += math.sqrt(min(G[0], G[4], G[8]))
        least = min(_PASSING * distance, 0.5 * begun)
        if still or begun == 0.0 or begun - way > least:
            continue
        t, d = 0.0, begun
        # Where the search has no end, they are near each other for long.
        for _ in range(_MARCH):
            d = _gap(v, face, t, X, P, c)[0]
            if d <= _TOUCH * least or t >= 1.0:
                break
            t = min(t + (d - least) / way, 1.0)
        passing[k] = t < 1.0 or d <= _TOUCH * least


@kernel
def thin_friction(start, stop, base, friction, candidates, groups, particles, buffers):
    """Apply Coulomb's friction to contacts of thin parts, by impulses on their four particles."""
    mu, depths, normals, weights = friction.sliding, candidates.depths, candidates.normals, candidates.weights
    inverse_mass, group_of, rows = particles.inverse_mass, groups.group_of, groups.rows
    X, P = buffers.X, buffers.P
    points = np.empty((4, 3))
    for k in range(base + start, base + stop):
        if not depths[k] > 0.0:
            continue
        v, c = candidates.particles[k], weights[k]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        x = y = z = 0.0
        for m in range(4):
            points[m, 0], points[m, 1], points[m, 2] = corrected_position(v[m], group_of, rows, P)
            x += c[m] * (points[m, 0] - X[v[m], 0])
            y += c[m] * (points[m, 1] - X[v[m], 1])
            z += c[m] * (points[m, 2] - X[v[m], 2])
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        slip = math.sqrt(x * x + y * y + z * z)
        if slip == 0.0:
            continue
        tangent = (x / slip, y / slip, z / slip)
        w = _inverse_mass(v, c, points, tangent, group_of, rows, inverse_mass)
        if w == 0.0:
            continue
        impulse = min(slip, mu * depths[k]) / w
        for m in range(4):
            point = (points[m, 0], points[m, 1], points[m, 2])
            apply_impulse(v[m], -impulse * c[m], point, tangent, group_of, rows, inverse_mass, P)


@kernel
def thin_restitution(start, stop, base, restitution, candidates, groups, particles, buffers):
    """Limit the speed at which the two sides of a contact part to what it returns."""
    depths, normals, weights = candidates.depths, candidates.normals, candidates.weights
    inverse_mass, group_of, rows = particles.inverse_mass, groups.group_of, groups.rows
    X, V, V0 = buffers.X, buffers.V, buffers.V0
    for k in range(base + start, base + stop):
        if not depths[k] > 0.0:
            continue
        v, c = candidates.particles[k], weights[k]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        approach = speed = w = 0.0
        for m in range(4):
            approach -= c[m] * (V0[v[m], 0] * nx + V0[v[m], 1] * ny + V0[v[m], 2] * nz)
            speed += c[m] * (V[v[m], 0] * nx + V[v[m], 1] * ny + V[v[m], 2] * nz)
        points = np.empty((4, 3))
        for m in range(4):
            for j in range(3):
                points[m, j] = X[v[m], j]
        returned = restitution.coefficient * approach if approach > restitution.threshold else 0.0
        excess = speed - returned
        w = _inverse_mass(v, c, points, (nx, ny, nz), group_of, rows, inverse_mass)
        if w > 0.0 and (excess > 0.0 or returned > 0.0):
            for m in range(4):
                point = (points[m, 0], points[m, 1], points[m, 2])
                apply_impulse(v[m], -excess / w * c[m], point, (nx, ny, nz), group_of, rows, inverse_mass, V)
