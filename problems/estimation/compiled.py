"""The compiled estimator behind :class:`Estimation`: many states at once, as machine code.

One kernel for samples where every reading is there. All others, and what that kernel cannot
answer (a state or a set of readings that leaves something open, or needs pivoting: NaN), go to
the reduced system (:mod:`problems.estimation.reduced_batch`), and what is in doubt there to
the posterior of its state. Plan and C source of the same estimator are here too, and the
reference path behind the interface of a kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike

from dynsys.errors import (
    KernelBuildError,
    LayoutError,
    NoOrderError,
    PlanMismatchError,
    nearest_name,
)
from dynsys.kernel.build import cached_estimation_kernel, estimation_kernel
from dynsys.kernel.c.source import export_c
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.python_entry import FastCall
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator import estimator_program, planned_estimator
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.fingerprint import (
    Fingerprint,
    fingerprint_parts,
    fingerprint_problem,
    fingerprint_robot,
)
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.plan import Plan
from dynsys.plan.search.search import Search
from dynsys.system.equations import EquationBlock
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.consistency import of_readings
from problems.estimation.estimate import Estimate, MeasuredStates, Of, deviations, values
from problems.estimation.reduced_batch import METHOD
from problems.labels import entry_names, of_arrays
from problems.measured.measured_system import QUANTITIES, Quantity, joint_covariance
from problems.measured.prior import Prior, PriorRows, prior_rows
from problems.problem import given_plan
from problems.reference import AbstractReference
from problems.verdict.verdict import judge
from sensors.layout import Layout

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = [
    "COMPILED_FROM",
    "CompiledAnswers",
    "CompiledEstimator",
    "EstimatorOutputs",
    "OneAnswer",
    "ReferenceEstimator",
    "check_plan",
    "export_estimator",
    "listed",
    "plan_estimation",
    "said_by_the_verdict",
]

Names: TypeAlias = tuple[str, ...]
_Together: TypeAlias = "tuple[FastCall | None, tuple[tuple[str, tuple[int, ...]], ...]]"
AGREEMENT = ("residual", "multiplier")
FACTS = ("chi_square", "degrees_of_freedom", "p_value", "residual")
CLEAR = 1e-9
"""Part of a reading's information that others check, below which rounding hides how much."""
HANDFUL = 8
"""Late questions of one kind, deviations and residuals, that the general path answers before
their kernel is compiled; a kernel in the cache is used at once."""
COMPILED_FROM = 256
"""States of a batch from which compiling the estimator pays."""
FEW, HARDLY_ANY = 128, 8
"""States that are solved one by one rather than by the reduced system, whose code must be
compiled first; the second where machine code was asked for."""
BLOCK = 2048
"""States per thread handed to a kernel at a time: copies of their readings stay small."""


@final
@dataclass(frozen=True)
class EstimatorOutputs:
    """What a kernel computes: outputs, and those whose standard deviations come after them."""

    outputs: Names
    uncertainty: Names = ()

    @staticmethod
    def of(outputs: str | Sequence[str], uncertainty: str | Sequence[str]) -> EstimatorOutputs:
        """From lists of names, or single names."""
        return EstimatorOutputs(listed(outputs), listed(uncertainty))

    @staticmethod
    def of_estimate(outputs: Sequence[str], uncertainty: Sequence[str]) -> EstimatorOutputs:
        """What kernels must compute for outputs by the names of an estimate.

        ``chi_square``, ``degrees_of_freedom`` and ``p_value`` come from the multipliers of the
        readings, ``residual`` from their standard deviations too. LayoutError names a wrong
        one.
        """
        asked = listed(outputs)
        for name in asked:
            if name not in (*QUANTITIES, *FACTS):
                hint = nearest_name(str(name), (*QUANTITIES, *FACTS))
                raise LayoutError(f"outputs: no quantity {name!r}{hint}")
        names = dict.fromkeys(name for name in asked if name not in FACTS)
        stds = dict.fromkeys(uncertainty)
        if any(name in FACTS for name in asked):
            names |= dict.fromkeys(AGREEMENT)
        if "residual" in asked:
            stds |= {"multiplier": None}
        return EstimatorOutputs(tuple(names), tuple(stds))

    @property
    def names(self) -> Names:
        """Names of all arrays, those of standard deviations ``std_...``."""
        return (*self.outputs, *(f"std_{name}" for name in self.uncertainty))

    @property
    def key(self) -> str:
        """All names in one."""
        return " ".join(self.names)


