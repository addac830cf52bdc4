"""Problems to plan, by the words of the command line, and what a campaign computes of each.

ROBOT + id | fd                     inverse or forward dynamics: symmetric pairs
ROBOT + hybrid:JOINT,JOINT...       accelerations of these joints known, torques elsewhere
ROBOT + published:NAME              a sensor set of sensors.published: scalar LU
ROBOT + LAYOUT.yaml                 a layout of sensors, as many readings as needed
PROBLEM.yaml | catalogue:NAME       an estimation problem, as many readings as needed
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import Fingerprint, fingerprint_parts
from dynsys.plan.plan import Plan
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import Search, search_order, search_plan
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.problem import AbstractDynamics
from problems.problem_file import load_problem
from problems.robots import read_robot
from sensors import Layout, published

__all__ = ["FILES", "PUBLISHED", "PlanRequest", "plan_task", "read_request"]

PUBLISHED = "published:"
HYBRID = "hybrid:"
FILES = (".yaml", ".yml")


@final
@dataclass(frozen=True, eq=False)
class PlanRequest:
    """A square system to plan: ``dynamics`` where symmetric pairs solve it."""

    name: str
    system: LinearSystem
    outputs: tuple[UnknownKind, ...]
    dynamics: AbstractDynamics | None = None
    layout: Fingerprint | None = None

    @property
    def robot(self) -> KinematicTree:
        """The robot."""
        return self.system.robot

    def plan(self, search: Search) -> Plan:
        """Symmetric plan of dynamics; otherwise scalar LU, its order searched for."""
        if self.dynamics is not None:
            return self.dynamics.plan()
        return search_plan(
            self.system, self.name, search, outputs=self.outputs, layout=self.layout
        )


def read_request(spec: str, problem: str = "fd", floating_base: bool = False) -> PlanRequest:
    """Return what ``spec`` and ``problem`` name; see the module.

    Raises
    ------
    ModelError, LayoutError
        if there is no such robot, problem or file, or it has not as many equations as unknowns.
    """
    if spec.endswith(FILES) or spec.startswith("catalogue:"):
        return _measured(spec, load_problem(spec).sensors)
    robot = read_robot(spec, floating_base).robot
    if problem == "id":
        return _dynamics(InverseDynamics(robot))
    if problem == "fd":
        return _dynamics(ForwardDynamics(robot))
    if problem.startswith(HYBRID):
        return _dynamics(HybridDynamics(robot, problem.removeprefix(HYBRID).split(",")))
    if problem.startswith(PUBLISHED):
        name = problem.removeprefix(PUBLISHED)
        if name not in published.__all__:
            hint = nearest_name(name, published.__all__)
            known = ", ".join(published.__all__)
            raise LayoutError(f"there is no published set {name!r} among {known}{hint}")
        return _measured(problem, getattr(published, name)(robot))
    if problem.endswith(FILES):
        return _measured(problem, Layout.load(problem, robot))
    raise LayoutError(
        f"there is no problem {problem!r}: use id, fd, hybrid:JOINT,..., published:NAME or a"
        " layout file (.yaml)"
    )


def _dynamics(dynamics: AbstractDynamics) -> PlanRequest:
    return PlanRequest(type(dynamics).__name__, dynamics.system, dynamics.answers, dynamics)


def _measured(name: str, layout: Layout) -> PlanRequest:
    """Laws and the readings of a layout, torques wanted."""
    laws = LinearSystem(layout.robot)
    system = laws.with_equations(layout.equations(laws.unknowns))
    rows, columns = system.shape
    if rows != columns:
        more = "more" if rows > columns else "fewer"
        raise LayoutError(
            f"{name}: {rows} equations for {columns} unknowns; a pivot order needs as many as"
            f" there are unknowns. With {more} readings 'dynsys solve' estimates by least"
            " squares, and 'dynsys check' says what they determine"
        )
    parts = {f"sensor {s.name!r}": repr(s) for s in layout.sensors}
    return PlanRequest(
        name, system, ("torque",), layout=fingerprint_parts(f"layout {name!r}", parts)
    )


def plan_task(payload: Mapping[str, Any]) -> dict[str, Any]:
    """One task of a campaign: search an order for a robot, problem and seed.

    The payload has ``robot, problem, floating_base, seed, evaluations``; the result the
    operations of the best constructive order and of the one found, and the order itself.
    """
    start = time.perf_counter()
    request = read_request(payload["robot"], payload["problem"], bool(payload["floating_base"]))
    if request.dynamics is not None:
        operations = request.dynamics.plan().operations.total
        return {"method": "symmetric", "constructive": operations, "found": operations}
    search = Search(evaluations=payload["evaluations"], seed=payload["seed"])
    problem = SearchProblem.of(request.system, request.outputs, seed=payload["seed"])
    result = search_order(problem, search, request.system)
    return {
        "method": "lu",
        "constructive": result.constructive.operations.total,
        "found": result.best.operations.total,
        "from": result.best.origin,
        "safety": result.best.safety,
        "row_order": result.best.order.row_order.tolist(),
        "col_order": result.best.order.col_order.tolist(),
        "seconds": time.perf_counter() - start,
    }
