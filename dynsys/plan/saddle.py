"""Constrained weighted least squares as one symmetric system, in multipliers and unknowns.

    minimise  (y - b_Y - Y d)^T C^-1 (y - b_Y - Y d)     with the laws  D d + b_D = 0

    [ C    Y    0  ] [lambda]   [ y - b_Y ]        lambda = C^-1 (y - b_Y - Y d)
    [ Y^T  0    D^T] [  d   ] = [    0    ]        nu: multipliers of the laws
    [ 0    D    0  ] [  nu  ]   [  - b_D  ]

C is the covariance of the readings y; those without noise are zeros of C and hold exactly,
nothing else changes. The inverse of the matrix holds minus the covariance of d, and the
information C^-1 - C^-1 Y cov Y^T C^-1 that the residuals of the readings carry. A reading that
is missing has its equation replaced by lambda = 0.

Whoever solves this takes the system from here: as a dense matrix of any scalars
(:func:`dense_saddle`), as a sparse matrix whose pattern is found once
(:class:`SparseSaddle`), or as rows of expression-graph nodes that are eliminated pivot by pivot
(:func:`recorded_saddle`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array

from dynsys.model.spatial import Transform, cross_force, is_number
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import AtParameters
from dynsys.plan.saddle_elimination import RIGHT, Recorder, Ref, Row
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import acceleration_law, balance_law, net_wrench_law, torque_law
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = [
    "LinearRow",
    "RecordedSaddle",
    "SaddleLines",
    "ScaledSaddle",
    "SparseSaddle",
    "StagedUnknowns",
    "dense_saddle",
    "equation_rows",
    "law_rows",
    "open_joints",
    "recorded_saddle",
]

# ---- the system: which line is what, which entry goes where ---------------------------------


class Entries(NamedTuple):
    """A sparse matrix as lists of rows, columns and values; values of any scalar."""

    rows: IntArray
    columns: IntArray
    values: Any


@final
@dataclass(frozen=True, eq=False)
class SaddleLines:
    """Which line, row and column, belongs to each reading, unknown and law.

    Readings and laws have the line of their multiplier.
    """

    readings: IntArray
    unknowns: IntArray
    laws: IntArray

    @staticmethod
    def in_order(n_readings: int, n_unknowns: int, n_laws: int) -> SaddleLines:
        """Readings, then unknowns, then laws, as the matrix above has them."""
        unknowns = n_readings + np.arange(n_unknowns)
        return SaddleLines(
            np.arange(n_readings), unknowns, n_readings + n_unknowns + np.arange(n_laws)
        )

    @property
    def size(self) -> int:
        """Number of lines."""
        return len(self.readings) + len(self.unknowns) + len(self.laws)

    def entries(self, D: Entries, Y: Entries, C: Entries) -> Entries:
        """Entries of the matrix: D and Y in one half, to be mirrored, then those of C."""
        return Entries(
            np.concatenate([self.laws[D.rows], self.readings[Y.rows], self.readings[C.rows]]),
            np.concatenate(
                [self.unknowns[D.columns], self.unknowns[Y.columns], self.readings[C.columns]]
            ),
            np.concatenate([D.values, Y.values, C.values]),
        )


def dense_saddle(C: ScalarArray, Y: ScalarArray) -> ScalarArray:
    """Matrix of the system without laws, scalars of any kind: for the reduced unknowns."""
    n = Y.shape[1]
    return np.block([[C, Y], [Y.T, np.zeros((n, n), dtype=Y.dtype)]])


# ---- numbers: pattern once, values at every state, scaled ----------------------------------


@final
@dataclass(frozen=True, eq=False)
class ScaledSaddle:
    """The matrix at a state, its readings and laws scaled so that no entry exceeds one.

    [ S C S    S Y     0     ] [lambda / S]
    [ Y^T S     0    (L D)^T ] [    d     ]        S, L diagonal
    [   0      L D     0     ] [  nu / L  ]
    """

    matrix: csc_array[np.float64]
    lines: SaddleLines
    reading_scale: Array
    law_scale: Array

    def right_side(self, c: Array, b: Array) -> Array:
        """Right-hand side from c = y - b_Y and b_D."""
        middle = np.zeros(len(self.lines.unknowns))
        return np.concatenate([self.reading_scale * c, middle, -self.law_scale * b])

    def solution(self, x: Array) -> tuple[Array, Array]:
        """Unknowns d and multipliers lambda from a solution x."""
        return x[self.lines.unknowns], self.reading_scale * x[self.lines.readings]


@final
class SparseSaddle:
    """Pattern of the system, and the way of D's, Y's and C's entries into it.

    Parameters
    ----------
    D, Y : any matrices of the patterns of the laws and of the readings.
    covariance : C of the readings.
    """

    def __init__(
        self,
        D: csc_array[np.float64],
        Y: csc_array[np.float64],
        covariance: csc_array[np.float64],
    ) -> None:
        (n_laws, n), m = D.shape, Y.shape[0]
        self.lines = SaddleLines.in_order(m, n, n_laws)
        self._variance: Array = covariance.diagonal()
        self._D, self._Y, self._C = _entries(D), _entries(Y), _entries(csc_array(covariance))
        missing, (i, j, c) = np.arange(m), self._C  # lambda = 0 of missing readings
        C = Entries(np.append(i, missing), np.append(j, missing), np.append(c, np.ones(m)))
        half = self.lines.entries(self._D, self._Y, C)
        mirrored = slice(len(self._D.rows) + len(self._Y.rows))
        rows = np.concatenate([half.rows, half.columns[mirrored]])
        columns = np.concatenate([half.columns, half.rows[mirrored]])
        size = self.lines.size
        kept, self._target = np.unique(columns * size + rows, return_inverse=True)
        starts = np.searchsorted(kept, np.arange(size + 1) * size)
        self._pattern = (kept % size).astype(np.int32), starts.astype(np.int32)

    @property
    def signs(self) -> Array:
        """Signs of the diagonal that make the matrix quasi-definite: minus for the unknowns."""
        signs = np.ones(self.lines.size)
        signs[self.lines.unknowns] = -1.0
        return signs

    def pattern(self) -> csc_array[np.bool_]:
        """Worst-case nonzeros, with the diagonal of the readings."""
        filled = np.ones(len(self._pattern[0]), dtype=bool)
        return csc_array((filled, *self._pattern), shape=(self.lines.size, self.lines.size))

    def at(self, D: Array, Y: Array, present: BoolArray) -> ScaledSaddle:
        """Matrix for entries of D and Y in the order of their patterns.

        ``present`` (m,) tells which readings are there.
        """
        largest = np.where(present, np.sqrt(self._variance), 1.0)
        np.maximum.at(largest, self._Y.rows, np.abs(Y) * present[self._Y.rows])
        laws = np.zeros(len(self.lines.laws))
        np.maximum.at(laws, self._D.rows, np.abs(D))
        S, L = 1.0 / np.where(largest > 0, largest, 1.0), 1.0 / laws
        seen = np.where(present, S, 0.0)
        noise = self._C.values * seen[self._C.rows] * seen[self._C.columns]
        both = np.concatenate([D * L[self._D.rows], Y * seen[self._Y.rows]])
        entries = np.concatenate([both, noise, np.where(present, 0.0, 1.0), both])
        data = np.bincount(self._target, entries, len(self._pattern[0])).astype(np.float64)
        size = self.lines.size
        matrix = csc_array((data, *self._pattern), shape=(size, size))
        return ScaledSaddle(matrix, self.lines, S, L)


def _entries(A: csc_array[np.float64]) -> Entries:
    columns = np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
    return Entries(A.indices.astype(np.intp), columns, A.data)


# ---- graph nodes: rows for an elimination that is recorded ---------------------------------


@final
@dataclass(frozen=True, eq=False)
class LinearRow:
    """sum over columns  coefficient * unknown  +  constant  =  0, at ``body``.

    ``not_for`` are columns that the row should not be solved for: another one defines them.
    """

    name: str
    body: int
    coefficients: dict[int, Any]
    constant: Any
    not_for: tuple[int, ...] = ()

    @property
    def scalars(self) -> list[Any]:
        """Coefficients, then the constant."""
        return [*self.coefficients.values(), self.constant]


class RecordedSaddle(NamedTuple):
    """The system as rows of graph nodes, and what its lines are.

    Attributes
    ----------
    rows : of the symmetric system, by line; column RIGHT holds the constants.
    names : of the lines, see :mod:`dynsys.plan.methods`.
    group : body of each line.
    avoided : pairs of lines that should be no pivots.
    multiplier : line of each reading's multiplier, by the reading's number; exact rows without
        unknowns have none.
    weight : of the readings that have one, by their number.
    """

    rows: dict[int, Row]
    names: tuple[str, ...]
    group: dict[int, int]
    avoided: set[tuple[int, int]]
    multiplier: dict[int, int]
    weight: dict[int, Ref]


def recorded_saddle(
    record: Recorder,
    unknowns: StagedUnknowns,
    laws: Sequence[LinearRow],
    readings: Sequence[LinearRow],
    noise: coo_array[np.float64],
    weights: Mapping[int, Any],
    left_out: Collection[int] = (),
) -> RecordedSaddle:
    """Symmetric system of laws and readings, unknowns first, then laws, then readings.

    A weight w in [0, 1] of a reading divides its standard deviation and leaves covariances with
    others alone: Y, y and b_Y are multiplied by w, C_rs by w_r w_s; an exact reading gets
    C_rr = 1 - w. Zero removes the reading. C^-1 (y - b_Y - Y d) is then w lambda.

    Parameters
    ----------
    unknowns : their names and bodies.
    laws, readings : rows D d + b_D and Y d + b_Y - y.
    noise : C, in the order of the readings.
    weights : weight of some of the readings, by their number.
    left_out : readings without noise that the other exact rows imply.
    """
    record.include([x for row in (*laws, *readings) for x in row.scalars])
    # lines: exact readings without unknowns have none
    variance = csr_array(noise).diagonal()
    told = [
        r
        for r, row in enumerate(readings)
        if (row.coefficients or variance[r]) and r not in left_out
    ]
    place = {r: k for k, r in enumerate(told)}
    n, n_laws = len(unknowns.body), len(laws)
    lines = SaddleLines(n + n_laws + np.arange(len(told)), np.arange(n), n + np.arange(n_laws))
    given = record.include(list(weights.values()), switched=True)
    weight = dict(zip(weights, given, strict=True))
    # C: exact readings that may be missing, then the covariances of the others
    C: list[tuple[int, int, Ref]] = []
    for r in told:
        if not variance[r] and r in weight:
            (rest,) = record.include([1.0 - weights[r]], switched=True)
            C.append((place[r], place[r], rest))
    covariances = zip(noise.row.tolist(), noise.col.tolist(), noise.data.tolist(), strict=True)
    for r, s, x in covariances:
        if r in place and s in place and s <= r and x:
            value = record.constant(x)
            for k in (r, s) if r != s else ():
                value = record.mul(value, weight.get(k, record.one))
            C.append((place[r], place[s], value))
    # D and b_D; Y and b_Y - y, times the weights
    D, b_D = _recorded(record, laws, [record.one] * n_laws)
    Y, b_Y = _recorded(
        record, [readings[r] for r in told], [weight.get(r, record.one) for r in told]
    )
    # the matrix, both halves, and the right-hand side
    rows: dict[int, Row] = {line: {} for line in range(lines.size)}
    for i, j, ref in zip(*(x.tolist() for x in lines.entries(D, Y, _listed(C))), strict=True):
        if ref:
            rows[i][j] = rows[j][i] = ref
    for line, ref in zip([*lines.laws, *lines.readings], [*b_D, *b_Y], strict=True):
        if ref:
            rows[int(line)][RIGHT] = ref
    own = [row.body for row in (*laws, *(readings[r] for r in told))]
    group = dict(unknowns.body) | dict(enumerate(own, start=n))
    names = (
        *unknowns.names,
        *(f"law {law.name}" for law in laws),
        *(f"reading {readings[r].name}" for r in told),
    )
    avoided = {
        pair
        for line, law in zip(lines.laws.tolist(), laws, strict=True)
        for column in law.not_for
        for pair in ((line, column), (column, line))
    }
    multiplier = dict(zip(told, lines.readings.tolist(), strict=True))
    return RecordedSaddle(rows, names, group, avoided, multiplier, weight)


def _recorded(
    record: Recorder, rows: Sequence[LinearRow], weights: Sequence[Ref]
) -> tuple[Entries, list[Ref]]:
    """Coefficients and constants of rows, each times its weight."""
    entries: list[tuple[int, int, Ref]] = []
    constants: list[Ref] = []
    for k, (row, weight) in enumerate(zip(rows, weights, strict=True)):
        *refs, constant = (record.mul(ref, weight) for ref in record.include(row.scalars))
        entries += [(k, j, ref) for j, ref in zip(row.coefficients, refs, strict=True)]
        constants.append(constant)
    return _listed(entries), constants


def _listed(entries: Sequence[tuple[int, int, Ref]]) -> Entries:
    return Entries(*np.array(entries, dtype=np.intp).reshape(-1, 3).T)


# ---- laws of motion and readings as rows ---------------------------------------------------
#
# The laws of :mod:`dynsys.system.laws` with each joint kept in two stages, its constant
# placement and its motion. The acceleration c_i carried to the joint and the wrench h_i on the
# parent's side of it become unknowns of their own:
#
#     c_i = X_placement a_parent          a_i = X_motion c_i + S_i qdd_i + v_i x S_i qd_i
#     h_i = X_motion^T f_i                balance of the parent:  ... + X_placement^T h_i
#
# Elementary rotations and shifts then cost what they should. Each stage can also be written the
# other way round, f_i = X_motion^-T h_i and c_i = X_motion^-1 (a_i - ...): the same equations,
# but with a constant coefficient on the unknown that the readings leave open.


@final
class StagedUnknowns:
    """Columns of the robot's unknowns, then those of the stages between them.

    ``turned`` are the joints (kind of unknown, body) whose stages are written the other way
    round: kind ``joint_wrench`` or ``acceleration``.
    """

    def __init__(self, layout: UnknownLayout, turned: Collection[tuple[str, int]] = ()) -> None:
        self.layout = layout
        self.turned = frozenset(turned)
        self.body: dict[int, int] = {
            k: block.body for block in layout.blocks for k in block.columns.tolist()
        }
        self.names = [
            f"{block.kind}({block.name})[{k}]"
            for block in layout.blocks
            for k in range(block.size)
        ]
        """Of all columns, in their order."""
        self.carried: dict[int, list[int]] = {}
        """Columns of c_i, by body, for joints in two stages."""
        self.passed_on: dict[int, list[int]] = {}
        """Columns of h_i, likewise."""
        for i, body in enumerate(layout.robot.bodies):
            if body.parent >= 0 and body.joint.nv:
                self.carried[i] = self._six("carried", i)
                self.passed_on[i] = self._six("passed_on", i)

    def _six(self, stage: str, body: int) -> list[int]:
        columns = list(range(len(self.body), len(self.body) + 6))
        self.body |= dict.fromkeys(columns, body)
        joint = self.layout.robot.joint_names[body]
        self.names += [f"{stage}({joint})[{k}]" for k in range(6)]
        return columns

    @property
    def stages(self) -> dict[tuple[str, int], tuple[str, str]]:
        """Stages that can be turned, by body, with the name of the joint in its place."""
        joints = {i: self.layout.robot.joint_names[i] for i in self.carried}
        kinds = ("joint_wrench", "acceleration")
        return {(kind, i): (kind, joint) for kind in kinds for i, joint in joints.items()}

    def columns(self, unknown: UnknownBlock) -> list[int]:
        """Columns of an unknown of any layout of the same robot."""
        columns: list[int] = self.layout.block(unknown.kind, unknown.body).columns.tolist()
        return columns

    def on_parent_side(self, term: Term) -> Array | None:
        """Coefficient on h_i of a term on f_i, if it is a constant there; None if not.

        Sensors that cut the parent see X^T f_i: constant on h_i, and constants are safe pivots.
        """
        i = term.unknown.body
        if term.is_constant or term.unknown.kind != "joint_wrench" or i not in self.passed_on:
            return None
        seen = [
            np.linalg.solve(_motion(kin, q, i).matrix(), _value(term, kin).T).T
            for kin, q in self._states
        ]
        rounding = 1e-14 * float(np.abs(seen).max())
        if float(np.ptp(seen, axis=0).max(initial=0.0)) > rounding:
            return None
        return np.where(np.abs(seen[0]) <= rounding, 0.0, seen[0])

    @cached_property
    def _states(self) -> list[tuple[Kinematics, Array]]:
        """A few random states."""
        robot, rng = self.layout.robot, np.random.default_rng(0)
        positions = [robot.random_configuration(rng, limited=False) for _ in range(3)]
        return [(Kinematics.at(robot, q, np.zeros(robot.nv)), q) for q in positions]


def _value(term: Term, kin: Kinematics) -> ScalarArray:
    """Coefficient (rows, size) with zeros outside the pattern."""
    value = term.at(kin)
    entries: ScalarArray = np.zeros(term.pattern.shape, dtype=value.dtype)
    entries[term.pattern] = value[term.pattern]
    return entries


def _motion(kin: Kinematics, q: ScalarArray, i: int) -> Transform:
    """Transform of the joint's motion alone."""
    return kin.robot.bodies[i].joint.transform(kin.robot.joint_position(i, q))


