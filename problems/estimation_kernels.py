"""Kernel, plan and C source of an estimation problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynsys.errors import KernelBuildError
from dynsys.kernel.c.source import export_c
from dynsys.plan.fingerprint import (
    Fingerprint,
    fingerprint_parts,
    fingerprint_problem,
    fingerprint_robot,
)
from dynsys.plan.operations import program_operations
from dynsys.plan.plan import Plan
from dynsys.plan.saddle import ESTIMATES
from dynsys.plan.saddle_program import estimation_program, planned_estimation
from dynsys.program.signature import Signature
from problems.compiled_estimator import CompiledEstimator, Wanted
from problems.estimate import Estimate, Quantity
from problems.inputs import entry_names
from problems.problem import freedom_names, given_plan

if TYPE_CHECKING:
    from problems.estimation import Estimation

__all__ = ["ReferenceEstimator", "check_plan", "export_estimator", "plan_estimation"]

PROBLEM = "Estimation"


def _require_no_prior(problem: Estimation) -> None:
    if problem.prior is not None:
        raise KernelBuildError(
            "an estimation with a prior has no compiled kernel; the prior can be given as"
            " measurements of its quantities, or use the backends cholmod, superlu or dense"
        )


def _fingerprints(problem: Estimation) -> tuple[Fingerprint, Fingerprint]:
    """Of the equations, and of the sensors with their noise."""
    parts = {f"sensor {s.name!r}": repr(s) for s in problem.layout.sensors}
    parts["noise"] = problem.layout.fingerprint()
    return fingerprint_problem(PROBLEM, problem.system), fingerprint_parts("layout", parts)


def plan_estimation(problem: Estimation, wanted: Wanted) -> Plan:
    """Order of elimination of the saddle-point system, recorded pivot by pivot."""
    _require_no_prior(problem)
    compiled = CompiledEstimator(problem.robot, problem.layout)
    program, pivots = planned_estimation(compiled.question(wanted))
    system, layout = _fingerprints(problem)
    return Plan(
        method="symmetric",
        robot=fingerprint_robot(problem.robot),
        problem=system,
        operations=program_operations(program),
        pivots=pivots,
        layout=layout,
        options={"outputs": " ".join(wanted.names)},
        ordering="single and paired pivots, leaf to root, cheapest first",
    )


def check_plan(problem: Estimation, plan: Plan) -> None:
    """Raise PlanMismatchError unless the plan is for this robot, these sensors, this noise."""
    given_plan(plan).check(problem.robot, *_fingerprints(problem))


def export_estimator(
    problem: Estimation,
    folder: str | Path,
    wanted: Wanted,
    switchable: Sequence[str],
    *,
    name: str,
    dtype: Literal["float64", "float32"],
    overwrite: bool,
) -> list[Path]:
    """Write C99 with header, self-test and CMake file; returns the files."""
    _require_no_prior(problem)
    robot, layout = problem.robot, problem.layout
    question = CompiledEstimator(robot, layout).question(wanted, tuple(switchable))
    freedoms, rows = freedom_names(robot), list(layout.labels)
    labels = {"qd": freedoms, "y": rows, "weight": rows, "residual": rows, "multiplier": rows}
    labels |= {"torque": freedoms, "qdd": freedoms, **entry_names(robot)}
    labels |= {f"std_{array}": words for array, words in labels.items()}
    used = {array for array, _ in (*question.signature.inputs, *question.signature.outputs)}
    return export_c(
        folder,
        name,
        estimation_program(question, dtype),
        question.signature,
        question.samples(5, 11),
        dtype=dtype,
        labels={array: words for array, words in labels.items() if array in used},
        description=f"estimator of robot {robot.name} from {len(layout)} sensors",
        overwrite=overwrite,
    )


@final
class ReferenceEstimator:
    """The interface of a compiled estimator over the reference path: slow, pivoting."""

    def __init__(self, problem: Estimation, wanted: Wanted) -> None:
        unknown = {*wanted.outputs, *wanted.uncertainty} - set(ESTIMATES)
        if unknown:
            raise KernelBuildError(
                f"outputs {sorted(unknown)} are none of {', '.join(ESTIMATES)}"
            )
        self._problem = problem
        self._wanted = wanted
        compiled = CompiledEstimator(problem.robot, problem.layout)
        self.signature: Signature = compiled.question(wanted).signature

    def fast(self, *_: object) -> bool | None:
        """Say that there is no faster way than :meth:`one`."""
        return None

    def one(
        self, *inputs: ArrayLike, out: Sequence[NDArray[Any]] | None = None
    ) -> tuple[tuple[NDArray[Any], ...], bool]:
        """Outputs at a state (q, qd, y), NaN where undetermined; whether all are finite."""
        q, qd, y = inputs
        e = self._problem.solve(q, qd, y, uncertainty=cast("Any", self._wanted.uncertainty))
        found = tuple(np.ravel(x) for x in self._arrays(e))
        for target, value in zip(out or (), found, strict=bool(out)):
            target[...] = value
        return tuple(out) if out else found, all(np.isfinite(x).all() for x in found)

    def _arrays(self, e: Estimate) -> list[NDArray[np.float64]]:
        values = [e.values[cast("Quantity", k)].array for k in self._wanted.outputs]
        return values + [e.std[cast("Quantity", k)].array for k in self._wanted.uncertainty]

    def batch(
        self, *inputs: ArrayLike, out: Sequence[NDArray[Any]] | None = None, threads: int = 1
    ) -> tuple[tuple[NDArray[Any], ...], bool]:
        """Outputs (N, size) at N states, one after the other; ``threads`` changes nothing."""
        arrays = [np.asarray(x, dtype=np.float64) for x in inputs]
        n = len(arrays[0])
        if out is None:
            out = [np.empty((n, size)) for _, size in self.signature.outputs]
        finite = [
            self.one(*(x[k] for x in arrays), out=[target[k] for target in out])[1]
            for k in range(n)
        ]
        return tuple(out), all(finite)
