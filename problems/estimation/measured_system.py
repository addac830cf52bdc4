"""The laws and the readings of a layout on the same unknowns: D d + b_D = 0, y = Y d + b_Y."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from scipy.sparse import block_diag, csc_array

from dynsys.errors import LayoutError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import Array, ArrayLike, BoolArray, IntArray
from problems.estimation.least_squares import Rows, WhitenedRows, whiten
from problems.estimation.posterior import Equations
from problems.estimation.prior import Prior, PriorRows
from sensors.layout import Layout

__all__ = [
    "Active",
    "LawResponse",
    "MeasuredSystem",
    "Readings",
]

Readings: TypeAlias = Mapping[str, ArrayLike] | ArrayLike
"""Readings by sensor name, or all of them in the order of the layout."""

Active: TypeAlias = Mapping[str, ArrayLike]
"""Sensor name to truth value: False where a contact or constraint does not hold."""

KEPT = 16
"""Sets of missing readings whose whitening is kept."""


@final
@dataclass(frozen=True, eq=False)
class MeasuredSystem:
    """Laws, then one block of rows per sensor, then the prior; everything found once.

    Attributes
    ----------
    robot, layout, prior
        what it was made from.
    """

    robot: KinematicTree
    layout: Layout
    prior: Prior | None

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise LayoutError(
                "an estimation needs a robot and its sensors.Layout, got"
                f" {self.layout!r:.80}; write Layout(robot, sensors)"
            )
        if not isinstance(self.prior, Prior | None):
            raise LayoutError(
                f"the prior must be a problems.Prior or the std of one, got {self.prior!r:.80}"
            )

    @cached_property
    def laws(self) -> LinearSystem:
        """The laws; net wrenches are unknowns only if a sensor or the prior names them."""
        unknowns = UnknownLayout(self.robot, net_wrench=True)
        touched: set[str] = {
            term.unknown.kind
            for block in self.layout.equations(unknowns)
            for term in block.terms
        }
        if self.prior is not None:
            touched |= set(self.prior.std)
        return LinearSystem(self.robot, net_wrench="net_wrench" in touched)

    @cached_property
    def prior_rows(self) -> PriorRows:
        """Rows of the prior, none if there is none."""
        if self.prior is None:
            return PriorRows((), np.zeros(0), np.zeros(0))
        return self.prior.rows(self.laws.unknowns)

    @cached_property
    def readings(self) -> tuple[EquationBlock, ...]:
        """Equations of the sensors and of the prior."""
        return (*self.layout.equations(self.laws.unknowns), *self.prior_rows.equations)

    @cached_property
    def whole(self) -> LinearSystem:
        """Laws and readings."""
        return self.laws.with_equations(self.readings)

    @cached_property
    def response(self) -> LawResponse:
        """The laws solved for what they determine."""
        return LawResponse(self.laws)

    @property
    def needed(self) -> int:
        """Number of readings that the laws leave room for."""
        return len(self.response.open_columns)

    # ---- noise ---------------------------------------------------------------------------

    @cached_property
    def covariance(self) -> csc_array[np.float64]:
        """Covariance of all readings: sensors, then prior."""
        prior = np.diag(self.prior_rows.std**2)
        return csc_array(block_diag([self.layout.covariance(), prior], format="csc"))

    @cached_property
    def variance(self) -> Array:
        """Variance (m,) of every reading."""
        return np.asarray(self.covariance.diagonal())

    @cached_property
    def _whitenings(self) -> dict[bytes, WhitenedRows]:
        return {}

    def whitened(self, present: BoolArray) -> WhitenedRows:
        """Exact rows and rows of unit noise among the readings that are present."""
        key = present.tobytes()
        if key not in self._whitenings:
            if len(self._whitenings) >= KEPT:
                self._whitenings.clear()
            self._whitenings[key] = whiten(self.covariance, present)
        return self._whitenings[key]

    # ---- values at a state ---------------------------------------------------------------

    @cached_property
    def _entries(
        self,
    ) -> tuple[BoolArray, tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """Which entries of the pattern belong to laws; patterns of D and of Y."""
        whole, n_laws = self.whole, self.laws.shape[0]
        is_law = whole.indices < n_laws
        law_ptr = np.concatenate([[0], np.cumsum(is_law)])[whole.indptr]
        of_laws = (whole.indices[is_law], law_ptr)
        of_readings = (whole.indices[~is_law] - n_laws, whole.indptr - law_ptr)
        return is_law, of_laws, of_readings

    def at(self, kinematics: Kinematics) -> tuple[Equations, Equations]:
        """(D, b_D) and (Y, b_Y) at a state."""
        return self.parts(*self.whole.values(kinematics))

    def parts(self, data: Array, b: Array) -> tuple[Equations, Equations]:
        """(D, b_D) and (Y, b_Y) from the values of the whole system."""
        is_law, of_laws, of_readings = self._entries
        n_laws, n = self.laws.shape
        D = csc_array((data[is_law], *of_laws), shape=(n_laws, n))
        Y = csc_array((data[~is_law], *of_readings), shape=(len(b) - n_laws, n))
        return (D, b[:n_laws]), (Y, b[n_laws:])

    def reduced(
        self, kinematics: Kinematics, Y: csc_array[np.float64], c: Array
    ) -> tuple[Rows, Array]:
        """Rows  Y d = c  as functions of the open unknowns z, and [T, d_0]."""
        response = self.response.at(kinematics)
        B = np.asarray(Y @ response)
        magnitude = np.asarray(abs(Y) @ np.abs(response[:, :-1]))
        return Rows.from_terms(B[:, :-1], magnitude, c - B[:, -1]), response

    def seen(self, kinematics: Kinematics, directions: Array) -> Array:
        """What the readings see (m, k) of directions Z (size of z, k): Y T Z."""
        return self.read(kinematics, self.response.at(kinematics, directions, bias=False))[
            :, :-1
        ]

    def read(self, kinematics: Kinematics, d: Array, *, absolute: bool = False) -> Array:
        """Y d (m, k + 1) of unknowns d (n, k + 1), b_Y added to the last column.

        In the scalars of the kinematics; ``absolute`` sums the magnitudes of all terms.
        """
        parts = [np.zeros((0, d.shape[1]))]
        for block in self.readings:
            part = np.zeros((block.size, d.shape[1]), dtype=d.dtype)
            for term in block.terms:
                value = term.value(kinematics) if callable(term.value) else term.value
                part += (abs(value) if absolute else value) @ d[term.unknown.slice]
            bias = block.bias_at(kinematics)
            part[:, -1] += abs(bias) if absolute else bias
            parts.append(part)
        return np.concatenate(parts)

    # ---- data ----------------------------------------------------------------------------

    def pack(self, y: Readings, active: Active | None, n: int | None) -> Array:
        """Readings and prior means (m,), or (n, m): NaN for what is missing or not active.

        Raises
        ------
        LayoutError
            a sensor or a reading is missing, unknown, or of wrong size.
        StateError
            a reading is not numeric or infinite.
        """
        packed = self._packed(y)
        size = self.layout.size
        expected = (size,) if n is None else (n, size)
        if packed.shape not in (expected, (size,)):
            raise LayoutError(
                f"y must have shape {expected} for the {len(self.layout)} sensors of the"
                f" layout, got {packed.shape}"
            )
        if np.isinf(packed).any():
            *sample, row = np.argwhere(np.isinf(packed))[0].tolist()
            which = f" of sample {sample[0]}" if sample else ""
            raise StateError(
                f"y: the reading {self.layout.labels[row]!r}{which} is infinite; NaN means that"
                " there is none"
            )
        rows = np.empty((*expected[:-1], self.covariance.shape[0]))
        rows[..., :size], rows[..., size:] = packed, self.prior_rows.mean
        if not isinstance(active, Mapping | None):
            raise LayoutError(
                f"active must map names of sensors to True or False, got {active!r:.80}"
            )
        for name, on in (active or {}).items():
            rows[~self._truth(name, on, expected[:-1]), self.layout.slice(name)] = np.nan
        return rows

    def _truth(self, name: str, on: ArrayLike, shape: tuple[int, ...]) -> BoolArray:
        """Whether a sensor is active, at every state."""
        given = np.asarray(on)
        is_truth = given.dtype.kind in "biuf" and bool(np.isin(given, (0, 1)).all())
        if given.shape not in ((), shape) or not is_truth:
            wanted = f"True or False, or {shape[0]} of them" if shape else "True or False"
            raise LayoutError(f"active: sensor {name!r} takes {wanted}, got {on!r:.80}")
        return np.broadcast_to(given.astype(bool), shape)

    def _packed(self, y: Readings) -> Array:
        if isinstance(y, Mapping):
            return self.layout.pack(y)
        try:
            return np.array(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise StateError(f"y is not numeric: {error}") from None

    def labels(self, rows: IntArray) -> list[str]:
        """Names ``sensor.component`` of readings; those of the prior left out."""
        return [self.layout.labels[k] for k in rows.tolist() if k < self.layout.size]


# ----------------------------------------------------------------------
# The laws solved for what they determine: d = T z + d_0, with z = (qdd, external wrenches).
#
# The laws D d + b_D = 0 leave exactly the joint accelerations and the external wrenches open.
# Given those, the recursion of inverse dynamics yields every other unknown without a division,
# so T and d_0 exist at every state and estimation is a small problem in z.

_GIVEN_BY: dict[str, UnknownKind] = {
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
    "balance": "joint_wrench",
    "torque": "torque",
}
"""Unknown that each law gives; its coefficient there is minus one."""


@final
@dataclass(frozen=True, eq=False)
class LawResponse:
    """T (unknowns, freedoms of z) and d_0 (unknowns,) of a robot at any state.

    Parameters
    ----------
    system : a system whose equations begin with, or are, the laws of its robot.
    """

    system: LinearSystem

    @cached_property
    def open_blocks(self) -> tuple[UnknownBlock, ...]:
        """The unknowns z, in the order of their columns."""
        blocks = self.system.unknowns.blocks
        return tuple(b for b in blocks if b.kind in ("qdd", "external_wrench"))

    @cached_property
    def open_columns(self) -> IntArray:
        """Columns of D that z fills."""
        return np.concatenate([block.columns for block in self.open_blocks])

    @cached_property
    def _steps(self) -> tuple[tuple[UnknownBlock, EquationBlock, tuple[Term, ...]], ...]:
        """Unknown, its law, and the law's other terms, in the order of inverse dynamics."""
        unknowns = self.system.unknowns
        laws: dict[tuple[str, int], EquationBlock] = {}
        for equation in self.system.equations:
            if not equation.measured and equation.kind in _GIVEN_BY:
                laws[equation.kind, equation.body] = equation
        bodies = range(unknowns.robot.n_bodies)
        order = [("acceleration", i) for i in bodies]
        for i in reversed(bodies):
            if unknowns.net_wrench:
                order.append(("net_wrench", i))
            order.append(("balance", i))
        order += [("torque", i) for i in unknowns.driven]
        steps = []
        for key in order:
            law = laws[key]
            target = unknowns.block(_GIVEN_BY[law.kind], law.body)
            others = tuple(term for term in law.terms if term.unknown is not target)
            steps.append((target, law, others))
        return tuple(steps)

    def at(
        self,
        kinematics: Kinematics,
        directions: Array | None = None,
        *,
        bias: bool = True,
        absolute: bool = False,
    ) -> Array:
        """[T Z, d_0] (unknowns, k + 1) at a state, in the scalars of its kinematics.

        Parameters
        ----------
        kinematics : the state.
        directions : Z (size of z, k), the identity if None.
        bias : False leaves d_0 zero.
        absolute : True sums the magnitudes of all terms instead.
        """
        columns = self.open_columns
        Z = np.eye(len(columns)) if directions is None else directions
        size = self.system.unknowns.size, Z.shape[1] + 1
        d = np.zeros(size, dtype=np.result_type(kinematics.qd, np.float64))
        d[columns, :-1] = np.abs(Z) if absolute else Z
        for target, law, others in self._steps:
            value = d[target.slice]
            for term in others:
                coefficient = term.value(kinematics) if callable(term.value) else term.value
                value += (abs(coefficient) if absolute else coefficient) @ d[term.unknown.slice]
            if bias and law.bias is not None:
                given = law.bias(kinematics)
                value[:, -1] += abs(given) if absolute else given
        return d
