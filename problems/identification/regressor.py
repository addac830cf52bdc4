"""Readings as linear functions of parameters, for any layout, motion known.

    y = R(q, qd, qdd) theta + E(q) x + c(q, qd, qdd)

theta are parameters of bodies and joints (:mod:`dynsys.model.parameters`), x the external
wrenches of the bodies in contact, other at every sample, and c what the motion tells. Every
sensor is a row r d + b on the unknowns d of the laws. The laws, read backwards, turn the row
into one on net wrenches, the only unknowns that hold inertias:

    row r on tau_i   ->   S_j r on the joint wrench f_j of every joint j that tau_i drives,
                          and r times friction, rotor and offset of those joints
    row g on f_i     ->   g on the net wrench of body i, -g on its external wrench,
                          X_j g on f_j of every child j
    row g on I a + v x* I v   =   g W(a, v) theta_i

A row travels down the tree as one motion vector g of six numbers where a recursion up the tree
carries a block of 6 x 10 for every body; g W are 36 multiplications. O(n) vectors a row.
Body regressor W as in Atkeson, An, Hollerbach (1986), about the body's origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.errors import LayoutError, StateError
from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.model.natural import NaturalUnits
from dynsys.model.parameters import (
    BODY_PARAMETERS,
    SMOOTHING,
    Parameter,
    friction_torque,
    inertial_values,
)
from dynsys.model.spatial import Inertia, cross, cross_motion, skew
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import equations_digest
from dynsys.plan.record import SAMPLES, sample_states
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, IntArray, ScalarArray
from sensors.layout import Layout

__all__ = ["MotionRows", "Regressor", "RowBlocks", "body_regressor"]

CHECK_STATES = 3
WHOLE = 1024
"""Numbers of R and E up to which a kernel writes their zeros too; beyond, memory is slower."""
LARGEST = 150_000
"""Numbers of a regressor beyond which straight-line code takes too long to compile."""

OVERFLOW = "the equations overflow float64; check the units of q, qd, qdd and readings"

Rows: TypeAlias = "dict[int, dict[int, Any]]"
"""Coefficient vector by body and by row."""


def body_regressor(a: ScalarArray, v: ScalarArray) -> ScalarArray:
    """W (6, 10) with  I a + v x* I v = W theta,  theta the ten of a body (about its origin).

    Examples
    --------
    >>> inertia = Inertia(2.0, np.array([0.1, 0.0, 0.2]), np.eye(3))
    >>> from dynsys.model.spatial import cross_force
    >>> a, v = np.arange(6.0), np.ones(6)
    >>> wrench = inertia.matrix() @ a + cross_force(v, inertia.matrix() @ v)
    >>> bool(np.allclose(body_regressor(a, v) @ inertial_values(inertia), wrench))
    True
    """
    W: ScalarArray = np.zeros((6, 10), dtype=np.result_type(a, v))
    alpha, omega = a[:3], v[:3]
    d = a[3:] + cross(omega, v[3:])  # classical acceleration of the origin
    W[3:, 0] = d
    turn = skew(omega)
    W[3:, 1:4] = skew(alpha) + turn @ turn
    W[:3, 1:4] = -skew(d)
    for k, (i, j) in enumerate(zip(*np.triu_indices(3), strict=True)):
        unit = np.zeros((3, 3))
        unit[i, j] = unit[j, i] = 1.0
        W[:3, 4 + k] = unit @ alpha + cross(omega, unit @ omega)
    return W


def check_finite(sums: Array, first: int = 0) -> None:
    """StateError names the first of some samples (N, rows) of which a sum is not finite."""
    wrong = np.flatnonzero(~np.isfinite(np.atleast_2d(sums)).all(axis=1))
    if len(wrong):
        raise StateError(f"sample {first + int(wrong[0])}: {OVERFLOW}")


@final
@dataclass(frozen=True, eq=False)
class MotionRows:
    """Rows of a layout at some states, as :class:`Regressor` gives them.

    Attributes
    ----------
    theta : (..., rows, parameters) R of the module.
    contact : (..., rows, size of x) E of the module.
    known : (..., rows) c of the module.
    """

    theta: Array
    contact: Array
    known: Array

    def checked(self) -> MotionRows:
        """These rows; StateError names the state that overflows."""
        check_finite(self.theta.sum(axis=-1) + self.known)
        return self


@final
@dataclass(frozen=True, eq=False)
class RowBlocks:
    """The same at N states, each row of R on its own parameters: a tenth of the numbers.

    Attributes
    ----------
    columns : of each row, the parameters that it depends on.
    theta : of each row, its numbers (N, parameters of the row).
    contact, known : E (N, rows, size of x) and c (N, rows).
    """

    columns: tuple[IntArray, ...]
    theta: tuple[Array, ...]
    contact: Array
    known: Array

    def checked(self, first: int = 0) -> RowBlocks:
        """These rows of samples from ``first`` on; StateError names one that overflows."""
        sums = np.stack([part.sum(axis=1) for part in self.theta], axis=1)
        check_finite(sums + self.known, first)
        return self

    def whole(self, width: int) -> MotionRows:
        """R with its zeros, ``width`` parameters wide."""
        theta = np.zeros((*self.known.shape, width))
        for k, (used, part) in enumerate(zip(self.columns, self.theta, strict=True)):
            theta[:, k, used] = part
        return MotionRows(theta, self.contact, self.known)


@final
@dataclass(frozen=True, eq=False)
class Regressor:
    """R, E and c of a layout at any state.

    Attributes
    ----------
    robot, layout
        all that is not asked for has the value of this robot.
    columns : the parameters, in the order of the columns of R.
    contacts : numbers of the bodies whose external wrench is unknown at every sample, in the
        order of the columns of E, six each; the wrenches of all others are zero.

    Raises
    ------
    LayoutError
        naming a sensor whose reading is not linear in the parameters, or depends on more.
    """

    robot: KinematicTree
    layout: Layout
    columns: tuple[Parameter, ...]
    contacts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_linear(self.layout, {c.body for c in self.columns if not c.of_joint})

    # ---- where numbers are, found once ----------------------------------------------------

    @cached_property
    def _unknowns(self) -> UnknownLayout:
        return UnknownLayout(self.robot, net_wrench=True)

    @cached_property
    def _inertial(self) -> dict[int, tuple[IntArray, IntArray]]:
        """Of each body that has some: its columns, and which of the ten they are."""
        found: dict[int, list[tuple[int, int]]] = {}
        for k, column in enumerate(self.columns):
            if not column.of_joint:
                which = BODY_PARAMETERS.index(column.kind)
                found.setdefault(column.body, []).append((k, which))
        return {
            i: (np.array([k for k, _ in c]), np.array([w for _, w in c]))
            for i, c in found.items()
        }

    @cached_property
    def _pattern(self) -> tuple[IntArray, IntArray]:
        """Places of the nonzeros in R and in E, both flat: by topology, the same at any q."""
        robot = self.robot
        theta, contact, _ = _backwards(self, robot.neutral(), *np.ones((2, robot.nv)))
        width, wide = len(self.columns), 6 * len(self.contacts)
        return (
            np.array(sorted(row * width + k for row, k in theta), dtype=np.intp),
            np.array(sorted(row * wide + k for row, k in contact), dtype=np.intp),
        )

    @cached_property
    def row_columns(self) -> tuple[IntArray, ...]:
        """Of each row, the parameters that it depends on: by topology."""
        row, column = np.divmod(self._pattern[0], max(len(self.columns), 1))
        return tuple(column[row == k] for k in range(self.layout.size))

    def sees_contact(self, row: int) -> bool:
        """Whether a reading depends on the unknown wrench of some contact."""
        width = 6 * len(self.contacts)
        return bool(width and (self._pattern[1] // width == row).any())

    # ---- values ---------------------------------------------------------------------------

    def at(self, q: Array, qd: Array, qdd: Array) -> MotionRows:
        """Rows at one state, by plain arithmetic: the twin of the kernel."""
        return self._filled(*self._flat(q, qd, qdd))

    def one(self, q: Array, qd: Array, qdd: Array) -> MotionRows:
        """Rows at one state, by the kernel."""
        if self._is_large:
            return self.at(q, qd, qdd)
        return self._rows(*self.kernel.one(q, qd, qdd)[0])

    def batch(self, q: Array, qd: Array, qdd: Array) -> MotionRows:
        """Rows at N states (N, ...)."""
        if self._is_large:
            return self.each(q, qd, qdd)
        return self._rows(*self.kernel.batch(q, qd, qdd)[0])

    def each(self, q: Array, qd: Array, qdd: Array) -> MotionRows:
        """Rows at N states, one after the other by plain arithmetic."""
        return self._filled(*self._flat_each(q, qd, qdd))

    def blocks(self, q: Array, qd: Array, qdd: Array, *, plain: bool = False) -> RowBlocks:
        """Rows at N states, each on its own parameters; ``plain`` without a kernel."""
        if plain or self._is_large:
            theta, x, known = self._flat_each(q, qd, qdd)
            whole = False
        else:
            theta, x, known = self.kernel.batch(q, qd, qdd)[0]
            whole = self._whole
        width, parts, start = len(self.columns), [], 0
        for k, used in enumerate(self.row_columns):
            places: slice | IntArray = slice(start, start + len(used))
            start += len(used)
            if whole:
                places = k * width + used
            parts.append(theta[:, places])
        shape = *known.shape, 6 * len(self.contacts)
        contact = x.reshape(shape) if whole else _placed(x, self._pattern[1], shape)
        return RowBlocks(self.row_columns, tuple(parts), contact, known)

    def _flat_each(self, q: Array, qd: Array, qdd: Array) -> tuple[Array, Array, Array]:
        """Nonzeros of R (N, ...), of E, and c, state by state."""
        found = [self._flat(*state) for state in zip(q, qd, qdd, strict=True)]
        theta, x, known = (np.array(part, float) for part in zip(*found, strict=True))
        return theta, x, known

    @property
    def _is_large(self) -> bool:
        return sum(map(len, self._pattern)) > LARGEST

    def _rows(self, theta: Array, contact: Array, known: Array) -> MotionRows:
        """What a kernel wrote, in rows."""
        if not self._whole:
            return self._filled(theta, contact, known)
        shape = known.shape
        return MotionRows(
            theta.reshape(*shape, len(self.columns)),
            contact.reshape(*shape, 6 * len(self.contacts)),
            known,
        )

    def _filled(self, theta: Array, contact: Array, known: Array) -> MotionRows:
        """Rows from their nonzeros."""
        R = _placed(theta, self._pattern[0], (*known.shape, len(self.columns)))
        E = _placed(contact, self._pattern[1], (*known.shape, 6 * len(self.contacts)))
        return MotionRows(R, E, known)

    def _flat(
        self, q: ScalarArray, qd: ScalarArray, qdd: ScalarArray
    ) -> tuple[ScalarArray, ScalarArray, ScalarArray]:
        """Nonzeros of R, of E, and c; scalars of any kind."""
        found, contact, known = _backwards(self, q, qd, qdd)
        theta, x = ([part[key] for key in sorted(part)] for part in (found, contact))
        return np.array(theta), np.array(x), known

    # ---- compiled --------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> bool:
        """Whether the kernel writes R and E whole, zeros too, or their nonzeros only."""
        return self.layout.size * (len(self.columns) + 6 * len(self.contacts)) <= WHOLE

    @cached_property
    def kernel(self) -> Kernel:
        """Kernel from (q, qd, qdd) to R and E, row by row, or their nonzeros, and c."""
        robot, rows = self.robot, self.layout.size
        inputs = (("q", robot.nq), ("qd", robot.nv), ("qdd", robot.nv))
        sizes = [len(places) for places in self._pattern]
        if self._whole:
            sizes = [rows * len(self.columns), rows * 6 * len(self.contacts)]
        outputs = (("theta", sizes[0]), ("contact", sizes[1]), ("known", rows))
        return kernel_from(
            lambda: self._program(sizes),
            Signature(inputs, outputs),
            sample_states(robot, CHECK_STATES, 7, NaturalUnits(robot).motion),
            ("regressor", self._identity, self.columns, self.contacts),
        )

    @property
    def _identity(self) -> tuple[str, str]:
        """Layout and values of its rows."""
        equations = self.layout.equations(self._unknowns)
        return self.layout.fingerprint(), equations_digest(self.robot, equations)

    def _program(self, sizes: Sequence[int]) -> Program:
        robot, graph = self.robot, Graph()
        state = [graph.inputs(n) for n in (robot.nq, robot.nv, robot.nv)]
        *entries, known = self._flat(*state)
        if self._whole:
            whole: list[ScalarArray] = [np.zeros(size, dtype=object) for size in sizes]
            for part, places, found in zip(whole, self._pattern, entries, strict=True):
                part[places] = found
            entries = whole
        outputs = [x for part in (*entries, known) for x in part]
        samples = sample_states(robot, SAMPLES, 0, NaturalUnits(robot).motion)
        program = simplify(graph.program(outputs), samples)
        n_inputs = robot.nq + 2 * robot.nv
        return guarded(program, robot.quaternion_slices, n_finite=n_inputs)


def _placed(found: Array, places: IntArray, shape: tuple[int, ...]) -> Array:
    """Array (..., rows, width) of zeros with ``found`` (..., n) at flat ``places`` (n,).

    Neighbours are copied together: a row holds the parameters of a subtree, in one piece.
    """
    out = np.zeros((*shape[:-2], shape[-2] * shape[-1]))
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for first, last in pairwise(cuts):
        if last > first:
            out[..., places[first] : places[first] + last - first] = found[..., first:last]
    return out.reshape(shape)


Entries: TypeAlias = "dict[tuple[int, int], Any]"
"""Numbers by row and column."""


def _backwards(
    regressor: Regressor, q: ScalarArray, qd: ScalarArray, qdd: ScalarArray
) -> tuple[Entries, Entries, ScalarArray]:
    """Nonzeros of R and of E, and c (rows,): the module's three steps, scalars of any kind."""
    robot, unknowns = regressor.robot, regressor._unknowns
    kin = Kinematics.at(robot, q, qd)
    a = _accelerations(kin, qdd)
    theta: Entries = {}
    contact: Entries = {}
    known: list[Any] = [0.0] * regressor.layout.size
    on: dict[str, Rows] = {
        "torque": {},
        "joint_wrench": {},
        "net_wrench": {},
        "external_wrench": {},
    }
    # every sensor: what motion tells of it, and its rows on the other unknowns
    start = 0
    for block in regressor.layout.equations(unknowns):
        bias = block.bias_at(kin)
        for row in range(block.size):
            known[start + row] = known[start + row] + bias[row]
        for term in block.terms:
            kind, body, M = term.unknown.kind, term.unknown.body, term.at(kin)
            moves = qdd[unknowns.freedoms[body]] if kind == "qdd" else a[body]
            for row in np.flatnonzero(term.pattern.any(axis=1)).tolist():
                if kind in ("qdd", "acceleration"):
                    known[start + row] = known[start + row] + M[row] @ moves
                else:
                    _add(on[kind], body, start + row, M[row])
        start += block.size
    # torques: joint wrenches, friction, rotors
    place = {column: k for k, column in enumerate(regressor.columns)}
    for leader, rows in on["torque"].items():
        for j in unknowns.driven[leader]:
            S = robot.motion_subspace[j]
            losses = _losses(regressor, j, qd[unknowns.freedoms[j]], qdd[unknowns.freedoms[j]])
            for row, r in rows.items():
                _add(on["joint_wrench"], j, row, S @ r)
                for parameter, (per_unit, value) in losses.items():
                    share = r[parameter.freedom] * per_unit
                    if parameter in place:
                        theta[row, place[parameter]] = share
                    elif value:
                        known[row] = known[row] + share * value
    # joint wrenches: net wrenches, external wrenches, joint wrenches of the children
    for i in range(robot.n_bodies):
        for row, g in on["joint_wrench"].get(i, {}).items():
            _add(on["net_wrench"], i, row, g)
            _add(on["external_wrench"], i, row, -g)
            for j in robot.children[i]:
                _add(on["joint_wrench"], j, row, kin.transforms[j].motion(g))
    # net wrenches: the ten of each body
    for i, rows in on["net_wrench"].items():
        v, M = kin.velocity[i], robot.bodies[i].inertia.matrix()
        columns, which = regressor._inertial.get(i, ((), ()))
        W = body_regressor(a[i], v)
        rest = None
        if len(which) < len(BODY_PARAMETERS) and M.any():
            kept = inertial_values(robot.bodies[i].inertia)
            kept[list(which)] = 0.0
            rest = W @ kept
        for row, g in rows.items():
            for k, w in zip(columns, which, strict=True):
                theta[row, int(k)] = g @ W[:, w]
            if rest is not None:
                known[row] = known[row] + g @ rest
    for i, rows in on["external_wrench"].items():
        if i in regressor.contacts:
            at = 6 * regressor.contacts.index(i)
            contact |= {(row, at + k): g[k] for row, g in rows.items() for k in range(6)}
    return theta, contact, np.array(known)


