"""The degrees of freedom as nodes of three coordinates, and Jacobian blocks of all particles by them."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...glue import Assembly, AssemblyPose
from ...procrustes.groups import runs
from . import kernels
from .kernels import BlockProducts, ChainLinks, Dependence

__all__ = ["DegreesOfFreedom", "DofMatrix"]

GRAIN = 4096  # blocks worth a thread of their own
CHAIN_GRAIN = 512  # blocks of a chain worth a thread of their own: each is a sum of products


class DegreesOfFreedom:
    """The nodes of an assembly: its free particles that are not prescribed, then two for each rigid body.

    The nodes of a body are the position of its origin and its rotation vector from the current rotation. All
    other particles depend on nodes through Jacobian blocks of 3 x 3.

    Parameters
    ----------
    assembly : Assembly
        N particles with their bindings and B rigid bodies.
    prescribed : (N,)
        Which particles are no unknowns.
    prescribed_bodies : (B,)
        Which rigid bodies are no unknowns.
    """

    def __init__(
        self,
        assembly: Assembly,
        prescribed: NDArray[np.bool_],
        prescribed_bodies: NDArray[np.bool_],
    ) -> None:
        self.assembly = assembly
        count = len(assembly)
        self.particles: NDArray[np.int64] = assembly.free[~prescribed[assembly.free]]
        """The particle of each of the first F nodes (F,)."""
        self.bodies: NDArray[np.int64] = np.flatnonzero(~prescribed_bodies)
        """The rigid bodies that have nodes; the body at row b has the nodes F + 2 b and F + 2 b + 1."""
        node_of = np.full(count, -1)
        node_of[self.particles] = np.arange(len(self.particles))
        of_body = np.full(len(prescribed_bodies), -1)
        of_body[self.bodies] = len(self.particles) + 2 * np.arange(len(self.bodies))

        # The blocks of dependent particles stand one after the other, those on rigid bodies first.
        riders = assembly.on_body[of_body[assembly.body_of[assembly.on_body]] >= 0]
        self._arm_rows = np.flatnonzero(of_body[assembly.body_of[assembly.on_body]] >= 0)
        first_block = np.zeros(count, np.int64)
        block_count = np.zeros(count, np.int64)
        first_block[riders], block_count[riders] = 2 * np.arange(len(riders)), 2
        nodes = [(of_body[assembly.body_of[riders]][:, None] + np.arange(2)).reshape(-1)]
        owners = [np.repeat(riders, 2)]
        total = 2 * len(riders)
        self._layers: list[ChainLinks] = []
        for rows, binding in assembly.layers:
            known = Dependence(node_of, first_block, block_count, np.concatenate(nodes))
            layer, node, owner = self._linked(
                rows, binding.parents.indices, binding.parents.group_of, known, total
            )
            self._layers.append(layer)
            nodes.append(node)
            owners.append(owner)
            per_particle = np.bincount(owner, minlength=count)
            block_count[rows] = per_particle[rows]
            first_block[rows] = total + (np.cumsum(per_particle) - per_particle)[rows]
            total += len(node)
        self.block_particles: NDArray[np.int64] = np.concatenate(owners)
        """The particle whose derivative each Jacobian block is (K,)."""
        self.dependence = Dependence(node_of, first_block, block_count, np.concatenate(nodes))
        """The nodes that each particle depends on."""

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.particles) + 2 * len(self.bodies)

    @property
    def block_nodes(self) -> NDArray[np.int64]:
        """The node by which each Jacobian block is a derivative (K,)."""
        return self.dependence.block_nodes

    def _linked(
        self,
        rows: NDArray[np.int64],
        parents: NDArray[np.int64],
        target_of: NDArray[np.int64],
        known: Dependence,
        total: int,
    ) -> tuple[ChainLinks, NDArray[np.int64], NDArray[np.int64]]:
        """Return the links of bound particles' blocks, and the node and the particle of each block.

        A binding's own block is the Jacobian block where its parent is a node; otherwise it is multiplied by
        the blocks of the parent, which are `known`.
        """
        direct = np.flatnonzero(known.node_of[parents] >= 0)
        sizes = known.block_count[parents]
        chained = np.repeat(np.arange(len(parents)), sizes)
        source = runs(known.first_block[parents], sizes)
        entries = np.concatenate([direct, chained])
        sources = np.concatenate([np.full(len(direct), -1), source])
        node = np.concatenate([known.node_of[parents[direct]], known.block_nodes[source]])
        key = rows[target_of[entries]] * (len(self) + 1) + node
        order = np.argsort(key, kind="stable")
        distinct, uses = np.unique(key, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(uses)])
        owner, of_node = np.divmod(distinct, len(self) + 1)
        return ChainLinks(total, starts, entries[order], sources[order]), of_node, owner

    def blocks(self, pose: AssemblyPose) -> Array:
        """Return the Jacobian blocks (K, 3, 3) of `block_particles` by `block_nodes`."""
        blocks = np.empty((len(self.block_nodes), 3, 3))
        run(kernels.rigid_blocks, len(self._arm_rows), GRAIN, self._arm_rows, pose.arms, blocks)
        for layer, bound in zip(self._layers, pose.poses, strict=True):
            number = len(layer.starts) - 1
            run(kernels.compose_blocks, number, CHAIN_GRAIN, layer, bound.blocks, blocks)
        return blocks

    def expanded(
        self, particles: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return one entry for each node that each of some particles depends on.

        Parameters
        ----------
        particles : (k,)
            The particles, which may repeat.

        Returns
        -------
        row, block, node
            For each entry the particle's row in the list, the Jacobian block (-1 for the identity) and the
            node.
        """
        node_of, first_block, block_count, block_nodes = self.dependence
        direct = np.flatnonzero(node_of[particles] >= 0)
        sizes = block_count[particles]
        block = runs(first_block[particles], sizes)
        row = np.concatenate([direct, np.repeat(np.arange(len(particles)), sizes)])
        node = np.concatenate([node_of[particles[direct]], block_nodes[block]])
        return row, np.concatenate([np.full(len(direct), -1), block]), node


