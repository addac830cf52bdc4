"""Operations of kernels: stated counts against counters that run inside the machine code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import KinematicTree, specialise, synthetic
from dynsys.interop.functions import PlainFunction
from dynsys.kernel import build, quantities
from dynsys.kernel.build import build_kernel
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.calls import AbstractKernel
from dynsys.kernel.llvm.computation import (
    AbstractComputation,
    MatrixProgram,
    executed_operations,
)
from dynsys.kernel.llvm.ltdl import ltdl_computation
from dynsys.kernel.llvm.target import Target, host
from dynsys.kernel.quantities import (
    QUANTITIES,
    inertia_matrix,
    inverse_inertia_matrix,
    operational_matrix,
)
from dynsys.model.expanded import expanded_parent
from dynsys.plan.held.impulse import ImpulseSpec
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.record import DynamicsSpec
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.types import ScalarArray

ARITHMETIC = re.compile(
    r" = (fmul|fadd|fsub|fdiv) (?:contract )?(?:<(\d+) x )?(?:double|float)"
)
KIND = {"fmul": 0, "fadd": 1, "fsub": 1, "fdiv": 2}


def counting(text: str, last: str, out: str) -> str:
    """LLVM text whose functions count the lanes of their arithmetic while they run.

    Before every jump and return, what its block has executed is added to three numbers; the
    function ``last`` writes them to ``out`` when it returns, in place of its first answers.
    """
    fresh: Iterator[int] = count()
    lines, executed, name = (
        ["@counted = internal global [3 x i64] zeroinitializer"],
        [0] * 3,
        "",
    )
    for line in text.splitlines():
        if line.startswith("define"):
            name = line.split("(")[0].split()[-1]
        found = ARITHMETIC.search(line)
        if found:
            executed[KIND[found[1]]] += int(found[2] or 1)
        assert "llvm.fma" not in line and "llvm.fmuladd" not in line
        if line.startswith(("  br ", "  ret ")):
            for k, more in enumerate(executed):
                at, old, new, x = (f"%count{next(fresh)}" for _ in range(4))
                lines += [
                    f"  {at} = getelementptr i64, ptr @counted, i64 {k}",
                    f"  {old} = load i64, ptr {at}",
                    f"  {new} = add i64 {old}, {more}",
                    f"  store i64 {new}, ptr {at}",
                ]
                if name == last and line.startswith("  ret "):
                    lines += [
                        f"  {x} = sitofp i64 {new} to double",
                        f"  {x}at = getelementptr double, ptr {out}, i64 {k}",
                        f"  store double {x}, ptr {x}at",
                        f"  store i64 0, ptr {at}",
                    ]
            executed = [0] * 3
        lines.append(line)
    return "\n".join(lines) + "\n"


class CountingTail:
    """A tail that answers with what it has executed."""

    def __init__(self, tail: object) -> None:
        self._tail = tail

    def __getattr__(self, name: str) -> object:
        return getattr(self._tail, name)

    def text(self, dtype: str, width: int) -> str:
        return counting(self._tail.text(dtype, width), "@tail", "%out")  # type: ignore[attr-defined]


class CountingCode:
    """The same of code that has no head."""

    def __init__(self, code: AbstractComputation) -> None:
        self._code = code
        self.operations = code.operations

    def evaluate(self, inputs: ScalarArray) -> ScalarArray:
        return self._code.evaluate(inputs)

    def module(self, signature: Signature, dtype: str, target: Target) -> str:
        text = self._code.module(signature, dtype, target)
        start = text.index("define void @one")
        end = text.index("}\n", start) + 2
        return text[:start] + counting(text[start:end], "@one", "%out0") + text[end:]


def humanoid() -> KinematicTree:
    """Limbs, a free joint, rotors and friction."""
    robot = synthetic.humanoid30()
    robot = robot.with_armature(np.where(np.arange(robot.nv) % 3, 0.1, 0.0))
    name = next(x for x in robot.parameters if x.endswith("viscous"))
    return robot.with_parameters({name: 0.7})


def derivatives(
    problem: problems.AbstractDynamics,
) -> tuple[Program | AbstractComputation, Signature]:
    spec = DynamicsSpec(problem.robot, problem.known, problem.given, ("derivatives",))
    return build.dynamics_computation(spec), spec.signature


def lanes(robot: KinematicTree) -> tuple[Program | AbstractComputation, Signature]:
    return derivatives(problems.InverseDynamics(robot))


def sweeps(robot: KinematicTree) -> tuple[Program | AbstractComputation, Signature]:
    return derivatives(problems.ForwardDynamics(robot))


def matrix(
    made: Callable[[KinematicTree, str, int], Program | MatrixProgram], target: Target
) -> Callable[[KinematicTree], tuple[Program | AbstractComputation, Signature]]:
    def of(robot: KinematicTree) -> tuple[Program | AbstractComputation, Signature]:
        n = robot.nv
        signature = Signature((("q", robot.nq),), (("H", n * n),))
        return made(robot, "float64", target.tile_width("float64")), signature

    return of


def task_space(robot: KinematicTree, dtype: str, width: int) -> Program | MatrixProgram:
    return operational_matrix(robot, range(2, 2 + robot.nv // 6), dtype, width)


NARROW = ("avx512f",)
TAILS = [
    ("inertia", ()),
    ("inertia", NARROW),
    ("inverse", ()),
    ("inverse", NARROW),
    ("tasks", ()),
    ("tasks", NARROW),
    ("lanes", ()),
    pytest.param("sweeps", (), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "disable"), TAILS)
def test_machine_code_counts_what_is_stated(
    kind: str, disable: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Robots with limbs and without, whose last blocks overlap or do not."""
    monkeypatch.setattr(quantities, "MOST_PAIRS", 0)  # tiles where straight-line code is faster
    monkeypatch.setattr(build, "FEWEST_FREEDOMS", 16)
    target = host(disable=disable)
    of = {
        "inertia": matrix(inertia_matrix, target),
        "inverse": matrix(inverse_inertia_matrix, target),
        "tasks": matrix(task_space, target),
        "lanes": lanes,
        "sweeps": sweeps,
    }[kind]
    chain = synthetic.chain(24 if kind == "tasks" else 16, generic=True)
    for robot in (humanoid(), chain):
        made, signature = of(robot)
        assert isinstance(made, MatrixProgram)
        stated = executed_operations(made, "float64", target)
        counted = MatrixProgram(made.head, CountingTail(made.tail))  # type: ignore[arg-type]
        kernel = build_kernel(counted, signature, target=target)
        rng = np.random.default_rng(0)
        state = [robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))]
        numbers = kernel.one(*state[: len(signature.inputs)])[0][0][:3]
        tail = Operations(*numbers.astype(int).tolist())
        assert stated == program_operations(made.head) + tail == kernel.operations
        assert tail.total > 0


