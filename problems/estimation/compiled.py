"""The compiled estimator behind :class:`Estimation`: its kernels, its plan, its C source.

A kernel computes what is asked of it from q, qd and a complete set of readings, and NaN at a
state that leaves something open or needs pivoting: what is then asked instead is said in
:mod:`problems.estimation.answers`. The general path is here behind the interface of a kernel.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from dynsys.kernel.build import (
    KernelBackend,
    best_backend,
    cached_estimation_kernel,
    estimation_kernel,
    executing,
)
from dynsys.kernel.c.source import export_c
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.python_entry import FastCall
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import parameter_samples, varying_parameters
from dynsys.plan.estimator import estimator_program, ordered_estimator, planned_estimator
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.fingerprint import (
    Fingerprint,
    fingerprint_parts,
    fingerprint_problem,
    fingerprint_robot,
)
from dynsys.plan.methods import EliminationOrder
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.plan import Plan
from dynsys.plan.record import PARAMETERS
from dynsys.plan.search.search import Search
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.parts import kind_of
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray
from problems.estimation.estimate import (
    Both,
    Estimate,
    MeasuredStates,
    Uncertainty,
    quantities_of,
)
from problems.labels import entry_names, of_arrays, part_names
from problems.measured.measured_system import (
    QUANTITIES,
    MeasuredSystem,
    Quantity,
    joint_covariance,
)
from problems.measured.prior import Prior, PriorRows, prior_rows
from problems.problem import given_plan
from problems.reference import AbstractReference
from problems.verdict.verdict import judge
from sensors.layout import Layout

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = [
    "COMPILED_FROM",
    "CompiledEstimator",
    "EstimatorOutputs",
    "ReferenceEstimator",
    "Together",
    "check_cost",
    "check_plan",
    "export_estimator",
    "listed",
    "plan_estimation",
    "require_laws_only",
    "said_by_the_verdict",
]

Names: TypeAlias = tuple[str, ...]
AGREEMENT = ("residual", "multiplier")
FACTS = ("chi_square", "degrees_of_freedom", "p_value", "residual")
HANDFUL = 8
"""Late questions of one kind, deviations and residuals, that the general path answers before
their kernel is compiled; a kernel in the cache is used at once."""
COMPILED_FROM = 256
"""States of a batch from which compiling the estimator pays."""
BLOCK = 2048
"""States per thread handed to a kernel at a time: copies of their readings stay small."""


STD = "std."
"""Standard deviations, in names of outputs."""


@final
@dataclass(frozen=True)
class EstimatorOutputs:
    """What a kernel computes: outputs, and those whose standard deviations come after them."""

    outputs: Names
    uncertainty: Names = ()

    @staticmethod
    def of(outputs: str | Sequence[str], uncertainty: str | Sequence[str]) -> EstimatorOutputs:
        """From lists of names, or single names; ``std.NAME`` among the outputs is uncertainty.

        So that a kernel is asked for by the names of problem files and of ``dynsys solve``.
        """
        named = listed(outputs)
        values = tuple(name for name in named if not str(name).startswith(STD))
        stds = [name.removeprefix(STD) for name in named if str(name).startswith(STD)]
        return EstimatorOutputs(values, tuple(dict.fromkeys([*listed(uncertainty), *stds])))

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


@final
@dataclass(frozen=True, slots=True)
class Together:
    """Machine code f(q, qd, y, *values, *deviations) of quantities; None: there is none."""

    kinds: tuple[Quantity, ...]
    sizes: tuple[int, ...]
    call: FastCall | None

    def at(self, q: Array, qd: Array, y: Array) -> Both | None:
        """What it computes at a state; None where that is not finite: it needs pivoting."""
        assert self.call is not None
        kinds, sizes = self.kinds, self.sizes
        if kinds == ("torque",):  # the usual question, in the fewest steps
            torque, std = np.empty(sizes[0]), np.empty(sizes[0])
            finite = self.call(q, qd, y, torque, std)
            return ({"torque": torque}, {"torque": std}) if finite else None
        found = [np.empty(size) for size in sizes]
        if not self.call(q, qd, y, *found):
            return None
        both: Both = {}, {}
        for k, x in enumerate(found):
            kind = kinds[k % len(kinds)]
            flat = kind in ("torque", "qdd")
            both[k // len(kinds)][kind] = x if flat else x.reshape(-1, 6)
        return both


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


def _refuse_open(measured: MeasuredSystem, outputs: EstimatorOutputs) -> None:
    """NoOrderError where readings leave something open at every state.

    Elimination without pivoting would divide by what rounding leaves of a pivot there, and may
    find that large enough. So it may where all that is asked for is determined, by unknowns
    that are not: their rounding, divided by it, does not cancel.
    """
    asked = set(map(kind_of, (*outputs.outputs, *outputs.uncertainty)))
    wanted = sorted(asked & measured.open_quantities or measured.open_quantities)
    if wanted:
        names = ", ".join(wanted).replace("_", " ")
        raise NoOrderError(
            f"robot {measured.robot.name!r}: readings leave something open of: {names}"
        )


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
    system: MeasuredSystem | None = None
    backend: KernelBackend = "auto"

    @staticmethod
    def of(problem: Estimation) -> CompiledEstimator:
        """The kernels of an estimation."""
        prior, plan = problem.measured.prior, problem.executes
        backend = executing(problem.backend)
        return CompiledEstimator(
            problem.robot, problem.layout, prior, plan, problem.measured, backend
        )

    @property
    def method(self) -> str:
        """What executes its kernels: ``llvm`` or ``numpy``."""
        return best_backend() if self.backend == "auto" else self.backend

    @cached_property
    def _measured(self) -> MeasuredSystem:
        return self.system or MeasuredSystem(self.robot, self.layout, self.prior)

    def __reduce__(self) -> tuple[type[CompiledEstimator], tuple[object, ...]]:
        """Travels as what it was made from; kernels come from the cache there."""
        given = (self.robot, self.layout, self.prior, self.plan, None, self.backend)
        return CompiledEstimator, given

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
        """What the kernel of the same arguments answers.

        Raises
        ------
        KernelBuildError
            if what is asked for is open at every state.
        """
        _refuse_open(self._measured, outputs)
        return self.question(outputs, switchable)

    def question(self, outputs: EstimatorOutputs, switchable: Names = ()) -> EstimatorSpec:
        """The same, whoever answers it; LayoutError where what may be missing must not be."""
        resting = self.layout.resting
        self.layout.require_sides([resting[name] for name in switchable if name in resting])
        return EstimatorSpec(
            self.robot,
            self._equations,
            joint_covariance(self.layout, self._beliefs),
            outputs.outputs,
            outputs.uncertainty,
            switchable,
            len(self._beliefs.mean),
            state_std=self._state_std if outputs.uncertainty else (),
        )

    @cached_property
    def _state_std(self) -> tuple[float, ...]:
        """Noise of q and qd (2 nv,) that deviations count; empty if the layout has none."""
        layout = self.layout
        std = np.concatenate([layout.position_std, layout.velocity_std])
        return tuple(std.tolist()) if layout.has_encoder_noise else ()

    def kernel(
        self, outputs: EstimatorOutputs, switchable: Names = (), dtype: str = "float64"
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
            spec = self.spec(outputs, switchable)
            return estimation_kernel(spec, dtype=dtype, order=order, backend=self.backend)
        key = outputs, switchable
        if key not in self._found:
            try:
                spec = self.spec(outputs, switchable)
                kernel = estimation_kernel(spec, order=order, backend=self.backend)
                if plan is not None and not switchable:
                    require_cost(plan, outputs, kernel.operations)
                self._found[key] = kernel
            except KernelBuildError as error:
                self._found[key] = type(error), str(error)
        found = self._found[key]
        if isinstance(found, tuple):
            raise found[0](found[1])
        return found

    def kernel_of_parameters(
        self, outputs: EstimatorOutputs, switchable: Names, dtype: str, names: Sequence[str]
    ) -> Kernel:
        """The same with parameters of the robot as the last input."""
        spec = self.spec_of_parameters(outputs, switchable, names)
        order = None if self.plan is None else self.plan.order
        return estimation_kernel(spec, dtype=dtype, order=order, backend=self.backend)

    def spec_of_parameters(
        self, outputs: EstimatorOutputs, switchable: Names, names: Sequence[str]
    ) -> EstimatorSpec:
        """What such a kernel answers; KernelBuildError names a sensor that weighs bodies.

        What a sensor reads may depend on parameters only through the laws of motion.
        """
        require_laws_only(self.robot, self.layout, names)
        return replace(self.spec(outputs, switchable), parameters=tuple(names))

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
                    found = cached_estimation_kernel(self.spec(outputs), order, self.backend)
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
    def _together(self) -> dict[str | tuple[str, ...], Together]:
        return {}

    def together(self, wanted: Uncertainty) -> Together:
        """Machine code of quantities and their standard deviations, as a caller names them.

        Deviations that count noise of q and qd take long to compile: their code is used where
        it is in the cache, or a batch or ``compile`` has made it.
        """
        key = wanted if isinstance(wanted, str) else tuple(wanted or ())
        found = self._together.get(key)
        if found is None:
            kinds = quantities_of(wanted, "uncertainty")
            sizes = tuple(int(np.prod(self.shapes[kind])) for kind in kinds) * 2
            outputs, noisy = EstimatorOutputs(kinds, kinds), self.layout.has_encoder_noise
            call = (self._kept(outputs) if noisy else self.call(outputs)) if kinds else None
            found = Together(kinds, sizes, call)
            if call is not None or not noisy:
                self._together[key] = found
        return found

    def _kept(self, outputs: EstimatorOutputs) -> FastCall | None:
        """Machine code of one state that is there already, in this process or the cache."""
        if (outputs, ()) not in self._found and not self._asked[outputs.key]:
            return self.call(outputs, patient=True)
        found = self._found.get((outputs, ()))
        return found.fast if isinstance(found, Kernel) else None

    # ---- many states ---------------------------------------------------------------------

    def there(self, outputs: EstimatorOutputs) -> Kernel | None:
        """Kernel of these outputs if it has been compiled; compiles none."""
        found = self._found.get((outputs, ()))
        return found if isinstance(found, Kernel) else None

    def solve(
        self,
        states: MeasuredStates,
        outputs: EstimatorOutputs,
        complete: BoolArray,
        threads: int,
    ) -> dict[str, Array]:
        """Arrays (N, size) by name; rows are NaN where there is no answer or a reading missing.

        ``complete`` (N,) says of which states no reading is.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        kernel, inputs = self.kernel(outputs), (states.q, states.qd, states.y)
        if complete.all():
            return dict(zip(outputs.names, _run(kernel, inputs, threads), strict=True))
        sizes = [size for _, size in kernel.signature.outputs]
        out = [np.full((len(complete), size), np.nan) for size in sizes]
        _scatter(out, kernel, complete, inputs, threads)
        return dict(zip(outputs.names, out, strict=True))


