"""Contact of particles with each other: the broad phase (a spatial hash), and how two ellipsoids separate."""

import math

import numpy as np

from .....compute import kernel
from ..shapes.distances import between_segments
from ..shapes.ellipsoids import pair_separation, shape_matrix, support
from .rigid import apply_impulse, corrected_position, inverse_effective_mass

__all__ = ["curve_keys", "fill_table", "find_near", "list_pairs", "overlaps", "separate", "shared_blocks"]

# Ratio by which the balls of the broad phase are inflated, since constraints still move the particles.
BROAD_PHASE_INFLATION = 1.1
# The level of the widest cells: what is 2^40 times as large as ordinary particles is everywhere.
COARSEST = 40
# Ratio of the balls about two paths to those of the particles from which on the paths are looked at.
LONG_PATHS = 1.25
# Ratio of distances at rest, to that at which two particles touch, up to which they are neighbours there.
NEIGHBOURS = 3.0
# Cells along each side of the cube that is ordered by the curve, as a power of 2; farther ones begin again.
CURVE_BITS = 10


@kernel
def _row(x, y, level, slots):
    """Return the slot of the cell (x, y, 0) of a level; those of the others of its row follow it."""
    return ((x * 73856093) ^ (y * 19349663) ^ (level * 83492791)) & (slots - 1)


@kernel
def fill_table(bounds, X, P, grid) -> tuple[float, int]:
    """Sort the balls around the paths from X to P into the cells of grids, one for each size of them.

    The cells of level 0 are wide enough for ordinary balls, those of each further level twice as wide. Return
    the width of a cell of level 0 [m] and the levels in use, as bits.
    """
    balls, cells, table, ids = grid.balls, grid.cells, grid.table, grid.ids
    sorted_balls = grid.sorted_balls
    n, slots = len(bounds), len(table) - 2
    # All paths as seen from what they have in common: what moves together has not moved.
    common = np.zeros(3)
    for i in range(n):
        for j in range(3):
            common[j] += (P[i, j] - X[i, j]) / n
    mean = widest = 0.0
    for i in range(n):
        square = 0.0
        for j in range(3):
            way = P[i, j] - X[i, j] - common[j]
            balls[i, j] = X[i, j] + 0.5 * way
            square += way * way
        balls[i, 3] = BROAD_PHASE_INFLATION * bounds[i] + 0.5 * math.sqrt(square)
        widest = max(widest, balls[i, 3])
        mean += balls[i, 3] / n
    cell = 2.0 * min(widest, 1.5 * mean)
    table[:] = 0
    levels = 0
    for i in range(n):
        level, width = 0, cell
        while 2.0 * balls[i, 3] > width and level < COARSEST:
            level, width = level + 1, 2.0 * width
        levels |= 1 << level
        cells[i, 3] = level
        for j in range(3):
            cells[i, j] = np.int64(math.floor(balls[i, j] / width))
        table[((_row(cells[i, 0], cells[i, 1], level, slots) + cells[i, 2]) & (slots - 1)) + 2] += 1
    for k in range(slots):
        table[k + 2] += table[k + 1]
    for i in range(n):
        k = ((_row(cells[i, 0], cells[i, 1], cells[i, 3], slots) + cells[i, 2]) & (slots - 1)) + 1
        ids[table[k]] = i
        for j in range(4):
            sorted_balls[table[k], j] = balls[i, j]
        table[k] += 1
    return cell, levels


@kernel
def curve_keys(start, stop, cell, balls, keys):
    """Compute where the cell of each ball is on a curve that goes through all cells of a cube, near to near.

    The bits of its coordinates, taken in turn (Morton's order).
    """
    for i in range(start, stop):
        key = np.int64(0)
        for j in range(3):
            index = np.int64(math.floor(balls[i, j] / cell))
            for bit in range(CURVE_BITS):
                key |= ((index >> bit) & 1) << (3 * bit + j)
        keys[i] = key