@pytest.mark.parametrize("n", [8, 11])
def test_factorisations_count_what_is_stated(n: int) -> None:
    robot = synthetic.chain(n)
    made = ltdl_computation(expanded_parent(robot), host().tile_width("float64"))
    assert not isinstance(made, Program)
    signature = Signature((("H", n * n),), (("L", n * n), ("diagonal", n)))
    kernel = build_kernel(CountingCode(made), signature)
    H = dynsys.crba(robot, robot.random_configuration(0))
    numbers = kernel.one(np.ravel(H))[0][0][:3]
    stated = executed_operations(made, "float64", host())
    assert stated == Operations(*numbers.astype(int).tolist()) and stated.divisions == n


def test_counts_are_kept_beside_the_code(tmp_path: object) -> None:
    made, signature = lanes(synthetic.humanoid30())
    states = np.ones((1, signature.n_inputs), dtype=np.longdouble)
    cache = KernelCache(tmp_path)  # type: ignore[arg-type]
    first, again = (
        build.kernel_from(lambda: made, signature, states, ("counted",), cache=cache)
        for _ in range(2)
    )
    stated = executed_operations(made, "float64", host())
    assert first.operations == again.operations == stated


# ---- every kernel has them -------------------------------------------------------------------


def every_kernel() -> Iterator[tuple[str, AbstractKernel]]:
    """Kernels of every public kind."""
    robot = synthetic.chain(8)
    tip, small = robot.body_names[-1], synthetic.chain(3)
    for quantity in QUANTITIES:
        body = tip if quantity in ("jacobian", "pose") else None
        bodies = robot.body_names[-3:] if quantity == "operational_space_inverse" else ()
        yield quantity, specialise(robot, quantity, body, bodies=bodies)  # type: ignore[arg-type]
    for problem in (problems.InverseDynamics(robot), problems.ForwardDynamics(robot)):
        yield "derivatives", problem.compile(outputs=["derivatives"])
        spec = DynamicsSpec(problem.robot, problem.known, problem.given, ("derivatives",))
        yield "derivatives of many states", build.dynamics_kernel(spec, rows=True)
    for problem in (
        problems.ForwardDynamics(small),
        problems.HybridDynamics(small, ["link_2"]),
    ):
        yield "dynamics", problem.compile()
        yield "wrenches", problem.compile(wrenches=True, outputs=["acceleration"])
        yield "parameters", problem.compile(parameters=["link_3.mass"])
        for product in ("jvp", "vjp", "hvp"):
            yield product, problem.compile(outputs=[product])
    hinge = [dynsys.FrameConstraint("tip", "link_7", components=("x", "y", "z"))]
    held = problems.ForwardDynamics(synthetic.chain(7), constraints=hinge)
    yield "held", held.compile()
    yield "held, steered", held.compile(steered=True)
    assert held.held is not None
    yield "impulses", build.impulse_kernel(ImpulseSpec(held.held))
    yield "tasks", dynsys.OperationalSpace(robot, [tip]).compile()
    layout = sensors.Layout(
        small,
        [
            *sensors.all_joint_accelerations(small, std=0.1),
            *sensors.all_joint_torques(small, std=0.5),
            *sensors.zero_external_wrench_except(small),
        ],
        position_std=0.01,
    )
    est = problems.Estimation(small, layout)
    yield "estimator", est.compile(switchable=["link_1/torque"], uncertainty=["qdd"])
    four = synthetic.chain(4)
    cells = problems.Estimation(four, sensors.published.sie_friction(four))
    yield "square estimator", cells.compile(outputs=["torque", "std.torque"])
    yield "gradient", PlainFunction(est).gradient
    ident = problems.Identification(small, layout, inertia=True)
    yield "regressor", ident.sought.regressor.kernel


def test_every_kernel_has_operations() -> None:
    for name, kernel in every_kernel():
        assert isinstance(kernel.operations, Operations) and kernel.operations.total, name  # type: ignore[attr-defined]
    loops = problems.ForwardDynamics(synthetic.chain(3)).compile(backend="loops")
    assert loops.operations is None  # type: ignore[attr-defined]
