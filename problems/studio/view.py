"""What the page draws and lists, from a glance or an estimate: plain numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray
from problems.estimation.estimate import Estimate
from problems.labels import own_joints
from problems.studio.glance import Glance

__all__ = [
    "EXACT",
    "estimate_facts",
    "glance_facts",
    "joint_unit",
    "own_freedoms",
    "torque_facts",
]

Facts: TypeAlias = dict[str, Any]
EXACT = 1e-9
"""Standard deviations below this are shown as exact."""
SEEN = 1e-6
"""Part of the largest below which an unseen direction does not move a force."""
COARSE = 0.1
"""Part of what a drive or a contact carries above which a deviation is told."""


def _number(x: float) -> float | None:
    return float(f"{x:.5g}") if np.isfinite(x) else None


def _vector(v: Array) -> list[float]:
    return [round(float(x), 6) for x in v]


def joint_unit(robot: KinematicTree, i: int) -> str:
    """Unit of a joint's torque."""
    S = robot.joints[i].S
    turns = S[:3].any(axis=0)
    return "N m" if turns.all() else "N" if not turns.any() else "N m, N"


def own_freedoms(robot: KinematicTree) -> list[tuple[int, slice]]:
    """Number and place in (nv,) of every joint with freedoms of its own."""
    places = robot.v_slices()
    return [(i, places[i]) for i in own_joints(robot) if robot.joints[i].nv]


def torque_facts(robot: KinematicTree, std: Array, is_open: BoolArray) -> list[Facts]:
    """Standard deviation of every joint's torque; the largest of several freedoms."""
    found = []
    for i, where in own_freedoms(robot):
        unknown = bool(is_open[where].any())
        largest = float(np.where(is_open[where], 0.0, std[where]).max())
        found.append(
            {
                "joint": robot.joint_names[i],
                "body": i,
                "open": unknown,
                "std": None if unknown else _number(0.0 if largest < EXACT else largest),
                "unit": joint_unit(robot, i),
            }
        )
    return found


def glance_facts(robot: KinematicTree, glance: Glance) -> Facts:
    """What is determined at the posture, in numbers and in words."""
    torques = torque_facts(robot, glance.torque_std, glance.torque_open)
    wrenches = _wrench_facts(robot, glance)
    coarse = _coarse(robot, glance, wrenches) if glance.is_complete else []
    return {
        "complete": glance.is_complete,
        "coarse": coarse,
        "nullity": glance.nullity,
        "checks": glance.checks,
        "contradicts": glance.contradicts,
        "words": _words(glance, torques, wrenches, coarse),
        "torques": torques,
        "wrenches": wrenches,
    }


def _coarse(robot: KinematicTree, glance: Glance, wrenches: Sequence[Facts]) -> list[Facts]:
    """Torques and contact forces known coarsely beside what the robot carries; worst first."""
    demand, std, found = glance.demand, glance.torque_std, []
    of_nothing = np.where(std > EXACT, np.inf, 0.0)
    part = np.divide(std, demand.torque, out=of_nothing, where=demand.torque > 0.0)
    for i, where in own_freedoms(robot):
        k = where.start + int(np.argmax(part[where]))
        carried = "its limit is" if demand.limited[k] else "no limit stated; gravity takes"
        what = f"torque of {robot.joint_names[i]}"
        deviation = f"± {std[k]:.3g} {joint_unit(robot, i)}"
        found.append((part[k], what, deviation, f"{carried} {demand.torque[k]:.3g}"))
    for wrench in wrenches:
        largest = max(wrench["std"][3:])
        weighs = f"the robot weighs {demand.weight:.3g}"
        what = f"force at {wrench['frame']}"
        found.append((largest / demand.weight, what, f"± {largest:.3g} N", weighs))
    return [
        {"what": f"{what} {deviation}", "words": f"{what} {deviation} ({beside})"}
        for part, what, deviation, beside in sorted(found, reverse=True)
        if part > COARSE
    ]


