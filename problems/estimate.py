"""Estimate: what the readings say, by name, with its uncertainty and its consistency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dynsys.errors import StateError
from dynsys.types import Array, ArrayLike, IntArray
from problems.measured_states import MeasuredStates
from problems.named_quantity import (
    QUANTITIES,
    ByQuantity,
    NamedQuantity,
    Of,
    Quantity,
    deviations,
    is_determined,
    values,
)
from problems.suspect import Suspect

if TYPE_CHECKING:
    from problems.compiled_answers import CompiledAnswers
    from problems.estimate_trust import EstimateTrust
    from problems.estimation import Estimation
    from problems.posterior import AbstractPosterior

__all__ = ["QUANTITIES", "Estimate", "Quantity", "Suspect"]


@final
class Estimate:
    """What the readings say at one state, or at N states with a leading axis N.

    Attributes
    ----------
    problem : the estimation problem.
    torque, qdd, acceleration, joint_wrench, external_wrench : by name; NaN where undetermined.
    std : standard deviations, computed when asked for: ``std.torque["l_knee"]``.
    determined : truth values, by quantity and name.
    residual : residual of each sensor's rows in standard deviations *of the residual*, by
        sensor name; NaN where a reading is missing or no other reading checks it.
    chi_square, degrees_of_freedom, p_value : how well the readings agree: a small p-value (one
        in a hundred) says that they do not, or that the noise is larger than stated.
    suspects : the sensors whose removal would explain a disagreement, worst first.
    method : ``llvm``, ``superlu``, ``cholmod`` or ``dense``: the way that found the answer; of
        each state where they differ.
    values : torque, qdd ... by quantity.
    """

    __slots__ = (
        "_answers",
        "_facts",
        "_last",
        "_posterior_of",
        "_residuals",
        "determined",
        "method",
        "problem",
        "shape",
        "std",
        "values",
    )

    def __init__(
        self,
        problem: Estimation,
        posterior_of: Callable[[int], AbstractPosterior],
        n: int | None,
        method: str | tuple[str, ...],
        facts: tuple[float | Array, int | IntArray] | None = None,
        answers: CompiledAnswers | None = None,
    ) -> None:
        self.problem = problem
        self._answers = answers
        self._posterior_of = posterior_of
        self._last: tuple[int, AbstractPosterior] | None = None
        self._facts = facts
        self._residuals: Array | None = None
        self.shape: tuple[int, ...] = () if n is None else (n,)
        self.method = method
        self.values = ByQuantity(self, values)
        self.std = ByQuantity(self, deviations)
        self.determined = ByQuantity(self, is_determined)

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
        for kind, array in quantities.items():
            self.values.keep(kind, array)
        for kind, array in (deviations or {}).items():
            self.std.keep(kind, array)
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
        from problems.estimate_trust import judge_estimate, stacked_estimates

        states, measured = self._states(), self.problem.measured
        arrays = {kind: self.values[kind].array for kind in QUANTITIES}
        if not self.shape:
            return judge_estimate(measured, states.at(0), arrays, self._posterior(0))
        judged = []
        for k in range(self.shape[0]):
            one = {kind: array[k] for kind, array in arrays.items()}
            judged.append(judge_estimate(measured, states.at(k), one, self._posterior(k)))
        return stacked_estimates(judged)

    def __reduce__(self) -> tuple[object, ...]:
        """An estimate travels as problem, states and values; all else is found again there."""
        kept = self.values.kept()
        if self._answers is None:
            kept = {kind: self.values[kind].array for kind in QUANTITIES}
        n = self.shape[0] if self.shape else None
        made_from = self.problem, self._states(), n, self.method, self._facts, self._answers
        return _restored, (made_from, kept, self.std.kept())

    # ---- asking --------------------------------------------------------------------------

    def _posterior(self, k: int) -> AbstractPosterior:
        if self._last is None or self._last[0] != k:
            self._last = k, self._posterior_of(k)
        return self._last[1]

    def each(self, of: Callable[[AbstractPosterior], Array], size: int) -> Array:
        """Result (size,) of a function at the state, or those (N, size) of all states."""
        if not self.shape:
            return of(self._posterior(0))
        if not self.shape[0]:
            return np.zeros((0, size))
        return np.stack([of(self._posterior(k)) for k in range(self.shape[0])])

    def computed(self, kind: Quantity, of: Of) -> Array | None:
        """What the compiled estimator says about a quantity, None if there is none."""
        found = None if self._answers is None else self._answers.about(kind, of)
        return found if found is None or self.shape else found[0]

    def _agreement(self) -> tuple[float | Array, int | IntArray]:
        if self._facts is None and self._answers is not None:
            known = self._answers.agreement()
            if known is not None:
                self._facts = known if self.shape else (float(known[0][0]), int(known[1][0]))
        if self._facts is None:
            found = self.each(lambda p: np.array([p.chi_square, p.degrees_of_freedom]), 2)
            chi_square, dof = found[..., 0], found[..., 1].astype(np.intp)
            self._facts = (chi_square, dof) if self.shape else (float(chi_square), int(dof))
        return self._facts

    @property
    def chi_square(self) -> float | Array:
        """Sum of squared residuals in standard deviations."""
        return self._agreement()[0]

    @property
    def degrees_of_freedom(self) -> int | IntArray:
        """What the chi-square is expected to be: readings beyond those that are needed."""
        return self._agreement()[1]

    @property
    def torque(self) -> NamedQuantity:
        """Joint torques, by joint."""
        return self.values.torque

    @property
    def qdd(self) -> NamedQuantity:
        """Joint accelerations, by joint."""
        return self.values.qdd

    @property
    def acceleration(self) -> NamedQuantity:
        """Proper spatial accelerations, by body or frame."""
        return self.values.acceleration

    @property
    def joint_wrench(self) -> NamedQuantity:
        """Wrenches that joints transmit from their parents, by joint, body or frame."""
        return self.values.joint_wrench

    @property
    def external_wrench(self) -> NamedQuantity:
        """Wrenches of the environment on bodies, by body or frame."""
        return self.values.external_wrench

    @property
    def residual(self) -> dict[str, Array]:
        """Normalised residuals (size,) by sensor name."""
        if self._residuals is None and self._answers is not None:
            found = self._answers.residuals()
            self._residuals = found if found is None or self.shape else found[0]
        if self._residuals is None:
            from problems.consistency import normalised_residuals

            size = self.problem.layout.size
            self._residuals = self.each(lambda p: normalised_residuals(self.problem, p), size)
        layout, residuals = self.problem.layout, self._residuals
        return {name: residuals[..., layout.slice(name)] for name in layout.names}

    @property
    def p_value(self) -> float | Array:
        """Probability that readings with the stated noise disagree as much; 1 without check."""
        from scipy.special import chdtrc

        dof: ArrayLike = self.degrees_of_freedom
        tail = chdtrc(np.maximum(dof, 1), self.chi_square)
        p = np.where(np.asarray(dof) > 0, tail, 1.0)
        return p if self.shape else float(p)

    @property
    def suspects(self) -> list[Suspect] | list[list[Suspect]]:
        """Sensors whose removal explains the disagreement, worst first; a list per state."""
        from problems.consistency import suspects

        if not self.shape:
            return suspects(self.problem, self._posterior(0))
        return [suspects(self.problem, self._posterior(k)) for k in range(self.shape[0])]

    def __repr__(self) -> str:
        what = f"{self.shape[0]} states" if self.shape else "one state"
        return f"Estimate({self.problem.robot.name!r}, {what}, by {self.method})"


def _restored(
    made_from: tuple[Any, ...],
    quantities: Mapping[Quantity, Array],
    deviations: Mapping[Quantity, Array],
) -> Estimate:
    return Estimate(*made_from).keep(quantities, deviations)
