"""Rows of a log on the parameters, of unit noise: contacts eliminated, shared noise taken out.

    y = R theta + E x + c + noise,    noise of covariance  C_ij s_i s_j  at one time

s are the deviations of the readings, estimated or stated; C the correlations that the layout
states between readings (a sensor's covariance, :mod:`sensors.correlations`). Rows become

    (1 - U U^T) W T (y - c) / s  =  (1 - U U^T) W T (R / s) theta

T with  T C T^T = 1  is the inverse of C's triangular factor: row i of T y is what reading i
says beyond the readings before it, in deviations of that. W weighs each such row by how much
it is correlated in time, U spans the columns of  W T E / s.  What the layout states exactly
about x (nothing touches the hand) gives x away first. Readings that are missing take no part:
T is that of those which are there.

Without contacts a row keeps to its own parameters, so that a robot of 50 bodies does not carry
600 columns in each of 50 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from scipy.sparse.csgraph import connected_components

from dynsys.errors import LayoutError
from dynsys.types import Array, BoolArray, IntArray
from problems.identification.parameter_set import ParameterSet
from problems.identification.regressor import RowBlocks
from sensors.layout import Layout

__all__ = ["Log", "Samples", "SharedNoise", "UnitRows", "unit_rows", "weighted_rows"]

CHUNK = 8192
"""Samples at a time."""


@final
@dataclass(frozen=True, eq=False)
class Log:
    """Motion and readings: q (N, nq), qd, qdd (N, nv), y (N, rows); NaN for no reading."""

    q: Array
    qd: Array
    qdd: Array
    y: Array

    def __len__(self) -> int:
        return len(self.q)

    def part(self, samples: slice) -> Log:
        """Some of the samples."""
        return Log(self.q[samples], self.qd[samples], self.qdd[samples], self.y[samples])


# ---- noise that readings share ---------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Correlations (rows, rows) between the readings of one time, and T of the module.

    Examples
    --------
    >>> C = np.array([[1.0, 0.6], [0.6, 1.0]])
    >>> there = np.ones((1, 2), dtype=bool)
    >>> T = SharedNoise(C).taken_out(np.eye(2)[None], there)[0]
    >>> bool(np.allclose(T @ C @ T.T, np.eye(2)))
    True
    """

    correlation: Array

    @staticmethod
    def of(layout: Layout) -> SharedNoise:
        """What the layout states.

        Raises
        ------
        LayoutError
            naming readings of which one tells the noise of the other exactly.
        """
        std = np.where(layout.exact, 1.0, layout.std)
        correlation = np.asarray(layout.covariance().todense()) / np.outer(std, std)
        np.fill_diagonal(correlation, 1.0)
        shared = SharedNoise(correlation)
        for group in shared.groups:
            if np.linalg.eigvalsh(correlation[np.ix_(group, group)])[0] < 1e-9:
                names = ", ".join(layout.labels[k] for k in group)
                raise LayoutError(
                    f"the noise of {names} is the same to the last digit, so that their"
                    " difference is exact; give one of them noise of its own"
                )
        return shared

    @cached_property
    def groups(self) -> tuple[IntArray, ...]:
        """Readings that share noise, directly or through others."""
        _, label = connected_components(self.correlation != 0, directed=False)
        found = (np.flatnonzero(label == k) for k in np.unique(label))
        return tuple(group for group in found if len(group) > 1)

    def taken_out(self, x: Array, there: BoolArray) -> Array:
        """T x for x (N, rows, n) in deviations, readings that are ``there`` (N, rows)."""
        return self._changed(x, there, inverse=True)

    def put_back(self, x: Array, there: BoolArray) -> Array:
        """T^-1 x."""
        return self._changed(x, there, inverse=False)

    def _changed(self, x: Array, there: BoolArray, *, inverse: bool) -> Array:
        if not self.groups:
            return x
        out = np.array(x)
        for group in self.groups:
            for present, samples in _alike(there[:, group]):
                rows = group[present]
                L = np.linalg.cholesky(self.correlation[np.ix_(rows, rows)])
                T = np.linalg.inv(L) if inverse else L
                at = np.ix_(samples, rows)
                out[at] = T @ x[at]
        return out


def _alike(there: BoolArray) -> list[tuple[BoolArray, IntArray]]:
    """Which of some readings are there, and the samples of which that holds."""
    if there.all():
        return [(there[0], np.arange(len(there)))]
    patterns, which = np.unique(there, axis=0, return_inverse=True)
    return [(p, np.flatnonzero(which.ravel() == k)) for k, p in enumerate(patterns) if p.any()]


