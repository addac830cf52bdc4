"""What functions for other tools ask of a problem: inputs, answer, and a recorded program.

Dynamics: the answer and its derivatives in the tangent space (:mod:`dynsys.plan.record`).
Estimation: the answer alone, by the saddle elimination (:mod:`dynsys.plan.saddle_program`),
which takes any layout that determines it; :mod:`dynsys.interop.functions` differentiates the
program by the chain rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import varying_parameters
from dynsys.plan.estimator_spec import EstimatorSpec
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import DynamicsSpec, watched_dynamics
from dynsys.plan.saddle_program import saddle_with_limits
from dynsys.program.program import Program
from dynsys.system.size import unknown_units
from dynsys.types import Array, BoolArray

__all__ = [
    "DynamicsProblem",
    "DynamicsQuestion",
    "EstimationProblem",
    "EstimationQuestion",
    "Question",
    "asked_of",
]

ANSWER = {"qdd": "torque", "torque": "qdd"}
"""What is computed, by the name of what is given; ``unknown`` where that differs by freedom."""


class DynamicsProblem(Protocol):
    """What is needed of a problem: ``problems.InverseDynamics`` and its kin have it."""

    @property
    def robot(self) -> KinematicTree:
        """The robot."""

    @property
    def given(self) -> str:
        """Name of the third input: what is known of the joints."""

    @property
    def known(self) -> BoolArray:
        """Freedoms (nv,) whose acceleration is known; of the others the torque is."""


class EstimationProblem(Protocol):
    """What is needed of ``problems.Estimation``."""

    @property
    def robot(self) -> KinematicTree:
        """The robot."""

    def estimator_spec(
        self, outputs: Sequence[str], parameters: Sequence[str] = ()
    ) -> EstimatorSpec:
        """The question that such outputs are the answer to."""


@final
class DynamicsQuestion:
    """Inverse, forward or hybrid dynamics; see the module."""

    n_checks = 0

    def __init__(
        self, problem: DynamicsProblem, wrenches: bool, parameters: Sequence[str]
    ) -> None:
        if getattr(problem, "constraints", ()):
            raise KernelBuildError(
                f"robot {problem.robot.name!r} is held by constraints, which functions for"
                " other tools do not know; use compile, or leave them out"
            )
        varying_parameters(problem.robot, parameters)
        self.robot = problem.robot
        self.spec = DynamicsSpec(
            problem.robot, problem.known, problem.given, (), wrenches, None, tuple(parameters)
        )
        self.answer, self.size = ANSWER.get(problem.given, "unknown"), problem.robot.nv
        self.inputs: Mapping[str, int] = dict(self.spec.signature.inputs)

    @property
    def made_from(self) -> tuple[object, ...]:
        """What tells its programs from others."""
        spec = self.spec
        robot = fingerprint_robot(self.robot).digest
        return robot, spec.known, spec.given, spec.wrenches, spec.parameters

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs), quaternions of length one."""
        return self.spec.samples(count, seed)

    @property
    def units(self) -> Array:
        """Natural units (size,) of the answer."""
        return 1.0 / self.spec.units("weight")

    def watched(self, by: Sequence[str]) -> tuple[Program, list[float]]:
        """Answer, derivatives in the tangent space, reciprocals of pivots; limits of these.

        Of hybrid dynamics torque and qdd, both.
        """
        answers = ("torque", "qdd") if self.answer == "unknown" else (self.answer,)
        outputs = (*answers, *(f"d{self.answer}_d{name}" for name in by))
        return watched_dynamics(replace(self.spec, outputs=outputs))


@final
class EstimationQuestion:
    """One quantity of an estimate, from q, qd and all readings y; see the module."""

    def __init__(
        self, problem: EstimationProblem, answer: str, parameters: Sequence[str]
    ) -> None:
        self.robot = problem.robot
        self.spec = problem.estimator_spec((answer,), parameters)
        self.answer, self.size = answer, self.spec.signature.n_outputs
        self.inputs: Mapping[str, int] = dict(self.spec.signature.inputs)
        self.n_checks = len(self.spec.repeated)

    @property
    def made_from(self) -> tuple[object, ...]:
        """What tells its programs from others."""
        return "estimation", self.spec.fingerprint

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs), quaternions of length one, exact readings agree."""
        return self.spec.admissible(count, seed)

    @property
    def units(self) -> Array:
        """Natural units (size,) of the answer."""
        return unknown_units(self.spec.unknowns)[self.spec.columns(self.answer)]

    def watched(self) -> tuple[Program, list[float]]:
        """Answer, reciprocals of pivots, checks of exact readings; limits of the pivots."""
        return saddle_with_limits(self.spec)


Question: TypeAlias = DynamicsQuestion | EstimationQuestion


def asked_of(
    problem: DynamicsProblem | EstimationProblem,
    answer: str,
    wrenches: bool,
    parameters: Sequence[str],
) -> Question:
    """The question of a problem; KernelBuildError says what cannot be asked."""
    if hasattr(problem, "estimator_spec"):
        if wrenches:
            raise KernelBuildError(
                "external wrenches of an estimation are estimated, or stated by sensors of its"
                " layout; leave out wrenches=True"
            )
        return EstimationQuestion(
            cast(EstimationProblem, problem), answer or "torque", parameters
        )
    missing = [x for x in ("robot", "known", "given") if not hasattr(problem, x)]
    if missing:
        raise KernelBuildError(
            "expected a problem of dynamics or an estimation, such as"
            f" problems.InverseDynamics(robot), got {type(problem).__name__}, which has no"
            f" {missing[0]!r}"
        )
    question = DynamicsQuestion(problem, wrenches, parameters)
    if answer and answer != question.answer:
        raise KernelBuildError(
            f"{type(problem).__name__} answers {question.answer!r}, not {answer!r}"
        )
    return question
