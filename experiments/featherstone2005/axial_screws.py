"""Axial-screw arithmetic: the cost models of [BIS] section 5 and [OSI] table 4, executable.

The papers quote operation counts of transforms made of axial screws (a turn about and a shift
along one frame axis). Here the transforms are written so that, run over counting scalars, they
execute exactly those counts. A plain number 0 stands for an element known to be zero: it costs
nothing. Screws lead from the parent to the child; forces and inertias travel back. A
:class:`ScrewRobot` is a robot in such screws, with the papers' algorithms run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.model.joints import Free, Revolute
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, KinematicTree
from dynsys.operational.methods.rjk import Kind, needed_blocks, plan_blocks
from dynsys.types import Array, ScalarArray
from experiments.counting import Counted, OperationCount, Tally
from experiments.featherstone2005.counts import dh_nodes

__all__ = [
    "Rigid",
    "Screw",
    "ScrewRobot",
    "Trigonometry",
    "add",
    "congruence",
    "constant_angle",
    "dot_tau",
    "force_back",
    "general_force_back",
    "general_motion",
    "mobility_forward",
    "motion_forward",
    "propagator",
    "rigid_back",
    "times_tau",
    "without_joint",
]

Scalars: TypeAlias = Callable[[Any], ScalarArray]
"""Makes scalars, counting ones or nodes of a graph, of an array of numbers."""


class Trigonometry(NamedTuple):
    """Cosine, sine and their products: s^2, c s, 2 c s, c^2 - s^2."""

    c: Any
    s: Any
    ss: Any
    cs: Any
    double_cs: Any
    cos2: Any

    @staticmethod
    def of(c: Any, s: Any) -> Trigonometry:
        """Products for an angle that changes: 2m + 3a."""
        ss, cs = s * s, c * s
        return Trigonometry(c, s, ss, cs, cs + cs, 1 - (ss + ss))

    def turned_back(self) -> Trigonometry:
        """The same for the opposite angle, free of cost."""
        return self._replace(s=-self.s, cs=-self.cs, double_cs=-self.double_cs)


def constant_angle(angle: float) -> Trigonometry:
    """Products for an angle that does not change, as plain numbers: no operation."""
    c, s = float(np.cos(angle)), float(np.sin(angle))
    return Trigonometry(c, s, s * s, c * s, 2 * c * s, c * c - s * s)


class Screw(NamedTuple):
    """Turn about frame axis 0 or 2 and shift by ``distance`` along it (0: none)."""

    axis: int
    angle: Trigonometry
    distance: float

    def others(self) -> tuple[int, int]:
        """The two axes that mix."""
        return (self.axis + 1) % 3, (self.axis + 2) % 3

    def inverse(self) -> Screw:
        """Screw back from the child to the parent."""
        return Screw(self.axis, self.angle.turned_back(), -self.distance)

    def transform(self) -> Transform:
        """The same as a transform."""
        i, j = self.others()
        c, s = self.angle.c, self.angle.s
        E, r = np.eye(3, dtype=np.asarray(c).dtype), np.zeros(3)
        E[i, i], E[i, j], E[j, i], E[j, j] = c, s, -s, c
        r[self.axis] = self.distance
        return Transform(E, r)


def known_zero(x: Any) -> bool:
    """Whether x is the plain number 0."""
    return isinstance(x, (int, float)) and x == 0


def add(x: Any, y: Any) -> Any:
    """x + y; free where one of them is known to be zero."""
    return y if known_zero(x) else x if known_zero(y) else x + y


def sub(x: Any, y: Any) -> Any:
    """x - y; free where one of them is known to be zero."""
    return x if known_zero(y) else -y if known_zero(x) else x - y


def mul(x: Any, y: Any) -> Any:
    """x y; free where one of them is known to be zero."""
    return 0 if known_zero(x) or known_zero(y) else x * y


# ---- vectors -----------------------------------------------------------------------------


def _turn_back(v: ScalarArray, screw: Screw) -> ScalarArray:
    i, j = screw.others()
    c, s = screw.angle.c, screw.angle.s
    out = v.copy()
    out[i] = sub(mul(c, v[i]), mul(s, v[j]))
    out[j] = add(mul(s, v[i]), mul(c, v[j]))
    return out


def force_back(f: ScalarArray, screw: Screw) -> ScalarArray:
    """Force (6,) from child to parent: 10m + 6a, 8m + 4a without shift."""
    i, j = screw.others()
    moment, force = _turn_back(f[:3], screw), _turn_back(f[3:], screw)
    if screw.distance != 0:
        moment[i] = sub(moment[i], mul(screw.distance, force[j]))
        moment[j] = add(moment[j], mul(screw.distance, force[i]))
    return np.concatenate([moment, force])


def motion_forward(v: ScalarArray, screw: Screw) -> ScalarArray:
    """Motion (6,) from parent to child: 10m + 6a, by duality of the force's way back."""
    swapped = force_back(np.concatenate([v[3:], v[:3]]), screw.inverse())
    return np.concatenate([swapped[3:], swapped[:3]])