def require_laws_only(robot: KinematicTree, layout: Layout, names: Sequence[str]) -> None:
    """KernelBuildError names a sensor whose rows depend on these parameters by themselves."""
    varying_parameters(robot, names)
    values = parameter_samples(robot, names, 1, 0)[0]
    other = robot.with_parameters(dict(zip(names, values, strict=True)), physical=False)
    rng = np.random.default_rng(0)
    q, qd = robot.random_configuration(rng, limited=False), rng.normal(size=robot.nv)
    for sensor in layout.sensors:
        rows = []
        for tree in (robot, other):
            kin = Kinematics.at(tree, q, qd)
            blocks = sensor.blocks(UnknownLayout(tree, net_wrench=True))
            parts = [np.ravel(t.entries(kin)) for b in blocks for t in b.terms]
            rows.append(np.concatenate([*parts, *(b.bias_at(kin) for b in blocks)]))
        if rows[0].shape != rows[1].shape or not np.array_equal(rows[0], rows[1]):
            raise KernelBuildError(
                f"sensor {sensor.name!r} depends on masses or friction itself, which then"
                " cannot be variables; leave it or the parameters out"
            )


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


# ---- plan, C source, reference path --------------------------------------------------------

PROBLEM = "Estimation"


def _fingerprints(problem: Estimation) -> tuple[Fingerprint, Fingerprint]:
    """Of the equations, and of the sensors with their noise and what is believed."""
    layout, beliefs = problem.layout.fingerprints(), problem.measured.prior_rows
    if beliefs.equations:
        names = [equation.name for equation in beliefs.equations]
        prior = fingerprint_parts("prior", {"prior": [names, beliefs.mean, beliefs.std]})
        layout = replace(layout, parts={**layout.parts, **prior.parts})
    return fingerprint_problem(PROBLEM, problem.system), layout


