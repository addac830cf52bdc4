"""Derivatives of dynamics of any kind, from those of inverse dynamics.

    torque = ID(q, qd, qdd, f_ext, p)       D = its partial derivatives, H = that by qdd

With torques known of the freedoms T and accelerations of the others, A,

    rows T:   dqdd_T = H_TT^-1 (dtorque_T - D_T - H_TA dqdd_A)
    rows A:   dtorque_A = D_A + H_AA dqdd_A + H_AT dqdd_T

at the qdd that solves the problem: inverse dynamics has no T, forward dynamics no A. H_TT is
factored leaf to root, H_TT = L^T E L, and L has the sparsity of the tree. D by q and qd comes
from the recursion (:mod:`dynsys.recursive.derivatives`), by external wrenches and parameters,
in which torque is linear, from forward accumulation over the recorded recursion. Accumulation
can give all of D, and does where it takes fewer operations: see :func:`ways_to_record`.

Outputs by name: ``d<answer>_d<variable>`` (nv, size of the variable), row by row; the answer is
``torque`` in inverse, ``qdd`` in forward dynamics, ``unknown`` in hybrid dynamics (torque of
the freedoms in A, qdd of the others). ``derivatives`` are those by q, qd and what is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

import numpy as np

from dynsys.model.expanded import expanded_parent, own_supports
from dynsys.model.tree import KinematicTree
from dynsys.program.derivatives import Replay, transposed_product
from dynsys.program.frames import Reframed
from dynsys.program.graph import Graph, Scalar
from dynsys.program.paired import PAIRED, paired_results
from dynsys.program.program import Program
from dynsys.recursive.derivatives import Entries, torque_derivatives
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "ALL_DERIVATIVES",
    "FACTORED",
    "Way",
    "dense_derivatives",
    "derivative_outputs",
    "derivative_results",
    "factored_size",
    "inverse_dynamics",
    "recorded",
    "ways_to_record",
]

ALL_DERIVATIVES = "derivatives"
FACTORED = "factored_derivatives"
"""Of forward dynamics: 1 / E (nv,), the number one, -L row by row, -D by q and by qd; what is
left is to solve with L and E (:mod:`dynsys.kernel.llvm.solve_tail`)."""
ANSWER = {"qdd": "torque", "torque": "qdd"}
"""What is differentiated, by what is given; ``unknown`` where that differs."""

SHORT, SMALL = 3, 16
"""Supports of a freedom, itself too, in the mean, and freedoms of a robot up to which
accumulation may take fewer operations than the recursion: legs of hyq on a fixed base."""
NOTHING = np.zeros(0, dtype=object)

Way: TypeAlias = Literal["recursion", "forward", "reverse"]
"""How derivatives of inverse dynamics are found: by the recursion for them, or by accumulation
over the recorded recursion of torques."""

Column: TypeAlias = "dict[int, Any]"
"""Nonzeros of a column, by row."""


def derivative_outputs(nv: int, variables: Mapping[str, int], given: str) -> dict[str, int]:
    """Names of all derivatives, and how many numbers each has.

    ``variables`` are the inputs of the problem with their sizes, q with nv.
    """
    answer = ANSWER.get(given, "unknown")
    found = {f"d{answer}_d{name}": nv * size for name, size in variables.items()}
    return {ALL_DERIVATIVES: 3 * nv * nv} | found


def ways_to_record(robot: KinematicTree, known: BoolArray) -> tuple[Way, ...]:
    """Ways of which the one with the fewest operations is kept.

    All of them for inverse dynamics of robots that have at most :data:`SMALL` freedoms, short
    chains (:data:`SHORT`), no quaternions and no joint that follows another; else the
    recursion.
    """
    is_small = 0 < robot.nv <= SMALL and robot.nq == robot.nv and not robot.is_coupled
    if is_small and known.all():
        supports = sum(map(len, own_supports(expanded_parent(robot))))
        if supports <= SHORT * robot.nv:
            return "recursion", "forward", "reverse"
    return ("recursion",)


def derivative_results(
    mechanism_at: Callable[[ScalarArray], Reframed],
    inputs: Mapping[str, ScalarArray],
    qdd: ScalarArray,
    known: BoolArray,
    given: str,
    wanted: Sequence[str],
    way: Way = "recursion",
) -> dict[str, ScalarArray]:
    """Derivatives by name, flattened, on the graph of the inputs.

    ``mechanism_at`` gives the mechanism at parameters; ``inputs`` are q, qd, what is given,
    external wrenches and parameters, if any; ``qdd`` (nv,) is that of the solution.
    """
    answer, nv = ANSWER.get(given, "unknown"), len(qdd)
    q, qd, p = (inputs.get(name, NOTHING) for name in ("q", "qd", "parameters"))
    mechanism = mechanism_at(p)
    f_ext = _on_stages(mechanism, inputs.get("f_ext", NOTHING))
    if PAIRED in wanted:
        slopes = _friction_slopes(mechanism_at, qd, p)
        return {PAIRED: paired_results(mechanism, q, qd, qdd, f_ext, slopes)}
    linear = [name for name in ("f_ext", "parameters") if f"d{answer}_d{name}" in wanted]
    if way == "recursion":
        found = torque_derivatives(mechanism, q, qd, qdd, f_ext)
        by = {"q": _columns(found.q, nv), "qd": _columns(found.qd, nv)}
        for k, slope in enumerate(_friction_slopes(mechanism_at, qd, p)):
            by["qd"][k][k] = by["qd"][k].get(k, 0.0) + slope
        H = _columns(found.qdd, nv)
        if FACTORED in wanted:
            return {FACTORED: _factored(H, by, mechanism.robot)}
        by |= _accumulated(mechanism_at, inputs, qdd, linear, "forward")
    else:
        by = _accumulated(mechanism_at, inputs, qdd, ["q", "qd", "qdd", *linear], way)
        H = by.pop("qdd")
    solver = _Solver(H, known)
    answers = {name: [solver.answer(c) for c in columns] for name, columns in by.items()}
    answers[given] = [solver.answer_to_given(k) for k in range(nv)]
    flat = {f"d{answer}_d{name}": _flat(columns, nv) for name, columns in answers.items()}
    three = [flat[f"d{answer}_d{name}"] for name in ("q", "qd", given)]
    return flat | {ALL_DERIVATIVES: np.concatenate(three)}


def factored_size(robot: KinematicTree) -> int:
    """Numbers of :data:`FACTORED`."""
    nv = robot.nv
    return (
        nv + 1 + sum(len(row) - 1 for row in own_supports(expanded_parent(robot))) + 2 * nv * nv
    )


def _factored(
    H: Sequence[Column], by: Mapping[str, Sequence[Column]], robot: KinematicTree
) -> ScalarArray:
    nv = robot.nv
    solver = _Solver(H, np.zeros(nv, dtype=bool))
    L = [
        -solver.L[i].get(j, 0.0)
        for i, support in enumerate(own_supports(expanded_parent(robot)))
        for j in sorted(support - {i})
    ]
    D = [-x for name in ("q", "qd") for x in _flat(by[name], nv)]
    return np.array([*(solver.reciprocal[i] for i in range(nv)), 1.0, *L, *D], dtype=object)


def _columns(entries: Entries, n: int) -> list[Column]:
    columns: list[Column] = [{} for _ in range(n)]
    for (i, j), value in entries.items():
        columns[j][i] = value
    return columns


def _flat(columns: Sequence[Column], rows: int) -> ScalarArray:
    M = np.zeros((rows, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        for i, value in column.items():
            M[i, j] = value
    return M.ravel()


def _on_stages(mechanism: Reframed, f_ext: ScalarArray) -> ScalarArray | None:
    """External wrenches on the robot's bodies as those on the mechanism's, or None."""
    if not f_ext.size:
        return None
    out = np.zeros((mechanism.n_bodies, 6), dtype=object)
    wrenches = f_ext.reshape(-1, 6)
    for body, (place, wrench) in enumerate(zip(mechanism.place, wrenches, strict=True)):
        out[place] = mechanism.wrench_to_new(body, wrench)
    return out


def dense_derivatives(
    robot: KinematicTree,
    q: Array,
    qd: Array,
    qdd: Array,
    known: BoolArray,
    f_ext: Array | None = None,
) -> Array:
    """By q, qd and what is given (3 nv nv,), in plain numbers, H_TT with pivoting: the twin."""
    nv, T, A = robot.nv, ~known, known
    found = torque_derivatives(robot, q, qd, qdd, f_ext)
    D = np.zeros((3, nv, nv))
    for matrix, entries in zip(D, (found.q, found.qd, found.qdd), strict=True):
        for place, value in entries.items():
            matrix[place] = value
    D[1] += np.diag(_friction_slopes_at(robot, qd))
    H = D[2].copy()
    D[2][:, T] = -np.eye(nv)[:, T]
    out = np.zeros_like(D)
    out[:, T] = -np.linalg.solve(H[np.ix_(T, T)], D[:, T])
    out[:, A] = D[:, A] + H[np.ix_(A, T)] @ out[:, T]
    return out.ravel()


def _friction_slopes_at(robot: KinematicTree, qd: Array) -> Array:
    graph = Graph()
    speeds = graph.inputs(len(qd))
    replay = Replay(graph.program(list(robot.friction_torque(speeds))))
    slopes = replay.graph.program(list(replay.forward(np.ones(len(qd)))))
    return np.asarray(slopes.evaluate(qd))


# ---- what the recursion leaves to the chain rule: friction, wrenches, parameters -------------


def recorded(function: Callable[..., ScalarArray], sizes: Sequence[int]) -> Program:
    """A function of vectors of such sizes, recorded by itself."""
    graph = Graph()
    return graph.program(list(function(*(graph.inputs(size) for size in sizes))))


def _replayed(
    function: Callable[..., ScalarArray], groups: Sequence[ScalarArray], graph: Graph
) -> Replay:
    """A function of groups of scalars, recorded by itself and replayed on their graph."""
    program = recorded(function, [len(group) for group in groups])
    return Replay(program, graph, np.concatenate(groups))


def inverse_dynamics(
    mechanism_at: Callable[[ScalarArray], Reframed],
) -> Callable[..., ScalarArray]:
    """Torque (nv,) as a function of q, qd, qdd, external wrenches and parameters."""

    def torque(
        q: ScalarArray, qd: ScalarArray, qdd: ScalarArray, f_ext: ScalarArray, p: ScalarArray
    ) -> ScalarArray:
        mechanism = mechanism_at(p)
        return rnea_scalars(mechanism, q, qd, qdd, _on_stages(mechanism, f_ext))

    return torque


def _friction_slopes(
    mechanism_at: Callable[[ScalarArray], Reframed], qd: ScalarArray, p: ScalarArray
) -> ScalarArray:
    """Derivative (nv,) of every friction torque by its own speed: it depends on no other."""
    if not len(qd):
        return NOTHING
    replay = _replayed(lambda qd, p: mechanism_at(p).friction_torque(qd), (qd, p), qd[0].graph)
    return replay.forward([*np.ones(len(qd)), *np.zeros(len(p))])


def _accumulated(
    mechanism_at: Callable[[ScalarArray], Reframed],
    inputs: Mapping[str, ScalarArray],
    qdd: ScalarArray,
    wanted: Sequence[str],
    way: Way,
) -> dict[str, list[Column]]:
    """Columns of d torque by each of the variables at the qdd of the solution."""
    if not wanted:
        return {}
    values = {"q": NOTHING, "qd": NOTHING, "qdd": qdd, "f_ext": NOTHING, "parameters": NOTHING}
    values |= {name: inputs[name] for name in values if name in inputs and name != "qdd"}
    q, groups = values["q"], list(values.values())
    replay = _replayed(inverse_dynamics(mechanism_at), groups, q[0].graph)
    starts = dict(zip(values, np.cumsum([0, *map(len, groups)]).tolist(), strict=False))
    backward = np.eye(len(qdd)) if way == "reverse" else ()
    gradients = [replay.reverse(weight) for weight in backward]
    found: dict[str, list[Column]] = {}
    for name in wanted:
        size = len(values[name])
        T = mechanism_at(values["parameters"]).robot.tangent(q) if name == "q" else np.eye(size)
        own = slice(starts[name], starts[name] + size)
        if way == "reverse":
            J = np.array([transposed_product(T, x[own]) for x in gradients])
        else:
            moves = np.zeros((T.shape[1], len(replay.inputs)), dtype=object)
            moves[:, own] = T.T
            J = np.array([replay.forward(move) for move in moves]).T
        found[name] = [
            {i: x for i, x in enumerate(column) if not _is_zero(x)} for column in J.T
        ]
    return found


def _is_zero(x: Any) -> bool:
    return not isinstance(x, Scalar) and x == 0.0


# ---- rows T and A ----------------------------------------------------------------------------


@final
class _Solver:
    """What becomes of the answer when torque, or what is given, changes; see the module."""

    def __init__(self, H: Sequence[Column], known: BoolArray) -> None:
        self._H, self._known = H, known.tolist()
        self._free = np.flatnonzero(~known).tolist()
        # H_TT = L^T E L: rows of L leaf to root, and 1 / E
        left = {
            i: {j: x for j, x in H[i].items() if not known[j] and j <= i} for i in self._free
        }
        self.L: dict[int, Column] = {}
        self.reciprocal: Column = {}
        for i in reversed(self._free):
            row = left[i]
            self.reciprocal[i] = r = 1 / row.pop(i)
            self.L[i] = {j: x * r for j, x in row.items()}
            for j, x in self.L[i].items():
                for k in (k for k in row if k <= j):
                    left[j][k] = left[j].get(k, 0.0) - x * row[k]

    def answer(self, D: Column) -> Column:
        """Answer when torque at fixed qdd changes by a column D."""
        return self._with_known(self._solved({i: -x for i, x in D.items()}), D)

    def answer_to_given(self, k: int) -> Column:
        """Answer when what is given of freedom k changes by 1."""
        if self._known[k]:
            return self.answer(self._H[k])
        return self._with_known(self._solved({k: 1.0}), {})

    def _with_known(self, qdd: Column, D: Column) -> Column:
        """Rows T from dqdd_T; rows A: D_A + H_AT dqdd_T."""
        out = dict(qdd)
        for i in (i for i, known in enumerate(self._known) if known):
            terms = [self._H[i][j] * x for j, x in qdd.items() if j in self._H[i]]
            terms += [D[i]] if i in D else []
            if terms:
                out[i] = sum(terms[1:], start=terms[0])
        return out

    def _solved(self, b: Column) -> Column:
        """H_TT^-1 b_T."""
        x = {i: value for i, value in b.items() if not self._known[i]}
        for i in reversed(self._free):
            if i in x:
                for j, l in self.L[i].items():
                    x[j] = x[j] - l * x[i] if j in x else -(l * x[i])
        for i in self._free:
            own = [x[i] * self.reciprocal[i]] if i in x else []
            terms = [*own, *(-(l * x[j]) for j, l in self.L[i].items() if j in x)]
            if terms:
                x[i] = sum(terms[1:], start=terms[0])
        return x
