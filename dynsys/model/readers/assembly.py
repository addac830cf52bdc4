"""What all readers share: options, folding welded links, composing couplings, warnings.

Fixed joints are folded: the child's inertia goes to the body that carries it; its frame and a
:class:`~dynsys.model.body.Weld` stay, for sensors that sit there.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, final, get_args

import numpy as np

from dynsys.errors import ModelError, ModelWarning
from dynsys.model.body import (
    Body,
    Coupling,
    Frame,
    Shape,
    Weld,
    check_joint_data,
    inertia_defect,
)
from dynsys.model.constraints import Constraint, FrameConstraint, checked_constraints
from dynsys.model.parameters import SMOOTHING
from dynsys.model.readers.xml_input import PathLike
from dynsys.model.spatial import Inertia, Transform, compose
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike

__all__ = [
    "Assembly",
    "FrictionPolicy",
    "InertiaPolicy",
    "MimicPolicy",
    "ReadOptions",
    "check_policies",
    "emit",
    "followers_of",
    "listing",
]

MimicPolicy: TypeAlias = Literal["independent", "couple"]
InertiaPolicy: TypeAlias = Literal["warn", "strict", "any"]
FrictionPolicy: TypeAlias = Literal["ignore", "file"]


def check_policies(mimic: str, inertia: str, friction: str) -> None:
    """Raise ModelError unless all reading options are known."""
    for name, value, known in (
        ("mimic", mimic, get_args(MimicPolicy)),
        ("inertia", inertia, get_args(InertiaPolicy)),
        ("friction", friction, get_args(FrictionPolicy)),
    ):
        if value not in known:
            raise ModelError(f"{name} must be one of {', '.join(known)}, got {value!r}")


@final
@dataclass(frozen=True)
class ReadOptions:
    """How a robot file is read, as :func:`dynsys.load` explains; checked."""

    floating_base: bool
    mimic: MimicPolicy
    gravity: ArrayLike | None
    inertia: InertiaPolicy
    max_bytes: int
    include_folder: PathLike | None = None
    friction: FrictionPolicy = "ignore"
    lock: Mapping[str, ArrayLike] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_policies(self.mimic, self.inertia, self.friction)


def followers_of(locked: Collection[str], leaders: Mapping[str, str]) -> set[str]:
    """Joints that follow a locked one, through others too, and are not locked themselves."""
    found: set[str] = set()
    while more := {
        joint
        for joint, leader in leaders.items()
        if (leader in locked or leader in found) and joint not in found and joint not in locked
    }:
        found |= more
    return found


def listing(names: Sequence[str], shown: int = 8) -> str:
    """Names joined by commas, the tail counted."""
    head = ", ".join(names[:shown])
    return head if len(names) <= shown else f"{head} and {len(names) - shown} more"


def emit(notes: Sequence[str], stacklevel: int) -> None:
    """Issue one ModelWarning per note, at the caller ``stacklevel`` frames up."""
    for note in notes:
        warnings.warn(note, ModelWarning, stacklevel=stacklevel + 1)


@final
class Assembly:
    """A robot under construction: bodies in parent-first order, frames, notes for the user."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.bodies: list[Body] = []
        self.frames: dict[str, Frame] = {}
        self.notes: list[str] = []
        self.shapes: list[Shape] = []
        self.constraints: list[Constraint] = []
        self._welds: dict[str, Weld] = {}  # by link, parents before children
        self._welded_to: dict[str, str] = {}
        self._hanging: dict[str, list[int]] = {}
        self._doubts: dict[str, list[str]] = {}
        self._unphysical: list[str] = []
        self._rotors: list[str] = []

    def note(self, text: str) -> None:
        """Remember a warning for the user."""
        self.notes.append(f"{self.source}: {text}")

    def doubt(self, kind: str, name: str) -> None:
        """Remember what is odd about one part; parts of one kind share a warning."""
        self._doubts.setdefault(kind, []).append(name)

    def touch(
        self, link: str, name: str, kind: str, place: Frame, here: Transform, *size: float
    ) -> None:
        """Add a shape of a link, at ``here`` in the frame ``place``; doubt what cannot be."""
        if not all(0 < x < np.inf for x in size):
            self.doubt("shapes whose size is not positive are left out, of links", link)
            return
        used = {shape.name for shape in self.shapes}
        name, k = name or link, 1
        while name in used:
            name, k = f"{link}[{k}]", k + 1
        at = compose(place.transform, here)
        self.shapes.append(Shape(name, kind, place.body, at, tuple(map(float, size))))

    def inspect(self, link: str, inertia: Inertia) -> None:
        """Raise on an impossible inertia; remember one that no mass distribution has.

        Only the sum of a body and the links welded to it enters the equations of motion:
        :meth:`finish` judges whether it is indefinite.
        """
        if inertia.mass == 0 and inertia.about_com.any():
            self._rotors.append(link)
        defect = inertia_defect(inertia)
        if defect is None:
            return
        if defect.kind == "fatal":
            raise ModelError(
                f"{self.source}: link {link!r}: {defect.reason}; correct its inertia"
            )
        self._unphysical.append(f"{link} ({defect.reason})")

    def add(self, body: Body) -> int:
        """Append a body and return its number."""
        self.inspect(body.name, body.inertia)
        check_joint_data(f"{self.source}: body {body.name!r}", body, physical=True)
        self.bodies.append(body)
        return len(self.bodies) - 1

    def weld(self, body: int, link: str, transform: Transform, inertia: Inertia) -> None:
        """Fold a link into ``body`` (-1: the base, which has no inertia) and keep its frame."""
        self.frames[link] = Frame(body, transform, link)
        if body < 0:
            return
        self.inspect(link, inertia)
        carrier = self.bodies[body]
        total = carrier.inertia.plus(inertia.seen_from(transform))
        self.bodies[body] = replace(carrier, inertia=total)

    def fold(
        self,
        link: str,
        joint: str,
        parent: str,
        carrier: Frame,
        transform: Transform,
        inertia: Inertia,
    ) -> Frame:
        """Weld a link to the link ``parent``, whose frame is ``carrier``; return its frame.

        ``joint`` is the name of the fixed joint, ``transform`` goes body of carrier -> link.
        """
        self.weld(carrier.body, link, transform, inertia)
        seen = inertia.seen_from(transform)
        self._welds[link] = Weld(
            joint, link, carrier.body, transform, carrier.transform, seen, (), parent
        )
        self._welded_to[link] = parent
        return self.frames[link]

    def hang(self, body: int, link: str) -> None:
        """Remember that the joint of ``body`` sits on ``link``."""
        self._hanging.setdefault(link, []).append(body)

    def welds(self) -> dict[str, Weld]:
        """Welds by the name of their fixed joint and, where that is free, of their link."""
        inertia = {link: weld.inertia for link, weld in self._welds.items()}
        children = {link: list(self._hanging.get(link, ())) for link in self._welds}
        for link in reversed(self._welds):
            parent = self._welded_to[link]
            if parent in self._welds:  # what hangs beyond the parent's joint too
                inertia[parent] = inertia[parent].plus(inertia[link])
                children[parent].extend(children[link])
        found = {
            weld.joint: replace(
                weld, inertia=inertia[link], children=tuple(sorted(children[link]))
            )
            for link, weld in self._welds.items()
        }
        return found | {weld.link: weld for weld in found.values() if weld.link not in found}

    def couple(self, couplings: Mapping[int, Coupling]) -> None:
        """Make joints follow others, each the leader at the end of its chain.

        q_f = a q_l + b and q_l = c q_m + d give q_f = a c q_m + (a d + b).
        """
        for follower, coupling in couplings.items():
            passed = {follower}
            while coupling.leader in couplings:
                if coupling.leader in passed:
                    name = self.bodies[follower].joint_name or self.bodies[follower].name
                    raise ModelError(
                        f"{self.source}: joint {name!r} follows itself through its leaders;"
                        " break the ring, or load with mimic='independent'"
                    )
                passed.add(coupling.leader)
                up = couplings[coupling.leader]
                coupling = Coupling(
                    up.leader,
                    coupling.ratio * up.ratio,
                    coupling.ratio * up.offset + coupling.offset,
                )
            self.bodies[follower] = replace(self.bodies[follower], coupling=coupling)

    def hold(self, name: str, own: Frame, other: Frame, components: Sequence[str]) -> None:
        """Hold a frame against another one, each on a link of a body (-1: the base)."""
        if own.body < 0:
            own, other = other, own
        if own.body == other.body:
            self.note(f"constraint {name!r} holds what cannot move anyway; it is left out")
            return
        (here, at), (there, other_at) = self._on_link(own), self._on_link(other)
        held = FrameConstraint(
            name,
            here,
            None if other.body < 0 else there,
            components,
            placement=at,
            other_placement=other_at,
        )
        self.constraints.append(held)

    def _on_link(self, end: Frame) -> tuple[str, Transform]:
        """Link that holds a frame, welded or its body's own, and the frame within it."""
        if end.body < 0:
            return "", end.transform
        if end.link in self._welds:
            return end.link, compose(self._welds[end.link].transform.inverse(), end.transform)
        return self.bodies[end.body].name, end.transform

    def finish(
        self, gravity: ArrayLike, inertia: InertiaPolicy, friction: FrictionPolicy
    ) -> KinematicTree:
        """Return the validated tree; notes then hold every warning."""
        self._judge_inertias(inertia)
        for kind, names in self._doubts.items():
            self.note(f"{kind}: {listing(names)}")
        if self._rotors:
            self.note(
                f"links {listing(self._rotors)} have no mass but a rotational inertia, which is"
                " used as it is"
            )
        passive = [
            body.joint_name or body.name
            for body in self.bodies
            if _nonzero(body.damping) or _nonzero(body.friction)
        ]
        if passive and friction == "ignore":
            self.note(
                f"damping and friction of joints {listing(passive)} are read"
                " (robot.damping, robot.friction) but not part of the equations of motion;"
                " load with friction='file' (friction: file in a problem file, --friction) to"
                " make them so"
            )
        try:
            tree = KinematicTree(
                self.name,
                self.bodies,
                self.frames,
                gravity,
                physical=not self._unphysical,
                welds=self.welds(),
                smoothing=SMOOTHING if friction == "file" else None,
                shapes=self.shapes,
                constraints=self.constraints,
            )
            checked_constraints(tree, self.constraints)
        except ModelError as error:
            raise ModelError(f"{self.source}: {error}") from None
        if self.constraints:
            named = listing([held.name for held in self.constraints])
            self.note(
                f"constraints {named} hold where a problem is asked for them: constraints: file"
                " in a problem file, constraints='file' in Python; no other equation has them"
            )
        weightless = bodies_without_inertia(self.bodies)
        if weightless:
            self.note(
                f"moving bodies {listing(weightless)} have no inertia against their own joint:"
                " the joint-space inertia H is singular and forward dynamics has no answer;"
                " give them mass or armature"
            )
        return tree

    def _judge_inertias(self, inertia: InertiaPolicy) -> None:
        if not self._unphysical:
            return
        text = f"no mass distribution has the inertia of {listing(self._unphysical)}"
        if inertia == "strict":
            raise ModelError(f"{self.source}: {text}; correct it, or read with inertia='warn'")
        for body in self.bodies:  # the sums with what is welded to them
            defect = inertia_defect(body.inertia)
            if inertia == "warn" and defect is not None and defect.kind == "indefinite":
                raise ModelError(
                    f"{self.source}: link {body.name!r}: {defect.reason}; correct its inertia,"
                    " or read with inertia='any'"
                )
        self.note(f"{text}; used as they are")


