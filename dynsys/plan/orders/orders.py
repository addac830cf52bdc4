"""Pivot orders of a sparse matrix, and the interface of everything that finds one.

A pivot order is a pair of permutations: pivot k of the elimination is the entry at row
``row_order[k]`` and column ``col_order[k]``, the diagonal of ``A[row_order][:, col_order]``.
Orders are made from the worst-case pattern (all q), so that one order serves every state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, final

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import StructurallySingularError
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, IntArray

__all__ = [
    "AbstractNested",
    "AbstractOrdering",
    "Natural",
    "OrderingContext",
    "Part",
    "Pattern",
    "PivotOrder",
    "entry_columns",
    "require_square",
    "sample_values",
]

Pattern: TypeAlias = "csc_array[np.bool_]"
"""Nonzeros of a matrix: a sparse matrix of True in compressed columns, rows ascending."""


class Part(NamedTuple):
    """Rows and columns of a part of a matrix."""

    rows: IntArray
    cols: IntArray


@final
@dataclass(frozen=True, eq=False, init=False)
class PivotOrder:
    """``A[row_order][:, col_order]`` is eliminated along its diagonal.

    Raises
    ------
    ValueError
        if either is not a permutation.

    Examples
    --------
    >>> PivotOrder([1, 0], [0, 1]).pivots
    [(1, 0), (0, 1)]
    """

    row_order: IntArray
    col_order: IntArray

    method: ClassVar[Literal["lu"]] = "lu"

    def __init__(
        self, row_order: Sequence[int] | IntArray, col_order: Sequence[int] | IntArray
    ) -> None:
        for name, given in (("row_order", row_order), ("col_order", col_order)):
            order = np.array(given, dtype=np.intp)
            if order.ndim != 1 or not is_permutation(order):
                raise ValueError(f"{name} is not a permutation of 0..{order.size - 1}")
            order.setflags(write=False)
            object.__setattr__(self, name, order)

    @staticmethod
    def of(pivots: Sequence[tuple[int, int]]) -> PivotOrder:
        """Order that takes the given pivots (row, column) one after the other."""
        return PivotOrder([r for r, _ in pivots], [c for _, c in pivots])

    @property
    def pivots(self) -> list[tuple[int, int]]:
        """Pivots (row, column) in their order."""
        return list(zip(self.row_order.tolist(), self.col_order.tolist(), strict=True))

    def encoded(self) -> dict[str, Any]:
        """Data that JSON holds; :meth:`decoded` reads them."""
        return {"rows": self.row_order.tolist(), "columns": self.col_order.tolist()}

    @staticmethod
    def decoded(content: Any) -> PivotOrder:
        """Order of :meth:`encoded` data; ValueError if they are no order."""
        if not isinstance(content, dict):
            raise ValueError("'order' is missing or no mapping")
        given: list[list[int]] = []
        for name in ("rows", "columns"):
            entries = content.get(name)
            if not isinstance(entries, list):
                raise ValueError(f"{name!r} of the order is missing or no list")
            for x in entries:
                if type(x) is not int or not 0 <= x < len(entries):
                    raise ValueError(
                        f"an entry of {name!r} is {x!r}, not a whole number in"
                        f" 0..{len(entries) - 1}"
                    )
            given.append(entries)
        if len(given[0]) != len(given[1]):
            raise ValueError("rows and columns of the order have different lengths")
        return PivotOrder(*given)

    def apply_pattern(self, pattern: Pattern) -> Pattern:
        """pattern[row_order][:, col_order], rows ascending in every column."""
        permuted = csc_array(pattern.tocsr()[self.row_order].tocsc()[:, self.col_order])
        permuted.sort_indices()
        return permuted

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PivotOrder)
            and np.array_equal(self.row_order, other.row_order)
            and np.array_equal(self.col_order, other.col_order)
        )

    def __hash__(self) -> int:
        return hash((self.row_order.tobytes(), self.col_order.tobytes()))


def is_permutation(order: IntArray) -> bool:
    """True if the entries are 0 .. len - 1 in some order."""
    n = len(order)
    if n and (order.min() < 0 or order.max() >= n):
        return False
    return bool((np.bincount(order, minlength=n) == 1).all())


@final
@dataclass(frozen=True, eq=False)
class OrderingContext:
    """What an ordering may know beyond the pattern.

    Parameters
    ----------
    system : the system whose pattern is ordered, for orders that follow the robot.
    values : (states, entries) values of the matrix at sampled states, in the order of the
        pattern's entries, for orders that look at the size of pivots.
    """

    system: LinearSystem | None = None
    values: Array | None = None

    @staticmethod
    def sampled(system: LinearSystem, states: int = 32) -> OrderingContext:
        """Return a context with the values of D at random states."""
        return OrderingContext(system, sample_values(system, states))

    def restricted(self, pattern: Pattern, part: Part) -> tuple[Pattern, OrderingContext]:
        """Submatrix ``pattern[rows][:, cols]`` and the context of its entries."""
        numbered = csc_array(
            (np.arange(1, pattern.nnz + 1), pattern.indices, pattern.indptr), pattern.shape
        )
        inner = csc_array(numbered.tocsr()[part.rows].tocsc()[:, part.cols])
        inner.sort_indices()
        values = None if self.values is None else self.values[:, inner.data - 1]
        return csc_array(inner.astype(bool)), OrderingContext(values=values)


def sample_values(system: LinearSystem, states: int, seed: int = 0) -> Array:
    """Values (states, entries) of D at random positions, in the order of its pattern."""
    robot = system.robot
    rng = np.random.default_rng(seed)
    out = np.zeros((states, system.nnz))
    for k in range(states):
        q = robot.random_configuration(rng, limited=False)
        kinematics = Kinematics.at(robot, q, rng.normal(size=robot.nv))
        out[k] = system.values(kinematics)[0]
    return out


class AbstractOrdering(ABC):
    """A way to find a pivot order. Concrete orderings are final frozen dataclasses."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name for tables."""

    @abstractmethod
    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        """Pivot order of a pattern that is known to be square."""

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        """Pivot order of a square matrix with this pattern.

        Raises
        ------
        StructurallySingularError
            if no values whatever make a matrix of this pattern regular.
        """
        require_square(pattern)
        return self.find(pattern, context or OrderingContext())


