"""Estimates of many states by the reduced system, whatever is missing and whatever is open.

    d = T z + d_0,   B z = c,   z without what exact statements say is zero (most of it)

One way for all states that the compiled estimator does not answer: readings missing at random,
contacts that come and go, layouts that leave something open, beliefs. B and c come from small
kernels that do not depend on what is missing (:mod:`problems.estimation.response`), rows that
are not there are left out, and orthogonal factors of the few unknowns left solve the rest
(:mod:`problems.estimation.many_states`). Answers are those of the estimator; where a rank or
a truth value is not beyond doubt, that one is asked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias, cast, final

import numpy as np
from scipy.sparse.csgraph import connected_components

from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.system.parts import part_of
from dynsys.system.size import without_rounding
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.consistency import CHECKED, Checks, beyond_rounding, of_readings
from problems.estimation.many_states import (
    ABSENT,
    EXACT,
    NOISY,
    Minimisers,
    clear_rounding,
    minimise_many,
)
from problems.estimation.response import ROWS, ResponseKernels
from problems.measured.measured_system import MeasuredSystem, Quantity
from problems.measured.reduced import (
    OPEN,
    RANK_TOLERANCE,
    ReducedSystem,
    noise_axes,
    rank_of,
)

__all__ = ["ReducedAnswers", "ReducedBatch", "moved_part"]

METHOD = "reduced"
SAMPLES = 5
"""Random states at which structure and natural sizes are found."""
DIRECTIONS = 2048
"""Directions handed to a kernel at a time: few enough to stay near the processor."""
SETS = 16
"""Sets of statements that hold in a batch, each with unknowns of its own; more share them."""
MARGIN = 10.0
"""A quantity that moves by so much more, or less, than what makes it open is beyond doubt: the
sizes that decide hardly depend on the posture (by 15 % at most on icub and talos)."""
ALONE = 1e-6
"""Part of a change that exact rows may resist, so that it is rounding."""


Moved: TypeAlias = tuple[str, int, Array]
"""Quantity, body, and the matrix (6, 6) that moves it to a frame of the body."""


def moved_part(robot: KinematicTree, name: str) -> Moved:
    """The part of a quantity of bodies by its name: ``external_wrench.l_sole``."""
    kind, _, frame = name.partition(".")
    part = part_of(robot, kind, frame)
    return kind, part.start // 6, part.matrix


Judge: TypeAlias = Callable[[IntArray, Checks], None]
"""Told the numbers of some states, and what their readings say of each other."""


@final
@dataclass(frozen=True, eq=False)
class ReducedAnswers:
    """What is known of N states.

    Attributes
    ----------
    answered : (N,) False where the estimator must be asked.
    arrays : quantities (N, size) by name, ``std_...`` their deviations; NaN where open.
    chi_square, degrees_of_freedom : (N,).
    residuals : (N, readings) normalised, or None if not asked for.
    moved, at_frames : frames by name, and the deviations (N, 6) there.
    """

    answered: BoolArray
    arrays: dict[str, Array]
    chi_square: Array
    degrees_of_freedom: IntArray
    residuals: Array | None
    moved: Mapping[str, Moved]
    at_frames: dict[str, Array]

    def at_frame(self, name: str) -> Array:
        """Deviations (N, 6) there; NaN where not answered, or something is open on the body."""
        kind, body, _ = self.moved[name]
        of_body = self.arrays[f"std_{kind}"].reshape(len(self.answered), -1, 6)[:, body]
        known = self.answered & np.isfinite(of_body).all(axis=1)
        return np.where(known[:, None], self.at_frames[name], np.nan)


@final
@dataclass(frozen=True, eq=False)
class ReducedBatch:
    """Solves a measured system at many states; kernels and structure are kept."""

    measured: MeasuredSystem

    def solve(
        self,
        q: Array,
        qd: Array,
        rows: Array,
        quantities: Sequence[str],
        deviations: Sequence[str] = (),
        *,
        residuals: bool = False,
        moved: Mapping[str, Moved] = MappingProxyType({}),
        judge: Judge | None = None,
    ) -> ReducedAnswers:
        """Answers at states q (N, nq), qd (N, nv) with readings (N, m), NaN where missing.

        ``moved`` are frames where deviations are wanted too, of quantities with deviations;
        ``judge`` is told of all states that are answered, a few at a time.
        """
        n, size = len(q), self.measured.layout.size
        names = (*quantities, *(f"std_{name}" for name in deviations))
        columns = {name: self._columns(name.removeprefix("std_")) for name in names}
        found = ReducedAnswers(
            np.zeros(n, dtype=bool),
            {name: np.full((n, len(where)), np.nan) for name, where in columns.items()},
            np.full(n, np.nan),
            np.zeros(n, dtype=np.intp),
            np.full((n, size), np.nan) if residuals else None,
            moved,
            {name: np.full((n, 6), np.nan) for name in moved},
        )
        for some, holds in self._sets(rows):
            kept = np.setdiff1d(np.arange(self.measured.needed), self._statements[1][holds])
            group = _Group(self, kept, holds)
            step = max(DIRECTIONS // max(len(kept), 1), 1)
            for start in range(0, len(some), step):
                block = some[start : start + step]
                group.solve(found, block, (q[block], qd[block], rows[block]), judge)
        return found

    def _columns(self, name: str) -> IntArray:
        return self.measured.laws.unknowns.columns(cast("Quantity", name)).ravel()

    # ---- structure, found once ---------------------------------------------------------------

    @cached_property
    def _sampled(self) -> list[ReducedSystem]:
        """The reduced system at random states."""
        robot = self.measured.robot
        rng = np.random.default_rng(11)
        q = [robot.random_configuration(k, limited=False) for k in range(SAMPLES)]
        states = [Kinematics.at(robot, at, rng.normal(size=robot.nv)) for at in q]
        return [self.measured.reduced(state) for state in states]

    @cached_property
    def sizes(self) -> tuple[Array, Array, Array]:
        """Usual sizes of B (m, nz), of c without y (m,), of T (n, nz): the largest sampled."""
        of = [(s.B_size, s.c_size, s.T_size) for s in self._sampled]
        B, c, T = (np.max(part, axis=0) for part in zip(*of, strict=True))
        return B, c, T

    @cached_property
    def _statements(self) -> tuple[IntArray, IntArray]:
        """Rows that say exactly that one entry of z is zero, and which; one row for each."""
        B, c = (np.array([getattr(s, name) for s in self._sampled]) for name in "Bc")
        covariance = self.measured.covariance
        alone = np.asarray(abs(covariance).sum(axis=0)) == 0
        one = (B != 0).any(axis=0).sum(axis=1) == 1
        steady = (B == B[0]).all(axis=(0, 2)) & (c == 0).all(axis=0)
        rows = np.flatnonzero(alone & one & steady)
        columns, first = np.unique(np.argmax(B[0, rows] != 0, axis=1), return_index=True)
        return rows[first], columns

    def _sets(self, rows: Array) -> Iterator[tuple[IntArray, BoolArray]]:
        """States by the statements that hold there."""
        holds = rows[:, self._statements[0]] == 0
        first, which = _distinct(holds)
        if len(first) > SETS:
            yield np.arange(len(rows)), np.asarray(holds.all(axis=0))
            return
        for k, state in enumerate(first.tolist()):
            yield np.flatnonzero(which == k), holds[state]

    @cached_property
    def groups(self) -> list[IntArray]:
        """Rows whose noise is correlated, directly or through others; single ones left out."""
        covariance = self.measured.covariance
        n, label = connected_components(covariance, directed=False)
        counts = np.bincount(label, minlength=n)
        return [np.flatnonzero(label == k) for k in np.flatnonzero(counts > 1).tolist()]

    @cached_property
    def axes(self) -> dict[tuple[int, bytes], tuple[Array, Array]]:
        """Combinations of unit noise and without noise, by group and what of it is there."""
        return {}

    @cached_property
    def _natural(self) -> Array:
        """Natural unit (nz,) of every entry of z at usual sizes."""
        return rank_of(self.sizes[0]).scale

    def reach_of_zeros(self, zeros: IntArray, columns: IntArray) -> Array:
        """Squared natural size that entries of z known to be zero give unknowns."""
        return np.asarray(self.sizes[2][columns][:, zeros] ** 2 @ self._natural[zeros] ** 2)

    # ---- kernels -----------------------------------------------------------------------------

    @cached_property
    def _usual(self) -> ResponseKernels:
        """Kernels for states where every statement holds."""
        rows, zeros = self._statements
        kept = np.setdiff1d(np.arange(self.measured.needed), zeros)
        live = np.setdiff1d(np.arange(self.measured.covariance.shape[0]), rows)
        return ResponseKernels(self.measured, kept, live)

    @cached_property
    def any_kernels(self) -> ResponseKernels:
        """Kernels for states where some do not."""
        rows = np.arange(self.measured.covariance.shape[0])
        return ResponseKernels(self.measured, np.arange(self.measured.needed), rows)

    def kernels(self, holds: BoolArray) -> ResponseKernels:
        """Kernels that have all the columns of z that are left where these statements hold."""
        return self._usual if holds.all() else self.any_kernels


@final
class _Group:
    """States with the same unknowns: entries ``kept`` of z, the others zero by statements."""

    def __init__(self, batch: ReducedBatch, kept: IntArray, holds: BoolArray) -> None:
        self._batch, self._kept = batch, kept
        self._kernels = batch.kernels(holds)
        self._zeros = batch._statements[1][holds]
        stated = batch._statements[0][holds]
        self._live = np.setdiff1d(np.arange(batch.measured.covariance.shape[0]), stated)
        self._place = np.searchsorted(self._kernels.columns, kept)
        self._of_rows = np.searchsorted(self._kernels.rows, self._live)
        variance = batch.measured.variance[self._live]
        self._exact = variance == 0
        self._weight = 1.0 / np.sqrt(np.where(self._exact, 1.0, variance))
        B, c, _ = batch.sizes
        self._size = np.ascontiguousarray(B[np.ix_(self._live, kept)].T)
        self._right_size = c[self._live] + self._size.max(axis=0, initial=0.0)
        self._reach: dict[str, Array] = {}
        self._correlated = [
            (k, np.searchsorted(self._live, rows)) for k, rows in enumerate(batch.groups)
        ]

    def _directions(self, z: Array) -> Array:
        """Directions (K, p) of what is kept, as the kernels take them: in units of SI."""
        z = z * self._batch.measured.units[self._kept]
        if len(self._kernels.columns) == z.shape[1]:
            return z
        whole = np.zeros((len(z), len(self._kernels.columns)))
        whole[:, self._place] = z
        return whole

    def solve(
        self,
        found: ReducedAnswers,
        where: IntArray,
        states: tuple[Array, Array, Array],
        judge: Judge | None,
    ) -> None:
        """Answer a few states and put the answers in their places."""
        q, qd, given = states
        values = [name for name in found.arrays if not name.startswith("std_")]
        bias, columns = self._rows(q, qd, values)
        offset = np.ascontiguousarray(bias[ROWS][:, self._of_rows])
        rows = np.ascontiguousarray(given[:, self._live])
        present = ~np.isnan(rows)
        right = np.where(present, rows - offset, 0.0)
        clear_rounding(columns, self._size)
        right_size = np.abs(offset) + np.abs(np.nan_to_num(rows)) + self._right_size
        whitened = _Whitened(self, columns, right, present, right_size, self._size)
        explain = found.residuals is not None or judge is not None
        deviate = any(name.startswith("std_") for name in found.arrays)
        system = columns, right, whitened.kinds, whitened.sizes, whitened.right_size
        many = minimise_many(*system, deviate=deviate, explain=explain)
        last = int(many.dof.max(initial=0))
        misfit = many.misfit[:, :last]
        whitened.solved(columns, many.scale, many.unexplained[:, :last])
        fine = many.certain.copy()
        for numbers in bias.values():
            fine &= np.isfinite(numbers).all(axis=1)
        sure = np.flatnonzero(fine)
        found.chi_square[where], found.degrees_of_freedom[where] = many.chi_square, many.dof
        if found.residuals is not None:
            moves, terms = whitened.moves()
            size, along = np.linalg.norm(moves, axis=2), np.einsum("nki,ni->nk", moves, misfit)
            whole = np.full(given.shape, np.nan)
            is_checked = size > CHECKED * terms
            whole[:, self._live] = np.where(
                is_checked, along / np.where(is_checked, size, 1.0), np.nan
            )
            found.residuals[where[sure]] = of_readings(self._batch.measured, whole, given)[sure]
        self._fill_values(found, where, values, bias, (q, qd, many.z), sure)
        self._fill_deviations(found, where, (q, qd), many, sure)
        doubtful = self._open(found, where, (q, qd), many, sure)
        fine[doubtful] = False
        if judge is not None:
            moves, terms, alone = self._moves_of_all((q, qd), whitened, present)
            sure = np.flatnonzero(fine & alone)
            some = moves[sure], terms[sure], misfit[sure]
            judge(where[sure], Checks.of(self._batch.measured, *some, many.dof[sure]))
            fine &= alone
        found.answered[where] = fine

    def _moves_of_all(
        self, states: tuple[Array, Array], whitened: _Whitened, present: BoolArray
    ) -> tuple[Array, Array, BoolArray]:
        """How the misfit moves (N, readings, f) with every reading, and terms (N, readings).

        True for states where every statement can be wrong alone: no exact row repeats it.
        """
        (q, qd), batch, n = states, self._batch, len(present)
        of_live, terms_of_live = whitened.moves()
        size = batch.measured.covariance.shape[0]
        moves, terms = np.zeros((n, size, of_live.shape[2])), np.zeros((n, size))
        moves[:, self._live], terms[:, self._live] = of_live, terms_of_live
        rows, zeros = batch._statements
        stated = np.isin(zeros, self._zeros)
        rows, zeros = rows[stated], zeros[stated]
        if not len(rows):
            return moves, terms, np.ones(n, dtype=bool)
        along = np.tile(np.diag(batch.measured.units)[zeros], (n, 1))
        repeated = np.repeat(q, len(zeros), axis=0), np.repeat(qd, len(zeros), axis=0)
        (seen,) = batch.any_kernels.linear((ROWS,)).batch(*repeated, along)[0]
        columns = np.ascontiguousarray(seen.reshape(n, len(zeros), -1)[:, :, self._live])
        of_zeros = np.ascontiguousarray(batch.sizes[0][np.ix_(self._live, zeros)].T)
        clear_rounding(columns, of_zeros)
        moves[:, rows], terms[:, rows], alone = whitened.moves_along(columns, present, of_zeros)
        unit = batch._sampled[0].B[rows, zeros]
        moves[:, rows] /= unit[:, None]
        terms[:, rows] /= np.abs(unit)
        return moves, terms, alone

    def _rows(self, q: Array, qd: Array, values: list[str]) -> tuple[dict[str, Array], Array]:
        """Biases by name, and the columns (N, p, m) of B."""
        names = (ROWS, *values)
        arrays, _ = self._kernels.bias(names).batch(q, qd)
        n, p = len(q), len(self._kept)
        kernel = self._kernels.linear((ROWS,))
        (rows,) = self._along(kernel, q, qd, np.tile(np.eye(p), (n, 1)), np.full(n, p))
        columns = rows.reshape(n, p, -1)
        if columns.shape[2] != len(self._live):
            columns = np.ascontiguousarray(columns[:, :, self._of_rows])
        return dict(zip(names, arrays, strict=True)), columns

    def _along(
        self, kernel: Kernel, q: Array, qd: Array, z: Array, counts: IntArray
    ) -> list[Array]:
        """Outputs of a linear kernel along directions z (K, p), so many at every state."""
        repeated = np.repeat(q, counts, axis=0), np.repeat(qd, counts, axis=0)
        return list(kernel.batch(*repeated, self._directions(z))[0])

    def _fill_values(
        self,
        found: ReducedAnswers,
        where: IntArray,
        values: list[str],
        bias: dict[str, Array],
        states: tuple[Array, Array, Array],
        sure: IntArray,
    ) -> None:
        if not values or not len(sure):
            return
        q, qd, z = (x[sure] for x in states)
        arrays, _ = self._kernels.linear(tuple(values)).batch(q, qd, self._directions(z))
        for name, moved in zip(values, arrays, strict=True):
            found.arrays[name][where[sure]] = moved + bias[name][sure]

    def _fill_deviations(
        self,
        found: ReducedAnswers,
        where: IntArray,
        states: tuple[Array, Array],
        many: Minimisers,
        sure: IntArray,
    ) -> None:
        """Deviations: the length of what a quantity moves by along those of z."""
        names = [name for name in found.arrays if name.startswith("std_")]
        if not names or not len(sure):
            return
        state, free = (*states, many.basis), many.free[sure]
        kinds = [name.removeprefix("std_") for name in names]
        moved = _lengths(*self._movements(kinds, state, sure, 0 * free, free))
        for name, lengths in zip(names, moved, strict=True):
            found.arrays[name][where[sure]] = lengths
        for name, (kind, body, matrix) in found.moved.items():
            vectors, ends = self._movements([kind], state, sure, 0 * free, free)
            of_body = vectors[0].reshape(len(vectors[0]), -1, 6)[:, body]
            at_frame = np.ascontiguousarray(of_body @ matrix.T)
            (found.at_frames[name][where[sure]],) = _lengths([at_frame], ends)

    def _movements(
        self,
        names: list[str],
        states: tuple[Array, Array, Array],
        some: IntArray,
        start: IntArray,
        count: IntArray,
    ) -> tuple[list[Array], IntArray]:
        """What quantities (K, size) move by along directions, and where those of a state end.

        The directions of the basis from ``start`` on, ``count`` of them, at ``some`` states.
        """
        q, qd, basis = (x[some] for x in states)
        places = np.arange(basis.shape[1])
        chosen = (places >= start[:, None]) & (places < (start + count)[:, None])
        kernel = self._kernels.linear(tuple(names))
        arrays = self._along(kernel, q, qd, basis[chosen], count)
        return arrays, np.concatenate([[0], np.cumsum(count)])

    def _open(
        self,
        found: ReducedAnswers,
        where: IntArray,
        states: tuple[Array, Array],
        many: Minimisers,
        sure: IntArray,
    ) -> IntArray:
        """Make NaN what moves along unseen directions; states where that is in doubt."""
        some = sure[many.unseen[sure] > 0]
        names = list(dict.fromkeys(name.removeprefix("std_") for name in found.arrays))
        if not len(some) or not names:
            return np.zeros(0, dtype=np.intp)
        state, places = (*states, many.basis), (many.free[some], many.unseen[some])
        moved = _lengths(*self._movements(names, state, some, *places))
        doubtful, size = np.zeros(len(some), dtype=bool), self._batch.sizes[2]
        for name, lengths in zip(names, moved, strict=True):
            columns = self._batch._columns(name)
            if name not in self._reach:
                self._reach[name] = self._batch.reach_of_zeros(self._zeros, columns)
            squared = many.scale[some] ** 2 @ size[np.ix_(columns, self._kept)].T ** 2
            limit = OPEN * np.sqrt(squared + self._reach[name])
            is_open = lengths > limit
            doubtful |= ((lengths > limit / MARGIN) & (lengths < limit * MARGIN)).any(axis=1)
            for target in (name, f"std_{name}"):
                if target in found.arrays:
                    kept = found.arrays[target][where[some]]
                    found.arrays[target][where[some]] = np.where(is_open, np.nan, kept)
        return np.asarray(some[doubtful])


def _distinct(truths: BoolArray) -> tuple[IntArray, IntArray]:
    """First of every kind of row (N, k), and which kind each row is."""
    packed = np.packbits(truths, axis=1)
    if not packed.shape[1]:
        return np.zeros(min(len(truths), 1), dtype=np.intp), np.zeros(
            len(truths), dtype=np.intp
        )
    whole = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    kinds: dict[bytes, int] = {}
    which = [kinds.setdefault(row, len(kinds)) for row in whole.tolist()]
    numbers = np.array(which, dtype=np.intp)
    return np.unique(numbers, return_index=True)[1], numbers


def _lengths(arrays: Sequence[Array], ends: IntArray) -> list[Array]:
    """Root of the sum of squares over rows ends[k] : ends[k + 1] of every column of each."""
    found = [np.zeros((len(ends) - 1, rows.shape[1])) for rows in arrays]
    for out, rows in zip(found, arrays, strict=True):
        for k, (start, stop) in enumerate(pairwise(ends.tolist())):
            np.einsum("ki,ki->i", rows[start:stop], rows[start:stop], out=out[k])
    return [np.sqrt(out) for out in found]


@final
class _Whitened:
    """Rows of unit noise and exact rows made in place from those that are present.

    Attributes
    ----------
    kinds : (N, m) what every row is now.
    sizes, right_size : (N or 1, p, m) and (N, m) of the columns and of the right sides.
    """

    def __init__(
        self,
        group: _Group,
        columns: Array,
        right: Array,
        present: BoolArray,
        right_size: Array,
        size: Array,
    ) -> None:
        self._batch, self._group = group._batch, group
        self._live = group._live
        columns *= group._weight
        right *= group._weight
        kinds = np.where(group._exact, EXACT, NOISY)
        self.kinds = np.where(present, kinds, ABSENT).astype(np.int64)
        n = len(columns) if group._correlated else 1
        self.sizes = np.tile(size * group._weight, (n, 1, 1))
        self.right_size = right_size * group._weight
        self._combined: list[tuple[IntArray, IntArray, Array]] = []
        for number, rows in group._correlated:
            first, which = _distinct(present[:, rows])
            for k, state in enumerate(first.tolist()):
                states, there = np.flatnonzero(which == k), present[state, rows]
                self._combine(number, rows, there, states, columns, right, group)

    def _combine(
        self,
        number: int,
        rows: IntArray,
        there: BoolArray,
        states: IntArray,
        columns: Array,
        right: Array,
        group: _Group,
    ) -> None:
        """Turn correlated rows into their principal axes, at states where these are there."""
        batch, some = self._batch, rows[there]
        key = number, there.tobytes()
        if key not in batch.axes:
            readings = self._live[some]
            block = batch.measured.covariance[readings][:, readings].toarray()
            batch.axes[key] = noise_axes(block)
        noisy, exact = batch.axes[key]
        combination = np.vstack([noisy, exact])
        scaled = combination / group._weight[some]
        at = states[:, None, None], np.arange(columns.shape[1])[:, None], some
        columns[at] = columns[at] @ scaled.T
        self.sizes[at] = sizes = self.sizes[at] @ np.abs(scaled).T
        for numbers, factors in ((right, scaled), (self.right_size, np.abs(scaled))):
            numbers[states[:, None], some] = numbers[states[:, None], some] @ factors.T
        self.kinds[states[:, None], some] = np.repeat([NOISY, EXACT], [len(noisy), len(exact)])
        if len(exact):
            last = some[len(noisy) :]
            at = states[:, None, None], np.arange(columns.shape[1])[:, None], last
            columns[at] = without_rounding(columns[at], sizes[:, :, len(noisy) :])
        self._combined.append((states, some, combination))

    # ---- how the misfit moves with the readings ----------------------------------------------

    def solved(self, columns: Array, scale: Array, unexplained: Array) -> None:
        """Take the rows (N, p, m), units of unknowns (N, p), basis (N, f, m) of misfits."""
        self._columns, self._scale, self._unexplained = columns, scale, unexplained

    @cached_property
    def _held(self) -> tuple[IntArray, Array, Array, Array]:
        """Exact rows E among all, X that undoes E, and how misfit (N, f, e) and terms move."""
        exact = np.flatnonzero((self.kinds == EXACT).any(axis=0))
        is_exact = self.kinds[:, exact] == EXACT
        E = np.where(is_exact[:, :, None], self._columns[:, :, exact].transpose(0, 2, 1), 0.0)
        sizes = np.linalg.norm(self.sizes[:, :, exact], axis=1)
        weight = 1.0 / np.where(sizes > 0, sizes, 1.0)
        X = np.linalg.pinv(E * weight[:, :, None] * self._scale[:, None], rcond=RANK_TOLERANCE)
        X = X * weight[:, None] * self._scale[:, :, None]
        X = beyond_rounding(X, self._scale[:, :, None], 1)
        A = np.where((self.kinds == NOISY)[:, :, None], self._columns.transpose(0, 2, 1), 0.0)
        moved = np.abs(A) @ np.abs(X)
        return exact, X, self._unexplained @ (A @ X), np.linalg.norm(moved, axis=1)

    def moves(self) -> tuple[Array, Array]:
        """How the misfit moves (N, m, f) with readings wrong by a deviation; terms (N, m)."""
        is_noisy = self.kinds == NOISY
        moves = np.where(is_noisy[:, :, None], self._unexplained.transpose(0, 2, 1), 0.0)
        terms = is_noisy.astype(np.float64)
        exact, _, moved, moved_terms = self._held
        if len(exact):
            moves[:, exact] -= moved.transpose(0, 2, 1)
            terms[:, exact] += moved_terms
        deviation = np.sqrt(self._batch.measured.variance[self._live])
        for states, rows, combination in self._combined:
            unit = np.where(deviation[rows] > 0, deviation[rows], 1.0)
            at = states[:, None], rows
            moves[at] = (combination * unit).T @ moves[at]
            terms[at] = terms[at] @ np.abs(combination * unit)
        return moves, terms

    def moves_along(
        self, columns: Array, present: BoolArray, size: Array
    ) -> tuple[Array, Array, BoolArray]:
        """How the misfit moves (N, k, f) back along columns (N, k, m) of further unknowns.

        ``size`` (k, m) of the columns. Returns their terms (N, k) too, and whether exact rows
        let all of them move.
        """
        none = np.zeros(present.shape)
        twin = _Whitened(self._group, columns, none, present, none.copy(), size)
        assert np.array_equal(twin.kinds, self.kinds)
        noisy = np.where((self.kinds == NOISY)[:, None], columns, 0.0)
        moves = -(noisy @ self._unexplained.transpose(0, 2, 1))
        terms = np.linalg.norm(noisy, axis=2)
        exact, X, moved, moved_terms = self._held
        alone = np.ones(len(columns), dtype=bool)
        if len(exact):
            is_exact = (self.kinds[:, exact] == EXACT)[:, None]
            hit = np.where(is_exact, columns[:, :, exact], 0.0)
            moves += hit @ moved.transpose(0, 2, 1)
            terms += np.einsum("nke,ne->nk", np.abs(hit), moved_terms)
            E = np.where(is_exact, self._columns[:, :, exact], 0.0)
            missed = np.linalg.norm(hit - hit @ (X.transpose(0, 2, 1) @ E), axis=2)
            alone = (missed <= ALONE * np.linalg.norm(hit, axis=2)).all(axis=1)
        return moves, terms, alone
