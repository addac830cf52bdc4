"""How far an estimate can be trusted: bounds on its error, computed after the fact.

The error is that against the exact solution of the problem as it is posed: laws and readings
without noise hold exactly, the others in the sense of weighted least squares, all numbers taken
at their word. It comes from float64, not from the sensors; what these leave open is
``Estimate.std``. The mathematics is in :mod:`problems.optimality`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from dynsys.types import Array, BoolArray, IntArray
from problems.named_quantity import QUANTITIES, Quantity
from problems.open_problem import OpenProblem
from problems.optimality import TINY, Optimality
from problems.posterior import AbstractPosterior, DensePosterior
from problems.trust import EPS, EPS_EXTENDED, EXTENDED

if TYPE_CHECKING:
    from problems.measured_system import MeasuredSystem

__all__ = ["EstimateTrust", "judge_estimate", "stacked_estimates"]

MOVED = 4 * EPS
"""Part of its reach by which an unseen direction may move a quantity, or a reading."""


@final
@dataclass(frozen=True, eq=False)
class EstimateTrust:
    """Bounds on the rounding errors of an estimate; with a leading axis N for a batch.

    Attributes
    ----------
    error : quantity to bounds on |estimate - exact estimate|: (nv,) for torque and qdd, else
        (n_bodies, 6). NaN where the quantity is undetermined, infinite where the equations are
        singular to rounding.
    relative_error : the larger of those of torque and qdd, each relative to its largest entry.
    backward_error : largest residual of a reading or an optimality condition at the answer,
        relative to the sum of the magnitudes in it: 1e-16 is as good as float64 gets.
    condition : of the optimality conditions in the open unknowns (qdd, external wrenches), rows
        and columns brought to unit size, open directions pinned; infinite where singular.
    """

    error: Mapping[Quantity, Array]
    relative_error: float | Array
    backward_error: float | Array
    condition: float | Array

    @property
    def torque_error(self) -> Array:
        """Bounds (nv,) on the errors of the torques."""
        return self.error["torque"]

    @property
    def qdd_error(self) -> Array:
        """Bounds (nv,) on the errors of the joint accelerations."""
        return self.error["qdd"]

    def __str__(self) -> str:
        numbers = (self.relative_error, self.backward_error, self.condition)
        worst = [float(np.max(x)) for x in numbers]
        return (
            f"relative error below {worst[0]:.1e}, backward error {worst[1]:.1e},"
            f" condition {worst[2]:.1e}"
        )


def judge_estimate(
    measured: MeasuredSystem,
    state: tuple[Array, Array, Array],
    answers: Mapping[Quantity, Array],
    posterior: AbstractPosterior,
) -> EstimateTrust:
    """Judge the quantities of an estimate at a state q, qd, rows (NaN where missing).

    ``posterior`` tells which directions are open, and where along them the answer stands.
    """
    z = _open_values(measured, answers, posterior)
    null = np.zeros((len(z), 0))
    if isinstance(posterior, DensePosterior):
        null = posterior.solution.null / posterior.solution.scale[:, None] ** 2
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        optimality = Optimality(OpenProblem.at(measured, state, null, z))
        columns = measured.laws.unknowns.columns
        error = {
            kind: _errors(optimality, columns(kind), answers[kind], null.shape[1])
            for kind in QUANTITIES
        }
        relative = max(_relative(error[kind], answers[kind]) for kind in ("torque", "qdd"))
        backward = optimality.backward_error(z[optimality.problem.columns])
    return EstimateTrust(error, relative, backward, optimality.condition)


def _open_values(
    measured: MeasuredSystem, answers: Mapping[Quantity, Array], posterior: AbstractPosterior
) -> Array:
    """Open unknowns z of the answer; where it has none, the posterior's choice."""
    d = posterior.d.copy()
    for kind in ("qdd", "external_wrench"):
        columns, given = measured.laws.unknowns.columns(kind), answers[kind]
        d[columns] = np.where(np.isnan(given), d[columns], given)
    return np.asarray(d[measured.response.open_columns])


def _errors(optimality: Optimality, columns: IntArray, answer: Array, n_open: int) -> Array:
    """Bounds on the errors of the unknowns at ``columns``, in their shape."""
    problem = optimality.problem
    places, determined = columns.ravel(), ~np.isnan(answer.ravel())
    T = problem.response[places]
    W = T[:, problem.columns].astype(np.float64)
    bound = np.full(len(places), np.inf)
    if optimality.R is not None and problem.is_definite:
        z = problem.z.copy()
        z[problem.columns] = optimality.x[optimality.of_z]
        exact = T[:, :-1] @ z + T[:, -1]
        reach = problem.reach[places]
        sums = reach[:, :-1] @ np.abs(z).astype(np.float64) + reach[:, -1]
        slack = (EPS + 8 * (len(z) + 8) * EPS_EXTENDED) * sums
        missed = np.abs(answer.ravel() - exact).astype(np.float64)
        bound = missed + slack + optimality.errors(W) + TINY
        bound[_moved(optimality, W, n_open)] = np.inf
    bound = np.where(np.isnan(bound), np.inf, bound)
    return np.where(determined, bound, np.nan).reshape(columns.shape)


def _moved(optimality: Optimality, W: Array, n_open: int) -> BoolArray:
    """Tell which quantities W z move along the directions that count as open.

    A direction that the readings do see, if only just, counts as open but is not, exactly
    speaking: the answer is far off along it, and what moves along it has no bound.
    """
    if not n_open:
        return np.zeros(len(W), dtype=bool)
    m = len(optimality.problem.c)
    units = np.zeros((len(optimality.K), n_open), dtype=EXTENDED)
    units[m - n_open : m] = np.eye(n_open)
    along = optimality.solve(units)[optimality.of_z]
    units_of_z = optimality.z_scale[:, None]
    length = np.abs(along / units_of_z).max(axis=0)
    B, size = optimality.problem.B[: m - n_open], optimality.problem.B_size[: m - n_open]
    reach = size @ units_of_z * length
    seen = np.max(np.abs(B @ along) / np.where(reach > 0, reach, 1.0), axis=0, initial=0.0)
    allowed = np.where(seen > MOVED, EPS * seen, MOVED)
    moved = np.abs(W @ along) > allowed * (np.abs(W) @ units_of_z * length)
    return np.asarray(moved.any(axis=1))


def _relative(error: Array, answer: Array) -> float:
    known = ~np.isnan(error)
    if not known.any():
        return 0.0
    return float(error[known].max() / max(np.abs(answer[known]).max(), TINY))


def stacked_estimates(judged: Sequence[EstimateTrust]) -> EstimateTrust:
    """Trust of a batch from that of its states."""
    return EstimateTrust(
        {kind: np.array([t.error[kind] for t in judged]) for kind in QUANTITIES},
        np.array([t.relative_error for t in judged]),
        np.array([t.backward_error for t in judged]),
        np.array([t.condition for t in judged]),
    )