@final
@dataclass(frozen=True)
class Natural(AbstractOrdering):
    """Rows and columns as they come."""

    name: str = "natural"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        return PivotOrder(*map(np.arange, pattern.shape))


@dataclass(frozen=True)
class AbstractNested(AbstractOrdering):
    """An ordering of the outer structure that leaves irreducible parts to ``inner``."""

    outer: ClassVar[str]
    inner: AbstractOrdering = field(default_factory=Natural)

    @property
    def name(self) -> str:
        return f"{self.outer}, {self.inner.name}"

    def order_part(self, pattern: Pattern, context: OrderingContext, part: Part) -> Part:
        """Rows and columns of a part, in the order of its submatrix."""
        order = self.inner.order(*context.restricted(pattern, part))
        return Part(part.rows[order.row_order], part.cols[order.col_order])

    @staticmethod
    def joined(parts: Iterable[Part]) -> PivotOrder:
        """Order that takes the pivots of parts one after the other."""
        return PivotOrder(*map(np.concatenate, zip(*parts, strict=True)))


def require_square(pattern: Pattern) -> int:
    """Return the number of rows of a square pattern."""
    n_rows, n_cols = pattern.shape
    if n_rows != n_cols:
        raise StructurallySingularError(
            f"a pivot order needs as many equations as unknowns, got {n_rows} equations and"
            f" {n_cols} unknowns; see coarse_decomposition for what is determined"
        )
    return int(n_rows)


def entry_columns(pattern: Pattern) -> IntArray:
    """Column of every entry, in the order of the pattern; the rows are its ``indices``."""
    return np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))
