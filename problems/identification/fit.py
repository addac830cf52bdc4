"""Parameters from data: least squares over a log, held near the model, physically consistent.

    minimise  sum of w (y - R theta - E x - c)^2  +  |(theta - model) / size|^2

1. Contacts. The wrenches x of a sample are eliminated: rows become their part across E. What
   the layout states about x (nothing touches the hand, no motor moves the base) holds exactly.
2. Weights  w = 1 / (variance of the row's residual x its correlation time): a smooth residual
   of 100 samples counts once (:mod:`problems.identification.noise`). Both are estimated from
   the residuals, the fit repeated until they stand; readings far off count less (Huber's loss).
3. Physical consistency by :mod:`problems.identification.physical`.
4. Deviations from the residuals' correlation in time and the model's natural sizes:
   H^-1 (scores + 1 / size^2) H^-1.

Normal equations: what data tell is compared with the model's natural sizes, so digits below
1e-8 of the largest do not matter here; ranks are judged elsewhere, by orthogonal factors
(:mod:`problems.identification.seen`). O(samples x rows x parameters^2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, final

import numpy as np
from scipy.special import erfc

from dynsys.errors import LayoutError, ModelError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from problems.identification.noise import Autoregression, autocovariance
from problems.identification.parameter_set import ParameterSet
from problems.identification.physical import nearest_physical
from problems.measured.measured_system import Readings

__all__ = [
    "Fit",
    "Information",
    "Log",
    "Noise",
    "Payload",
    "Prediction",
    "Validation",
    "checked_log",
    "fit_parameters",
]

Noise: TypeAlias = Literal["estimate", "layout"]

CHUNK = 8192
"""Samples at a time."""
ROUNDS = 25
STANDS = 0.002
"""The fit is repeated until weights change by less than this part."""
HUBER = 4.0
"""Residuals beyond this many deviations count by their size, not its square."""
ABSORBED = 1e-6
"""A row of which contacts leave less than this part says nothing about parameters."""
START = 0.01
"""Noise to begin with, in what the model leaves of a reading."""
CLEAN = 1e-4
"""A reading's noise is taken to be at least this part of what the model leaves of it."""
PAYLOAD = 10.0
"""Natural size of a payload, in that of the body that carries it."""
NORMAL = 1.4826
"""Deviation of normal numbers, in the median of their sizes."""
BAND = 1.959964
"""Half width of a 95 % band, in deviations."""


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


