"""H, H^-1 and Lambda^-1 of one robot as computations: which way is cheaper is decided here.

Few freedoms: straight-line code. Many: articulated or composite freedoms in straight-line code,
then loops over tiles of the matrix, SIMD even for one state (:mod:`dynsys.codegen.tailed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynsys.codegen.gram_tail import GramTail
from dynsys.codegen.inertia_tail import InertiaTail
from dynsys.codegen.tailed import TailedProgram
from dynsys.codegen.tiles import block_starts, own_supports
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.record import SAMPLES, cheapest_accurate, sample_states
from dynsys.program.frames import Reframed, Regrouping, reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.simplify import simplify
from dynsys.recursive.common_frame import (
    Freedoms,
    articulated_freedoms,
    composite_freedoms,
)
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.inverse import inverse_scalars, operational_inverse
from dynsys.types import ScalarArray

__all__ = ["inertia_matrix", "inverse_inertia_matrix", "operational_matrix", "recorded"]

FEWEST_FREEDOMS = 16
"""Below, straight-line code of the whole inverse is faster."""
MOST_PAIRS = 300
"""Joints on joints; above, forces carried from joint to joint cost more than any tile."""
TILE, ZERO_TILE = 35, 12
"""What a tile of H costs, in operations of straight-line code (measured)."""
ACCURATE = 1e-12
"""Relative error of pivots above which mass moments stay with their bodies."""


def recorded(
    robot: KinematicTree, algorithm: Callable[[ScalarArray], ScalarArray], dtype: str
) -> Program:
    """Simplified program of an algorithm of q; NaN at q that are no configuration."""
    graph = Graph()
    outputs = np.ravel(algorithm(graph.inputs(robot.nq)))
    samples = sample_states(robot, SAMPLES, 0, 0)[:, : robot.nq]
    program = simplify(graph.program(list(outputs)), samples)
    return guarded(program, robot.quaternion_slices, dtype, n_finite=robot.nq)


def inertia_matrix(robot: KinematicTree, dtype: str, width: int) -> Program | TailedProgram:
    """H (nv, nv) of q: local frames for short limbs, a common frame for long ones."""

    def local() -> Program:
        return recorded(robot, lambda q: crba_scalars(reframe(robot), q), dtype)

    if robot.is_coupled or robot.nv < max(FEWEST_FREEDOMS, width):
        return local()
    parent = expanded_parent(robot)
    head = recorded(robot, lambda q: _flat(composite_freedoms(reframe(robot), q)), dtype)
    tailed = TailedProgram(head, InertiaTail(parent))
    if sum(len(robot.support(i)) - 1 for i in range(robot.n_bodies)) > MOST_PAIRS:
        return tailed
    straight = local()
    loops = _operations(head) + _tile_operations(own_supports(parent), width)
    return tailed if loops < _operations(straight) else straight


def inverse_inertia_matrix(
    robot: KinematicTree, dtype: str, width: int
) -> Program | TailedProgram:
    """H^-1 (nv, nv) of q.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    parent = expanded_parent(robot)
    require_inertia(robot)
    if robot.nv < max(FEWEST_FREEDOMS, 2 * width):
        return recorded(
            robot, lambda q: inverse_scalars(crba_scalars(reframe(robot), q), parent), dtype
        )
    head = _accurate(
        lambda mechanism: recorded(
            robot, lambda q: _flat(articulated_freedoms(mechanism, q)[0]), dtype
        ),
        robot,
    )
    return TailedProgram(head, GramTail(parent, own_supports(parent), own=True))


def operational_matrix(
    robot: KinematicTree, bodies: Sequence[str | int], dtype: str, width: int
) -> Program | TailedProgram:
    """Lambda^-1 (6 m, 6 m) = J H^-1 J^T of q for bodies and frames, each in its own frame.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    parent, last = expanded_parent(robot), last_freedom(robot)
    require_inertia(robot)
    own = own_supports(parent)
    ends = [
        last[robot.frame(body).body] if robot.frame(body).body >= 0 else -1 for body in bodies
    ]
    supports = [own[k] if k >= 0 else frozenset[int]() for k in ends for _ in range(6)]

    def freedoms(mechanism: Reframed, q: ScalarArray) -> tuple[Freedoms, ScalarArray]:
        articulated, poses = articulated_freedoms(mechanism, q)
        rows = [_rows(robot, mechanism, poses, body) for body in bodies]
        return articulated, np.vstack(rows).T

    if len(supports) < 2 * width or robot.nv < width:
        return recorded(
            robot, lambda q: operational_inverse(*freedoms(reframe(robot), q), supports), dtype
        )

    def head(mechanism: Reframed) -> Program:
        def numbers(q: ScalarArray) -> ScalarArray:
            articulated, wrenches = freedoms(mechanism, q)
            return np.concatenate([np.ravel(wrenches), _flat(articulated)])

        return recorded(robot, numbers, dtype)

    return TailedProgram(_accurate(head, robot), GramTail(parent, supports, own=False))


def require_inertia(robot: KinematicTree) -> None:
    """Refuse robots whose H is singular everywhere."""
    pivot_safety(robot, np.zeros(robot.nv, dtype=np.bool_))


def _rows(
    robot: KinematicTree, mechanism: Reframed, poses: Sequence[Transform], body: str | int
) -> ScalarArray:
    """Rows (6, 6) of a body's or frame's Jacobian as wrenches in the common frame."""
    frame = robot.frame(body)
    if frame.body < 0:
        return np.zeros((6, 6))
    own = poses[mechanism.place[frame.body]].then(mechanism.to_new[frame.body].inverse())
    return own.then(frame.transform).matrix()


def _flat(bodies: Freedoms) -> ScalarArray:
    return np.concatenate([np.ravel(part) for part in bodies])


def _accurate(head: Callable[[Reframed], Program], robot: KinematicTree) -> Program:
    """A head on masses regrouped as far as that costs no accuracy in its pivots."""
    states = sample_states(robot, SAMPLES, 5, 0)[:, : robot.nq].astype(np.float64)

    def error(program: Program) -> float:
        end = len(program.outputs)
        pivots = slice(end - 13 * robot.nv, end - 12 * robot.nv)
        exact = program.evaluate(states.astype(np.longdouble))[:, pivots]
        return float(np.abs(program.evaluate(states)[:, pivots] / exact - 1).max())

    def record(regroup: Regrouping) -> Program:
        return head(reframe(robot, regroup=regroup))

    return cheapest_accurate(record, error, ACCURATE)


def _operations(program: Program) -> int:
    counts = program.count()
    return counts["mul"] + counts["add"]


def _tile_operations(supports: Sequence[frozenset[int]], width: int) -> int:
    starts = block_starts(len(supports), width)
    cost = 0
    for a in starts:
        for b in (b for b in starts if b <= a):
            related = any(
                j in supports[i] for i in range(a, a + width) for j in range(b, b + width)
            )
            cost += TILE if related else ZERO_TILE
    return cost
