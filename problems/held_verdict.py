"""Verdict on constrained dynamics before any data: what the constraints determine, what not.

    forward, hybrid   J_T H_TT^-1 J_T^T force = ...    forces along its null space move nothing
    inverse           J_U^T force = torque_U           forces along its null space carry nothing

Accelerations are always determined, where the rows agree. Which forces are not, and between
which constraints they act, is read off null spaces at configurations where the constraints
hold; a rank that drops at some of them is said too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.model.constraints import JointConstraint, row_labels, row_slices
from dynsys.plan.held.multipliers import HeldBy
from dynsys.recursive.constraint_rows import CLOSED, closed_configurations
from dynsys.types import Array
from problems.labels import and_more

__all__ = ["HeldVerdict", "judge_held"]

RANK = 1e-9
"""Singular values below this part of the largest, rows of unit length, are zero."""
SHOWN = 1e-6
"""Part of the largest entry above which a component takes part in a null direction."""


@final
@dataclass(frozen=True, eq=False)
class HeldVerdict:
    """What constraints determine.

    Attributes
    ----------
    robot, rows, rank : of the rows at almost every configuration; ``freedoms`` are left.
    redundant : number of rows that the others imply.
    undetermined : components of wrenches that are not determined, by constraint; of torques
        too, by joint, where accelerations are known.
    directions : each independent way in which forces are open, in words.
    uncarried : joints without a drive that the constraints do not carry (inverse dynamics).
    rank_drops : configurations among the sampled ones, neutral first, with a lower rank.
    closed : whether configurations were found at which all constraints hold.
    """

    robot: str
    kind: str
    rows: int
    rank: int
    freedoms: int
    undetermined: Mapping[str, tuple[str, ...]]
    directions: tuple[str, ...]
    uncarried: tuple[str, ...]
    rank_drops: tuple[Array, ...]
    closed: bool
    samples: int

    @property
    def redundant(self) -> int:
        """Number of rows that the others imply."""
        return self.rows - self.rank

    @property
    def is_well_posed(self) -> bool:
        """True if everything that is asked for is determined at almost every state.

        Not at each: at those of ``rank_drops`` forces are the smallest of many.
        """
        return not self.undetermined and not self.uncarried and self.closed

    def __bool__(self) -> bool:
        return self.is_well_posed

    def __str__(self) -> str:
        lines = [
            f"{self.robot}: {self.rows} {'row' if self.rows == 1 else 'rows'} of constraints,"
            f" rank {self.rank}:"
            f" {self.freedoms} {'freedom is' if self.freedoms == 1 else 'freedoms are'} left",
        ]
        if not self.closed:
            lines.append(
                "no configuration was found at which all constraints hold: judged where they"
                " are open"
            )
        if self.uncarried:
            lines.append(
                f"no wrench of the constraints carries joint {and_more(self.uncarried, 8)},"
                " which has no drive: most accelerations are out of reach"
            )
        if self.kind != "inverse":
            lines.append("accelerations are determined")
        if not self.undetermined:
            where = " at almost every configuration" if self.rank_drops else ""
            lines.append(f"every wrench is determined{where}")
        else:
            lines.append("not determined, the smallest forces are given:")
            lines += [f"  - {words}" for words in self.directions]
            parts = [f"{name} ({', '.join(c)})" for name, c in self.undetermined.items()]
            lines.append(f"components that may be larger: {and_more(parts, 8)}")
        if self.rank_drops:
            lines.append(
                f"at {len(self.rank_drops)} of {self.samples} sampled configurations the rank"
                " is lower still; dense algebra gives the smallest forces there"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain lists, mappings, numbers and strings."""
        return {
            "robot": self.robot,
            "problem": self.kind,
            "well_posed": self.is_well_posed,
            "rows": self.rows,
            "rank": self.rank,
            "freedoms": self.freedoms,
            "undetermined": {name: list(parts) for name, parts in self.undetermined.items()},
            "directions": list(self.directions),
            "uncarried": list(self.uncarried),
            "rank_drops": [q.tolist() for q in self.rank_drops],
            "closed": self.closed,
        }


