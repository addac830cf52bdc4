"""Problems to plan, by the words of the command line, and what a campaign computes of each.

ROBOT + id | fd                     inverse or forward dynamics: symmetric pairs
ROBOT + hybrid:JOINT,JOINT...       accelerations of these joints known, torques elsewhere
ROBOT + fd+constraints              any of these three, held by the constraints of its file
ROBOT + published:NAME              a sensor set of sensors.published
ROBOT + LAYOUT.yaml                 a layout of sensors
PROBLEM.yaml | catalogue:NAME       an estimation problem
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import canonical_bytes, fingerprint_problem, fingerprint_robot
from dynsys.plan.plan import Plan
from dynsys.plan.search.search import Search
from dynsys.resumable import seal
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.estimation.compiled import STD
from problems.estimation.estimation import Estimation
from problems.problem import AbstractDynamics
from problems.problem_file import load_problem
from problems.robots import read_robot
from sensors import Layout, published

__all__ = ["FILES", "PUBLISHED", "PlanRequest", "plan_task", "read_request", "split_outputs"]

PUBLISHED = "published:"
HYBRID = "hybrid:"
HELD = "+constraints"
FILES = (".yaml", ".yml")


@final
@dataclass(frozen=True, eq=False)
class PlanRequest:
    """A problem with its name on the command line."""

    name: str
    problem: AbstractDynamics | Estimation

    @property
    def dynamics(self) -> AbstractDynamics | None:
        """The problem, where symmetric pairs solve it."""
        return None if isinstance(self.problem, Estimation) else self.problem

    @property
    def estimation(self) -> Estimation | None:
        """The problem, where sensors leave an order to choose."""
        return self.problem if isinstance(self.problem, Estimation) else None

    @property
    def system(self) -> LinearSystem:
        """Its equations."""
        return self.problem.system

    @property
    def robot(self) -> KinematicTree:
        """The robot."""
        return self.problem.robot

    @property
    def content(self) -> str:
        """Digest (hex) of robot, equations, sensors and prior: whatever the files now hold."""
        if isinstance(self.problem, Estimation):
            parts = [self.problem.layout.fingerprint(), self.problem.prior]
        else:
            problem = fingerprint_problem(self.name, self.system)
            parts = [fingerprint_robot(self.robot).digest, problem.digest]
        return seal(canonical_bytes(parts)).hex()[:16]

    @property
    def outputs(self) -> tuple[UnknownKind, ...]:
        """What it is solved for."""
        return ("torque",) if self.dynamics is None else self.dynamics.answers

    def require_square(self) -> None:
        """Raise LayoutError unless scalar LU applies: as many equations as unknowns."""
        rows, columns = self.system.shape
        if rows != columns:
            more = "'dynsys plan' orders their least squares"
            fewer = "'dynsys check' says what is missing"
            raise LayoutError(
                f"{self.name}: {rows} equations for {columns} unknowns; pivot orders of D are"
                f" for as many. {more if rows > columns else fewer}"
            )

    def plan(self, search: Search, outputs: Sequence[str] = ()) -> Plan:
        """Plan that whatever solves the problem executes.

        ``outputs`` of an estimation: what it is priced for, ``torque`` by default, deviations
        as ``std.NAME``.
        """
        if not isinstance(self.problem, Estimation):
            if outputs:
                raise LayoutError("outputs are priced of estimations; leave out --outputs")
            return self.problem.plan()
        values, stds = split_outputs(outputs)
        return self.problem.plan(search=search, outputs=values, uncertainty=stds)


def split_outputs(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Outputs, ``torque`` if none is named, and what the others, ``std.NAME``, are of."""
    values = [name for name in names if not name.startswith(STD)] or ["torque"]
    return values, [name.removeprefix(STD) for name in names if name.startswith(STD)]


def read_request(
    spec: str, problem: str = "fd", floating_base: bool = False, **options: Any
) -> PlanRequest:
    """Return what ``spec`` and ``problem`` name; see the module.

    ``options`` are further ones of :func:`problems.robots.read_robot`.

    Raises
    ------
    ModelError, LayoutError
        if there is no such robot, problem or file.
    """
    if spec.endswith(FILES) or spec.startswith("catalogue:"):
        return PlanRequest(spec, load_problem(spec).estimation)
    robot = read_robot(spec, floating_base, **options).robot
    kind = problem.removesuffix(HELD)
    held = robot.constraints if kind != problem else ()
    if kind != problem and not held:
        raise LayoutError(f"{problem}: the file of robot {robot.name!r} has no constraints")
    if kind == "id":
        return _dynamics(InverseDynamics(robot, constraints=held))
    if kind == "fd":
        return _dynamics(ForwardDynamics(robot, constraints=held))
    if kind.startswith(HYBRID):
        joints = kind.removeprefix(HYBRID).split(",")
        return _dynamics(HybridDynamics(robot, joints, constraints=held))
    if problem.startswith(PUBLISHED):
        name = problem.removeprefix(PUBLISHED)
        if name not in published.__all__:
            hint = nearest_name(name, published.__all__)
            known = ", ".join(published.__all__)
            raise LayoutError(f"there is no published set {name!r} among {known}{hint}")
        return PlanRequest(problem, Estimation(robot, getattr(published, name)(robot)))
    if problem.endswith(FILES):
        return PlanRequest(problem, Estimation(robot, Layout.load(problem, robot)))
    raise LayoutError(
        f"there is no problem {problem!r}: use id, fd, hybrid:JOINT,..., published:NAME or a"
        f" layout file (.yaml); {HELD} after one of the first three"
    )


def _dynamics(dynamics: AbstractDynamics) -> PlanRequest:
    return PlanRequest(type(dynamics).__name__, dynamics)


def plan_task(payload: Mapping[str, Any]) -> dict[str, Any]:
    """One task of a campaign: search an order for a robot, problem and seed.

    The payload has ``robot, problem, floating_base, seed, evaluations``, ``options`` of
    :func:`read_request` and ``content``, which tells files from others of the same name; the
    result what the order that is constructed executes, what the one found does, and the order
    itself.

    Raises
    ------
    LayoutError
        if a file has changed since the task was made.
    """
    start = time.perf_counter()
    base, options = bool(payload["floating_base"]), payload.get("options", {})
    request = read_request(payload["robot"], payload["problem"], base, **options)
    if payload.get("content", request.content) != request.content:
        raise LayoutError(f"{payload['robot']}: has changed since this task was made")
    plan = request.plan(Search(evaluations=payload["evaluations"], seed=payload["seed"]))
    found = plan.operations.total
    ratios = [p.ratio for p in plan.checked_pivots if p.ratio is not None]
    return {
        "method": plan.method,
        "constructive": cast("int", plan.options.get("constructive", found)),
        "found": found,
        "from": plan.ordering,
        "safety": min(ratios, default=None),
        "order": None if plan.order is None else plan.order.encoded(),
        "seconds": time.perf_counter() - start,
    }