class _Rows:
    """Rows being collected for one equation: coefficients add up."""

    def __init__(
        self, name: str, body: int, constant: ScalarArray, not_for: Sequence[int] = ()
    ) -> None:
        self._rows = [
            LinearRow(f"{name}[{k}]", body, {}, x, tuple(not_for))
            for k, x in enumerate(constant)
        ]

    def add(self, columns: Sequence[int], matrix: ScalarArray) -> _Rows:
        for row, entries in zip(self._rows, matrix, strict=True):
            for column, x in zip(columns, entries, strict=True):
                if isinstance(x, (int, float, np.floating)) and x == 0:
                    continue
                before = row.coefficients.get(column)
                row.coefficients[column] = x if before is None else before + x
        return self

    def __iter__(self) -> Iterator[LinearRow]:
        return iter(self._rows)


def law_rows(
    unknowns: StagedUnknowns, kin: Kinematics, q: ScalarArray, at: AtParameters | None = None
) -> list[LinearRow]:
    """All laws of the robot, joints in two stages; ``at`` values of parameters, if given."""
    rows: list[LinearRow] = []
    layout = unknowns.layout
    plain = UnknownLayout(layout.robot)  # the balance in I a, net wrenches beside it
    for i in range(layout.robot.n_bodies):
        rows.extend(_acceleration(unknowns, acceleration_law(layout, i), kin, q))
        balance = list(_balance(unknowns, balance_law(plain, i), kin, q))
        torque = (
            equation_rows(unknowns, torque_law(layout, i), kin) if i in layout.driven else []
        )
        net = (
            equation_rows(unknowns, net_wrench_law(layout, i), kin) if layout.net_wrench else []
        )
        if at is not None and i in at.moments:
            M, v = at.moments[i].matrix(), kin.velocity[i]
            columns, nu = (
                unknowns.columns(layout.block("acceleration", i)),
                cross_force(v, M @ v),
            )
            balance[:6] = _restated(balance[:6], columns, M, nu)
            net = _restated(net, columns, M, nu)
        if at is not None and torque:
            freedoms, columns = layout.freedoms[i], unknowns.columns(layout.block("qdd", i))
            friction = kin.friction if at.friction is None else at.friction.torque(kin.qd)
            rotor = np.diag(at.armature[freedoms])
            torque = _restated(torque, columns, rotor, friction[freedoms])
        rows += [*balance, *torque, *net]
    return rows


