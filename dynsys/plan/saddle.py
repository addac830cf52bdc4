"""Constrained weighted least squares as one symmetric system, in unknowns and multipliers.

    minimise  (Y d + b - y)^T R^-1 (Y d + b - y) / 2     with the laws  D d + b_D = 0

    [ 0   D^T  Y^T ] [ d ]     [ 0     ]
    [ D   0    0   ] [ m ]  =  [ -b_D  ]      rows without noise have R = 0: exact
    [ Y   0    -R  ] [ n ]     [ y - b ]

The leading block of the inverse is the posterior covariance of d. A weight w in [0, 1] of a row
divides its standard deviation and leaves covariances with other rows alone: Y, y and b are
multiplied by w, R_rs by w_r w_s; an exact row gets R_rr = 1 - w. Zero removes the row. Its
multiplier R^-1 (Y d + b - y) is then w n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array

from dynsys.errors import KernelBuildError
from dynsys.model.spatial import Transform, cross_force, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import sample_states
from dynsys.plan.saddle_elimination import RIGHT, Recorder, Ref, Row
from dynsys.program.signature import Signature
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import net_wrench_law, torque_law
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout
from dynsys.types import Array, IntArray, ScalarArray

__all__ = [
    "ESTIMATES",
    "OF_ROWS",
    "Covariance",
    "LinearRow",
    "Question",
    "SaddlePoint",
    "Unknowns",
    "equation_rows",
    "law_rows",
    "open_joints",
    "saddle_point",
]


@final
@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """The system, and what its unknowns are.

    Attributes
    ----------
    rows : of the symmetric system, by unknown or multiplier.
    group : body of each.
    avoided : pairs that should be no pivots.
    multiplier : of each measurement, by its number; exact rows without unknowns have none.
    """

    rows: dict[int, Row]
    group: dict[int, int]
    avoided: set[tuple[int, int]]
    multiplier: dict[int, int]


def saddle_point(
    record: Recorder,
    body: Mapping[int, int],
    laws: Sequence[LinearRow],
    measurements: Sequence[LinearRow],
    noise: coo_array[np.float64],
    weights: Mapping[int, Any],
) -> SaddlePoint:
    """Symmetric system of laws and measurements; see the module.

    Parameters
    ----------
    body : group of every column.
    laws, measurements : rows, y already subtracted.
    noise : R, in the order of the measurements.
    weights : weight of some of the measurements, by their number.
    """
    rows: dict[int, Row] = {u: {} for u in body}
    group = dict(body)
    record.include([x for row in (*laws, *measurements) for x in _scalars(row)])
    avoided: set[tuple[int, int]] = set()
    for law in laws:
        m = _add_multiplier(record, rows, group, law, record.one)
        avoided |= {pair for column in law.not_for for pair in ((m, column), (column, m))}
    given = record.include(list(weights.values()), switched=True)
    factor = dict(zip(weights, given, strict=True))
    diagonal = csr_array(noise).diagonal()
    multiplier: dict[int, int] = {}
    for r, row in enumerate(measurements):
        if row.coefficients or diagonal[r]:
            w = factor.get(r, record.one)
            multiplier[r] = _add_multiplier(record, rows, group, row, w)
            if not diagonal[r] and r in factor:
                (rest,) = record.include([weights[r] - 1.0], switched=True)
                _set(rows, multiplier[r], multiplier[r], rest)
    entries = (noise.row.tolist(), noise.col.tolist(), noise.data.tolist())
    for r, s, x in zip(*entries, strict=True):
        if r in multiplier and s in multiplier and s <= r and x:
            value = record.constant(-x)
            if r != s:
                value = record.mul(value, factor.get(r, record.one))
                value = record.mul(value, factor.get(s, record.one))
            _set(rows, multiplier[r], multiplier[s], value)
    return SaddlePoint(rows, group, avoided, multiplier)


def _add_multiplier(
    record: Recorder, rows: dict[int, Row], group: dict[int, int], row: LinearRow, weight: Ref
) -> int:
    """Append a row and, as the symmetric system has it, its column."""
    m = len(rows)
    rows[m], group[m] = {}, row.body
    columns = [*row.coefficients, RIGHT]
    refs = record.include(_scalars(row))
    for column, ref in zip(columns, refs, strict=True):
        if ref:
            _set(rows, m, column, record.mul(ref, weight))
    return m


def _scalars(row: LinearRow) -> list[Any]:
    return [*row.coefficients.values(), row.constant]


def _set(rows: dict[int, Row], u: int, v: int, value: Ref) -> None:
    rows[u][v] = value
    if v != RIGHT:
        rows[v][u] = value


# ----------------------------------------------------------------------
# What is to be estimated, from what: a robot, its measurements, their noise, the outputs.

ESTIMATES: tuple[UnknownKind, ...] = (
    "torque",
    "qdd",
    "acceleration",
    "joint_wrench",
    "external_wrench",
)
OF_ROWS = ("residual", "multiplier")
"""Outputs that say how well the measurements agree, one number per row of y."""
Covariance: TypeAlias = "Array | csc_array[np.float64]"


@final
@dataclass(frozen=True, eq=False)
class Question:
    """See :func:`dynsys.estimation.estimation_kernel` for the meaning of each name."""

    robot: KinematicTree
    equations: tuple[EquationBlock, ...]
    covariance: Covariance
    outputs: tuple[str, ...]
    uncertainty: tuple[str, ...] = ()
    switchable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*self.outputs, *self.uncertainty):
            if name not in (*ESTIMATES, *OF_ROWS):
                known = ", ".join((*ESTIMATES, *OF_ROWS))
                raise KernelBuildError(f"{name!r} is none of {known}")
        if "residual" in self.uncertainty:
            raise KernelBuildError("ask for the uncertainty of 'multiplier', not of 'residual'")
        if not self.outputs and not self.uncertainty:
            raise KernelBuildError("an estimator without outputs: name at least one")
        if self.covariance.shape != (self.n_rows, self.n_rows):
            raise KernelBuildError(
                f"the covariance has shape {self.covariance.shape}, the equations have"
                f" {self.n_rows} rows"
            )
        unknown = set(self.switchable) - {block.name for block in self.equations}
        if unknown:
            raise KernelBuildError(f"switchable: there is no measurement {sorted(unknown)}")

    @cached_property
    def unknowns(self) -> UnknownLayout:
        """Unknowns of the robot; net wrenches only if a measurement names one."""
        kinds = {term.unknown.kind for block in self.equations for term in block.terms}
        return UnknownLayout(self.robot, net_wrench="net_wrench" in kinds)

    @property
    def n_rows(self) -> int:
        """Length of y."""
        return sum(block.size for block in self.equations)

    @cached_property
    def noise(self) -> coo_array[np.float64]:
        """Covariance of the rows; zero where it does not matter, see :attr:`is_square`."""
        if self.is_square and not self.uncertainty and not self.switchable:
            return coo_array((self.n_rows, self.n_rows), dtype=np.float64)
        return coo_array(self.covariance)

    @cached_property
    def is_square(self) -> bool:
        """Whether laws and measurements are as many as the unknowns: noise then cancels."""
        per_body = 18 if self.unknowns.net_wrench else 12
        laws = per_body * self.robot.n_bodies + self.robot.nv
        rows = sum(
            int(np.any([term.pattern.any(axis=1) for term in block.terms], axis=0).sum())
            for block in self.equations
            if block.terms
        )
        return laws + rows == self.unknowns.size

    def columns(self, name: str) -> IntArray:
        """Columns of an output, flattened."""
        return self.unknowns.columns(cast(UnknownKind, name)).ravel()

    def size(self, name: str) -> int:
        """Length of an output, or of its standard deviations."""
        return self.n_rows if name in OF_ROWS else self.columns(name).size

    @cached_property
    def signature(self) -> Signature:
        """Inputs q, qd, y and, if anything is switchable, weight; outputs by name."""
        inputs = [("q", self.robot.nq), ("qd", self.robot.nv), ("y", self.n_rows)]
        if self.switchable:
            inputs.append(("weight", self.n_rows))
        outputs = [(name, self.size(name)) for name in self.outputs]
        outputs += [(f"std_{name}", self.size(name)) for name in self.uncertainty]
        return Signature(tuple(inputs), tuple(outputs))

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs); weights lie between 0 and 1."""
        extra = self.signature.n_inputs - self.robot.nq - self.robot.nv
        states = sample_states(self.robot, count, seed, extra)
        if self.switchable:
            rng = np.random.default_rng(seed + 1)
            states[:, -self.n_rows :] = rng.uniform(0.4, 0.9, (count, self.n_rows))
        return states

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of robot, equations (by their values at random states) and noise."""
        digest = hashlib.sha256(fingerprint_robot(self.robot).digest.encode())
        text = repr((self.outputs, self.uncertainty, self.switchable, self.signature))
        digest.update(text.encode())
        for block in self.equations:
            shape = [(t.unknown.kind, t.unknown.body, t.pattern.shape) for t in block.terms]
            digest.update(repr((block.name, block.size, shape)).encode())
        for state in sample_states(self.robot, 3, 5, 0).astype(np.float64):
            kin = Kinematics.at(self.robot, state[: self.robot.nq], state[self.robot.nq :])
            for block in self.equations:
                for term in block.terms:
                    digest.update(_bytes(term.pattern) + _bytes(term.entries(kin)))
                digest.update(_bytes(block.bias_at(kin)))
        noise = coo_array(self.covariance)
        for part in (noise.row, noise.col, noise.data):
            digest.update(_bytes(part))
        return digest.hexdigest()


def _bytes(values: object) -> bytes:
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()


# ----------------------------------------------------------------------
# Laws of motion and measurements as sparse rows of scalars: numbers or graph nodes.
#
# The rows of [NORI] eq. (3), each joint kept in two stages, its constant placement and its
# motion. The acceleration c_i carried to the joint and the wrench h_i on the parent's side of
# it
# become unknowns of their own:
#
#     c_i = X_placement a_parent          a_i = X_motion c_i + S_i qdd_i + v_i x S_i qd_i
#     h_i = X_motion^T f_i                balance of the parent:  ... + X_placement^T h_i
#
# Elementary rotations and shifts then cost what they should. Each stage can also be written the
# other way round, f_i = X_motion^-T h_i and c_i = X_motion^-1 (a_i - ...): the same equations,
# but with a constant coefficient on the unknown that the measurements leave open.


@final
@dataclass(frozen=True, eq=False)
class LinearRow:
    """sum over columns  coefficient * unknown  +  constant  =  0, at ``body``.

    ``not_for`` are columns that the row should not be solved for: another one defines them.
    """

    body: int
    coefficients: dict[int, Any]
    constant: Any
    not_for: tuple[int, ...] = ()


@final
class Unknowns:
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
        self._next = layout.size
        self.carried: dict[int, list[int]] = {}
        """Columns of c_i, by body, for joints in two stages."""
        self.passed_on: dict[int, list[int]] = {}
        """Columns of h_i, likewise."""
        for i, body in enumerate(layout.robot.bodies):
            if body.parent >= 0 and body.joint.nv:
                self.carried[i], self.passed_on[i] = self._six(i), self._six(i)

    def _six(self, body: int) -> list[int]:
        columns = list(range(self._next, self._next + 6))
        self._next += 6
        self.body |= dict.fromkeys(columns, body)
        return columns

    def block(self, kind: Any, body: int) -> list[int]:
        """Columns of one unknown of the robot."""
        columns: list[int] = self.layout.block(kind, body).columns.tolist()
        return columns

    def columns(self, unknown: UnknownBlock) -> list[int]:
        """Columns of an unknown of any layout of the same robot."""
        return self.block(unknown.kind, unknown.body)

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
        positions = [robot.random_configuration(rng) for _ in range(3)]
        return [(Kinematics.at(robot, q, np.zeros(robot.nv)), q) for q in positions]


def _value(term: Term, kin: Kinematics) -> ScalarArray:
    """Coefficient (rows, size) with zeros outside the pattern."""
    value = term.value(kin) if callable(term.value) else term.value
    entries: ScalarArray = np.zeros(term.pattern.shape, dtype=value.dtype)
    entries[term.pattern] = value[term.pattern]
    return entries


class _Rows:
    """Rows being collected for one law: coefficients add up."""

    def __init__(self, body: int, constant: ScalarArray, not_for: Sequence[int] = ()) -> None:
        self._rows = [LinearRow(body, {}, x, tuple(not_for)) for x in constant]

    def add(self, columns: Sequence[int], matrix: ScalarArray) -> None:
        for row, entries in zip(self._rows, matrix, strict=True):
            for column, x in zip(columns, entries, strict=True):
                if isinstance(x, (int, float, np.floating)) and x == 0:
                    continue
                before = row.coefficients.get(column)
                row.coefficients[column] = x if before is None else before + x

    def __iter__(self) -> Iterator[LinearRow]:
        return iter(self._rows)


def law_rows(unknowns: Unknowns, kin: Kinematics, q: ScalarArray) -> list[LinearRow]:
    """All laws of the robot, in the module's stages."""
    rows: list[LinearRow] = []
    layout = unknowns.layout
    for i in range(layout.robot.n_bodies):
        rows.extend(_acceleration(unknowns, kin, q, i))
        rows.extend(_balance(unknowns, kin, q, i))
        laws = [torque_law(layout, i)] if i in layout.driven else []
        if layout.net_wrench:
            laws.append(net_wrench_law(layout, i))
        for law in laws:
            rows.extend(equation_rows(unknowns, law, kin))
    return rows


