"""Plan: how one problem of one robot is solved, decided offline.

A plan holds the order of elimination, which is executed as it stands, what it costs and why its
pivots are safe, with fingerprints of what it was made for. It knows no state and no code. What
it says of its order belongs to that order: a plan of which anything was changed is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import final

from dynsys.distribution import versions
from dynsys.errors import PlanMismatchError
from dynsys.model.tree import KinematicTree
from dynsys.notebook import facts
from dynsys.plan.fingerprint import (
    Fingerprint,
    canonical_bytes,
    fingerprint_robot,
    require_same,
)
from dynsys.plan.methods import EliminationOrder, Method, require_own_order
from dynsys.plan.operations import Operations
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.plan_file import read_plan, write_plan
from dynsys.plan.symmetric import SymmetricStep

__all__ = ["Plan"]


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """How to solve a problem.

    Parameters
    ----------
    method : how it eliminates, see :mod:`dynsys.plan.methods`; dynamics by "symmetric" pairs.
    robot, problem, layout : fingerprints of what it is for; layout None without sensors.
    operations : what one solve executes, exactly.
    pivots : pivots that depend on the state, each with the reason why it is safe.
    steps, order : the steps of "symmetric", the order of every other method.
    options : how the problem is rewritten before elimination, e.g. the choice of frames.
    ordering, versions : name of what found the order; versions of the software that did.
    digest : of all the above: none is changed without it. Left empty, it is made.
    """

    method: Method
    robot: Fingerprint
    problem: Fingerprint
    operations: Operations
    pivots: tuple[PlannedPivot, ...] = ()
    layout: Fingerprint | None = None
    steps: tuple[SymmetricStep, ...] = ()
    order: EliminationOrder | None = None
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    ordering: str = ""
    versions: Mapping[str, str] = field(default_factory=versions)
    digest: str = ""

    def __post_init__(self) -> None:
        require_own_order(self.method, self.order, self.steps)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        object.__setattr__(self, "digest", self.digest or self._content_digest())

    def _content_digest(self) -> str:
        """SHA-256 (hex) of every other field, whatever fields there are.

        Pivots that do not touch each other can be exchanged at the same cost, often in the very
        same program: neither of them tells which sequence was counted.
        """
        content = {x.name: getattr(self, x.name) for x in fields(self) if x.name != "digest"}
        return sha256(canonical_bytes(content)).hexdigest()

    def __reduce__(self) -> tuple[type[Plan], tuple[object, ...]]:
        entries = [getattr(self, entry.name) for entry in fields(self)]
        return Plan, tuple(dict(x) if isinstance(x, Mapping) else x for x in entries)

    @property
    def is_safe_by_argument(self) -> bool:
        """True if no pivot needs a check at run time."""
        return not self.checked_pivots

    @property
    def checked_pivots(self) -> tuple[PlannedPivot, ...]:
        """Pivots that only sampling supports: a kernel checks them at run time."""
        return tuple(pivot for pivot in self.pivots if pivot.safety == "sampling")

    def check(self, robot: KinematicTree, problem: Fingerprint | None = None,
              layout: Fingerprint | None = None) -> None:  # fmt: skip
        """Raise PlanMismatchError unless it is unchanged, for this robot, problem, layout."""
        require_same("robot", self.robot, fingerprint_robot(robot))
        if problem is not None:
            require_same("problem", self.problem, problem)
        if layout is not None or self.layout is not None:
            require_same("layout", self.layout, layout)
        if self.digest != self._content_digest():
            raise PlanMismatchError(
                "the plan is not as it was made: its order, or something it says of it, was"
                " changed. Make a new plan; one of an order of your own is made by"
                " plan(steps=...) of dynamics, plan(order=...) of an estimation"
            )

    def save(self, path: str | Path) -> None:
        """Write the plan as a file of JSON text; an existing file is replaced as a whole."""
        write_plan(vars(self), Path(path))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read what :meth:`save` wrote; PlanFileError if it is damaged or no plan at all."""
        return read_plan(Path(path), Plan)

    def _repr_html_(self) -> str:
        n, order = len(self.checked_pivots), self.ordering or "as given"
        return facts(
            f"{self.method} plan of the {self.problem.subject} for the {self.robot.subject}",
            [
                ("operations", self.operations),
                ("order", order),
                ("pivots safe by argument", len(self.pivots) - n),
                ("pivots watched at run time", n),
            ],
        )

    def __str__(self) -> str:
        what = f"{self.method} plan of the {self.problem.subject} for the {self.robot.subject}"
        n = len(self.checked_pivots)
        safe = f"pivots safe by argument {len(self.pivots) - n}, by sampling {n}"
        return f"{what}: {self.operations}; {safe}"