def _add(rows: Rows, body: int, row: int, more: Any) -> None:
    mine = rows.setdefault(body, {})
    mine[row] = mine[row] + more if row in mine else more


def _accelerations(kin: Kinematics, qdd: ScalarArray) -> list[ScalarArray]:
    """Proper accelerations a_i (6,) of all bodies: [NORI] (3a)."""
    robot = kin.robot
    a: list[ScalarArray] = []
    for i, (X, parent, freedoms) in enumerate(
        zip(kin.transforms, robot.parent, robot.v_slices(), strict=True)
    ):
        S = robot.motion_subspace[i]
        joint = S @ qdd[freedoms] + cross_motion(kin.velocity[i], S @ kin.qd[freedoms])
        a.append(X.motion(kin.base_acceleration if parent < 0 else a[parent]) + joint)
    return a


def _losses(
    regressor: Regressor, j: int, qd: ScalarArray, qdd: ScalarArray
) -> dict[Parameter, tuple[Any, float]]:
    """Parameters of joint j: torque at the leader's side by unit of each, and known value.

    A joint that follows another one moves ``ratio`` times as fast and resists by its ratio.
    """
    robot = regressor.robot
    body, smoothing = robot.bodies[j], robot.smoothing or SMOOTHING
    ratio = 1.0 if body.coupling is None else body.coupling.ratio
    asked = set(regressor.columns)
    found: dict[Parameter, tuple[Any, float]] = {}
    for k in range(body.joint.nv):
        v = ratio * qd[k]
        minus = Parameter(j, "coulomb_minus", k)
        apart = minus in asked or body.friction_minus is not None
        units = {"viscous": (1, 0, 0, 0), "coulomb": (0, 1, 0 if apart else 1, 0)}
        units |= {"coulomb_minus": (0, 0, 1, 0)} if apart else {}
        units |= {"offset": (0, 0, 0, 1)}
        for kind, unit in units.items():
            at = Parameter(j, kind, k)
            value = 0.0 if robot.smoothing is None else at.value(robot.bodies)
            found[at] = (ratio * friction_torque(v, *unit, smoothing), value)
        rotor = Parameter(j, "armature", k)
        found[rotor] = (ratio * ratio * qdd[k], rotor.value(robot.bodies))
    return found


