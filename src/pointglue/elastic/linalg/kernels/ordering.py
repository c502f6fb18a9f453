"""Compiled loops that find an order of elimination and its fill-in, all on the graph of the nodes.

A graph is held as `starts` and `links`: the neighbours of node i are links[starts[i] : starts[i + 1]].
"""

import numpy as np

from ....checks import Array
from ....compute import kernel


@kernel
def node_graph(indptr, indices, node_of, count) -> tuple[Array, Array]:
    """Return the graph of nodes that a symmetric csr matrix connects: starts (count + 1,) and links."""
    starts = np.zeros(count + 1, np.int64)
    links = np.empty(0, np.int64)
    for fill in range(2):
        seen = np.full(count, -1)
        total = 0
        for row in range(len(node_of)):
            node = node_of[row]
            seen[node] = node
            for e in range(indptr[row], indptr[row + 1]):
                other = node_of[indices[e]]
                if seen[other] != node:
                    seen[other] = node
                    if fill:
                        links[total] = other
                    total += 1
            starts[node + 1] = total
        if not fill:
            links = np.empty(total, np.int64)
    return starts, links


@kernel
def best_cut(members, starts, ends, links, rank):
    """Return the coordinate, the number of members below the cut, and whether the separator is below it.

    `members` (k, m) are sorted by each of the k coordinates, `rank` (count, k) is where each node is in that
    order. All cuts along all coordinates are compared: a node belongs to the separator of all cuts that pass
    between it and a neighbour. The best one has the least work for the size of its smaller half, and leaves
    at least a quarter of the members on either side; the median is always allowed.
    """
    kinds, count = members.shape
    steps = np.zeros((kinds, 2, count + 1), np.int64)
    low, high = np.empty(kinds, np.int64), np.empty(kinds, np.int64)
    for node in members[0]:
        for c in range(kinds):
            low[c] = high[c] = rank[node, c]
        for e in range(starts[node], ends[node]):
            other = links[e]
            for c in range(kinds):
                low[c], high[c] = min(low[c], rank[other, c]), max(high[c], rank[other, c])
        for c in range(kinds):
            own = rank[node, c]
            steps[c, 0, own + 1] += 1
            steps[c, 0, high[c] + 1] -= 1
            steps[c, 1, low[c] + 1] += 1
            steps[c, 1, own + 1] -= 1
    best, axis, at, below = np.inf, 0, count // 2, False
    for c in range(kinds):
        for taken in range(2):
            between = 0
            for cut in range(1, count):  # nodes below it
                between += steps[c, taken, cut]
                lower, upper = cut - (taken == 0) * between, count - cut - (taken == 1) * between
                small = min(lower, upper)
                if 4 * small < count and cut != count // 2:
                    continue
                cost = (between + 0.5) ** 3 / (small + 1.0)
                if cost < best:
                    best, axis, at, below = cost, c, cut, taken == 0
    return axis, at, below


@kernel
def dissect(starts, links, by_coordinate, leaf) -> tuple[Array, Array]:
    """Return the nodes in an order of elimination by nested dissection, and the part of each in that order.

    `by_coordinate` (k, count) are the nodes sorted by each of their k coordinates. Every part of more than
    `leaf` nodes is cut in halves, and nodes of one half that touch the other become a part of their own, the
    separator, which is eliminated after both halves.
    """
    members = by_coordinate.copy()
    kinds, count = members.shape
    part = np.empty(count, np.int64)
    links, ends = links.copy(), starts[1:].copy()  # links within parts
    label, to = np.zeros(count, np.int64), np.empty(count, np.int64)
    rank = np.empty((count, kinds), np.int64)
    spare = np.empty(count, np.int64)
    stack = np.empty((2 * count + 3, 3), np.int64)  # from, to, whether it stays as it is
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, count, 0
    height, parts, cuts = 1, 0, 0
    while height:
        height -= 1
        begin, end = stack[height, 0], stack[height, 1]
        if end == begin:
            continue
        if stack[height, 2] or end - begin <= leaf:
            part[begin:end] = parts
            parts += 1
            continue
        cuts += 1
        for c in range(kinds):
            for k in range(begin, end):
                rank[members[c, k], c] = k - begin
        for k in range(begin, end):
            label[members[0, k]] = cuts
        for k in range(begin, end):
            node = members[0, k]
            e = starts[node]
            while e < ends[node]:
                if label[links[e]] == cuts:
                    e += 1
                else:
                    ends[node] -= 1
                    links[e] = links[ends[node]]
        axis, cut, below = best_cut(members[:, begin:end], starts, ends, links, rank)
        sizes = np.zeros(3, np.int64)  # of the lower half, the upper half and the separator
        for k in range(begin, end):
            node = members[0, k]
            lower = rank[node, axis] < cut
            to[node] = 0 if lower else 1
            if lower == below:
                for e in range(starts[node], ends[node]):
                    if (rank[links[e], axis] < cut) != lower:
                        to[node] = 2
                        break
            sizes[to[node]] += 1
        first, second = begin + sizes[0], begin + sizes[0] + sizes[1]
        for c in range(kinds):
            at = np.array([begin, first, second])
            for k in range(begin, end):
                spare[k] = members[c, k]
            for k in range(begin, end):
                where = to[spare[k]]
                members[c, at[where]] = spare[k]
                at[where] += 1
        stack[height, 0], stack[height, 1], stack[height, 2] = second, end, 1
        stack[height + 1, 0], stack[height + 1, 1], stack[height + 1, 2] = first, second, 0
        stack[height + 2, 0], stack[height + 2, 1], stack[height + 2, 2] = begin, first, 0
        height += 3
    return members[0], part


