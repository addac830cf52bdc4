"""Do the readings agree? Residuals in units of their own spread; which sensor disagrees.

    r = U a            misfit of the rows a of unit noise along what no unknown can explain
    m_k = U n_k        how r moves when reading k is wrong by one

A reading k that is wrong by f moves the misfit by f m_k, whether it is noisy (n_k is its own
whitened row) or exact (n_k is what the unknowns that it fixes do to the noisy rows). So all
statements are judged alike, and how precise a reading claims to be does not matter:

    m_k . r / |m_k|    is a unit normal number if the noise is as stated; nothing checks a
                       reading with m_k = 0
    chi-square         falls by |Q_s^T r|^2 without sensor s, Q_s an orthonormal basis of its
                       m_k, and by rank(Q_s) on average if the sensor is right

Sensors are ranked by how improbable their fall is for its rank: one with many rows explains
more of anything. What may be wrong with a sensor is all of it, or one component of those that
are checked. A statement with one wrong component was pushed along an axis of its frame, which
says no more of its own link than of another one on which a push moves the misfit along the same
line: that one is judged by the line too.

    (Q_o m_k)^2 > 0.95 |m_k|^2         line of component k, among the moves Q_o of a statement o

What spans the same explains every disagreement equally; no data tells it apart
(parity space: Gertler 1998; Lagrange multipliers: Silvey 1959). Nor do the readings at hand
tell suspects apart whose parts of the misfit are nearly the same and nearly as likely:

    (p_s . p_o)^2 > 0.95 |p_s|^2 |p_o|^2,   p_s = Q_s Q_s^T r
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import chdtrc, gammaln

from dynsys.jit import Loop
from dynsys.system.size import without_rounding
from dynsys.types import Array, ArrayLike, BoolArray, IntArray
from problems.estimation.estimator import Minimiser, least
from problems.measured.measured_system import MeasuredSystem
from problems.measured.reduced import (
    ReducedSystem,
    WhitenedRows,
    rank_of,
    row_size,
)

__all__ = [
    "CHECKED",
    "SIGNIFICANCE",
    "Checks",
    "Suspect",
    "beyond_rounding",
    "checks_at",
    "log_tail",
    "of_readings",
    "statements",
]

SIGNIFICANCE = 0.01
"""Readings that would disagree this much in fewer than one of a hundred cases disagree."""

CHECKED = 1e-9
"""Part of a move that no unknown explains, below which nothing checks the reading: rounding.
The part is that of deviations: a sensor this much more precise than what checks it."""

INDEPENDENT, ROUNDED = 1e-6, 1e-13
"""Moves of a sensor are independent beyond this part, and beyond the rounding in them."""

ALIKE = 1e-6
"""Bases this close span the same."""

SAME_PART = 0.95
"""Squared cosine between parts of the misfit, or lines, from which on these are the same."""

ODDS = 1000.0
"""A sensor so many times less likely to be the wrong one than the first is no suspect."""


@final
@dataclass(frozen=True)
class Suspect:
    """A sensor or statement whose removal explains a disagreement.

    Attributes
    ----------
    sensor : its name; ``prior(...)`` for something believed before any reading.
    explains : part of the chi-square that goes with it.
    degrees_of_freedom : what goes on average if it is right: directions that others check.
    p_value : probability that what is left over would be as large by chance.
    probability : that it is the wrong one, if one is and all are as likely to be.
    tied : others that the readings cannot tell from it: they explain the same, as likely.
    component : its component (``sensor.component``) if that alone explains it best.
    """

    sensor: str
    explains: float
    degrees_of_freedom: int
    p_value: float
    probability: float = 1.0
    tied: tuple[str, ...] = ()
    component: str = ""

    def __str__(self) -> str:
        or_else = "".join(f" or {name!r}" for name in self.tied)
        what = f"{self.component or self.sensor!r}{or_else}"
        doubt = ": the readings cannot tell" if self.tied else ""
        found = f"sensor {what} disagrees with the others"
        return f"{found} (chi-square {self.explains:.3g}){doubt}"


def log_tail(dof: ArrayLike, chi_square: ArrayLike) -> Array:
    """Logarithm of the probability of a larger chi-square, however far out.

    Where the probability itself is too small to be a number: the continued fraction of the
    incomplete gamma function, which converges there in a few terms.
    """
    a, x = np.broadcast_arrays(0.5 * np.asarray(dof, float), 0.5 * np.asarray(chi_square))
    tail = chdtrc(2.0 * np.maximum(a, 0.5), 2.0 * x)
    far = np.maximum(x, 2.0 * a + 20.0)
    fraction = np.zeros_like(far)
    for k in range(30, 0, -1):
        fraction = k * (a - k) / (far + 2 * k + 1 - a + fraction)
    beyond = a * np.log(far) - far - gammaln(np.maximum(a, 0.5))
    beyond = beyond - np.log(far + 1 - a + fraction)
    with np.errstate(divide="ignore"):
        found = np.where(tail > 1e-280, np.log(tail), beyond)
    return np.asarray(np.where(a > 0, found, 0.0))


# ---- what every sensor explains --------------------------------------------------------------


@Loop
def explain_blocks(
    moves: Array,
    basis: Array,
    terms: Array,
    misfit: Array,
    starts: IntArray,
    sizes: Array,
    fits: Array,
    drop: Array,
    rank: IntArray,
) -> None:
    """What is explained by the moves of every reading, and of every block of readings.

    Parameters
    ----------
    moves : (N, m, f) how the misfit moves with reading k, in any unit; made unit vectors, zero
        where nothing checks the reading.
    basis : (N, m, f), written: the first ``rank`` rows of a block are its orthonormal basis,
        the others zero.
    terms : (N, m) size of what a move is made of, in its unit.
    misfit : (N, f).
    starts : (S + 1,) where blocks of readings begin, and the last ends.
    sizes : (N, m), written: |m_k|, zero where nothing checks the reading.
    fits : (N, m), written: m_k . r / |m_k|, NaN where nothing checks the reading.
    drop, rank : (N, S), written.
    """
    n_states, m, f = moves.shape
    rounding = np.zeros(m)
    for n in range(n_states):
        r = misfit[n]
        for k in range(m):
            x, size, along = moves[n, k], 0.0, 0.0
            for i in range(f):
                size += x[i] * x[i]
                along += x[i] * r[i]
            size = np.sqrt(size)
            is_checked = size > CHECKED * terms[n, k]
            sizes[n, k] = size if is_checked else 0.0
            fits[n, k] = along / size if is_checked else np.nan
            rounding[k] = ROUNDED * terms[n, k] / size if is_checked else 0.0
            for i in range(f):
                x[i] = basis[n, k, i] = x[i] / size if is_checked else 0.0
        for s in range(len(starts) - 1):
            found, total = 0, 0.0
            first, last = starts[s], starts[s + 1]
            while first + found < last:
                best, largest = -1, 0.0
                for k in range(first + found, last):
                    size = 0.0
                    for i in range(f):
                        size += basis[n, k, i] * basis[n, k, i]
                    limit = max(INDEPENDENT, rounding[k])
                    if size > limit * limit and size > largest:
                        best, largest = k, size
                if best < 0:
                    break
                here, product = first + found, 0.0
                q = basis[n, here]
                for i in range(f):
                    kept = q[i]
                    q[i] = basis[n, best, i] / np.sqrt(largest)
                    if best != here:
                        basis[n, best, i] = kept
                    product += q[i] * r[i]
                rounding[best] = rounding[here]
                total += product * product
                found += 1
                for k in range(first + found, last):
                    x = basis[n, k]
                    for _ in range(2):
                        product = 0.0
                        for i in range(f):
                            product += q[i] * x[i]
                        for i in range(f):
                            x[i] -= product * q[i]
            for k in range(first + found, last):
                for i in range(f):
                    basis[n, k, i] = 0.0
            drop[n, s], rank[n, s] = total, found


@final
@dataclass(frozen=True, eq=False)
class Checks:
    """What the readings of N states say of each other.

    Attributes
    ----------
    names : (S,) sensors, then what is believed.
    is_read : (S,) sensors that read something, not what is stated or believed.
    labels : (m,) readings, by sensor and component.
    starts : (S + 1,) rows of every sensor.
    misfit : (N, f) what no unknown explains of the readings.
    moves : (N, m, f) unit vectors along which readings move the misfit; zero if unchecked.
    sizes : (N, m) by how much they do when wrong by a deviation, an exact one by its unit.
    basis : (N, m, f) orthonormal bases of what a sensor's readings explain, zeros behind.
    drop, rank : (N, S) chi-square that goes with a sensor, and on average if it is right.
    residuals : (N, m) normalised: unit normal numbers if the noise is as stated; NaN where
        nothing checks a reading.
    chi_square, degrees_of_freedom : (N,) of all.
    """

    names: tuple[str, ...]
    is_read: BoolArray
    labels: tuple[str, ...]
    starts: IntArray
    misfit: Array
    moves: Array
    sizes: Array
    basis: Array
    drop: Array
    rank: IntArray
    residuals: Array
    chi_square: Array
    degrees_of_freedom: IntArray

    @staticmethod
    def of(
        measured: MeasuredSystem, moves: Array, terms: Array, misfit: Array, dof: IntArray
    ) -> Checks:
        """Judge states by misfit (N, f) and its moves (N, m, f), made of so large terms."""
        names, labels, starts = statements(measured)
        sensors = measured.layout.sensors
        is_read = np.zeros(len(names), dtype=bool)
        is_read[: len(sensors)] = [sensor.constant(1) is None for sensor in sensors]
        n, m, _ = moves.shape
        sizes, fits, basis = np.empty((n, m)), np.empty((n, m)), np.empty_like(moves)
        drop = np.empty((n, len(names)))
        rank = np.empty((n, len(names)), dtype=np.int64)
        explain_blocks(moves, basis, terms, misfit, starts, sizes, fits, drop, rank)
        chi_square = np.einsum("ni,ni->n", misfit, misfit)
        return Checks(
            names,
            is_read,
            labels,
            starts,
            misfit,
            moves,
            sizes,
            basis,
            drop,
            rank,
            fits,
            chi_square,
            dof,
        )

    @cached_property
    def _components(self) -> tuple[Array, Array]:
        """What the best component alone of a sensor explains (N, S), and log of its choices."""
        squares = np.nan_to_num(self.residuals) ** 2
        checked = np.isfinite(self.residuals)
        if not squares.size:
            return np.zeros(self.drop.shape), np.zeros(self.drop.shape)
        first = self.starts[:-1]
        counts = np.add.reduceat(checked.astype(np.intp), first, axis=1)
        return np.maximum.reduceat(squares, first, axis=1), np.log(np.maximum(counts, 1))

    @cached_property
    def _log_p_of_components(self) -> Array:
        """Logarithm (N, S) of the probability that a component of a right sensor does."""
        squares, choices = self._components
        return np.where(self.rank > 1, np.minimum(log_tail(1, squares) + choices, 0.0), 0.0)

    @cached_property
    def _log_p_of_all(self) -> Array:
        """Logarithm (N, S) of the probability that all of a right sensor does."""
        return log_tail(self.rank, self.drop)

    @cached_property
    def log_p(self) -> Array:
        """Logarithm (N, S) of the probability that a right sensor explains as much."""
        found = np.minimum(self._log_p_of_all, self._log_p_of_components)
        stated = np.flatnonzero(~self.is_read)
        least = found.min(axis=1, initial=0.0)
        first = self.disagree & (least < self._log_p_of_all.min(axis=1, initial=0.0))
        for s in stated.tolist():  # the line of the likeliest, which stays the first
            states = np.flatnonzero(first & (self._log_p_of_components[:, s] == least))
            if len(states):
                along = self._log_p_along(states, s)[:, stated]
                at = np.ix_(states, stated)
                behind = (1 - 1e-9) * least[states, None]
                found[at] = np.minimum(found[at], np.maximum(along, behind))
        return found

    def _log_p_along(self, states: IntArray, s: int) -> Array:
        """Logarithm (k, S) of the same for the line of the best component of statement s.

        Zero for sensors whose readings do not move the misfit along that line.
        """
        first, last = self.starts[s : s + 2]
        best = np.nanargmax(np.abs(self.residuals[states, first:last]), axis=1)
        line, basis = self.moves[states, first + best], self.basis[states]
        along = np.einsum("nmf,nf->nm", basis, line)
        fit = along * np.einsum("nmf,nf->nm", basis, self.misfit[states])
        share, fits = (np.add.reduceat(x, self.starts[:-1], axis=1) for x in (along**2, fit))
        is_same = share > SAME_PART
        squares = np.where(is_same, fits**2 / np.where(is_same, share, 1.0), 0.0)
        choices = self._components[1][states, s, None]
        return np.where(is_same, np.minimum(log_tail(1, squares) + choices, 0.0), 0.0)

    @cached_property
    def disagree(self) -> BoolArray:
        """States (N,) whose readings disagree more than noise explains."""
        p = chdtrc(np.maximum(self.degrees_of_freedom, 1), self.chi_square)
        return np.asarray((self.degrees_of_freedom > 0) & (p < SIGNIFICANCE))

    @cached_property
    def odds(self) -> Array:
        """Probability (N, S) that a sensor is the wrong one, if one is."""
        weight = np.exp(self.log_p.min(axis=1, keepdims=True) - self.log_p)
        weight = np.where(self.rank > 0, weight, 0.0)
        total = weight.sum(axis=1, keepdims=True)
        return np.asarray(weight / np.where(total > 0, total, 1.0))

    @property
    def probability(self) -> Array:
        """The same, zero where the readings agree."""
        return np.where(self.disagree[:, None], self.odds, 0.0)

    def suspects(self, n: int) -> list[Suspect]:
        """Sensors that may be the wrong one at a state, the likeliest first."""
        p, found = self.probability[n], []
        total, dof = float(self.chi_square[n]), int(self.degrees_of_freedom[n])
        ranked = np.argsort(-p, kind="stable").tolist()
        likely = [s for s in ranked if p[s] > p.max() / ODDS]
        parts = [self._part(n, s) for s in likely]
        for s, part in zip(likely, parts, strict=True):
            rank, drop = int(self.rank[n, s]), float(self.drop[n, s])
            left = dof - rank
            p_left = float(chdtrc(left, max(total - drop, 0.0))) if left > 0 else 1.0
            row = self._component(n, s)
            same = [
                o
                for o, other in zip(likely, parts, strict=True)
                if min(p[s], p[o]) > SIGNIFICANCE * max(p[s], p[o])
                and (part @ other) ** 2 > SAME_PART * (part @ part) * (other @ other)
            ]
            others = sorted({*same, *self._tied(n, s, row)} - {s})
            tied = tuple(self.names[o] for o in others)
            label = "" if row is None else self.labels[row]
            found.append(Suspect(self.names[s], drop, rank, p_left, float(p[s]), tied, label))
        return found

    def _component(self, n: int, s: int) -> int | None:
        """Reading that alone explains best what may be wrong with a sensor, None if all do."""
        if self._log_p_of_components[n, s] > self._log_p_of_all[n, s] or self.rank[n, s] < 2:
            return None
        start, stop = self.starts[s : s + 2]
        return int(start + np.nanargmax(np.abs(self.residuals[n, start:stop])))

    def _span(self, n: int, s: int, row: int | None) -> Array:
        """Orthonormal basis (k, f) of what may be wrong with a sensor: all, or a component."""
        return self._basis(n, s) if row is None else self.moves[n, row : row + 1]

    def _part(self, n: int, s: int) -> Array:
        """Part (f,) of the misfit that goes with what may be wrong with a sensor."""
        Q = self._span(n, s, self._component(n, s))
        return np.asarray(Q.T @ (Q @ self.misfit[n]))

    def _tied(self, n: int, s: int, row: int | None) -> list[int]:
        """Other sensors that explain all that sensor s does, or its component, the same way."""
        own = self._span(n, s, row)
        rank = len(own)
        if rank == 1:  # readings that move the misfit along the same line
            along = np.abs(self.moves[n] @ own[0]) > 1.0 - ALIKE
            found = np.searchsorted(self.starts, np.flatnonzero(along), side="right") - 1
        else:
            near = np.abs(self.drop[n] - self.drop[n, s]) <= ALIKE * (self.chi_square[n] + 1.0)
            some = np.flatnonzero(near & (self.rank[n] == rank))
            shared = [np.sum((self._basis(n, o) @ own.T) ** 2) for o in some.tolist()]
            found = some[np.array(shared) > rank - ALIKE]
        return list(np.unique(found).tolist())

    def _basis(self, n: int, s: int) -> Array:
        return self.basis[n, self.starts[s] : self.starts[s] + self.rank[n, s]]


def of_readings(measured: MeasuredSystem, residuals: Array, rows: Array) -> Array:
    """Residuals (N, size) of the readings among those of all ``rows`` (N, m).

    Exact readings hold exactly: zero. Missing ones have none: NaN.
    """
    out = np.where(measured.variance > 0, residuals, 0.0)
    return np.where(np.isnan(rows), np.nan, out)[:, : measured.layout.size]


def statements(
    measured: MeasuredSystem,
) -> tuple[tuple[str, ...], tuple[str, ...], IntArray]:
    """All that may be wrong, sensors and beliefs; labels of their rows; where these begin."""
    layout, believed = measured.layout, measured.prior_rows.equations
    names = (*layout.names, *(block.name for block in believed))
    sizes = [layout.slice(name) for name in layout.names]
    counts = [*(x.stop - x.start for x in sizes), *(block.size for block in believed)]
    labels = (*layout.labels, *(block.name for block in believed for _ in range(block.size)))
    return names, labels, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


# ---- one state -------------------------------------------------------------------------------


def checks_at(
    measured: MeasuredSystem,
    rows: ReducedSystem,
    whitened: WhitenedRows,
    found: Minimiser,
) -> Checks:
    """What the readings of one solved state say of each other; any rank."""
    exact, noisy = whitened.exact.toarray(), whitened.noisy.toarray()
    deviation = np.sqrt(measured.variance)
    unit = np.where(deviation > 0, deviation, 1.0)
    U = found.unexplained
    A, size = np.asarray(noisy @ rows.B), whitened.sizes(rows.B_size)[0]
    E = without_rounding(exact @ rows.B, size)
    z = least(E, exact * unit, row_size(size), rank_of(E, size))  # together if E repeats rows
    z = beyond_rounding(z, found.rank.scale[:, None], 0)
    moves = U @ (noisy * unit) - (U @ A) @ z
    terms = np.linalg.norm(np.abs(noisy * unit) + np.abs(A) @ np.abs(z), axis=0)
    misfit, dof = U @ found.residual, np.array([len(U)])
    moves = np.ascontiguousarray(moves.T)
    return Checks.of(measured, moves[None], terms[None], misfit[None], dof)


def beyond_rounding(z: Array, scale: Array, axis: int) -> Array:
    """Directions z with entries that are rounding, in natural units, made zero."""
    parts = np.abs(z) / scale
    return np.where(parts > ROUNDED * parts.max(axis=axis, keepdims=True, initial=0.0), z, 0.0)