def general_force_back(f: ScalarArray, E: ScalarArray, r: ScalarArray) -> ScalarArray:
    """Force (6,) from child to parent by rotation matrix and cross product: 24m + 18a."""
    moment, force = np.dot(E.T, f[:3]), np.dot(E.T, f[3:])
    cross = [
        r[(k + 1) % 3] * force[(k + 2) % 3] - r[(k + 2) % 3] * force[(k + 1) % 3]
        for k in range(3)
    ]
    return np.concatenate([[moment[k] + cross[k] for k in range(3)], force])


def general_motion(v: ScalarArray, E: ScalarArray, back: ScalarArray) -> ScalarArray:
    """Motion (6,) from parent to child likewise: 24m + 18a; ``back`` (3,) is -E r."""
    swapped = general_force_back(np.concatenate([v[3:], v[:3]]), E.T, back)
    return np.concatenate([swapped[3:], swapped[:3]])


# ---- rigid-body inertias -----------------------------------------------------------------


class Rigid(NamedTuple):
    """Mass, first moment (3,) and rotational inertia (3, 3) about the origin."""

    mass: Any
    h: ScalarArray
    I: ScalarArray

    def plus(self, other: Rigid) -> Rigid:
        """ra of [BIS]: 10a."""
        I = self.I.copy()
        for a in range(3):
            for b in range(a + 1):
                I[a, b] = I[b, a] = self.I[a, b] + other.I[a, b]
        h = np.array([self.h[k] + other.h[k] for k in range(3)])
        return Rigid(self.mass + other.mass, h, I)

    def column(self, k: int) -> ScalarArray:
        """Force (6,) for unit angular acceleration about axis k: a column, no operation."""
        i, j = (k + 1) % 3, (k + 2) % 3
        linear = np.zeros(3, dtype=object)
        linear[i], linear[j] = -self.h[j], self.h[i]
        return np.concatenate([self.I[:, k], linear])

    def matrix(self) -> ScalarArray:
        """Spatial inertia (6, 6): a rearrangement, no operation."""
        out = np.zeros((6, 6), dtype=object)
        for k in range(3):
            out[:, k] = out[k, :] = self.column(k)
            out[3 + k, 3 + k] = self.mass
        return out


def turn_symmetric(M: ScalarArray, screw: Screw) -> ScalarArray:
    """E^T M E of a symmetric (3, 3) matrix: 8m + 7a."""
    (i, j), k, t = screw.others(), screw.axis, screw.angle
    out = M.copy()
    difference = sub(M[i, i], M[j, j])
    step = add(mul(t.ss, difference), mul(t.double_cs, M[i, j]))
    out[i, i], out[j, j] = sub(M[i, i], step), add(M[j, j], step)
    out[i, j] = out[j, i] = add(mul(t.cs, difference), mul(t.cos2, M[i, j]))
    out[i, k] = out[k, i] = sub(mul(t.c, M[i, k]), mul(t.s, M[j, k]))
    out[j, k] = out[k, j] = add(mul(t.s, M[i, k]), mul(t.c, M[j, k]))
    return out


