"""What a parameter of a sensor may be: how it is checked, and how editors complete it.

A sensor annotates its fields with these types and has nothing more to do: construction, layout
files, their JSON schema and their error messages all read the annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, final, get_type_hints

import numpy as np

from dynsys.errors import nearest_name
from dynsys.model.tree import KinematicTree

__all__ = [
    "AXES",
    "Components",
    "Direction",
    "FrameName",
    "JointName",
    "JointOrWeld",
    "Matrix",
    "MotionComponents",
    "Name",
    "Number",
    "Parameter",
    "Positive",
    "Values",
    "Vector3",
    "WrenchAxes",
    "choice",
    "of",
    "parameters",
    "plain",
    "sensor_name",
]

AXES = ("tx", "ty", "tz", "fx", "fy", "fz")
"""Components of a wrench, moment first."""

MOTIONS = ("rx", "ry", "rz", "x", "y", "z")
"""Components of a relative motion, rotation first."""

Schema: TypeAlias = dict[str, Any]
NUMBER: Schema = {"type": "number"}


@final
@dataclass(frozen=True, eq=False)
class Parameter:
    """A kind of parameter.

    Parameters
    ----------
    check : returns the value as it is kept; ValueError or TypeError says what is wrong.
    schema : JSON schema of the value.
    known : names of the robot that the value must be one of, if any.
    """

    check: Callable[[Any], Any]
    schema: Schema
    known: Callable[[KinematicTree], Sequence[str]] | None = None

    def check_names(self, value: object, robot: KinematicTree) -> None:
        """Raise ValueError with the nearest valid name if the robot has no such part."""
        if self.known is None or value is None:
            return
        known = self.known(robot)
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str) and name not in known:
                hint = nearest_name(name, known)
                raise ValueError(f"robot {robot.name!r} has no {name!r}{hint}")
            if isinstance(name, int) and not -1 <= name < robot.n_bodies:
                raise ValueError(f"robot {robot.name!r} has no body {name}")

    def schema_for(self, robot: KinematicTree | None) -> Schema:
        """JSON schema of the value; with a robot, its names and no others."""
        if robot is None or self.known is None:
            return self.schema
        names: list[Any] = list(self.known(robot))
        return {"enum": [*names, -1] if "integer" in self.schema["type"] else names}


def of(kind: Any) -> Parameter:
    """The parameter that a type below stands for."""
    found: Parameter = kind.__metadata__[0]
    return found


@cache
def parameters(sensor: type) -> Mapping[str, Parameter]:
    """Parameters of a sensor class by field, in the order of the fields."""
    found: dict[str, Parameter] = {}
    for field, hint in get_type_hints(sensor, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Parameter):
                found[field] = note
    return MappingProxyType(found)


def plain(value: object) -> object:
    """Return a kept value as lists, mappings, numbers and strings."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


# ---- checks ----------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"must be a name, got {value!r}; quote it if it looks like a number")
    return str(value)  # not NumPy's, which files and fingerprints would tell from it


def _sensor_name(value: object) -> str:
    text = _text(value)
    if "(" in text or ")" in text:
        raise ValueError(f"a sensor's name must not hold parentheses, got {value!r}")
    return text


def sensor_name(part: str, *more: str) -> str:
    """Name for a sensor after a part of a robot, whose name may hold parentheses.

    >>> sensor_name("foot (left)", "torque")
    'foot [left]/torque'
    """
    return "/".join((part, *more)).replace("(", "[").replace(")", "]")


def _frame(value: object) -> str | int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    return _text(value)


