"""What a layout and a motion see of the parameters: before a robot moves, or after.

    A theta = b,   A (rows of all samples, parameters), contacts eliminated

theta_j is seen by itself if no unseen direction (A n = 0) moves it; not at all if its column is
zero; else only together with others. With columns taken from the root to the tips, each that
depends on those before it is regrouped,  A_d = sum over k of beta_k A_k,  and what is seen are
the base parameters of Gautier and Khalil (1990):  theta_k + sum over d of beta_kd theta_d.
Rank is judged on columns of unit size, by orthogonal factors, never by normal equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dynsys.types import Array, IntArray
from problems.identification.parameter_set import ParameterSet
from problems.identification.regressor import Regressor
from problems.identification.weighted import Log, weighted_rows
from sensors import ForceTorque, JointTorque, Layout

__all__ = ["Combination", "Seen", "generic_states", "seen_by"]

TOLERANCE = 1e-9
"""Singular values below this part of the largest, columns of unit size, are zero."""
OPEN = 1e-6
"""Parts of a combination below this are rounding."""
STATES = 3
"""Random states, in multiples of those that a full rank would need."""
CHUNK = 1024


@final
@dataclass(frozen=True)
class Combination:
    """A sum of parameters that is seen: ``terms`` are names and factors, the first is 1."""

    terms: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        text = self.terms[0][0]
        for name, factor in self.terms[1:]:
            size = "" if abs(abs(factor) - 1) < OPEN else f"{abs(factor):.4g} "
            text += f" {'-' if factor < 0 else '+'} {size}{name}"
        return text


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """What is seen of the parameters.

    Attributes
    ----------
    rank : number of combinations that are seen.
    combinations : those, each named by its first parameter.
    alone : names of parameters that are seen by themselves.
    never : names of parameters that no reading depends on.
    together : name of each other parameter to those it is only seen together with.
    std : expected deviation by name, readings with the layout's noise, independent in time;
        near the parameter's natural size where little is told.
    other_motion : how many more combinations random states would show; zero for these.
    """

    sought: ParameterSet
    combinations: tuple[Combination, ...]
    alone: tuple[str, ...]
    never: tuple[str, ...]
    together: dict[str, tuple[str, ...]]
    std: dict[str, float]
    other_motion: int

    @property
    def rank(self) -> int:
        """Number of combinations that are seen."""
        return len(self.combinations)

    @property
    def seen(self) -> tuple[str, ...]:
        """What is seen, in words."""
        return tuple(map(str, self.combinations))

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """What is not seen, in words."""
        words = []
        owners: dict[str, list[str]] = {}
        for name in self.never:
            owner, _, kind = name.rpartition(".")
            owners.setdefault(owner, []).append(kind)
        for owner, kinds in owners.items():
            words.append(f"no reading depends on {', '.join(kinds)} of {owner}")
        for name, others in self.together.items():
            words.append(f"{name} is seen only together with {', '.join(others)}")
        return tuple(words)

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """Which motion or sensor would show more, in words; none if nothing would."""
        words = []
        if self.other_motion:
            words.append(
                f"another motion would show {self.other_motion} more: random positions, speeds"
                " and accelerations within the limits"
            )
        for what, more in self._sensors():
            words.append(f"{what} would show {more} more")
        return tuple(words)

    def _sensors(self) -> list[tuple[str, int]]:
        """Sensors that may be added, and how many more combinations random states show."""
        sought, robot = self.sought, self.sought.robot
        own = sought.layout.sensors
        there = {s.joint for s in own if isinstance(s, JointTorque)}
        at = {s.at for s in own if isinstance(s, ForceTorque)}
        joints = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
        roots = [n for n, p in zip(robot.joint_names, robot.parent, strict=True) if p < 0]
        driven = [n for n in joints if n not in there]
        choices: list[tuple[str, list[Any]]] = [
            (
                "torques of all joints",
                [JointTorque(f"torque of {n}", n, std=1.0) for n in driven],
            ),
            (
                f"a six-axis sensor at {', '.join(n for n in roots if n not in at)}",
                [ForceTorque(f"wrench of {n}", n, std=1.0) for n in roots if n not in at],
            ),
        ]
        base = self.rank + self.other_motion
        found = []
        for what, more in choices:
            if more:
                layout = Layout(robot, [*own, *more], quiet=True)
                regressor = sought.regressor
                wider = Regressor(robot, layout, regressor.columns, regressor.contacts)
                with_it = ParameterSet(wider, sought.offsets, sought.gains)
                gain = _generic_rank(with_it, plain=True) - base
                if gain > 0:
                    found.append((what, gain))
        return found


# ---- from rows to what they see ------------------------------------------------------------


def generic_states(sought: ParameterSet, seed: int = 0) -> Log:
    """Random positions within the limits, speeds and accelerations: no readings."""
    robot, rng = sought.robot, np.random.default_rng(seed)
    count = 10 + STATES * -(-sought.size // max(sought.layout.size, 1))
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    speed = np.minimum(robot.velocity_limit, 2.0)
    qd = speed * rng.uniform(-1, 1, size=(count, robot.nv))
    qdd = 5.0 * rng.normal(size=(count, robot.nv))
    return Log(q, qd, qdd, np.zeros((count, sought.layout.size)))


def seen_by(sought: ParameterSet, log: Log | None) -> Seen:
    """What random states see, or the states of a log."""
    states = generic_states(sought) if log is None else log
    factor = _factor(sought, states, plain=log is None)
    names, order = sought.names, np.arange(sought.size)
    size = np.linalg.norm(factor, axis=0)
    unit = factor / np.where(size > 0, size, 1.0)
    rank = _rank(factor)
    base = _independent(unit, rank)
    rest = np.setdiff1d(order[size > 0], base)
    beta = np.linalg.lstsq(unit[:, base], unit[:, rest], rcond=None)[0]
    moved = np.abs(beta) > OPEN
    scaled = beta * size[rest] / size[base, None]
    combinations = tuple(
        Combination(
            ((names[k], 1.0), *((names[d], float(scaled[i, j])) for j, d in _used(rest, row)))
        )
        for i, (k, row) in enumerate(zip(base.tolist(), moved, strict=True))
    )
    together = {
        names[d]: tuple(names[base[i]] for i in np.flatnonzero(moved[:, j]))
        for j, d in enumerate(rest.tolist())
    }
    for i, k in enumerate(base.tolist()):
        if moved[i].any():
            together[names[k]] = tuple(names[d] for _, d in _used(rest, moved[i]))
    other = 0 if log is None else max(0, _generic_rank(sought, plain=False) - rank)
    return Seen(
        sought=sought,
        combinations=combinations,
        alone=tuple(names[k] for i, k in enumerate(base.tolist()) if not moved[i].any()),
        never=tuple(names[k] for k in order[size == 0].tolist()),
        together={name: together[name] for name in names if name in together},
        std=_expected(sought, factor),
        other_motion=other,
    )


def _used(rest: IntArray, row: Array) -> list[tuple[int, int]]:
    return [(j, int(rest[j])) for j in np.flatnonzero(row).tolist()]


def _generic_rank(sought: ParameterSet, *, plain: bool) -> int:
    """Rank at random states: a few dozen, not worth compiling a kernel if there is none."""
    return _rank(_factor(sought, generic_states(sought), plain=plain))


def _factor(sought: ParameterSet, states: Log, *, plain: bool) -> Array:
    """Triangular factor (p or fewer, p) of the weighted rows of all states."""
    std = np.where(sought.layout.std > 0, sought.layout.std, 1.0)
    factor = np.zeros((0, sought.size))
    for start in range(0, len(states), CHUNK):
        rows = weighted_rows(sought, states.part(slice(start, start + CHUNK)), std, plain=plain)
        stacked = np.concatenate([factor, rows.reshape(-1, sought.size)])
        factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    size = np.abs(factor).max(axis=0, initial=0.0)
    return np.where(np.abs(factor) > 1e-14 * np.maximum(size, size.max(initial=0.0) * 1e-3),
                    factor, 0.0)  # fmt: skip


def _rank(factor: Array) -> int:
    size = np.linalg.norm(factor, axis=0)
    singular = np.linalg.svd(factor[:, size > 0] / size[size > 0], compute_uv=False)
    return int((singular > TOLERANCE * singular.max(initial=0.0)).sum())


def _independent(unit: Array, rank: int) -> IntArray:
    """Columns of unit size, as early as possible, that span the others."""
    left = unit.copy()
    chosen: list[int] = []
    for k in range(unit.shape[1]):
        if np.linalg.norm(left[:, k]) > 1e-7 and len(chosen) < rank:
            direction = left[:, k] / np.linalg.norm(left[:, k])
            for _ in range(2):
                left[:, k + 1 :] -= np.outer(direction, direction @ left[:, k + 1 :])
            chosen.append(k)
    return np.array(chosen, dtype=np.intp)


def _expected(sought: ParameterSet, factor: Array) -> dict[str, float]:
    """Expected deviations by name, the model's natural sizes included."""
    scale = sought.scale
    singular, V = np.linalg.svd(factor * scale, full_matrices=True)[1:]
    told = np.zeros(sought.size)
    told[: len(singular)] = singular**2
    std = scale * np.sqrt((V.T**2 / (1.0 + told)).sum(axis=1))
    return dict(zip(sought.names, std.tolist(), strict=True))
