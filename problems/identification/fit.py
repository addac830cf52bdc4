"""Parameters from data: least squares over a log, held near the model, physically consistent.

    minimise  sum of w (y - R theta - E x - c)^2  +  |(theta - model) / size|^2

1. Rows of unit noise (:mod:`problems.identification.weighted`): the wrenches x of a sample are
   eliminated, what the layout states about them (nothing touches the hand, no motor moves the
   base) holds exactly, and noise that readings share is taken out.
2. Weights  w = 1 / (variance of the row's residual x its correlation time): a smooth residual
   of 100 samples counts once (:mod:`problems.correlation`). Both are estimated from
   the residuals, the fit repeated until they stand; readings far off count less (Huber's loss).
   Correlations between readings are the layout's, whether their deviations are or not.
3. Physical consistency by :mod:`problems.identification.physical`.
4. Deviations from the residuals' correlation in time and the model's natural sizes:
   H^-1 (scores + 1 / size^2) H^-1.
5. What the model and the constraints make of it beside unconstrained least squares on the same
   rows: :mod:`problems.identification.least_squares`.

Normal equations: what data tell is compared with the model's natural sizes, so digits below
1e-8 of the largest do not matter here; ranks are judged elsewhere, by orthogonal factors
(:mod:`problems.identification.seen`). O(samples x rows x (parameters of a row)^2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast, final, get_args

import numpy as np
from scipy.special import erfc

from dynsys.errors import LayoutError, ModelError, StateError
from dynsys.model.parameters import FRICTION
from dynsys.model.tree import KinematicTree
from dynsys.recursive.inputs import finite_rows
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from problems.correlation import Autoregression, autocovariance
from problems.identification.least_squares import (
    LeastSquares,
    beside_least_squares,
    rms,
)
from problems.identification.parameter_set import ParameterSet
from problems.identification.physical import nearest_physical
from problems.identification.regressor import OVERFLOW, check_finite
from problems.identification.weighted import CHUNK, Log, Samples, SharedNoise
from problems.measured.measured_system import Readings
from problems.measured.multiples import times_wrong

__all__ = [
    "Fit",
    "Information",
    "Noise",
    "Payload",
    "PredictedReadings",
    "Validation",
    "checked_log",
    "fit_parameters",
]

Noise: TypeAlias = Literal["estimate", "layout"]

ROUNDS = 25
SWAYING = 8
"""Rounds after which a correlation time may only fall: some sway between two orders."""
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
FINEST = 3e-8
"""No noise is less than this part of all that natural sizes make of a reading in a log."""
PAYLOAD = 10.0
"""Natural size of a payload, in that of the body that carries it."""
NORMAL = 1.4826
"""Deviation of normal numbers, in the median of their sizes."""
UNEXPLAINED, FAULT = 0.8, 5.0
"""A fit is doubtful that leaves so much of a reading's spread and so many stated deviations."""
FACTOR = 8.0
"""Factor between a reading and what the model expects from which a unit is blamed."""
BAND = 1.959964
"""Half width of a 95 % band, in deviations."""


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
        """Covariance (p, p) of the parameters, natural sizes ``scale`` (p,) of the model.

        U (U^T scores U) U^T, never U U^T itself: what is told to 1e-6 of its natural size keeps
        its digits beside what is not told at all.
        """
        root = posterior_root(self.G, scale)
        middle = root.T @ (self.scores + np.diag(1.0 / scale**2)) @ root
        return np.asarray(root @ (0.5 * (middle + middle.T)) @ root.T)


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
    _check_choices(noise, huber)
    samples = Samples(sought, log)
    if not np.isfinite(log.y[:, ~samples.statements]).any():
        raise StateError("y has no reading: nothing to fit to")
    begin, told = _first_std(samples, noise)
    finest = _finest(samples, scale)
    std = most = np.maximum(begin, finest)
    if not np.isfinite(std).all():
        raise StateError(OVERFLOW)
    least = np.maximum(CLEAN * begin, finest)
    if noise == "estimate":  # first by the data alone: else the model could hold them off
        std = np.where(told, np.maximum(START * begin, finest), std)
    time, trust = np.ones_like(std), np.ones_like(log.y)
    longest = np.full_like(std, np.inf)
    followed, missed = np.zeros((len(std), 1)), np.zeros_like(std)
    for count in range(ROUNDS):
        weighed, weight = std, 1.0 / np.sqrt(time)
        G, g = _normal(samples, weighed, weight, trust)
        if not (np.isfinite(G).all() and np.isfinite(g).all()):
            raise StateError(OVERFLOW)
        if count == 0 and noise == "estimate":
            _check_length(samples, weighed, weight, G, scale)
        theta = _solved(sought, G, g, scale, physical)
        moved = samples.move(theta)
        residual, own, left = _residuals(samples, weighed, weight, theta)
        if count == 0 and noise == "estimate":  # how far is far off: by what most readings are
            middle = NORMAL * np.median(np.abs(np.nan_to_num(residual)), axis=0)
            std = np.where(samples.stated | ~(middle > 0), std, np.clip(middle, least, most))
        if huber is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                trust = np.minimum(1.0, huber * std / np.abs(own))
            trust[~np.isfinite(trust)] = 1.0
        counted = (trust * own).T
        series = zip(counted, followed, strict=True)
        models = [Autoregression.of(r, more) for r, more in series]
        time = np.array([model.correlation_time for model in models])
        time = np.minimum(time, longest)
        if count >= SWAYING or (noise == "estimate" and np.isinf(longest).all()):
            longest = time
        if noise == "estimate":
            found = _residual_std(residual, left, missed, std, huber)
            # No fit makes a reading's noise larger than the model left it: else a row that
            # others pull away would be trusted less and less, and pulled further.
            std = np.where(samples.stated, std, np.clip(found, least, most))
        change = np.abs(weighed / (std * np.sqrt(time) * weight) - 1.0).max(initial=0.0)
        if max(float(change), 10 * moved) >= STANDS:
            continue
        if followed.any():
            break
        # the weights stand: once, add to the residuals what the fit has followed of the noise
        spread = np.sqrt([model.variance for model in models])
        first = Information(G, g, _scores(samples, weighed, weight, trust, models, spread))
        followed, missed = _followed(samples, first.covariance(scale), scale, weighed)
        longest = np.full_like(std, np.inf)
    information = Information(G, g, _scores(samples, weighed, weight, trust, models, std))
    if not all(np.isfinite(x).all() for x in (theta, std, information.scores)):
        raise StateError(OVERFLOW)
    floor = least if noise == "estimate" else std
    beside = beside_least_squares(
        samples, theta, information, scale, std, floor, estimate=noise == "estimate"
    )
    return Fit(sought, theta, std, time, information, scale, physical, len(log), beside)


