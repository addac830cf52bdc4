"""The linear system D(q) d + b(q, qd) = 0 of a robot: pattern once, values often.

[NORI] eq. (5), (9), (15), (16): the laws of all bodies, and below them any further equations
(known quantities, sensors). Positions of all entries are worked out once, from the worst-case
patterns; a state only refills values.

Permutations are index arrays with the meaning ``D[row_order][:, col_order]`` throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import StateError, nearest_name
from dynsys.model.constraints import Constraint, checked_constraints
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import laws
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = ["LinearSystem"]

_GIVES: dict[str, UnknownKind] = {
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
    "balance": "joint_wrench",
    "torque": "torque",
}
"""Unknown that a law gives, by the law's kind."""


@final
@dataclass(frozen=True, eq=False, init=False)
class LinearSystem:
    """Named unknowns, named equations, the worst-case pattern, and the values at a state.

    Parameters
    ----------
    robot : the robot.
    net_wrench : True keeps the net wrenches f^B_i as unknowns (the 26N variant).
    constraints : what holds it: rows more, and as many forces as unknowns.

    Attributes
    ----------
    robot, unknowns, equations
        equations in the order of their rows.
    shape : rows and columns of D.
    indptr, indices : the worst-case pattern in compressed columns, rows ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from dynsys.model.joints import Revolute
    >>> from dynsys.model.tree import Body, KinematicTree
    >>> robot = KinematicTree("arm", [Body("link", -1, Revolute())])
    >>> D, b = LinearSystem(robot).assemble(np.zeros(1), np.zeros(1))
    >>> D.shape, b.shape
    ((13, 20), (13,))
    """

    robot: KinematicTree
    unknowns: UnknownLayout
    equations: tuple[EquationBlock, ...]

    def __init__(
        self,
        robot: KinematicTree,
        *,
        net_wrench: bool = False,
        constraints: Iterable[Constraint] = (),
    ) -> None:
        unknowns = UnknownLayout(robot, net_wrench, checked_constraints(robot, constraints))
        self._set(unknowns, tuple(laws(unknowns)))

    def _set(self, unknowns: UnknownLayout, equations: Sequence[EquationBlock]) -> None:
        object.__setattr__(self, "robot", unknowns.robot)
        object.__setattr__(self, "unknowns", unknowns)
        object.__setattr__(self, "equations", tuple(equations))
        names = [block.name for block in equations]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two equations are called {repeated!r}; names must be unique")

    def with_equations(self, equations: Sequence[EquationBlock]) -> LinearSystem:
        """Return the system with further rows at the end, on the same unknowns."""
        extended = object.__new__(LinearSystem)
        extended._set(self.unknowns, (*self.equations, *equations))
        return extended

    # ---- rows ----------------------------------------------------------------------------

    @cached_property
    def _row_starts(self) -> IntArray:
        return np.cumsum([0, *(block.size for block in self.equations)])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of equations and of unknowns."""
        return int(self._row_starts[-1]), self.unknowns.size

    @cached_property
    def _number(self) -> dict[str, int]:
        """Number of every equation by its name."""
        return {block.name: k for k, block in enumerate(self.equations)}

    def equation(self, name: str) -> EquationBlock:
        """Equation by its name."""
        if name not in self._number:
            hint = nearest_name(name, tuple(self._number))
            raise KeyError(f"the system has no equation {name!r}{hint}")
        return self.equations[self._number[name]]

    def rows(self, equation: EquationBlock) -> IntArray:
        """Rows of D (size,) that an equation of this system fills."""
        start = self._row_starts[self._number[self.equation(equation.name).name]]
        return np.arange(start, start + equation.size)

    @cached_property
    def measured_rows(self) -> IntArray:
        """Rows of D that take a known value y, in the order of y."""
        rows = [self.rows(block) for block in self.equations if block.measured]
        return np.concatenate([np.zeros(0, dtype=np.intp), *rows]).astype(np.intp)

    # ---- pattern -------------------------------------------------------------------------

    @cached_property
    def open_columns(self) -> IntArray:
        """Columns that z = (qdd, external wrenches) fills: the laws give all others."""
        kinds = ("qdd", "external_wrench")
        return np.concatenate([b.columns for b in self.unknowns.blocks if b.kind in kinds])

    @cached_property
    def inverse_dynamics(self) -> tuple[tuple[EquationBlock, UnknownBlock], ...]:
        """The laws in the order of inverse dynamics, each with the unknown that it gives.

        The unknown's coefficient there is minus one, so given z nothing is divided.
        """
        laws = {(law.kind, law.body): law for law in self.equations if not law.measured}
        bodies = range(self.robot.n_bodies)
        order = [("acceleration", i) for i in bodies]
        order += [(kind, i) for i in reversed(bodies) for kind in ("net_wrench", "balance")]
        order += [("torque", i) for i in bodies]
        found = [laws[key] for key in order if key in laws]
        return tuple((law, self.unknowns.block(_GIVES[law.kind], law.body)) for law in found)

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        return tuple(term for block in self.equations for term in block.terms)

    @cached_property
    def _coordinates(self) -> tuple[IntArray, IntArray]:
        """Row and column of every entry of every term, terms in order, row by row."""
        terms_each = [len(block.terms) for block in self.equations]
        first_row = np.repeat(self._row_starts[:-1], terms_each)
        first_column = np.array([term.unknown.start for term in self._terms])
        width = np.array([term.unknown.size for term in self._terms])
        size = np.array([term.pattern.size for term in self._terms])
        flat = np.concatenate([term.pattern.ravel() for term in self._terms])
        entry = np.flatnonzero(flat)
        term = np.repeat(np.arange(len(size)), size)[entry]
        row, column = np.divmod(entry - (np.cumsum(size) - size)[term], width[term])
        return first_row[term] + row, first_column[term] + column

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Keys (column-major positions) of the pattern, and the place of each entry in it."""
        rows, columns = self._coordinates
        keys, places = np.unique(columns * self.shape[0] + rows, return_inverse=True)
        return keys, places

    @cached_property
    def indices(self) -> IntArray:
        """Row of every entry of the worst-case pattern, column by column."""
        return self._places[0] % self.shape[0]

    @cached_property
    def indptr(self) -> IntArray:
        """First entry of each column, (columns + 1,)."""
        n_rows, n_cols = self.shape
        return np.searchsorted(self._places[0], np.arange(n_cols + 1) * n_rows)

    @property
    def nnz(self) -> int:
        """Number of entries that are nonzero for some q."""
        return len(self._places[0])

    def pattern(self) -> csc_array[np.bool_]:
        """Worst-case nonzeros of D over all q, as a sparse matrix of True."""
        return csc_array(
            (np.ones(self.nnz, dtype=bool), self.indices, self.indptr), shape=self.shape
        )

    # ---- values --------------------------------------------------------------------------

    @cached_property
    def _split(self) -> tuple[Array, IntArray, tuple[Term, ...]]:
        """Constant entries in place, where the others go, and the terms that give them."""
        entries = np.zeros(len(self._places[1]))
        places: list[IntArray] = [np.zeros(0, dtype=np.intp)]
        varying: list[Term] = []
        start = 0
        for term in self._terms:
            stop = start + int(term.pattern.sum())
            if callable(term.value):
                varying.append(term)
                places.append(np.arange(start, stop))
            else:
                entries[start:stop] = term.value[term.pattern]
            start = stop
        return entries, np.concatenate(places), tuple(varying)

    @cached_property
    def _repeated(self) -> IntArray:
        """Entries that fall on a place another term has filled before."""
        first = np.unique(self._places[1], return_index=True)[1]
        return np.setdiff1d(np.arange(len(self._places[1])), first)

    def values(self, kinematics: Kinematics) -> tuple[ScalarArray, ScalarArray]:
        """Values of D in the order of ``indices``, and b without y: scalars of any kind."""
        template, varying, terms = self._split
        entries: ScalarArray = template
        if terms:
            found = np.concatenate([term.entries(kinematics) for term in terms])
            entries = template.astype(np.result_type(template, found))
            entries[varying] = found
        places, data = self._places[1], np.zeros(self.nnz, dtype=entries.dtype)
        data[places[::-1]] = entries[::-1]  # the first of repeated entries stays
        for e in self._repeated.tolist():
            data[places[e]] = data[places[e]] + entries[e]
        bias = np.concatenate([block.bias_at(kinematics) for block in self.equations])
        return data, bias

    def assemble(
        self, q: ArrayLike, qd: ArrayLike, y: ArrayLike | None = None
    ) -> tuple[csc_array[np.float64], Array]:
        """D (rows, columns) and b (rows,) with D d + b = 0, at a state.

        Parameters
        ----------
        q, qd : position (nq,) and velocity (nv,).
        y : known values in the order of ``measured_rows``; zero if None.

        Raises
        ------
        StateError
            if a vector has a wrong length or a value that is not finite.
        """
        q, qd = self.robot.check_q(q), self.robot.check_v(qd, "qd")
        data, b = self.values(Kinematics.at(self.robot, q, qd))
        if y is not None:
            known, count = np.asarray(y, dtype=np.float64), len(self.measured_rows)
            if known.shape != (count,) or not np.isfinite(known).all():
                raise StateError(f"y must be {count} finite numbers, got shape {known.shape}")
            b[self.measured_rows] -= known
        return csc_array((data, self.indices, self.indptr), shape=self.shape), b