def rigid_back(body: Rigid, screw: Screw) -> Rigid:
    """rx of [BIS] by one screw: 15m + 15a, 12m + 9a without shift; masses are constants."""
    h, I = _turn_back(body.h, screw), turn_symmetric(body.I, screw)
    d, mass, k = screw.distance, float(body.mass), screw.axis
    if d == 0:
        return Rigid(body.mass, h, I)
    i, j = screw.others()
    grown = (2 * d) * h[k] + mass * d * d
    I[i, i], I[j, j] = I[i, i] + grown, I[j, j] + grown
    I[i, k] = I[k, i] = I[i, k] - d * h[i]
    I[j, k] = I[k, j] = I[j, k] - d * h[j]
    h[k] = h[k] + mass * d
    return Rigid(body.mass, h, I)


# ---- symmetric (6, 6) matrices -----------------------------------------------------------


def turn_general(M: ScalarArray, screw: Screw) -> ScalarArray:
    """E^T M E of any (3, 3) matrix: 12m + 12a."""
    (i, j), k, t = screw.others(), screw.axis, screw.angle
    out = M.copy()
    difference, both = sub(M[i, i], M[j, j]), add(M[i, j], M[j, i])
    along = add(mul(t.ss, difference), mul(t.cs, both))
    across = sub(mul(t.cs, difference), mul(t.ss, both))
    out[i, i], out[j, j] = sub(M[i, i], along), add(M[j, j], along)
    out[i, j], out[j, i] = add(M[i, j], across), add(M[j, i], across)
    out[i, k], out[j, k] = _turn_pair(M[i, k], M[j, k], t)
    out[k, i], out[k, j] = _turn_pair(M[k, i], M[k, j], t)
    return out


def _turn_pair(x: Any, y: Any, t: Trigonometry) -> tuple[Any, Any]:
    return sub(mul(t.c, x), mul(t.s, y)), add(mul(t.s, x), mul(t.c, y))


def congruence(M: ScalarArray, screw: Screw) -> ScalarArray:
    """X^T M X of a symmetric (6, 6) matrix by one screw: 38m + 40a if no element is zero."""
    A, B = turn_symmetric(M[:3, :3], screw), turn_general(M[:3, 3:], screw)
    C = turn_symmetric(M[3:, 3:], screw)
    (i, j), k, d = screw.others(), screw.axis, screw.distance
    dC = {(a, b): mul(d, C[a, b]) for a, b in ((i, i), (i, j), (i, k), (j, j), (j, k))}
    dC[j, i] = dC[i, j]
    moved = B.copy()  # B' = B + [r]x C
    for b in range(3):
        moved[i, b], moved[j, b] = sub(B[i, b], dC[j, b]), add(B[j, b], dC[i, b])
    A[i, i] = sub(A[i, i], mul(d, add(B[i, j], moved[i, j])))
    A[j, j] = add(A[j, j], mul(d, add(B[j, i], moved[j, i])))
    A[i, j] = A[j, i] = add(A[i, j], mul(d, sub(moved[i, i], B[j, j])))
    A[i, k] = A[k, i] = sub(A[i, k], mul(d, B[k, j]))
    A[j, k] = A[k, j] = add(A[j, k], mul(d, B[k, i]))
    return np.block([[A, moved], [moved.T, C]])


def mobility_forward(M: ScalarArray, screw: Screw) -> ScalarArray:
    """X M X^T of a symmetric (6, 6) mobility, parent to child: 38m + 40a, by duality."""
    swap = [3, 4, 5, 0, 1, 2]
    out: ScalarArray = congruence(M[np.ix_(swap, swap)], screw.inverse())[np.ix_(swap, swap)]
    return out