@kernel
def delay(starts, links, part_of, multipliers) -> int:
    """Move the last nodes, multipliers, to the latest part of any neighbour; return how many parts remain."""
    count = len(part_of)
    given = part_of.copy()
    for node in range(count - multipliers, count):
        for e in range(starts[node], starts[node + 1]):
            part_of[node] = max(part_of[node], given[links[e]])
    new = np.zeros(count + 1, np.int64)
    for node in range(count):
        new[part_of[node] + 1] = 1
    for s in range(count):
        new[s + 1] += new[s]
    for node in range(count):
        part_of[node] = new[part_of[node]]
    return int(new[count])


@kernel
def tree(starts, links, part_of, parts) -> Array:
    """Return the elimination tree of the parts: the parent of each, to which its update goes, or -1."""
    parents, above = np.full(parts, -1), np.full(parts, -1)
    begins, nodes = sorted_by(part_of, parts, np.arange(len(part_of)))
    for s in range(parts):
        for k in range(begins[s], begins[s + 1]):
            for e in range(starts[nodes[k]], starts[nodes[k] + 1]):
                t = part_of[links[e]]
                while t >= 0 and t < s:
                    following = above[t]
                    above[t] = s
                    if following < 0:
                        parents[t] = s
                    t = following
    return parents


@kernel
def sorted_by(key, keys, items) -> tuple[Array, Array]:
    """Return where each of the keys begins (keys + 1,), and the items in the order of key[item], stable."""
    begins = np.zeros(keys + 1, np.int64)
    for item in items:
        begins[key[item] + 1] += 1
    for k in range(keys):
        begins[k + 1] += begins[k]
    at, out = begins[:-1].copy(), np.empty(len(items), np.int64)
    for item in items:
        out[at[key[item]]] = item
        at[key[item]] += 1
    return begins, out


@kernel
def postorder(parents) -> Array:
    """Return new numbers of the parts, by which all parts below one come right before it."""
    count = len(parents)
    # Children as linked lists; the last list is of roots.
    first, after = np.full(count + 1, -1), np.full(count, -1)
    for s in range(count - 1, -1, -1):
        p = parents[s] if parents[s] >= 0 else count
        after[s] = first[p]
        first[p] = s
    number = np.empty(count, np.int64)
    total, s = 0, first[count]
    while s >= 0:
        while first[s] >= 0:
            s = first[s]
        # Go up, past all that are the last of their parent's children.
        while s >= 0:
            number[s] = total
            total += 1
            if after[s] >= 0:
                s = after[s]
                break
            s = parents[s]
    return number


@kernel
def structure(starts, links, order, part_of, parents) -> tuple[Array, Array]:
    """Return the later positions that the elimination of each part touches, ascending, as starts and rows."""
    parts = len(parents)
    begins, rows = np.zeros(parts + 1, np.int64), np.empty(0, np.int64)
    for fill in range(2):
        seen, at = np.full(parts, -1), begins[:-1].copy()
        for i in range(len(order)):
            own = part_of[order[i]]
            for e in range(starts[order[i]], starts[order[i] + 1]):
                s = part_of[links[e]]
                while s < own and seen[s] != i:
                    seen[s] = i
                    if fill:
                        rows[at[s]] = i
                    at[s] += 1
                    s = parents[s]
        if not fill:
            for s in range(parts):
                begins[s + 1] = begins[s] + at[s]
            rows = np.empty(begins[parts], np.int64)
    return begins, rows
