"""Joints welded at a position: bodies fold into those that carry them.

The inertia of a welded body goes to its carrier, C(i): the nearest body towards the base whose
joint still moves,

    I_C += X^T I_i X,        X: C(i) -> body i at the given position

and its frame and a :class:`~dynsys.model.body.Weld` stay, as for the fixed joints of a file. A
body welded to the base has no inertia any more. O(n).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dynsys.errors import ModelError, StateError
from dynsys.model.body import Body, Frame, Shape, Weld
from dynsys.model.contacts import link_of
from dynsys.model.spatial import Inertia, Transform, compose
from dynsys.types import Array, ArrayLike

if TYPE_CHECKING:
    from dynsys.model.tree import KinematicTree

__all__ = ["weld_joints"]


def weld_joints(
    robot: KinematicTree, positions: Mapping[str, ArrayLike]
) -> tuple[list[Body], dict[str, Frame], dict[str, Weld], list[Shape]]:
    """Bodies, frames, welds and shapes of the robot with some joints welded; see the module.

    Raises
    ------
    ModelError
        naming the joint: no such joint, one that follows another, no position of it.
    """
    q, locked = _positions(robot, positions)
    # where every body is: its carrier's new number, and the transform carrier -> body
    place: list[Frame] = []
    bodies: list[Body] = []
    number: dict[int, int] = {}  # of the bodies that still move
    for i, body in enumerate(robot.bodies):
        above = place[body.parent] if body.parent >= 0 else Frame(-1, Transform.identity())
        if i not in locked:
            placement = compose(above.transform, body.placement)
            number[i] = len(bodies)
            bodies.append(replace(body, parent=above.body, placement=placement))
            place.append(Frame(number[i], Transform.identity()))
            continue
        here = compose(above.transform, robot.joint_transform(i, q))
        place.append(Frame(above.body, here, body.name))
        if above.body >= 0:
            total = bodies[above.body].inertia.plus(body.inertia.seen_from(here))
            bodies[above.body] = replace(bodies[above.body], inertia=total)
    for k, body in enumerate(bodies):
        if body.coupling is not None:
            leader = number[body.coupling.leader]
            bodies[k] = replace(body, coupling=replace(body.coupling, leader=leader))
    frames = {
        name: Frame(
            place[f.body].body,
            compose(place[f.body].transform, f.transform),
            link_of(robot, name) or "",
        )
        if f.body >= 0
        else f
        for name, f in robot.frames.items()
        if f.body < 0 or robot.body_names[f.body] != name or f.body in locked
    }
    for i in sorted(locked):
        frames.setdefault(robot.joint_names[i], place[i])
    shapes = [
        replace(
            s,
            body=place[s.body].body,
            transform=compose(place[s.body].transform, s.transform),
        )
        if s.body >= 0
        else s
        for s in robot.shapes
    ]
    return bodies, frames, _welds(robot, locked, place, number), shapes


def _positions(
    robot: KinematicTree, positions: Mapping[str, ArrayLike]
) -> tuple[Array, frozenset[int]]:
    """A q that holds them, and the numbers of the joints that stand: those and followers."""
    q, locked = robot.neutral(), set()
    for name, value in positions.items():
        i = robot.joint_index(name)
        coupling = robot.bodies[i].coupling
        if coupling is not None:
            leader = robot.joint_names[coupling.leader]
            raise ModelError(
                f"robot {robot.name!r}: joint {name!r} follows {leader!r} and cannot be locked"
                " by itself; lock that one"
            )
        try:
            q[robot.q_slice(name)] = value
        except (TypeError, ValueError):
            n = robot.joints[i].nq
            raise ModelError(
                f"robot {robot.name!r}: joint {name!r} is locked at {value!r}; give"
                f" {'a number' if n == 1 else f'{n} numbers'}"
            ) from None
        locked.add(i)
    try:
        q = robot.check_q(q)
    except StateError as error:
        raise ModelError(f"robot {robot.name!r}: lock: {error}") from None
    for i, body in enumerate(robot.bodies):
        if body.coupling is not None and body.coupling.leader in locked:
            locked.add(i)
    return q, frozenset(locked)


def _welds(
    robot: KinematicTree, locked: frozenset[int], place: list[Frame], number: Mapping[int, int]
) -> dict[str, Weld]:
    """Welds of the robot and of the locked joints, with all that is now welded beyond them."""
    beyond, hanging = _beyond(robot, locked, place, number)

    def grown(inertia: Inertia, children: tuple[int, ...]) -> tuple[Inertia, tuple[int, ...]]:
        moving = [number[j] for j in children if j not in locked]
        for j in children:
            if j in locked:
                inertia, moving = inertia.plus(beyond[j]), [*moving, *hanging[j]]
        return inertia, tuple(sorted(moving))

    found: dict[str, Weld] = {}
    for name, weld in robot.welds.items():
        at = place[weld.body] if weld.body >= 0 else Frame(-1, Transform.identity())
        inertia, children = grown(weld.inertia.seen_from(at.transform), weld.children)
        found[name] = replace(
            weld,
            body=at.body,
            transform=compose(at.transform, weld.transform),
            parent_transform=compose(at.transform, weld.parent_transform),
            inertia=inertia,
            children=children,
        )
    for i in sorted(locked):
        parent = robot.bodies[i].parent
        carrier = place[parent].transform if parent >= 0 else Transform.identity()
        held = robot.body_names[parent] if parent >= 0 else ""
        for name, weld in robot.welds.items():  # parents first: the last one holds the joint
            if name == weld.joint and i in weld.children:
                carrier, held = found[name].transform, weld.link
        made = Weld(
            robot.joint_names[i],
            robot.body_names[i],
            place[i].body,
            place[i].transform,
            carrier,
            beyond[i],
            tuple(sorted(hanging[i])),
            held,
        )
        found[made.joint] = made
        found.setdefault(made.link, made)
    return found


def _beyond(
    robot: KinematicTree, locked: frozenset[int], place: list[Frame], number: Mapping[int, int]
) -> tuple[dict[int, Inertia], dict[int, list[int]]]:
    """Of each locked joint: inertia beyond it, in its carrier's frame, and moving bodies."""
    inertia = {i: robot.bodies[i].inertia.seen_from(place[i].transform) for i in locked}
    hanging: dict[int, list[int]] = {i: [] for i in locked}
    for i in reversed(range(robot.n_bodies)):
        parent = robot.bodies[i].parent
        if parent not in locked:
            continue
        if i in locked:
            inertia[parent] = inertia[parent].plus(inertia[i])
            hanging[parent] = [*hanging[parent], *hanging[i]]
        else:
            hanging[parent].append(number[i])
    return inertia, hanging
