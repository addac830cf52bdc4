"""Answers about states: what machine code says of them, found when it is asked for.

Many states: one kernel for those where every reading is there. All others, and what that kernel
cannot answer (a state or a set of readings that leaves something open, or needs pivoting: NaN),
go to the reduced system (:mod:`problems.estimation.reduced_batch`), and what is in doubt there
to the posterior of its state. One state: a kernel for each quantity, else the general path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast, final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.system.parts import kind_of
from dynsys.types import Array, IntArray
from problems.estimation.compiled import (
    AGREEMENT,
    COMPILED_FROM,
    CompiledEstimator,
    EstimatorOutputs,
)
from problems.estimation.estimate import (
    Both,
    Estimate,
    MeasuredStates,
    Of,
    Uncertainty,
    deviations,
    values,
)
from problems.estimation.reduced_batch import METHOD, moved_part
from problems.measured.measured_system import QUANTITIES, Quantity

__all__ = ["FEW", "CompiledAnswers", "OneAnswer"]

CLEAR = 1e-9
"""Part of a reading's information that others check, below which rounding hides how much."""
FEW, HARDLY_ANY = 128, 8
"""States that are solved one by one rather than by the reduced system, whose code must be
compiled first; the second where machine code was asked for."""


# ---- answers about N states ----------------------------------------------------------------

Facts: TypeAlias = tuple[float, int, str]
"""Chi-square, degrees of freedom and method of a state."""