def listed(names: str | Sequence[str]) -> Names:
    """Return names, also of one that stands alone."""
    return (names,) if isinstance(names, str) else tuple(names)


_Refusal: TypeAlias = tuple[type[KernelBuildError], str]


@contextmanager
def said_by_the_verdict(problem: Estimation) -> Iterator[None]:
    """Where a layout has no kernel, the error says what the verdict says of the layout."""
    try:
        yield
    except NoOrderError as error:
        verdict = judge(problem.measured, samples=4, seed=0, search=False)
        general = "the backends cholmod, superlu and dense answer"
        if verdict.is_well_posed:
            reason = str(error).split(": ", 1)[-1]
            text = (
                "no order of elimination is known that keeps its digits without pivoting at run"
                f" time ({reason}); {general}"
            )
        else:
            text = (
                "the readings do not determine everything; not determined:"
                f" {'; '.join(verdict.open_words)}; {general} what is determined"
            )
        raise KernelBuildError(f"{verdict.headline}; {text}") from None


@final
@dataclass(frozen=True, eq=False)
class CompiledEstimator:
    """Kernels of one layout, and of what is believed before any reading; compiled on first use.

    Beliefs are measurements whose y, the mean, is part of the equations. All kernels execute
    the order of the ``plan``, if there is one.
    """

    robot: KinematicTree
    layout: Layout
    prior: Prior | None = None
    plan: Plan | None = None

    @staticmethod
    def of(problem: Estimation) -> CompiledEstimator:
        """The kernels of an estimation."""
        prior, plan = problem.measured.prior, problem.executes
        return CompiledEstimator(problem.robot, problem.layout, prior, plan)

    def __reduce__(self) -> tuple[type[CompiledEstimator], tuple[object, ...]]:
        """Travels as what it was made from; kernels come from the cache there."""
        return CompiledEstimator, (self.robot, self.layout, self.prior, self.plan)

    @cached_property
    def _beliefs(self) -> PriorRows:
        return prior_rows(self.prior, UnknownLayout(self.robot, net_wrench=True))

    @cached_property
    def _equations(self) -> tuple[EquationBlock, ...]:
        unknowns = UnknownLayout(self.robot, net_wrench=True)
        return (*self.layout.equations(unknowns), *self._beliefs.stated)

    @cached_property
    def _found(self) -> dict[tuple[EstimatorOutputs, Names], Kernel | _Refusal]:
        """Kernels, or why there is none: the words, for an error would keep its callers."""
        return {}

    def spec(self, outputs: EstimatorOutputs, switchable: Names = ()) -> EstimatorSpec:
        """What the kernel of the same arguments answers."""
        return EstimatorSpec(
            self.robot,
            self._equations,
            joint_covariance(self.layout, self._beliefs),
            outputs.outputs,
            outputs.uncertainty,
            switchable,
            len(self._beliefs.mean),
        )

    def kernel(
        self,
        outputs: EstimatorOutputs,
        switchable: Names = (),
        dtype: str = "float64",
    ) -> Kernel:
        """Kernel from (q, qd, y[, weight]) to what is asked for.

        Raises
        ------
        KernelBuildError
            if the layout has no such kernel; says why.
        PlanMismatchError
            if the order of the plan cannot be executed for it, or costs other than stated.
        """
        if dtype not in ("float64", "float32"):
            raise KernelBuildError(f"there are no kernels of dtype {dtype!r}")
        plan = self.plan
        order = None if plan is None else plan.order
        if dtype != "float64":
            return estimation_kernel(self.spec(outputs, switchable), dtype=dtype, order=order)
        key = outputs, switchable
        if key not in self._found:
            try:
                kernel = estimation_kernel(self.spec(outputs, switchable), order=order)
                if plan is not None and not switchable:
                    require_cost(plan, outputs, kernel.operations)
                self._found[key] = kernel
            except KernelBuildError as error:
                self._found[key] = type(error), str(error)
        found = self._found[key]
        if isinstance(found, tuple):
            raise found[0](found[1])
        return found

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the quantities of one state, by name."""
        shapes: dict[str, tuple[int, ...]] = {}
        for kind in QUANTITIES:
            per_joint = kind in ("torque", "qdd")
            shape = (self.robot.nv,) if per_joint else (self.robot.n_bodies, 6)
            shapes[kind] = shapes[f"std_{kind}"] = shape
        return shapes

    # ---- one state -----------------------------------------------------------------------

    @cached_property
    def calls(self) -> dict[str, FastCall | None]:
        """Machine code f(q, qd, y, *outputs) by the names of its outputs; None: there is none.

        Filled by :meth:`call`.
        """
        return {}

    @cached_property
    def _asked(self) -> Counter[str]:
        return Counter()

    def call(self, outputs: EstimatorOutputs, *, patient: bool = False) -> FastCall | None:
        """Machine code f(q, qd, y, *outputs) of one state; None if the layout has none.

        ``patient``: what is not in the cache is compiled only after it has been asked for
        :data:`HANDFUL` times; until then there is none.
        """
        name = outputs.key
        if name not in self.calls:
            self._asked[name] += 1
            count = self._asked[name]
            if patient and 1 < count <= HANDFUL:
                return None
            try:
                if patient and count == 1:
                    order = None if self.plan is None else self.plan.order
                    found = cached_estimation_kernel(self.spec(outputs), order)
                    if found is None:
                        return None
                    if self.plan is not None:
                        require_cost(self.plan, outputs, found.operations)
                    self._found[outputs, ()] = found
                else:
                    found = self.kernel(outputs)
                self.calls[name] = found.fast
            except KernelBuildError:
                self.calls[name] = None
        return self.calls[name]

    @cached_property
    def _together(self) -> dict[Names, _Together]:
        return {}

    def together(self, kinds: Names) -> _Together:
        """Machine code of quantities and their standard deviations, and what it writes."""
        if kinds not in self._together:
            outputs = EstimatorOutputs(kinds, kinds)
            shapes = tuple((name, self.shapes[name]) for name in outputs.names)
            self._together[kinds] = self.call(outputs), shapes
        return self._together[kinds]

    # ---- many states ---------------------------------------------------------------------

    def solve(
        self, states: MeasuredStates, outputs: EstimatorOutputs, *, threads: int
    ) -> dict[str, Array]:
        """Arrays (N, size) by name; rows are NaN where there is no answer or a reading missing.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        kernel, (q, qd, y) = self.kernel(outputs), (states.q, states.qd, states.y)
        partial = np.asarray(np.isnan(y).any(axis=1))
        if not partial.any():
            return dict(zip(outputs.names, _run(kernel, (q, qd, y), threads), strict=True))
        sizes = [size for _, size in kernel.signature.outputs]
        out = [np.full((len(q), size), np.nan) for size in sizes]
        _scatter(out, kernel, ~partial, (q, qd, y), threads)
        return dict(zip(outputs.names, out, strict=True))


