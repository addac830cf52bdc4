"""Arithmetic that records on the expression graph and knows every value at sampled states.

A scalar is a signed reference of the graph, 0 for exact zero. Beside each node stand its values
at a few random states in extended precision, so that an elimination can choose pivots while it
is recorded, and sums that cancel at every state vanish at once instead of becoming fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.program.graph import Graph, Scalar

__all__ = ["Recorder", "Ref"]

Ref: TypeAlias = int
"""Signed reference of a graph node; 0 is exact zero."""
Extended: TypeAlias = NDArray[np.longdouble]

CANCELLED = np.longdouble(2.0) ** -55
"""A sum this small beside its terms, at every state, is zero."""


@final
@dataclass(slots=True)
class _Known:
    """Values (n_states,) of a node, the size of the terms they came from, and its weights.

    ``switched``: the value is zero where weights that may be zero are zero.
    """

    values: Extended
    terms: Extended
    switched: bool


@final
class Recorder:
    """Operations on references of ``graph``; see the module.

    Parameters
    ----------
    graph : where operations are recorded.
    samples : (n_states, n_inputs) values of the graph's inputs.
    """

    def __init__(self, graph: Graph, samples: Extended) -> None:
        self.graph = graph
        self._samples = samples
        self._known: dict[int, _Known] = {}
        self.one = self.constant(1.0)

    def include(self, scalars: Sequence[Any], switched: bool = False) -> list[Ref]:
        """References of scalars recorded on the graph by other means, or of numbers."""
        refs = [self.graph.reference(x) for x in scalars]
        new = [k for k in dict.fromkeys(map(abs, refs)) if k and k not in self._known]
        if new:
            values = self.graph.program([Scalar(self.graph, k) for k in new]).evaluate(
                self._samples
            )
            for k, column in zip(new, values.T, strict=True):
                self._known[k] = _Known(column.copy(), np.abs(column), switched)
        return [self._nonzero(ref) for ref in refs]

    def constant(self, value: float) -> Ref:
        """Reference of a number."""
        return self.include([value])[0]

    def values(self, ref: Ref) -> Extended:
        """Values (n_states,) at the sampled states."""
        known = self._known[abs(ref)].values
        return known if ref > 0 else -known

    def kept(self, ref: Ref) -> Extended:
        """|value| beside the largest term of its sum (n_states,); 1: all digits are kept."""
        known = self._known[abs(ref)]
        return np.abs(known.values) / known.terms

    def is_constant(self, ref: Ref) -> bool:
        """Whether the graph holds a number here."""
        return self.graph.value(ref) is not None

    def is_switched(self, ref: Ref) -> bool:
        """Whether the value vanishes with weights that may be zero."""
        return self._known[abs(ref)].switched

    def _nonzero(self, ref: Ref) -> Ref:
        return ref if ref and self._known[abs(ref)].values.any() else 0

    # ---- operations ----------------------------------------------------------------------

    def add(self, a: Ref, b: Ref) -> Ref:
        """A + b."""
        if not a or not b:
            return a or b
        ref = self.graph.add(a, b)
        if not ref:
            return 0
        if abs(ref) not in self._known:
            left, right = self._known[abs(a)], self._known[abs(b)]
            values = self.values(a) + self.values(b)
            terms = np.maximum(left.terms, right.terms)
            switched = left.switched and right.switched
            self._known[abs(ref)] = _Known(values if ref > 0 else -values, terms, switched)
        known = self._known[abs(ref)]
        return 0 if (np.abs(known.values) <= CANCELLED * known.terms).all() else ref

    def mul(self, a: Ref, b: Ref) -> Ref:
        """A * b."""
        if not a or not b:
            return 0
        ref = self.graph.mul(a, b)
        if abs(ref) not in self._known:
            left, right = self._known[abs(a)], self._known[abs(b)]
            values = self.values(a) * self.values(b)
            switched = left.switched or right.switched
            self._know(ref, values, switched)
        return ref

    def div(self, a: Ref, b: Ref) -> Ref:
        """A / b."""
        if not a:
            return 0
        ref = self.graph.div(a, b)
        if abs(ref) not in self._known:
            self._know(ref, self.values(a) / self.values(b), self._known[abs(a)].switched)
        return ref

    def sub_product(self, a: Ref, b: Ref, c: Ref) -> Ref:
        """A - b * c."""
        return self.add(a, -self.mul(b, c))

    def _know(self, ref: Ref, values: Extended, switched: bool) -> None:
        values = values if ref > 0 else -values
        self._known[abs(ref)] = _Known(values, np.abs(values), switched)
