"""What is free to move, as nodes of three coordinates, and derivatives of all particles by it, in blocks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...glue import Assembly, AssemblyPose
from ...procrustes.groups import runs
from . import kernels

__all__ = ["Freedom", "Projection"]

GRAIN = 4096


@dataclass(frozen=True, eq=False)
class _Layer:
    """How the blocks of one layer of bindings are composed, see `freedom_kernels.compose`."""

    first: int
    starts: NDArray[np.int64]
    entries: NDArray[np.int64]
    sources: NDArray[np.int64]


class Freedom:
    """The nodes of an assembly: its free particles that are not `held` (N,), then two for each body.

    The nodes of a body are the place of its origin and its rotation vector from where it is; bodies that are
    `fixed` (B,) have none. All other particles depend on nodes through blocks of 3 x 3.
    """

    def __init__(self, assembly: Assembly, held: NDArray[np.bool_], fixed: NDArray[np.bool_]) -> None:
        self.assembly = assembly
        count = len(assembly)
        self.particles: NDArray[np.int64] = assembly.free[~held[assembly.free]]
        """The particle of each of the first nodes (F,)."""
        self.bodies: NDArray[np.int64] = np.flatnonzero(~fixed)
        """The bodies that are free to move; body b has the nodes F + 2 b and F + 2 b + 1."""
        self.node_of = np.full(count, -1)
        self.node_of[self.particles] = np.arange(len(self.particles))
        of_body = np.full(len(fixed), -1)
        of_body[self.bodies] = len(self.particles) + 2 * np.arange(len(self.bodies))

        # Blocks of each dependent particle, one after the other: first those on bodies.
        riders = assembly.on_body[of_body[assembly.body_of[assembly.on_body]] >= 0]
        self._arm_rows = np.flatnonzero(of_body[assembly.body_of[assembly.on_body]] >= 0)
        first_of = np.zeros(count, np.int64)
        size_of = np.zeros(count, np.int64)
        first_of[riders], size_of[riders] = 2 * np.arange(len(riders)), 2
        nodes = [(of_body[assembly.body_of[riders]][:, None] + np.arange(2)).reshape(-1)]
        owners = [np.repeat(riders, 2)]
        total = 2 * len(riders)
        self._layers: list[_Layer] = []
        for rows, binding in assembly.layers:
            layer, node, owner = self._linked(
                rows, binding.parents.indices, binding.parents.group_of, first_of, size_of,
                np.concatenate(nodes), total,
            )  # fmt: skip
            self._layers.append(layer)
            nodes.append(node)
            owners.append(owner)
            per_particle = np.bincount(owner, minlength=count)
            size_of[rows] = per_particle[rows]
            first_of[rows] = total + (np.cumsum(per_particle) - per_particle)[rows]
            total += len(node)
        self.block_nodes: NDArray[np.int64] = np.concatenate(nodes)
        """The node by which each block is a derivative (K,)."""
        self.block_particles: NDArray[np.int64] = np.concatenate(owners)
        """The particle of which it is one (K,)."""
        self.first_of, self.size_of = first_of, size_of

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.particles) + 2 * len(self.bodies)

    def _linked(
        self,
        rows: NDArray[np.int64],
        parents: NDArray[np.int64],
        target_of: NDArray[np.int64],
        first_of: NDArray[np.int64],
        size_of: NDArray[np.int64],
        known: NDArray[np.int64],
        total: int,
    ) -> tuple[_Layer, NDArray[np.int64], NDArray[np.int64]]:
        """The blocks of bound particles: an entry's own if its parent is a node, else by the parent's."""
        direct = np.flatnonzero(self.node_of[parents] >= 0)
        sizes = size_of[parents]
        chained = np.repeat(np.arange(len(parents)), sizes)
        source = runs(first_of[parents], sizes)
        entries = np.concatenate([direct, chained])
        sources = np.concatenate([np.full(len(direct), -1), source])
        node = np.concatenate([self.node_of[parents[direct]], known[source]])
        key = rows[target_of[entries]] * (len(self) + 1) + node
        order = np.argsort(key, kind="stable")
        places, uses = np.unique(key, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(uses)])
        owner, of_node = np.divmod(places, len(self) + 1)
        return _Layer(total, starts, entries[order], sources[order]), of_node, owner

    def blocks(self, pose: AssemblyPose) -> Array:
        """d particle / d node (K, 3, 3), see `block_particles` and `block_nodes`."""
        blocks = np.empty((len(self.block_nodes), 3, 3))
        run(kernels.ride, len(self._arm_rows), GRAIN, self._arm_rows, pose.arms, blocks)
        for layer, bound in zip(self._layers, pose.poses, strict=True):
            number = len(layer.starts) - 1
            links = (layer.starts, layer.entries, layer.sources)
            run(kernels.compose, number, 512, *links, layer.first, bound.blocks, blocks)
        return blocks


class Projection:
    """J^T H J: from blocks of 3 x 3 between particles to a csr matrix over the nodes, sparsity built once.

    The blocks are given by their `rows` and `columns` (particles), and by where they are in one array of
    numbers: `sources`, where they begin, and `widths`, how far apart their rows are. The matrix may have
    further rows and columns, `extra` pairs (rows, columns) of unknowns beyond the nodes', in both triangles.
    """

    def __init__(
        self,
        freedom: Freedom,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        sources: NDArray[np.int64],
        widths: NDArray[np.int64],
        *,
        extra: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        size: int | None = None,
    ) -> None:
        count = len(freedom)
        self.size = 3 * count if size is None else size
        entry, left, row = _expanded(freedom, rows)
        again, right, column = _expanded(freedom, columns[entry])
        entry, left, row = entry[again], left[again], row[again]
        # The diagonal belongs to the matrix in any case.
        own = np.arange(count)
        key = np.concatenate([row * count + column, own * count + own])
        places, where = np.unique(key, return_inverse=True)
        where = where[: len(row)]
        order = np.argsort(where, kind="stable")
        self._starts = np.searchsorted(where[order], np.arange(len(places) + 1))
        self._sources, self._widths = sources[entry[order]], widths[entry[order]]
        self._lefts, self._rights = left[order], right[order]

        block_row, block_column = np.divmod(places, count)
        axis = np.arange(3)
        i = (3 * block_row[:, None, None] + axis[:, None] + 0 * axis).ravel()
        j = (3 * block_column[:, None, None] + 0 * axis[:, None] + axis).ravel()
        if extra is not None:
            i, j = np.concatenate([i, extra[0]]), np.concatenate([j, extra[1]])
        by_place = np.lexsort((j, i))
        position = np.empty(len(i), np.int64)
        position[by_place] = np.arange(len(i))
        self.indices: NDArray[np.int64] = j[by_place]
        self.indptr: NDArray[np.int64] = np.searchsorted(i[by_place], np.arange(self.size + 1))
        blocks = position[: 9 * len(places)].reshape(-1, 3, 3)
        self._targets, self._strides = blocks[:, 0, 0].copy(), blocks[:, 1, 0] - blocks[:, 0, 0]
        self.extra: NDArray[np.int64] = position[9 * len(places) :]
        """Where the extra entries are in the data."""
        self.diagonal: NDArray[np.int64] = blocks[np.searchsorted(places, own * (count + 1))]
        """Where the diagonal blocks are in the data (nodes, 3, 3)."""

    def apply(self, blocks: Array, data: Array) -> Array:
        """Data of the csr matrix, of the particles' blocks in `data`; extra entries are zero."""
        out = np.zeros(len(self.indices))
        run(
            kernels.project, len(self._targets), GRAIN, self._starts, self._sources, self._widths,
            self._lefts, self._rights, blocks, data, self._targets, self._strides, out,
        )  # fmt: skip
        return out


def _expanded(
    freedom: Freedom, particles: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each particle one entry a node that it depends on: its number in the list, the block, the node."""
    direct = np.flatnonzero(freedom.node_of[particles] >= 0)
    sizes = freedom.size_of[particles]
    block = runs(freedom.first_of[particles], sizes)
    entry = np.concatenate([direct, np.repeat(np.arange(len(particles)), sizes)])
    node = np.concatenate([freedom.node_of[particles[direct]], freedom.block_nodes[block]])
    return entry, np.concatenate([np.full(len(direct), -1), block]), node