# ---- rows of unit weight, contacts eliminated ------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """Weighted rows  A theta = b  of some samples.

    ``A`` (N, rows, p) and ``b`` (N, rows) are zero where there is no reading; ``left``
    (N, rows) is the part of each row that contacts leave.
    """

    A: Array
    b: Array
    left: Array

    @cached_property
    def columns(self) -> list[IntArray]:
        """Parameters that each row depends on."""
        return [np.flatnonzero(used) for used in np.asarray(self.A.any(axis=0))]


@final
@dataclass(eq=False)
class _Samples:
    """All rows of a log, chunk by chunk, for given weights."""

    sought: ParameterSet
    log: Log
    plain: bool = False
    about: Array | None = None
    _kept: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict)
    _weight: Array | None = None
    _rows: dict[int, _Rows] = field(default_factory=dict)

    def chunks(self) -> range:
        return range(0, len(self.log), CHUNK)

    @cached_property
    def statements(self) -> BoolArray:
        """Rows that the layout states, exactly, about contacts: they give wrenches away."""
        layout = self.sought.layout
        about = (self._pattern.contact != 0).any(axis=-1) & np.isfinite(layout.constants)
        return np.asarray(about & layout.exact)

    @cached_property
    def involved(self) -> BoolArray:
        """Rows that parameters have a part in."""
        return np.asarray((self._pattern.theta != 0).any(axis=-1))

    @cached_property
    def _pattern(self) -> Any:
        q, qd, qdd = self.log.q[0], self.log.qd[0], self.log.qdd[0]
        return self.sought.rows(q, qd, qdd, plain=True)

    @cached_property
    def stated(self) -> BoolArray:
        """Rows whose noise the layout knows best: they hold no data, and some noise."""
        layout = self.sought.layout
        return np.asarray(np.isfinite(layout.constants) & ~layout.exact)

    def raw(self, start: int) -> tuple[Array, Array, Array]:
        """R, E and y - c of a chunk; kept where memory allows."""
        if start not in self._kept:
            part = self.log.part(slice(start, start + CHUNK))
            rows = self.sought.rows(
                part.q, part.qd, part.qdd, plain=self.plain, about=self.about
            )
            found = rows.theta, rows.contact, part.y - rows.known
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
        self._rows.clear()
        size = len(self.sought.gains)
        return float(np.abs(theta[-size:] / before[-size:] - 1.0).max())

    def weighted(self, weight: Array) -> Iterator[tuple[int, _Rows]]:
        """Rows times ``weight`` (rows,), chunk by chunk."""
        if self._weight is None or not np.array_equal(weight, self._weight):
            self._weight = weight
            self._rows.clear()
        for start in self.chunks():
            rows = self._rows.get(start)
            if rows is None:
                rows = _weighted(*self.raw(start), weight, self.statements)
                if start in self._kept:
                    self._rows[start] = rows
            yield start, rows


def _weighted(R: Array, E: Array, b: Array, weight: Array, statements: BoolArray) -> _Rows:
    present = np.isfinite(b)
    W = np.where(present, weight, 0.0)
    b = np.where(present, b, 0.0)
    if not E.shape[-1]:
        return _Rows(R * W[..., None], b * W, (W > 0).astype(np.float64))
    largest = np.linalg.norm(E * W[..., None], axis=(1, 2))[:, None]
    if statements.any():  # x = P^+ (b - R theta) + (1 - P^+ P) z of the rows that state it
        P = E[:, statements] * present[:, statements, None]
        carried = E @ np.linalg.pinv(P[:1] if _same(P) else P, rcond=1e-10)
        b = b - (carried @ b[:, statements, None])[..., 0]
        R = R - carried @ (R[:, statements] * present[:, statements, None])
        E = E - carried @ P
        W = np.where(statements, 0.0, W)
    A, b, E = R * W[..., None], b * W, E * W[..., None]
    U, s, _ = np.linalg.svd(E, full_matrices=False)
    U = U * (s > 1e-9 * np.maximum(largest, 1e-300))[:, None, :]  # not of rounding alone
    Ut = np.swapaxes(U, 1, 2)
    left = np.where(W > 0, 1.0 - (U * U).sum(axis=-1), 0.0)
    return _Rows(A - U @ (Ut @ A), b - (U @ (Ut @ b[..., None]))[..., 0], left)


def weighted_rows(sought: ParameterSet, log: Log, std: Array, *, plain: bool = False) -> Array:
    """Rows (N, rows, p) of unit noise, contacts eliminated; ``plain`` without a kernel."""
    samples = _Samples(sought, log, plain)
    R, E, b = samples.raw(0)
    return _weighted(R, E, b, 1.0 / std, samples.statements).A


def _same(P: Array) -> bool:
    return bool((P == P[:1]).all())


# ---- the fit ---------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Information:
    """What a log says: normal equations and the scatter of their right side.

    Attributes
    ----------
    G : (p, p), g : (p,) of the weighted rows.
    scores : (p, p) covariance of g, residuals correlated in time.
    """

    G: Array
    g: Array
    scores: Array

    def covariance(self, scale: Array) -> Array:
        """Covariance (p, p) of the parameters, natural sizes ``scale`` (p,) of the model."""
        root = posterior_root(self.G, scale)
        inverse = root @ root.T
        return np.asarray(inverse @ (self.scores + np.diag(1.0 / scale**2)) @ inverse)


def posterior_root(G: Array, scale: Array) -> Array:
    """U (p, p) with  U U^T = (G + 1 / scale^2)^-1.

    By eigenvalues in natural sizes: none is below one, whatever G.
    """
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    return np.asarray(scale[:, None] * vectors / np.sqrt(1.0 + np.maximum(values, 0.0)))


def fit_parameters(
    sought: ParameterSet,
    log: Log,
    scale: Array,
    *,
    physical: bool = True,
    noise: Noise = "estimate",
    huber: float | None = HUBER,
) -> Fit:
    """Fit to a log; see the module and :meth:`problems.Identification.fit`."""
    samples = _Samples(sought, log)
    std = most = _first_std(samples, noise)
    least = CLEAN * std
    if noise == "estimate":  # first by the data alone: else the model could hold them off
        std = START * std
    time, trust = np.ones_like(std), np.ones_like(log.y)
    longest = np.full_like(std, np.inf)
    followed = np.zeros((len(std), 1))
    for count in range(ROUNDS):
        weight = 1.0 / (std * np.sqrt(time))
        G, g = _normal(samples, weight, trust)
        theta = _solved(sought, G, g, scale, physical)
        moved = samples.move(theta)
        residual, left = _residuals(samples, weight, theta)
        if count == 0 and noise == "estimate":  # how far is far off: by what most readings are
            middle = NORMAL * np.median(np.abs(np.nan_to_num(residual)), axis=0)
            std = np.where(samples.stated | ~(middle > 0), std, np.clip(middle, least, most))
        if huber is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                trust = np.minimum(1.0, huber * std / np.abs(residual))
            trust[~np.isfinite(trust)] = 1.0
        counted = (trust * residual).T
        series = zip(counted, followed, strict=True)
        models = [Autoregression.of(r, more) for r, more in series]
        time = np.array([model.correlation_time for model in models])
        if noise == "estimate":
            time = np.minimum(time, longest)
            longest = time if np.isinf(longest).all() else longest
            found = _residual_std(residual, left, followed[:, 0], std, huber)
            # No fit makes a reading's noise larger than the model left it: else a row that
            # others pull away would be trusted less and less, and pulled further.
            std = np.where(samples.stated, std, np.clip(found, least, most))
        change = np.abs(1.0 / (std * np.sqrt(time)) / weight - 1.0).max(initial=0.0)
        if max(float(change), 10 * moved) >= STANDS:
            continue
        if followed.any():
            break
        # the weights stand: once, add to the residuals what the fit has followed of the noise
        spread = np.sqrt([model.variance for model in models])
        first = Information(G, g, _scores(samples, weight, trust, models, spread))
        followed = _followed(samples, first.covariance(scale), scale)
        longest = np.full_like(std, np.inf)
    information = Information(G, g, _scores(samples, weight, trust, models, std))
    return Fit(sought, theta, std, time, information, scale, physical, len(log))


def _first_std(samples: _Samples, noise: Noise) -> Array:
    """Deviations (rows,) to begin with: the layout's, or those of what the model leaves."""
    sought, layout = samples.sought, samples.sought.layout
    needed = ~samples.statements
    if noise == "layout":
        exact = np.flatnonzero(layout.exact & needed & samples.involved)
        if len(exact):
            raise LayoutError(
                f"reading {layout.labels[exact[0]]!r} has a std of zero: exact at every sample,"
                " which no log is; give it a std, or let the fit estimate it (noise='estimate')"
            )
        return np.where(needed & ~layout.exact, layout.std, 1.0)
    given = np.where(layout.std > 0, layout.std, 1.0)
    residual, left = _residuals(samples, 1.0 / given, sought.model)
    count = np.maximum(np.isfinite(residual).sum(axis=0), 1)
    seen = needed & ~samples.stated & (left > ABSORBED)
    found = np.sqrt(np.nansum(residual**2, axis=0) / count / np.where(seen, left, 1.0))
    return np.where(seen & (found > 0), found, given)