# ---- A robot in axial screws, and the papers' algorithms run on it over counting scalars ----
# Topology as given, joints revolute about z, everything else general. The child of a node that
# gets Denavit-Hartenberg frames is two screws away (x, then z with the joint angle); the others
# are three (z, x, z). The same robot as a KinematicTree checks the answers.

Z = 2
REST = (0, 1, 3, 4, 5)


@final
class ScrewRobot:
    """Floating base (body 0) with revolute joints in screw form.

    ``base_frames`` places the DH child of the floating base right on it (three parameters
    zero), which saves [BIS] eq. (21) some operations; [OSI] table 4 does not make use of it.
    """

    def __init__(self, parent: Sequence[int], *, base_frames: bool, seed: int = 0) -> None:
        if parent[0] != -1 or any(p < 0 for p in parent[1:]):
            raise ValueError("body 0 must be the only one on the base")
        rng = np.random.default_rng(seed)
        self.parent = list(parent)
        self.dh = dh_nodes(np.array(parent))
        n = len(parent)
        twist, turn = rng.uniform(-3, 3, n), rng.uniform(-3, 3, n)
        length, offset, lift = rng.uniform(0.05, 0.4, (3, n))
        self.angles = rng.uniform(-3, 3, n)
        self.inertias = [cloud_inertia(rng) for _ in parent]
        self.constant: list[list[Screw]] = []
        self.shift = offset
        for i, p in enumerate(parent):
            fixed = [Screw(0, constant_angle(twist[i]), float(length[i]))]
            if not self.dh[i]:
                fixed.insert(0, Screw(Z, constant_angle(turn[i]), float(lift[i])))
            elif base_frames and p == 0:
                fixed, self.shift[i] = [], 0.0
            self.constant.append(fixed)

    # ---- the same robot as a model -------------------------------------------------------

    def tree(self) -> KinematicTree:
        """The robot as a KinematicTree; its q is :meth:`q`."""
        bodies = [Body("body_0", -1, Free(), inertia=self.inertias[0])]
        for i in range(1, len(self.parent)):
            placement = Transform.identity()
            for screw in self.constant[i]:
                placement = placement.then(screw.transform())
            placement = placement.then(Transform(np.eye(3), np.array([0, 0, self.shift[i]])))
            bodies.append(
                Body(f"body_{i}", self.parent[i], Revolute(), placement, self.inertias[i])
            )
        return KinematicTree("screws", bodies)

    def q(self) -> Array:
        """Position (nq,) of the tree: the base at the origin, all joints at random angles."""
        return np.concatenate([[0.0, 0, 0, 0, 0, 0, 1.0], self.angles[1:]])

    def joint_screws(self, trigonometry: Sequence[Trigonometry]) -> dict[int, Screw]:
        """Screw of every joint, turned as given for every body."""
        return {
            i: Screw(Z, trigonometry[i], float(self.shift[i]))
            for i in range(1, len(self.parent))
        }

    def known_screws(self) -> dict[int, Screw]:
        """Screw of every joint, its angle and the products of sine and cosine known."""
        return self.joint_screws([constant_angle(angle) for angle in self.angles])

    def _counted_screw(self, i: int, tally: Tally) -> Screw:
        c, s = tally.scalars([np.cos(self.angles[i]), np.sin(self.angles[i])])
        return Screw(Z, Trigonometry.of(c, s), float(self.shift[i]))

    def _general(self, i: int, joint: Screw) -> Transform:
        whole = Transform.identity()
        for screw in (*self.constant[i], joint):
            whole = whole.then(screw.transform())
        return whole

    # ---- [BIS] section 5 -----------------------------------------------------------------

    def inertia_matrix(self) -> tuple[Array, OperationCount]:
        """H by the listing of [BIS] section 5, and the operations it executed."""
        tally = Tally()
        n = len(self.parent)
        screws = {i: self._counted_screw(i, tally) for i in range(1, n)}
        return self.inertia_scalars(tally.scalars, screws).astype(np.float64), tally.count

    def inertia_scalars(self, scalars: Scalars, screws: Mapping[int, Screw]) -> ScalarArray:
        """H (n + 5, n + 5) over any scalars, at joints turned by ``screws``."""
        n = len(self.parent)
        composite = [
            Rigid(scalars([x.mass])[0], scalars(x.first_moment), scalars(x.about_origin))
            for x in self.inertias
        ]
        H = np.zeros((n + 5, n + 5), dtype=object)
        for i in range(n - 1, 0, -1):
            f = scalars(composite[i].column(Z))  # its 0 is not used
            H[i + 5, i + 5] = f[Z]
            moved = rigid_back(composite[i], screws[i])
            for screw in reversed(self.constant[i]):
                moved = rigid_back(moved, screw)
            composite[self.parent[i]] = composite[self.parent[i]].plus(moved)
            j = i
            while j > 0:
                f = self._carry_force(j, f, screws[j])
                j = self.parent[j]
                columns = slice(0, 6) if j == 0 else slice(j + 5, j + 6)
                H[i + 5, columns] = H[columns, i + 5] = f if j == 0 else f[Z]
        H[:6, :6] = composite[0].matrix()
        return H

    def _carry_force(self, j: int, f: ScalarArray, screw: Screw) -> ScalarArray:
        if not self.dh[j]:
            counted = isinstance(screw.angle.c, Counted)  # the matrix itself is not counted
            whole = self._general(j, self.known_screws()[j] if counted else screw)
            return general_force_back(f, whole.E, whole.r)
        for step in (screw, *reversed(self.constant[j])):
            f = force_back(f, step)
        return f

    # ---- [OSI] figure 14 -----------------------------------------------------------------

    def omega(
        self, bodies: Sequence[int], *, as_printed: bool = False
    ) -> tuple[dict[tuple[int, int], Array], OperationCount, OperationCount]:
        """Needed blocks of Omega, and the operations executed for the two halves of the work.

        As the paper counts, the products of sine and cosine are known and the 6x6 inverse of
        the floating base is one division. ``as_printed`` computes the blocks that [OSI] figure
        15 marks to the letter: those that read one it does not mark are wrong.
        """
        tally = Tally()
        screws = self.known_screws()

        def invert(P: ScalarArray) -> ScalarArray:
            tally.divisions += 1
            return tally.scalars(np.linalg.inv(P.astype(np.float64)))

        halves = self.articulate(tally.scalars, screws, invert)
        first_half = tally.count
        blocks = self.propagate(bodies, screws, *halves, as_printed=as_printed)
        values = {pair: block.astype(np.float64) for pair, block in blocks.items()}
        return values, first_half, tally.count - first_half

    def propagate(
        self,
        bodies: Sequence[int],
        screws: Mapping[int, Screw],
        tau: Sequence[ScalarArray],
        inverse: Sequence[Any],
        base: ScalarArray,
        *,
        as_printed: bool = False,
    ) -> dict[tuple[int, int], ScalarArray]:
        """Needed blocks of Omega (6, 6), from what :meth:`articulate` gives."""
        plan = plan_blocks(self.parent, bodies)
        marked = set(needed_blocks(self.parent, bodies, as_printed=as_printed))
        blocks: list[ScalarArray] = []
        for i, j, kind, source in zip(plan.i, plan.j, plan.kind, plan.source, strict=True):
            if source < 0 or (i, j) not in marked:
                blocks.append(base)
            elif kind == Kind.DIAGONAL:
                block = self.diagonal(i, screws[i], blocks[source], tau[i], inverse[i])
                blocks.append(block)
            else:
                block = blocks[source].T if kind == Kind.BRANCHES_TRANSPOSED else blocks[source]
                block = self.carry_rows(j, screws[j], block, tau[j])
                if kind != Kind.SUPPORTING:
                    block = self.carry_rows(i, screws[i], block.T, tau[i]).T
                blocks.append(block)
        return {pair: blocks[k] for pair, k in plan.place.items()}

    def articulate(
        self,
        scalars: Scalars,
        screws: Mapping[int, Screw],
        invert: Callable[[ScalarArray], ScalarArray],
    ) -> tuple[list[ScalarArray], list[Any], ScalarArray]:
        """Column Z of tau-bar and 1 / D of every joint, the inverse (6, 6) at the base."""
        n = len(self.parent)
        P = [scalars(x.matrix()) for x in self.inertias]
        tau: list[ScalarArray] = [np.zeros(6)] * n
        inverse: list[Any] = [0] * n
        for i in range(n - 1, 0, -1):
            inverse[i] = 1 / P[i][Z, Z]
            tau[i] = propagator(P[i], inverse[i])
            Ia = without_joint(P[i], tau[i])
            for screw in (screws[i], *reversed(self.constant[i])):
                Ia = congruence(Ia, screw)
            above = P[self.parent[i]]
            for r in range(6):
                for c in range(r + 1):
                    above[r, c] = above[c, r] = above[r, c] + Ia[r, c]
        return tau, inverse, invert(P[0])

    def diagonal(
        self, i: int, joint: Screw, parent_block: ScalarArray, tau: ScalarArray, inverse: Any
    ) -> ScalarArray:
        """Omega_ii (6, 6) from its parent's: tau^T phi^T Omega phi tau + S D^-1 S^T."""
        block = parent_block
        for screw in (*self.constant[i], joint):
            block = mobility_forward(block, screw)
        column = times_tau(block, tau)
        out = block.copy()
        out[:, Z] = out[Z, :] = column  # its own element Z is replaced next
        out[Z, Z] = dot_tau(tau, column) + inverse
        return out

    def carry_rows(
        self, j: int, joint: Screw, block: ScalarArray, tau: ScalarArray
    ) -> ScalarArray:
        """Block times phi_j tau_j: every row a motion vector."""
        if self.dh[j]:
            rows = list(block)
            for screw in (*self.constant[j], joint):
                rows = [motion_forward(row, screw) for row in rows]
        else:
            whole = self._general(j, joint)
            back = whole.inverse().r
            rows = [general_motion(row, whole.E, back) for row in block]
        out = np.array(rows)
        out[:, Z] = times_tau(out, tau)
        return out


def propagator(P: ScalarArray, inverse: Any) -> ScalarArray:
    """Column Z of tau-bar (6,), its element Z a known zero: 5m."""
    tau = np.zeros(6, dtype=object)
    for r in REST:
        tau[r] = -(P[r, Z] * inverse)
    return tau


def without_joint(P: ScalarArray, tau: ScalarArray) -> ScalarArray:
    """tau-bar P (6, 6), symmetric, row and column Z known to be zero: 15m + 15a."""
    Ia = np.zeros((6, 6), dtype=object)
    for a, r in enumerate(REST):
        for c in REST[: a + 1]:
            Ia[r, c] = Ia[c, r] = P[r, c] + tau[r] * P[Z, c]
    return Ia


def dot_tau(tau: ScalarArray, v: ScalarArray) -> Any:
    """tau . v over the five elements of tau that are not zero: 5m + 4a."""
    total = tau[0] * v[0]
    for k in (1, 3, 4, 5):
        total = total + tau[k] * v[k]
    return total


def times_tau(block: ScalarArray, tau: ScalarArray) -> ScalarArray:
    """Column Z of block times tau-bar (6,): 30m + 24a."""
    return np.array([dot_tau(tau, row) for row in block])
