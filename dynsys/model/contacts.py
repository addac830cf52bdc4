"""Contacts: further places at which the environment pushes a body, each by a wrench of its own.

A contact c is a body without mass, welded to the link that is touched. Its balance

    0 = f_c + f^x_c        so that its carrier feels  f^x + sum over contacts  X_c^T f^x_c

makes a body's external wrench a sum, and every equation, plan, kernel and verdict has several
wrenches on one body without knowing of contacts. It has no freedom: q, qd and torque stay as
they are. On the base it stands for what the environment feels, as a plate on the ground does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.body import Body, Frame, Weld
from dynsys.model.joints import Fixed
from dynsys.model.spatial import Transform, compose, rotation_from_rpy, rpy_of

if TYPE_CHECKING:
    from dynsys.model.tree import KinematicTree

__all__ = [
    "Contact",
    "contacts_of",
    "is_contact",
    "link_of",
    "welds_before",
    "with_contacts",
]

SAME = 1e-9
"""Places nearer than this (m, entries of a rotation) are one."""


@final
@dataclass(frozen=True)
class Contact:
    """A place of a robot that is touched, with a wrench of its own.

    Parameters
    ----------
    name : by which its wrench is found.
    frame : link or frame that is touched; empty for the one of the contact's name.
    xyz, rpy : pose of the contact within it, m and rad (fixed-axis roll, pitch, yaw).
    """

    name: str
    frame: str | int = ""
    xyz: Sequence[float] = (0.0, 0.0, 0.0)
    rpy: Sequence[float] = (0.0, 0.0, 0.0)

    def place(self, robot: KinematicTree) -> Frame:
        """Body that is touched, and the transform body -> contact."""
        try:
            r, angles = (np.array(x, dtype=np.float64) for x in (self.xyz, self.rpy))
            if r.shape != (3,) or angles.shape != (3,) or not np.isfinite([r, angles]).all():
                raise ValueError
        except (TypeError, ValueError):
            raise ModelError(
                f"contact {self.name!r}: xyz and rpy are three finite numbers each"
            ) from None
        found = robot.frame(self.name if self.frame == "" else self.frame)
        return Frame(
            found.body, compose(found.transform, Transform(rotation_from_rpy(angles), r))
        )


def is_contact(robot: KinematicTree, i: int) -> bool:
    """Tell whether body i is a contact: welded, without mass, carrying contacts at most."""
    body = robot.bodies[i]
    empty = body.inertia.mass == 0 and not np.any(body.inertia.about_com)
    alone = isinstance(body.joint, Fixed) and empty
    return alone and all(is_contact(robot, child) for child in robot.children[i])


def with_contacts(
    robot: KinematicTree, contacts: Iterable[Contact | str]
) -> tuple[list[Body], dict[str, Weld]]:
    """Bodies and welds of the robot with contacts more; those that it has already stay one.

    Raises
    ------
    ModelError
        naming the contact: its name is taken, or its link is not clear.
    """
    bodies, welds = list(robot.bodies), dict(robot.welds)
    names = set(robot.body_names)
    for given in [contacts] if isinstance(contacts, str) else contacts:
        contact = Contact(given) if isinstance(given, str) else given
        if not isinstance(contact, Contact) or not contact.name:
            raise ModelError(
                f"a contact of robot {robot.name!r} is a name or a Contact, got {given!r}"
            )
        if _is_there(robot, contact):
            continue
        if contact.name in names:
            raise ModelError(
                f"contact {contact.name!r}: robot {robot.name!r} has a body of this name, with"
                " an external wrench of its own; use that, or give the contact another name"
            )
        at = contact.place(robot)
        named = robot.frames.get(contact.name)
        if named is not None and not _same(named, at):
            raise ModelError(
                f"contact {contact.name!r} is not where the frame of this name is on robot"
                f" {robot.name!r}; give it another name"
            )
        number = len(bodies)
        weld_name = f"{contact.name}/contact"
        bodies.append(Body(contact.name, at.body, Fixed(), at.transform, joint_name=weld_name))
        names.add(contact.name)
        beyond = _cuts(robot, contact, at.body)
        for key, weld in welds.items():
            if weld.link in beyond:
                welds[key] = replace(weld, children=(*weld.children, number))
    return bodies, welds


def contacts_of(robot: KinematicTree) -> tuple[Contact, ...]:
    """All contacts of a robot, each on the link that it touches."""
    found = []
    for i in range(robot.n_bodies):
        if not is_contact(robot, i):
            continue
        body = robot.bodies[i]
        carrier = robot.body_names[body.parent] if body.parent >= 0 else -1
        link, here = carrier, Transform.identity()
        holding = {w.link: w for w in robot.welds.values() if i in w.children}
        for weld in holding.values():  # the one beyond which there is no further
            if weld.link not in {w.parent for w in holding.values()}:
                link, here = weld.link, weld.transform
        place = compose(here.inverse(), body.placement)
        # decimals that a file may have said: 0.3 and not the 0.30000000000000004 of its sine
        xyz = tuple(round(float(x), 15) + 0.0 for x in place.r)
        rpy = tuple(round(x, 15) + 0.0 for x in rpy_of(np.asarray(place.E)))
        same = link == body.name and not np.any(xyz) and not np.any(rpy)
        at = "" if same else link
        found.append(Contact(body.name, at, xyz, rpy))
    return tuple(found)


def _same(a: Frame, b: Frame) -> bool:
    X, Z = a.transform, b.transform
    apart = max(np.abs(X.E - Z.E).max(), np.abs(X.r - Z.r).max())
    return bool(a.body == b.body and apart < SAME)


def _is_there(robot: KinematicTree, contact: Contact) -> bool:
    """Whether the robot has this contact."""
    if contact.name not in robot.body_names:
        return False
    i = robot.body_index(contact.name)
    if not is_contact(robot, i):
        return False
    body = robot.bodies[i]
    if contact.frame in ("", contact.name):
        return not (np.any(contact.xyz) or np.any(contact.rpy))
    return _same(contact.place(robot), Frame(body.parent, body.placement))


def link_of(robot: KinematicTree, name: str | int) -> str | None:
    """Link of the robot's file that holds a frame; None where that is not known.

    "" is the base. A body's own name, or number, is its link on the side of its joint.
    """
    frame = robot.frame(name)
    own = robot.body_names[frame.body] if frame.body >= 0 else ""
    if not isinstance(name, str) or name == own:
        return own
    if frame.link:
        return frame.link
    if name in robot.welds and robot.welds[name].body == frame.body:
        return robot.welds[name].link  # a locked joint names its link's frame too
    return None if any(w.body == frame.body for w in robot.welds.values()) else own


def welds_before(robot: KinematicTree, name: str | int) -> frozenset[str] | None:
    """Links whose fixed joints are between a frame and its body; None where not known.

    A wrench at the frame goes through exactly these fixed joints of the body.
    """
    body, link = robot.frame(name).body, link_of(robot, name)
    if link is None:
        return None
    by_link = {w.link: w for w in robot.welds.values() if w.body == body}
    found: set[str] = set()
    while link in by_link and link not in found:
        found.add(link)
        link = by_link[link].parent
    return frozenset(found)


def _cuts(robot: KinematicTree, contact: Contact, body: int) -> frozenset[str]:
    """Links of the fixed joints between the body and the link that is touched."""
    name = contact.name if contact.frame == "" else contact.frame
    found = welds_before(robot, name)
    if found is None:
        own = robot.body_names[body] if body >= 0 else "the base"
        links = [own, *dict.fromkeys(w.link for w in robot.welds.values() if w.body == body)]
        raise ModelError(
            f"contact {contact.name!r}: frame {name!r} is on one of the links {links} of robot"
            f" {robot.name!r}, but which is not known, so neither which fixed joints carry the"
            " wrench; name the link, and xyz and rpy within it"
        )
    return found
