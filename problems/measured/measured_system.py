"""The measured system: laws and readings on the same unknowns, D d + b_D = 0, y = Y d + b_Y.

Everything that depends on robot, layout and prior alone is found here once: which unknowns
there are, the patterns of D and Y, the covariance of y. A state fills in values, as sparse
matrices (:meth:`MeasuredSystem.at`), as the saddle system of least squares
(:meth:`MeasuredSystem.saddle`) or as the reduced system (:meth:`MeasuredSystem.reduced`).
Verdict, estimation, placement and the studio all start from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, final, get_args

import numpy as np
from scipy.sparse import block_diag, csc_array

from dynsys.errors import LayoutError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import equations_digest
from dynsys.plan.saddle import SparseSaddle
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.response import LawResponse, read_blocks
from dynsys.system.size import natural_units, reading_sizes
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from problems.measured.prior import Prior, PriorRows, prior_rows
from problems.measured.reduced import ReducedSystem, WhitenedRows, rank_of, whiten
from sensors.layout import Layout, is_table

__all__ = [
    "QUANTITIES",
    "Active",
    "Equations",
    "MeasuredSystem",
    "Quantity",
    "Readings",
    "Statements",
    "at_frame",
    "joint_covariance",
]

Equations: TypeAlias = "tuple[csc_array[np.float64], Array]"
"""Matrix and vector."""

Quantity: TypeAlias = Literal[
    "torque", "qdd", "acceleration", "joint_wrench", "external_wrench"
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
"""What is estimated, in the order of reports and files."""

Readings: TypeAlias = Mapping[str, ArrayLike] | ArrayLike
"""Readings by sensor name, or all of them in the order of the layout."""

Active: TypeAlias = Mapping[str, ArrayLike]
"""Sensor name to truth value: False where a contact or constraint does not hold."""

KEPT = 16
"""Sets of missing readings whose whitening is kept."""


@final
@dataclass(frozen=True, eq=False)
class Statements:
    """Exact readings that say what one entry of z is, whatever the state.

    Most of z is known so: no external wrench on this link, or on that one.

    Attributes
    ----------
    rows, entries, scale : (s,) reading ``rows[i]`` is ``scale[i]`` times ``z[entries[i]]``.
    left : (k,) entries of z that none of them says.
    others : (m,) True for all other readings.
    blocks : equations that have some of these, whole.
    """

    rows: IntArray
    entries: IntArray
    scale: Array
    left: IntArray
    others: BoolArray
    blocks: tuple[tuple[slice, EquationBlock], ...]

    def values(self, y: Array, n: int) -> Array:
        """z_S (n,): what they say, zero elsewhere."""
        z = np.zeros(n)
        z[self.entries] = y[self.rows] / self.scale
        return z


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
        self.layout.require_sides()
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
        return prior_rows(self.prior, self.laws.unknowns)

    @cached_property
    def readings(self) -> tuple[EquationBlock, ...]:
        """Equations of the sensors and of the prior."""
        return (*self.layout.equations(self.laws.unknowns), *self.prior_rows.equations)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells kernels of these readings from others: layout, prior, values of rows."""
        rows = equations_digest(self.robot, self.readings)
        return self.layout.fingerprint(), repr(self.prior), rows

    @cached_property
    def whole(self) -> LinearSystem:
        """Laws and readings."""
        return self.laws.with_equations(self.readings)

    @cached_property
    def response(self) -> LawResponse:
        """The laws solved for what they determine."""
        return LawResponse(self.laws)

    @cached_property
    def units(self) -> Array:
        """Natural unit of each entry of z."""
        return natural_units(self.laws)

    @property
    def needed(self) -> int:
        """Number of readings that the laws leave room for."""
        return len(self.response.open_columns)

    # ---- noise ---------------------------------------------------------------------------

    @cached_property
    def covariance(self) -> csc_array[np.float64]:
        """Covariance of all readings: sensors, then prior."""
        return joint_covariance(self.layout, self.prior_rows)

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

    def saddle(self) -> SparseSaddle:
        """The symmetric system of the least-squares estimate, its pattern."""
        (D, _), (Y, _) = self.parts(np.ones(self.whole.nnz), np.ones(self.whole.shape[0]))
        return SparseSaddle(D, Y, self.covariance)

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
        self, kinematics: Kinematics, y: Array | None = None, stated: Statements | None = None
    ) -> ReducedSystem:
        """Readings ``y`` (m,), zero if None, as rows of the reduced unknowns at a state.

        With ``stated`` of the entries that statements leave, z = z_S + K x, rows of statements
        zero: answers are the same, and where most of z is stated take a fraction of the time.
        """
        n, m = self.needed, len(self.variance)
        y = np.zeros(m) if y is None else y
        stated = self.statements(np.zeros(m, dtype=bool)) if stated is None else stated
        k, z = len(stated.left), stated.values(y, n)
        directions = np.zeros((n, k + 1))
        directions[stated.left, np.arange(k)], directions[:, k] = 1.0, z
        d = self.response.at(kinematics, directions)  # [T K, T z_S, d_0]
        response = np.column_stack([d[:, :k], d[:, k] + d[:, k + 1]])
        sizes = self.response.sizes.at(kinematics)
        size = np.column_stack([sizes[:, stated.left], sizes[:, :n] @ np.abs(z) + sizes[:, n]])
        seen, seen_size = np.zeros((m, k + 1)), np.zeros((m, k + 1))
        blocks = [block for _, block in stated.blocks]
        where = np.concatenate([np.zeros(0, np.intp), *(np.r_[at] for at, _ in stated.blocks)])
        seen[where] = read_blocks(blocks, kinematics, response)
        seen_size[where] = reading_sizes(blocks, kinematics, size)
        whole = (response, size), (seen, seen_size)
        return ReducedSystem.of(kinematics, *whole, y, self.units[stated.left])

    @cached_property
    def _stating(self) -> tuple[IntArray, IntArray, Array]:
        """Exact readings of one entry of z at every state, these entries, and their factors."""
        place = np.full(self.laws.unknowns.size, -1)
        place[self.response.open_columns] = np.arange(self.needed)
        alone = np.diff(self.covariance.indptr) == 0
        found, row = [], 0
        for block in self.readings:
            if block.bias is None and all(term.is_constant for term in block.terms):
                factors = np.zeros((block.size, self.laws.unknowns.size))
                for term in block.terms:
                    factors[:, term.unknown.slice] += np.asarray(term.value)
                for i, factor in enumerate(factors):
                    (filled,) = np.nonzero(factor)
                    if len(filled) == 1 and place[filled[0]] >= 0 and alone[row + i]:
                        found.append((row + i, int(place[filled[0]]), factor[filled[0]]))
            row += block.size
        rows, entries, scale = zip(*found, strict=True) if found else ((), (), ())
        return np.array(rows, np.intp), np.array(entries, np.intp), np.array(scale, np.float64)

    @cached_property
    def _statements(self) -> dict[bytes, Statements]:
        return {}

    def statements(self, present: BoolArray) -> Statements:
        """What is said of single entries of z by the readings that are present."""
        key = present.tobytes()
        if key not in self._statements:
            if len(self._statements) >= KEPT:
                self._statements.clear()
            rows, entries, scale = self._stating
            here = np.flatnonzero(present[rows])
            entries, first = np.unique(entries[here], return_index=True)
            rows, scale = rows[here[first]], scale[here[first]]
            others = np.ones(len(present), dtype=bool)
            others[rows] = False
            ends = np.cumsum([0, *(block.size for block in self.readings)]).tolist()
            places = [slice(*ends[k : k + 2]) for k in range(len(self.readings))]
            self._statements[key] = Statements(
                rows,
                entries,
                scale,
                np.setdiff1d(np.arange(self.needed), entries),
                others,
                tuple(
                    (at, block)
                    for at, block in zip(places, self.readings, strict=True)
                    if others[at].any()
                ),
            )
        return self._statements[key]

    @cached_property
    def usual(self) -> ReducedSystem:
        """The rows at a random state: of the ranks that they have but at special ones."""
        q = self.layout.configurations(1, 0)[0]
        return self.reduced(Kinematics.at(self.robot, q, np.zeros(self.robot.nv)))

    @cached_property
    def nullity(self) -> int:
        """Number of directions that no reading sees, but at special states; none missing."""
        return self.usual.rank().nullity

    @cached_property
    def repeats(self) -> int:
        """Number of exact readings that others imply, but at special states; none missing."""
        reduced = self.usual
        whitened = self.whitened(np.ones(len(reduced.c), dtype=bool))
        exact, size = whitened.times(reduced.B)[0], whitened.sizes(reduced.B_size)[0]
        return int(len(exact) - rank_of(exact, size).seen.shape[1])

    @cached_property
    def degrees_of_freedom(self) -> int:
        """What the chi-square of complete readings is on average, but at special states.

        Readings beyond those that are needed. Exact ones that others imply are none of these:
        they agree or contradict each other, whatever the noise.
        """
        needed = self.needed - self.nullity
        return len(self.variance) - self.repeats - needed

    @cached_property
    def open_quantities(self) -> frozenset[str]:
        """Quantities of which something is open at every state, no reading missing."""
        reduced, rank = self.usual, self.usual.rank()
        if not rank.nullity:
            return frozenset()
        columns = {kind: self.laws.unknowns.columns(kind).ravel() for kind in QUANTITIES}
        return frozenset(
            kind
            for kind, at in columns.items()
            if rank.is_open(reduced.T[at], reduced.T_size[at]).any()
        )

    def seen(self, kinematics: Kinematics, directions: Array) -> Array:
        """What the readings see (m, k) of directions Z (size of z, k) in natural units: B Z."""
        directions = self.units[:, None] * directions
        along = self.response.at(kinematics, directions, bias=False)
        return read_blocks(self.readings, kinematics, along)[:, :-1]

    def without(self, active: Active | None) -> tuple[MeasuredSystem, tuple[str, ...]]:
        """The system of what holds, and the names of what does not."""
        self._check_active(active)
        given = (active or {}).items()
        off = tuple(name for name, on in given if not self._truth(name, on, ()))
        if not off:
            return self, ()
        _ = [self.layout.slice(name) for name in off]  # LayoutError names one it has not
        left = [sensor for sensor in self.layout if sensor.name not in off]
        return MeasuredSystem(self.robot, self.layout.with_sensors(left), self.prior), off

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
        self._check_active(active)
        for name, on in (active or {}).items():
            rows[~self._truth(name, on, expected[:-1]), self.layout.slice(name)] = np.nan
        for name, body in self.layout.resting.items():
            if np.isnan(rows[..., self.layout.slice(name)]).any():
                self.layout.require_sides([body])
        return rows

    @staticmethod
    def _check_active(active: object) -> None:
        if not isinstance(active, Mapping | None):
            raise LayoutError(
                f"active must map names of sensors to True or False, got {active!r:.80}"
            )

    def _truth(self, name: str, on: ArrayLike, shape: tuple[int, ...]) -> BoolArray:
        """Whether a sensor is active, at every state."""
        given = np.asarray(on)
        is_truth = given.dtype.kind in "biuf" and bool(np.isin(given, (0, 1)).all())
        if given.shape not in ((), shape) or not is_truth:
            wanted = f"True or False, or {shape[0]} of them" if shape else "True or False"
            raise LayoutError(f"active: sensor {name!r} takes {wanted}, got {on!r:.80}")
        return np.broadcast_to(given.astype(bool), shape)

    def _packed(self, y: Readings) -> Array:
        if isinstance(y, Mapping) or is_table(y):
            return self.layout.pack(y)
        try:
            return float_array(y)
        except (TypeError, ValueError) as error:
            raise StateError(f"y is not numeric: {error}") from None

    def labels(self, rows: IntArray) -> list[str]:
        """Names ``sensor.component`` of readings; those of the prior left out."""
        return [self.layout.labels[k] for k in rows.tolist() if k < self.layout.size]


def joint_covariance(layout: Layout, prior: PriorRows) -> csc_array[np.float64]:
    """Covariance of the readings of a layout, then those of a prior."""
    return csc_array(block_diag([layout.covariance(), np.diag(prior.std**2)], format="csc"))


def at_frame(robot: KinematicTree, kind: str, name: str | int) -> tuple[int, Array]:
    """Body of a frame, and the matrix (6, 6) that moves a quantity of the body to the frame.

    A joint's name stands for its body where joint wrenches are asked for.
    """
    frame = robot.joint_frame(name) if kind == "joint_wrench" else robot.frame(name)
    X = frame.transform.matrix()
    return frame.body, np.asarray(X if kind == "acceleration" else np.linalg.inv(X).T)
