"""Answers of the compiled estimator about N states; the posterior answers where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast, final

import numpy as np

from dynsys.errors import KernelBuildError, LayoutError
from dynsys.model.tree import nearest_name
from dynsys.types import Array, BoolArray, IntArray
from problems.compiled_estimator import CompiledEstimator, Wanted
from problems.consistency import normalised_residuals
from problems.estimate import Estimate
from problems.named_quantity import QUANTITIES, Of, Quantity, deviations, values
from problems.suspect import UNCHECKED

if TYPE_CHECKING:
    from problems.estimation import Estimation
    from problems.posterior import AbstractPosterior

__all__ = ["CompiledAnswers", "wanted_of"]

AGREEMENT = ("residual", "multiplier")
FACTS = ("chi_square", "degrees_of_freedom", "p_value", "residual")
Facts: TypeAlias = tuple[float, int, str]
"""Chi-square, degrees of freedom and method of a state."""


def wanted_of(outputs: Sequence[str], uncertainty: Sequence[str]) -> Wanted:
    """What kernels must compute for outputs by the names of an estimate.

    ``chi_square``, ``degrees_of_freedom`` and ``p_value`` come from the multipliers of the
    readings, ``residual`` from their standard deviations too. LayoutError names a wrong one.
    """
    asked = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    for name in asked:
        if name not in (*QUANTITIES, *FACTS):
            hint = nearest_name(str(name), (*QUANTITIES, *FACTS))
            raise LayoutError(f"outputs: no quantity {name!r}{hint}")
    names = dict.fromkeys(name for name in asked if name not in FACTS)
    stds = dict.fromkeys(uncertainty)
    if any(name in FACTS for name in asked):
        names |= dict.fromkeys(AGREEMENT)
    if "residual" in asked:
        stds |= {"multiplier": None}
    return Wanted(tuple(names), tuple(stds))


@final
class CompiledAnswers:
    """What is known of N states, by name of the quantity; found when asked for.

    Parameters
    ----------
    problem, estimator : the problem and its kernels.
    state : q (N, nq), qd (N, nv) and readings (N, rows), NaN where missing.
    posterior_of : what solves one state in any case.
    threads : for the kernels.
    switch : whether states with missing readings are worth a kernel of their own.
    """

    def __init__(
        self,
        problem: Estimation,
        estimator: CompiledEstimator,
        state: tuple[Array, Array, Array],
        posterior_of: Callable[[int], AbstractPosterior],
        threads: int,
        switch: bool,
    ) -> None:
        self._problem = problem
        self._estimator = estimator
        self._state = state
        self._posterior_of = posterior_of
        self._threads = threads
        self._switch = switch
        self._arrays: dict[str, Array] = {}
        self._facts: dict[int, Facts] = {}
        self._normalised: dict[int, Array] = {}

    @property
    def method(self) -> str | tuple[str, ...]:
        """``llvm``, or the method of each state if some needed another."""
        if not self._facts:
            return "llvm"
        n = len(self._state[0])
        return tuple(self._facts[k][2] if k in self._facts else "llvm" for k in range(n))

    # ---- computing -----------------------------------------------------------------------

    def compute(self, wanted: Wanted) -> None:
        """Find what is wanted of all states.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        found = self._by_kernel(wanted)
        bad = ~np.all([np.isfinite(array).all(axis=1) for array in found.values()], axis=0)
        for k in np.flatnonzero(bad).tolist():
            posterior = self._posterior_of(k)
            one = Estimate.of_one(self._problem, posterior)
            facts = posterior.chi_square, posterior.degrees_of_freedom, posterior.method
            self._facts[k] = facts
            if "std_multiplier" in found:
                self._normalised[k] = normalised_residuals(self._problem, posterior)
            for name, array in found.items():
                kind = cast("Quantity", name.removeprefix("std_"))
                if kind in QUANTITIES:
                    source = one.std[kind] if name.startswith("std_") else one.values[kind]
                    array[k] = source.array.ravel()
        self._arrays |= found

    def _by_kernel(self, wanted: Wanted) -> dict[str, Array]:
        ways = {"threads": self._threads, "switch": self._switch}
        try:
            return self._estimator.solve(*self._state, wanted, **ways)  # type: ignore[arg-type]
        except KernelBuildError:
            if not wanted.uncertainty or not wanted.outputs:
                raise
        found = self._estimator.solve(*self._state, Wanted(wanted.outputs), **ways)  # type: ignore[arg-type]
        question = self._estimator.question(wanted)
        n = len(self._state[0])
        return found | {
            f"std_{name}": np.full((n, question.size(name)), np.nan)
            for name in wanted.uncertainty
        }

    def _have(self, names: Sequence[str], wanted: Wanted) -> bool:
        """Compute what is not there yet; False if no kernel can."""
        if all(name in self._arrays for name in names):
            return True
        try:
            self.compute(wanted)
        except KernelBuildError:
            return False
        return True

    # ---- answers -------------------------------------------------------------------------

    def about(self, kind: Quantity, of: Of) -> Array | None:
        """Values, standard deviations or truth values (N, ...); None if no kernel has them."""
        if of is values or of is deviations:
            name = f"std_{kind}" if of is deviations else kind
            wanted = Wanted((), (kind,)) if of is deviations else Wanted((kind,))
            if not self._have([name], wanted):
                return None
            found = self._arrays[name]
        else:
            if not self._have([kind], Wanted((kind,))):
                return None
            found = np.isfinite(self._arrays[kind])
        return found if kind in ("torque", "qdd") else found.reshape(len(found), -1, 6)

    @cached_property
    def _present(self) -> BoolArray:
        return ~np.isnan(self._state[2])

    def agreement(self) -> tuple[Array, IntArray] | None:
        """Chi-square and degrees of freedom (N,)."""
        if not self._have(AGREEMENT, Wanted(AGREEMENT)):
            return None
        residual, multiplier = (self._arrays[name] for name in AGREEMENT)
        chi_square = np.maximum(np.einsum("nk,nk->n", residual, multiplier), 0.0)
        dof = self._present.sum(axis=1) - self._problem.measured.needed
        for k, facts in self._facts.items():
            chi_square[k], dof[k] = facts[:2]
        return chi_square, dof

    def residuals(self) -> Array | None:
        """Residuals (N, rows) in standard deviations of the residual."""
        names = (*AGREEMENT, "std_multiplier")
        if not self._have(names, Wanted(AGREEMENT, ("multiplier",))):
            return None
        variance = self._problem.measured.variance[: self._problem.layout.size]
        spread = self._arrays["std_multiplier"]
        checked = spread**2 * variance > UNCHECKED
        out = np.full(spread.shape, np.nan)
        out[checked] = -self._arrays["multiplier"][checked] / spread[checked]
        out[:, variance == 0] = 0.0
        for k, residuals in self._normalised.items():
            out[k] = residuals
        return out