@kernel
def find_near(start, stop, grids, grid, without, bounds, X, found):
    """List for each particle those that may come near it, of its own level and of all coarser ones.

    Of its own level it looks at its cell and at half of the cells around it: the other half finds the same
    pairs from the other side. Coarser levels do not look at finer ones, and are looked at all around. Three
    cells of a row lie side by side in the table. `grids` are what `fill_table` returns. `found` are near
    (n, room) and counts (n,) in the order of the table; counts may exceed the room, which means: ask again
    with more. `without` is a `PairFilter`.
    """
    cells, table, ids, balls = grid.cells, grid.table, grid.ids, grid.sorted_balls
    (cell, levels), (near, counts), slots = grids, found, len(table) - 2
    for s in range(start, stop):
        i, many = ids[s], 0
        x, y, z, reach = balls[s, 0], balls[s, 1], balls[s, 2], balls[s, 3]
        own = cells[i, 3]
        level, width = own, cell * 2.0**own
        while levels >> level:
            used = (levels >> level) & 1
            px, py, pz = cells[i, 0], cells[i, 1], cells[i, 2]
            if level > own and used:
                px, py = np.int64(math.floor(x / width)), np.int64(math.floor(y / width))
                pz = np.int64(math.floor(z / width))
            for row in range((5 if level == own else 9) * used):
                # Of the own level the own row, the next one, and the three of the next column.
                cx, cy = px + (row > 1), py + (row - 3 if row > 1 else row)
                if level > own:
                    cx, cy = px + row // 3 - 1, py + row % 3 - 1
                # In its own row those after it in its cell and the next cell, in the others three cells.
                mine = level == own and row == 0
                across = 2 if mine else 3
                slot = (_row(cx, cy, level, slots) + pz + 2 - across) & (slots - 1)
                for part in range(2 if slot + across > slots else 1):
                    first, end = s + 1 if mine else table[slot], table[min(slot + across, slots)]
                    if part == 1:
                        first, end = 0, table[slot + across - slots]  # round the end of the table
                    for e in range(first, end):
                        dx, dy, dz, far = balls[e, 0] - x, balls[e, 1] - y, balls[e, 2] - z, balls[e, 3]
                        if dx * dx + dy * dy + dz * dz > (reach + far) ** 2:
                            continue
                        j = ids[e]
                        # Another row may share the slots by chance.
                        same = cells[j, 0] == cx and cells[j, 1] == cy and cells[j, 3] == level
                        if same and _may_meet(i, j, without) and _paths_meet(i, j, s, e, bounds, X, balls):
                            if many < near.shape[1]:
                                near[s, many] = j
                            many += 1
            level, width = level + 1, 2.0 * width
        counts[s] = many


@kernel
def _paths_meet(i, j, s, e, bounds, X, balls):
    """Return whether two particles come near each other anywhere on their paths, whatever stops them there.

    Paths are seen from what all have in common, as half of them tell: from X to the centre of the ball. Those
    that are short beside the particles are not looked at.
    """
    apart = BROAD_PHASE_INFLATION * (bounds[i] + bounds[j])
    if balls[s, 3] + balls[e, 3] <= LONG_PATHS * apart:
        return True
    a = (X[i, 0], X[i, 1], X[i, 2])
    b = (2.0 * balls[s, 0] - a[0], 2.0 * balls[s, 1] - a[1], 2.0 * balls[s, 2] - a[2])
    c = (X[j, 0], X[j, 1], X[j, 2])
    d = (2.0 * balls[e, 0] - c[0], 2.0 * balls[e, 1] - c[1], 2.0 * balls[e, 2] - c[2])
    share, other = between_segments(a, b, c, d)
    square = 0.0
    for k in range(3):
        square += (a[k] + share * (b[k] - a[k]) - c[k] - other * (d[k] - c[k])) ** 2
    return square <= apart * apart


