"""Lambda^-1 by [OSI]'s two contenders as machine code, on the robots of table 3.

Both are recorded on the expression graph in the axial screws that the paper counts in
(:class:`~experiments.featherstone2005.axial_screws.ScrewRobot`), simplified and compiled alike:

    factorisation   H by the listing of [BIS] section 5, LTDL, J, Yd, YD, YD Yd^T
    RJK             D^-1 and tau, then the needed blocks of Omega (figure 14)

What they execute is more than what the paper counts (sines, cosines and their products, J, the
6 x 6 inverse at the floating base) less what simplification finds. Beside them stands the
kernel that the library makes (``specialise(robot, "operational_space_inverse")``): Y past
articulated bodies, H never formed, and its last product in SIMD tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np

from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel, as_machine_code
from dynsys.kernel.quantities import recorded, specialise
from dynsys.operational import operational_space
from dynsys.operational.methods.y_factor import lambda_inverse
from dynsys.operational.sparse_jacobian import yd_factors
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import sample_states
from dynsys.program.signature import Signature
from dynsys.recursive.aba import factor_ldl, solve_ldl
from dynsys.recursive.jacobian import jacobian_scalars
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import Array, IntArray, ScalarArray
from experiments.featherstone2005.axial_screws import ScrewRobot, Trigonometry
from experiments.featherstone2010.counts import supports_of_rows
from experiments.peers.timing import Contender, StateLoop, measure, one_core

__all__ = [
    "FACTORISATION",
    "OURS",
    "RJK",
    "Timed",
    "by_factorisation",
    "by_rjk",
    "time_ratio",
    "timed",
]

FACTORISATION, RJK, OURS = "factorisation", "RJK", "the library's kernel"
STATES = 16


@final
class Timed(NamedTuple):
    """ns per state, operations executed (None: not counted), largest relative error."""

    ns: float
    operations: int | None
    error: float


Recorded = Callable[[ScrewRobot, Sequence[int], ScalarArray], ScalarArray]


def _plain(values: Any) -> ScalarArray:
    return np.array(values, dtype=object)


def _trigonometry(q: ScalarArray) -> list[Trigonometry]:
    """Of every body; q[7:] are the joints after the floating base."""
    turned = [Trigonometry.of(np.cos(angle), np.sin(angle)) for angle in q[7:]]
    return [Trigonometry.of(1.0, 0.0), *turned]


def by_rjk(robot: ScrewRobot, bodies: Sequence[int], q: ScalarArray) -> ScalarArray:
    """Lambda^-1 (6 m, 6 m) over any scalars: [OSI] figure 14."""
    screws = robot.joint_screws(_trigonometry(q))
    halves = robot.articulate(_plain, screws, _inverse)
    blocks = robot.propagate(bodies, screws, *halves)
    return np.block(
        [[blocks[a, b] if a <= b else blocks[b, a].T for b in bodies] for a in bodies]
    )


def _inverse(P: ScalarArray) -> ScalarArray:
    F = factor_ldl(P)
    out: ScalarArray = np.array([solve_ldl(F, column) for column in np.eye(6)])
    return out


def by_factorisation(robot: ScrewRobot, bodies: Sequence[int], q: ScalarArray) -> ScalarArray:
    """Lambda^-1 (6 m, 6 m) over any scalars: [OSI] figures 9 and 10."""
    H = robot.inertia_scalars(_plain, robot.joint_screws(_trigonometry(q)))
    parent, tree = _expanded(robot), robot.tree()
    J = np.vstack([jacobian_scalars(tree, q, body) for body in bodies])
    supports = supports_of_rows(np.repeat(bodies, 6) + 5, parent)
    Yd, YD = yd_factors(J, *ltdl_scalars(H, parent), supports, parent)
    return lambda_inverse(YD, Yd, supports)


def _expanded(robot: ScrewRobot) -> IntArray:
    return np.array([*range(-1, 5), *(p + 5 for p in robot.parent[1:])], dtype=np.intp)


ROUTES: dict[str, Recorded] = {FACTORISATION: by_factorisation, RJK: by_rjk}


def kernel_of(route: str, robot: ScrewRobot, bodies: Sequence[int]) -> Kernel:
    """The route as machine code for one robot: q -> Lambda^-1, flattened."""
    tree, m = robot.tree(), 6 * len(bodies)
    algorithm = ROUTES[route]
    return kernel_from(
        lambda: recorded(tree, lambda q: algorithm(robot, bodies, q), "float64"),
        Signature((("q", tree.nq),), (("Lambda_inv", m * m),)),
        sample_states(tree, 3, 7)[:, : tree.nq],
        ("experiments.featherstone2010", route, fingerprint_robot(tree).digest, tuple(bodies)),
        agreement=1e-7,
    )


@cache
def timed(parent: tuple[int, ...], bodies: tuple[int, ...], passes: int) -> dict[str, Timed]:
    """All of them on one robot, in turn, one state at a time on one core."""
    robot = ScrewRobot(parent, base_frames=True)
    tree, ends = robot.tree(), sorted(bodies)
    q = np.array([tree.random_configuration(seed) for seed in range(STATES)])
    exact = np.array([operational_space(tree, x, ends, method="dense").Lambda_inv for x in q])
    kernels = {route: kernel_of(route, robot, ends) for route in ROUTES}
    kernels[OURS] = specialise(tree, "operational_space_inverse", bodies=ends)
    contenders = [_contender(name, kernel, q, exact) for name, kernel in kernels.items()]
    with one_core():
        times = measure(contenders, passes, 1e-3)
    out = {}
    for (name, kernel), contender, (median, _) in zip(
        kernels.items(), contenders, times, strict=True
    ):
        worst = np.abs(contender.result() - exact).max() / np.abs(exact).max()
        count = kernel.operations
        out[name] = Timed(median, None if count is None else count.total, float(worst))
    return out


def time_ratio(found: Mapping[str, Timed]) -> float:
    """Run time of RJK over that of the factorisation."""
    return found[RJK].ns / found[FACTORISATION].ns


def _contender(name: str, kernel: Kernel, q: Array, like: Array) -> Contender:
    scratch = np.zeros((1, like[0].size))
    loop = StateLoop(as_machine_code(kernel, "timing").address, [q, scratch])

    def result() -> Array:
        return np.array([kernel.one(x)[0][0].reshape(like[0].shape) for x in q])

    return Contender(name, "Lambda^-1", "one state", len(q), loop, result)