def _normal(samples: _Samples, weight: Array, trust: Array) -> tuple[Array, Array]:
    """G (p, p) and g (p,) of rows that count by ``trust`` (N, rows), each on its columns."""
    p = samples.sought.size
    G, g = np.zeros((p, p)), np.zeros(p)
    for start, rows in samples.weighted(weight):
        root = np.sqrt(trust[start : start + CHUNK])
        for k, used in enumerate(rows.columns):
            A = rows.A[:, k, used] * root[:, k, None]
            G[np.ix_(used, used)] += A.T @ A
            g[used] += A.T @ (rows.b[:, k] * root[:, k])
    return G, g


def _solved(sought: ParameterSet, G: Array, g: Array, scale: Array, physical: bool) -> Array:
    """Minimiser of the weighted squares and of the distance from the model."""
    start, root = sought.model, posterior_root(G, scale)
    free = np.asarray(start + root @ (root.T @ (g - G @ start)))
    if not physical:
        return free
    tens = [ten for ten in sought.bodies.values() if len(ten) == 10]
    return nearest_physical(free, root, scale, tens, sought.not_negative)


def _residuals(samples: _Samples, weight: Array, theta: Array) -> tuple[Array, Array]:
    """Residuals (N, rows) in units of the readings, NaN for none; what contacts leave."""
    found, left = np.full(samples.log.y.shape, np.nan), []
    for start, rows in samples.weighted(weight):
        there = rows.left > 0
        r = (rows.b - rows.A @ theta) / weight
        found[start : start + CHUNK] = np.where(there, r, np.nan)
        left.append(rows.left.sum(axis=0))
    count = np.maximum(np.isfinite(found).sum(axis=0), 1)
    return found, np.sum(left, axis=0) / count


