"""Machine code of an operational space: J, Jdot qd, Lambda, Jbar and torque in one kernel.

One pass of articulated bodies in a common frame (:mod:`dynsys.recursive.common_frame`) gives
H = L^T D L without forming it. A row of J is a wrench x that enters at bodies; carried towards
the base past joints it leaves the row of Y = J L^-1, and a torque b leaves u = L^-T b:

    y_j = x . S_j,  x -= U_j y_j / D_j          u_j = b_j - S_j . p,  p += U_j u_j / D_j
    Lambda^-1 = Y D^-1 Y^T                      J H^-1 b = Y D^-1 u           [OSI] eq. 22
    Jbar = L^-1 (D^-1 Y^T Lambda)               outwards, joint by joint      [OSI] eq. 33
    torque = torque_0 + J^T Lambda (xdd - xdd_0)                              [OSI] eq. 11

xdd_0 = Jdot qd + J H^-1 (torque_0 - C) is what the coordinates do under torque_0 alone, so that
neither Lambda nor Jbar nor N is formed for the torque. Contacts and freedoms without a drive
are blocks that are eliminated first (:mod:`dynsys.operational.projection`). Levels need no
code: where Lambda^-1 has an inverse every level gets what it asks for. Where it has almost none
a pivot is watched, the answer is NaN, and :class:`OperationalDynamics` takes the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError
from dynsys.kernel.build import kernel_from
from dynsys.kernel.c.source import CType, export_c
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.computation import check_dtype
from dynsys.kernel.quantities import require_inertia
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.natural import NaturalUnits
from dynsys.model.tree import KinematicTree
from dynsys.operational.hierarchy import COMPARABLE
from dynsys.operational.moving_frames import MovingFrames
from dynsys.operational.tasks import TaskSpace
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import SAMPLES, cheapest_accurate, sample_states
from dynsys.program.frames import Reframed, Regrouping, reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.common_frame import articulated_freedoms, composite_freedoms
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["CONTROLLER", "OUTPUTS", "TaskProgram"]

OUTPUTS = (
    "J",
    "velocity",
    "Jdot_qd",
    "Lambda_inv",
    "Lambda",
    "Jbar",
    "beta",
    "mu",
    "rho",
    "torque",
    "contact_forces",
)
"""What a kernel may answer, flattened row by row."""
CONTROLLER = ("J", "Jdot_qd", "Lambda", "Jbar", "torque")
"""What a controller asks for at every sample."""
NEEDS = {
    **dict.fromkeys(("J", "Lambda_inv", "Lambda", "Jbar", "rho"), ("q",)),
    **dict.fromkeys(("velocity", "Jdot_qd", "beta", "mu"), ("q", "qd")),
    **dict.fromkeys(("torque", "contact_forces"), ("q", "qd", "acceleration", "posture")),
}
"""Inputs that each of them depends on."""
LEAST_PIVOT = 1e-8
"""Pivots of Lambda^-1 below this part of their usual diagonal are left to the dense algebra."""
ACCURATE = 1e-11
"""Relative rounding error above which mass moments stay with their bodies."""
AGREEMENT = {"float64": 1e-5, "float32": 1e-1}


@final
class TaskProgram:
    """Program, kernel and C source of some outputs of an operational space."""

    def __init__(
        self,
        tasks: TaskSpace,
        contacts: TaskSpace | None,
        undriven: IntArray,
        outputs: Sequence[str],
        damping: float | None = None,
    ) -> None:
        self.robot, self._tasks, self._contacts = tasks.robot, tasks, contacts
        torques = {"torque", "contact_forces"} & set(outputs)
        self._damping = damping if torques else None
        self._undriven = undriven
        self.outputs = tuple(outputs)
        self._check()

    def _check(self) -> None:
        robot, m = self.robot, self._tasks.m
        for name in self.outputs:
            if name not in OUTPUTS:
                raise KernelBuildError(
                    f"an operational space has no output {name!r}: {', '.join(OUTPUTS)}"
                )
        if not self.outputs:
            raise KernelBuildError(f"name some outputs: {', '.join(OUTPUTS)}")
        if "contact_forces" in self.outputs and self._contacts is None:
            raise KernelBuildError("this operational space has no contacts, hence no forces")
        if robot.is_coupled:
            raise KernelBuildError(
                f"robot {robot.name!r} has coupled joints, H no tree sparsity: use at(q, qd)"
            )
        driven = robot.nv - len(self._undriven)
        held = self._contacts.m if self._contacts is not None else 0
        inverted = set(self.outputs) - {"J", "velocity", "Jdot_qd"}
        if inverted and (m > driven or m + held > robot.nv):
            raise KernelBuildError(
                f"{m} coordinates and {held} of contacts are more than {robot.nv} freedoms,"
                f" {driven} of them driven, can serve: give the last level as posture torque"
            )

    @cached_property
    def signature(self) -> Signature:
        """Inputs and outputs by name."""
        n, m = self.robot.nv, self._tasks.m
        wanted = {name for output in self.outputs for name in NEEDS[output]}
        inputs = {"q": self.robot.nq, "qd": n, "acceleration": m, "posture": n}
        held = 0 if self._contacts is None else self._contacts.m
        sizes = {"J": m * n, "Jbar": n * m, "Lambda": m * m, "Lambda_inv": m * m}
        sizes |= {"torque": n, "contact_forces": held}
        return Signature(
            tuple((name, size) for name, size in inputs.items() if name in wanted),
            tuple((name, sizes.get(name, m)) for name in self.outputs),
        )

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs); no posture torque without a drive."""
        sizes = dict(self.signature.inputs)
        robot, m = self.robot, sizes.get("acceleration", 0)
        natural = NaturalUnits(robot)
        posture = natural.drive[: sizes.get("posture", 0)]
        extra = np.concatenate([self._task_units[:m], posture])
        states = sample_states(robot, count, seed, extra)
        states[:, robot.nq + robot.nv + m + self._undriven[: sizes.get("posture", 0)]] = 0.0
        return states[:, : self.signature.n_inputs]

    @cached_property
    def _task_units(self) -> Array:
        """Natural units (m,) of the tasks' coordinates: what joints of one add to them."""
        robot = self.robot
        q = sample_states(robot, 1, 0)[0, : robot.nq].astype(np.float64)
        J = self._tasks.jacobian_scalars(transforms(robot, q))
        largest = np.max(np.abs(J) * NaturalUnits(robot).motion, axis=1, initial=0.0)
        return np.where(largest > 0, largest, 1.0)

    # ---- kernel and C -------------------------------------------------------------------

    def kernel(self, dtype: str = "float64", cache: KernelCache | None = None) -> Kernel:
        """Compiled, or from the cache."""
        check_dtype(dtype)
        held = () if self._contacts is None else self._contacts.tasks
        made_from = (
            "tasks",
            fingerprint_robot(self.robot).digest,
            repr([_key(self.robot, task) for task in self._tasks.tasks]),
            repr([_key(self.robot, task) for task in held]),
            tuple(self._undriven.tolist()),
            self.outputs,
            self._damping,
        )
        return kernel_from(
            lambda: self.program(dtype),
            self.signature,
            lambda: self.samples(3, 7),
            made_from,
            dtype=dtype,
            cache=cache,
            agreement=AGREEMENT[dtype],
        )

    def export_c(
        self, folder: str | Path, name: str, dtype: CType, overwrite: bool
    ) -> list[Path]:
        """C99 with header, self-test and CMake file; returns their paths."""
        tasks = ", ".join(self._tasks.names[:4])
        return export_c(
            folder,
            name,
            self.program(dtype),
            self.signature,
            self.samples(5, 11),
            dtype=dtype,
            description=f"operational space of robot {self.robot.name}: {tasks}, ...",
            overwrite=overwrite,
        )

    def program(self, dtype: str = "float64") -> Program:
        """What a kernel executes, bad quaternions and vanishing pivots answered by NaN."""
        require_inertia(self.robot)
        samples = self.samples(SAMPLES, 0)
        states, n = samples.astype(np.float64), self.signature.n_outputs

        def record(regroup: Regrouping) -> Program:
            try:
                return simplify(self._recorded(reframe(self.robot, regroup=regroup)), samples)
            except (ZeroDivisionError, FloatingPointError):
                raise KernelBuildError(
                    f"robot {self.robot.name!r}: Lambda_inv is singular at every state, some"
                    f" combination of {', '.join(self._tasks.names[:6])}, ... never moves"
                ) from None

        def error(program: Program) -> float:
            exact = program.evaluate(states.astype(np.longdouble))[:, :n]
            missed = np.abs(program.evaluate(states)[:, :n] - exact).max(axis=1)
            return float((missed / np.abs(exact).max(axis=1)).max())

        program = cheapest_accurate(record, error, ACCURATE)
        watched = program.evaluate(self.samples(20, 3))[:, n:]
        k = watched.shape[1] // 2  # reciprocal pivots, then the diagonals they came from
        usual = np.median(watched[:, k : 2 * k], axis=0).astype(np.float64)
        usual = np.maximum(
            usual, COMPARABLE * np.maximum(usual.max(initial=0.0), self._natural[:k])
        )
        limits = [float(1 / (LEAST_PIVOT * x)) for x in usual]
        kept = np.r_[0 : n + k]
        if self._damping is not None:
            kept, limits = np.r_[kept, n + 2 * k], [*limits, 1 / self._damping]
        shorter = Program(
            program.op,
            program.left,
            program.right,
            program.constants,
            program.outputs[kept],
            program.n_inputs,
        )
        n_finite = self.signature.n_inputs
        return guarded(shorter, self.robot.quaternion_slices, dtype, limits, n_finite=n_finite)

    @cached_property
    def _natural(self) -> Array:
        """Natural mobility of what has pivots: contacts, then tasks."""
        spaces = [space for space in (self._contacts, self._tasks) if space is not None]
        return np.concatenate([space.natural_mobility for space in spaces])

    def _recorded(self, mechanism: Reframed) -> Program:
        graph = Graph()
        inputs = {name: graph.inputs(size) for name, size in self.signature.inputs}
        with np.errstate(divide="raise"):
            record = _Recording(self, mechanism, inputs)
            outputs = [np.ravel(getattr(record, name)) for name in self.outputs]
        watched = record.watched
        pivots = [reciprocal for reciprocal, _ in watched] + [size for _, size in watched]
        if self._damping is not None:
            pivots.append(record.stiffness)
        return graph.program([*np.concatenate(outputs), *pivots])


