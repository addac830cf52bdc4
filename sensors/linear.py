"""Any linear measurement, written by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast, final, get_args

import numpy as np

from dynsys.errors import nearest_name
from dynsys.system.equations import Term
from dynsys.system.unknowns import UnknownKind, UnknownLayout
from dynsys.types import Array
from sensors.mounting import wrench_matrix
from sensors.parameters import NUMBER, Parameter, Values, matrix, number
from sensors.sensor import KnownSensor, SensorRows

__all__ = ["LinearMeasurement"]

OF_JOINTS = ("torque", "qdd", "joint_wrench")
KINDS: tuple[UnknownKind, ...] = tuple(
    kind for kind in get_args(UnknownKind) if kind != "constraint_wrench"
)
"""What a robot has whose motion nothing holds: sensors are of such a one."""


def _row_or_rows(value: object) -> object:
    """Return one row (k,) or one number as a single row of a matrix."""
    if isinstance(value, (int, float)):
        return [[number(value)]]
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) and np.ndim(value[0]) == 0:
        return [value]
    return value


def _coefficients(value: object) -> dict[str, dict[str, tuple[tuple[float, ...], ...]]]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("must map quantities to names to coefficients")
    out: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {}
    for kind, parts in value.items():
        if kind not in KINDS:
            hint = nearest_name(str(kind), KINDS)
            raise ValueError(f"unknown quantity {kind!r}; use {', '.join(KINDS)}{hint}")
        if not isinstance(parts, Mapping) or not parts:
            raise ValueError(f"{kind} must map names to coefficients")
        out[kind] = {}
        for name, rows in parts.items():
            try:
                found = matrix(_row_or_rows(rows))
            except ValueError as error:
                raise ValueError(f"{kind} of {name!r} {error}") from None
            if found is None:
                raise ValueError(f"{kind} of {name!r} must be a row or a list of rows")
            out[kind][str(name)] = found
    if len({len(rows) for parts in out.values() for rows in parts.values()}) > 1:
        raise ValueError("must have the same number of rows everywhere")
    return out


_ROW: dict[str, Any] = {"type": "array", "items": NUMBER}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        kind: {
            "type": "object",
            "additionalProperties": {"anyOf": [NUMBER, _ROW, {"type": "array", "items": _ROW}]},
        }
        for kind in KINDS
    },
}
Coefficients = Annotated[Mapping[str, Mapping[str, Any]], Parameter(_coefficients, _SCHEMA)]


@final
@dataclass(frozen=True)
class LinearMeasurement(KnownSensor):
    """Any rows with constant coefficients on named quantities.

    y = sum over quantities  C @ quantity  +  bias

    Parameters
    ----------
    coefficients : quantity (torque, qdd, joint_wrench, acceleration, external_wrench,
        net_wrench) to name (of a joint for the first three, else of a body or frame, whose
        coordinates then count) to a row, or a list of rows, of coefficients.
    bias : one number for all rows, or one each.
    unit : of all rows, for messages.
    value : what y is known to be, so that no data are needed.

    Examples
    --------
    Two knees on one hydraulic line, their sum measured:

    >>> LinearMeasurement("line", {"torque": {"l_knee": [1.0], "r_knee": [1.0]}}, unit="N m")
    LinearMeasurement(name='line', ...)
    """

    kind: ClassVar[str] = "linear_measurement"
    coefficients: Coefficients
    bias: Values = 0.0
    unit: Annotated[str, Parameter(str, {"type": "string"})] = "1"
    value: Values = None

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        terms = [
            _term(unknowns, cast("UnknownKind", kind), name, np.asarray(rows))
            for kind, parts in self.coefficients.items()
            for name, rows in parts.items()
        ]
        size = len(terms[0].pattern)
        if isinstance(self.bias, Sequence) and len(self.bias) != size:
            raise ValueError(f"bias has {len(self.bias)} numbers, not {size}")
        bias = np.broadcast_to(np.asarray(self.bias or 0.0, dtype=np.float64), (size,))
        return SensorRows(
            labels=tuple(f"row[{k}]" for k in range(size)) if size > 1 else ("row",),
            units=(self.unit,) * size,
            body=terms[0].unknown.body,
            terms=tuple(terms),
            bias=(lambda kin: bias.copy()) if bias.any() else None,
        )


def _term(unknowns: UnknownLayout, kind: UnknownKind, name: str, C: Array) -> Term:
    robot = unknowns.robot
    of_joint = kind in OF_JOINTS
    body = robot.joint_index(name) if of_joint else robot.frame(name).body
    if body < 0:
        raise ValueError(f"the {kind} of {name!r}, on the fixed base, is no unknown")
    unknown = unknowns.block(kind, body)
    if C.shape[1] != unknown.size:
        raise ValueError(
            f"{kind} of {name!r} has {C.shape[1]} coefficients per row, not {unknown.size}"
        )
    if not of_joint:  # from the coordinates of the frame to those of its body
        to_frame = robot.frame(name).transform
        X = to_frame.matrix() if kind == "acceleration" else wrench_matrix(to_frame)
        C = np.asarray(C @ X)
    return Term.constant(unknown, C)