# ---- rows of unit noise ----------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows  A theta = b  of some samples, each on its own parameters.

    Row k is  A = scale[:, k] theta[k]  (N, parameters of the row), zero where there is no
    reading. ``there`` (N, rows) says where there is one, ``left`` (N, rows) which part of it
    contacts leave.
    """

    columns: tuple[IntArray, ...]
    theta: tuple[Array, ...]
    scale: Array
    b: Array
    there: BoolArray
    left: Array

    def block(self, k: int, trust: Array | float = 1.0) -> Array:
        """Row k of all samples (N, parameters of the row), times ``trust`` (N,)."""
        return np.asarray(self.theta[k] * (self.scale[:, k] * trust)[:, None])

    def off(self, theta: Array) -> Array:
        """b - A theta (N, rows)."""
        pairs = zip(self.theta, self.columns, strict=True)
        values = np.stack([part @ theta[used] for part, used in pairs], axis=1)
        return np.asarray(self.b - self.scale * values)

    def whole(self, width: int) -> Array:
        """A (N, rows, width) with its zeros."""
        A = np.zeros((*self.b.shape, width))
        for k, used in enumerate(self.columns):
            A[:, k, used] = self.block(k)
        return A


def unit_rows(
    rows: RowBlocks,
    b: Array,
    std: Array,
    weight: Array,
    shared: SharedNoise,
    statements: BoolArray,
    width: int,
) -> UnitRows:
    """Rows of unit noise; see the module.

    Parameters
    ----------
    rows, b : the rows of a layout at N samples, and y - c (N, rows), NaN for no reading.
    std : (rows,) deviations s.
    weight : (rows,) W of the module.
    shared : correlations between readings.
    statements : rows that state contacts exactly.
    width : number of parameters.
    """
    there = np.isfinite(b)
    b = np.where(there, b, 0.0)
    if rows.contact.shape[-1]:
        return _across_contacts(rows, b, there, std, weight, shared, statements, width)
    scale = np.where(there, weight / std, 0.0)
    columns, theta, out = list(rows.columns), list(rows.theta), scale * b
    scale = scale.copy()
    for group in shared.groups:  # these rows are mixed, on the parameters of all of them
        used = np.unique(np.concatenate([columns[k] for k in group]))
        mixed = np.zeros((len(b), b.shape[1], len(used) + 1))
        for k in group:
            mixed[:, k, np.searchsorted(used, columns[k])] = theta[k]
            mixed[:, k, -1] = b[:, k]
        mixed = shared.taken_out(mixed * (there / std)[..., None], there) * weight[:, None]
        for k in group:
            columns[k], theta[k], out[:, k] = used, mixed[:, k, :-1], mixed[:, k, -1]
            scale[:, k] = 1.0
    return UnitRows(tuple(columns), tuple(theta), scale, out, there, there.astype(float))


def _across_contacts(
    rows: RowBlocks,
    b: Array,
    there: BoolArray,
    std: Array,
    weight: Array,
    shared: SharedNoise,
    statements: BoolArray,
    width: int,
) -> UnitRows:
    R, E = rows.whole(width).theta, rows.contact
    largest = np.linalg.norm(E * (there * weight / std)[..., None], axis=(1, 2))[:, None]
    if statements.any():  # x = P^+ (b - R theta) + (1 - P^+ P) z of the rows that state it
        P = E[:, statements] * there[:, statements, None]
        carried = E @ np.linalg.pinv(P[:1] if _same(P) else P, rcond=1e-10)
        b = b - (carried @ b[:, statements, None])[..., 0]
        R = R - carried @ (R[:, statements] * there[:, statements, None])
        E = E - carried @ P
        there = there & ~statements
    every = np.concatenate([R, E, b[..., None]], axis=-1) * (there / std)[..., None]
    every = shared.taken_out(every, there) * weight[:, None]
    A, E, b = every[..., :width], every[..., width:-1], every[..., -1:]
    U, s, _ = np.linalg.svd(E, full_matrices=False)
    U = U * (s > 1e-9 * np.maximum(largest, 1e-300))[:, None, :]  # not of rounding alone
    Ut = np.swapaxes(U, 1, 2)
    gone = shared.put_back(U, there)
    left = np.where(there, 1.0 - (gone * gone).sum(axis=-1), 0.0)
    A, b = A - U @ (Ut @ A), (b - U @ (Ut @ b))[..., 0]
    columns = tuple(np.flatnonzero(used) for used in np.asarray(A.any(axis=0)))
    theta = tuple(A[:, k, used] for k, used in enumerate(columns))
    return UnitRows(columns, theta, np.ones_like(b), b, there, left)


def _same(P: Array) -> bool:
    return bool((P == P[:1]).all())


# ---- a log, chunk by chunk -------------------------------------------------------------------


@final
@dataclass(eq=False)
class Samples:
    """All rows of a log, chunk by chunk, for given deviations and weights."""

    sought: ParameterSet
    log: Log
    plain: bool = False
    about: Array | None = None
    _kept: dict[int, tuple[RowBlocks, Array]] = field(default_factory=dict)
    _unit: tuple[Array, Array, dict[int, UnitRows]] | None = None

    def chunks(self) -> range:
        """First samples of the chunks."""
        return range(0, len(self.log), CHUNK)

    @cached_property
    def shared(self) -> SharedNoise:
        """Noise that readings share, as the layout states."""
        return SharedNoise.of(self.sought.layout)

    @cached_property
    def statements(self) -> BoolArray:
        """Rows that the layout states, exactly, about contacts: they give wrenches away."""
        layout, regressor = self.sought.layout, self.sought.regressor
        about = np.array([regressor.sees_contact(row) for row in range(layout.size)])
        return np.asarray(about & np.isfinite(layout.constants) & layout.exact)

    @cached_property
    def involved(self) -> BoolArray:
        """Rows that parameters have a part in, at some state."""
        return np.array([len(used) > 0 for used in self.raw(0)[0].columns])

    @cached_property
    def stated(self) -> BoolArray:
        """Rows whose noise the layout knows best: they hold no data, and some noise."""
        layout = self.sought.layout
        return np.asarray(np.isfinite(layout.constants) & ~layout.exact)

    def raw(self, start: int) -> tuple[RowBlocks, Array]:
        """Rows and y - c of a chunk; kept where memory allows."""
        if start not in self._kept:
            part = self.log.part(slice(start, start + CHUNK))
            rows = self.sought.blocks(
                part.q, part.qd, part.qdd, plain=self.plain, about=self.about
            ).checked(start)
            found = rows, part.y - rows.known
            if len(self.log) > 8 * CHUNK:
                return found
            self._kept[start] = found
        return self._kept[start]

    def move(self, theta: Array) -> float:
        """Make rows with gains linear about other values; how far those are, in parts."""
        before = self.sought.model if self.about is None else self.about
        if not self.sought.gains:
            return 0.0
        self.about = theta
        self._kept.clear()
        self._unit = None
        size = len(self.sought.gains)
        return float(np.abs(theta[-size:] / before[-size:] - 1.0).max())

    def unit(self, std: Array, weight: Array) -> Iterator[tuple[int, UnitRows]]:
        """Rows of unit noise for deviations and weights (rows,), chunk by chunk."""
        last = self._unit
        if last is None or not (
            np.array_equal(std, last[0]) and np.array_equal(weight, last[1])
        ):
            last = self._unit = (std, weight, {})
        for start in self.chunks():
            rows = last[2].get(start)
            if rows is None:
                rows = self._unit_rows(*self.raw(start), std, weight)
                if start in self._kept:
                    last[2][start] = rows
            yield start, rows

    def _unit_rows(self, rows: RowBlocks, b: Array, std: Array, weight: Array) -> UnitRows:
        size = self.sought.size
        return unit_rows(rows, b, std, weight, self.shared, self.statements, size)

    def in_units(self, rows: UnitRows, std: Array, off: Array) -> Array:
        """Residuals (n, rows) of readings, NaN for none, from those of unit rows, weights 1."""
        back = self.shared.put_back(off[..., None], rows.there)[..., 0]
        return np.where(rows.left > 0, std * back, np.nan)

    def mixed(self, start: int, std: Array) -> dict[int, tuple[IntArray, Array]]:
        """Rows that share noise with others: parameters and  s T R / s  of each in a chunk."""
        rows, b = self.raw(start)
        free = RowBlocks(rows.columns, rows.theta, rows.contact[..., :0], rows.known)
        found = self._unit_rows(free, b, std, np.ones_like(std))
        return {
            k: (found.columns[k], std[k] * found.block(k))
            for group in self.shared.groups
            for k in group.tolist()
        }


def weighted_rows(sought: ParameterSet, log: Log, std: Array, *, plain: bool = False) -> Array:
    """Rows (N, rows, p) of unit noise, contacts eliminated; ``plain`` without a kernel."""
    samples = Samples(sought, log, plain)
    found = samples.unit(std, np.ones_like(std))
    return np.concatenate([rows.whole(sought.size) for _, rows in found])
