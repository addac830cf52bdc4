"""What problems share: a robot, its linear system, the way from a state to a solution.

A problem of dynamics goes from its linear system to numbers in four steps:

    system   laws of motion and known quantities, as many equations as unknowns
    plan     the order of elimination, its exact operations, why its pivots are safe
    compile  a kernel: the executed plan as machine code or by NumPy, loops, or SuperLU
    solve    states through the kernel; what it cannot answer is solved by pivoting or named
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from dynsys.errors import KernelBuildError, PlanMismatchError, SingularSystemError
from dynsys.kernel.build import KernelBackend, dynamics_kernel, executing
from dynsys.kernel.c.source import export_c
from dynsys.kernel.calls import AbstractCompiledKernel, AbstractKernel
from dynsys.loops import LoopKernel, prefer_loops
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import varying_parameters
from dynsys.plan.fingerprint import Fingerprint, fingerprint_problem, fingerprint_robot
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.pivots import pivot_safety, symmetric_pivots
from dynsys.plan.plan import Plan
from dynsys.plan.products import PRODUCTS
from dynsys.plan.record import (
    CONSTRAINT_WRENCH,
    DYNAMICS_OUTPUTS,
    PARAMETERS,
    DynamicsSpec,
    dynamics_program,
    guarded_dynamics,
)
from dynsys.plan.step_order import require_executable
from dynsys.plan.symmetric import SymmetricStep, symmetric_steps
from dynsys.program.program import Program
from dynsys.recursive.inputs import state_rows, wrench_rows
from dynsys.recursive.kinematics import WrenchInput, external_wrenches
from dynsys.system.laws import known_inputs
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, ArrayLike, BoolArray
from problems.constrained import ConstrainedDynamics, DenseConstrained, Gains
from problems.derivatives import DifferentiatedDynamics
from problems.inputs import apart_from
from problems.labels import constraint_labels, entry_names, of_arrays
from problems.products import ProductsOfDynamics
from problems.reference import ReferenceKernel, residuals
from problems.solution import Details, Solution, State
from problems.trust import Trust, error_bounds
from problems.warm import WarmMemory

__all__ = ["AbstractDynamics", "AbstractProblem", "Backend", "given_plan"]

Backend: TypeAlias = Literal["auto", "llvm", "numpy", "loops", "reference"]


def given_plan(plan: Plan) -> Plan:
    """Return the plan; KernelBuildError if it is something else, such as its file's name."""
    if not isinstance(plan, Plan):
        raise KernelBuildError(f"plan must be a Plan, got {plan!r}; Plan.load reads its file")
    return plan


class AbstractProblem(ABC):
    """A question about a robot that a linear system D(q) d + b(q, qd) = 0 answers."""

    robot: KinematicTree

    def __reduce__(self) -> tuple[type[AbstractProblem], tuple[object, ...]]:
        """A problem travels as what it was made from; kernels come from the cache there."""
        entries: Any = self
        return type(self), tuple(getattr(self, entry.name) for entry in fields(entries))

    @property
    @abstractmethod
    def system(self) -> LinearSystem:
        """The laws of the robot and the equations that make the question definite."""


