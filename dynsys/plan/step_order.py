"""Which orders of steps the symmetric elimination can execute, and what they are in stages.

Any order in which each step finds what it needs gives the same answers:

    joint pair of a body    after the link pairs of all its children
    link pair of a body     after its own joint pair
    pivot of a joint        after its joint pair, before the joint pair of the parent; at once,
                            while its body is all it touches, it costs least

Coupled (mimic) joints share one pivot. It is taken in turn, when every body behind is
eliminated and none before it has been touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynsys.errors import PlanMismatchError
from dynsys.model.tree import KinematicTree
from dynsys.plan.symmetric import SymmetricStep, symmetric_steps
from dynsys.program.frames import Reframed
from dynsys.types import BoolArray

__all__ = ["require_executable", "staged_steps"]


def require_executable(
    robot: KinematicTree, known: BoolArray, steps: Sequence[SymmetricStep]
) -> None:
    """Raise PlanMismatchError, naming body and step, unless the steps can be executed.

    ``known`` (nv,) marks freedoms whose qdd is given.
    """

    def name(step: SymmetricStep) -> str:
        return f"{step.kind} of body {robot.body_names[step.body]!r}"

    needed, at = set(symmetric_steps(robot, known)), {s: k for k, s in enumerate(steps)}
    for step in steps:
        if step not in needed:
            body = step.body if step.body not in range(robot.n_bodies) else name(step)
            raise _refused(robot, f"they hold a step it does not have ({body})")
    if len(at) < len(steps):
        twice = next(step for k, step in enumerate(steps) if at[step] != k)
        raise _refused(robot, f"the {name(twice)} stands there twice")
    if missing := needed - set(steps):
        raise _refused(robot, f"the {name(min(missing, key=str))} is missing")
    for step in steps:
        for other, first in _conditions(robot, step):
            if other in at and (at[other] < at[step]) != first:
                word = "before" if first else "after"
                raise _refused(robot, f"the {name(step)} comes {word} the {name(other)}")


def _conditions(
    robot: KinematicTree, step: SymmetricStep
) -> Iterator[tuple[SymmetricStep, bool]]:
    """Steps that must come first (True) or later (False)."""
    own = SymmetricStep("joint pair", step.body)
    if step.kind == "joint pair":
        yield from ((SymmetricStep("link pair", c), True) for c in robot.children[step.body])
        return
    yield own, True
    if step.kind == "link pair":
        return
    slices = robot.v_slices()
    if sum(v == slices[step.body] for v in slices) > 1:
        for body in range(robot.n_bodies):
            if body != step.body:
                yield SymmetricStep("joint pair", body), body > step.body
                yield SymmetricStep("link pair", body), body > step.body
        yield SymmetricStep("link pair", step.body), False
    elif robot.parent[step.body] >= 0:
        yield SymmetricStep("joint pair", int(robot.parent[step.body])), False


def _refused(robot: KinematicTree, why: str) -> PlanMismatchError:
    return PlanMismatchError(
        f"the steps of the plan cannot be executed for robot {robot.name!r}: {why}. Make a new"
        " plan"
    )


def staged_steps(
    mechanism: Reframed, steps: Sequence[SymmetricStep]
) -> Iterator[SymmetricStep]:
    """The same steps on the robot in stages: a link pair goes all the way to the parent."""
    for step in steps:
        stage = mechanism.place[step.body]
        yield SymmetricStep(step.kind, stage)
        if step.kind == "link pair":
            while mechanism.stages[stage := int(mechanism.parent[stage])].user_body < 0:
                yield SymmetricStep("joint pair", stage)
                yield SymmetricStep("link pair", stage)
                if mechanism.parent[stage] < 0:
                    break