# ---- sensors that hold parameters in another way ---------------------------------------------


def _check_linear(layout: Layout, bodies: set[int]) -> None:
    """Refuse sensors whose coefficients change with the inertias that are asked for.

    Their rows are built again for a robot with other inertias, and compared.
    """
    robot = layout.robot
    if not bodies:
        return
    other = _changed(robot, bodies)
    q, qd = robot.random_configuration(3, limited=False), np.linspace(0.5, 1.0, robot.nv)
    states = [Kinematics.at(r, q, qd) for r in (robot, other)]
    for sensor in layout.sensors:
        first, second = (
            [
                np.concatenate(
                    [x.ravel() for x in (*(t.at(kin) for t in block.terms), block.bias_at(kin))]
                )
                for block in sensor.blocks(UnknownLayout(kin.robot, net_wrench=True))
            ]
            for kin in states
        )
        if any(not np.array_equal(x, y) for x, y in zip(first, second, strict=True)):
            raise LayoutError(
                f"{sensor}: its reading holds inertias beside those in the laws of motion and"
                " is no linear function of the parameters; leave it out, identify other bodies"
                " (inertia=[...]), or, at a fixed joint, load the robot with a moving body on"
                " each side"
            )


def _changed(robot: KinematicTree, bodies: set[int]) -> KinematicTree:
    """The robot with other inertias of these bodies and of what is welded to them."""

    def heavier(inertia: Inertia) -> Inertia:
        return Inertia(1.5 * inertia.mass + 1.0, inertia.com + 0.1, 1.5 * inertia.about_com)

    changed = [
        replace(body, inertia=heavier(body.inertia)) if i in bodies else body
        for i, body in enumerate(robot.bodies)
    ]
    welds = {
        name: replace(weld, inertia=heavier(weld.inertia)) if weld.body in bodies else weld
        for name, weld in robot.welds.items()
    }
    return KinematicTree(
        robot.name, changed, robot.frames, robot.gravity, False, welds, robot.smoothing
    )