@final
class CompiledAnswers:
    """What is known of N states, by name of the quantity; found when asked for.

    Parameters
    ----------
    estimator : the kernels.
    states : the states with their readings, which can solve any of them in any case.
    threads : for the kernels.
    strict : whether there must be a kernel of the layout; else the reduced system may answer
        all states.
    few : fewer states are solved one by one rather than by the reduced system; by default as
        said above.
    known : what kernels have said of all states, by name.
    """

    def __init__(
        self,
        estimator: CompiledEstimator,
        states: MeasuredStates,
        threads: int,
        strict: bool,
        few: int | None = None,
        known: dict[str, Array] | None = None,
    ) -> None:
        self._estimator = estimator
        self._states = states
        self._threads = threads
        self._strict = strict
        self._few = (HARDLY_ANY if strict else FEW) if few is None else few
        self._arrays: dict[str, Array] = known or {}
        self._facts: dict[int, Facts] = {}
        self._normalised: dict[int, Array] = {}

    @property
    def method(self) -> str | tuple[str, ...]:
        """``llvm`` or ``numpy``, or the method of each state if some needed another."""
        usual = self._estimator.method
        if not self._facts:
            return usual
        n = len(self._states.q)
        return tuple(self._facts[k][2] if k in self._facts else usual for k in range(n))

    # ---- computing -----------------------------------------------------------------------

    def compute(self, outputs: EstimatorOutputs) -> None:
        """Find what is asked for of all states.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        problem = self._states.problem
        if problem.layout.has_encoder_noise and outputs.uncertainty:
            noisy = [x for x in outputs.uncertainty if kind_of(x) in QUANTITIES]
            others = tuple(x for x in outputs.uncertainty if x not in noisy)
            if outputs.outputs or others:
                self.compute(EstimatorOutputs(outputs.outputs, others))
            kinds = cast("list[Quantity]", [x for x in noisy if x in QUANTITIES])
            if kinds:
                self._arrays |= self._with_encoder_noise(kinds)  # at frames, when asked for
            return
        found = self._by_kernel(outputs)
        bad = ~np.all([np.isfinite(array).all(axis=1) for array in found.values()], axis=0)
        if outputs == EstimatorOutputs(AGREEMENT):  # facts are kept
            bad[list(self._facts)] = False
        for k in self._by_reduced(np.flatnonzero(bad), found).tolist():
            posterior = self._states(k)
            one = Estimate.of_one(problem, posterior)
            facts = posterior.chi_square, posterior.degrees_of_freedom, posterior.method
            self._facts[k] = facts
            if "std_multiplier" in found:
                self._normalised[k] = self._states.residuals(np.array([k]))[0]
            for name, array in found.items():
                kind, _, part = name.removeprefix("std_").partition(".")
                if kind in QUANTITIES:
                    group = one.std if name.startswith("std_") else one.values
                    quantity = group[kind]
                    array[k] = quantity[part] if part else quantity.array.ravel()
        self._arrays |= found

    def _with_encoder_noise(self, kinds: Sequence[Quantity]) -> dict[str, Array]:
        """Deviations with the noise of q and qd: sigma^2 = sigma_y^2 + J Sigma J^T.

        By the kernel that computes values beside them; many states that it leaves open get
        sigma_y by the reduced system and J by its kernel; what is left goes state by state.
        """
        states, problem = self._states, self._states.problem
        by_kernel = self._by_kernel(EstimatorOutputs(tuple(kinds), tuple(kinds)))
        bad = ~np.all([np.isfinite(x).all(axis=1) for x in by_kernel.values()], axis=0)
        found = {f"std_{kind}": by_kernel[f"std_{kind}"] for kind in kinds}
        places = np.flatnonzero(bad)
        if len(places) >= FEW:
            state = states.q[places], states.qd[places], states.rows[places]
            plain = problem.reduced.solve(*state, (), kinds)
            slopes = problem.slopes_of(*state)
            noise = np.concatenate([problem.layout.position_std, problem.layout.velocity_std])
            bad[:] = False
            for kind in kinds:
                columns = problem.system.unknowns.columns(kind)
                J = slopes.of(kind, columns).by_state(columns) * noise
                sigma = np.where(plain.answered[:, None], plain.arrays[f"std_{kind}"], np.nan)
                found[f"std_{kind}"][places] = x = np.sqrt(sigma**2 + (J * J).sum(axis=2))
                bad[places] |= ~np.isfinite(x).all(axis=1)
        for k in np.flatnonzero(bad).tolist():
            one = Estimate.of_one(problem, states(k))
            for kind in kinds:
                found[f"std_{kind}"][k] = one.std[kind].array.ravel()
        return found

    def _by_kernel(self, outputs: EstimatorOutputs) -> dict[str, Array]:
        """Arrays by name; NaN where there is no kernel, or too few complete states for it."""
        states, spec = self._states, self._estimator.question(outputs)
        complete = np.asarray(~np.isnan(states.y).any(axis=1))
        if self._strict or complete.all() or int(complete.sum()) >= COMPILED_FROM:
            try:
                return self._estimator.solve(states, outputs, complete, self._threads)
            except KernelBuildError:
                if self._strict and not (outputs.uncertainty and outputs.outputs):
                    raise
            if self._strict:  # standard deviations may be all that has no kernel
                self._estimator.kernel(EstimatorOutputs(outputs.outputs))
        n = len(states.q)
        sizes = (size for _, size in spec.signature.outputs)
        return {
            name: np.full((n, size), np.nan)
            for name, size in zip(outputs.names, sizes, strict=True)
        }

    def _by_reduced(self, places: IntArray, found: dict[str, Array]) -> IntArray:
        """Answer states by the reduced system; those that are left."""
        if len(places) < self._few:
            return places
        states, robot = self._states, self._states.problem.robot
        stds = [x.removeprefix("std_") for x in found if x.startswith("std_")]
        parts = {x: moved_part(robot, x) for x in stds if "." in x}
        answers = states.problem.reduced.solve(
            states.q[places],
            states.qd[places],
            states.rows[places],
            [x for x in found if x in QUANTITIES],
            list(dict.fromkeys(k for k in map(kind_of, stds) if k in QUANTITIES)),
            residuals="std_multiplier" in found,
            moved=parts,
        )
        there = np.flatnonzero(answers.answered)
        for x in found:
            name = x.removeprefix("std_")
            if name in parts:
                found[x][places[there]] = answers.at_frame(name)[there]
            elif name in QUANTITIES:
                found[x][places[there]] = answers.arrays[x][there]
        chi_square, dof = answers.chi_square[there], answers.degrees_of_freedom[there]
        facts = zip(chi_square.tolist(), dof.tolist(), [METHOD] * len(there), strict=True)
        self._facts |= dict(zip(places[there].tolist(), facts, strict=True))
        if answers.residuals is not None:
            rows = zip(places[there].tolist(), answers.residuals[there], strict=True)
            self._normalised |= dict(rows)
        return np.asarray(places[~answers.answered])

    def _have(self, names: Sequence[str], outputs: EstimatorOutputs) -> bool:
        """Compute what is not there yet; False if no kernel can."""
        if all(name in self._arrays for name in names):
            return True
        try:
            self.compute(outputs)
        except KernelBuildError:
            return False
        return True

    # ---- answers -------------------------------------------------------------------------

    def about(self, kind: Quantity, of: Of) -> Array | None:
        """Values, standard deviations or truth values (N, ...); None if no kernel has them."""
        is_std = of is deviations
        name = f"std_{kind}" if is_std else kind
        asked = EstimatorOutputs((), (kind,)) if is_std else EstimatorOutputs((kind,))
        if not self._have([name], asked):
            return None
        found = self._arrays[name]
        if of is not values and not is_std:
            found = np.isfinite(found)
        found = found if kind in ("torque", "qdd") else found.reshape(len(found), -1, 6)
        return found if self._states.is_batch else found[0]

    def deviations_at(self, part: str, matrix: Array | None) -> Array | None:
        """Deviations (N, 6) of a quantity at a frame: ``external_wrench.l_sole``.

        By the kernel if they were asked for with the batch; None for a body's own (no matrix)
        that were not. NaN at states that are left to the posterior: too few, in doubt, or
        something is open.
        """
        states, n = self._states, len(self._states)
        computed = self._arrays.get(f"std_{part}")
        if computed is not None:
            return computed.copy()
        if matrix is None:
            return None
        if n < FEW or states.problem.layout.has_encoder_noise:
            return np.full((n, 6), np.nan)
        answers = states.problem.reduced.solve(
            states.q,
            states.qd,
            states.rows,
            (),
            (kind_of(part),),
            moved={part: moved_part(states.problem.robot, part)},
        )
        return answers.at_frame(part)

    def agreement(self) -> tuple[float | Array, int | IntArray] | None:
        """Chi-square and degrees of freedom, (N,) of a batch."""
        if not self._have(AGREEMENT, EstimatorOutputs(AGREEMENT)):
            return None
        residual, multiplier = (self._arrays[name] for name in AGREEMENT)
        chi_square = np.maximum(np.einsum("nk,nk->n", residual, multiplier), 0.0)
        for k in np.flatnonzero(~np.isfinite(chi_square)).tolist():
            if k not in self._facts:
                one = self._states(k)  # says that it overflows
                self._facts[k] = one.chi_square, one.degrees_of_freedom, one.method
        dof = np.full(len(chi_square), self._states.problem.measured.degrees_of_freedom)
        for k, facts in self._facts.items():
            chi_square[k], dof[k] = facts[:2]
        is_batch = self._states.is_batch
        return (chi_square, dof) if is_batch else (float(chi_square[0]), int(dof[0]))

    def residuals(self) -> Array | None:
        """Residuals (rows,), (N, rows) of a batch, in standard deviations of the residual."""
        names = (*AGREEMENT, "std_multiplier")
        if not self._have(names, EstimatorOutputs(AGREEMENT, ("multiplier",))):
            return None
        size = self._states.problem.layout.size
        variance = self._states.problem.measured.variance[:size]
        spread = self._arrays["std_multiplier"][:, :size]
        is_clear = spread**2 * variance > CLEAR
        out = np.full(spread.shape, np.nan)
        out[is_clear] = -self._arrays["multiplier"][:, :size][is_clear] / spread[is_clear]
        out[:, variance == 0] = 0.0
        hidden = (~is_clear & (variance > 0) & self._states.problem.is_checked).any(axis=1)
        self._look_closely(np.flatnonzero(hidden))
        for k, residuals in self._normalised.items():
            out[k] = residuals
        return out if self._states.is_batch else np.asarray(out[0])

    def _look_closely(self, places: IntArray) -> None:
        """Find residuals of readings far more precise than what checks them."""
        places = np.array([k for k in places.tolist() if k not in self._normalised], dtype=int)
        found = self._states.residuals(places, HARDLY_ANY)
        self._normalised |= dict(zip(places.tolist(), found, strict=True))


# ---- answers about one state ---------------------------------------------------------------


@final
class OneAnswer:
    """What the compiled estimator says of one complete state: each quantity by its own kernel.

    Values are computed when they are asked for, and their kernels compiled then; deviations and
    agreement too, by kernels that are compiled when they pay (:data:`HANDFUL`); deviations that
    count noise of q and qd by kernels that are there. None leaves the
    question to the general path: there is no kernel, or it found that this state needs
    pivoting, and then all further questions about it are left there too.
    """

    __slots__ = ("_estimator", "_states", "has_failed")

    def __init__(self, estimator: CompiledEstimator, states: MeasuredStates) -> None:
        self._estimator = estimator
        self._states = states
        self.has_failed = False

    @property
    def method(self) -> str | None:
        """``llvm`` or ``numpy``; None where the general path answers, by asking for torques."""
        return None if self.about("torque", values) is None else self._estimator.method

    def about(self, kind: Quantity, of: Of) -> Array | None:
        """Values, standard deviations or truth values; None leaves them to the general path."""
        estimator = self._estimator
        if of is deviations and estimator.layout.has_encoder_noise:
            both = self.both((kind,), *self._states.parts())
            return None if both is None else both[1][kind]
        if of is not deviations:
            call = estimator.calls.get(kind) or estimator.call(EstimatorOutputs((kind,)))
        else:
            call = estimator.call(EstimatorOutputs((), (kind,)), patient=True)
        if call is None or self.has_failed:
            return None
        found = np.empty(estimator.shapes[kind])
        q, qd, y = self._states.parts()
        if not call(q, qd, y, found if found.ndim == 1 else found.ravel()):
            self.has_failed = True
            return None
        is_number = of is values or of is deviations
        return found if is_number else np.ones(found.shape, dtype=bool)

    def deviations_at(self, part: str, matrix: Array | None) -> Array | None:
        """Leave deviations at frames to the general path."""
        return None

    def both(self, wanted: Uncertainty, q: Array, qd: Array, y: Array) -> Both | None:
        """Values and standard deviations of quantities, by their names, from one kernel.

        The three arrays are those of its state, or what they were copied from.
        """
        together = self._estimator.together(wanted)
        if together.call is None or self.has_failed:
            return None
        found = together.at(q, qd, y)
        self.has_failed = found is None
        return found

    def _many(self, outputs: EstimatorOutputs) -> CompiledAnswers | None:
        """Answers of a kernel of several outputs, None if it is not there."""
        if self.has_failed or self._estimator.call(outputs, patient=True) is None:
            return None
        return CompiledAnswers(self._estimator, self._states, 1, False)

    def agreement(self) -> tuple[float | Array, int | IntArray] | None:
        """Chi-square and degrees of freedom."""
        answers = self._many(EstimatorOutputs(AGREEMENT))
        return None if answers is None else answers.agreement()

    def residuals(self) -> Array | None:
        """Residuals (rows,) in standard deviations of the residual."""
        answers = self._many(EstimatorOutputs(AGREEMENT, ("multiplier",)))
        return None if answers is None else answers.residuals()
