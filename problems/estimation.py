"""Estimation: unknowns from the laws, taken as exact, and the readings of a sensor layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, final, get_args

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import DynsysError, KernelBuildError, LayoutError, StateError
from dynsys.model.checks import nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.system.kinematics import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, ArrayLike, BoolArray
from problems.compiled_estimator import CompiledEstimator
from problems.estimate import QUANTITIES, Estimate, Quantity
from problems.inputs import matrix
from problems.kkt_assembly import KktAssembly
from problems.least_squares import rank_of, solve_dense
from problems.least_squares_sparse import (
    AbstractFactors,
    CholmodFactors,
    SuperLUFactors,
    has_cholmod,
)
from problems.measured_system import Active, MeasuredSystem, Readings
from problems.posterior import (
    AbstractPosterior,
    DensePosterior,
    Equations,
    solve_kkt,
    solve_square,
)
from problems.prior import PerName, Prior
from problems.problem import AbstractProblem
from sensors.layout import Layout

if TYPE_CHECKING:
    from problems.verdict import Verdict

__all__ = ["ContradictionError", "Estimation", "Uncertainty"]

Backend: TypeAlias = Literal["auto", "llvm", "cholmod", "superlu", "dense"]
Uncertainty: TypeAlias = Literal["all"] | Quantity | Sequence[Quantity] | None

COMPILED_FROM = 256
"""States of a batch from which compiling the estimator pays."""
CONTRADICTION = 1e-8
"""Exact statements that miss each other by more than this part of their terms contradict."""


class ContradictionError(StateError):
    """Statements without noise contradict each other at this state: names them."""


@final
@dataclass(frozen=True, eq=False)
class Estimation(AbstractProblem):
    """Most likely unknowns given the laws, exact, and noisy readings y.

        minimise (y - b_Y - Y d)^T C^-1 (y - b_Y - Y d)   subject to   D d + b_D = 0

    As many readings as needed: LU, the noise has no say. More: the constrained least-squares
    problem above. Fewer: what is determined, the rest NaN. Readings of standard deviation zero
    are constraints. A prior (maximum a posteriori) is never needed but may be given.

    Parameters
    ----------
    robot : the robot.
    layout : its sensors.
    prior : beliefs about unknowns, or the mapping ``std`` of a :class:`Prior`.
    backend : ``llvm`` machine code for this robot and layout; ``cholmod`` (scikit-sparse, its
        analysis reused), ``superlu`` (pivoting LU), ``dense`` (orthogonal factors in the open
        unknowns; any rank); ``auto`` takes machine code for large batches, else the first of
        the others that is installed. What the sparse ones cannot solve the last one does;
        ``Estimate.method`` says which one did.

    Examples
    --------
    >>> import dynsys, problems, sensors
    >>> robot = dynsys.synthetic.chain(3)
    >>> torques = sensors.all_joint_torques(robot, std=0.1)
    >>> untouched = sensors.zero_external_wrench_except(robot)
    >>> est = problems.Estimation(robot, sensors.Layout(robot, [*torques, *untouched]))
    >>> e = est.solve(robot.neutral(), [0, 0, 0], {sensor.name: 1.0 for sensor in torques})
    >>> round(float(e.torque["link_2"]), 9), round(float(e.std.torque["link_2"]), 9)
    (1.0, 0.1)
    """

    robot: KinematicTree
    layout: Layout
    prior: Prior | Mapping[str, PerName] | None = None
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.prior, Mapping):
            object.__setattr__(self, "prior", Prior(self.prior))
        if self.backend not in get_args(Backend):
            raise KernelBuildError(
                f"there is no backend {self.backend!r}: {', '.join(get_args(Backend))}"
            )
        if self.backend == "cholmod" and not has_cholmod():
            raise KernelBuildError(
                "CHOLMOD is not installed: pip install 'dynsys[cholmod]', or use superlu"
            )
        _ = self.system  # checks layout and prior against the robot

    @cached_property
    def measured(self) -> MeasuredSystem:
        """Laws and readings on the same unknowns, patterns and noise."""
        return MeasuredSystem(self.robot, self.layout, cast("Prior | None", self.prior))

    @property
    def system(self) -> LinearSystem:
        """Laws, then one block per sensor, then the prior."""
        return self.measured.whole

    # ---- solving -------------------------------------------------------------------------

    def solve(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        *,
        uncertainty: Uncertainty = None,
        active: Active | None = None,
    ) -> Estimate:
        """Estimate at one state.

        Parameters
        ----------
        q, qd : position (nq,), velocity (nv,).
        y : readings by sensor name, or all in the order of ``layout`` (size,). NaN: missing.
        uncertainty : quantities whose standard deviations are computed now; any others are
            when ``std`` is asked for them.
        active : sensor name to False for sensors (contacts, constraints) that do not hold.

        Raises
        ------
        StateError
            a vector has a wrong length or a value that is not finite.
        LayoutError
            a reading is missing (not NaN), unknown, or of wrong size.
        ContradictionError
            exact statements contradict each other.
        """
        q, qd = self.robot.check_q(q), self.robot.check_v(qd, "qd")
        rows = self.measured.pack(y, active, None)
        if self.backend == "llvm":
            wanted = _quantities(uncertainty)
            found = self._by_kernel(q[None], qd[None], rows[None], wanted, 1)
            if found is not None:
                values, stds = ({k: x[0] for k, x in part.items()} for part in found)
                one = Estimate(self, lambda _: self.posterior(q, qd, rows), None, "llvm")
                return one.keep(values, stds)
        posterior = self.posterior(q, qd, rows)
        e = Estimate.of_one(self, posterior)
        for quantity in _quantities(uncertainty):
            _ = e.std[quantity].array
        return e

    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        *,
        uncertainty: Uncertainty = None,
        active: Active | None = None,
        threads: int = 1,
    ) -> Estimate:
        """Estimates at N states: q (N, nq), qd (N, nv), readings (N, ...) each.

        Truth values in ``active`` are one for all states or (N,). Large batches without
        missing readings go to the compiled estimator where the layout has one.
        """
        positions, velocities = matrix(self.robot, (("q", q), ("qd", qd)))
        n = len(positions)
        rows = self.measured.pack(y, active, n)
        wanted = _quantities(uncertainty)

        def posterior_of(k: int) -> AbstractPosterior:
            try:
                one_q = self.robot.check_q(positions[k])
                return self.posterior(one_q, self.robot.check_v(velocities[k], "qd"), rows[k])
            except DynsysError as error:
                raise type(error)(f"state {k}: {error}") from None

        if self.backend == "llvm" or (self.backend == "auto" and n >= COMPILED_FROM):
            found = self._by_kernel(positions, velocities, rows, wanted, threads)
            if found is not None:
                return Estimate(self, posterior_of, n, "llvm").keep(*found)
        return Estimate.of_many(self, posterior_of, n, wanted)

    def _by_kernel(
        self, q: Array, qd: Array, rows: Array, wanted: tuple[Quantity, ...], threads: int
    ) -> tuple[dict[Quantity, Array], dict[Quantity, Array]] | None:
        """What the compiled estimator answers, or None where the reference path must."""
        if self.prior is not None or not np.isfinite(rows).all():
            return None
        try:
            return self._compiled.solve(q, qd, rows, wanted, threads)
        except KernelBuildError:
            if self.backend == "llvm":
                raise
            return None

    @cached_property
    def _compiled(self) -> CompiledEstimator:
        return CompiledEstimator(self.robot, self.layout)

    def posterior(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """All that one state's readings say; ``rows`` (m,) with NaN where there is none.

        ``rows`` are the readings and prior means as ``measured.pack`` returns them.
        """
        present = ~np.isnan(rows)
        kinematics = Kinematics.at(self.robot, q, qd)
        data, b = self.system.values(kinematics)
        laws, (Y, b_y) = self.measured.parts(data, b)
        readings = Y, np.where(present, rows, 0.0) - b_y
        found: AbstractPosterior | None = None
        enough = int(present.sum()) >= self.measured.needed
        if self.backend != "dense" and enough and not self._nullity:
            if present.all() and len(present) == self.measured.needed:
                found = self._square(data, np.concatenate([-laws[1], readings[1]]))
            else:
                found = solve_kkt(*self._kkt, laws, readings, present)
        return found or self._dense(kinematics, readings, present)

    def _square(self, data: Array, b: Array) -> AbstractPosterior | None:
        system = self.system
        A = csc_array((data, system.indices, system.indptr), shape=system.shape)
        return solve_square(self._square_factors, A, b, self.measured.covariance)

    @cached_property
    def _square_factors(self) -> AbstractFactors:
        return SuperLUFactors()

    @cached_property
    def _kkt(self) -> tuple[AbstractFactors, KktAssembly]:
        measured = self.measured
        (D, _), (Y, _) = measured.parts(np.ones(self.system.nnz), np.ones(self.system.shape[0]))
        assembly = KktAssembly(D, Y, measured.covariance)
        if self.backend == "superlu" or not has_cholmod():
            return SuperLUFactors(), assembly
        signs = np.ones(assembly.size)
        signs[assembly.m : assembly.m + assembly.n] = -1.0
        return CholmodFactors(signs), assembly

    def _dense(
        self, kinematics: Kinematics, readings: Equations, present: BoolArray
    ) -> DensePosterior:
        """Dense solve in the open unknowns, any rank."""
        rows, response = self.measured.reduced(kinematics, *readings)
        whitened = self.measured.whitened(present)
        solution = solve_dense(rows, whitened)
        wrong = np.flatnonzero(solution.violation > CONTRADICTION)
        if len(wrong):
            labels = self.measured.labels(np.unique(whitened.exact[wrong].indices))
            listed = ", ".join(labels[:8]) + (" ..." if len(labels) > 8 else "")
            raise ContradictionError(
                f"robot {self.robot.name!r}: readings without noise contradict each other or"
                f" the laws at this state: {listed}; correct them, or give the sensors a std"
            )
        return DensePosterior(solution, response, whitened)

    @cached_property
    def _nullity(self) -> int:
        """Number of directions that no reading sees at a random state, none missing."""
        q = self.robot.random_configuration(0)
        kinematics = Kinematics.at(self.robot, q, np.zeros(self.robot.nv))
        _, readings = self.measured.at(kinematics)
        return rank_of(self.measured.reduced(kinematics, *readings)[0].B).nullity

    # ---- before any data -----------------------------------------------------------------

    def verdict(self, *, samples: int = 24, seed: int = 0, search: bool = True) -> Verdict:
        """Say before any data what the layout determines, what not, what would repair it.

        Parameters
        ----------
        samples : states at which ranks and condition numbers are taken.
        seed : of those states.
        search : True looks for states within the joint limits where the rank drops.
        """
        from problems.verdict_judge import judge

        return judge(self, samples=samples, seed=seed, search=search)


def _quantities(wanted: Uncertainty) -> tuple[Quantity, ...]:
    if wanted is None:
        return ()
    names = QUANTITIES if wanted == "all" else (wanted,) if isinstance(wanted, str) else wanted
    for name in names:
        if name not in QUANTITIES:
            hint = nearest_name(str(name), QUANTITIES)
            listed = ", ".join(QUANTITIES)
            raise LayoutError(f"uncertainty: no quantity {name!r}{hint}; use {listed}")
    return cast("tuple[Quantity, ...]", tuple(names))