def _restated(
    rows: Sequence[LinearRow], columns: Sequence[int], M: ScalarArray, constant: ScalarArray
) -> list[LinearRow]:
    """Rows with other coefficients M of some columns, and other constants."""
    found = []
    for row, entries, x in zip(rows, M, constant, strict=False):
        stated = dict(zip(columns, entries, strict=True))
        coefficients = {c: y for c, y in row.coefficients.items() if c not in stated}
        coefficients |= {c: y for c, y in stated.items() if not is_number(y, 0)}
        found.append(replace(row, coefficients=coefficients, constant=x))
    return found


def _acceleration(
    unknowns: StagedUnknowns, law: EquationBlock, kin: Kinematics, q: ScalarArray
) -> Iterator[LinearRow]:
    """- a_i + X_motion c_i + S_i qdd_i + bias = 0, or X_motion^-1 times it;  c_i."""
    i = law.body
    staged = i in unknowns.carried
    parent = [t for t in law.terms if t.unknown.kind == "acceleration" and t.unknown.body != i]
    turned = ("acceleration", i) in unknowns.turned
    left = _motion(kin, q, i).inverse().matrix() if turned else np.eye(6)
    rows = _Rows(law.name, i, left @ law.bias_at(kin))
    for term in law.terms:
        if term not in parent:
            rows.add(unknowns.columns(term.unknown), left @ _value(term, kin))
    for term in parent:
        above = unknowns.columns(term.unknown)
        if not staged:
            rows.add(above, _value(term, kin))
            continue
        motion = np.eye(6) if turned else _motion(kin, q, i).matrix()
        rows.add(unknowns.carried[i], motion)
        stage = _Rows(f"carried({kin.robot.joint_names[i]})", i, np.zeros(6))
        stage.add(unknowns.carried[i], -np.eye(6))
        yield from stage.add(above, kin.robot.bodies[i].placement.matrix())
    yield from rows


