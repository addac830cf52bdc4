"""What a sensor is: named rows  y = Y d + b_Y  on the unknowns of a robot, and their noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from dynsys.errors import LayoutError, ModelError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock, Term, Values
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import Array
from sensors.parameters import Deviation, Matrix, Name, parameters

__all__ = [
    "AbstractConstraint",
    "AbstractSensor",
    "KnownSensor",
    "SensorRows",
    "sensor_kinds",
]

_KINDS: dict[str, type[AbstractSensor]] = {}


def sensor_kinds() -> Mapping[str, type[AbstractSensor]]:
    """Every sensor class by the word that layout files use for it."""
    return MappingProxyType(_KINDS)


@final
@dataclass(frozen=True, eq=False)
class SensorRows:
    """The rows of one sensor on the unknowns of one robot.

    Parameters
    ----------
    labels, units : of each row.
    body : body or joint the sensor sits on, -1 for the base or the robot as a whole.
    terms : coefficient blocks, their patterns planned once.
    bias : function of the kinematics giving (size,), None for zero.
    dual : unknown that pairs with the rows in the symmetric form, see EquationBlock.
    """

    labels: tuple[str, ...]
    units: tuple[str, ...]
    body: int
    terms: tuple[Term, ...]
    bias: Values | None = None
    dual: UnknownBlock | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.labels)


@dataclass(frozen=True)
class AbstractSensor(ABC):
    """One measurement, or one exact statement about the unknowns.

    y = Y(q) d + b_Y(q, qd) + noise

    A subclass is a final frozen dataclass that names its ``kind``, annotates its parameters
    with the types of :mod:`sensors.parameters` and says in :meth:`rows` which unknowns it
    touches. Nothing else changes anywhere: layout files, schema and messages follow.

    Parameters
    ----------
    name : unique name within a layout.
    std : standard deviation: one number, one per group of rows with the same unit, or one per
        row. Zero makes the rows exact. None: 1 for measurements (a layout says so), 0 for
        constraints.
    covariance : (size, size), in place of ``std``.
    """

    kind: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()

    name: Name
    std: Deviation = field(default=None, kw_only=True)
    covariance: Matrix = field(default=None, kw_only=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            for word in (cls.kind, *cls.aliases):
                if _KINDS.setdefault(word, cls).__qualname__ != cls.__qualname__:
                    raise TypeError(f"two sensor classes have the kind {word!r}")

    def __post_init__(self) -> None:
        for key, parameter in parameters(type(self)).items():
            try:
                object.__setattr__(self, key, parameter.check(getattr(self, key)))
            except (TypeError, ValueError) as error:
                raise LayoutError(f"{self}: {key} {error}") from None
        if self.std is not None and self.covariance is not None:
            raise LayoutError(f"{self}: give std or covariance, not both")

    def __str__(self) -> str:
        return f"sensor {self.name!r} ({self.kind})"

    @abstractmethod
    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        """Say which unknowns the sensor touches and how; ValueError if it cannot sit there."""

    def constant(self, size: int) -> Array | None:
        """Return the y (size,) that needs no data (constraints, known values), or None."""
        return None

    def validate(self, robot: KinematicTree) -> None:
        """Raise LayoutError, with the nearest valid name, if the robot has no such parts."""
        for key, parameter in parameters(type(self)).items():
            try:
                parameter.check_names(getattr(self, key), robot)
            except ValueError as error:
                raise LayoutError(f"{self}: {key}: {error}") from None

    def on(self, unknowns: UnknownLayout) -> SensorRows:
        """Rows on the unknowns, with LayoutError for whatever does not fit the robot."""
        self.validate(unknowns.robot)
        try:
            return self.rows(unknowns)
        except (ValueError, ModelError) as error:
            raise LayoutError(f"{self}: {error}") from None

    def blocks(self, unknowns: UnknownLayout) -> tuple[EquationBlock, ...]:
        """Equations  Y d + b_Y - y = 0  for :class:`dynsys.LinearSystem`: one block."""
        rows = self.on(unknowns)
        return (
            EquationBlock(
                name=self.name,
                kind=self.kind,
                body=rows.body,
                size=rows.size,
                terms=rows.terms,
                bias=rows.bias,
                measured=True,
                dual=rows.dual,
                units=rows.units,
            ),
        )

    def labels(self, robot: KinematicTree) -> tuple[str, ...]:
        """Names of the rows."""
        return self.on(UnknownLayout(robot, net_wrench=True)).labels

    def units(self, robot: KinematicTree) -> tuple[str, ...]:
        """Units of the rows."""
        return self.on(UnknownLayout(robot, net_wrench=True)).units

    def size(self, robot: KinematicTree) -> int:
        """Number of rows."""
        return len(self.labels(robot))

    def noise(self, rows: SensorRows) -> Array:
        """Covariance (size, size) of the rows; zero rows are exact."""
        if self.covariance is not None:
            return self._given_covariance(rows.size)
        if self.std is None:
            default = 1.0 if self.constant(rows.size) is None else 0.0
            return default * np.eye(rows.size)
        std = np.atleast_1d(np.asarray(self.std, dtype=np.float64))
        groups = _groups(rows.units)
        if len(std) == max(groups) + 1 and len(std) != rows.size:
            std = std[groups]
        if len(std) not in (1, rows.size):
            raise LayoutError(
                f"{self}: std has {len(std)} numbers; give one, {max(groups) + 1} (one per"
                f" unit) or {rows.size} (one per row: {', '.join(rows.labels)})"
            )
        return np.diag(np.broadcast_to(std, (rows.size,)) ** 2)

    def _given_covariance(self, size: int) -> Array:
        given = np.asarray(self.covariance, dtype=np.float64)
        if given.shape != (size, size):
            raise LayoutError(
                f"{self}: covariance must be {size} x {size}, got"
                f" {' x '.join(map(str, given.shape))}"
            )
        largest = float(np.abs(given).max(initial=0.0))
        if not np.allclose(given, given.T, rtol=0, atol=1e-12 * largest):
            raise LayoutError(f"{self}: covariance is not symmetric")
        if np.linalg.eigvalsh(given)[0] < -1e-12 * largest:
            raise LayoutError(f"{self}: covariance has a negative eigenvalue; no noise has it")
        return 0.5 * (given + given.T)


@dataclass(frozen=True)
class AbstractConstraint(AbstractSensor):
    """An exact statement y = 0: it needs no data, and has no noise unless ``std`` is given."""

    def constant(self, size: int) -> Array:
        return np.zeros(size)


@dataclass(frozen=True)
class KnownSensor(AbstractSensor):
    """A sensor whose parameter ``value`` may say what y is: one number for all rows, or each.

    It then needs no data, and has no noise unless ``std`` is given.
    """

    @property
    def _value(self) -> float | Sequence[float] | None:
        value: float | Sequence[float] | None = getattr(self, "value")  # noqa: B009
        return value

    def constant(self, size: int) -> Array | None:
        if isinstance(self._value, Sequence):
            return np.array(self._value, dtype=np.float64)
        return None if self._value is None else np.full(size, self._value, dtype=np.float64)

    def on(self, unknowns: UnknownLayout) -> SensorRows:
        rows = super().on(unknowns)
        if isinstance(self._value, Sequence) and len(self._value) != rows.size:
            raise LayoutError(f"{self}: value has {len(self._value)} numbers, not {rows.size}")
        return rows


def _groups(units: tuple[str, ...]) -> list[int]:
    """Number of each row's run of equal units."""
    groups = [0]
    for before, after in pairwise(units):
        groups.append(groups[-1] + (before != after))
    return groups