def _scores(
    samples: _Samples, weight: Array, trust: Array, models: list[Autoregression], std: Array
) -> Array:
    """Covariance of g: every row with its own autocovariance, chunks apart."""
    p = samples.sought.size
    scores = np.zeros((p, p))
    for start, rows in samples.weighted(weight):
        for k, (model, used) in enumerate(zip(models, rows.columns, strict=True)):
            if len(used) and model.variance > 0:
                A = rows.A[:, k, used] * trust[start : start + CHUNK, k, None]
                factor = (weight[k] * std[k]) ** 2 / model.variance
                scores[np.ix_(used, used)] += factor * model.scores(A)
    return scores


def _followed(samples: _Samples, covariance: Array, scale: Array) -> Array:
    """Autocovariance (rows, lags) of what deviations of the parameters make of each reading.

    A fit follows that much of the noise: it is missing in the residuals.
    """
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    total: Array | float = 0.0
    for start in samples.chunks():
        moved = samples.raw(start)[0] @ root
        rows = range(moved.shape[1])
        total = total + np.array([autocovariance(moved[:, k]) for k in rows])
    return np.asarray(total) / len(samples.log)


def _residual_std(
    residual: Array, left: Array, followed: Array, std: Array, huber: float | None
) -> Array:
    """Deviation (rows,) of each reading's noise: what is left, what the fit followed."""
    squares = residual**2
    if huber is not None:  # E min(z^2, k^2) = usual for normal z
        k, tail = huber, erfc(huber / np.sqrt(2))
        usual = 1 - tail - k * np.sqrt(2 / np.pi) * np.exp(-k * k / 2) + k * k * tail
        squares = np.minimum(squares, (k * std) ** 2) / usual
    seen = (left > ABSORBED) & np.isfinite(residual).any(axis=0)
    mean = np.nansum(squares, axis=0) / np.maximum(np.isfinite(residual).sum(axis=0), 1)
    found = np.sqrt(mean / np.where(seen, left, 1.0) + followed)
    return np.where(seen & (found > 0), found, std)


# ---- what came out --------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Prediction:
    """Readings (N, rows) from the motion, and the deviation of what a sensor would show."""

    value: Array
    std: Array

    @property
    def low(self) -> Array:
        """Lower end of the 95 % band."""
        return np.asarray(self.value - BAND * self.std)

    @property
    def high(self) -> Array:
        """Upper end of the 95 % band."""
        return np.asarray(self.value + BAND * self.std)


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """How a fit does on data that it has not seen, row by row.

    Attributes
    ----------
    labels, units : of the rows.
    before, after : (rows,) rms of reading minus prediction, by the model and by the fit.
    inside : (rows,) part of the readings within the 95 % band.
    """

    labels: tuple[str, ...]
    units: tuple[str, ...]
    before: Array
    after: Array
    inside: Array