def _key(robot: KinematicTree, task: object) -> tuple[object, ...]:
    """What tells a task from all others, the places of its frames included."""
    if not is_dataclass(task) or isinstance(task, type):
        raise KernelBuildError(f"{task}: a task must be a dataclass to be compiled")
    parts: list[object] = [type(task).__qualname__]
    for field in fields(task):
        value = getattr(task, field.name)
        if isinstance(value, (np.ndarray, list, tuple)):
            value = np.asarray(value).tolist()
        parts.append((field.name, value))
        if isinstance(value, str) and value in robot.frames:
            frame = robot.frame(value)
            place = frame.body, frame.transform.E.tolist(), frame.transform.r.tolist()
            parts.append(place)
    return tuple(parts)


# ---- the recording: numbers or nodes of the graph -----------------------------------------


@final
class Ldl:
    """M = L diag(d) L^T (k, k), symmetric positive definite, over scalars of any kind."""

    def __init__(self, M: ScalarArray, watched: list[tuple[Any, Any]]) -> None:
        k = len(M)
        self.L: list[dict[int, Any]] = [{} for _ in range(k)]
        self.reciprocal: list[Any] = []
        for i in range(k):
            scaled: list[Any] = []
            for j in range(i):
                terms = (self.L[j][p] * scaled[p] for p in range(j))
                scaled.append(M[i, j] - _sum(terms))
            for j in range(i):
                self.L[i][j] = scaled[j] * self.reciprocal[j]
            pivot = M[i, i] - _sum(self.L[i][j] * scaled[j] for j in range(i))
            self.reciprocal.append(1 / pivot)
            watched.append((self.reciprocal[i], M[i, i]))

    def solve(self, b: ScalarArray) -> ScalarArray:
        """M^-1 b, for a vector (k,)."""
        k = len(self.L)
        x: list[Any] = []
        for i in range(k):
            x.append(b[i] - _sum(self.L[i][j] * x[j] for j in range(i)))
        x = [value * r for value, r in zip(x, self.reciprocal, strict=True)]
        for i in reversed(range(k)):
            x[i] = x[i] - _sum(self.L[j][i] * x[j] for j in range(i + 1, k))
        out: ScalarArray = np.array(x) if k else np.zeros(0)
        return out

    def inverse(self) -> ScalarArray:
        """M^-1 (k, k) = L^-T D^-1 L^-1: k^3 / 3 products."""
        k = len(self.L)
        W: list[dict[int, Any]] = []  # L^-1, unit lower triangular
        for i in range(k):
            row: dict[int, Any] = {}
            for j in range(i):
                more = _sum(self.L[i][p] * W[p][j] for p in range(j + 1, i))
                row[j] = -(self.L[i][j] + more)
            W.append(row)
        out = np.zeros((k, k), dtype=np.asarray(self.reciprocal).dtype)
        for j in range(k):
            below = {p: W[p][j] * self.reciprocal[p] for p in range(j + 1, k)}
            for i in range(j + 1):
                own = self.reciprocal[j] if i == j else W[j][i] * self.reciprocal[j]
                out[i, j] = out[j, i] = own + _sum(W[p][i] * y for p, y in below.items())
        return out


