"""What a solved log holds: quantities of the robot by name, and how well the readings agree.

torque                   all joints; also qdd
torque.l_knee            one joint
external_wrench.l_sole   one body or frame; also acceleration, joint_wrench; all if not named
std.torque ...           standard deviation of any of these
chi_square  degrees_of_freedom  p_value    0, 0 and 1 where nothing checks the readings
suspects                 probability of every sensor to be the wrong one
residual                 of every reading, in standard deviations; residual.SENSOR for one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.system.parts import part_of
from dynsys.types import Array
from problems.estimation.consistency import statements
from problems.estimation.estimate import Estimate
from problems.estimation.estimation import Estimation
from problems.labels import ACCELERATION, WRENCH, Group, joint_columns, numbered
from problems.measured.measured_system import QUANTITIES, Quantity

__all__ = ["AGREEMENT", "Output", "judged", "needed", "parse_outputs", "rows_of", "uncertain"]

AGREEMENT = ("chi_square", "degrees_of_freedom", "p_value")


@final
@dataclass(frozen=True, eq=False)
class Output:
    """One group of columns and how to take it (N, columns) from an estimate.

    ``needs`` names what the estimator must compute; ``std_of``, that it is the standard
    deviations of this quantity, or part of one. ``rows`` (columns, size) times the array of
    that name in a kernel gives the same columns; None where they are more than that.
    """

    group: Group
    take: Callable[[Estimate], Array]
    needs: str
    std_of: str | None = None
    rows: Array | None = None


def parse_outputs(estimation: Estimation, wanted: Sequence[str]) -> list[Output]:
    """Outputs by the names of the module.

    Raises
    ------
    LayoutError
        for a name that is none, with the nearest one.
    """
    outputs: list[Output] = []
    for text in dict.fromkeys(wanted):
        outputs += _parse(estimation, text)
    if not outputs:
        raise LayoutError("no outputs are asked for; name at least one, such as torque")
    return outputs


def _parse(estimation: Estimation, text: str) -> list[Output]:
    is_std = text.startswith("std.")
    kind, _, name = text.removeprefix("std.").partition(".")
    if text in AGREEMENT:
        return [Output(Group(text, (text,)), lambda e: _column(getattr(e, text)), text)]
    if kind == "residual" and not is_std:
        return _residuals(estimation, name)
    if text == "suspects":
        names = statements(estimation.measured)[0]
        columns = tuple(f"suspects.{name}" for name in names)
        return [Output(Group("suspects", columns), _suspicion, "p_value")]
    if is_std and kind in (*AGREEMENT, "residual", "suspects"):
        raise LayoutError(f"output {text!r}: {kind} has no standard deviation")
    if kind not in QUANTITIES:
        known = (*QUANTITIES, *AGREEMENT, "residual", "suspects")
        raise LayoutError(
            f"output {text!r}: there is no quantity {kind!r}{nearest_name(kind, known)}; use"
            f" {', '.join(known)}, with std. in front for standard deviations"
        )
    if kind in ("torque", "qdd"):
        return [_of_joints(estimation, kind, name, is_std)]
    return _of_bodies(estimation, kind, name, is_std)


def _column(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def _suspicion(e: Estimate) -> Array:
    """Probabilities (N, sensors) to be the wrong one; zeros where the readings agree."""
    return np.column_stack(list(e.suspicion.values()))


def _residuals(estimation: Estimation, name: str) -> list[Output]:
    layout = estimation.layout
    names = [layout[name].name] if name else list(layout.names)

    def output(sensor: str) -> Output:
        columns = tuple(f"residual.{label}" for label in layout.labels[layout.slice(sensor)])
        group = Group(f"residual.{sensor}", columns)
        return Output(group, lambda e: np.atleast_2d(e.residual[sensor]), "residual")

    return [output(sensor) for sensor in names if layout[sensor].constant(1) is None]


def _values(e: Estimate, kind: str, is_std: bool) -> Any:
    return e.std[cast("Quantity", kind)] if is_std else getattr(e, kind)


def _of_joints(estimation: Estimation, kind: str, name: str, is_std: bool) -> Output:
    robot = estimation.robot
    prefix = f"std.{kind}" if is_std else kind
    columns, place = joint_columns(robot, prefix), slice(None)
    if name:
        size = robot.joints[robot.joint_index(name)].nv
        columns, place = numbered(f"{prefix}.{name}", size), robot.v_slice(name)
    return Output(
        Group(f"{prefix}.{name}" if name else prefix, tuple(columns)),
        lambda e: np.atleast_2d(_values(e, kind, is_std).array[..., place]),
        kind,
        kind if is_std else None,
        np.eye(robot.nv)[place],
    )


def _of_bodies(estimation: Estimation, kind: str, name: str, is_std: bool) -> list[Output]:
    robot = estimation.robot
    labels = ACCELERATION if kind == "acceleration" else WRENCH
    prefix = f"std.{kind}" if is_std else kind
    own = robot.joint_names if kind == "joint_wrench" else robot.body_names
    # of one body or frame a kernel of its own: covariances move deviations, not rows
    std_of = (f"{kind}.{name}" if name else kind) if is_std else None

    def output(part: str) -> Output:
        group = Group(f"{prefix}.{part}", tuple(f"{prefix}.{part}.{x}" for x in labels))
        return Output(
            group,
            lambda e: _vectors(e, kind, part, is_std),
            kind,
            std_of,
            np.eye(6) if std_of == f"{kind}.{part}" else _rows(robot, kind, part),
        )

    return [output(part) for part in ([name] if name else own)]


def _rows(robot: KinematicTree, kind: str, name: str) -> Array:
    """(6, 6 bodies): the part of a quantity at a body or frame."""
    part = part_of(robot, kind, name)
    rows = np.zeros((6, 6 * robot.n_bodies))
    rows[:, part.start : part.start + 6] = part.matrix
    return rows


def _vectors(e: Estimate, kind: str, name: str, is_std: bool) -> Array:
    """(N, 6) at a body, joint or frame; a frame's values are the body's, moved."""
    values, part = _values(e, kind, is_std), part_of(e.problem.robot, kind, name)
    if is_std:
        return np.atleast_2d(values[name])
    found = values.array[..., part.start // 6, :]
    return np.atleast_2d(found @ part.matrix.T if part.is_moved else found)


def uncertain(outputs: Sequence[Output]) -> list[str]:
    """Quantities, and parts of them, whose standard deviations are wanted."""
    return list(dict.fromkeys(o.std_of for o in outputs if o.std_of is not None))


def needed(outputs: Sequence[Output]) -> list[str]:
    """What the estimator must compute besides standard deviations."""
    return list(dict.fromkeys(o.needs for o in outputs if o.std_of is None))


def judged(outputs: Sequence[Output]) -> list[str]:
    """The same, and how well the readings agree."""
    return list(dict.fromkeys([*needed(outputs), "p_value"]))


def rows_of(outputs: Sequence[Output], e: Estimate) -> Array:
    """All outputs of an estimate of N states, side by side (N, columns); N = 1 for one."""
    return np.hstack([output.take(e) for output in outputs])
