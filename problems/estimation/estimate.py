"""Estimate: what the readings say, by name, with its uncertainty and its consistency.

Whatever is asked of an estimate is found when it is asked for: by the compiled estimator where
that has answered, else from the posterior of each state, which is solved again if need be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast, final

import numpy as np
from scipy.special import chdtrc

from dynsys.errors import DynsysError, LayoutError, ModelError, StateError, nearest_name
from dynsys.model.tree import KinematicTree
from dynsys.notebook import facts
from dynsys.system.parts import kind_of
from dynsys.types import Array, ArrayLike, IntArray
from problems.estimation.consistency import (
    SIGNIFICANCE,
    Checks,
    Suspect,
    of_readings,
    statements,
)
from problems.estimation.estimator import AbstractPosterior
from problems.estimation.trust import EstimateTrust, judge_estimate, stacked_estimates
from problems.measured.measured_system import QUANTITIES, Quantity, at_frame

if TYPE_CHECKING:
    from problems.estimation.answers import CompiledAnswers, OneAnswer
    from problems.estimation.estimation import Estimation

__all__ = [
    "AbstractQuantities",
    "Both",
    "Estimate",
    "MeasuredStates",
    "Of",
    "Suspect",
    "Uncertainty",
    "deviations",
    "names_of",
    "quantities_of",
    "values",
]

Uncertainty: TypeAlias = Literal["all"] | str | Sequence[str] | None
"""Quantities, or one body's or frame's: ``external_wrench.l_sole``."""
Both: TypeAlias = tuple[dict[Quantity, Array], dict[Quantity, Array]]
"""Values and standard deviations by quantity."""
Found = TypeVar("Found")
About = TypeVar("About", covariant=True)
MANY = 64
"""States from which on it pays to compile code that judges them."""
Of: TypeAlias = Callable[[AbstractPosterior, Array, IntArray], Array]
"""Values (rows,) of ``matrix @ d[columns]``, or of something about it."""


def names_of(wanted: Uncertainty, what: str) -> tuple[str, ...]:
    """Names that a caller asks for in argument ``what``; LayoutError names a wrong one."""
    if wanted is None:
        return ()
    names = QUANTITIES if wanted == "all" else (wanted,) if isinstance(wanted, str) else wanted
    for name in names:
        if kind_of(str(name)) not in QUANTITIES:
            hint = nearest_name(str(name), QUANTITIES)
            listed = ", ".join(QUANTITIES)
            raise LayoutError(f"{what}: no quantity {name!r}{hint}; use {listed}")
    return tuple(names)


def quantities_of(wanted: Uncertainty, what: str) -> tuple[Quantity, ...]:
    """Quantities that these are, or are parts of."""
    kinds = dict.fromkeys(map(kind_of, names_of(wanted, what)))
    return cast("tuple[Quantity, ...]", tuple(kinds))


def values(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Values of combination @ d[columns]; NaN where undetermined."""
    value = np.asarray(matrix @ posterior.d[columns])
    return np.where(posterior.determined(matrix, columns), value, np.nan)