def _check_choices(noise: object, huber: object) -> None:
    if noise not in get_args(Noise):
        raise StateError(f"noise must be one of {', '.join(get_args(Noise))}, got {noise!r}")
    number = isinstance(huber, (int, float, np.number))
    if huber is not None and not (number and 0 < float(cast(Any, huber)) < np.inf):
        raise StateError(f"huber must be a positive number or None, got {huber!r}")


def _check_length(samples: Samples, std: Array, weight: Array, G: Array, scale: Array) -> None:
    """Refuse a log that the fit follows wherever it goes: nothing is left to tell its noise."""
    readings = 0.0
    for _, rows in samples.unit(std, weight):
        about = [k for k, used in enumerate(rows.columns) if len(used)]
        readings += float(rows.left[:, about].sum())
    told = int((np.linalg.eigvalsh(scale[:, None] * G * scale) > 1.0).sum())
    if told > readings - 0.5:
        raise StateError(
            f"{readings:.0f} readings tell {told} combinations of parameters and leave nothing"
            " to tell their noise: give a longer log, or noise='layout'"
        )


def _first_std(samples: Samples, noise: Noise) -> tuple[Array, BoolArray]:
    """Deviations (rows,) to begin with: the layout's, or those of what the model leaves.

    And the rows whose noise the log tells; all others keep the layout's.
    """
    sought, layout = samples.sought, samples.sought.layout
    needed = ~samples.statements
    if noise == "layout":
        exact = np.flatnonzero(layout.exact & needed & samples.involved)
        if len(exact):
            raise LayoutError(
                f"reading {layout.labels[exact[0]]!r} has a std of zero: exact at every sample,"
                " which no log is; give it a std, or let the fit estimate it (noise='estimate')"
            )
        return np.where(needed & ~layout.exact, layout.std, 1.0), np.zeros_like(needed)
    given = np.where(layout.std > 0, layout.std, 1.0)
    residual, _, left = _residuals(samples, given, np.ones_like(given), sought.model)
    count = np.maximum(np.isfinite(residual).sum(axis=0), 1)
    seen = needed & ~samples.stated & (left > ABSORBED)
    found = np.sqrt(np.nansum(residual**2, axis=0) / count / np.where(seen, left, 1.0))
    told = seen & (found > 0)
    return np.where(told, found, given), told


