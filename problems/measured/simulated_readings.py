"""Readings of a given motion: what sensors would read without noise, y = Y(q) d + b_Y(q, qd).

One compiled program goes from (q, qd, qdd, f^x) to y: inverse dynamics gives the unknowns d,
the equations of the layout the rows. Rows whose value is known (a foot that does not move, a
wrench that is zero) restrict which motions are possible: :class:`NearestMotion` moves external
wrenches, and accelerations where wrenches alone cannot, by the least amount after which every
such row holds: exactly, or as well as the others let it where the row has noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError, LayoutError
from dynsys.kernel.build import estimation_kernel, kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.model.natural import NaturalUnits
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import EstimatorSpec, equations_digest
from dynsys.plan.record import SAMPLES, body_quantities, sample_states, symmetric_dynamics
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import known_inputs
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from sensors import Layout

__all__ = ["NearestMotion", "TrueReadings"]


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
        """Unknowns that the equations of the layout are on."""
        return UnknownLayout(self.robot, net_wrench=True)

    @cached_property
    def equations(self) -> tuple[EquationBlock, ...]:
        """Equations of the sensors."""
        return self.layout.equations(self.unknowns)

    def _states(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs)."""
        natural = NaturalUnits(self.robot)
        wrenches = np.tile(natural.wrench, self.robot.n_bodies)
        extra = np.concatenate([natural.motion, wrenches])
        return sample_states(self.robot, count, seed, extra)

    def _program(self) -> Program:
        robot, graph = self.robot, Graph()
        q, qd, qdd = (graph.inputs(size) for size in (robot.nq, robot.nv, robot.nv))
        f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6)
        known = np.ones(robot.nv, dtype=bool)
        torque = symmetric_dynamics(reframe(robot), q, qd, qdd, known, f_ext)[1]
        y = self._rows(q, qd, qdd, f_ext, torque)
        return simplify(graph.program([*torque, *y]), self._states(SAMPLES, 0))

    def _rows(
        self,
        q: ScalarArray,
        qd: ScalarArray,
        qdd: ScalarArray,
        f_ext: ScalarArray,
        torque: ScalarArray,
    ) -> ScalarArray:
        """Y d + b (rows,) on scalars of any kind.

        d by the recursion of :func:`body_quantities`, not by the equations of the laws: it
        takes fewer operations.
        """
        robot = self.robot
        kinematics = Kinematics.at(robot, q, qd)
        parts = body_quantities(robot, q, qd, qdd, f_ext)
        joint_wrench = parts["joint_wrench"]
        values = {**parts, "external_wrench": f_ext}
        freedoms = self.unknowns.freedoms
        rows: list[ScalarArray] = []
        for block in self.equations:
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
                total = total + np.where(term.pattern, term.at(kinematics), 0.0) @ d
            rows.append(total)
        return np.concatenate([np.zeros(0), *rows])

    @cached_property
    def kernel(self) -> Kernel:
        """Machine code, from the cache where it is there."""
        n, nv = self.robot.n_bodies, self.robot.nv
        inputs = (("q", self.robot.nq), ("qd", nv), ("qdd", nv), ("f_ext", 6 * n))
        signature = Signature(inputs, (("torque", nv), ("y", self.layout.size)))
        rows = equations_digest(self.robot, self.equations)
        key = ("readings", self.layout.fingerprint(), rows)
        return kernel_from(self._program, signature, self._states(3, 7), key)

    def at(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (N, nv) and y (N, rows) of N states; f_ext (N, n_bodies, 6), body frames."""
        wrenches = np.ascontiguousarray(f_ext.reshape(len(q), -1))
        (torque, y), _ = self.kernel.batch(q, qd, qdd, wrenches)
        return torque, y

    def reference(self, q: Array, qd: Array, qdd: Array, f_ext: Array) -> tuple[Array, Array]:
        """Torque (nv,) and y (rows,) of one state by plain evaluation, for comparison."""
        torque = rnea(self.robot, q, qd, qdd, f_ext)
        return torque, np.asarray(self._rows(q, qd, qdd, f_ext, torque), dtype=np.float64)


# ---- the nearest motion that meets what is stated --------------------------------------------

FORCE, MOMENT, ACCELERATION = 100.0, 10.0, 1.0
"""Sizes (N, N m, rad/s^2) in which the least change is measured."""

UNMET = 1e-9
"""Exact rows that miss by more than this part of their terms cannot be met."""

FAR = 8.0
"""Deviations by which a row with noise may miss where others contradict it."""

PROBES = 8
"""Random states at which it is tried whether wrenches alone can meet the rows."""


@final
@dataclass(frozen=True, eq=False)
class NearestMotion:
    """Least change of wrenches and accelerations after which rows of known value hold.

        minimise  |(qdd - qdd_0) / size|^2 + |(f - f_0) / size|^2
        subject to the laws, the rows  Y d + b = y, and components of f that are known

    This is an estimator whose measurements are qdd_0 and f_0 with the sizes as noise: one
    elimination in tree order as machine code. Where it has no safe pivots, or fails, the slopes
    of y are found by unit steps and a pseudo-inverse takes over: there, rows with noise that
    others contradict share the error by their noise. Inside, x = (f, qdd).
    """

    readings: TrueReadings

    @property
    def _layout(self) -> Layout:
        return self.readings.layout

    # ---- which rows ----------------------------------------------------------------------

    @cached_property
    def _known_rows(self) -> list[tuple[int, int, list[tuple[Term, IntArray]], bool]]:
        """Rows of known value.

        Number, that within their sensor, terms with their columns, whether there is a bias.
        """
        rows = []
        for block in self.readings.equations:
            start = self._layout.slice(block.name).start
            for k in range(block.size):
                row = start + k
                if np.isfinite(self._layout.constants[row]):
                    terms = [(t, np.flatnonzero(t.pattern[k])) for t in block.terms]
                    touched = [(t, columns) for t, columns in terms if len(columns)]
                    rows.append((row, k, touched, block.bias is not None))
        return rows

    @cached_property
    def _pins(self) -> tuple[IntArray, Array]:
        """Row (6 n_bodies,) that alone knows a component of the external wrenches, else -1.

        And the component's coefficient in it. A row with noise pins what no other row knows.
        """
        size = 6 * self.readings.robot.n_bodies
        rows, coefficients, knowing = np.full(size, -1), np.ones(size), np.zeros(size, int)
        for _, _, terms, _ in self._known_rows:
            for term, columns in terms:
                if term.unknown.kind == "external_wrench":
                    knowing[6 * term.unknown.body + columns] += 1
        for row, k, terms, biased in self._known_rows:
            if len(terms) != 1 or biased:
                continue
            term, columns = terms[0]
            is_wrench = term.unknown.kind == "external_wrench"
            if is_wrench and not callable(term.value) and len(columns) == 1:
                at = 6 * term.unknown.body + int(columns[0])
                if self._layout.exact[row] or knowing[at] == 1:
                    rows[at], coefficients[at] = row, term.value[k, columns[0]]
        return rows, coefficients

    @cached_property
    def _pinned(self) -> BoolArray:
        return self._pins[0] >= 0

    @cached_property
    def _open(self) -> IntArray:
        """Rows that the pins do not settle."""

        def settled(term: Term, columns: IntArray) -> bool:
            is_wrench = term.unknown.kind == "external_wrench"
            return is_wrench and bool(self._pinned[6 * term.unknown.body + columns].all())

        rows = [row for row, _, ts, _ in self._known_rows if not all(settled(*t) for t in ts)]
        return np.array(rows, dtype=np.intp)

    @cached_property
    def _open_std(self) -> Array:
        """Standard deviation of the open rows; zero: they hold exactly."""
        return np.asarray(self._layout.std[self._open])

    @cached_property
    def _about_motion(self) -> bool:
        """Whether some row is about motion, which wrenches alone cannot change."""
        return any(
            term.unknown.kind in ("acceleration", "qdd")
            for row, _, terms, _ in self._known_rows
            if row in self._open
            for term, _ in terms
        )

    @cached_property
    def _open_equations(self) -> tuple[EquationBlock, ...]:
        """The equations of the sensors, their open rows alone."""
        found: list[EquationBlock] = []
        for block in self.readings.equations:
            place = self._layout.slice(block.name)
            inside = self._open[(self._open >= place.start) & (self._open < place.stop)]
            if len(inside):
                found.append(replace(block.part(inside - place.start), dual=None))
        return tuple(found)

    # ---- meeting them --------------------------------------------------------------------

    def meet(self, q: Array, qd: Array, qdd: Array, f: Array, y: Array) -> tuple[Array, Array]:
        """Accelerations (N, nv) and wrenches (N, 6 n_bodies) nearest to those given.

        ``y`` (N, rows) are the values that the rows shall have; those of unknown value do not
        count.

        Raises
        ------
        LayoutError
            if no change of wrenches and accelerations meets an exact row, naming it.
        """
        rows, coefficients = (part[self._pinned] for part in self._pins)
        f[:, self._pinned] = y[:, rows] / coefficients
        if not len(self._open):
            return qdd, f
        x, n, stated = np.hstack([f, qdd]), f.shape[1], y[:, self._open]
        near = np.full_like(x, np.nan)
        if self._kernel is not None:
            (qdd_near, f_near), _ = self._kernel.batch(
                q, qd, np.hstack([self._inputs(x), stated])
            )
            near = np.hstack([f_near, qdd_near])
        slow = self._unmet(q, qd, near, stated)
        if slow.any():
            near[slow] = self._meet_by_steps(q[slow], qd[slow], x[slow], stated[slow])
        return near[:, n:].copy(), near[:, :n].copy()

    @cached_property
    def _sizes(self) -> Array:
        """Natural size of a change of x."""
        n = len(self._pinned)
        sizes = np.full(n + self.readings.robot.nv, ACCELERATION)
        sizes[:n] = np.where(np.arange(n) % 6 < 3, MOMENT, FORCE)
        return sizes

    @cached_property
    def _given(self) -> tuple[EquationBlock, ...]:
        """Every wrench and every joint acceleration, body by body."""
        bodies = range(self.readings.robot.n_bodies)
        return tuple(known_inputs(self.readings.unknowns, bodies))

    def _inputs(self, x: Array) -> Array:
        """Given quantities (..., rows), in the order of their equations, from x."""
        n, freedoms = len(self._pinned), self.readings.unknowns.freedoms
        parts = [
            x[..., n:][..., freedoms[block.body]]
            if block.kind == "known_qdd"
            else x[..., 6 * block.body : 6 * block.body + 6]
            for block in self._given
        ]
        return np.concatenate(parts, axis=-1)

    @cached_property
    def _kernel(self) -> Kernel | None:
        """Machine code, None where pivots that are safe at every state do not exist."""
        n, sizes = len(self._pinned), self._sizes.copy()
        sizes[:n][self._pinned] = 0.0
        sizes[n:] *= not self._wrenches_suffice
        noise = np.concatenate([self._inputs(sizes) ** 2, np.zeros(len(self._open))])
        equations = (*self._given, *self._open_equations)
        outputs = ("qdd", "external_wrench")
        spec = EstimatorSpec(self.readings.robot, equations, np.diag(noise), outputs)
        try:
            return estimation_kernel(spec)
        except KernelBuildError:
            return None

    @cached_property
    def _wrenches_suffice(self) -> bool:
        """Whether wrenches alone can meet the rows at random states."""
        if self._about_motion:
            return False
        robot = self.readings.robot
        rng = np.random.default_rng(0)
        q = np.array([robot.random_configuration(rng, limited=False) for _ in range(PROBES)])
        qd = np.zeros((PROBES, robot.nv))
        x = np.zeros((PROBES, len(self._sizes)))
        rows, coefficients = (part[self._pinned] for part in self._pins)
        x[:, np.flatnonzero(self._pinned)] = self._layout.constants[rows] / coefficients
        stated = np.tile(self._layout.constants[self._open], (PROBES, 1))
        near = self._closest(q, qd, x, stated, motion=False)
        return not self._unmet(q, qd, near, stated).any()

    def _misses(self, q: Array, qd: Array, x: Array, stated: Array) -> Array:
        """By how much x misses the rows (N, m); affine in x."""
        n = len(self._pinned)
        y = self.readings.at(q, qd, x[:, n:], x[:, :n])[1]
        return np.asarray(stated - y[:, self._open])

    def _unmet(self, q: Array, qd: Array, x: Array, stated: Array) -> BoolArray:
        """States (N,) at which some row is missed, or x is NaN."""
        miss = np.abs(self._misses(q, qd, x, stated)).max(axis=1)
        return np.asarray(~(miss <= UNMET * _size(x)))

    def _meet_by_steps(self, q: Array, qd: Array, x: Array, stated: Array) -> Array:
        """Least change of wrenches, and of qdd where need be, after which the rows hold."""
        unmet = np.ones(len(x), dtype=bool)
        if not self._about_motion:
            x = self._closest(q, qd, x, stated, motion=False)
            unmet = self._unmet(q, qd, x, stated)
        if unmet.any():
            state, given = (q[unmet], qd[unmet]), stated[unmet]
            x[unmet] = self._closest(*state, x[unmet], given, motion=True)
            miss = self._misses(*state, x[unmet], given)
            slack = UNMET * _size(x[unmet])[:, None]
            wrong = np.abs(miss) > np.maximum(slack, FAR * self._open_std)
            if wrong.any():
                label = self._layout.labels[self._open[np.argwhere(wrong)[0, 1]]]
                raise LayoutError(
                    f"simulate: no motion near this trajectory meets {label!r} (it misses by"
                    f" {np.abs(miss[wrong]).max():.3g}); let more bodies be touched, or give a"
                    " trajectory that meets it"
                )
        return x

    def _closest(self, q: Array, qd: Array, x: Array, stated: Array, *, motion: bool) -> Array:
        """Change of x, least in units of its sizes, that ends all misses as far as it can.

        Of wrenches alone or, with ``motion``, of accelerations too. Misses are affine in x:
        their slopes are found by unit steps. Exact rows come first, the others in what these
        leave free.
        """
        columns = np.flatnonzero(~self._pinned)
        if motion:
            columns = np.concatenate([columns, np.arange(len(self._pinned), x.shape[1])])
        at = self._misses(q, qd, x, stated)
        slopes = []
        for column in columns.tolist():
            stepped = x.copy()
            stepped[:, column] += self._sizes[column]
            slopes.append(at - self._misses(q, qd, stepped, stated))
        if not slopes:
            return x
        A, hard = np.stack(slopes, axis=2), self._open_std == 0
        inverse = np.zeros((len(x), len(columns), len(hard)))
        inverse[:, :, hard] = np.linalg.pinv(A[:, hard], rcond=1e-10)
        if not hard.all():
            weight = 1.0 / self._open_std[~hard]
            free = np.eye(len(columns)) - inverse[:, :, hard] @ A[:, hard]
            soft = np.linalg.pinv(weight[:, None] * (A[:, ~hard] @ free), rcond=1e-10) * weight
            inverse[:, :, hard] -= soft @ (A[:, ~hard] @ inverse[:, :, hard])
            inverse[:, :, ~hard] = soft
        for _ in range(2):  # the second time for the rounding of the first
            x = x.copy()
            x[:, columns] += np.einsum("nkm,nm->nk", inverse, at) * self._sizes[columns]
            at = self._misses(q, qd, x, stated)
        return x


def _size(x: Array) -> Array:
    return np.asarray(FORCE + np.abs(x).max(axis=1))
