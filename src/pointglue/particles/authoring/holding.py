"""Edits that hold particles: pinned to the world, or to each other as rigid groups; see `editing`."""

from math import inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import check_flag, check_real
from ...errors import InputError
from ..body import OrientedBody
from .brushes import Brush
from .choices import check_body, chosen, edited, numbers_of, visual_of
from .hull_fitting import CONVEX, fitted_hulls

__all__ = ["group", "hull", "pin", "ungroup"]


def pin(
    body: OrientedBody,
    where: Brush | ArrayLike | None,
    *,
    pinned: bool | Literal["position"] = True,
) -> OrientedBody:
    """Pin particles, so that they stay where they are, or release them.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,), optional
        Which particles: within a brush, by number or by a mask; None for all.
    pinned : bool or "position"
        Whether they are pinned; with "position" they are held in place, and free to turn.

    Returns
    -------
    OrientedBody
        A copy of the body with those particles pinned or released.

    Raises
    ------
    InputError
        If there is no such particle.
    """
    check_body(body)
    held = pinned if pinned == "position" else check_flag("pinned", pinned)
    at = chosen("where", where, body.positions, "particles")
    masks = {"pinned": body.pinned.copy(), "pivots": body.pivots.copy()}
    masks["pinned"][at], masks["pivots"][at] = held is True, held == "position"
    return body.replace(**masks)


def group(body: OrientedBody, where: Brush | ArrayLike | None, *, yield_speed: float = inf) -> OrientedBody:
    """Make particles one more rigid group.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (n,), optional
        Which particles: within a brush, by number or by a mask; None for all.
    yield_speed : float
        The group deforms permanently if it is hit faster than this [m/s]; inf for never.

    Returns
    -------
    OrientedBody
        A copy of the body with the new group after the old ones.

    Raises
    ------
    InputError
        If there is no such particle, or none at all.
    """
    check_body(body)
    check_real("yield_speed", yield_speed, at_least=0, infinite=True)
    members = chosen("where", where, body.positions, "particles")
    if not len(members):
        raise InputError("where covers no particle: a group has at least one")
    return edited(
        body,
        groups=[*body.groups, members],
        hulls=[*body.hulls, None],
        yield_speed=np.concatenate([body.yield_speed, [yield_speed]]),
    )


def ungroup(body: OrientedBody, where: Brush | ArrayLike | None) -> OrientedBody:
    """Dissolve rigid groups.

    Parameters
    ----------
    body : OrientedBody
        The body.
    where : Brush, (k,) or (groups,), optional
        Which groups: those with a particle within a brush, by number or by a mask; None for all.

    Returns
    -------
    OrientedBody
        A copy of the body without those groups.

    Raises
    ------
    InputError
        If there is no such group.
    """
    gone = _chosen_groups(body, where)
    kept = [members for members, leaves in zip(body.groups, gone, strict=True) if not leaves]
    hulls = [points for points, leaves in zip(body.hulls, gone, strict=True) if not leaves]
    return edited(body, groups=kept, hulls=hulls, yield_speed=body.yield_speed[~gone])


def hull(
    body: OrientedBody, where: Brush | ArrayLike | None = None, *, filled: float = CONVEX
) -> OrientedBody:
    """Let rigid groups collide as the convex hulls of their part of the visual mesh, so that they can stack.

    Parameters
    ----------
    body : OrientedBody
        The body, with a visual mesh.
    where : Brush, (k,) or (groups,), optional
        Which groups: those with a particle within a brush, by number or by a mask; None for all.
    filled : float
        The least share of its hull that a group has to fill; others, rings and bowls, collide as they did. 0
        for all.

    Returns
    -------
    OrientedBody
        A copy of the body with those hulls.

    Raises
    ------
    InputError
        If there is no such group, the body has no visual mesh, or `filled` is not from 0 to 1.
    """
    those, skin = _chosen_groups(body, where), visual_of(body)
    check_real("filled", filled, at_least=0, at_most=1)
    owners = skin.links[np.arange(len(skin.links)), skin.weights.argmax(1)]
    fitted = fitted_hulls(body.groups, skin.vertices, skin.faces, owners, filled)
    hulls = [
        new if chosen and new is not None else old
        for old, new, chosen in zip(body.hulls, fitted, those, strict=True)
    ]
    return body.replace(hulls=hulls)


def _chosen_groups(body: OrientedBody, where: Brush | ArrayLike | None) -> NDArray[np.bool_]:
    """Return which groups (groups,) are meant, or raise."""
    check_body(body)
    if isinstance(where, Brush):
        return np.array([where.covers(body.positions[members]).any() for members in body.groups], np.bool_)
    those = np.zeros(len(body.groups), np.bool_)
    those[numbers_of("where", where, len(body.groups), "groups") if where is not None else slice(None)] = True
    return those