def _finest(samples: Samples, scale: Array) -> Array:
    """Least deviation (rows,) beside which rounding of the normal equations tells nothing."""
    total = np.zeros(samples.sought.layout.size)
    for start in samples.chunks():
        rows, b = samples.raw(start)
        there = np.isfinite(b)
        for k, (used, A) in enumerate(zip(rows.columns, rows.theta, strict=True)):
            total[k] += float(((A[there[:, k]] * scale[used]) ** 2).sum())
    return np.asarray(FINEST * np.sqrt(total))


def _normal(samples: Samples, std: Array, weight: Array, trust: Array) -> tuple[Array, Array]:
    """G (p, p) and g (p,) of rows that count by ``trust`` (N, rows), each on its columns."""
    p = samples.sought.size
    G, g = np.zeros((p, p)), np.zeros(p)
    for start, rows in samples.unit(std, weight):
        root = np.sqrt(trust[start : start + CHUNK])
        for k, used in enumerate(rows.columns):
            A = rows.block(k, root[:, k])
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


def _residuals(
    samples: Samples, std: Array, weight: Array, theta: Array
) -> tuple[Array, Array, Array]:
    """Residuals (N, rows) of the readings and of what each says beyond those it shares noise
    with, both in units of the readings, NaN for none; the part (rows,) that contacts leave.
    """
    found, own, left = np.full(samples.log.y.shape, np.nan), np.empty(samples.log.y.shape), []
    for start, rows in samples.unit(std, weight):
        part, there = slice(start, start + CHUNK), rows.left > 0
        off = rows.off(theta) / weight
        own[part] = np.where(there, std * off, np.nan)
        found[part] = samples.in_units(rows, std, off)
        left.append(rows.left.sum(axis=0))
    count = np.maximum(np.isfinite(found).sum(axis=0), 1)
    return found, own, np.sum(left, axis=0) / count


def _scores(
    samples: Samples,
    std: Array,
    weight: Array,
    trust: Array,
    models: list[Autoregression],
    spread: Array,
) -> Array:
    """Covariance of g: every row with its own autocovariance, chunks apart."""
    p = samples.sought.size
    scores = np.zeros((p, p))
    for start, rows in samples.unit(std, weight):
        for k, (model, used) in enumerate(zip(models, rows.columns, strict=True)):
            if len(used) and model.variance > 0:
                A = rows.block(k, trust[start : start + CHUNK, k])[rows.left[:, k] > 0]
                factor = (weight[k] * spread[k] / std[k]) ** 2 / model.variance
                scores[np.ix_(used, used)] += factor * model.scores(A)
    return scores


def _followed(
    samples: Samples, covariance: Array, scale: Array, std: Array
) -> tuple[Array, Array]:
    """What deviations of the parameters make of each reading.

    A fit follows that much of the noise: it is missing in the residuals. Autocovariance
    (rows, lags) of what a reading says beyond those it shares noise with, and variance (rows,)
    of the reading itself.
    """
    roots: dict[bytes, Array] = {}
    total: Array | float = 0.0
    alone: Array | float = 0.0
    for start in samples.chunks():
        rows, b = samples.raw(start)
        there = np.isfinite(b)
        parts = dict(enumerate(zip(rows.columns, rows.theta, strict=True)))
        moved = [
            autocovariance(A[there[:, k]] @ _root(covariance, scale, used, roots))
            for k, (used, A) in parts.items()
        ]
        alone = alone + np.array([found[0] for found in moved])
        for k, (used, A) in samples.mixed(start, std).items():
            root = _root(covariance, scale, used, roots)
            moved[k] = autocovariance(A[there[:, k]] @ root)
        total = total + np.array(moved)
    count = np.maximum(np.isfinite(samples.log.y).sum(axis=0), 1)
    return np.asarray(total) / count[:, None], np.asarray(alone) / count


