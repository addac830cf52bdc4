"""What a report is about: a robot with a question, named as on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from dynsys.model.tree import KinematicTree
from dynsys.system.linear_system import LinearSystem
from problems.estimation.estimation import Estimation
from problems.planning import FILES, PlanRequest, read_request
from problems.problem import AbstractDynamics
from problems.problem_file import ProblemFile, load_problem
from sensors import Layout

__all__ = ["Subject", "estimation_subject", "read_subject"]

WORDS = {
    "InverseDynamics": "inverse dynamics",
    "ForwardDynamics": "forward dynamics",
    "HybridDynamics": "hybrid dynamics",
}


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """A problem to report on.

    Parameters
    ----------
    spec : as the user wrote it.
    question : in words, such as "estimation from sensors".
    system : laws and readings, or laws and known quantities.
    estimation, dynamics : the problem itself, one of them None.
    request : the square system as planned; None where readings are more or fewer than needed.
    file : the problem file it came from.
    """

    spec: str
    question: str
    system: LinearSystem
    estimation: Estimation | None
    dynamics: AbstractDynamics | None
    request: PlanRequest | None = None
    file: ProblemFile | None = None

    @property
    def robot(self) -> KinematicTree:
        """The robot."""
        return self.system.robot

    @property
    def layout(self) -> Layout | None:
        """The sensors, None for plain dynamics."""
        return None if self.estimation is None else self.estimation.layout


def read_subject(
    spec: str, problem: str = "fd", floating_base: bool = False, **options: Any
) -> Subject:
    """Return what ``spec`` names: a problem file, ``catalogue:NAME``, or a robot.

    Parameters
    ----------
    spec : problem file (.yaml), ``catalogue:NAME``, robot file, ``example:...`` or
        ``synthetic:...``.
    problem : of a robot: id, fd, hybrid:JOINT,..., published:NAME or a layout file.
    floating_base : True lets the root link of a robot file move freely.
    options : further ones of :func:`problems.robots.read_robot`.
    """
    if spec.endswith(FILES) or spec.startswith("catalogue:"):
        file = load_problem(spec)
        return estimation_subject(spec, file.planned, file)
    request = read_request(spec, problem, floating_base, **options)
    if request.dynamics is None:
        assert request.estimation is not None
        return estimation_subject(spec, request.estimation)
    words = WORDS[request.name]
    return Subject(spec, words, request.system, None, request.dynamics, request)


def estimation_subject(
    spec: str, estimation: Estimation, file: ProblemFile | None = None
) -> Subject:
    """Subject of an estimation problem."""
    rows, columns = estimation.system.shape
    request = None
    if rows == columns:
        request = PlanRequest(spec, estimation)
    words = "estimation from sensors"
    return Subject(spec, words, estimation.system, estimation, None, request, file)