@final
@dataclass(frozen=True, eq=False)
class Payload:
    """Something that one log has and another has not, about the origin of ``body``.

    Attributes
    ----------
    mass, centre, inertia : kg, m (3,), kg m^2 (3, 3) about the body's origin.
    values, std : (10,) mass, first moments, inertias, and their deviations.
    centre_std : (3,) deviation of the centre.
    """

    body: str
    values: Array
    std: Array
    centre_std: Array

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.values[0])

    @property
    def mass_std(self) -> float:
        """Deviation of the mass, kg."""
        return float(self.std[0])

    @property
    def centre(self) -> Array:
        """Centre of mass (3,) in body coordinates, m."""
        return np.asarray(self.values[1:4] / self.values[0])

    @property
    def inertia(self) -> Array:
        """Inertia (3, 3) about the body's origin, kg m^2."""
        upper = np.zeros((3, 3))
        upper[np.triu_indices(3)] = self.values[4:]
        return np.asarray(upper + np.triu(upper, 1).T)


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Parameters from a log, with deviations.

    Attributes
    ----------
    theta : (p,) values in the order of ``names``.
    noise : (rows,) deviation of each reading about the fit.
    correlation_time : (rows,) samples of the residual that count as one.
    """

    sought: ParameterSet
    theta: Array
    noise: Array
    correlation_time: Array
    information: Information
    scale: Array
    physical: bool
    n_samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.sought.names

    @property
    def values(self) -> dict[str, float]:
        """Value of every parameter by name; what data cannot tell is the model's."""
        return dict(zip(self.names, self.theta.tolist(), strict=True))

    @cached_property
    def covariance(self) -> Array:
        """Covariance (p, p) of the parameters."""
        return self.information.covariance(self.scale)

    @property
    def std(self) -> dict[str, float]:
        """Standard deviation of every parameter by name.

        Near the natural size of the parameter (``scale``) where data tell nothing about it.
        """
        deviations = np.sqrt(self.covariance.diagonal())
        return dict(zip(self.names, deviations.tolist(), strict=True))

    @cached_property
    def robot(self) -> KinematicTree:
        """The robot with the parameters found, friction in its equations of motion."""
        count = len(self.sought.regressor.columns)
        values = dict(zip(self.names[:count], self.theta[:count].tolist(), strict=True))
        return self.sought.robot.with_parameters(values, physical=self.physical)

    def predict(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, y: Readings | None = None
    ) -> Prediction:
        """Readings from motion alone, or from motion and some readings ``y``.

        Parameters
        ----------
        q, qd, qdd : (N, nq), (N, nv), (N, nv).
        y : (N, rows) readings that tell the unknown wrenches of contacts; NaN for those that
            are held out. None: only what the layout states.

        A reading that depends on a contact about which nothing is known is NaN.
        """
        log = checked_log(self.sought, q, qd, qdd, y)
        parts = [
            self._predicted(log.part(slice(start, start + CHUNK)))
            for start in range(0, len(log), CHUNK)
        ]
        values, variances = zip(*parts, strict=True)
        return Prediction(np.concatenate(values), np.sqrt(np.concatenate(variances)))

    def _predicted(self, log: Log) -> tuple[Array, Array]:
        """Value and variance (N, rows) of readings."""
        rows = self.sought.rows(log.q, log.qd, log.qdd, about=self.theta)
        R, E = rows.theta, rows.contact
        value = R @ self.theta + rows.known
        own = np.broadcast_to(self.noise**2, value.shape)
        if E.shape[-1]:
            weight = np.where(self.sought.layout.exact, 1e6, 1.0) / self.noise
            W = np.where(np.isfinite(log.y), weight, 0.0)
            U, s, Vt = np.linalg.svd(E * W[..., None], full_matrices=True)
            size = E.shape[-1]
            known = np.zeros((len(E), size))
            known[:, : s.shape[1]] = s > 1e-9 * np.maximum(s[:, :1], 1e-300)
            inverse = np.divide(1.0, s, out=np.zeros_like(s), where=known[:, : s.shape[1]] > 0)
            V = np.swapaxes(Vt, 1, 2)
            gain = (V[:, :, : s.shape[1]] * inverse[:, None]) @ np.swapaxes(
                U[:, :, : s.shape[1]], 1, 2
            )
            to_x = gain * W[:, None]  # x = to_x (y - value)
            missing = np.where(np.isfinite(log.y), log.y - value, 0.0)
            through = E @ to_x
            value = value + (through @ missing[..., None])[..., 0]
            R = R - through @ R
            own = own + (through**2 @ (self.noise**2)[:, None])[..., 0]
            free = np.abs(E @ (V * (1.0 - known)[:, None])).max(axis=-1)
            lost = free > 1e-6 * np.maximum(np.abs(E).max(axis=-1), 1e-300)
            value = np.where(lost, np.nan, value)
        variance = np.einsum("nkp,nkp->nk", R @ self.covariance, R)
        return value, variance + own

    def residual_rms(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, y: Readings
    ) -> dict[str, float]:
        """Rms of reading minus prediction by label of the reading, in its unit."""
        after = self.validate(q, qd, qdd, y).after
        return dict(zip(self.sought.layout.labels, after.tolist(), strict=True))

    def validate(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, y: Readings) -> Validation:
        """Compare readings that the fit has not seen with what it predicts.

        Contacts, if there are any, are told by the readings themselves.
        """
        layout, log = self.sought.layout, checked_log(self.sought, q, qd, qdd, y)
        said = log.y if self.sought.regressor.contacts else np.full_like(log.y, np.nan)
        found = self.predict(log.q, log.qd, log.qdd, said)
        model = replace(self, theta=self.sought.model)
        before = model.predict(log.q, log.qd, log.qdd, said).value
        off = log.y - found.value
        there = np.isfinite(off)
        inside = (np.abs(off) <= BAND * found.std) & there
        count = np.maximum(there.sum(axis=0), 1)
        return Validation(
            layout.labels,
            layout.units,
            _rms(log.y - before),
            _rms(off),
            inside.sum(axis=0) / count,
        )

    def payload(self, without: Fit, body: str) -> Payload:
        """What this log's robot carries on ``body`` and that of ``without`` does not.

        One least squares over both logs, all parameters shared but ten more on the body here:
        what the model gets wrong in both logs alike cancels.
        """
        sought = self.sought
        i = sought.robot.body_index(body)
        if without.names != self.names or i not in sought.bodies:
            raise ModelError(
                f"a payload on {body!r} is the difference of two fits of the same parameters,"
                f" those of {body!r} among them"
            )
        ten, p = sought.bodies[i], sought.size
        here = np.vstack([np.eye(p), np.eye(p)[ten]]).T  # theta here, of (theta, payload)
        G = here.T @ self.information.G @ here
        scores = here.T @ self.information.scores @ here
        g = here.T @ self.information.g
        G[:p, :p] += without.information.G
        scores[:p, :p] += without.information.scores
        g[:p] += without.information.g
        scale = np.concatenate([self.scale, PAYLOAD * self.scale[ten]])
        start = np.concatenate([sought.model, np.zeros(10)])
        root = posterior_root(G, scale)
        x = start + root @ (root.T @ (g - G @ start))
        if self.physical:
            tens = [*(t for t in sought.bodies.values() if len(t) == 10), p + np.arange(10)]
            x = nearest_physical(x, root, scale, tens, sought.not_negative)
        covariance = Information(G, g, scores).covariance(scale)[p:, p:]
        found = x[p:]
        slope = np.zeros((3, 10))  # of centre = first moment / mass
        slope[:, 0] = -found[1:4] / found[0] ** 2
        slope[:, 1:4] = np.eye(3) / found[0]
        centre = np.sqrt((slope @ covariance @ slope.T).diagonal())
        return Payload(body, found, np.sqrt(covariance.diagonal()), centre)