class AbstractDynamics(
    AbstractProblem, ConstrainedDynamics, DifferentiatedDynamics, ProductsOfDynamics
):
    """Dynamics with every external wrench known and, per joint, its acceleration or torque.

    ``constraints`` hold the robot, if there are any (:mod:`problems.constrained`).
    """

    backend: Backend
    given: ClassVar[str]
    """Name of the third argument of ``solve``: what is known of the joints."""
    answers: ClassVar[tuple[UnknownKind, ...]]
    """What the kernel computes by default: ``torque``, ``qdd`` or both."""

    @property
    @abstractmethod
    def accelerated_joints(self) -> Set[int]:
        """Numbers of the joints whose acceleration is known; torque is known of the others."""

    @cached_property
    def system(self) -> LinearSystem:
        """Laws plus known quantities: as many equations as unknowns ([NORI] eq. 9 and 15)."""
        laws = LinearSystem(self.robot, constraints=self.constraints)
        return laws.with_equations(known_inputs(laws.unknowns, self.accelerated_joints))

    @cached_property
    def known(self) -> BoolArray:
        """Freedoms (nv,) whose acceleration is known."""
        known = np.zeros(self.robot.nv, dtype=bool)
        for joint in self.accelerated_joints:
            known[self.robot.v_slices()[joint]] = True
        return known

    # ---- kernels -------------------------------------------------------------------------

    @cached_property
    def program(self) -> Program:
        """Operations of a solve, recorded once for the plan and the kernel."""
        return guarded_dynamics(self._spec(self.outputs))

    def _spec(
        self,
        outputs: tuple[str, ...],
        wrenches: bool = False,
        steps: Sequence[SymmetricStep] | None = None,
        parameters: Sequence[str] = (),
        steered: bool = False,
    ) -> DynamicsSpec:
        varying_parameters(self.robot, parameters)
        if steered:
            self._require_constraints()
        asked = (outputs, wrenches, steps, tuple(parameters), self.held, steered)
        return DynamicsSpec(self.robot, self.known, self.given, *asked)

    def plan(
        self,
        search_seconds: float = 0.0,
        workers: int = 1,
        seed: int = 0,
        *,
        steps: Sequence[SymmetricStep] | None = None,
    ) -> Plan:
        """Order of elimination with its exact operation count and the safety of its pivots.

        The laws with known wrenches and, per joint, a known qdd or torque are eliminated in
        symmetric pairs, leaves first: no other order needs fewer divisions, and every pivot is
        a joint inertia; rows of constraints come last (:mod:`dynsys.plan.held.multipliers`).
        There is nothing to search; the arguments are those of problems whose sensors leave more
        open.
        ``steps`` prices an order of your own (see :mod:`dynsys.plan.step_order`).
        """
        robot, program = self.robot, self.program
        if steps is None:
            steps = self._usual_steps
        else:
            self._require_executable(steps := tuple(steps))
            program = guarded_dynamics(self._spec(self.outputs, steps=steps))
        usual = steps == self._usual_steps
        pivots = symmetric_pivots(robot, self.known, steps)
        if self.held is not None:
            pivots = (*pivots, *self.held.pivots(steps))
        return Plan(
            method="symmetric",
            robot=fingerprint_robot(robot),
            problem=self._fingerprint,
            operations=program_operations(program),
            pivots=pivots,
            steps=steps,
            options={"frames": "re-chosen", "masses": "regrouped where accuracy allows"},
            ordering=f"symmetric pairs, {'leaf to root' if usual else 'as given'}",
        )

    @cached_property
    def _usual_steps(self) -> tuple[SymmetricStep, ...]:
        """Leaf to root, then the rows of constraints."""
        rows = () if self.held is None else self.held.steps
        return (*symmetric_steps(self.robot, self.known), *rows)

    def _require_executable(self, steps: Sequence[SymmetricStep]) -> None:
        """Raise PlanMismatchError unless the steps can be executed."""
        tree = steps if self.held is None else self.held.split(steps)[0]
        require_executable(self.robot, self.known, tree)

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        return fingerprint_problem(type(self).__name__, self.system)

    def compile(
        self,
        plan: Plan | None = None,
        *,
        backend: Backend | None = None,
        dtype: str = "float64",
        outputs: Sequence[str] | None = None,
        wrenches: bool = False,
        parameters: Sequence[str] = (),
        steered: bool = False,
    ) -> AbstractKernel:
        """Kernel for this robot and problem, from the cache if it has been compiled before.

        Parameters
        ----------
        plan : a plan made for this robot and problem; its steps are executed as they stand
            (``llvm`` and ``numpy`` only). By default those of :meth:`plan`.
        backend : ``llvm`` machine code specialised to the robot; ``numpy`` the same operations
            one by one, as Python and NumPy do them; ``loops`` compiled loops for any robot,
            better above some hundred bodies; ``reference`` SuperLU on the assembled D; ``auto``
            (default) ``llvm`` (``numpy`` where the extra ``fast`` is not installed) or
            ``loops`` by size, the last where H is singular at every state (it then names the
            joints that move no inertia).
        dtype : ``float64``, or ``float32`` (``llvm`` and ``numpy`` only).
        outputs : any of ``torque``, ``qdd``, ``acceleration``, ``joint_wrench``; the last two
            are (6 n_bodies,) in body coordinates. Default: what the problem asks for. And
            derivatives (where plans are executed), row by row: ``dtorque_dq``, ``dtorque_dqd``,
            ``dtorque_dqdd`` of inverse, ``dqdd_dq`` and so on of forward, ``dunknown_dq`` and
            so on of hybrid dynamics (:mod:`dynsys.plan.derivatives`), where they are inputs
            also by ``f_ext`` and ``parameters``; ``derivatives``: the first three in a row.
            And products with them, ``jvp``, ``vjp``, ``hvp`` (:mod:`problems.products`), whose
            ``weight`` (nv,) and ``direction`` (of all variables) are the last inputs.
        wrenches : True makes external wrenches (6 n_bodies,) a further input.
        parameters : names of parameters of the robot (``robot.parameters``) whose values, in
            this order, are a further input, so that a payload changes without recompiling;
            where plans are executed. The kernel answers as that of ``robot.with_parameters``.
        steered : True makes gains (stiffness and damping of each constraint) and target
            accelerations of their rows further inputs, behind the external wrenches.

        Returns
        -------
        kernel with ``kernel.one(q, qd, given, [f_ext], [gains, target], [parameters], [weight],
        [direction], out=None)`` and ``kernel.batch(...)``. Where constraints hold,
        ``constraint_wrench`` is an output by default, and derivatives are none.
        """
        steps = None if plan is None else self._steps(plan)
        names = self._output_names(outputs, wrenches, parameters)
        backend = backend or self.backend
        if steered:
            self._require_constraints()
        if self.held is not None:
            return self._compiled_held(names, wrenches, steps, parameters, steered, dtype, plan,
                                       backend)  # fmt: skip
        if len(parameters) or not set(names) <= set(DYNAMICS_OUTPUTS):
            executes = _executing(backend, "has no parameters as inputs and no derivatives")
            spec = self._spec(names, wrenches, steps, parameters)
            return dynamics_kernel(spec, dtype=dtype, backend=executes)
        if plan is not None:
            backend = _executing(backend, "executes no plan")
        chosen = self._chosen(backend, dtype, loops=plan is None)
        if chosen == "loops":
            return LoopKernel(self.robot, self.known, self.given, names, wrenches=wrenches)
        if chosen != "reference":
            is_planned = (names, wrenches, dtype) == (self.answers, False, "float64")
            program = (lambda: self.program) if is_planned and steps is None else None
            try:
                spec = self._spec(names, wrenches, steps)
                kernel = dynamics_kernel(spec, dtype=dtype, program=program, backend=chosen)
            except SingularSystemError:
                if backend != "auto":
                    raise
            else:
                if plan is not None and is_planned:
                    self._require_counted(plan, kernel.operations)
                return kernel
        return ReferenceKernel(self.system, self.given, names, wrenches=wrenches)

    def _steps(self, plan: Plan) -> tuple[SymmetricStep, ...] | None:
        """Steps of a plan for this problem; None for the usual ones, whose kernels are shared.

        PlanMismatchError if the plan is for something else, or cannot be executed.
        """
        given_plan(plan).check(self.robot, self._fingerprint)
        self._require_executable(plan.steps)
        return None if plan.steps == self._usual_steps else plan.steps

    def _output_names(
        self, outputs: Sequence[str] | None, wrenches: bool, parameters: Sequence[str]
    ) -> tuple[str, ...]:
        names = tuple(self.outputs if outputs is None else outputs)
        derived = self._spec((), wrenches, None, parameters).derivatives
        known = (*DYNAMICS_OUTPUTS, *derived, *PRODUCTS)
        if self.constraints:
            known = (*DYNAMICS_OUTPUTS, CONSTRAINT_WRENCH)
        if isinstance(outputs, str) or not set(names) <= set(known) or not names:
            raise KernelBuildError(
                f"outputs must list some of {', '.join(known)}, got {outputs!r}"
            )
        return names

    def _chosen(
        self, backend: Backend, dtype: str, loops: bool = True
    ) -> KernelBackend | Literal["loops", "reference"]:
        """Backend, ``auto`` for what executes plans; KernelBuildError if it has no such.

        ``loops`` may answer where nobody asks for one.
        """
        if backend not in get_args(Backend):
            known = ", ".join(get_args(Backend)[1:])
            raise KernelBuildError(f"there is no backend {backend!r}: {known}")
        plain = loops and dtype == "float64"
        if backend == "auto" and plain and prefer_loops(self.robot):
            return "loops"
        single = dtype == "float32" and backend not in ("loops", "reference")
        if dtype != "float64" and not single:
            raise KernelBuildError(f"backend {backend!r} has no kernels of dtype {dtype!r}")
        return backend

    @property
    def _executes(self) -> KernelBackend:
        """What executes plans for this problem, also where its backend does not."""
        return executing(self.backend)

    def export_c(
        self,
        folder: str | Path,
        plan: Plan | None = None,
        *,
        name: str | None = None,
        outputs: Sequence[str] | None = None,
        wrenches: bool = False,
        dtype: Literal["float64", "float32"] = "float64",
        overwrite: bool = False,
        parameters: Sequence[str] = (),
        steered: bool = False,
    ) -> list[Path]:
        """Write this problem as dependency-free C99 with header, self-test and CMake file.

        ``plan`` is executed, ``parameters`` and what is ``steered`` are inputs as in
        :meth:`compile`; ``name`` is that of the C function (default: the problem's). Where
        constraints lose a rank the C function answers NaN. Returns the files written.

        Raises
        ------
        SingularSystemError
            if some joint moves no inertia at any state, naming it.
        """
        robot, kind = self.robot, type(self).__name__
        names = self._output_names(outputs, wrenches, parameters)
        pivot_safety(robot, self.known)  # names a joint that moves no inertia
        steps = None if plan is None else self._steps(plan)
        spec = self._spec(names, wrenches, steps, parameters, steered)
        if plan is not None:
            usual = self.program if steps is None else None
            executed = usual or guarded_dynamics(self._spec(self.outputs, steps=steps))
            self._require_counted(plan, program_operations(executed))
        labels = entry_names(robot) | {PARAMETERS: list(parameters)}
        labels |= dict.fromkeys((self.given, "weight", "jvp"), labels["qd"])
        labels |= {} if self.held is None else constraint_labels(self.held.constraints)
        tangent = labels | {"q": labels["qd"]}
        every = [f"{name} of {x}" for name in spec.variables for x in tangent[name]]
        labels |= dict.fromkeys(("direction", "vjp", "hvp"), every)
        program = dynamics_program(spec)
        if self.held is not None:  # ranks may be lost: C answers NaN there too
            program = guarded_dynamics(spec, dtype)
        return export_c(
            folder,
            name or kind.lower(),
            program,
            spec.signature,
            spec.admissible(5, 11),
            dtype=dtype,
            labels=of_arrays(labels, spec.signature),
            description=f"{kind} of robot {robot.name}",
            overwrite=overwrite,
        )

    def _packed_held_kernel(self) -> AbstractKernel:
        """Kernel of one state where constraints hold, inputs and outputs in one array."""
        spec = self._spec(self.outputs)
        return dynamics_kernel(
            spec, program=lambda: self.program, packed=True, backend=self._executes
        )

    def _compiled_held(
        self,
        names: tuple[str, ...],
        wrenches: bool,
        steps: tuple[SymmetricStep, ...] | None,
        parameters: Sequence[str],
        steered: bool,
        dtype: str,
        plan: Plan | None,
        backend: Backend,
    ) -> AbstractKernel:
        """Kernel where constraints hold: machine code, or dense algebra."""
        spec = self._spec(names, wrenches, steps, parameters, steered)
        if backend == "reference" and not parameters:
            if plan is not None:
                _executing(backend, "executes no plan")
            return DenseConstrained(spec)
        executes = _executing(backend, "has no such kernels where constraints hold")
        asked = (names, wrenches, bool(parameters), steered, dtype)
        is_planned = asked == (self.outputs, False, False, False, "float64")
        program = (lambda: self.program) if is_planned and steps is None else None
        kernel = dynamics_kernel(spec, dtype=dtype, program=program, backend=executes)
        if plan is not None and is_planned:
            self._require_counted(plan, kernel.operations)
        return kernel

    @staticmethod
    def _require_counted(plan: Plan, executed: Operations | None) -> None:
        if executed != plan.operations:
            raise PlanMismatchError(
                f"the plan states {plan.operations}, its steps execute {executed}: it was"
                " changed, or another version made it; make a new plan"
            )

    @cached_property
    def _kernel(self) -> AbstractKernel:
        return self.compile()

    @cached_property
    def _kernel_with_wrenches(self) -> AbstractKernel:
        return self.compile(wrenches=True)

    @cached_property
    def _fast(self) -> tuple[Any, int, str | None]:
        """Machine code f(q, qd, given, *answers), length of an answer, its name if it has one.

        f returns True if it is done; anything else asks for the careful way.
        """
        single = self.answers[0] if len(self.answers) == 1 else None
        return self._kernel.fast, self.robot.nv, single

    @cached_property
    def _fast_rows(self) -> tuple[Any, int, str | None, WarmMemory, WarmMemory]:
        """The like for batches, rows((q, qd, given, *answers), N, threads), and memory."""
        kernel = self._kernel
        rows = kernel.run_rows if isinstance(kernel, AbstractCompiledKernel) else kernel.fast
        return rows, *self._fast[1:], WarmMemory(), WarmMemory()

    # ---- solving -------------------------------------------------------------------------

    @abstractmethod
    def solve(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        /,
        f_ext: WrenchInput = None,
        *,
        out: Any = None,
        gains: Gains = None,
        target: ArrayLike | None = None,
    ) -> Solution:
        """Torques, accelerations and wrenches at one state; compiles on first use.

        Parameters
        ----------
        q, qd : position (nq,), velocity (nv,).
        qdd, torque or known : (nv,) what is known of the joints: their acceleration in inverse,
            their torque in forward dynamics. In hybrid dynamics each freedom's acceleration if
            its joint is one of ``known_acceleration``, else its torque.
        f_ext : external wrenches: (n_bodies, 6) in body coordinates, or a mapping from body or
            frame names to wrenches (6,), each in the coordinates of what names it.
        out : where to write what is found: torque (nv,) in inverse, qdd (nv,) in forward
            dynamics, the tuple of both in hybrid dynamics; where constraints hold, a tuple
            that ends with their forces (rows,).
        gains : stiffness (1/s^2) and damping (1/s) that pull constraints together where they
            are open or move (Baumgarte), for all or by name; by default none.
        target : acceleration (rows,) that the rows of the constraints are to have, else zero.

        Raises
        ------
        StateError
            if a vector has a wrong length or a value that is not finite.
        SingularSystemError
            naming the joints whose acceleration is not determined.

        Examples
        --------
        >>> import dynsys, problems
        >>> robot = dynsys.synthetic.chain(3)
        >>> q, qd, qdd = [1, 2, 3], [0, 0, 0], [4, 5, 6]
        >>> torque = problems.InverseDynamics(robot).solve(q, qd, qdd).torque
        >>> problems.ForwardDynamics(robot).solve(q, qd, torque).qdd.round(9).tolist()
        [4.0, 5.0, 6.0]
        """

    @abstractmethod
    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        /,
        f_ext: WrenchInput = None,
        *,
        threads: int = 1,
        out: Any = None,
        gains: Gains = None,
        target: ArrayLike | None = None,
    ) -> Solution:
        """Solve N states: q (N, nq), the others (N, nv); answers have a leading axis N.

        ``f_ext`` is as in :meth:`solve` for all states, or has a leading axis N itself. Rows
        are shared among ``threads``. The solution is about the states of this call, whatever
        happens to the arrays later; memory of solutions that are gone is used again.
        """

    def _solve(
        self,
        q: Any,
        qd: Any,
        given: Any,
        f_ext: WrenchInput,
        out: Any = None,
    ) -> Solution:
        """One call of machine code if it can use the arrays as they are, else the careful way.

        Bytes are the cheapest copy of an array; the solution makes numbers of them when asked.
        """
        if f_ext is None:
            fast, nv, single = self._fast
            if single is None:
                torque, qdd = (np.empty(nv), np.empty(nv)) if out is None else out
                if fast(q, qd, given, torque, qdd):
                    return Solution(self, torque, qdd, q.tobytes(), qd.tobytes())
            else:
                answer = np.empty(nv) if out is None else out
                if fast(q, qd, given, answer):
                    known, q, qd = given.tobytes(), q.tobytes(), qd.tobytes()
                    if single == "torque":
                        return Solution(self, answer, known, q, qd)
                    return Solution(self, known, answer, q, qd)
        return self._solve_carefully(q, qd, given, f_ext, self._targets(out))

    def _targets(self, out: Any) -> Sequence[Array] | None:
        """Return ``out`` as kernels take it: one array per answer."""
        return (out,) if out is not None and len(self.answers) == 1 else out

    def _solve_carefully(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        f_ext: WrenchInput,
        out: Sequence[Array] | None,
    ) -> Solution:
        """Solve one state with all checks."""
        robot = self.robot
        state = [robot.check_q(q), robot.check_v(qd, "qd"), robot.check_v(given, self.given)]
        state = apart_from(state, out)
        wrenches = external_wrenches(robot, f_ext)
        kernel = self._kernel if wrenches is None else self._kernel_with_wrenches
        answers, finite = kernel.one(*_inputs(state, wrenches), out=out)
        if not finite:
            answers = self._by_reference(state, wrenches, out)
        return self._solution(state, wrenches, answers, fallback=not finite)

    def _solve_batch(
        self,
        q: Any,
        qd: Any,
        given: Any,
        f_ext: WrenchInput,
        threads: int,
        out: Any,
        gains: Gains = None,
        target: Any = None,
    ) -> Solution:
        """Rows through machine code if it can use the arrays as they are, else the careful way.

        What is given is copied: late questions are about the states of this call, whatever the
        caller does with the arrays.
        """
        if self.constraints or gains is not None or target is not None:
            return self._solve_batch_held(q, qd, given, f_ext, threads, out, gains, target)
        if f_ext is None and out is None and type(q) is np.ndarray and q.ndim == 2:
            rows, nv, single, answers, inputs = self._fast_rows
            n = len(q)
            if single is None:
                torque, qdd = answers.empty((n, nv)), answers.empty((n, nv))
                if rows((q, qd, given, torque, qdd), n, threads):
                    q, qd = inputs.copies((q, qd))
                    return Solution(self, torque, qdd, q, qd)
            else:
                answer = answers.empty((n, nv))
                if rows((q, qd, given, answer), n, threads):
                    q, qd, known = inputs.copies((q, qd, given))
                    if single == "torque":
                        return Solution(self, answer, known, q, qd)
                    return Solution(self, known, answer, q, qd)
        return self._solve_batch_carefully(q, qd, given, f_ext, threads, self._targets(out))

    def _solve_batch_carefully(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        f_ext: WrenchInput,
        threads: int,
        out: Sequence[Array] | None,
    ) -> Solution:
        """Solve N states; a state the kernel cannot answer is named or solved by pivoting."""
        states = state_rows(self.robot, (("q", q), ("qd", qd), (self.given, given)))
        states = apart_from(states, out)
        wrenches = wrench_rows(self.robot, f_ext, len(states[0]))
        kernel = self._kernel if wrenches is None else self._kernel_with_wrenches
        answers, finite = kernel.batch(*_inputs(states, wrenches), out=out, threads=threads)
        if not finite:
            bad = ~np.all([np.isfinite(answer).all(axis=1) for answer in answers], axis=0)
            for k in np.flatnonzero(bad):
                row, one = [x[k] for x in states], None if wrenches is None else wrenches[k]
                self._by_reference(row, one, [answer[k] for answer in answers], f"state {k}: ")
        return self._solution(states, wrenches, answers, fallback=not finite)

    def _by_reference(
        self,
        state: Sequence[Array],
        wrenches: Array | None,
        out: Sequence[Array] | None,
        where: str = "",
    ) -> tuple[Array, ...]:
        """Pivoting solve of one state, or the error that says what is wrong with it."""
        acting = wrenches is not None
        kernel = ReferenceKernel(self.system, self.given, self.answers, wrenches=acting)
        return kernel.one(*_inputs(state, wrenches), out=out, where=where)[0]

    def _solution(
        self,
        state: Sequence[Array],
        wrenches: Array | None,
        answers: Sequence[Array],
        fallback: bool,
    ) -> Solution:
        q, qd, given = (x.copy() for x in state)
        acting = None if wrenches is None else wrenches.copy()
        found = dict(zip(self.answers, answers, strict=True))
        torque, qdd = (found.get(name, given) for name in ("torque", "qdd"))
        return Solution(self, torque, qdd, q, qd, acting, fallback)

    def trust(self, state: State, torque: Array, qdd: Array) -> Trust:
        """Bounds on the errors of any torque and qdd, whatever computed them.

        KernelBuildError where constraints hold: there look at ``solution.residual``.

        Parameters
        ----------
        state : q (nq,), qd (nv,), external wrenches (n_bodies, 6) or None; N states have a
            leading axis N, as have torque and qdd.
        """
        if self.constraints:
            raise KernelBuildError(
                "there are no bounds where constraints hold; look at solution.residual"
            )
        answers = np.asarray(torque, np.float64), np.asarray(qdd, np.float64)
        return error_bounds(self.robot, self.known, state, *answers)

    def details(
        self, state: State, torque: Array, qdd: Array, forces: Array | None = None
    ) -> Details:
        """Body quantities and residual that belong to torque and qdd, at one state or N.

        ``forces`` (rows,) are those of the constraints, if any hold.
        """
        q, qd, wrenches = state
        shape = (*q.shape[:-1], self.robot.n_bodies, 6)
        pushed = np.zeros(shape) if wrenches is None else wrenches
        f_ext = pushed
        if forces is not None:
            f_ext = pushed + self.constraint_wrenches((q, qd), forces)[0]
        by_reference = self.backend == "reference" and not self.constraints
        third = np.where(self.known, qdd, torque) if by_reference else qdd
        given = (q, qd, third, f_ext.reshape(*q.shape[:-1], 6 * self.robot.n_bodies))
        kernel = self._body_kernel
        (acceleration, wrench), _ = kernel.batch(*given) if q.ndim == 2 else kernel.one(*given)
        quantities = {
            "torque": torque,
            "qdd": qdd,
            "acceleration": acceleration.reshape(shape),
            "joint_wrench": wrench.reshape(shape),
            "external_wrench": pushed,
        }
        if forces is not None:
            quantities["constraint_wrench"] = forces
        return Details(
            quantities["acceleration"],
            quantities["joint_wrench"],
            pushed,
            residuals(self.system, q, qd, quantities),
        )

    @cached_property
    def _body_kernel(self) -> AbstractKernel:
        """Accelerations and joint wrenches from q, qd, qdd and external wrenches.

        The reference backend reads them off D, from what is given instead of qdd.
        """
        outputs, everything = (
            ("acceleration", "joint_wrench"),
            np.ones(self.robot.nv, dtype=bool),
        )
        if self.backend == "reference" and not self.constraints:
            return ReferenceKernel(self.system, self.given, outputs, wrenches=True)
        if self._chosen(self.backend, "float64") == "loops":
            return LoopKernel(self.robot, everything, "qdd", outputs, wrenches=True)
        spec = DynamicsSpec(self.robot, everything, "qdd", outputs, True)
        return dynamics_kernel(spec, backend=self._executes)


def _executing(backend: Backend, lacks: str) -> KernelBackend:
    """Return a backend that executes plans; KernelBuildError says what others lack."""
    if backend not in get_args(KernelBackend):
        raise KernelBuildError(
            f"backend {backend!r} {lacks}; use llvm or numpy, or leave it out"
        )
    return executing(backend)


def _inputs(state: Sequence[Array], wrenches: Array | None) -> list[Array]:
    """Arguments of a kernel: external wrenches, if any act, as one vector per state."""
    if wrenches is None:
        return list(state)
    *batch, bodies, _ = wrenches.shape
    return [*state, wrenches.reshape(*batch, 6 * bodies)]