def _root(covariance: Array, scale: Array, used: IntArray, kept: dict[bytes, Array]) -> Array:
    """V with  V V^T = covariance  of some parameters."""
    key = used.tobytes()
    if key not in kept:
        size = scale[used]
        values, vectors = np.linalg.eigh(covariance[np.ix_(used, used)] / np.outer(size, size))
        kept[key] = size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return kept[key]


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
class PredictedReadings:
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
    before, after : (rows,) rms of reading minus prediction, by the model as it was loaded and
        by the fit.
    inside : (rows,) part of the readings within the 95 % band.
    doubts : readings that no parameters make of these sensors, in words: in another unit, with
        another sign, of another joint.

    NaN for rows without a reading that can be predicted.
    """

    labels: tuple[str, ...]
    units: tuple[str, ...]
    before: Array
    after: Array
    inside: Array
    doubts: tuple[str, ...] = ()


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
    least_squares : the fit beside unconstrained least squares; its ``words`` speak against it.
    """

    sought: ParameterSet
    theta: Array
    noise: Array
    correlation_time: Array
    information: Information
    scale: Array
    physical: bool
    n_samples: int
    least_squares: LeastSquares

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
        """The robot with the parameters found, and no other friction than the fit counted.

        Friction that was sought is in its equations of motion. Beside it, joints keep theirs
        where the model's equations have it; else it is zero, whatever the file states.
        """
        robot, columns = self.sought.robot, self.sought.regressor.columns
        found = self.theta[: len(columns)].tolist()
        values = dict(zip(self.names[: len(columns)], found, strict=True))
        if robot.smoothing is None and any(at.kind in FRICTION for at in columns):
            stated = [n for n in robot.parameters if robot.parameter(n).kind in FRICTION]
            values = dict.fromkeys(stated, 0.0) | values
        return robot.with_parameters(values, physical=self.physical)

    def predict(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, y: Readings | None = None
    ) -> PredictedReadings:
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
            self._predicted(log.part(slice(start, start + CHUNK)), start)
            for start in range(0, len(log), CHUNK)
        ]
        values, variances = zip(*parts, strict=True)
        return PredictedReadings(np.concatenate(values), np.sqrt(np.concatenate(variances)))

    def _predicted(self, log: Log, first: int) -> tuple[Array, Array]:
        """Value and variance (N, rows) of readings; ``first`` is the number of the sample."""
        rows = self.sought.rows(log.q, log.qd, log.qdd, about=self.theta)
        R, E = rows.theta, rows.contact
        check_finite(R.sum(axis=-1) + rows.known, first)
        value = R @ self.theta + rows.known
        own = np.broadcast_to(self.noise**2, value.shape)
        if E.shape[-1]:
            layout = self.sought.layout
            shared, there = SharedNoise.of(layout), np.isfinite(log.y)
            each = np.where(there, 1.0 / self.noise, 0.0)[..., None] * np.eye(layout.size)
            W = shared.taken_out(each, there)
            # x = P^+ r + (1 - P^+ P) z,  r = y - value of what is stated exactly, z of the rest
            stated = layout.exact & np.isfinite(layout.constants)
            P = E * (there & stated)[..., None]
            to_x = np.linalg.pinv(P, rcond=1e-10)
            rest = np.eye(E.shape[-1]) - to_x @ P
            U, s, Vt = np.linalg.svd(W @ E @ rest, full_matrices=True)
            size, largest = s.shape[1], np.linalg.norm(W @ E, axis=(1, 2))[:, None]
            known = np.zeros(E.shape[::2])
            known[:, :size] = s > 1e-9 * np.maximum(largest, 1e-300)
            inverse = np.divide(1.0, s, out=np.zeros_like(s), where=known[:, :size] > 0)
            V, Ut = np.swapaxes(Vt, 1, 2), np.swapaxes(U, 1, 2)
            gain = rest @ (V[:, :, :size] * inverse[:, None]) @ Ut[:, :size] @ W
            to_x = to_x + gain - gain @ E @ to_x  # x = to_x (y - value)
            missing = np.where(there, log.y - value, 0.0)
            through = E @ to_x
            value = value + (through @ missing[..., None])[..., 0]
            R = R - through @ R
            std = np.where(stated, 0.0, self.noise)
            noise = shared.correlation * np.outer(std, std)
            own = own + ((through @ noise) * through).sum(axis=-1)
            free = np.abs(E @ rest @ (V * (1.0 - known)[:, None])).max(axis=-1)
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
        model = replace(self, theta=self._model)
        before = model.predict(log.q, log.qd, log.qdd, said).value
        off = log.y - found.value
        there = np.isfinite(off)
        inside = (np.abs(off) <= BAND * found.std) & there
        with np.errstate(invalid="ignore"):
            share = inside.sum(axis=0) / there.sum(axis=0)
        return Validation(
            layout.labels,
            layout.units,
            rms(log.y - before),
            rms(off),
            share,
            tuple(self._doubts(log.y, before, off)),
        )

    @property
    def _model(self) -> Array:
        """What was known before; no friction where the model's equations have none."""
        theta = self.sought.model.copy()
        if self.sought.robot.smoothing is None:
            kinds = [at.kind in FRICTION for at in self.sought.regressor.columns]
            theta[: len(kinds)][kinds] = 0.0
        return theta

    def _doubts(self, y: Array, model: Array, off: Array) -> Iterator[str]:
        """Readings (N, rows) that the model expects otherwise and the fit does not explain."""
        layout = self.sought.layout
        left = rms(off)
        for sensor in layout:
            rows = np.arange(layout.size)[layout.slice(sensor.name)]
            if sensor.constant(1) is not None or f"{sensor.name}.gain" in self.names:
                continue
            for k in rows.tolist():
                times = times_wrong(y[:, k], model[:, k])
                spread = float(np.nanstd(y[:, k])) if np.isfinite(y[:, k]).any() else 0.0
                if times is not None and not 1 / FACTOR < times < FACTOR:
                    words = f"the model expects {times:.3g} times what it reads"
                    yield f"{layout.labels[k]}: {words}: units, or sign?"
                elif left[k] > max(UNEXPLAINED * spread, FAULT * layout.std[k]):
                    words = "another unit, sign or joint, or friction that is not sought?"
                    yield f"{layout.labels[k]}: the fit does not follow it: {words}"

    def payload(self, without: Fit, body: str) -> Payload:
        """What this log's robot carries on ``body`` and that of ``without`` does not.

        One least squares over both logs, all parameters shared but ten more on the body here:
        what the model gets wrong in both logs alike cancels.
        """
        sought = self.sought
        i = sought.robot.body_index(body)
        comparable = isinstance(without, Fit) and without.names == self.names
        if not comparable or i not in sought.bodies:
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
    found = finite_rows(robot, (("q", q), ("qd", qd), ("qdd", qdd)), "sample")
    n = len(found[0])
    if not n:
        raise StateError("the log has no sample")
    if y is None:
        values = np.full((n, layout.size), np.nan)
    else:
        try:
            values = layout.pack(y) if isinstance(y, Mapping) else float_array(y)
        except (TypeError, ValueError) as error:
            raise StateError(f"y is not numeric: {error}") from None
    if values.shape != (n, layout.size):
        raise StateError(f"y must have shape ({n}, {layout.size}), got {values.shape}")
    if np.isinf(values).any():
        raise StateError("y has infinite readings; NaN means that there is none")
    known = np.isnan(values) & np.isfinite(layout.constants)
    return Log(found[0], found[1], found[2], np.where(known, layout.constants, values))