def deviations(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Standard deviations of combination @ d[columns]; NaN where undetermined."""
    std = np.sqrt(np.maximum(posterior.variance(matrix, columns), 0.0))
    return np.where(posterior.determined(matrix, columns), std, np.nan)


def is_determined(posterior: AbstractPosterior, matrix: Array, columns: IntArray) -> Array:
    """Tell which rows of combination @ d[columns] are determined."""
    return np.asarray(posterior.determined(matrix, columns))


# ---- quantities by the names of the robot ----------------------------------------------------


@final
class NamedQuantity:
    """One quantity of an estimate: values, standard deviations, or whether determined.

    ``quantity["l_knee"]`` is a number for a joint of one freedom, else (size,); wrenches and
    accelerations may be asked at any frame of the robot and are then moved there. Numbers and
    slices count joints, or bodies: ``quantity[:3]`` are the values of the first three, side by
    side. Undetermined values are NaN. A batch adds a leading axis N. ``array`` and NumPy's
    functions see all of them: (nv,) or (n_bodies, 6).
    """

    __slots__ = ("_group", "_kind")

    def __init__(self, group: ByQuantity, kind: Quantity) -> None:
        self._group = group
        self._kind = kind

    @property
    def _estimate(self) -> Estimate:
        return self._group.estimate

    @property
    def _of(self) -> Of:
        return self._group.of

    @property
    def _robot(self) -> KinematicTree:
        return self._estimate.problem.robot

    @property
    def _is_spatial(self) -> bool:
        return self._kind not in ("torque", "qdd")

    @property
    def array(self) -> Array:
        """All values: (nv,), or (n_bodies, 6) in body coordinates; with N in front."""
        found = self._group.arrays.get(self._kind)
        if found is not None:
            return found
        found = self._estimate.computed(self._kind, self._of)
        if found is None:
            columns = self._estimate.problem.system.unknowns.columns(self._kind)
            flat = self._estimate.each(lambda post: self._all(post, columns), columns.size)
            found = flat.reshape(*flat.shape[:-1], *columns.shape)
        self._group.arrays[self._kind] = found
        return found

    def _all(self, posterior: AbstractPosterior, columns: IntArray) -> Array:
        """All values of one state, joint by joint or body by body."""
        if self._of is values and posterior.is_complete:
            return np.ravel(posterior.d[columns])
        if columns.ndim == 1:
            return self._of(posterior, np.eye(len(columns)), columns)
        return np.concatenate([self._of(posterior, np.eye(6), block) for block in columns])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __getitem__(self, name: str | int | slice) -> Any:
        if isinstance(name, slice):
            return self._some(name)
        if not self._is_spatial:
            is_number = isinstance(name, (int, np.integer))
            joint = self._robot.joint_names[int(name)] if is_number else str(name)
            value = self.array[..., self._robot.v_slice(joint)]
            return value[..., 0] if value.shape[-1] == 1 else value
        body, matrix = at_frame(self._robot, self._kind, name)
        if body < 0:
            raise ModelError(
                f"robot {self._robot.name!r}: {name!r} is fixed to the base, whose"
                f" {self._kind} is no unknown"
            )
        moved = self._moved(str(name), body, matrix)
        if moved is None and np.array_equal(matrix, np.eye(6)):
            return self.array[..., body, :]
        columns = self._estimate.problem.system.unknowns.block(self._kind, body).columns
        return self._estimate.each(lambda post: self._of(post, matrix, columns), 6, moved)

    def _some(self, which: slice) -> Array:
        """Values of some joints (..., freedoms) or bodies (..., bodies, 6), by number."""
        if self._is_spatial:
            return self.array[..., which, :]
        places = self._robot.v_slices()[which]
        return self.array[..., [k for place in places for k in range(place.start, place.stop)]]

    def _moved(self, name: str, body: int, matrix: Array) -> Array | None:
        """The quantity (..., 6) at a frame, NaN where what there is is not enough.

        None where nothing but the body's own numbers is needed, or the posterior.
        """
        is_own = np.array_equal(matrix, np.eye(6))
        if self._of is values:
            return None if is_own else np.asarray(self.array[..., body, :] @ matrix.T)
        if self._of is not deviations:
            return None
        return self._estimate.deviations_at(f"{self._kind}.{name}", None if is_own else matrix)

    def __iter__(self) -> Iterator[str]:
        of_bodies = self._kind in ("acceleration", "external_wrench")
        return iter(self._robot.body_names if of_bodies else self._names())

    def keys(self) -> tuple[str, ...]:
        """Names of joints or bodies, in order: ``dict(e.torque)`` is a mapping."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names with what is known of each."""
        return ((name, self[name]) for name in self)

    def _names(self) -> tuple[str, ...]:
        if self._is_spatial:
            return self._robot.joint_names
        return tuple(
            name
            for name, body in zip(self._robot.joint_names, self._robot.bodies, strict=True)
            if body.joint.nv and body.coupling is None
        )

    def __len__(self) -> int:
        return self._robot.n_bodies if self._is_spatial else len(self._names())

    def __repr__(self) -> str:
        return f"NamedQuantity({self._kind}, array of shape {self.array.shape})"


class AbstractQuantities(ABC, Generic[About]):
    """Something about every quantity, by its name."""

    __slots__ = ()

    @abstractmethod
    def about(self, quantity: Quantity) -> About:
        """What there is about one quantity."""

    @property
    def torque(self) -> About:
        """Joint torques, by joint."""
        return self.about("torque")

    @property
    def qdd(self) -> About:
        """Joint accelerations, by joint."""
        return self.about("qdd")

    @property
    def acceleration(self) -> About:
        """Proper spatial accelerations, by body or frame."""
        return self.about("acceleration")

    @property
    def joint_wrench(self) -> About:
        """Wrenches that joints transmit from their parents, by joint, body or frame."""
        return self.about("joint_wrench")

    @property
    def external_wrench(self) -> About:
        """Wrenches of the environment on bodies, by body or frame."""
        return self.about("external_wrench")


@final
class ByQuantity(AbstractQuantities[NamedQuantity]):
    """The same about every quantity: ``.torque["l_knee"]`` or ``["torque"]["l_knee"]``.

    ``arrays`` are those that have been computed, by quantity.
    """

    __slots__ = ("arrays", "estimate", "of")

    def __init__(
        self, estimate: Estimate, of: Of, arrays: dict[Quantity, Array] | None = None
    ) -> None:
        self.estimate = estimate
        self.of = of
        self.arrays: dict[Quantity, Array] = {} if arrays is None else arrays

    def __getitem__(self, quantity: Quantity) -> NamedQuantity:
        if quantity not in QUANTITIES:
            hint = nearest_name(str(quantity), QUANTITIES)
            raise ModelError(f"an estimate has no quantity {quantity!r}{hint}")
        return NamedQuantity(self, quantity)

    def about(self, quantity: Quantity) -> NamedQuantity:
        return NamedQuantity(self, quantity)


# ---- states with their readings: what an estimate was made from, and can be made from again --


@final
class MeasuredStates:
    """Positions, velocities and rows of readings, NaN where missing, of one state or N.

    Called with the number of a state, it solves that state. ``held`` is q, qd and readings:
    side by side (nq + nv + size,) for the one state of :meth:`Estimation.solve`; three arrays
    with N in front, or the bytes of those, for a batch. It is a copy: what is asked of an
    estimate later must not depend on what became of the caller's arrays.
    """

    __slots__ = ("_held", "problem")

    def __init__(self, problem: Estimation, held: Array | Sequence[Array | bytes]) -> None:
        self.problem = problem
        self._held = held

    @property
    def is_batch(self) -> bool:
        """False for one state."""
        return not isinstance(self._held, np.ndarray)

    def __len__(self) -> int:
        return len(self.parts()[0]) if self.is_batch else 1

    def parts(self) -> tuple[Array, Array, Array]:
        """q, qd and readings; those of a batch (N, size) each."""
        held, (nq, end) = self._held, self.problem.cuts
        if isinstance(held, np.ndarray):
            return held[:nq], held[nq:end], held[end:]
        if isinstance(held[0], bytes):
            sizes = nq, end - nq, self.problem.layout.size
            pairs = zip(held, sizes, strict=True)
            held = [np.frombuffer(x).reshape(-1, size).copy() for x, size in pairs]
            self._held = held
        q, qd, y = cast("Sequence[Array]", held)
        return q, qd, y

    @property
    def q(self) -> Array:
        """Positions (N, nq)."""
        return np.atleast_2d(self.parts()[0])

    @property
    def qd(self) -> Array:
        """Velocities (N, nv)."""
        return np.atleast_2d(self.parts()[1])

    @property
    def y(self) -> Array:
        """Readings (N, size) of the sensors."""
        return np.atleast_2d(self.parts()[2])

    @property
    def rows(self) -> Array:
        """Readings (N, m) of the sensors, then what is believed before any."""
        y, means = self.y, self.problem.measured.prior_rows.mean
        return np.hstack([y, np.tile(means, (len(y), 1))]) if len(means) else y

    def at(self, k: int) -> tuple[Array, Array, Array]:
        """Return q, qd and rows of state k."""
        q, qd, y = (x[k] for x in self.parts()) if self.is_batch else self.parts()
        return q, qd, np.concatenate((y, self.problem.measured.prior_rows.mean))

    def __call__(self, k: int) -> AbstractPosterior:
        """All that the readings of state k say."""
        return self._named(k, self.problem.noisy_posterior)

    def checks(self, k: int) -> Checks:
        """What the readings of state k say of each other."""
        return self._named(k, self.problem.checks)

    def _named(self, k: int, of: Callable[[Array, Array, Array], Found]) -> Found:
        """Ask about state k; errors name it."""
        q, qd, rows = self.at(k)
        robot = self.problem.robot
        try:
            return of(robot.check_q(q), robot.check_v(qd, "qd"), rows)
        except DynsysError as error:
            if not self.is_batch:
                raise
            raise type(error)(f"state {k}: {error}") from None

    def judged(self, places: IntArray, judge: Callable[[IntArray, Checks], None]) -> None:
        """Tell of all ``places`` what their readings say of each other, a few at a time."""
        if len(places) >= MANY:
            rows = self.rows[places]
            answers = self.problem.reduced.solve(
                self.q[places],
                self.qd[places],
                rows,
                (),
                judge=lambda some, checks: judge(places[some], checks),
            )
            places = places[~answers.answered]
        for k in places.tolist():
            judge(np.array([k]), self.checks(k))

    def residuals(self, places: IntArray, few: int = MANY) -> Array:
        """Normalised residuals (places, size) of the readings at some states.

        Fewer than ``few`` one by one, others by the reduced system but where that is in doubt.
        """
        measured, rows = self.problem.measured, self.rows[places]
        found, left = np.empty((len(places), measured.layout.size)), np.arange(len(places))
        if len(places) >= few:
            state = self.q[places], self.qd[places], rows
            answers = self.problem.reduced.solve(*state, (), residuals=True)
            assert answers.residuals is not None
            found, left = answers.residuals, np.flatnonzero(~answers.answered)
        for k in left.tolist():
            every = self.checks(int(places[k])).residuals
            found[k] = of_readings(measured, every, rows[k : k + 1])[0]
        return found


# ---- the estimate --------------------------------------------------------------------------


@final
class Estimate(AbstractQuantities[NamedQuantity]):
    """What the readings say at one state, or at N states with a leading axis N.

    Attributes
    ----------
    problem : the estimation problem.
    torque, qdd, acceleration, joint_wrench, external_wrench : by name; NaN where undetermined.
    std : standard deviations, computed when asked for: ``std.torque["l_knee"]``.
    determined : truth values, by quantity and name; names of what is not: ``undetermined()``.
    residual : residual of each sensor's rows in standard deviations *of the residual*, by
        sensor name; NaN where a reading is missing or no other reading checks it.
    chi_square, degrees_of_freedom, p_value : how well the readings agree: a small p-value (one
        in a hundred) says that they do not, or that the noise is larger than stated.
    suspects : sensors and statements that may be the wrong one where the readings disagree, the
        likeliest first; those that no data can tell from it named with each.
    suspicion : probability of each to be the wrong one, by name.
    method : ``llvm``, ``reduced``, ``superlu``, ``cholmod`` or ``dense``: the way that found
        the answer; of each state where they differ.
    values : torque, qdd ... by quantity.
    """

    __slots__ = (
        "_answers",
        "_determined",
        "_facts",
        "_last",
        "_method",
        "_posterior_of",
        "_residuals",
        "_std",
        "_values",
        "problem",
        "shape",
    )

    def __init__(
        self,
        problem: Estimation,
        posterior_of: Callable[[int], AbstractPosterior],
        n: int | None,
        method: str | tuple[str, ...] | None = None,
        facts: tuple[float | Array, int | IntArray] | None = None,
        answers: CompiledAnswers | OneAnswer | None = None,
        both: Both | None = None,
    ) -> None:
        self.problem = problem
        self._answers = answers
        self._posterior_of = posterior_of
        self._last: tuple[int, AbstractPosterior] | None = None
        self._facts = facts
        self._residuals: Array | None = None
        self.shape: tuple[int, ...] = () if n is None else (n,)
        self._method = method
        self._values = None if both is None else ByQuantity(self, values, both[0])
        self._std = None if both is None else ByQuantity(self, deviations, both[1])
        self._determined: ByQuantity | None = None

    @property
    def values(self) -> ByQuantity:
        """Values by quantity."""
        if self._values is None:
            self._values = ByQuantity(self, values)
        return self._values

    @property
    def std(self) -> ByQuantity:
        """Standard deviations by quantity, computed when asked for."""
        if self._std is None:
            self._std = ByQuantity(self, deviations)
        return self._std

    @property
    def determined(self) -> ByQuantity:
        """Truth values by quantity."""
        if self._determined is None:
            self._determined = ByQuantity(self, is_determined)
        return self._determined

    def undetermined(self, *quantities: Quantity) -> dict[Quantity, tuple[str, ...]]:
        """Joints or bodies whose values are NaN, by quantity; of a batch, at any of its states.

        Parameters
        ----------
        quantities : ``torque``, ``external_wrench`` ...; default: all. One that is determined
            throughout has no names.

        A layout that determines everything at most postures may leave something open at one,
        such as a stretched arm: ``problem.verdict()`` says where, and what would repair it.
        """
        found: dict[Quantity, tuple[str, ...]] = {}
        for kind in quantities_of(quantities or "all", "undetermined"):
            known = self.values[kind]
            found[kind] = tuple(name for name, x in known.items() if np.isnan(x).any())
        return found

    @property
    def method(self) -> str | tuple[str, ...]:
        """The way that found the answer; one that nobody has asked for yet is found now."""
        if self._method is not None:
            return self._method
        if self._answers is not None:
            found = self._answers.method
            if found is not None:
                return found
        return self._posterior(0).method

    @staticmethod
    def of_one(
        problem: Estimation, posterior: AbstractPosterior, states: MeasuredStates | None = None
    ) -> Estimate:
        """Estimate of one state that has been solved; ``states`` is where."""
        facts = posterior.chi_square, posterior.degrees_of_freedom
        e = Estimate(problem, states or (lambda _: posterior), None, posterior.method, facts)
        e._last = 0, posterior
        return e

    @staticmethod
    def of_many(
        problem: Estimation,
        posterior_of: Callable[[int], AbstractPosterior],
        n: int,
        uncertainty: tuple[Quantity, ...],
    ) -> Estimate:
        """Estimates of N states; what is asked for later is solved for again."""
        chi_square, dof, methods = np.empty(n), np.empty(n, dtype=np.intp), []
        found: dict[Quantity, list[Array]] = {kind: [] for kind in QUANTITIES}
        stds: dict[Quantity, list[Array]] = {kind: [] for kind in uncertainty}
        for k in range(n):
            posterior = posterior_of(k)
            one = Estimate.of_one(problem, posterior)
            chi_square[k], dof[k] = posterior.chi_square, posterior.degrees_of_freedom
            methods.append(posterior.method)
            for kind in QUANTITIES:
                found[kind].append(one.values[kind].array)
            for kind in uncertainty:
                stds[kind].append(one.std[kind].array)
        e = Estimate(problem, posterior_of, n, tuple(methods), (chi_square, dof))
        shape = {kind: problem.system.unknowns.columns(kind).shape for kind in QUANTITIES}
        return e.keep(
            {kind: np.reshape(arrays, (n, *shape[kind])) for kind, arrays in found.items()},
            {kind: np.reshape(arrays, (n, *shape[kind])) for kind, arrays in stds.items()},
        )

    def keep(
        self,
        quantities: Mapping[Quantity, Array],
        deviations: Mapping[Quantity, Array] | None = None,
    ) -> Estimate:
        """Take values, and standard deviations, that have been computed already.

        (nv,) for torque and qdd, (n_bodies, 6) for the others, N in front for a batch. A kernel
        that computes some quantities hands them in here; all others are found by the posterior
        when they are asked for.
        """
        self.values.arrays |= quantities
        if deviations:
            self.std.arrays |= deviations
        return self

    # ---- trust and travel ----------------------------------------------------------------

    def _states(self) -> MeasuredStates:
        if isinstance(self._posterior_of, MeasuredStates):
            return self._posterior_of
        raise StateError(
            "this estimate was put together without its states; those that Estimation.solve and"
            " solve_batch return can be judged and pickled"
        )

    def trust(self) -> EstimateTrust:
        """Bounds on the rounding errors of all quantities, from a check in extended precision.

        Takes a fraction of a second per state, and nothing of those who do not ask.
        """
        states, measured = self._states(), self.problem.measured
        arrays = {kind: self.values[kind].array for kind in QUANTITIES}

        def judged(k: int, answers: Mapping[Quantity, Array]) -> EstimateTrust:
            return judge_estimate(measured, states.at(k), answers, self._posterior(k))

        if not self.shape:
            return judged(0, arrays)
        each = [{kind: x[k] for kind, x in arrays.items()} for k in range(self.shape[0])]
        return stacked_estimates([judged(k, answers) for k, answers in enumerate(each)])

    def __reduce__(self) -> tuple[object, ...]:
        """An estimate travels as problem, states and values; all else is found again there."""
        if self._answers is None:
            for kind in QUANTITIES:
                _ = self.values[kind].array
        n = self.shape[0] if self.shape else None
        made_from = self.problem, self._states(), n, self._method, self._facts, self._answers
        return _restored, (made_from, self.values.arrays, self.std.arrays)

    # ---- in other tools ------------------------------------------------------------------

    def to_pandas(self, *outputs: str, time: ArrayLike | None = None) -> Any:
        """Table of pandas, one row for each state.

        Parameters
        ----------
        outputs : names as those of ``dynsys solve`` (:mod:`problems.estimation.outputs`):
            ``torque`` (default), ``std.torque``, ``external_wrench.l_sole``, ``p_value`` ...
        time : (N,), the index of the table; default: numbers of the states.

        Raises
        ------
        ReportError
            if pandas is not installed.
        """
        from problems.estimation.tables import to_pandas

        return to_pandas(self, outputs, time)

    def to_xarray(self, *outputs: str, time: ArrayLike | None = None) -> Any:
        """Dataset of xarray: one variable for each output of :meth:`to_pandas`, by its name."""
        from problems.estimation.tables import to_xarray

        return to_xarray(self, outputs, time)

    def plot(
        self,
        quantity: str = "torque",
        names: Sequence[str] | None = None,
        *,
        time: ArrayLike | None = None,
        axes: Any = None,
    ) -> Any:
        """Draw a quantity with bands of two standard deviations; returns matplotlib's axes.

        Over states or ``time`` (N,) for a batch, joint by joint for one state.

        Parameters
        ----------
        quantity : ``torque``, ``qdd``, ``acceleration``, ``joint_wrench``, ``external_wrench``.
        names : joints, bodies or frames to draw; default: all.
        axes : where to draw; default: a new figure.
        """
        from problems.estimation.tables import plotted

        return plotted(self, quantity, names, time, axes)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("states", self.shape[0] if self.shape else "one")]
        if not self.shape:
            rows += [("p-value of the readings", f"{self.p_value:.3g}")]
            rows += [
                (f"torque {name}", " ".join(f"{x:.4g}" for x in np.ravel(value)))
                for name, value in self.torque.items()
            ]
        return facts(f"estimate of {self.problem.robot.name!r}", rows)

    # ---- asking --------------------------------------------------------------------------

    def _posterior(self, k: int) -> AbstractPosterior:
        if self._last is None or self._last[0] != k:
            self._last = k, self._posterior_of(k)
        return self._last[1]

    def each(
        self, of: Callable[[AbstractPosterior], Array], size: int, known: Array | None = None
    ) -> Array:
        """Result (size,) of a function at the state, or those (N, size) of all states.

        Where ``known`` results are finite, these; no state is solved for them.
        """
        if not self.shape:
            is_known = known is not None and bool(np.isfinite(known).all())
            return cast("Array", known) if is_known else of(self._posterior(0))
        if not self.shape[0]:
            return np.zeros((0, size))
        if known is None:
            return np.stack([of(self._posterior(k)) for k in range(self.shape[0])])
        for k in np.flatnonzero(~np.isfinite(known).all(axis=1)).tolist():
            known[k] = of(self._posterior(k))
        return known

    def deviations_at(self, part: str, matrix: Array | None) -> Array | None:
        """Deviations (N, 6) at a frame without the posterior of each state, NaN elsewhere."""
        return None if self._answers is None else self._answers.deviations_at(part, matrix)

    def computed(self, kind: Quantity, of: Of) -> Array | None:
        """What the compiled estimator says about a quantity, None if there is none."""
        return None if self._answers is None else self._answers.about(kind, of)

    def _agreement(self) -> tuple[float | Array, int | IntArray]:
        if self._facts is None and self._answers is not None:
            self._facts = self._answers.agreement()
        if self._facts is None:
            found = self.each(lambda p: np.array([p.chi_square, p.degrees_of_freedom]), 2)
            chi_square, dof = found[..., 0], found[..., 1].astype(np.intp)
            self._facts = (chi_square, dof) if self.shape else (float(chi_square), int(dof))
        return self._facts

    def about(self, quantity: Quantity) -> NamedQuantity:
        return NamedQuantity(self._values or self.values, quantity)

    @property
    def chi_square(self) -> float | Array:
        """Sum of squared residuals in standard deviations."""
        return self._agreement()[0]

    @property
    def degrees_of_freedom(self) -> int | IntArray:
        """What the chi-square is expected to be: readings beyond those that are needed."""
        return self._agreement()[1]

    @property
    def residual(self) -> dict[str, Array]:
        """Normalised residuals (size,) by sensor name."""
        if self._residuals is None and self._answers is not None:
            self._residuals = self._answers.residuals()
        if self._residuals is None:
            states = self._states()
            found = states.residuals(np.arange(len(states)))
            self._residuals = found if self.shape else found[0]
        layout, residuals = self.problem.layout, self._residuals
        return {name: residuals[..., layout.slice(name)] for name in layout.names}

    @property
    def p_value(self) -> float | Array:
        """Probability that readings with the stated noise disagree as much.

        1 where nothing checks them (``degrees_of_freedom`` 0): then none can disagree.
        """
        dof: ArrayLike = self.degrees_of_freedom
        tail = chdtrc(np.maximum(dof, 1), self.chi_square)
        p = np.where(np.asarray(dof) > 0, tail, 1.0)
        return p if self.shape else float(p)

    @property
    def suspects(self) -> list[Suspect] | list[list[Suspect]]:
        """Sensors that may be the wrong one, the likeliest first; a list per state.

        Empty where the readings agree: p-value of 0.01 or more.
        """
        found: list[list[Suspect]] = [[] for _ in range(len(self._states()))]

        def judge(places: IntArray, checks: Checks) -> None:
            for n, k in enumerate(places.tolist()):
                found[k] = checks.suspects(n)

        self._states().judged(self._disagreeing(), judge)
        return found if self.shape else found[0]

    @property
    def suspicion(self) -> dict[str, Array]:
        """Probability that a sensor is the wrong one, by name; (N,) of a batch.

        If one is wrong, and all are as likely to be. Zero where the readings agree.
        """
        names = statements(self.problem.measured)[0]
        found = np.zeros((len(self._states()), len(names)))

        def judge(places: IntArray, checks: Checks) -> None:
            found[places] = checks.probability

        self._states().judged(self._disagreeing(), judge)
        return {
            name: found[:, s] if self.shape else found[0, s] for s, name in enumerate(names)
        }

    def _disagreeing(self) -> IntArray:
        return np.flatnonzero(np.atleast_1d(self.p_value) < SIGNIFICANCE)

    def __repr__(self) -> str:
        what = f"{self.shape[0]} states" if self.shape else "one state"
        ways = self.method
        if not isinstance(ways, str):
            counts = Counter(ways).most_common()
            ways = ", ".join(way if len(counts) == 1 else f"{way} ({n})" for way, n in counts)
        told = ""
        if not self.shape or "torque" in self.values.arrays:  # nothing is solved for a repr
            blind = self.undetermined("torque")["torque"]
            if blind:
                told = f"; {len(blind)} of {len(self.torque)} torques not determined"
        return f"Estimate({self.problem.robot.name!r}, {what}, by {ways or 'nothing'}{told})"


def _restored(
    made_from: tuple[Any, ...],
    quantities: Mapping[Quantity, Array],
    deviations: Mapping[Quantity, Array],
) -> Estimate:
    return Estimate(*made_from).keep(quantities, deviations)