def _nonzero(value: ArrayLike | None) -> bool:
    return value is not None and bool(np.any(np.asarray(value) != 0))


def bodies_without_inertia(bodies: Sequence[Body]) -> list[str]:
    """Names of the bodies that make H singular at every q.

    A leaf whose S^T I S + armature is singular, and every body that carries only such empty
    ones and has no inertia itself.
    """
    leaf = [True] * len(bodies)
    empty = [not b.inertia.matrix().any() and not _nonzero(b.armature) for b in bodies]
    for i in reversed(range(len(bodies))):
        parent = bodies[i].parent
        if parent >= 0:
            leaf[parent] = False
            empty[parent] = empty[parent] and empty[i]
    return [
        body.name
        for i, body in enumerate(bodies)
        if body.coupling is None
        and body.joint.nv > 0
        and (empty[i] or (leaf[i] and _singular_against_joint(body)))
    ]


def _singular_against_joint(body: Body) -> bool:
    spatial: Array = body.inertia.matrix()
    S = body.joint.S
    armature = np.zeros(body.joint.nv) if body.armature is None else np.asarray(body.armature)
    H = S.T @ spatial @ S + np.diag(np.broadcast_to(armature, (body.joint.nv,)))
    return bool(np.linalg.eigvalsh(H)[0] <= 1e-15 * max(np.abs(spatial).max(), 1e-300))