def judge_held(held: HeldBy, *, samples: int, seed: int) -> HeldVerdict:
    """Judge the constraints of a problem; see :meth:`problems.ForwardDynamics.verdict`."""
    robot, constraints = held.robot, held.constraints
    states = closed_configurations(robot, constraints, max(samples, 3), seed)
    all_rows = [held.dense(q) for q in states]
    is_closed = all(np.abs(rows.error).max(initial=0.0) < CLOSED for rows in all_rows)
    each = [_open_forces(held, rows.J) for rows in all_rows]
    least = min(N.shape[1] for N in each)
    ranks = [_rank(rows.J) for rows in all_rows]
    place = next(k for k, N in enumerate(each) if N.shape[1] == least)
    null, J = each[place], all_rows[place].J
    undetermined, directions = _in_words(held, null)
    undetermined |= _open_torques(held, J, null)
    uncarried = _uncarried(held, J) if held.is_inverse else ()
    rank = max(ranks)
    return HeldVerdict(
        robot=robot.name,
        kind="inverse" if held.is_inverse else "forward",
        rows=len(J),
        rank=rank,
        freedoms=robot.nv - rank,
        undetermined=undetermined,
        directions=directions,
        uncarried=uncarried,
        rank_drops=tuple(q for q, N in zip(states, each, strict=True) if N.shape[1] > least),
        closed=is_closed,
        samples=len(states),
    )


def _unit_rows(J: Array) -> Array:
    size = np.linalg.norm(J, axis=1, keepdims=True)
    return np.where(size > RANK * size.max(initial=0.0), J / np.where(size > 0, size, 1.0), 0.0)


def _rank(J: Array) -> int:
    return int((np.linalg.svd(_unit_rows(J), compute_uv=False) > RANK).sum())


def _open_forces(held: HeldBy, J: Array) -> Array:
    """N (m, k): independent forces that change nothing that is asked for."""
    seen = J[:, held.undriven] if held.is_inverse else J[:, ~held.known]
    U, s, _ = np.linalg.svd(seen)
    largest = float(s.max(initial=0.0))
    rank = int((s > RANK * largest).sum()) if largest > 0 else 0
    return np.asarray(U[:, rank:])


def _in_words(held: HeldBy, null: Array) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Open components by constraint, and each independent way in a sentence."""
    labels, slices = row_labels(held.constraints), row_slices(held.constraints)
    size = np.linalg.norm(null, axis=1)
    moved = size > SHOWN * size.max(initial=0.0) if null.size else np.zeros(len(labels), bool)
    undetermined = {
        constraint.name: tuple(
            labels[k].removeprefix(f"{constraint.name}.")
            for k in range(where.start, where.stop)
            if moved[k]
        )
        for constraint, where in zip(held.constraints, slices, strict=True)
        if moved[where].any()
    }
    groups = _together(held, null)
    return undetermined, tuple(groups)


def _together(held: HeldBy, null: Array) -> list[str]:
    """Sentences: constraints that share open directions, and how many there are."""
    slices = row_slices(held.constraints)
    projector = null @ null.T
    linked = np.array(
        [[np.abs(projector[a, b]).max(initial=0.0) > SHOWN for b in slices] for a in slices]
    )
    left, lines = set(range(len(slices))), []
    while left:
        group, grown = {min(left)}, set[int]()
        while group != grown:
            grown = set(group)
            group |= {b for a in grown for b in range(len(slices)) if linked[a, b]}
        left -= group
        rows = np.concatenate(
            [np.arange(slices[c].start, slices[c].stop) for c in sorted(group)]
        )
        ways = round(float(np.trace(projector[np.ix_(rows, rows)])))
        if not ways:
            continue
        names = [repr(held.constraints[c].name) for c in sorted(group)]
        count = "one way" if ways == 1 else f"{ways} independent ways"
        if len(names) > 1:
            lines.append(f"an internal wrench between {and_more(names, 6)}, {count}")
        else:
            kind = (
                "torque"
                if isinstance(held.constraints[min(group)], JointConstraint)
                else "wrench"
            )
            lines.append(f"the {kind} of {names[0]} where nothing can move, {count}")
    return lines


def _open_torques(held: HeldBy, J: Array, null: Array) -> dict[str, tuple[str, ...]]:
    """Joints whose torque is asked for, their acceleration known, and goes with open forces."""
    asked = held.known & ~held.undriven if held.is_inverse else held.known
    size = np.where(asked, np.linalg.norm(null.T @ J, axis=0), 0.0)
    moved = size > np.maximum(SHOWN * size.max(initial=0.0), RANK * np.linalg.norm(J, axis=0))
    pairs = zip(held.robot.joint_names, held.robot.v_slices(), strict=True)
    return {f"torque of {name}": ("torque",) for name, v in pairs if moved[v].any()}


def _uncarried(held: HeldBy, J: Array) -> tuple[str, ...]:
    """Joints without a drive some of whose freedoms no force of the constraints reaches."""
    U = np.flatnonzero(held.undriven)
    missing = np.linalg.svd(J[:, U])[2][_rank(J[:, U]) :] if len(U) else np.zeros((0, 0))
    size = np.abs(missing).max(axis=0, initial=0.0)
    open_freedoms = set(U[size > SHOWN].tolist()) if len(size) else set()
    pairs = zip(held.robot.joint_names, held.robot.v_slices(), strict=True)
    return tuple(name for name, v in pairs if open_freedoms & set(range(v.start, v.stop)))