def _acceleration(
    unknowns: Unknowns, kin: Kinematics, q: ScalarArray, i: int
) -> Iterator[LinearRow]:
    robot = kin.robot
    parent, S = int(robot.parent[i]), robot.motion_subspace[i]
    bias: ScalarArray = np.zeros(6)
    if S.shape[1]:
        bias = cross_motion(kin.velocity[i], S @ kin.qd[unknowns.layout.freedoms[i]])
    if parent < 0:
        bias = bias + kin.transforms[i].motion(kin.base_acceleration)
    own = np.eye(6)
    if ("acceleration", i) in unknowns.turned:
        own = _motion(kin, q, i).inverse().matrix()
    law = _Rows(i, own @ bias)
    law.add(unknowns.block("acceleration", i), -own)
    if S.shape[1]:
        law.add(unknowns.block("qdd", i), own @ S)
    if i in unknowns.carried:
        turned = ("acceleration", i) in unknowns.turned
        law.add(unknowns.carried[i], np.eye(6) if turned else _motion(kin, q, i).matrix())
        stage = _Rows(i, np.zeros(6))
        stage.add(unknowns.carried[i], -np.eye(6))
        placement = robot.bodies[i].placement.matrix()
        stage.add(unknowns.block("acceleration", parent), placement)
        yield from stage
    elif parent >= 0:
        law.add(unknowns.block("acceleration", parent), kin.X_up[i])
    yield from law