def number(value: object) -> float:
    """Value as a finite float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ValueError(f"must be a number, got {value!r}")
    if not np.isfinite(value):
        raise ValueError(f"must be a finite number, got {value!r}")
    return float(value)


def _positive(value: object) -> float:
    if (x := number(value)) <= 0:
        raise ValueError(f"must be positive, got {x:g}")
    return x


def _listed(value: object) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(
        value, (Sequence, np.ndarray)
    ):
        raise ValueError(f"must be a list, got {value!r}")
    return list(value)


def numbers(value: object, length: int | None = None) -> tuple[float, ...]:
    """Value as a tuple of finite floats."""
    out = tuple(number(item) for item in _listed(value))
    if length is not None and len(out) != length:
        raise ValueError(f"must hold {length} numbers, got {len(out)}")
    return out


def _vector3(value: object) -> tuple[float, ...]:
    return numbers(value, 3)


def _direction(value: object) -> tuple[float, ...]:
    out = numbers(value, 3)
    if not any(out):
        raise ValueError("must be a direction, got three zeros")
    return out


def _values(value: object) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return numbers(value) if isinstance(value, (list, tuple, np.ndarray)) else number(value)


def _deviations(value: object) -> float | tuple[float, ...] | None:
    out = _values(value)
    if out is not None and np.any(np.asarray(out) < 0):
        raise ValueError(f"a standard deviation must not be negative, got {out}")
    return out


def matrix(value: object) -> tuple[tuple[float, ...], ...] | None:
    """Value as a rectangular tuple of rows, or None."""
    if value is None:
        return None
    rows = tuple(numbers(row) for row in _listed(value))
    if not rows or len({len(row) for row in rows}) > 1:
        raise ValueError("must be a list of rows of equal length")
    return rows


def _some_of(allowed: Sequence[str]) -> Callable[[Any], tuple[str, ...]]:
    def check(value: object) -> tuple[str, ...]:
        names = tuple(_listed(value))
        for name in names:
            if name not in allowed:
                hint = nearest_name(str(name), allowed)
                raise ValueError(f"unknown component {name!r}; use {', '.join(allowed)}{hint}")
        if not names or len(set(names)) < len(names):
            raise ValueError("must name at least one component, each once")
        return tuple(map(str, names))

    return check


def _freedom(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"must be the number of a freedom, counted from 0, got {value!r}")
    return int(value)


def choice(*allowed: str) -> Parameter:
    """One of the given words."""

    def check(value: object) -> str:
        if value not in allowed:
            hint = nearest_name(str(value), allowed)
            raise ValueError(f"must be one of {', '.join(allowed)}, got {value!r}{hint}")
        return str(value)

    return Parameter(check, {"enum": list(allowed)})


def _boolean(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"must be true or false, got {value!r}")
    return bool(value)


# ---- types to annotate fields with -----------------------------------------------------------

_VECTOR: Schema = {"type": "array", "items": NUMBER, "minItems": 3, "maxItems": 3}
_NUMBERS: Schema = {"type": "array", "items": NUMBER}
_ROWS: Schema = {"type": "array", "items": _NUMBERS}


def _components(allowed: Sequence[str]) -> Parameter:
    items = {"enum": list(allowed)}
    return Parameter(_some_of(allowed), {"type": "array", "items": items, "uniqueItems": True})


def _frames(robot: KinematicTree) -> Sequence[str]:
    return tuple(robot.frames)


def _axes(robot: KinematicTree) -> Sequence[str]:
    return ("frame", "world", *robot.frames)


def _joints(robot: KinematicTree) -> Sequence[str]:
    return robot.joint_names


def _joints_and_welds(robot: KinematicTree) -> Sequence[str]:
    return (*robot.joint_names, *robot.welds)


Name = Annotated[str, Parameter(_sensor_name, {"type": "string"})]
FrameName = Annotated[str | int, Parameter(_frame, {"type": ["string", "integer"]}, _frames)]
WrenchAxes = Annotated[str | int, Parameter(_frame, {"type": ["string", "integer"]}, _axes)]
"""Axes that a wrench is told in: ``frame`` for those of its own, ``world``, another frame's."""
JointName = Annotated[str, Parameter(_text, {"type": "string"}, _joints)]
JointOrWeld = Annotated[str, Parameter(_text, {"type": "string"}, _joints_and_welds)]
Number = Annotated[float, Parameter(number, NUMBER)]
Positive = Annotated[float, Parameter(_positive, {"type": "number", "exclusiveMinimum": 0})]
Flag = Annotated[bool, Parameter(_boolean, {"type": "boolean"})]
Vector3 = Annotated[Sequence[float], Parameter(_vector3, _VECTOR)]
Direction = Annotated[Sequence[float], Parameter(_direction, _VECTOR)]
Freedom = Annotated[
    int | None, Parameter(_freedom, {"type": ["integer", "null"], "minimum": 0})
]
Values = Annotated[
    float | Sequence[float] | None,
    Parameter(_values, {"anyOf": [NUMBER, _NUMBERS, {"type": "null"}]}),
]
Deviation = Annotated[
    float | Sequence[float] | None,
    Parameter(
        _deviations,
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "array", "items": {"type": "number", "minimum": 0}},
            ]
        },
    ),
]
Matrix = Annotated[Sequence[Sequence[float]] | None, Parameter(matrix, _ROWS)]
Components = Annotated[Sequence[str], _components(AXES)]
MotionComponents = Annotated[Sequence[str], _components(MOTIONS)]