def _words(
    glance: Glance, torques: Sequence[Facts], wrenches: Sequence[Facts], coarse: Sequence[Facts]
) -> str:
    if glance.contradicts:
        return "Statements without noise contradict each other at this posture."
    if glance.is_complete:
        checks = "1 reading checks" if glance.checks == 1 else f"{glance.checks} readings check"
        extra = f"; {checks} the others" if glance.checks else ""
        rough = _listed([one["words"] for one in coarse])
        but = f", but coarsely: {rough}" if coarse else ""
        return f"Everything is determined at this posture{but}{extra}."
    unseen = "1 direction is" if glance.nullity == 1 else f"{glance.nullity} directions are"
    open_torques = [t["joint"] for t in torques if t["open"]]
    open_frames = [w["frame"] for w in wrenches if any(w["open"])]
    parts = [f"torque of {_listed(open_torques)}"] if open_torques else []
    parts += [f"external wrench at {_listed(open_frames)}"] if open_frames else []
    what = "; ".join(parts) or "accelerations"
    return f"{unseen} seen by no sensor at this posture. Not determined: {what}."


def _listed(names: Sequence[str], most: int = 4) -> str:
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def _contact_pose(robot: KinematicTree, glance: Glance, i: int) -> Transform:
    """Transform from the base to the frame where the wrench of body ``i`` is told."""
    return glance.kinematics.poses[i].then(robot.frame(glance.frames[i]).transform)


def _wrench_facts(robot: KinematicTree, glance: Glance) -> list[Facts]:
    """External wrenches that are not known exactly, with their uncertainty in base axes."""
    found = []
    largest = float(np.abs(glance.wrench_unseen).max(initial=0.0))
    for i in range(robot.n_bodies):
        std, is_open = glance.wrench_std[i], glance.wrench_open[i]
        if not is_open.any() and std.max() < EXACT:
            continue
        pose = _contact_pose(robot, glance, i)
        turn = np.asarray(pose.E, dtype=np.float64).T
        force = turn @ glance.wrench_cov[i, 3:, 3:] @ turn.T
        values, axes = np.linalg.eigh(force)
        lengths = np.sqrt(np.maximum(values, 0.0))
        found.append(
            {
                "body": i,
                "frame": glance.frames[i],
                "std": [None if o else _number(s) for o, s in zip(is_open, std, strict=True)],
                "open": [bool(o) for o in is_open],
                "point": _vector(np.asarray(pose.r, dtype=np.float64)),
                "axes": [_vector(n * a) for n, a in zip(lengths, axes.T, strict=True)],
                "open_forces": _unseen(turn @ glance.wrench_unseen[i, 3:], largest),
                "open_moments": _unseen(turn @ glance.wrench_unseen[i, :3], largest),
            }
        )
    return found


def _unseen(moved: Array, largest: float) -> list[list[float]]:
    """Unit directions (base axes) in which a force or moment is not determined."""
    if not moved.size or largest == 0.0:
        return []
    directions, sizes, _ = np.linalg.svd(moved, full_matrices=False)
    return [_vector(d) for d, s in zip(directions.T, sizes, strict=True) if s > SEEN * largest]


def estimate_facts(estimate: Estimate, glance: Glance) -> Facts:
    """Torques and external wrenches of one sample of a log, with their deviations."""
    robot = estimate.problem.robot
    torque, std = np.asarray(estimate.torque), np.asarray(estimate.std.torque)
    wrench = np.asarray(estimate.external_wrench)
    wrenches = []
    for i, pose in enumerate(glance.kinematics.poses):
        known = np.nan_to_num(wrench[i])
        if np.abs(known).max() < EXACT:
            continue
        turn, at = np.asarray(pose.E, dtype=np.float64).T, robot.frame(glance.frames[i])
        moment = known[:3] - np.cross(np.asarray(at.transform.r), known[3:])
        wrenches.append(
            {
                "body": i,
                "frame": glance.frames[i],
                "point": _vector(np.asarray(pose.point(at.transform.r), dtype=np.float64)),
                "force": _vector(turn @ known[3:]),
                "moment": _vector(turn @ moment),
                "whole": bool(np.isfinite(wrench[i]).all()),
            }
        )
    return {
        "torques": [
            _number(float(np.abs(torque[w]).max()))
            if w.stop > w.start + 1
            else _number(float(torque[w][0]))
            for _, w in own_freedoms(robot)
        ],
        "stds": [_number(float(std[w].max())) for _, w in own_freedoms(robot)],
        "wrenches": wrenches,
        "p_value": _number(float(np.asarray(estimate.p_value))),
    }