@kernel
def _may_meet(i, j, without):
    """Return whether contact of two particles is to be looked at."""
    family, fixed, apart, apart_starts = without.family, without.fixed, without.apart, without.apart_starts
    if (family[i] >= 0 and family[i] == family[j]) or (fixed[i] and fixed[j]):
        return False
    together = True
    for e in range(apart_starts[i], apart_starts[i + 1]):
        together = together and apart[e] != j
    return together


@kernel
def list_pairs(ids, near, counts, starts, pairs) -> None:
    """Write the lists of all particles as one list of pairs, in order, smaller number first.

    In order, because cells come in that of the table, which has to do with where the scene stands.
    """
    starts[:] = 0
    for s in range(len(counts)):
        for e in range(counts[s]):
            starts[min(ids[s], near[s, e]) + 1] += 1
    for i in range(len(counts)):
        starts[i + 1] += starts[i]
    for s in range(len(counts)):
        for e in range(counts[s]):
            low, high = min(ids[s], near[s, e]), max(ids[s], near[s, e])
            pairs[starts[low], 0], pairs[starts[low], 1] = low, high
            starts[low] += 1
    # Each particle's part, sorted by the other one; starts[i] is now where it ends.
    for i in range(len(counts)):
        first = starts[i - 1] if i > 0 else 0
        for k in range(first + 1, starts[i]):
            high, e = pairs[k, 1], k
            while e > first and pairs[e - 1, 1] > high:
                pairs[e, 1] = pairs[e - 1, 1]
                e -= 1
            pairs[e, 1] = high


@kernel
def shared_blocks(start, stop, nodes, block_of, shared):
    """Compute the block that both nodes of each pair (k, 2) are in, -1 for none; what is fixed is in any."""
    for k in range(start, stop):
        i, j = nodes[k, 0], nodes[k, 1]
        first = block_of[i] if i >= 0 else block_of[j]
        second = block_of[j] if j >= 0 else first
        shared[k] = first if first == second else -1


@kernel
def overlaps(start, stop, pairs, X, C, E, depth):
    """Compute the overlap of each pair of ellipsoids along the line of centres [m]; negative if apart."""
    G, H = np.empty(9), np.empty(9)
    for k in range(start, stop):
        i, j = pairs[k, 0], pairs[k, 1]
        x, y, z = X[j, 0] - X[i, 0], X[j, 1] - X[i, 1], X[j, 2] - X[i, 2]
        d = math.sqrt(x * x + y * y + z * z)
        depth[k] = math.inf
        if d > 0.0:
            shape_matrix(E[i], C[i], G)
            shape_matrix(E[j], C[j], H)
            depth[k] = pair_separation(G, H, x / d, y / d, z / d) - d


@kernel
def _have_crossed(i, j, normal, widest, rest, E):
    """Return whether two neighbours at rest have changed sides, as both see it from how they are turned.

    To part them along `normal`, from i to j, would hold them there, against the shape of their body.
    """
    x, y, z = rest[j, 0] - rest[i, 0], rest[j, 1] - rest[i, 1], rest[j, 2] - rest[i, 2]
    if x * x + y * y + z * z > (NEIGHBOURS * widest) ** 2:
        return False
    first = second = 0.0
    for k in range(3):
        first += normal[k] * (E[i, 3 * k] * x + E[i, 3 * k + 1] * y + E[i, 3 * k + 2] * z)
        second += normal[k] * (E[j, 3 * k] * x + E[j, 3 * k + 1] * y + E[j, 3 * k + 2] * z)
    return first + second < 0.0