def _balance(
    unknowns: Unknowns, kin: Kinematics, q: ScalarArray, i: int
) -> Iterator[LinearRow]:
    robot = kin.robot
    inertia = robot.bodies[i].inertia.matrix()
    f = unknowns.block("joint_wrench", i)
    turned = i in unknowns.passed_on and ("joint_wrench", i) in unknowns.turned
    gyroscopic = cross_force(kin.velocity[i], inertia @ kin.velocity[i])
    law = _Rows(i, gyroscopic, f if turned else ())
    law.add(unknowns.block("acceleration", i), inertia)
    law.add(f, -np.eye(6))
    law.add(unknowns.block("external_wrench", i), -np.eye(6))
    for j in robot.children[i]:
        if j in unknowns.passed_on:
            law.add(unknowns.passed_on[j], robot.bodies[j].placement.matrix().T)
        else:
            law.add(unknowns.block("joint_wrench", j), kin.X_up[j].T)
    yield from law
    if i in unknowns.passed_on:
        stage = _Rows(i, np.zeros(6))
        motion = _motion(kin, q, i)
        if turned:
            stage.add(f, -np.eye(6))
            stage.add(unknowns.passed_on[i], motion.inverse().matrix().T)
        else:
            stage.add(f, motion.matrix().T)
            stage.add(unknowns.passed_on[i], -np.eye(6))
        yield from stage


def _motion(kin: Kinematics, q: ScalarArray, i: int) -> Transform:
    """Transform of the joint's motion alone."""
    return kin.robot.bodies[i].joint.transform(kin.robot.joint_position(i, q))


def equation_rows(unknowns: Unknowns, block: EquationBlock, kin: Kinematics) -> list[LinearRow]:
    """Rows of an equation, y not yet subtracted; grouped with its body nearest the root."""
    bodies = [term.unknown.body for term in block.terms]
    rows = _Rows(min(bodies, default=0), block.bias_at(kin))
    for term in block.terms:
        on_parent = unknowns.on_parent_side(term)
        if on_parent is not None:
            rows.add(unknowns.passed_on[term.unknown.body], on_parent)
            continue
        rows.add(unknowns.columns(term.unknown), _value(term, kin))
    return list(rows)


# ----------------------------------------------------------------------
# Which way wrenches are found: from the leaves or, beyond unknown contacts, from the root.


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