def _rms(x: Array) -> Array:
    count = np.maximum(np.isfinite(x).sum(axis=0), 1)
    return np.asarray(np.sqrt(np.nansum(x**2, axis=0) / count))


def checked_log(
    sought: ParameterSet, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, y: Readings | None
) -> Log:
    """Motion and readings as arrays, of the right shapes, motion finite; known y filled in.

    Raises
    ------
    StateError
        naming what has the wrong shape or is not a number, and where.
    """
    robot, layout = sought.robot, sought.layout
    sizes = {"q": robot.nq, "qd": robot.nv, "qdd": robot.nv}
    found = []
    for (name, size), given in zip(sizes.items(), (q, qd, qdd), strict=True):
        x = float_array(given)
        if x.ndim != 2 or x.shape[1] != size or not len(x):
            raise StateError(
                f"{name} of robot {robot.name!r} must have shape (N, {size}), got {x.shape}"
            )
        if not np.isfinite(x).all():
            sample = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise StateError(f"{name}: sample {sample} is not finite; leave such samples out")
        found.append(x)
    n = len(found[0])
    if {len(x) for x in found} != {n}:
        raise StateError(f"q, qd and qdd have different numbers of samples: {n} and others")
    if y is None:
        values = np.full((n, layout.size), np.nan)
    else:
        values = layout.pack(y) if isinstance(y, Mapping) else float_array(y)
    if values.shape != (n, layout.size):
        raise StateError(f"y must have shape ({n}, {layout.size}), got {values.shape}")
    if np.isinf(values).any():
        raise StateError("y has infinite readings; NaN means that there is none")
    known = np.isnan(values) & np.isfinite(layout.constants)
    return Log(found[0], found[1], found[2], np.where(known, layout.constants, values))
