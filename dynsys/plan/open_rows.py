"""Estimation in a few open parameters: the recursion up to the small system B p = c.

    d = d0 + Z p     p: what no exact reading states of joint accelerations, external wrenches

Exact readings of qdd and f^x with constant coefficients are solved for some of these
(:class:`Substitution`); what is left open is p. RNEA gives d0, composite inertias and wrenches
carried to the base give Z (:mod:`.open_parameters`). Every other reading is then one row

    B p = c,      B = Y Z,   c = y - b_Y - Y d0

(:class:`OpenSystem`), and every answer follows from p without a division. Frames are chosen
anew, and masses regrouped past joints whose wrench nobody asks for: neither is seen outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.errors import NoOrderError
from dynsys.model.spatial import cross, cross_force
from dynsys.plan.estimator_spec import SAMPLES, SIMPLIFY_SAMPLES, EstimatorSpec
from dynsys.plan.open_parameters import Direction, Response, Values
from dynsys.plan.saddle import LinearRow
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.simplify import simplify
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import BodyMotion, body_motions, newton_euler
from dynsys.system.equations import Kinematics, Term
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray

__all__ = ["OpenSystem", "Substitution", "reading_names", "unknown_names"]

Form: TypeAlias = "tuple[ScalarArray, dict[int, ScalarArray]]"
"""Numbers (rows,) that are affine in p: their value at p = 0, and what each parameter adds."""
CONSTANT_ZERO = 1e-12
"""Coefficients of substituted rows below this part of their row are rounding."""


# ---- which entries of z = (qdd, f^x) exact readings state: z = z0 + N p ----------------------


@final
class Substitution:
    """Entries of z by exact readings with constant coefficients; columns of spec.unknowns."""

    def __init__(self, spec: EstimatorSpec) -> None:
        self.spec, layout = spec, spec.unknowns
        self.freedom = {c: k for k, c in enumerate(layout.columns("qdd").tolist())}
        self.wrench = {
            c: (body, k)
            for body, columns in enumerate(layout.columns("external_wrench").tolist())
            for k, c in enumerate(columns)
        }
        self.columns = [*self.freedom, *self.wrench]
        self.names = unknown_names(layout, self.columns)
        self.readings = reading_names(spec)
        self.pairs: list[tuple[int, int]] = []
        self._pair_of: dict[int, int] = {}
        self._given = self._constant_rows()
        self._rows: list[dict[int, Any]] = []  # reduced, one per pair
        self._combined: list[dict[int, Any]] = []  # of which readings

    def _constant_rows(self) -> dict[int, dict[int, Any]]:
        """Exact rows on qdd and f^x alone whose coefficients no state changes."""
        spec, found, start = self.spec, {}, 0
        seeing = set(spec.seeing.tolist())
        noisy = set(spec.noise.row[spec.noise.data != 0].tolist())
        for block in spec.equations:
            numbers = range(start, start + block.size)
            start += block.size
            if block.name in spec.switchable or not noisy.isdisjoint(numbers):
                continue
            if any(
                not t.is_constant or t.unknown.kind not in ("qdd", "external_wrench")
                for t in block.terms
            ):
                continue
            for k, r in enumerate(numbers):
                row: dict[int, Any] = {}
                for term in block.terms:
                    columns = spec.unknowns.block(term.unknown.kind, term.unknown.body).columns
                    values = _constant(term)[k]
                    for c, x in zip(columns.tolist(), values, strict=True):
                        if x:
                            row[c] = row.get(c, np.longdouble(0)) + x
                if row and r in seeing:
                    found[r] = row
        return found

    def choose(self, given: Mapping[int, int] | None = None) -> None:
        """Take every constant row, the shortest first, by its largest coefficient.

        With ``given`` only its readings, each for its column; NoOrderError names one that
        cannot be solved for that.
        """
        chosen = self._given if given is None else given
        for r in chosen:
            if r not in self._given:
                raise NoOrderError(
                    f"reading {self.readings[r]!r} is no exact one with constant coefficients"
                )
        left = sorted(chosen, key=lambda r: len(self._given[r]))
        while left:
            for r in left:
                row, combined = self._reduced(r)
                if given is None or given[r] in row:
                    break
            else:
                raise NoOrderError(f"reading {self.readings[r]!r} has not its unknown")
            if not row:
                raise NoOrderError(
                    f"reading {self.readings[r]!r} repeats others that are exact too"
                )
            c = max(row, key=lambda c: abs(row[c])) if given is None else given[r]
            left.remove(r)
            self._pair_of[c] = len(self.pairs)
            self.pairs.append((r, c))
            self._rows.append(row)
            self._combined.append(combined)

    def _reduced(self, r: int) -> tuple[dict[int, Any], dict[int, Any]]:
        """Row r without the columns of earlier pairs, and which readings make it up."""
        row = self._given[r]
        size = max(abs(x) for x in row.values())
        out, combined = dict(row), {r: np.longdouble(1)}
        while pairs := [self._pair_of[c] for c in out if c in self._pair_of]:
            pair = min(pairs)  # its row holds no column of pairs before it
            c = self.pairs[pair][1]
            factor = out[c] / self._rows[pair][c]
            for k, x in self._rows[pair].items():
                out[k] = out.get(k, np.longdouble(0)) - factor * x
            del out[c]
            for k, x in self._combined[pair].items():
                combined[k] = combined.get(k, np.longdouble(0)) - factor * x
        return {k: x for k, x in out.items() if abs(x) > CONSTANT_ZERO * size}, combined

    @property
    def open(self) -> list[int]:
        """Columns of the parameters."""
        taken = {c for _, c in self.pairs}
        return [c for c in self.columns if c not in taken]

    def solved(self, rhs: Any) -> tuple[dict[int, Any], dict[int, dict[int, Any]]]:
        """z0 and N: value and parameters of every substituted column, rhs[r] by reading."""
        z0: dict[int, Any] = {}
        N: dict[int, dict[int, Any]] = {}
        for (_, c), row, combined in reversed(
            list(zip(self.pairs, self._rows, self._combined, strict=True))
        ):
            total: Any = 0.0
            for r, x in combined.items():
                total = total + rhs[r] * x
            parts: dict[int, Any] = {}
            for k, x in row.items():
                if k == c:
                    continue
                if k in z0:
                    total = total - z0[k] * x
                    for j, y in N[k].items():
                        parts[j] = parts.get(j, 0.0) - x * y
                else:
                    parts[k] = parts.get(k, 0.0) - x
            z0[c] = total * (1 / row[c])
            N[c] = {k: x / row[c] for k, x in parts.items()}
        return z0, N

    def directions(self, anchors: dict[int, int]) -> list[Direction]:
        """What each parameter stands for; ``anchors`` by body."""
        _, N = self.solved([0.0] * self.spec.n_rows)
        found = []
        for p in self.open:
            z = {p: 1.0} | {c: parts[p] for c, parts in N.items() if p in parts}
            qdd = {self.freedom[c]: float(x) for c, x in z.items() if c in self.freedom}
            wrench: dict[int, Array] = {}
            for c, x in z.items():
                if c in self.wrench:
                    body, k = self.wrench[c]
                    wrench.setdefault(body, np.zeros(6))[k] += float(x)
            source = -1
            if p in self.wrench and self.wrench[p][0] in anchors:
                source, k = self.wrench[p]
                wrench = {anchors[source]: np.eye(6)[k]}
            found.append(Direction(self.names[p], qdd, wrench, source))
        return found

    def fully_open(self) -> list[int]:
        """Bodies of whose external wrench nothing is stated."""
        _, N = self.solved([0.0] * self.spec.n_rows)
        touched = {k for parts in N.values() for k in parts}
        free = [self.wrench[c][0] for c in self.open if c in self.wrench and c not in touched]
        return [b for b in range(self.spec.robot.n_bodies) if free.count(b) == 6]


def _constant(term: Term) -> ScalarArray:
    """Coefficient (rows, size) that no state changes, in extended precision."""
    value = np.asarray(term.value, dtype=np.longdouble)
    return np.where(term.pattern, value, np.longdouble(0))


def unknown_names(layout: UnknownLayout, columns: Iterable[int]) -> dict[int, str]:
    """kind(body or joint)[entry] of columns."""
    blocks = ((c, layout.at(c)) for c in columns)
    return {c: f"{b.kind}({b.name})[{c - b.start}]" for c, b in blocks}


def reading_names(spec: EstimatorSpec) -> list[str]:
    """sensor[row] of every row of y."""
    return [f"{block.name}[{k}]" for block in spec.equations for k in range(block.size)]


# ---- d0, rows of the small system, answers: on one graph -------------------------------------


@final
class OpenSystem:
    """The recursion on an expression graph, up to the small system B p = c.

    ``rows`` are those of the readings that see something and are not substituted, by their
    number: sum of B p + constant = 0.
    """

    def __init__(
        self,
        spec: EstimatorSpec,
        substitution: Substitution,
        anchors: dict[int, int],
        regrouped: bool,
    ) -> None:
        robot, graph = spec.robot, Graph()
        self.spec, self.graph, self.substitution = spec, graph, substitution
        self.anchors, self.regrouped = anchors, regrouped
        self.q, self.qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
        y = graph.inputs(spec.n_readings)
        weight = graph.inputs(spec.n_readings) if spec.switchable else y
        self.y, self.weight = spec.all_rows(y), spec.all_rows(weight, 1.0)
        kept = {
            t.unknown.body
            for block in spec.equations
            for t in block.terms
            if t.unknown.kind == "joint_wrench"
        }
        if "joint_wrench" in (*spec.outputs, *spec.uncertainty) or not regrouped:
            kept = set(range(robot.n_bodies))
        moved = frozenset(set(range(robot.n_bodies)) - kept)
        self.mechanism = reframe(robot, regroup=moved)
        self.X_up = transforms(self.mechanism, self.q)
        self.response = Response(self.mechanism, self.X_up, substitution.directions(anchors))
        self._known()
        self.samples = spec.samples(SAMPLES, 0)
        self.rows = self._rows()
        self._drop_zeros()

    @cached_property
    def kin(self) -> Kinematics:
        """Transforms and velocities in the robot's own frames."""
        return Kinematics.at(self.spec.robot, self.q, self.qd)

    def _known(self) -> None:
        """Qdd and external wrenches where p = 0."""
        spec, part = self.spec, self.substitution
        rhs: dict[int, Any] = {}
        substituted, start = {r for r, _ in part.pairs}, 0
        for block in spec.equations:
            numbers = range(start, start + block.size)
            start += block.size
            if substituted.isdisjoint(numbers):
                continue
            bias = np.zeros(block.size) if block.bias is None else block.bias_at(self.kin)
            for r, b in zip(numbers, bias, strict=True):
                rhs[r] = self.y[r] - b
        z0, _ = part.solved(rhs)
        self.qdd = np.zeros(spec.robot.nv, dtype=object)
        self.f_ext = np.zeros((spec.robot.n_bodies, 6), dtype=object)
        for c, value in z0.items():
            if c in part.freedom:
                self.qdd[part.freedom[c]] = value
            else:
                self.f_ext[part.wrench[c]] = value

    # ---- d0: RNEA ------------------------------------------------------------------------

    @cached_property
    def motions(self) -> list[BodyMotion]:
        """Motion of every stage where p = 0."""
        return body_motions(self.mechanism, self.X_up, self.qd, self.qdd)

    @cached_property
    def f(self) -> list[ScalarArray]:
        """Wrench (6,) through the joint of every stage where p = 0."""
        mechanism = self.mechanism
        f = [
            newton_euler(moments, body.a, body.U)
            for moments, body in zip(mechanism.moments, self.motions, strict=True)
        ]
        for body, stage in enumerate(mechanism.place):
            f[stage] = f[stage] - mechanism.wrench_to_new(body, self.f_ext[body])
        for k in reversed(range(mechanism.n_bodies)):
            if (parent := int(mechanism.parent[k])) >= 0:
                f[parent] = f[parent] + self.X_up[k].force_back(f[k])
        return f

    def classical(self, body: int) -> ScalarArray:
        """Angular and classical linear acceleration (6,) in the body's own frame, p = 0."""
        X, at = self.mechanism.to_new[body], self.motions[self.mechanism.place[body]]
        origin = at.a - at.U @ (X.E @ X.r)
        return np.concatenate([X.E.T @ at.wd, X.E.T @ origin])

    def turning(self, body: int) -> ScalarArray:
        """Classical minus spatial acceleration (6,): w x v."""
        w, v = np.split(self.kin.velocity[body], 2)
        return np.concatenate([np.zeros(3), cross(w, v)])

    # ---- forms of all unknowns -----------------------------------------------------------

    def form(self, term: Term) -> Form:
        """A coefficient times its unknown, as affine numbers of p."""
        kind, body = term.unknown.kind, term.unknown.body
        if term.is_constant:
            C = _constant(term)
        else:
            value = term.at(self.kin)
            C = np.zeros(term.pattern.shape, dtype=object)
            C[term.pattern] = value[term.pattern]
        return {
            "qdd": self._qdd,
            "external_wrench": self._external,
            "acceleration": self._acceleration,
            "net_wrench": self._net_wrench,
            "joint_wrench": self._joint_wrench,
            "torque": self._torque,
        }[kind](C, body)

    def _numbered(self, columns: Iterable[tuple[int, ScalarArray | None]], C: Any) -> Any:
        return {k: C @ x for k, x in columns if x is not None}

    def _qdd(self, C: ScalarArray, body: int) -> Form:
        freedoms = self.spec.unknowns.freedoms[body]
        columns = {}
        for k, direction in enumerate(self.response.directions):
            unit = np.zeros(self.spec.robot.nv)
            for freedom, x in direction.qdd.items():
                unit[freedom] = x
            if unit[freedoms].any():
                columns[k] = C @ unit[freedoms]
        return C @ self.qdd[freedoms], columns

    def _external(self, C: ScalarArray, body: int) -> Form:
        columns = {}
        for k, direction in enumerate(self.response.directions):
            if direction.source == body:
                stage = self.mechanism.place[body]
                arriving = self.response.wrench(k, stage)
                if arriving is not None:
                    columns[k] = -(C @ self.mechanism.to_new[body].force_back(arriving))
            elif direction.source < 0 and body in direction.wrench:
                columns[k] = C @ direction.wrench[body]
        return C @ self.f_ext[body], columns

    def _acceleration(self, C: ScalarArray, body: int) -> Form:
        stage = self.mechanism.place[body]
        back = C @ self.mechanism.to_new[body].inverse().matrix()
        columns = (
            (k, self.response.motion(k, stage)) for k in range(len(self.response.directions))
        )
        constant = C @ self.classical(body) - C @ self.turning(body)
        return constant, self._numbered(columns, back)

    def _net_wrench(self, C: ScalarArray, body: int) -> Form:
        inertia = self.spec.robot.bodies[body].inertia.matrix()
        constant, columns = self._acceleration(C @ inertia, body)
        v = self.kin.velocity[body]
        return constant + C @ cross_force(v, inertia @ v), columns

    def _joint_wrench(self, C: ScalarArray, body: int) -> Form:
        stage = self.mechanism.place[body]
        back = C @ self.mechanism.to_new[body].matrix().T
        columns = (
            (k, self.response.joint_wrench(k, stage))
            for k in range(len(self.response.directions))
        )
        return back @ self.f[stage], self._numbered(columns, back)

    def _torque(self, C: ScalarArray, body: int) -> Form:
        layout, mechanism = self.spec.unknowns, self.mechanism
        rotor = np.diag(self.spec.robot.armature[layout.freedoms[body]])
        constant, columns = (
            self._qdd(C @ rotor, body) if rotor.any() else (np.zeros(len(C)), {})
        )
        if self.spec.robot.joint_friction is not None:
            constant = constant + C @ self.kin.friction[layout.freedoms[body]]
        for j in layout.driven[body]:
            stage = mechanism.place[j]
            S = mechanism.motion_subspace[stage]
            constant = constant + C @ (S.T @ self.f[stage])
            for k in range(len(self.response.directions)):
                x = self.response.torque(k, stage)
                if x is not None:
                    columns[k] = columns[k] + C @ x if k in columns else C @ x
        return constant, columns

    # ---- the small system ----------------------------------------------------------------

    def _rows(self) -> dict[int, LinearRow]:
        rows: dict[int, LinearRow] = {}
        seeing = set(self.spec.seeing.tolist())
        substituted, start = {r for r, _ in self.substitution.pairs}, 0
        for block in self.spec.equations:
            numbers = range(start, start + block.size)
            start += block.size
            if substituted.issuperset(seeing.intersection(numbers)):
                continue
            constant = np.zeros(block.size) if block.bias is None else block.bias_at(self.kin)
            columns: dict[int, ScalarArray] = {}
            for term in block.terms:
                value, parts = self.form(term)
                constant = constant + value
                for k, x in parts.items():
                    columns[k] = columns[k] + x if k in columns else x
            for i, r in enumerate(numbers):
                if r in seeing and r not in substituted:
                    entries = {k: x[i] for k, x in columns.items()}
                    name = f"{block.name}[{i}]"
                    rows[r] = LinearRow(name, 0, entries, constant[i] - self.y[r])
        return rows

    def _drop_zeros(self) -> None:
        """Coefficients that vanish at every state go."""
        places = [(r, k) for r, row in self.rows.items() for k in row.coefficients]
        scalars = [self.rows[r].coefficients[k] for r, k in places]
        found = simplify(self.graph.program(scalars), self.samples[:SIMPLIFY_SAMPLES])
        for (r, k), ref in zip(places, found.outputs.tolist(), strict=True):
            if ref == 0:
                del self.rows[r].coefficients[k]

    # ---- answers -------------------------------------------------------------------------

    def answers(self, p: Sequence[Any]) -> dict[str, Any]:
        """Outputs of unknowns, flattened, by name."""
        spec, mechanism = self.spec, self.mechanism
        values = self.response.values(p)
        qdd = self.qdd.copy()
        for k, direction in enumerate(self.response.directions):
            for freedom, x in direction.qdd.items():
                qdd[freedom] = qdd[freedom] + p[k] * x
        found: dict[str, Any] = {"qdd": qdd}
        if "torque" in spec.outputs:
            found["torque"] = self._torques(values, qdd)
        bodies = range(spec.robot.n_bodies)
        if "external_wrench" in spec.outputs:
            found["external_wrench"] = np.concatenate(
                [self.f_ext[b] + self.response.external_wrench(b, p) for b in bodies]
            )
        if "acceleration" in spec.outputs:
            parts = []
            for b in bodies:
                a, m = self.classical(b) - self.turning(b), values.m[mechanism.place[b]]
                parts.append(a if m is None else a + mechanism.to_new[b].inverse().motion(m))
            found["acceleration"] = np.concatenate(parts)
        if "joint_wrench" in spec.outputs:
            found["joint_wrench"] = np.concatenate(
                [mechanism.to_new[b].force_back(self._through(b, values)) for b in bodies]
            )
        return found

    def _through(self, body: int, values: Values) -> ScalarArray:
        """Wrench (6,) through a joint."""
        stage = self.mechanism.place[body]
        f, m, e = self.f[stage], values.m[stage], values.e[stage]
        if m is not None:
            f = f + self.response.composite(stage).matrix() @ m
        return f if e is None else f + e

    def _torques(self, values: Values, qdd: ScalarArray) -> ScalarArray:
        mechanism = self.mechanism
        torque = self.spec.robot.armature * qdd + self.kin.friction
        for stage in mechanism.place:
            freedoms, S = mechanism.v_slices()[stage], mechanism.motion_subspace[stage]
            if not S.shape[1]:
                continue
            total = S.T @ self.f[stage]
            m, e = values.m[stage], values.e[stage]
            if m is not None:
                total = total + self.response.unit(stage).T @ m
            if e is not None:
                total = total + S.T @ e
            torque[freedoms] = torque[freedoms] + total
        return torque