def _sum(terms: Iterable[Any]) -> Any:
    total: Any = 0
    for term in terms:
        total = total + term
    return total


Row = dict[int, Any]
"""Entries of a row by freedom; what is not there is zero."""


@final
class _Recording:
    """Everything of the module at one state, each quantity computed when first asked for."""

    def __init__(
        self, asked: TaskProgram, mechanism: Reframed, inputs: dict[str, ScalarArray]
    ) -> None:
        self._tasks, self._contacts = asked._tasks, asked._contacts
        self._robot, self._mechanism = asked.robot, mechanism
        self._u = asked._undriven.tolist()
        self._q = inputs["q"]
        self._given = inputs
        self._n = asked.robot.nv
        self._parent = expanded_parent(asked.robot).tolist()
        self.watched: list[tuple[Any, Any]] = []
        """Reciprocal pivots that must stay small, and the diagonals they came from."""
        self._bodies, self._poses = articulated_freedoms(mechanism, self._q)
        self._reciprocal = [1 / d for d in self._bodies.diagonal]

    # ---- rows of J and Y ----------------------------------------------------------------

    @cached_property
    def _frames(self) -> MovingFrames:
        still = np.zeros(self._n)
        qd = self._given.get("qd", still)
        return MovingFrames(self._robot, self._q, qd, self._mechanism)

    def _rows(self, space: TaskSpace | None) -> tuple[list[Row], list[Row]]:
        """Rows of J and of Y = J L^-1."""
        J: list[Row] = []
        Y: list[Row] = []
        if space is None:
            return J, Y
        last, to_new = last_freedom(self._robot), self._mechanism.to_new
        for number, pieces in enumerate(space.coefficients(self._frames.body_poses)):
            common = space.tasks[number].common(self._robot)
            shared = self._above(int(last[common])) if common >= 0 else set()
            entering: list[list[tuple[int, ScalarArray]]] = []
            for body, R in zip(space.bodies[number], pieces, strict=True):
                if (freedom := int(last[body])) < 0:
                    continue
                own = self._poses[self._mechanism.place[body]].then(to_new[body].inverse())
                entering.append([(freedom, own.force_back(row)) for row in R])
            size = space.rows(number).stop - space.rows(number).start
            for r in range(size):
                J.append(self._carried([each[r] for each in entering], shared))
                Y.append(self._passed([each[r] for each in entering]))
        return J, Y

    def _above(self, freedom: int) -> set[int]:
        found = set()
        while freedom >= 0:
            found.add(freedom)
            freedom = self._parent[freedom]
        return found

    def _inwards(self, entering: Sequence[tuple[int, ScalarArray]]) -> dict[int, ScalarArray]:
        """Wrenches by the freedom they enter at."""
        x: dict[int, ScalarArray] = {}
        for freedom, wrench in entering:
            x[freedom] = x[freedom] + wrench if freedom in x else wrench
        return x

    def _carried(self, entering: Sequence[tuple[int, ScalarArray]], shared: set[int]) -> Row:
        """Row of J: wrenches carried towards the base, those that cancel left out."""
        x, row = self._inwards(entering), {}
        for j in reversed(range(self._n)):
            if j in x and j not in shared:
                row[j] = x[j] @ self._bodies.motion[:, j]
                self._add(x, self._parent[j], x[j])
        return row

    def _passed(self, entering: Sequence[tuple[int, ScalarArray]]) -> Row:
        """Row of Y: what is left of wrenches behind every joint goes on."""
        x, row = self._inwards(entering), {}
        for j in reversed(range(self._n)):
            if j in x:
                row[j] = x[j] @ self._bodies.motion[:, j]
                left = x[j] - self._bodies.wrench[:, j] * (row[j] * self._reciprocal[j])
                self._add(x, self._parent[j], left)
        return row

    @staticmethod
    def _add(x: dict[int, ScalarArray], freedom: int, wrench: ScalarArray) -> None:
        if freedom >= 0:
            x[freedom] = x[freedom] + wrench if freedom in x else wrench

    @cached_property
    def _of_tasks(self) -> tuple[list[Row], list[Row]]:
        return self._rows(self._tasks)

    @cached_property
    def _of_contacts(self) -> tuple[list[Row], list[Row]]:
        return self._rows(self._contacts)

    def _product(self, left: Sequence[Row], right: Sequence[Row]) -> ScalarArray:
        """Left D^-1 right^T."""
        scaled = [{k: y * self._reciprocal[k] for k, y in row.items()} for row in left]
        out = np.zeros((len(left), len(right)), dtype=self._bodies.diagonal.dtype)
        for i, row in enumerate(scaled):
            for j, other in enumerate(right):
                if left is right and j < i:
                    out[i, j] = out[j, i]
                else:
                    out[i, j] = _sum(row[k] * y for k, y in other.items() if k in row)
        return out

    # ---- torques -------------------------------------------------------------------------

    def _left_over(self, b: ScalarArray) -> ScalarArray:
        """D^-1 u, u = L^-T b (nv,)."""
        p: dict[int, ScalarArray] = {}
        z: list[Any] = [0.0] * self._n
        for j in reversed(range(self._n)):
            u = b[j] - self._bodies.motion[:, j] @ p[j] if j in p else b[j]
            z[j] = u * self._reciprocal[j]
            on = self._bodies.wrench[:, j] * z[j]
            self._add(p, self._parent[j], p[j] + on if j in p else on)
        return np.array(z)

    def _outwards(self, z: ScalarArray) -> ScalarArray:
        """L^-1 z (nv,): joint accelerations from what every joint adds by itself."""
        moving: dict[int, ScalarArray] = {}
        out: list[Any] = []
        for j in range(self._n):
            parent = self._parent[j]
            above = moving.get(parent)
            pulled = 0.0 if above is None else self._bodies.wrench[:, j] @ above
            out.append(z[j] - pulled * self._reciprocal[j])
            own = self._bodies.motion[:, j] * out[j]
            moving[j] = own if above is None else above + own
        return np.array(out)

    def _bias(self, space: TaskSpace | None) -> ScalarArray:
        return np.zeros(0) if space is None else space.bias(self._frames)

    @cached_property
    def _C(self) -> ScalarArray:
        return rnea_scalars(self._mechanism, self._q, self._given["qd"], None)

    def _free(self, torque: ScalarArray, bias: bool) -> tuple[ScalarArray, ScalarArray]:
        """Accelerations of tasks, contacts held, under torque - C, and the contact forces."""
        z = self._left_over(torque)
        tasks = _times(self._of_tasks[1], z)
        held = _times(self._of_contacts[1], z)
        if bias:
            tasks, held = tasks + self._bias(self._tasks), held + self._bias(self._contacts)
        forces = -self._contact.solve(held)
        return tasks + self._M_tc @ forces, forces

    # ---- contacts and freedoms without a drive ----------------------------------------------

    @cached_property
    def _contact(self) -> Ldl:
        Y = self._of_contacts[1]
        return Ldl(self._product(Y, Y), self.watched)

    @cached_property
    def _M_tc(self) -> ScalarArray:
        return self._product(self._of_tasks[1], self._of_contacts[1])

    @cached_property
    def _H_u(self) -> ScalarArray:
        """Columns (nv, k) of H at the freedoms without a drive."""
        bodies = composite_freedoms(self._mechanism, self._q)
        H = np.zeros((self._n, len(self._u)), dtype=self._bodies.diagonal.dtype)
        for c, u in enumerate(self._u):
            for j in range(self._n):
                low, high = min(u, j), max(u, j)
                if u == j:
                    H[j, c] = bodies.diagonal[u]
                elif low in self._above(high):
                    H[j, c] = bodies.wrench[:, high] @ bodies.motion[:, low]
        return H

    @cached_property
    def _passive(self) -> tuple[ScalarArray, Ldl]:
        """(J N_c)_u (m, k) and the factors of H_uu."""
        J, Jc = self._matrix(self._of_tasks[0]), self._matrix(self._of_contacts[0])
        base = J[:, self._u]
        if len(Jc):
            columns = [self._contact.solve(Jc[:, u]) for u in self._u]
            base = base - self._M_tc @ np.array(columns).T if columns else base
        return base, Ldl(self._H_u[self._u], [])

    @cached_property
    def _system(self) -> ScalarArray:
        Y = self._of_tasks[1]
        M = self._product(Y, Y)
        if self._contacts is not None:
            columns = [self._contact.solve(row) for row in self._M_tc]
            M = M - self._M_tc @ np.array(columns).T
        if self._u:
            base, inertia = self._passive
            columns = [inertia.solve(row) for row in base]
            M = M - base @ np.array(columns).T
        return M

    @cached_property
    def _factor(self) -> Ldl:
        return Ldl(self._system, self.watched)

    def _spread(self, f: ScalarArray) -> tuple[ScalarArray, ScalarArray, ScalarArray]:
        """Contact parts kappa and kappa', base part phi, of task forces f (m,)."""
        kappa = -self._contact.solve(self._M_tc.T @ f)
        if not self._u:
            return kappa, kappa, np.zeros(0)
        base, inertia = self._passive
        phi = -inertia.solve(base.T @ f)
        Jc = self._matrix(self._of_contacts[0])
        return kappa, kappa - self._contact.solve(Jc[:, self._u] @ phi), phi

    @property
    def stiffness(self) -> Any:
        """Trace of Lambda in parts of free mobility: at least 1 / the least share of any level.

        Shares are counted in parts of the largest free mobility of a kind (mobility_scale),
        here of its sum, so that damping changes nothing where this is below 1 / damping.
        """
        Y, alike = self._of_tasks[1], self._tasks.alike.tolist()
        free = [_sum(y * y * self._reciprocal[k] for k, y in row.items()) for row in Y]
        total = 0.0
        for i, natural in enumerate(self._tasks.natural_mobility.tolist()):
            own = _sum(free[j] for j in range(len(free)) if alike[j] == alike[i])
            total = total + self.Lambda[i, i] * (own + COMPARABLE * (_sum(free) + natural))
        return total

    # ---- outputs, by the names of OUTPUTS ----------------------------------------------------

    def _matrix(self, rows: Sequence[Row]) -> ScalarArray:
        out = np.zeros((len(rows), self._n), dtype=self._bodies.diagonal.dtype)
        for i, row in enumerate(rows):
            for j, value in row.items():
                out[i, j] = value
        return out

    @property
    def J(self) -> ScalarArray:
        """(m, nv)."""
        return self._matrix(self._of_tasks[0])

    @property
    def velocity(self) -> ScalarArray:
        """J qd (m,)."""
        return _times(self._of_tasks[0], self._given["qd"])

    @property
    def Jdot_qd(self) -> ScalarArray:
        """(m,)."""
        return self._bias(self._tasks)

    @property
    def Lambda_inv(self) -> ScalarArray:
        """(m, m)."""
        return self._system

    @cached_property
    def Lambda(self) -> ScalarArray:
        """(m, m)."""
        return self._factor.inverse()

    @property
    def Jbar(self) -> ScalarArray:
        """(nv, m): accelerations of one unit of each coordinate."""
        columns = []
        for f in self.Lambda:
            _, kappa, phi = self._spread(f)
            z = _transposed_times(self._of_tasks[1], f, self._n)
            z = z + _transposed_times(self._of_contacts[1], kappa, self._n)
            column = self._outwards(z * np.array(self._reciprocal))
            for u, more in zip(self._u, phi, strict=True):
                column[u] = column[u] + more
            columns.append(column)
        return np.array(columns).T

    @cached_property
    def beta(self) -> ScalarArray:
        """(m,)."""
        return self._free(-self._C, bias=True)[0]

    @cached_property
    def rho(self) -> ScalarArray:
        """(m,)."""
        still = np.zeros(self._n)
        weight = rnea_scalars(self._mechanism, self._q, still, None)
        return -self._factor.solve(self._free(-weight, bias=False)[0])

    @property
    def mu(self) -> ScalarArray:
        """(m,)."""
        return -self._factor.solve(self.beta) - self.rho

    @cached_property
    def _control(self) -> tuple[ScalarArray, ScalarArray]:
        """Torque (nv,) and contact forces."""
        posture = self._given["posture"]
        given: ScalarArray = np.array(
            [0.0 if j in self._u else posture[j] for j in range(self._n)]
        )
        moved, forces = self._free(given - self._C, bias=True)
        f = self._factor.solve(self._given["acceleration"] - moved)
        kappa, kappa_u, phi = self._spread(f)
        torque = given + _transposed_times(self._of_tasks[0], f, self._n)
        torque = torque + _transposed_times(self._of_contacts[0], kappa, self._n)
        if self._u:
            torque = torque + self._H_u @ phi
            torque[self._u] = 0.0
        return torque, forces + kappa_u - kappa

    @property
    def torque(self) -> ScalarArray:
        """(nv,)."""
        return self._control[0]

    @property
    def contact_forces(self) -> ScalarArray:
        """(c,)."""
        return self._control[1]


def _times(rows: Sequence[Row], x: ScalarArray) -> ScalarArray:
    """Rows times a vector (nv,)."""
    found = [_sum(value * x[j] for j, value in row.items()) for row in rows]
    return np.array(found) if rows else np.zeros(0)


def _transposed_times(rows: Sequence[Row], f: ScalarArray, n: int) -> ScalarArray:
    """Transposed rows times a vector: (n,)."""
    out: list[Any] = [0.0] * n
    for row, value in zip(rows, f, strict=True):
        for j, entry in row.items():
            out[j] = out[j] + entry * value
    return np.array(out)
