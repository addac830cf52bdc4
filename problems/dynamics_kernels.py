"""Kernel, plan and C source of a dynamics problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dynsys.errors import KernelBuildError, SingularSystemError
from dynsys.kernel.build import dynamics_kernel
from dynsys.kernel.c.source import export_c
from dynsys.kernel.kernel import AbstractKernel
from dynsys.loops import LoopKernel, prefer_loops
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import Fingerprint, fingerprint_robot
from dynsys.plan.operations import program_operations
from dynsys.plan.pivots import PlannedPivot, pivot_safety
from dynsys.plan.plan import Plan
from dynsys.plan.record import DYNAMICS_OUTPUTS, dynamics_program, sample_states
from dynsys.plan.symmetric import symmetric_steps
from problems.entry_names import entry_names
from problems.reference import ReferenceKernel

if TYPE_CHECKING:
    from problems.problem import AbstractDynamics

__all__ = [
    "Backend",
    "body_kernel",
    "compile_dynamics",
    "export_dynamics",
    "freedom_names",
    "given_plan",
    "plan_dynamics",
]

Backend: TypeAlias = Literal["auto", "llvm", "loops", "reference"]

WIDEST_SPREAD = 1e15
"""Ratio of inertias above which specialised code would take the light ones for rounding."""


def given_plan(plan: Plan) -> Plan:
    """Return the plan; KernelBuildError if it is something else, such as its file's name."""
    if not isinstance(plan, Plan):
        raise KernelBuildError(f"plan must be a Plan, got {plan!r}; Plan.load reads its file")
    return plan


def plan_dynamics(problem: AbstractDynamics, fingerprint: Fingerprint) -> Plan:
    """Order of elimination in symmetric pairs, recorded pivot by pivot."""
    robot, known = problem.robot, problem.known
    steps = symmetric_steps(robot, known)
    pivots = {pivot.joint: pivot for pivot in pivot_safety(robot, known)}
    planned = []
    for k, step in enumerate(steps):
        if step.kind == "pivot":
            pivot = pivots[robot.joint_names[_leader(robot, step.body)]]
            name = f"inertia of joint {pivot.joint!r}"
            planned.append(PlannedPivot(k, name, pivot.safe_by, pivot.worst_share))
    return Plan(
        method="symmetric",
        robot=fingerprint_robot(robot),
        problem=fingerprint,
        operations=program_operations(problem.program),
        pivots=tuple(planned),
        steps=steps,
        options={"frames": "re-chosen", "masses": "regrouped where accuracy allows"},
        ordering="symmetric pairs, leaf to root",
    )


def _leader(robot: KinematicTree, joint: int) -> int:
    coupling = robot.bodies[joint].coupling
    return joint if coupling is None else coupling.leader


# ---- kernels -----------------------------------------------------------------------------


def compile_dynamics(
    problem: AbstractDynamics,
    backend: Backend,
    dtype: str,
    outputs: Sequence[str] | None,
    wrenches: bool,
) -> AbstractKernel:
    """Kernel of a backend, the reference where ``auto`` finds the inertia singular."""
    names = _output_names(problem, outputs)
    chosen = _chosen(problem.robot, backend, dtype)
    question = (problem.robot, problem.known, problem.given, names)
    if chosen == "loops":
        return LoopKernel(*question, wrenches=wrenches)
    if chosen == "llvm":
        is_planned = (names, wrenches, dtype) == (problem.answers, False, "float64")
        program = (lambda: problem.program) if is_planned else None
        try:
            return dynamics_kernel(*question, wrenches=wrenches, dtype=dtype, program=program)
        except SingularSystemError:
            if backend == "llvm":
                raise
    return ReferenceKernel(problem.system, problem.given, names, wrenches=wrenches)


def body_kernel(problem: AbstractDynamics) -> AbstractKernel:
    """Accelerations and joint wrenches from q, qd, qdd and external wrenches.

    The reference backend reads them off D, from what is given instead of qdd.
    """
    robot, outputs = problem.robot, ("acceleration", "joint_wrench")
    everything = np.ones(robot.nv, dtype=bool)
    if problem.backend == "reference":
        return ReferenceKernel(problem.system, problem.given, outputs, wrenches=True)
    if _chosen(robot, problem.backend, "float64") == "loops":
        return LoopKernel(robot, everything, "qdd", outputs, wrenches=True)
    return dynamics_kernel(robot, everything, "qdd", outputs, wrenches=True)


def _output_names(problem: AbstractDynamics, outputs: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(problem.answers if outputs is None else outputs)
    unknown = set(names) - set(DYNAMICS_OUTPUTS)
    if isinstance(outputs, str) or unknown or not names:
        raise KernelBuildError(
            f"outputs must list some of {', '.join(DYNAMICS_OUTPUTS)}, got {outputs!r}"
        )
    return names


def _chosen(robot: KinematicTree, backend: Backend, dtype: str) -> Backend:
    if backend not in ("auto", "llvm", "loops", "reference"):
        raise KernelBuildError(f"there is no backend {backend!r}: llvm, loops or reference")
    if backend == "auto":
        plain = prefer_loops(robot) or _inertia_spread(robot) > WIDEST_SPREAD
        backend = "loops" if plain and dtype == "float64" else "llvm"
    if dtype not in ("float64", "float32") or (dtype == "float32" and backend != "llvm"):
        raise KernelBuildError(f"backend {backend!r} has no kernels of dtype {dtype!r}")
    return backend


def _inertia_spread(robot: KinematicTree) -> float:
    """Largest inertia of a body over the smallest that is not zero."""
    sizes = [float(np.abs(moments.matrix()).max()) for moments in robot.moments]
    nonzero = [size for size in sizes if size > 0]
    return max(nonzero) / min(nonzero) if nonzero else 1.0


# ---- C source ----------------------------------------------------------------------------


def export_dynamics(
    problem: AbstractDynamics,
    folder: str | Path,
    *,
    name: str | None,
    outputs: Sequence[str] | None,
    wrenches: bool,
    dtype: Literal["float64", "float32"],
    overwrite: bool,
) -> list[Path]:
    """Write C99 with header, self-test and CMake file; returns the files."""
    robot, kind = problem.robot, type(problem).__name__
    names = _output_names(problem, outputs)
    pivot_safety(robot, problem.known)  # names a joint that moves no inertia
    program, signature = dynamics_program(
        robot, problem.known, problem.given, names, wrenches=wrenches
    )
    extra = signature.n_inputs - robot.nq - robot.nv
    labels = dict.fromkeys(("qd", "qdd", "torque", problem.given), freedom_names(robot))
    labels |= entry_names(robot)
    used = {array for array, _ in signature.groups}
    return export_c(
        folder,
        name or kind.lower(),
        program,
        signature,
        sample_states(robot, 5, 11, extra),
        dtype=dtype,
        labels={array: words for array, words in labels.items() if array in used},
        description=f"{kind} of robot {robot.name}",
        overwrite=overwrite,
    )


def freedom_names(robot: KinematicTree) -> list[str]:
    """Name of every freedom (nv,): its joint's, with a number where the joint has several."""
    names = [""] * robot.nv
    for joint, v, body in zip(robot.joint_names, robot.v_slices(), robot.bodies, strict=True):
        if body.coupling is None:
            for k in range(v.start, v.stop):
                names[k] = joint if v.stop - v.start == 1 else f"{joint}[{k - v.start}]"
    return names
