"""On which side of a force/torque sensor within a body the environment touches that body.

A body may be several links that fixed or locked joints hold together. A sensor in such a joint
feels the part P beyond it,

    y = X^-T (I_P a + v x* I_P v - s f^x + sum over children of P  X_j^T f_j)

with s = 1 if the body's external wrench f^x acts on P, else 0. The frames that a layout names
tell s, in this order: those of ``zero_external_wrench_except``; those of sensors of, and
statements about, the body's wrench; those of statements that it is zero. The same s must follow
from all of them. Where it does not, s does not matter while the wrench is stated to be zero,
exactly; else no answer may rest on the sensor, and the reason is kept for the error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dynsys.errors import LayoutError
from dynsys.model.contacts import welds_before
from dynsys.model.tree import KinematicTree, Weld
from sensors.constraints import ActionReaction, RigidContact
from sensors.external import (
    ExternalWrench,
    FiveAxisPlate,
    ForceAlongDirection,
    LoadCellPlate,
    PureForce,
)
from sensors.force_torque import TOUCHED, ForceTorque
from sensors.parameters import AXES
from sensors.sensor import AbstractSensor

__all__ = ["Sides", "states_zero"]

CONTACT = (
    ExternalWrench,
    LoadCellPlate,
    FiveAxisPlate,
    PureForce,
    ForceAlongDirection,
    ActionReaction,
    RigidContact,
)
"""Kinds that speak of a contact at their frame."""

Frames = Mapping[int, tuple[str | int, ...]]
"""Names of frames by the number of their body."""


@final
@dataclass(frozen=True, eq=False)
class Sides:
    """Frames at which each body of a robot is touched, as far as a layout says.

    Parameters
    ----------
    touched : those that a layout was made with.
    named : these and those that ``zero_external_wrench_except`` names, by body; so all others.
    told : those of sensors of contacts, and of statements about them.
    untouched : those of the statements that a body's whole wrench is zero, exactly.
    """

    robot: KinematicTree
    touched: tuple[str, ...]
    named: Frames
    told: Frames
    untouched: Frames

    @staticmethod
    def of(
        robot: KinematicTree, sensors: Iterable[AbstractSensor], touched: Sequence[str] = ()
    ) -> Sides:
        """What the sensors of a layout say, and the frames that its file names beside them."""
        named, told, untouched = list[str | int](touched), list[str | int](), list[str | int]()
        for sensor in sensors:
            if not isinstance(sensor, CONTACT):
                continue
            if isinstance(sensor, ExternalWrench):
                named += sensor.touched
            keys = ("frame", "frame_a", "frame_b")
            frames = [getattr(sensor, key) for key in keys if hasattr(sensor, key)]
            (untouched if states_zero(sensor) else told).extend(frames)
        kinds = (_by_body(robot, each) for each in (named, told, untouched))
        return Sides(robot, tuple(touched), *kinds)

    def settled(self, sensor: AbstractSensor) -> AbstractSensor:
        """Return the sensor with the side on which its body is touched, where that counts.

        Raises
        ------
        LayoutError
            naming sensor, body, the links on each side, and what to write.
        """
        robot = self.robot
        if not isinstance(sensor, ForceTorque) or sensor.at in robot.joint_names:
            return sensor
        weld = robot.welds.get(sensor.at)
        if weld is None or weld.body < 0:  # no such joint; the base has no external wrench
            return sensor
        said = self._said(weld)
        found = set(said.values())
        side = found.pop() if len(found) == 1 else None
        is_said = sensor.external != TOUCHED
        if side is not None:
            if is_said and side != sensor.external:
                raise LayoutError(self._denied(sensor, weld, said))
            return replace(sensor, external=side)
        both = found == {"before", "beyond"}
        if weld.body in self.untouched or (is_said and not (both and weld.body in self.named)):
            return sensor
        if both:
            raise LayoutError(self._both(sensor, weld, said))
        why = "nothing says which is touched"
        for frame in (name for name, each in said.items() if each is None):
            is_whole = frame in (robot.body_names[weld.body], weld.body)
            which = "the whole body" if is_whole else "a frame whose link is not known"
            why = f"{frame!r} is {which}"
        raise LayoutError(self._unknown(sensor, weld, why))

    def rests_on(self, sensor: AbstractSensor) -> int:
        """Body that must stay untouched for the sensor's side not to count, -1 for none."""
        if not isinstance(sensor, ForceTorque) or sensor.external != TOUCHED:
            return -1
        in_weld = sensor.at not in self.robot.joint_names and sensor.at in self.robot.welds
        return self.robot.welds[sensor.at].body if in_weld else -1

    def require(self, sensor: AbstractSensor, touched: Collection[int]) -> None:
        """LayoutError if the sensor rests on one of these bodies' being untouched."""
        body = self.rests_on(sensor)
        if body >= 0 and body in touched and isinstance(sensor, ForceTorque):
            name = self.robot.body_names[body]
            why = f"{name!r} is touched, where its statement that it is not does not hold"
            raise LayoutError(self._unknown(sensor, self.robot.welds[sensor.at], why))

    def _said(self, weld: Weld) -> dict[str | int, str | None]:
        """Side of each frame that counts; None for one that may be on either."""
        body = weld.body
        named, told, zero = (
            {frame: self._side(frame, weld) for frame in frames.get(body, ())}
            for frames in (self.named, self.told, self.untouched)
        )
        if named:
            return {**{frame: s for frame, s in told.items() if s is not None}, **named}
        return told or {frame: s for frame, s in zero.items() if s is not None}

    def _side(self, frame: str | int, weld: Weld) -> str | None:
        if frame in (weld.body, self.robot.body_names[weld.body]):
            return None
        links = welds_before(self.robot, frame)
        if links is None:
            return None
        return "beyond" if weld.link in links else "before"

    # ---- in words ------------------------------------------------------------------------

    def _where(self, sensor: AbstractSensor, weld: Weld) -> str:
        robot = self.robot
        own = robot.body_names[weld.body]
        links = {w.link: w.parent for w in robot.welds.values() if w.body == weld.body}
        beyond = [link for link in links if weld.link in _way(link, links)]
        before = [own, *(link for link in links if link not in beyond)]
        return (
            f"{sensor} sits in the fixed joint {weld.joint!r} within body {own!r}, between"
            f" links {', '.join(before)} and, beyond it, {', '.join(beyond)}"
        )

    def _unknown(self, sensor: AbstractSensor, weld: Weld, why: str) -> str:
        link = weld.link
        return (
            f"{self._where(sensor, weld)}. It feels the external wrench of the body only where"
            f" that acts beyond it, and {why}; name a link (zero_external_wrench_except:"
            f" [{link}]), or say external: beyond (or before) of the sensor, or, where both"
            f" sides may be touched, give each a wrench of its own (contacts: [{{name: NAME,"
            f" frame: {link}}}, ...])"
        )

    def _both(
        self, sensor: AbstractSensor, weld: Weld, said: Mapping[str | int, str | None]
    ) -> str:
        sides = ", ".join(f"{frame!r} is {side} it" for frame, side in said.items() if side)
        return (
            f"{self._where(sensor, weld)}. {sides}, but the body has one external wrench; give"
            f" each a wrench of its own: contacts: [{', '.join(map(str, said))}]"
        )

    def _denied(
        self, sensor: ForceTorque, weld: Weld, said: Mapping[str | int, str | None]
    ) -> str:
        return (
            f"{self._where(sensor, weld)}. It says external: {sensor.external}, but the body is"
            f" touched at {', '.join(map(repr, said))}, on the other side; leave external out,"
            f" or give each side a wrench of its own: contacts: [{', '.join(map(str, said))}]"
        )


def states_zero(sensor: AbstractSensor) -> bool:
    """Tell whether a sensor states that all of a body's external wrench is zero, exactly."""
    return (
        isinstance(sensor, ExternalWrench)
        and sensor.value is not None
        and not np.any(sensor.value)
        and len(sensor.components) == len(AXES)
        and not np.any(sensor.std or 0.0)
        and sensor.covariance is None
    )


def _by_body(robot: KinematicTree, frames: Sequence[str | int]) -> Frames:
    found: dict[int, tuple[str | int, ...]] = {}
    for name in dict.fromkeys(frames):
        if not isinstance(name, str) or name in robot.frames:
            body = robot.frame(name).body
            found[body] = (*found.get(body, ()), name)
    return found


def _way(link: str, parents: Mapping[str, str]) -> list[str]:
    """Links from one of a body to the body's own."""
    way: list[str] = []
    while link in parents and link not in way:
        way.append(link)
        link = parents[link]
    return way
