"""Estimation: unknowns from the laws, taken as exact, and the readings of a sensor layout."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, final, get_args

import numpy as np

from dynsys.cholmod import has_cholmod
from dynsys.distribution import install
from dynsys.errors import DynsysError, KernelBuildError, LayoutWarning
from dynsys.kernel.build import best_backend
from dynsys.kernel.calls import AbstractKernel
from dynsys.kernel.python_entry import FastCall
from dynsys.kernel.taking import LARGEST, taking_kernel
from dynsys.kernel.threads import check_threads
from dynsys.loops import prefer_loops
from dynsys.model.readers.assembly import listing
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import EstimatorSpec
from dynsys.plan.methods import EliminationOrder
from dynsys.plan.plan import Plan
from dynsys.plan.search.search import Search
from dynsys.recursive.inputs import finite_rows, state_rows
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, ArrayLike, BoolArray
from problems.constrained import ConstraintInput, as_constraints
from problems.estimation.answers import FEW, CompiledAnswers, OneAnswer
from problems.estimation.compiled import (
    COMPILED_FROM,
    CompiledEstimator,
    EstimatorOutputs,
    ReferenceEstimator,
    check_plan,
    export_estimator,
    listed,
    plan_estimation,
    require_laws_only,
    said_by_the_verdict,
)
from problems.estimation.consistency import Checks, checks_at
from problems.estimation.derivatives import (
    BatchSlopes,
    EstimateDerivatives,
    EstimatorSlopes,
)
from problems.estimation.estimate import (
    Estimate,
    MeasuredStates,
    Uncertainty,
    names_of,
    quantities_of,
)
from problems.estimation.estimator import AbstractPosterior, minimise
from problems.estimation.posterior import EncoderPosterior, PosteriorSolver
from problems.estimation.reduced_batch import ReducedBatch
from problems.estimation.sensitivity import TorqueSensitivity, torque_sensitivities
from problems.measured.measured_system import QUANTITIES, Active, MeasuredSystem, Readings
from problems.measured.prior import PerName, Prior
from problems.problem import AbstractProblem
from problems.verdict.verdict import Verdict, judge
from problems.warm import WarmMemory
from sensors.constraints import LoopClosure
from sensors.layout import Layout

__all__ = ["Estimation", "Uncertainty"]

Backend: TypeAlias = Literal["auto", "llvm", "numpy", "cholmod", "superlu", "dense"]


def _say_what_does_not_hold(layout: Layout) -> None:
    """Warn of constraints of the file that no statement of the layout is about."""
    if any(isinstance(sensor, LoopClosure) for sensor in layout.sensors):
        return
    names = [held.name for held in layout.robot.constraints]
    if names:
        warnings.warn(
            f"robot {layout.robot.name!r} is held by constraints {listing(names)} of its file,"
            " which the estimator does not know of: say constraints='file' (constraints: file"
            " in a problem file), or constraints=() if they do not hold",
            LayoutWarning,
            stacklevel=3,
        )


@final
@dataclass(frozen=True, eq=False, init=False)
class Estimation(AbstractProblem):
    """Most likely unknowns given the laws, exact, and noisy readings y.

        minimise (y - b_Y - Y d)^T C^-1 (y - b_Y - Y d)   subject to   D d + b_D = 0

    :mod:`problems.estimation.estimator` defines the answer; all ways to it agree. With fewer
    readings than needed: what is determined, the rest NaN. Readings of standard deviation zero
    are constraints. A prior (maximum a posteriori) is never needed but may be given.

    Parameters
    ----------
    robot : the robot; contacts that the layout names need not be on it.
    layout : its sensors.
    prior : beliefs about unknowns, or the mapping ``std`` of a :class:`Prior`.
    backend : ``llvm`` machine code for this robot and layout; ``numpy`` the same operations one
        by one, as Python and NumPy do them; ``dense`` what defines the answer (orthogonal
        factors in the open unknowns; any rank, anything missing); ``cholmod`` (scikit-sparse,
        its analysis reused) and ``superlu`` sparse factors of all unknowns, where nothing is
        open; ``auto`` takes the first (where the extra ``fast`` is not installed, the second)
        for single states, from the first call on, and for large batches, else ``dense``, or
        sparse factors where some hundred unknowns are open: the general path. What the others
        cannot solve ``dense`` does; ``Estimate.method`` says which one did.
    plan : a plan for this robot and layout, see :meth:`plan`: :meth:`solve`,
        :meth:`solve_batch`, :meth:`compile` and :meth:`export_c` execute its order, whatever
        is asked; deviations and agreement for which it cannot be, the first two leave to the
        general path. Backend ``auto`` is then ``llvm`` or ``numpy``. The problem keeps it as
        ``executes``.
    constraints : loops and contacts that hold (``"file"``: those of the robot's file), as exact
        rows; ``external_wrench["NAME"]`` is the wrench of each (:mod:`sensors.held`).

    Warns
    -----
    LayoutWarning
        if the robot's file has constraints and nothing says whether they hold.

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
    executes: Plan | None = field(default=None, repr=False)

    def __init__(
        self,
        robot: KinematicTree,
        layout: Layout,
        prior: Prior | Mapping[str, PerName] | None = None,
        backend: Backend = "auto",
        executes: Plan | None = None,
        *,
        plan: Plan | None = None,
        constraints: Sequence[ConstraintInput] | str | None = None,
    ) -> None:
        plan = executes if plan is None else plan
        set_field = object.__setattr__
        if isinstance(layout, Layout):
            if constraints:
                layout = layout.with_constraints(as_constraints(layout.robot, constraints))
            elif constraints is None:
                _say_what_does_not_hold(layout)
            robot = layout.touched(robot)
        set_field(self, "robot", robot)
        set_field(self, "layout", layout)
        set_field(self, "prior", Prior(prior) if isinstance(prior, Mapping) else prior)
        set_field(
            self,
            "backend",
            best_backend() if plan is not None and backend == "auto" else backend,
        )
        set_field(self, "executes", plan)
        if self.backend not in get_args(Backend):
            raise KernelBuildError(
                f"there is no backend {self.backend!r}: {', '.join(get_args(Backend))}"
            )
        if self.backend == "cholmod" and not has_cholmod():
            raise KernelBuildError(
                f"CHOLMOD is not installed: {install('cholmod')}, or use superlu"
            )
        _ = self.system  # checks layout and prior against the robot
        if plan is not None:
            if not self._only_compiled:
                raise KernelBuildError(
                    f"backend {self.backend!r} executes no plan; use auto or llvm, or no plan"
                )
            check_plan(self, plan)

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

        What the estimate is asked for is computed then, by machine code of that quantity alone,
        for the numbers as they are now. That code is compiled when a quantity is first asked
        for (seconds; from the cache, milliseconds). Deviations and residuals come from the
        general path until they have been asked for a handful of times, then from code of their
        own; those named by ``uncertainty`` do from the first call. Layouts without such code or
        that leave something open, missing readings and states that need pivoting go to the
        general path; after :data:`FEW` such calls its rows are compiled
        (:class:`ReducedBatch`).

        Parameters
        ----------
        q, qd : position (nq,), velocity (nv,).
        y : readings by sensor name, or all in the order of ``layout`` (size,). NaN: missing.
        uncertainty : quantities whose standard deviations are computed now, and themselves; any
            others are when ``std`` is asked for them. They count the noise of q and qd that the
            layout states (``position_std``, ``velocity_std``), to first order; such deviations
            take the general path.
        active : sensor name to False for sensors (contacts, constraints) that do not hold.

        Raises
        ------
        StateError
            a vector has a wrong length or a value that is not finite.
        LayoutError
            a reading is missing (not NaN), unknown, or of wrong size.
        ContradictionError
            readings without noise contradict each other; where they do at special states only,
            when something is asked of the estimate.
        """
        if active is None:
            take = self._take
            if take is not None:
                if type(y) is dict:
                    y = self.layout.pack(y)
                packed = np.empty(self._packed_size)
                if take(q, qd, y, packed):
                    states = MeasuredStates(self, packed)
                    return self._by_kernels(states, uncertainty, (q, qd, y))
        return self._solve_carefully(q, qd, y, uncertainty, active)

    @cached_property
    def cuts(self) -> tuple[int, int]:
        """Where qd and y begin when q, qd and y are packed."""
        return self.robot.nq, self.robot.nq + self.robot.nv

    @cached_property
    def _repeats(self) -> bool:
        return bool(self.measured.repeats)

    @cached_property
    def _packed_size(self) -> int:
        return self.robot.nq + self.robot.nv + self.layout.size

    @cached_property
    def _take(self) -> FastCall | None:
        """Machine code that copies q, qd and y side by side if they are as kernels want them.

        All that must be looked at closely it refuses: other types and lengths, missing
        readings, quaternions not of norm one. None where no state goes to kernels unseen:
        another backend, a robot of some hundred bodies, readings that leave something open.
        """
        if self.backend != "auto" and not self._only_compiled:
            return None
        if self._only_compiled:
            self._compiled.kernel(EstimatorOutputs(("torque",)))  # says why there is none
        elif prefer_loops(self.robot) or self._is_open:
            return None
        robot, size = self.robot, self.layout.size
        inputs = (("q", robot.nq), ("qd", robot.nv), ("y", size))
        return taking_kernel(inputs, robot.quaternion_slices).fast

    @cached_property
    def _is_open(self) -> bool:
        """Whether readings leave something open at every state and any backend may answer."""
        return self.backend == "auto" and bool(self.measured.nullity)

    @cached_property
    def _calls(self) -> Iterator[int]:
        """Numbers of the single states that kernels could not answer."""
        return count()

    def _by_kernels(
        self, states: MeasuredStates, uncertainty: Uncertainty, arrays: tuple[Any, Any, Any]
    ) -> Estimate:
        """Estimate at one state whose quantities are computed when they are asked for.

        Standard deviations that are asked for now are, and their quantities beside them;
        torques too where exact readings repeat each other, and so may contradict each other.
        ``arrays`` are q, qd and y as kernels want them, equal to those of ``states``.
        """
        answers = OneAnswer(self._compiled, states)
        if uncertainty is None:
            e = Estimate(self, states, None, None, None, answers)
        else:
            found = answers.both(uncertainty, *arrays)
            e = Estimate(self, states, None, None, None, answers, found)
            if found is None:
                for kind in quantities_of(uncertainty, "uncertainty"):
                    _ = e.std[kind].array
        if self._repeats:
            _ = e.torque.array
        return e

    def _solve_carefully(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        uncertainty: Uncertainty,
        active: Active | None,
    ) -> Estimate:
        """Estimate at one state, with all checks."""
        q, qd = self.robot.check_q(q), self.robot.check_v(qd, "qd")
        rows = self.measured.pack(y, active, None)
        wanted = quantities_of(uncertainty, "uncertainty")
        packed = np.concatenate((q, qd, rows[: self.layout.size]))
        states = MeasuredStates(self, packed)
        with np.errstate(over="ignore"):
            usual = self._take is not None and packed.dot(packed) < LARGEST
        if self._only_compiled and not usual:
            outputs = EstimatorOutputs.of_estimate(QUANTITIES, wanted)
            answers = self._answers(states, outputs, 1, True)
            method = answers.method if isinstance(answers.method, str) else answers.method[0]
            return Estimate(self, states, None, method, None, answers)
        if usual:
            return self._by_kernels(states, wanted, states.parts())
        reduces = self.backend == "auto" and not self._reference.is_sparse
        if reduces and next(self._calls) >= FEW:
            answers = CompiledAnswers(self._compiled, states, 1, False, few=1)
            answers.compute(EstimatorOutputs.of_estimate(("torque",), wanted))
            method = answers.method if isinstance(answers.method, str) else answers.method[0]
            return Estimate(self, states, None, method, None, answers)
        e = Estimate.of_one(self, self.noisy_posterior(q, qd, rows), states)
        for quantity in wanted:
            _ = e.std[quantity].array
        return e

    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        *,
        outputs: Sequence[str] = QUANTITIES,
        threads: int = 1,
        uncertainty: Uncertainty = None,
        active: Active | None = None,
    ) -> Estimate:
        """Estimates at N states.

        Truth values in ``active`` are one for all states or (N,). Large batches go to machine
        code: complete states to the estimator of the layout, all others (readings missing, a
        layout that leaves something open) to the reduced system (:class:`ReducedBatch`).

        Parameters
        ----------
        q, qd : positions (N, nq) and velocities (N, nv).
        y : readings (N, size) in the order of the layout, or by the names of sensors; NaN where
            one is missing.
        outputs : what is computed now: quantities, ``chi_square``, ``residual``; any others
            are when they are asked for. Fewer make a smaller, faster kernel.
        threads : for the compiled estimator.
        uncertainty : quantities whose deviations are computed now, as in ``solve``;
            ``external_wrench.l_sole`` asks for one body or frame, whose kernel is smaller.
        active : sensor name to False, or (N,) truth values, for those that do not hold.
        """
        computed = EstimatorOutputs.of_estimate(outputs, names_of(uncertainty, "uncertainty"))
        threads = check_threads(threads)
        if active is None:
            e = self._by_rows(q, qd, y, computed, threads)
            if e is not None:
                return e
        positions, velocities = finite_rows(self.robot, (("q", q), ("qd", qd)))
        n = len(positions)
        rows = self.measured.pack(y, active, n)
        readings = rows[:, : self.layout.size]
        states = MeasuredStates(self, (positions.copy(), velocities.copy(), readings))
        if n >= self._compiled_from:
            answers = self._answers(states, computed, threads, self._only_compiled)
            return Estimate(self, states, n, None, None, answers)
        return Estimate.of_many(self, states, n, quantities_of(uncertainty, "uncertainty"))

    @cached_property
    def _compiled_from(self) -> float:
        """States from which on a batch goes to machine code."""
        return 0 if self._only_compiled else COMPILED_FROM if self.backend == "auto" else np.inf

    @property
    def _only_compiled(self) -> bool:
        """Whether the estimator must be compiled, and no other way may take its place."""
        return self.backend in ("llvm", "numpy")

    @cached_property
    def _memory(self) -> tuple[WarmMemory, WarmMemory]:
        """Memory of answers to batches, and of the states they are about."""
        return WarmMemory(), WarmMemory()

    def _by_rows(
        self, q: Any, qd: Any, y: Any, outputs: EstimatorOutputs, threads: int
    ) -> Estimate | None:
        """Estimates by a kernel that is there already, from arrays as it wants them.

        None leaves them to the careful way: another kind of array, a state that needs
        pivoting, or a number missing, which kernels do not see where their answers do not
        depend on it.
        """
        if type(q) is not np.ndarray or q.ndim != 2 or len(q) < max(self._compiled_from, 1):
            return None
        kernel = self._compiled.there(outputs)
        if kernel is None:
            return None
        n, (of_answers, of_states) = len(q), self._memory
        found = [of_answers.empty((n, size)) for _, size in kernel.signature.outputs]
        if not kernel.run_rows((q, qd, y, *found), n, threads):
            return None
        held = of_states.finite_copies((q, qd, y))
        if held is None:
            return None
        states = MeasuredStates(self, held)
        known = dict(zip(outputs.names, found, strict=True))
        strict = self._only_compiled
        answers = CompiledAnswers(self._compiled, states, threads, strict, known=known)
        return Estimate(self, states, n, None, None, answers)

    def _answers(
        self, states: MeasuredStates, outputs: EstimatorOutputs, threads: int, strict: bool
    ) -> CompiledAnswers:
        """What machine code says; with ``strict`` there must be an estimator of the layout."""
        answers = CompiledAnswers(self._compiled, states, threads, strict)
        answers.compute(outputs)
        return answers

    @cached_property
    def _compiled(self) -> CompiledEstimator:
        return CompiledEstimator.of(self)

    @cached_property
    def reduced(self) -> ReducedBatch:
        """Solves batches whatever is missing."""
        return ReducedBatch(self.measured)

    @cached_property
    def _reference(self) -> PosteriorSolver:
        return PosteriorSolver(self.measured, self.backend)

    def posterior(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """All that one state's readings say; ``rows`` (m,) with NaN where there is none.

        ``rows`` are the readings and prior means as ``measured.pack`` returns them.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # named where it matters
            return self._reference.at(q, qd, rows)

    def noisy_posterior(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """The same with the noise of q and qd, if the layout states any, in covariances."""
        found = self.posterior(q, qd, rows)
        layout = self.layout
        if not layout.has_encoder_noise:
            return found
        std = np.concatenate([layout.position_std, layout.velocity_std])
        return EncoderPosterior(found, lambda: self._slopes.at(q, qd, rows), std)

    def checks(self, q: Array, qd: Array, rows: Array) -> Checks:
        """What one state's readings say of each other; ``rows`` as for :meth:`posterior`."""
        found = self._reference.estimator.at(q, qd, rows, statements=False)
        return checks_at(self.measured, found.rows, found.whitened, found.minimiser)

    @cached_property
    def is_checked(self) -> BoolArray:
        """Tell which readings (size,) others check at a random state."""
        measured, robot = self.measured, self.robot
        at = Kinematics.at(robot, robot.random_configuration(0), np.zeros(robot.nv))
        rows = measured.reduced(at)
        whitened = measured.whitened(np.ones(len(rows.c), dtype=bool))
        checks = checks_at(measured, rows, whitened, minimise(rows, whitened))
        return np.isfinite(checks.residuals[0, : self.layout.size])

    def settle(self, states: int) -> None:
        """Prepare the general path for at most so many states, all of them solved alike.

        It keeps the order of elimination of the first matrix it meets and is compiled, in part,
        when that pays; another order, in another process, would round differently.
        """
        self._reference.assembly.settle(states + 1)
        y = np.where(np.isnan(self.layout.constants), 0.0, self.layout.constants)
        with suppress(DynsysError):
            rows = self.measured.pack(y, None, None)
            self.posterior(self.robot.random_configuration(0), np.zeros(self.robot.nv), rows)

    # ---- derivatives ---------------------------------------------------------------------

    def derivatives(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        *,
        parameters: Sequence[str] = (),
        active: Active | None = None,
    ) -> EstimateDerivatives:
        """How every estimated quantity changes with q, qd, y and parameters; exact.

        The readings stay what they are when q moves: this is what a wrong q does to an
        estimate. One solve for each number that is asked for, see
        :mod:`problems.estimation.derivatives`.

        Parameters
        ----------
        q, qd, y, active : those of :meth:`solve`; a missing reading has derivatives zero.
        parameters : names of parameters of the robot (``robot.parameters``).

        Raises
        ------
        KernelBuildError
            naming a sensor whose own rows depend on the parameters.

        Examples
        --------
        >>> import dynsys, problems, sensors
        >>> robot = dynsys.synthetic.chain(3)
        >>> known = sensors.all_joint_accelerations(robot, std=0.1)
        >>> untouched = sensors.zero_external_wrench_except(robot)
        >>> est = problems.Estimation(robot, sensors.Layout(robot, [*known, *untouched]))
        >>> y = {sensor.name: 1.0 for sensor in known}
        >>> J = est.derivatives([1, 2, 3], [0, 0, 0], y, parameters=["link_3.mass"])
        >>> same = problems.InverseDynamics(robot).derivatives([1, 2, 3], [0, 0, 0], [1, 1, 1])
        >>> bool(np.allclose(J.torque.q, same.q)), J.torque.y.shape, J.torque.parameters.shape
        (True, (3, 21), (3, 1))
        """
        if len(parameters):
            require_laws_only(self.robot, self.layout, parameters)
        q, qd = self.robot.check_q(q), self.robot.check_v(qd, "qd")
        rows = self.measured.pack(y, active, None)
        at = self._slopes.at(q, qd, rows, parameters)
        return EstimateDerivatives(at, self.system.unknowns)

    def derivatives_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        *,
        parameters: Sequence[str] = (),
        active: Active | None = None,
    ) -> EstimateDerivatives:
        """The same at N states, ``J.torque.q`` (N, nv, nv); arguments as of ``solve_batch``.

        64 states and more go through a kernel, which takes seconds to compile, where the layout
        has one.
        """
        if len(parameters):
            require_laws_only(self.robot, self.layout, parameters)
        positions, velocities = state_rows(self.robot, (("q", q), ("qd", qd)))
        rows = self.measured.pack(y, active, len(positions))
        found = self.slopes_of(positions, velocities, rows, parameters)
        return EstimateDerivatives(found, self.system.unknowns)

    def slopes_of(
        self, q: Array, qd: Array, rows: Array, parameters: Sequence[str] = ()
    ) -> BatchSlopes:
        """Derivatives at N states; ``rows`` as for :meth:`posterior`."""
        return BatchSlopes(self._slopes, q, qd, rows, parameters)

    def sensitivity(self, samples: int = 8, seed: int = 0) -> tuple[TorqueSensitivity, ...]:
        """What each torque's deviation is made of: sensors, positions, velocities.

        At random motions; see :mod:`problems.estimation.sensitivity`.
        """
        return torque_sensitivities(self, samples, seed)

    @cached_property
    def _slopes(self) -> EstimatorSlopes:
        return EstimatorSlopes(self.measured, self)

    # ---- kernels -------------------------------------------------------------------------

    def plan(
        self,
        search_seconds: float = 0.0,
        workers: int = 1,
        seed: int = 0,
        *,
        outputs: Sequence[str] = ("torque",),
        uncertainty: Sequence[str] = (),
        search: Search | None = None,
        order: EliminationOrder | None = None,
    ) -> Plan:
        """Order of elimination with its exact operation count and the safety of its pivots.

        Laws and readings are eliminated as one symmetric system, leaves first, every pivot the
        cheapest safe one; ``search_seconds`` look for a cheaper order of it. As many readings
        as unknowns: by the recursion with open parameters too, and by scalar LU where these
        have no safe pivots or an order searched for costs less. ``search`` says in full how to
        search, in place of the first three. ``order`` prices one of your own, such as that of
        another plan, changed: PlanMismatchError if it cannot be executed.
        Any question about the layout executes the order; ``plan.operations`` is its cost for
        ``outputs`` and ``uncertainty``, ``plan.options["constructive"]`` what it costs without
        a search.
        """
        search = search or Search(seconds=search_seconds, workers=workers, seed=seed)
        with said_by_the_verdict(self):
            asked = EstimatorOutputs.of(outputs, uncertainty)
            return plan_estimation(self, asked, search, order)

    def compile(
        self,
        plan: Plan | None = None,
        *,
        backend: Literal["auto", "llvm", "numpy", "reference"] = "auto",
        dtype: str = "float64",
        outputs: Sequence[str] = ("torque",),
        uncertainty: Sequence[str] = (),
        switchable: Sequence[str] = (),
        parameters: Sequence[str] = (),
    ) -> AbstractKernel:
        """Kernel with ``kernel.one(q, qd, y[, weight][, parameters])``, ``kernel.batch(...)``.

        Parameters
        ----------
        plan : a plan made for this robot and layout; its order is executed as it stands, for
            whatever is asked. By default that of the problem, if it has one.
        backend : ``llvm`` machine code; ``numpy`` the same operations one by one, as Python and
            NumPy do them; ``auto`` the first where the extra ``fast`` is installed, else the
            second; ``reference`` the general path, which pivots at every state and so executes
            no plan.
        outputs : ``torque``, ``qdd``, ``acceleration``, ``joint_wrench``, ``external_wrench``,
            or one joint's, body's or frame's: ``torque.l_knee``, ``external_wrench.l_sole``;
            but for ``reference`` also ``residual``, ``multiplier`` (:func:`estimation_kernel`);
            and ``std.NAME``, as problem files have it, for ``uncertainty`` of NAME.
        uncertainty : quantities whose standard deviations follow as ``std_<name>``; noise of q
            and qd that the layout states counts in them, and takes longer to compile.
        switchable : sensors that may be missing; their rows of the input ``weight`` count.
        parameters : names of parameters of the robot (``robot.parameters``) whose values, in
            this order, are the last input; not of ``reference``. The kernel answers as that of
            ``robot.with_parameters``.

        Raises
        ------
        KernelBuildError
            if the readings do not determine everything, or only by pivoting at run time; says
            what the verdict says.
        PlanMismatchError
            if the plan is for something else, its order cannot be executed, or costs other
            than it states.
        """
        if plan is not None:
            check_plan(self, plan)
        wanted = EstimatorOutputs.of(outputs, uncertainty)
        if backend not in ("auto", "llvm", "numpy", "reference"):
            raise KernelBuildError(f"there is no backend {backend!r}: llvm, numpy, reference")
        if backend == "reference":
            if plan is not None or self.executes is not None:
                raise KernelBuildError(
                    f"backend {backend!r} executes no plan; use llvm, or no plan"
                )
            if len(parameters):
                raise KernelBuildError(
                    f"backend {backend!r} has no parameters as inputs; use llvm"
                )
            return ReferenceEstimator(self, wanted)
        compiled = self._compiled if plan is None else replace(self._compiled, plan=plan)
        if backend not in ("auto", compiled.method):
            compiled = replace(compiled, backend=backend)
        with said_by_the_verdict(self):
            if len(parameters):
                return compiled.kernel_of_parameters(
                    wanted, listed(switchable), dtype, parameters
                )
            return compiled.kernel(wanted, listed(switchable), dtype)

    def estimator_spec(
        self, outputs: Sequence[str], parameters: Sequence[str] = ()
    ) -> EstimatorSpec:
        """The question that kernels with such outputs answer; for tools that record programs.

        Raises as :meth:`compile` does.
        """
        wanted = EstimatorOutputs.of(outputs, ())
        with said_by_the_verdict(self):
            if len(parameters):
                return self._compiled.spec_of_parameters(wanted, (), parameters)
            return self._compiled.spec(wanted)

    def export_c(
        self,
        folder: str | Path,
        plan: Plan | None = None,
        *,
        name: str = "estimation",
        outputs: Sequence[str] = ("torque",),
        uncertainty: Sequence[str] = (),
        switchable: Sequence[str] = (),
        dtype: Literal["float64", "float32"] = "float64",
        overwrite: bool = False,
        parameters: Sequence[str] = (),
    ) -> list[Path]:
        """Write the estimator as dependency-free C99 with header, self-test and CMake file.

        ``name`` is that of the C function, its arguments those of the kernel; the others are as
        for :meth:`compile`. Returns the files written.
        """
        if plan is not None:
            check_plan(self, plan)
        with said_by_the_verdict(self):
            return export_estimator(
                self,
                folder,
                EstimatorOutputs.of(outputs, uncertainty),
                listed(switchable),
                name=name,
                dtype=dtype,
                overwrite=overwrite,
                plan=self.executes if plan is None else plan,
                parameters=parameters,
            )

    # ---- before any data -----------------------------------------------------------------

    def verdict(
        self,
        *,
        samples: int = 24,
        seed: int = 0,
        search: bool = True,
        active: Active | None = None,
    ) -> Verdict:
        """Say before any data what the layout determines, what not, what would repair it.

        Parameters
        ----------
        samples : states at which ranks and condition numbers are taken.
        seed : of those states.
        search : True looks for states within the joint limits where the rank drops.
        active : as for :meth:`solve`: False for statements that do not hold. All others are
            taken to hold; ``verdict.statements`` tells what is lost where one of them does not.
        """
        measured, off = self.measured.without(active)
        found = judge(measured, samples=samples, seed=seed, search=search)
        return replace(found, without=off)