def _scatter(
    out: list[Array], kernel: Kernel, who: BoolArray, inputs: tuple[Array, ...], threads: int
) -> None:
    """Answer the states ``who`` and put them in their places, block by block."""
    places = np.flatnonzero(who)
    for start in range(0, len(places), BLOCK * threads):
        some = places[start : start + BLOCK * threads]
        arrays = _run(kernel, tuple(x[some] for x in inputs), threads)
        for whole, part in zip(out, arrays, strict=True):
            whole[some] = part


def _run(kernel: Kernel, inputs: tuple[Array, ...], threads: int) -> tuple[Array, ...]:
    """Outputs (N, size) of N states; one state needs no code for batches."""
    if len(inputs[0]) == 1:
        return tuple(x[None] for x in kernel.one(*(x[0] for x in inputs))[0])
    return kernel.batch(*inputs, threads=threads)[0]


# ---- answers about N states ----------------------------------------------------------------

Facts: TypeAlias = tuple[float, int, str]
"""Chi-square, degrees of freedom and method of a state."""


@final
class CompiledAnswers:
    """What is known of N states, by name of the quantity; found when asked for.

    Parameters
    ----------
    estimator : the kernels.
    states : the states with their readings, which can solve any of them in any case.
    threads : for the kernels.
    strict : whether there must be a kernel of the layout; else the reduced system may answer
        all states.
    """

    def __init__(
        self, estimator: CompiledEstimator, states: MeasuredStates, threads: int, strict: bool
    ) -> None:
        self._estimator = estimator
        self._states = states
        self._threads = threads
        self._strict = strict
        self._arrays: dict[str, Array] = {}
        self._facts: dict[int, Facts] = {}
        self._normalised: dict[int, Array] = {}

    @property
    def method(self) -> str | tuple[str, ...]:
        """``llvm``, or the method of each state if some needed another."""
        if not self._facts:
            return "llvm"
        n = len(self._states.q)
        return tuple(self._facts[k][2] if k in self._facts else "llvm" for k in range(n))

    # ---- computing -----------------------------------------------------------------------

    def compute(self, outputs: EstimatorOutputs) -> None:
        """Find what is asked for of all states.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        found = self._by_kernel(outputs)
        bad = ~np.all([np.isfinite(array).all(axis=1) for array in found.values()], axis=0)
        if outputs == EstimatorOutputs(AGREEMENT):  # facts are kept
            bad[list(self._facts)] = False
        problem = self._states.problem
        for k in self._by_reduced(np.flatnonzero(bad), found).tolist():
            posterior = self._states(k)
            one = Estimate.of_one(problem, posterior)
            facts = posterior.chi_square, posterior.degrees_of_freedom, posterior.method
            self._facts[k] = facts
            if "std_multiplier" in found:
                self._normalised[k] = self._residuals_of(k)
            for name, array in found.items():
                kind = cast("Quantity", name.removeprefix("std_"))
                if kind in QUANTITIES:
                    source = one.std[kind] if name.startswith("std_") else one.values[kind]
                    array[k] = source.array.ravel()
        self._arrays |= found

    def _by_kernel(self, outputs: EstimatorOutputs) -> dict[str, Array]:
        """Arrays by name; NaN where there is no kernel, or too few complete states for it."""
        states, spec = self._states, self._estimator.spec(outputs)
        complete = ~np.isnan(states.rows).any(axis=1)
        if self._strict or complete.all() or int(complete.sum()) >= COMPILED_FROM:
            try:
                return self._estimator.solve(states, outputs, threads=self._threads)
            except KernelBuildError:
                if self._strict and not (outputs.uncertainty and outputs.outputs):
                    raise
            if self._strict:  # standard deviations may be all that has no kernel
                self._estimator.kernel(EstimatorOutputs(outputs.outputs))
        n = len(states.q)
        return {name: np.full((n, size), np.nan) for name, size in spec.signature.outputs}

    def _by_reduced(self, places: IntArray, found: dict[str, Array]) -> IntArray:
        """Answer states by the reduced system; those that are left."""
        if len(places) < (HARDLY_ANY if self._strict else FEW):
            return places
        states, names = self._states, [x.removeprefix("std_") for x in found]
        kinds = [(x, n) for x, n in zip(found, names, strict=True) if n in QUANTITIES]
        answers = states.problem.reduced.solve(
            states.q[places],
            states.qd[places],
            states.rows[places],
            [x for x, name in kinds if x == name],
            [name for x, name in kinds if x != name],
            residuals="std_multiplier" in found,
        )
        there = np.flatnonzero(answers.answered)
        for x, _ in kinds:
            found[x][places[there]] = answers.arrays[x][there]
        chi_square, dof = answers.chi_square[there], answers.degrees_of_freedom[there]
        facts = zip(chi_square.tolist(), dof.tolist(), [METHOD] * len(there), strict=True)
        self._facts |= dict(zip(places[there].tolist(), facts, strict=True))
        if answers.residuals is not None:
            rows = zip(places[there].tolist(), answers.residuals[there], strict=True)
            self._normalised |= dict(rows)
        return np.asarray(places[~answers.answered])

    def _have(self, names: Sequence[str], outputs: EstimatorOutputs) -> bool:
        """Compute what is not there yet; False if no kernel can."""
        if all(name in self._arrays for name in names):
            return True
        try:
            self.compute(outputs)
        except KernelBuildError:
            return False
        return True

    # ---- answers -------------------------------------------------------------------------

    def about(self, kind: Quantity, of: Of) -> Array | None:
        """Values, standard deviations or truth values (N, ...); None if no kernel has them."""
        is_std = of is deviations
        name = f"std_{kind}" if is_std else kind
        asked = EstimatorOutputs((), (kind,)) if is_std else EstimatorOutputs((kind,))
        if not self._have([name], asked):
            return None
        found = self._arrays[name]
        if of is not values and not is_std:
            found = np.isfinite(found)
        found = found if kind in ("torque", "qdd") else found.reshape(len(found), -1, 6)
        return found if self._states.is_batch else found[0]

    def deviations_at(self, kind: Quantity, body: int, matrix: Array) -> Array:
        """Deviations (N, 6) of a quantity of a body, moved to one of its frames.

        NaN at states that are left to the posterior: too few, in doubt, or something is open.
        """
        states, n = self._states, len(self._states)
        if n < FEW:
            return np.full((n, 6), np.nan)
        answers = states.problem.reduced.solve(
            states.q, states.qd, states.rows, (), (kind,), moved={"here": (kind, body, matrix)}
        )
        of_body = answers.arrays[f"std_{kind}"].reshape(n, -1, 6)[:, body]
        known = answers.answered & np.isfinite(of_body).all(axis=1)
        return np.where(known[:, None], answers.at_frames["here"], np.nan)

    def agreement(self) -> tuple[float | Array, int | IntArray] | None:
        """Chi-square and degrees of freedom, (N,) of a batch."""
        if not self._have(AGREEMENT, EstimatorOutputs(AGREEMENT)):
            return None
        residual, multiplier = (self._arrays[name] for name in AGREEMENT)
        chi_square = np.maximum(np.einsum("nk,nk->n", residual, multiplier), 0.0)
        dof = (~np.isnan(self._states.rows)).sum(axis=1) - self._states.problem.measured.needed
        for k, facts in self._facts.items():
            chi_square[k], dof[k] = facts[:2]
        one = float(chi_square[0]), int(dof[0])
        return (chi_square, dof) if self._states.is_batch else one

    def residuals(self) -> Array | None:
        """Residuals (rows,), (N, rows) of a batch, in standard deviations of the residual."""
        names = (*AGREEMENT, "std_multiplier")
        if not self._have(names, EstimatorOutputs(AGREEMENT, ("multiplier",))):
            return None
        size = self._states.problem.layout.size
        variance = self._states.problem.measured.variance[:size]
        spread = self._arrays["std_multiplier"][:, :size]
        is_clear = spread**2 * variance > CLEAR
        out = np.full(spread.shape, np.nan)
        out[is_clear] = -self._arrays["multiplier"][:, :size][is_clear] / spread[is_clear]
        out[:, variance == 0] = 0.0
        hidden = (~is_clear & (variance > 0) & self._states.problem.is_checked).any(axis=1)
        self._look_closely(np.flatnonzero(hidden))
        for k, residuals in self._normalised.items():
            out[k] = residuals
        return out if self._states.is_batch else np.asarray(out[0])

    def _look_closely(self, places: IntArray) -> None:
        """Find residuals of readings far more precise than what checks them."""
        places = np.array([k for k in places.tolist() if k not in self._normalised], dtype=int)
        states, problem = self._states, self._states.problem
        if len(places) >= HARDLY_ANY:
            some = states.q[places], states.qd[places], states.rows[places]
            answers = problem.reduced.solve(*some, (), residuals=True)
            assert answers.residuals is not None
            for k in np.flatnonzero(answers.answered).tolist():
                self._normalised[int(places[k])] = answers.residuals[k]
            places = places[~answers.answered]
        for k in places.tolist():
            self._normalised[k] = self._residuals_of(k)

    def _residuals_of(self, k: int) -> Array:
        """Residuals of one state by the dense system."""
        states, problem = self._states, self._states.problem
        found = states.checks(k).residuals
        return np.asarray(of_readings(problem.measured, found, states.at(k)[2][None])[0])


# ---- answers about one state ---------------------------------------------------------------


@final
class OneAnswer:
    """What the compiled estimator says of one complete state: each quantity by its own kernel.

    Values are computed when they are asked for, and their kernels compiled then; deviations and
    agreement too, by kernels that are compiled when they pay (:data:`HANDFUL`). None leaves the
    question to the general path: there is no kernel, or it found that this state needs
    pivoting, and then all further questions about it are left there too.
    """

    __slots__ = ("_estimator", "_states", "has_failed")

    def __init__(self, estimator: CompiledEstimator, states: MeasuredStates) -> None:
        self._estimator = estimator
        self._states = states
        self.has_failed = False

    @property
    def method(self) -> str | None:
        """``llvm``, None where the general path answers: asks for the torques to find out."""
        return None if self.about("torque", values) is None else "llvm"

    def about(self, kind: Quantity, of: Of) -> Array | None:
        """Values, standard deviations or truth values; None leaves them to the general path."""
        estimator = self._estimator
        if of is not deviations:
            call = estimator.calls.get(kind) or estimator.call(EstimatorOutputs((kind,)))
        else:
            call = estimator.call(EstimatorOutputs((), (kind,)), patient=True)
        if call is None or self.has_failed:
            return None
        found = np.empty(estimator.shapes[kind])
        q, qd, y = self._states.parts()
        if not call(q, qd, y, found if found.ndim == 1 else found.ravel()):
            self.has_failed = True
            return None
        is_number = of is values or of is deviations
        return found if is_number else np.ones(found.shape, dtype=bool)

    def deviations_at(self, kind: Quantity, body: int, matrix: Array) -> Array | None:
        """Leave deviations at frames to the general path."""
        return None

    def both(self, kinds: tuple[Quantity, ...]) -> dict[str, Array] | None:
        """Values and standard deviations of quantities, by their names, from one kernel."""
        call, shapes = self._estimator.together(kinds)
        if call is None or self.has_failed:
            return None
        found = {name: np.empty(shape) for name, shape in shapes}
        if not call(*self._states.parts(), *[x.ravel() for x in found.values()]):
            self.has_failed = True
            return None
        return found

    def _many(self, outputs: EstimatorOutputs) -> CompiledAnswers | None:
        """Answers of a kernel of several outputs, None if it is not there."""
        if self.has_failed or self._estimator.call(outputs, patient=True) is None:
            return None
        return CompiledAnswers(self._estimator, self._states, 1, False)

    def agreement(self) -> tuple[float | Array, int | IntArray] | None:
        """Chi-square and degrees of freedom."""
        answers = self._many(EstimatorOutputs(AGREEMENT))
        return None if answers is None else answers.agreement()

    def residuals(self) -> Array | None:
        """Residuals (rows,) in standard deviations of the residual."""
        answers = self._many(EstimatorOutputs(AGREEMENT, ("multiplier",)))
        return None if answers is None else answers.residuals()


# ---- plan, C source, reference path --------------------------------------------------------

PROBLEM = "Estimation"


def _fingerprints(problem: Estimation) -> tuple[Fingerprint, Fingerprint]:
    """Of the equations, and of the sensors with their noise."""
    parts = {f"sensor {s.name!r}": repr(s) for s in problem.layout.sensors}
    parts["noise"] = problem.layout.fingerprint()
    if problem.prior is not None:
        parts["prior"] = repr(problem.prior)
    return fingerprint_problem(PROBLEM, problem.system), fingerprint_parts("layout", parts)


def plan_estimation(
    problem: Estimation, outputs: EstimatorOutputs, search: Search | None = None
) -> Plan:
    """Cheapest order found, and what it costs; the option ``constructive`` is what the one does
    that is found without a search.
    """
    spec = CompiledEstimator.of(problem).spec(outputs)
    found = constructive = planned_estimator(spec)
    if search is not None and not search.is_off:
        found = planned_estimator(spec, search=search)
        if search.measure is None:
            found = min(found, constructive, key=lambda way: way.operations.total)
    system, layout = _fingerprints(problem)
    return Plan(
        method=found.method,
        robot=fingerprint_robot(problem.robot),
        problem=system,
        operations=found.operations,
        pivots=found.pivots,
        layout=layout,
        order=found.order,
        options={
            "outputs": " ".join(outputs.names),
            "constructive": constructive.operations.total,
        },
        ordering=found.ordering,
    )


def check_plan(problem: Estimation, plan: Plan) -> None:
    """Raise PlanMismatchError unless the plan is for this robot, these sensors, this noise."""
    given_plan(plan).check(problem.robot, *_fingerprints(problem))
    if plan.order is None:
        raise PlanMismatchError(
            f"the plan ({plan.method}) has no order of estimation; make a new plan"
        )


def require_cost(plan: Plan, outputs: EstimatorOutputs, executed: Operations | None) -> None:
    """Raise PlanMismatchError if a program of its outputs costs other than the plan states."""
    same = plan.options.get("outputs") == " ".join(outputs.names)
    if same and executed != plan.operations:
        raise PlanMismatchError(
            f"the plan states {plan.operations}, its order executes {executed}: it was changed,"
            " or another version made it; make a new plan"
        )


def export_estimator(
    problem: Estimation,
    folder: str | Path,
    outputs: EstimatorOutputs,
    switchable: Sequence[str],
    *,
    name: str,
    dtype: Literal["float64", "float32"],
    overwrite: bool,
    plan: Plan | None,
) -> list[Path]:
    """Write C99 with header, self-test and CMake file; returns the files."""
    robot, layout = problem.robot, problem.layout
    spec = CompiledEstimator.of(problem).spec(outputs, tuple(switchable))
    labels = {x: list(layout.labels) for x in ("y", "weight", "residual", "multiplier")}
    of_prior = problem.measured.prior_rows.equations
    beliefs = [(block.name, k) for block in of_prior for k in range(block.size)]
    for x in ("residual", "multiplier"):
        labels[x] += [f"{belief}[{k}]" for belief, k in beliefs]
    labels |= entry_names(robot)
    labels |= {f"std_{array}": words for array, words in labels.items()}
    program = estimator_program(spec, dtype, None if plan is None else plan.order)
    if plan is not None and dtype == "float64" and not switchable:
        require_cost(plan, outputs, program_operations(program))
    return export_c(
        folder,
        name,
        program,
        spec.signature,
        spec.admissible(5, 11),
        dtype=dtype,
        labels=of_arrays(labels, spec.signature),
        description=f"estimator of robot {robot.name} from {len(layout)} sensors",
        overwrite=overwrite,
    )


@final
class ReferenceEstimator(AbstractReference):
    """Estimates by the general path: pivoting, NaN where undetermined."""

    def __init__(self, problem: Estimation, outputs: EstimatorOutputs) -> None:
        unknown = {*outputs.outputs, *outputs.uncertainty} - set(ESTIMATES)
        if unknown:
            raise KernelBuildError(
                f"outputs {sorted(unknown)} are none of {', '.join(ESTIMATES)}"
            )
        self._problem = problem
        self._outputs = outputs
        self.signature = CompiledEstimator.of(problem).spec(outputs).signature

    def answers(self, *inputs: ArrayLike) -> tuple[Array, ...]:
        q, qd, y = inputs
        problem, robot = self._problem, self._problem.robot
        rows = problem.measured.pack(y, None, None)
        e = Estimate.of_one(
            problem, problem.posterior(robot.check_q(q), robot.check_v(qd, "qd"), rows)
        )
        values = [e.values[cast("Quantity", k)] for k in self._outputs.outputs]
        values += [e.std[cast("Quantity", k)] for k in self._outputs.uncertainty]
        return tuple(np.ravel(x.array) for x in values)