def _balance(
    unknowns: StagedUnknowns, law: EquationBlock, kin: Kinematics, q: ScalarArray
) -> Iterator[LinearRow]:
    """I a_i - f_i - f^x_i + sum of X_placement^T h_j over children j + bias = 0;  h_i."""
    i = law.body
    f = unknowns.layout.block("joint_wrench", i).columns.tolist()
    turned = i in unknowns.passed_on and ("joint_wrench", i) in unknowns.turned
    rows = _Rows(law.name, i, law.bias_at(kin), f if turned else ())
    for term in law.terms:
        j = term.unknown.body
        if term.unknown.kind == "joint_wrench" and j != i and j in unknowns.passed_on:
            rows.add(unknowns.passed_on[j], kin.robot.bodies[j].placement.matrix().T)
        else:
            rows.add(unknowns.columns(term.unknown), _value(term, kin))
    yield from rows
    if i in unknowns.passed_on:
        stage = _Rows(f"passed_on({kin.robot.joint_names[i]})", i, np.zeros(6))
        motion = _motion(kin, q, i)
        if turned:
            stage.add(f, -np.eye(6)).add(unknowns.passed_on[i], motion.inverse().matrix().T)
        else:
            stage.add(f, motion.matrix().T).add(unknowns.passed_on[i], -np.eye(6))
        yield from stage


