"""What a layout states exactly, and the motion nearest to a given one that meets it.

External wrenches, and accelerations where wrenches alone cannot, are moved by the least amount
after which every statement holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dynsys.errors import KernelBuildError, LayoutError
from dynsys.kernel.build import kernel_from
from dynsys.kernel.estimators import estimation_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import SAMPLES, body_quantities, sample_states, symmetric_dynamics
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import EquationBlock, Kinematics, Term, Values
from dynsys.system.laws import known_inputs
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from sensors import Layout

__all__ = [
    "ExactStatements",
    "NearestMotion",
    "TrueReadings",
]

FORCE, MOMENT, ACCELERATION = 100.0, 10.0, 1.0
"""Sizes (N, N m, rad/s^2) in which the least change is measured."""

UNMET = 1e-9
"""Exact statements that miss by more than this part of their terms cannot be met."""

PROBES = 8
"""Random states at which it is tried whether wrenches alone can meet the statements."""


@final
@dataclass(frozen=True, eq=False)
class ExactStatements:
    """Rows without noise whose value is known, of a layout and its readings."""

    layout: Layout
    readings: TrueReadings

    @property
    def _robot(self) -> KinematicTree:
        return self.layout.robot

    # ---- which they are ------------------------------------------------------------------

    @cached_property
    def _exact_rows(self) -> list[tuple[int, list[Any], bool]]:
        """Exact rows with a known value: number, terms, whether a bias comes with it."""
        rows: list[tuple[int, list[Any], bool]] = []
        for block in self.layout.equations(self.readings.unknowns):
            place = self.layout.slice(block.name)
            for k in range(block.size):
                row = place.start + k
                if self.layout.exact[row] and np.isfinite(self.layout.constants[row]):
                    terms = [
                        (term.unknown, k, term) for term in block.terms if term.pattern[k].any()
                    ]
                    rows.append((row, terms, block.bias is not None))
        return rows

    @cached_property
    def _pins(self) -> Array:
        """Known value (6 n_bodies,) of each component of the external wrenches, else NaN."""
        pins = np.full(6 * self._robot.n_bodies, np.nan)
        for row, terms, biased in self._exact_rows:
            if len(terms) != 1 or biased:
                continue
            unknown, k, term = terms[0]
            places = np.flatnonzero(term.pattern[k])
            if unknown.kind == "external_wrench" and term.is_constant and len(places) == 1:
                column = 6 * unknown.body + int(places[0])
                pins[column] = self.layout.constants[row] / term.value[k, places[0]]
        return pins

    @cached_property
    def _pinned(self) -> BoolArray:
        return np.isfinite(self._pins)

    @cached_property
    def _open(self) -> IntArray:
        """Exact rows that the pins do not settle."""
        pinned, open_rows = self._pinned, []
        for row, terms, _ in self._exact_rows:
            settled = terms and all(
                unknown.kind == "external_wrench"
                and pinned[6 * unknown.body + np.flatnonzero(term.pattern[k])].all()
                for unknown, k, term in terms
            )
            if terms and not settled:
                open_rows.append(row)
        return np.array(open_rows, dtype=np.intp)

    @cached_property
    def _about_motion(self) -> bool:
        """Whether statements are about motion, which wrenches alone cannot change."""
        rows = set(self._open.tolist())
        return any(
            unknown.kind in ("acceleration", "qdd")
            for row, terms, _ in self._exact_rows
            if row in rows
            for unknown, _, _ in terms
        )

    # ---- meeting them --------------------------------------------------------------------

    def meet(self, q: Array, qd: Array, qdd: Array, f: Array) -> tuple[Array, Array]:
        """Accelerations (N, nv) and wrenches (N, 6 n_bodies) nearest to those given.

        Raises
        ------
        LayoutError
            if no change of wrenches and accelerations meets a statement, naming it.
        """
        f[:, self._pinned] = self._pins[self._pinned]
        if not len(self._open):
            return qdd, f
        near = self._nearest.at(q, qd, qdd, f)
        if near is None:
            return self._meet_by_steps(q, qd, qdd, f)
        miss = self._misses(q, qd, np.hstack([near[1], near[0]]))
        size = _size(np.hstack(near))
        slow = ~(np.abs(miss).max(axis=1) <= UNMET * size)  # also where the answer is NaN
        if slow.any():
            near[0][slow], near[1][slow] = self._meet_by_steps(
                q[slow], qd[slow], qdd[slow], f[slow]
            )
        return near

    @cached_property
    def _sizes(self) -> Array:
        """Natural size of a change of (f, qdd)."""
        n = 6 * self._robot.n_bodies
        sizes = np.full(n + self._robot.nv, ACCELERATION)
        sizes[:n] = np.where(np.arange(n) % 6 < 3, MOMENT, FORCE)
        return sizes

    @cached_property
    def _nearest(self) -> NearestMotion:
        n = len(self._pins)
        movable = np.where(self._pinned, 0.0, self._sizes[:n])
        qdd_sizes = self._sizes[n:] * (not self._wrenches_suffice)
        return NearestMotion(self.layout, self._open, movable, qdd_sizes)

    @cached_property
    def _wrenches_suffice(self) -> bool:
        """Whether wrenches alone can meet the statements at random states."""
        if self._about_motion:
            return False
        robot = self._robot
        rng = np.random.default_rng(0)
        q = np.array([robot.random_configuration(rng) for _ in range(PROBES)])
        qd = np.zeros((PROBES, robot.nv))
        x = np.zeros((PROBES, len(self._sizes)))
        x[:, np.flatnonzero(self._pinned)] = self._pins[self._pinned]
        return not self._unmet(q, qd, self._by_wrenches(q, qd, x)).any()

    def _misses(self, q: Array, qd: Array, x: Array) -> Array:
        """By how much x = (f, qdd) misses the statements (N, m); affine in x."""
        n = len(self._pins)
        y = self.readings.at(q, qd, x[:, n:], x[:, :n])[1]
        return np.asarray(self.layout.constants[self._open] - y[:, self._open])

    def _unmet(self, q: Array, qd: Array, x: Array) -> BoolArray:
        return np.asarray(np.abs(self._misses(q, qd, x)).max(axis=1) > UNMET * _size(x))

    def _by_wrenches(self, q: Array, qd: Array, x: Array) -> Array:
        free = np.flatnonzero(~self._pinned)
        return _closest(x, free, self._sizes, lambda x: self._misses(q, qd, x))

    def _meet_by_steps(self, q: Array, qd: Array, qdd: Array, f: Array) -> tuple[Array, Array]:
        """Least change of wrenches, and of qdd where need be, after which the statements hold.

        y is affine in (f, qdd): its columns are found by unit steps.
        """
        n = f.shape[1]
        x = np.hstack([f, qdd])
        if not self._about_motion:
            x = self._by_wrenches(q, qd, x)
        unmet = self._unmet(q, qd, x)
        if unmet.any():
            free = np.flatnonzero(~self._pinned)
            movable = np.concatenate([free, np.arange(n, x.shape[1])])
            some = (q[unmet], qd[unmet])
            x[unmet] = _closest(
                x[unmet], movable, self._sizes, lambda x: self._misses(*some, x)
            )
            self._check_met(self._misses(*some, x[unmet]), x[unmet])
        return x[:, n:].copy(), x[:, :n].copy()

    def _check_met(self, miss: Array, x: Array) -> None:
        wrong = np.abs(miss) > UNMET * _size(x)[:, None]
        if wrong.any():
            label = self.layout.labels[self._open[np.argwhere(wrong)[0, 1]]]
            raise LayoutError(
                f"simulate: no motion near this trajectory meets {label!r} exactly (it misses"
                f" by {np.abs(miss).max():.3g}); let more bodies be touched, or give a"
                " trajectory that meets it"
            )


def _size(x: Array) -> Array:
    return np.asarray(FORCE + np.abs(x).max(axis=1))


def _closest(
    x: Array, columns: IntArray, sizes: Array, misses: Callable[[Array], Array]
) -> Array:
    """Change of some columns of x (N, k), least in units of ``sizes``, that ends all misses.

    Misses (N, m) are affine in x.
    """
    at = misses(x)
    slopes = []
    for column in columns.tolist():
        stepped = x.copy()
        stepped[:, column] += sizes[column]
        slopes.append(at - misses(stepped))
    if not slopes:
        return x
    inverse = np.linalg.pinv(np.stack(slopes, axis=2), rcond=1e-10)
    for _ in range(2):  # the second time for the rounding of the first
        x = x.copy()
        x[:, columns] += np.einsum("nkm,nm->nk", inverse, at) * sizes[columns]
        at = misses(x)
    return x


# ----------------------------------------------------------------------
# Nearest motion and wrenches that meet exact statements, as machine code.
#
#     minimise  |(qdd - qdd_0) / size|^2 + |(f - f_0) / size|^2
#     subject to the laws, the statements  Y d + b = y, and components of f that are known
#
# This is an estimator whose measurements are qdd_0 and f_0 with the sizes as noise: one
# elimination in tree order, where the general way needs a pseudo-inverse per state.


@final
@dataclass(frozen=True, eq=False)
class NearestMotion:
    """See the module.

    Parameters
    ----------
    layout : the sensors; some of their rows are the statements.
    statements : numbers of those rows.
    wrench_sizes : (6 n_bodies,) natural size of a change; zero where a component is known.
    qdd_sizes : (nv,) likewise.
    """

    layout: Layout
    statements: IntArray
    wrench_sizes: Array
    qdd_sizes: Array

    @cached_property
    def _unknowns(self) -> UnknownLayout:
        return UnknownLayout(self.layout.robot, net_wrench=True)

    @cached_property
    def _given(self) -> tuple[EquationBlock, ...]:
        """Every wrench and every joint acceleration, body by body."""
        return known_inputs(self._unknowns, range(self.layout.robot.n_bodies))

    def _inputs(self, wrenches: Array, qdd: Array) -> Array:
        """Given quantities (..., rows) from wrenches (..., 6 n_bodies) and qdd (..., nv)."""
        parts = [
            qdd[..., self._unknowns.freedoms[block.body]]
            if block.kind == "known_qdd"
            else wrenches[..., 6 * block.body : 6 * block.body + 6]
            for block in self._given
        ]
        return np.concatenate(parts, axis=-1)

    @cached_property
    def _stated(self) -> tuple[EquationBlock, ...]:
        """The equations of the sensors, their statements alone."""
        found: list[EquationBlock] = []
        for block in self.layout.equations(self._unknowns):
            place = self.layout.slice(block.name)
            inside = (self.statements >= place.start) & (self.statements < place.stop)
            if inside.any():
                found.append(_some_rows(block, self.statements[inside] - place.start))
        return tuple(found)

    @cached_property
    def kernel(self) -> Kernel | None:
        """Machine code, None where pivots that are safe at every state do not exist."""
        sizes = self._inputs(self.wrench_sizes, self.qdd_sizes)
        noise = np.concatenate([sizes**2, np.zeros(len(self.statements))])
        try:
            return estimation_kernel(
                self.layout.robot,
                (*self._given, *self._stated),
                np.diag(noise),
                ("qdd", "external_wrench"),
            )
        except KernelBuildError:
            return None

    def at(self, q: Array, qd: Array, qdd: Array, f: Array) -> tuple[Array, Array] | None:
        """Accelerations (N, nv) and wrenches (N, 6 n_bodies); NaN where there is no answer."""
        if self.kernel is None:
            return None
        stated = np.broadcast_to(
            self.layout.constants[self.statements], (len(q), len(self.statements))
        )
        y = np.hstack([self._inputs(f, qdd), stated])
        (near_qdd, near_f), _ = self.kernel.batch(q, qd, y)
        return near_qdd, near_f


def _some_rows(block: EquationBlock, rows: IntArray) -> EquationBlock:
    def of(values: Array | Values) -> Array | Values:
        if callable(values):
            return lambda kinematics: values(kinematics)[rows]
        return values[rows]

    return EquationBlock(
        name=block.name,
        kind=block.kind,
        body=block.body,
        size=len(rows),
        terms=tuple(Term(t.unknown, t.pattern[rows], of(t.value)) for t in block.terms),
        bias=None if block.bias is None else lambda kin: block.bias_at(kin)[rows],
        measured=True,
    )


# ----------------------------------------------------------------------
# Readings without noise: y = Y(q) d + b_Y(q, qd) for given motion and external wrenches.
#
# One compiled program from (q, qd, qdd, f^x) to y: inverse dynamics gives the unknowns d, the
# equations of the layout the rows.


@final
@dataclass(frozen=True, eq=False)
class TrueReadings:
    """What the sensors of a layout would read without noise, and the torques."""

    layout: Layout

    @property
    def robot(self) -> KinematicTree:
        """The robot of the layout."""
        return self.layout.robot

    @cached_property
    def unknowns(self) -> UnknownLayout:
        return UnknownLayout(self.robot, net_wrench=True)

    @cached_property
    def _signature(self) -> Signature:
        n, nv = self.robot.n_bodies, self.robot.nv
        inputs = (("q", self.robot.nq), ("qd", nv), ("qdd", nv), ("f_ext", 6 * n))
        outputs = (("torque", nv), ("y", self.layout.size))
        return Signature(inputs, outputs)

    def _program(self) -> Program:
        robot, graph = self.robot, Graph()
        q, qd, qdd = (graph.inputs(size) for size in (robot.nq, robot.nv, robot.nv))
        f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6)
        known = np.ones(robot.nv, dtype=bool)
        torque = symmetric_dynamics(reframe(robot), q, qd, qdd, known, f_ext)[1]
        y = self._rows(q, qd, qdd, f_ext, torque)
        extra = self._signature.n_inputs - robot.nq - robot.nv
        samples = sample_states(robot, SAMPLES, 0, extra)
        return simplify(graph.program([*torque, *y]), samples)

    def _rows(
        self,
        q: ScalarArray,
        qd: ScalarArray,
        qdd: ScalarArray,
        f_ext: ScalarArray,
        torque: ScalarArray,
    ) -> ScalarArray:
        """Y d + b (rows,) on scalars of any kind."""
        robot = self.robot
        kinematics = Kinematics.at(robot, q, qd)
        parts = body_quantities(robot, q, qd, qdd, f_ext)
        joint_wrench, acceleration = parts["joint_wrench"], parts["acceleration"]
        values = {
            "acceleration": acceleration,
            "joint_wrench": joint_wrench,
            "external_wrench": f_ext,
        }
        freedoms = self.unknowns.freedoms
        rows: list[ScalarArray] = []
        for block in self.layout.equations(self.unknowns):
            total = block.bias_at(kinematics)
            for term in block.terms:
                kind, body = term.unknown.kind, term.unknown.body
                if kind in ("torque", "qdd"):
                    d = (torque if kind == "torque" else qdd)[freedoms[body]]
                elif kind == "net_wrench":
                    d = joint_wrench[body] + f_ext[body]
                    for child in robot.children[body]:
                        d = d - kinematics.transforms[child].force_back(joint_wrench[child])
                else:
                    d = values[kind][body]
                coefficient = term.value(kinematics) if callable(term.value) else term.value
                total = total + np.where(term.pattern, coefficient, 0.0) @ d
            rows.append(total)
        return np.concatenate([np.zeros(0), *rows])

    @cached_property
    def kernel(self) -> Kernel:
        """Machine code, from the cache where it is there."""
        extra = self._signature.n_inputs - self.robot.nq - self.robot.nv
        states = sample_states(self.robot, 3, 7, extra)
        question = ("readings", self.layout.fingerprint())
        return kernel_from(self._program, self._signature, states, question)

    def at(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (N, nv) and y (N, rows) of N states; f_ext (N, n_bodies, 6), body frames."""
        wrenches = np.ascontiguousarray(f_ext.reshape(len(q), -1))
        (torque, y), _ = self.kernel.batch(q, qd, qdd, wrenches)
        return torque, y

    def reference(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (nv,) and y (rows,) of one state by plain evaluation, for comparison."""
        torque = rnea(self.robot, q, qd, qdd, f_ext)
        return torque, np.asarray(self._rows(q, qd, qdd, f_ext, torque), dtype=np.float64)