def plan_estimation(
    problem: Estimation,
    outputs: EstimatorOutputs,
    search: Search | None = None,
    order: EliminationOrder | None = None,
) -> Plan:
    """Cheapest order found, or the one given, and what it costs; the option ``constructive`` is
    what the one does that is found without a search.
    """
    spec = CompiledEstimator.of(problem).spec(outputs)
    found = constructive = planned_estimator(spec)
    if order is not None:
        found = ordered_estimator(spec, order)
    elif search is not None and not search.is_off:
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
            "outputs": shlex.join(outputs.names),
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
    if _planned_outputs(plan) == outputs and executed != plan.operations:
        raise PlanMismatchError(
            f"the plan states {plan.operations}, its order executes {executed}: it was changed,"
            " or another version made it; make a new plan"
        )


def check_cost(problem: Estimation, plan: Plan) -> None:
    """Raise PlanMismatchError unless its order costs what the plan states, for its outputs.

    Whoever asks for other outputs executes the same order at another cost: its own outputs are
    recorded once, not compiled.
    """
    outputs = _planned_outputs(plan)
    spec = CompiledEstimator.of(problem).spec(outputs)
    program = estimator_program(spec, "float64", plan.order)
    require_cost(plan, outputs, program_operations(program))


def _planned_outputs(plan: Plan) -> EstimatorOutputs:
    """Outputs whose cost a plan states; names that hold blanks stand in quotes."""
    text = str(plan.options.get("outputs", ""))
    try:
        names = shlex.split(text)
    except ValueError as error:
        raise PlanMismatchError(
            f"the plan states its cost for the outputs {text!r}, which are no names ({error});"
            " make a new plan"
        ) from None
    stds = [name.removeprefix("std_") for name in names if name.startswith("std_")]
    return EstimatorOutputs.of([name for name in names if not name.startswith("std_")], stds)


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
    parameters: Sequence[str] = (),
) -> list[Path]:
    """Write C99 with header, self-test and CMake file; returns the files."""
    robot, layout = problem.robot, problem.layout
    compiled = CompiledEstimator.of(problem)
    spec = compiled.spec(outputs, tuple(switchable))
    if len(parameters):
        spec = compiled.spec_of_parameters(outputs, tuple(switchable), parameters)
    labels = {x: list(layout.labels) for x in ("y", "weight", "residual", "multiplier")}
    of_prior = problem.measured.prior_rows.equations
    beliefs = [(block.name, k) for block in of_prior for k in range(block.size)]
    for x in ("residual", "multiplier"):
        labels[x] += [f"{belief}[{k}]" for belief, k in beliefs]
    labels |= entry_names(robot) | {PARAMETERS: list(parameters)}
    labels |= part_names(robot, (*outputs.outputs, *outputs.uncertainty))
    labels |= {f"std_{array}": words for array, words in labels.items()}
    program = estimator_program(spec, dtype, None if plan is None else plan.order)
    if plan is not None and dtype == "float64" and not switchable and not len(parameters):
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
        asked = set(map(kind_of, (*outputs.outputs, *outputs.uncertainty)))
        unknown = asked - set(ESTIMATES)
        if unknown:
            raise KernelBuildError(
                f"outputs {sorted(unknown)} are none of {', '.join(ESTIMATES)}"
            )
        self._problem = problem
        self._outputs = outputs
        self.signature = CompiledEstimator.of(problem).question(outputs).signature

    def answers(self, *inputs: ArrayLike) -> tuple[Array, ...]:
        q, qd, y = inputs
        problem, robot = self._problem, self._problem.robot
        rows = problem.measured.pack(y, None, None)
        e = Estimate.of_one(
            problem, problem.noisy_posterior(robot.check_q(q), robot.check_v(qd, "qd"), rows)
        )
        answers = [(e.values, name) for name in self._outputs.outputs]
        answers += [(e.std, name) for name in self._outputs.uncertainty]
        found = []
        for of_all, name in answers:
            kind, _, part = name.partition(".")
            quantity = of_all[cast("Quantity", kind)]
            found.append(np.ravel(quantity[part] if part else quantity.array))
        return tuple(found)