@kernel
def separate(start, stop, base, recovery, contacts, groups, particles, buffers):
    """Move the two particles of each overlapping pair, or their rigid groups, apart by equal impulses.

    They part along the line of their centres, so that angular momentum is kept; if they went through each
    other within the substep, along the line on which they came. Overlaps of before the substep are resolved
    by at most `recovery` radii. Neighbours at rest that have changed sides are let back. Particles that met
    another piece are marked as `touched`.
    """
    pairs, depths, normals = contacts.pairs, contacts.depths, contacts.normals
    inverse_mass, bounds, C, piece_of, rest = (
        particles.inverse_mass,
        particles.bounds,
        particles.shapes,
        particles.piece_of,
        particles.rest,
    )
    group_of, rows = groups.group_of, groups.rows
    X, P, E, touched = buffers.X, buffers.P, buffers.E, buffers.touched
    G, H = np.empty(9), np.empty(9)
    for k in range(base + start, base + stop):
        i, j = pairs[k, 0], pairs[k, 1]
        if inverse_mass[i] + inverse_mass[j] == 0.0:
            continue
        xi, yi, zi = corrected_position(i, group_of, rows, P)
        xj, yj, zj = corrected_position(j, group_of, rows, P)
        x, y, z = xj - xi, yj - yi, zj - zi
        a, b, c = X[j, 0] - X[i, 0], X[j, 1] - X[i, 1], X[j, 2] - X[i, 2]
        square, widest = x * x + y * y + z * z, bounds[i] + bounds[j]
        passed = x * a + y * b + z * c < 0.0
        if square >= widest * widest and not passed:
            continue
        if passed:
            # Where they were closest on the way from (a, b, c) to (x, y, z).
            p, q, r = x - a, y - b, z - c
            t = -(a * p + b * q + c * r) / (p * p + q * q + r * r)
            p, q, r = a + t * p, b + t * q, c + t * r
            if p * p + q * q + r * r >= widest * widest:
                continue
        shape_matrix(E[i], C[i], G)
        shape_matrix(E[j], C[j], H)
        if passed:
            least = math.sqrt(p * p + q * q + r * r)
            if least > 1e-9 * widest and least >= pair_separation(G, H, p / least, q / least, r / least):
                continue
        came = a * a + b * b + c * c
        if passed or (square < 1e-6 * widest * widest and came > square):
            length = math.sqrt(came)
            nx, ny, nz = a / length, b / length, c / length
        elif square > 0.0:
            length = math.sqrt(square)
            nx, ny, nz = x / length, y / length, z / length
        else:
            nx, ny, nz = 0.0, 1.0, 0.0  # at one point: any direction, as long as it is always the same
        if piece_of[i] == piece_of[j] and _have_crossed(i, j, (nx, ny, nz), widest, rest, E):
            continue
        # Planes across the line of centres would already part them: the cheaper question, asked first.
        if nx * x + ny * y + nz * z >= support(G, nx, ny, nz) + support(H, nx, ny, nz):
            continue
        depth = pair_separation(G, H, nx, ny, nz) - (nx * x + ny * y + nz * z)
        # What overlapped before comes apart slowly, or bodies that start inside each other would fly. Here
        # `came_nearer` is below zero by what earlier passes of the substep have parted them already.
        came_nearer = nx * (a - x) + ny * (b - y) + nz * (c - z)
        depth = min(depth, came_nearer + recovery * min(bounds[i], bounds[j]))
        if depth <= 0.0:
            continue
        point_i, point_j, normal = (xi, yi, zi), (xj, yj, zj), (nx, ny, nz)
        u = inverse_effective_mass(i, point_i, normal, group_of, rows, inverse_mass)
        v = inverse_effective_mass(j, point_j, normal, group_of, rows, inverse_mass)
        impulse = depth / (u + v)
        apply_impulse(i, -impulse, point_i, normal, group_of, rows, inverse_mass, P)
        apply_impulse(j, impulse, point_j, normal, group_of, rows, inverse_mass, P)
        depths[k] += impulse * (inverse_mass[i] + inverse_mass[j])
        normals[k, 0], normals[k, 1], normals[k, 2] = nx, ny, nz
        if piece_of[i] != piece_of[j]:
            touched[i] = True
            touched[j] = True