def equation_rows(
    unknowns: StagedUnknowns, block: EquationBlock, kin: Kinematics
) -> list[LinearRow]:
    """Rows of an equation, y not yet subtracted; grouped with its body nearest the root."""
    bodies = [term.unknown.body for term in block.terms]
    rows = _Rows(block.name, min(bodies, default=0), block.bias_at(kin))
    for term in block.terms:
        on_parent = unknowns.on_parent_side(term)
        if on_parent is not None:
            rows.add(unknowns.passed_on[term.unknown.body], on_parent)
        else:
            rows.add(unknowns.columns(term.unknown), _value(term, kin))
    return list(rows)


def open_joints(
    robot: KinematicTree, equations: Sequence[EquationBlock]
) -> frozenset[tuple[str, int]]:
    """Joints ("joint_wrench", i) whose wrench follows from the root's side only.

    Some body beyond has an external wrench that no six rows see, and the first sensor that sees
    all of the wrench sits between here and the root. A matter of cost and of good pivots: the
    equations are the same either way.
    """
    seen: dict[tuple[str, int], int] = {}
    for block in equations:
        for term in block.terms:
            key = (term.unknown.kind, term.unknown.body)
            seen[key] = seen.get(key, 0) + int(term.pattern.any(axis=1).sum())
    bodies = range(robot.n_bodies)
    is_open = [seen.get(("external_wrench", i), 0) < 6 for i in bodies]
    measured = [seen.get(("joint_wrench", i), 0) >= 6 for i in bodies]
    for i in reversed(bodies):
        if robot.parent[i] >= 0 and not measured[i]:
            is_open[robot.parent[i]] |= is_open[i]
    closed_above = list(measured)
    for i in bodies:
        closed_above[i] |= robot.parent[i] >= 0 and closed_above[robot.parent[i]]
    return frozenset(("joint_wrench", i) for i in bodies if is_open[i] and closed_above[i])
