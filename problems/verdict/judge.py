"""Judging a layout: pattern, rank at random states, states where the rank drops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dynsys.plan.orders.dulmage_mendelsohn import coarse_decomposition
from dynsys.system.unknowns import UnknownLayout
from problems.estimation.estimate import QUANTITIES
from problems.estimation.posterior import OPEN
from problems.verdict.repairs import repairs
from problems.verdict.sight import Sight, WeakestState, weakest_state
from problems.verdict.verdict import RankDrop, Status, Verdict
from problems.verdict.words import MOTIONS, directions
from sensors.parameters import AXES

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = ["judge"]


def judge(problem: Estimation, *, samples: int, seed: int, search: bool) -> Verdict:
    """Judge the layout of a problem; see :meth:`Estimation.verdict`."""
    rng = np.random.default_rng(seed)
    robot = problem.robot
    sights = [Sight(problem, robot.random_configuration(rng)) for _ in range(max(samples, 2))]
    nullities = [sight.rank.nullity for sight in sights]
    nullity = min(nullities)
    typical = [s for s, k in zip(sights, nullities, strict=True) if k == nullity]
    counted = UnknownLayout(robot, net_wrench=True).size
    extra = counted - problem.system.unknowns.size
    equations = problem.system.shape[0] + extra
    structural = coarse_decomposition(problem.system.pattern()).structural_rank + extra
    rank = counted - nullity
    conditions = [sight.rank.condition for sight in typical]
    open_parts = _open_parts(problem, typical[:3])
    return Verdict(
        robot=robot.name,
        status=_status(rank, counted, equations, structural),
        rank=rank,
        unknowns=counted,
        equations=equations,
        structural_rank=structural,
        determined=_determined(problem, open_parts),
        undetermined=open_parts,
        directions=directions(typical[0]),
        repairs=repairs(typical[:3]) if nullity else (),
        rank_drops=tuple(_rank_drops(problem, sights, nullity, search)),
        condition=tuple(np.percentile(conditions, [0, 50, 90, 100]).tolist()),
        samples=len(sights),
    )


def _status(rank: int, unknowns: int, equations: int, structural: int) -> Status:
    if rank == unknowns:
        return "well posed" if equations == unknowns else "over-determined"
    return "under-determined" if structural < unknowns else "singular"


def _open_parts(
    problem: Estimation, sights: Sequence[Sight]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Components that some direction moves, by quantity and name; no components: all."""
    moved = np.zeros(problem.system.unknowns.size, dtype=bool)
    for sight in sights:
        if sight.rank.nullity:
            moved |= np.linalg.norm(sight.unseen, axis=1) > OPEN * sight.reach
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for block in problem.system.unknowns.blocks:
        if block.kind not in QUANTITIES or not moved[block.slice].any():
            continue
        labels: Sequence[str] = MOTIONS if block.kind == "acceleration" else AXES
        if block.kind in ("torque", "qdd"):
            labels = [f"[{k}]" for k in range(block.size)]
        part = [
            label for label, is_open in zip(labels, moved[block.slice], strict=True) if is_open
        ]
        whole = len(part) == block.size
        found.setdefault(block.kind, {})[block.name] = () if whole else tuple(part)
    return found


def _determined(
    problem: Estimation, open_parts: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> dict[str, tuple[str, ...]]:
    """Names of what is wholly determined, by quantity."""
    return {
        kind: tuple(
            block.name
            for block in problem.system.unknowns.blocks
            if block.kind == kind and block.name not in open_parts.get(kind, {})
        )
        for kind in QUANTITIES
    }


def _rank_drops(
    problem: Estimation, sights: Sequence[Sight], nullity: int, search: bool
) -> list[RankDrop]:
    """States with more directions unseen: neutral, sampled, and found by going downhill."""
    robot = problem.robot
    found: list[RankDrop] = []
    lower, upper = robot.position_limits
    neutral = np.clip(robot.neutral(), lower, upper)
    places = [("in the neutral posture", Sight(problem, neutral))]
    places += [("in a random posture", s) for s in sights if s.rank.nullity > nullity]
    for where, sight in places:
        if sight.rank.nullity > nullity and len(found) < 2:
            found.append(_drop(sight, where, nullity))
    if not search:
        return found
    typical = [s for s in sights if s.rank.nullity == nullity]
    for sight in sorted(typical, key=lambda s: -s.rank.condition)[:2]:
        weakest = weakest_state(sight)
        if weakest is None:
            break
        if weakest.is_lost:
            found.append(_found_drop(problem, weakest, nullity))
            break
    return found


def _drop(sight: Sight, where: str, nullity: int) -> RankDrop:
    lost = sight.rank.nullity - nullity
    return RankDrop(sight.q, where, lost, np.inf, directions(sight), repairs([sight]))


def _found_drop(problem: Estimation, weakest: WeakestState, nullity: int) -> RankDrop:
    robot = problem.robot
    angles = [
        f"{robot.joint_names[i]} = {float(weakest.q[robot.q_slices()[i]][0]):.3g}"
        for i in weakest.joints
    ]
    listed = ", ".join(angles[:8]) + (f" and {len(angles) - 8} more" if len(angles) > 8 else "")
    where = f"near {listed}" if angles else "near a posture within the joint limits"
    sight = Sight(problem, weakest.q, tolerance=100 * max(weakest.value, 1e-13))
    lost = max(sight.rank.nullity - nullity, 1)
    condition = 1.0 / max(weakest.value, 1e-300)
    fixes = repairs([sight]) if sight.rank.nullity else ()
    return RankDrop(weakest.q, where, lost, condition, directions(sight), fixes)
