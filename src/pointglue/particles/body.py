"""Bodies: particles with an orientation, the edges between them and the groups they form."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_flag, check_real, check_rotations, check_vector
from ..errors import InputError, PointglueWarning
from ..geometry.quaternions import matrices_of, quaternions_of
from ._solve.pairs import touching_pairs
from .advice import (
    GRAVITY,
    LONGEST_SUBSTEP,
    loose_piece_advice,
    matching_advice,
    suitable_substep,
    unit_advice,
)
from .authoring.from_mesh import Placement, author
from .authoring.hull_fitting import CONVEX, fitted_hulls
from .authoring.skinning import Blend, Skin, join_skins, links_of, within_groups
from .body_fields import WATER, CheckedBody, CheckedFields, Fields, check_fields
from .state import ParticleState, RestPose

__all__ = ["WATER", "OrientedBody", "join"]

# Ratio of the Young's modulus of a body made from a mesh to the pressure at its foot: legs neither kneel
# under its weight nor buckle when it drops from its own height.
HOLDING = 1e5
# What edges and groups have that are added to a body without any.
DEFAULTS = {"stretch": 0.0, "torsion": 0.0, "yield_speed": inf}


@dataclass(frozen=True, eq=False, init=False)
class OrientedBody(CheckedBody):
    """A body of oriented ellipsoids, joined by edges (implicit groups) and rigid (explicit) groups.

    Each particle matches its shape with the particles it shares an edge with; particles of an explicit
    group match with that whole group instead and move as one rigid piece. Two groups that share one
    particle are joined as by a ball joint, two that share two particles as by a hinge.

    Parameters
    ----------
    positions : (n, 3)
        The particles in the bind pose [m].
    radii : float, (n,) or (n, 3)
        Half the lengths of the ellipsoids' axes, above 0 [m].
    orientations : (n, 4), optional
        Quaternions wxyz of any length but 0: the axes of the ellipsoids in the bind pose.
    mass : float or (n,), optional
        Masses, above 0 [kg]; without them those of the ellipsoids by the density.
    density : float or (n,)
        The density, above 0 [kg/m^3]. With the masses it says how thick a body with a Young's modulus is.
    edges : (m, 2)
        Pairs of particles, each pair once.
    young : float or (n,)
        Young's modulus [Pa] of an elastic body, at least 0: it bends and stretches as beam theory says,
        whatever its particles, its substep and its iterations are. Where it is 0, `stiffness` holds instead.
    stiffness : float or (n,)
        How much of its deviation a particle's group corrects in 1/60 s, 0 to 1, if its `young` is 0.
    stretch : float or (m,)
        The same for the length of an edge, apart from bending; 0 for none.
    torsion : float or (m,)
        The same for the twist between the two particles of an edge; 0 for none.
    groups : iterable of (k,)
        The particles of each rigid group.
    hulls : iterable of (k, 3) or None
        For each rigid group points in the bind pose whose convex hull collides instead of its ellipsoids
        [m], or None; empty if no group has one. Groups with a yield speed collide as ellipsoids anyway.
    yield_speed : float or (len(groups),)
        A group that is hit faster than this deforms permanently [m/s]; inf for never.
    yield_strain : float or (n,)
        The deformation of a particle's group beyond which it flows; inf for never.
    creep : float or (n,)
        How fast deformation beyond the yield strain becomes permanent [1/s].
    pinned : bool, (n,) or "position"
        Which particles stay where they are and as they are turned; "position" for all as `pivots`.
    pivots : bool or (n,)
        Which particles stay where they are, but are free to turn.
    loose : bool
        Whether particles without any neighbour are meant, and no mistake.
    visual : Skin, optional
        The mesh that follows the particles; see :meth:`skin`.

    Raises
    ------
    InputError
        If a shape does not fit, a number is out of its bounds, two particles coincide, or one has no
        neighbour in a body that is not `loose`.
    """

    def __init__(
        self,
        positions: ArrayLike,
        *,
        radii: ArrayLike,
        orientations: ArrayLike | None = None,
        mass: ArrayLike | None = None,
        density: ArrayLike = WATER,
        edges: ArrayLike = (),
        young: ArrayLike = 0.0,
        stiffness: ArrayLike = 1.0,
        stretch: ArrayLike = 0.0,
        torsion: ArrayLike = 0.0,
        groups: Iterable[ArrayLike] = (),
        hulls: Iterable[ArrayLike | None] = (),
        yield_speed: ArrayLike = inf,
        yield_strain: ArrayLike = inf,
        creep: ArrayLike = 0.0,
        pinned: ArrayLike | Literal["position"] = False,
        pivots: ArrayLike = False,
        loose: bool = False,
        visual: Skin | None = None,
    ) -> None:
        fields = Fields(
            positions=positions,
            orientations=orientations,
            radii=radii,
            mass=mass,
            density=density,
            edges=edges,
            young=young,
            stiffness=stiffness,
            stretch=stretch,
            torsion=torsion,
            groups=groups,
            hulls=hulls,
            yield_speed=yield_speed,
            yield_strain=yield_strain,
            creep=creep,
            pinned=pinned,
            pivots=pivots,
            loose=loose,
            visual=visual,
        )
        self._set(check_fields(fields))

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        *,
        spacing: float | None = None,
        particles: int | None = None,
        placement: Placement | None = None,
        tie: bool | None = None,
        rigid: bool = False,
        reach: float = 1.4,
        aspect: float = 2.0,
        density: float = WATER,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> "OrientedBody":
        """Return a body that fills a mesh, is connected as it is, and moves it along; see :meth:`skin`.

        All distances are measured inside the shape, so that nothing reaches across a gap. The same mesh and
        `seed` make the same body.

        Parameters
        ----------
        mesh : path, mesh or scene of trimesh, object with vertices and faces, or a tuple of them
            The mesh; any triangles and quads will do [m].
        spacing : float, optional
            The distance of the particles, about [m]; without it there are about 300.
        particles : int, optional
            How many particles there are, about, instead of their spacing.
        placement : {"surface", "volume", "skeleton"}, optional
            Whether particles are on the surface, in the volume or along the skeleton of limbs; by default in
            the volume of components that have one, and else on the surface.
        tie : bool, optional
            Whether shells, connected surfaces such as eyes, teeth and clothes, are tied to those that they
            touch, sit on or are in: up to a gap of 1 % of the larger one's size. By default they are, with a
            warning that says how many.
        rigid : bool
            Whether each connected piece is one rigid group; those that are as good as convex collide as their
            hulls.
        reach : float
            Particles closer than this are joined [spacings], at least 1.
        aspect : float
            How many times as long as thick ellipsoids may be, at least 1.
        density : float
            The density, above 0 [kg/m^3].
        seed : int or Generator
            Where random numbers begin.
        **options
            Fields of the body, which replace what is found from the mesh; `mass` is that of each particle.
            Without `young` and `stiffness`, Young's modulus is 10^5 times the pressure of the body's own
            height, 1 GPa for a figure of 1 m: it holds its shape whatever its size is.

        Returns
        -------
        OrientedBody

        Raises
        ------
        InputError
            If the mesh has no faces or no size, an argument is out of its bounds or unknown, or there would
            be too many particles.
        """
        taken = {"positions", "visual"}
        unknown = sorted(set(options) - set(cls.__dataclass_fields__) | taken & set(options))
        if unknown:
            raise InputError(f"{unknown[0]!r} is not an option of a body made from a mesh; see OrientedBody")
        found = author(
            mesh,
            spacing=spacing,
            particles=particles,
            placement=placement,
            tie=tie,
            reach=reach,
            aspect=aspect,
            density=density,
            seed=seed,
        )
        whole = check_flag("rigid", rigid)
        if not whole and not {"young", "stiffness"} & set(options):
            height = float(np.ptp(found.positions, axis=0).max())
            options["young"] = HOLDING * density * GRAVITY * height
        # Other masses in the same volumes.
        heavy = density * as_reals("mass", options.get("mass", found.mass)) / found.mass
        body = cls(found.positions, **{**found.fields, "density": heavy, **options})
        if check_flag("rigid", rigid):
            body = body.replace(groups=body.pieces)
        advice = unit_advice(body.size, float(body.mass.sum()))
        if advice is not None:
            warnings.warn(advice, PointglueWarning, stacklevel=2)
        skin = Skin(found.vertices, found.faces, *links_of(found.links, found.distances))
        if whole:
            groups, owners = body.pieces, skin.links[:, 0]
            hulls = fitted_hulls(groups, skin.vertices, skin.faces, owners, CONVEX)
            body = body.replace(groups=groups, hulls=options.get("hulls", hulls))
        return body.replace(visual=skin)

    def check(self) -> list[str]:
        """Return what may not be as it was meant, a sentence each: loose pieces, units, substeps, stiffness.

        Returns
        -------
        list of str
            Empty if there is nothing to say.

        Examples
        --------
        >>> from pointglue.particles import block
        >>> block((273.0, 100.0, 100.0), (4, 2, 2)).check()[0][:50]
        'the body is 273 m across and weighs 2.73e+09 kg: l'
        """
        said = [
            *loose_piece_advice(self.positions, self.components),
            unit_advice(self.size, float(self.mass.sum())),
        ]
        substep = suitable_substep(self.positions, self.radii, self.components, GRAVITY)
        if substep < LONGEST_SUBSTEP:
            said.append(f"it is so small that its substeps are {substep:.2g} s")
        said.append(matching_advice(self, substep))
        return [sentence for sentence in said if sentence is not None]

    def start(self) -> ParticleState:
        """Return the state of the body at rest in its bind pose, at time 0."""
        n = len(self)
        axes = matrices_of(self.orientations)
        axes.flags.writeable = False
        rest = RestPose(self.positions, axes, touching_pairs(self.positions, axes, self.radii))
        return ParticleState(
            time=0.0,
            positions=self.positions.copy(),
            rotations=np.tile(np.eye(3), (n, 1, 1)),
            velocities=np.zeros((n, 3)),
            spins=np.zeros((n, 3)),
            pinned=self.pinned,
            rest=rest,
            pause=np.zeros(len(self.groups)),
        )

    def moved(
        self, *, scale: float = 1.0, rotation: ArrayLike | None = None, translation: ArrayLike = (0, 0, 0)
    ) -> "OrientedBody":
        """Return the same body elsewhere: first scaled and turned about the origin, then shifted.

        Parameters
        ----------
        scale : float
            How many times as large it becomes, of the same density, above 0.
        rotation : (3, 3), optional
            How it is turned.
        translation : (3,)
            How it is shifted [m].

        Returns
        -------
        OrientedBody

        Raises
        ------
        InputError
            If `scale` is not above 0, or `rotation` or `translation` is none.
        """
        scale = check_real("scale", scale, above=0)
        turn = np.eye(3) if rotation is None else check_rotations("rotation", rotation, (3, 3))
        shift = check_vector("translation", translation)
        axes = turn @ matrices_of(self.orientations)
        return self.replace(
            positions=scale * self.positions @ turn.T + shift,
            orientations=quaternions_of(axes),
            radii=scale * self.radii,
            mass=scale**3 * self.mass,
            hulls=[scale * points @ turn.T + shift for points in self.hulls],
            visual=None if self.visual is None else self.visual.moved(scale * turn, shift),
        )

    def replace(self, **changes: object) -> "OrientedBody":
        """Return the same body with some of its fields changed.

        Parameters
        ----------
        **changes
            The fields, as :class:`OrientedBody` takes them. A stiffness without a Young's modulus stands in
            for that of the body.

        Returns
        -------
        OrientedBody

        Raises
        ------
        InputError
            If there is no such field, or the changed body is none.
        """
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        unknown = sorted(set(changes) - set(fields))
        if unknown:
            raise InputError(f"OrientedBody has no field {unknown[0]!r}; it has {', '.join(fields)}")
        if "stiffness" in changes and "young" not in changes:
            fields["young"] = 0.0  # it would go before stiffness
        if "groups" in changes and "hulls" not in changes:
            fields["hulls"] = ()  # of groups that are no longer the same
        # What holds for all edges or groups holds for other ones too.
        for name, of in (("stretch", "edges"), ("torsion", "edges"), ("yield_speed", "groups")):
            if of in changes and name not in changes and len(set(fields[name].tolist())) <= 1:
                fields[name] = fields[name][0] if len(fields[name]) else DEFAULTS[name]
        return OrientedBody(**{**fields, **changes})

    def transforms(self, state: ParticleState) -> tuple[Array, Array]:
        """Return the rigid motion of each particle from the bind pose to now, for skinning.

        It is the composition of the deformation, the rest pose and the inverse bind pose.

        Parameters
        ----------
        state : ParticleState
            A state of this body.

        Returns
        -------
        rotations : (n, 3, 3)
        translations : (n, 3)
            The motion is x -> R x + t [m].

        Raises
        ------
        InputError
            If the state is of another body.
        """
        turn = self._turns(state)
        return turn, state.positions - np.einsum("nij,nj->ni", turn, self.positions)

    def skin(self, state: ParticleState, *, blend: Blend = "linear", out: Array | None = None) -> Array:
        """Return the vertices of the visual mesh now.

        Parameters
        ----------
        state : ParticleState
            A state of this body.
        blend : {"linear", "dual"}
            See :meth:`Skin.pose`.
        out : (V, 3), optional
            Takes the result.

        Returns
        -------
        (V, 3)
            The vertices [m].

        Raises
        ------
        InputError
            If the body has no visual mesh, or the state is of another body.
        """
        visual, turn = self._posed_skin, self._turns(state)
        shift = state.positions - self.positions
        return visual.pose(turn, shift, about=self.positions, blend=blend, out=out)

    def skin_normals(
        self, state: ParticleState, *, blend: Blend = "linear", out: Array | None = None
    ) -> Array:
        """Return the unit normals of the visual mesh now.

        Parameters
        ----------
        state : ParticleState
            A state of this body.
        blend : {"linear", "dual"}
            See :meth:`Skin.normals`.
        out : (V, 3), optional
            Takes the result.

        Returns
        -------
        (V, 3)
            The normals.

        Raises
        ------
        InputError
            If the body has no visual mesh, or the state is of another body.
        """
        return self._posed_skin.normals(self._turns(state), blend=blend, out=out)

    @cached_property
    def _posed_skin(self) -> Skin:
        """The visual mesh with the weights that its rigid groups leave it."""
        if self.visual is None:
            raise InputError("the body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
        return within_groups(self.visual, self.groups, len(self))

    def _turns(self, state: ParticleState) -> Array:
        """Return the rotations (n, 3, 3) from the bind pose to now."""
        self._check_state(state)
        back = np.swapaxes(matrices_of(self.orientations), 1, 2)
        return np.asarray(state.rotations @ (state.rest.rotations @ back))

    def momentum(self, state: ParticleState) -> tuple[Array, Array]:
        """Return the momenta of a state.

        Parameters
        ----------
        state : ParticleState
            A state of this body.

        Returns
        -------
        linear : (3,)
            Linear momentum [kg m/s].
        angular : (3,)
            Angular momentum about the origin [kg m^2/s].

        Raises
        ------
        InputError
            If the state is of another body.
        """
        self._check_state(state)
        p = self.mass[:, None] * state.velocities
        spin = np.einsum("nij,nj->ni", self._inertia(state), state.spins)
        return p.sum(0), (np.cross(state.positions, p) + spin).sum(0)

    def kinetic_energy(self, state: ParticleState) -> float:
        """Return the kinetic energy of a state, of motion and of spin [J].

        Parameters
        ----------
        state : ParticleState
            A state of this body.

        Returns
        -------
        float

        Raises
        ------
        InputError
            If the state is of another body.
        """
        self._check_state(state)
        spin = np.einsum("ni,nij,nj", state.spins, self._inertia(state), state.spins)
        return float(0.5 * (self.mass * (state.velocities**2).sum(1)).sum() + 0.5 * spin)

    def _check_state(self, state: ParticleState) -> None:
        if not isinstance(state, ParticleState):
            raise InputError(f"state must be a ParticleState, got {type(state).__name__}")
        if len(state) != len(self):
            raise InputError(f"state has {len(state)} particles, but the body has {len(self)}")

    def _inertia(self, state: ParticleState) -> Array:
        """Return the inertia (n, 3, 3) of each ellipsoid about its centre now; zero if not `oriented`."""
        axes = state.rotations @ state.rest.rotations
        moments = self.mass[:, None] / 5 * self.radii**2 * self.oriented[:, None]
        A = np.einsum("nik,nk,njk->nij", axes, moments, axes)
        return np.asarray(np.trace(A, axis1=1, axis2=2)[:, None, None] * np.eye(3) - A)


def join(bodies: Sequence[OrientedBody]) -> OrientedBody:
    """Return all bodies as one, particles in their order.

    Each has been checked; two of them may have particles at one point.
    """
    if not bodies:
        raise InputError("bodies must hold at least one OrientedBody, got none")
    shift = np.cumsum([0, *(len(body) for body in bodies)])[:-1]
    together: CheckedFields = {
        name: np.concatenate([getattr(body, name) for body in bodies])
        for name in OrientedBody.__dataclass_fields__
        if name not in ("edges", "groups", "hulls", "loose", "visual")
    }
    moved = list(zip(bodies, shift, strict=True))
    together["edges"] = np.concatenate([body.edges + k for body, k in moved])
    together["groups"] = tuple(group + k for body, k in moved for group in body.groups)
    together["hulls"] = tuple(points for body in bodies for points in body.hulls)
    together["loose"] = True
    together["visual"] = join_skins([body.visual for body in bodies], [len(body) for body in bodies])
    joined = OrientedBody.__new__(OrientedBody)
    joined._set(together)
    return joined