class DofMatrix:
    """The csr matrix J^T H J over the degrees of freedom, whose sparsity is built once.

    H is given by blocks of 3 x 3 between particles.

    Parameters
    ----------
    dofs : DegreesOfFreedom
        The degrees of freedom.
    rows, columns : (n,)
        The particles of each block of H.
    sources, widths : (n,)
        Where each block begins in one array of numbers, and how far apart its rows are.
    extra : (rows, columns), optional
        Further entries of the matrix, of unknowns beyond the nodes', in both triangles.
    size : int, optional
        The number of unknowns; by default three for each node.
    """

    def __init__(
        self,
        dofs: DegreesOfFreedom,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        sources: NDArray[np.int64],
        widths: NDArray[np.int64],
        *,
        extra: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        size: int | None = None,
    ) -> None:
        count = len(dofs)
        self.size = 3 * count if size is None else size
        entry, left, row = dofs.expanded(rows)
        again, right, column = dofs.expanded(columns[entry])
        entry, left, row = entry[again], left[again], row[again]
        # The diagonal belongs to the matrix in any case.
        own = np.arange(count)
        key = np.concatenate([row * count + column, own * count + own])
        distinct, where = np.unique(key, return_inverse=True)
        where = where[: len(row)]
        order = np.argsort(where, kind="stable")

        block_row, block_column = np.divmod(distinct, count)
        axis = np.arange(3)
        i = (3 * block_row[:, None, None] + axis[:, None] + 0 * axis).ravel()
        j = (3 * block_column[:, None, None] + 0 * axis[:, None] + axis).ravel()
        if extra is not None:
            i, j = np.concatenate([i, extra[0]]), np.concatenate([j, extra[1]])
        by_entry = np.lexsort((j, i))
        position = np.empty(len(i), np.int64)
        position[by_entry] = np.arange(len(i))
        self.indices: NDArray[np.int64] = j[by_entry]
        """The columns of the csr matrix, ascending within each row."""
        self.indptr: NDArray[np.int64] = np.searchsorted(i[by_entry], np.arange(self.size + 1))
        """Where the rows of the csr matrix begin."""
        blocks = position[: 9 * len(distinct)].reshape(-1, 3, 3)
        self._products = BlockProducts(
            starts=np.searchsorted(where[order], np.arange(len(distinct) + 1)),
            sources=sources[entry[order]],
            widths=widths[entry[order]],
            lefts=left[order],
            rights=right[order],
            targets=blocks[:, 0, 0].copy(),
            strides=blocks[:, 1, 0] - blocks[:, 0, 0],
        )
        self.extra: NDArray[np.int64] = position[9 * len(distinct) :]
        """Where the extra entries are in the data."""
        self.diagonal: NDArray[np.int64] = blocks[np.searchsorted(distinct, own * (count + 1))]
        """Where the diagonal blocks are in the data (nodes, 3, 3)."""

    def reduce(self, blocks: Array, data: Array) -> Array:
        """Return the data of the csr matrix; extra entries are zero.

        Parameters
        ----------
        blocks : (K, 3, 3)
            The Jacobian blocks, see `DegreesOfFreedom.blocks`.
        data : (n,)
            The numbers that hold the blocks of H.

        Returns
        -------
        (nnz,)
        """
        out = np.zeros(len(self.indices))
        run(kernels.reduce_blocks, len(self._products.targets), GRAIN, self._products, blocks, data, out)
        return out
