"""Motion and inertia of all bodies in one common frame, as compiled loops.

World axes, at a point o near the robot. There the motion of freedom k is one vector W_k (6), a
body's inertia is ten numbers, and nothing has to be transformed from body to body:

    v_i = v_parent + sum W_k qd_k             a_i = a_parent + sum v_i x (W_k qd_k)
    f_i = I_i a_i + v_i x* (I_i v_i)          bias_k = W_k . (sum of f over the subtree)
    H_kj = W_j . (Ic_i W_k)                   row of a point p along n: W_k . ((p - o) x n, n)

([RBDA] sections 5.3, 6.2, in fixed coordinates.) The point o is the mean of the bodies'
origins, so that numbers stay small wherever the robot is.

Total momentum. For a tree whose root joint is free, momentum and centre of mass are those of
its bodies together; the generalised impulse at the six freedoms of the root is the total
impulse on the tree, seen in the root's frame.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.loops.flat import FlatRobot, Model, Work
from dynsys.loops.rotations import own_transforms, place_bodies
from dynsys.loops.tree_state import compose
from dynsys.types import Array, IntArray

__all__ = [
    "Bodies",
    "Motion",
    "bias_forces",
    "bodies_of",
    "body_velocities",
    "fill_inertia",
    "motion_of",
    "move",
    "point_row",
    "potential_and_kinetic",
    "tree_momentum",
]


class Bodies(NamedTuple):
    """What is constant: topology, subspaces and masses, in the robot's own frames."""

    parent: IntArray  # (N,)
    first: IntArray  # (N + 1,) freedoms of body i are first[i] .. first[i + 1] - 1
    freedom_parent: IntArray  # (nv,)
    last: IntArray  # (N,) last freedom that moves each body, -1 if none does
    S: Array  # (nv, 6)
    mass: Array  # (N,)
    moment: Array  # (N, 3) mass times centre
    second: Array  # (N, 3, 3) rotational inertia about the body's origin
    armature: Array  # (nv,)
    gravity: Array  # (3,)
    tree: IntArray  # (N,) number of the free tree a body belongs to, -1 if its root is not free
    root: IntArray  # (T,) root body of each free tree
    root_E: Array  # (T, 3, 3) base -> axes in which its joint counts positions


class Motion(NamedTuple):
    """What is found at a state; one per thread."""

    origin: Array  # (3,) the point o
    E: Array  # (N, 3, 3) base -> body
    r: Array  # (N, 3) origin of the body, base coordinates
    W: Array  # (nv, 6) motion of each freedom
    velocity: Array  # (N, 6)
    inertia: Array  # (N, 10) mass, moment, xx xy xz yy yz zz about o
    composite: Array  # (N, 10)
    wrench: Array  # (N, 6)
    acceleration: Array  # (N, 6)
    bias: Array  # (nv,)
    total: Array  # (T, 16) of each free tree: mass, centre, P, L about the centre, inertia


def bodies_of(flat: FlatRobot) -> Bodies:
    """Arrays of a robot without coupled joints; ModelError if it has some."""
    robot, tree = flat.robot, flat.tree
    n = robot.n_bodies
    roots: list[int] = []
    number = np.full(n, -1, dtype=np.intp)
    for i in range(n):
        parent = int(robot.parent[i])
        freedoms = slice(tree.first[i], tree.first[i + 1])
        free = flat.integers[i + 1, at.KIND] == at.FREE
        if parent >= 0:
            number[i] = number[parent]
        elif free and not tree.armature[freedoms].any():
            number[i] = len(roots)
            roots.append(i)
    return Bodies(
        tree.parent,
        tree.first,
        tree.freedom_parent,
        tree.last,
        tree.S,
        np.ascontiguousarray(tree.inertia[:, 3, 3]),
        np.ascontiguousarray(tree.inertia[:, [2, 0, 1], [4, 5, 3]]),  # from the block m [c]x
        np.ascontiguousarray(tree.inertia[:, :3, :3]),
        tree.armature,
        np.array(robot.gravity),
        number,
        np.array(roots, dtype=np.intp),
        np.array([robot.bodies[i].placement.E for i in roots]).reshape(-1, 3, 3),
    )


def motion_of(bodies: Bodies) -> Motion:
    """Workspace for one thread."""
    n, nv = len(bodies.parent), len(bodies.S)
    return Motion(
        np.zeros(3),
        np.zeros((n, 3, 3)),
        np.zeros((n, 3)),
        np.zeros((nv, 6)),
        np.zeros((n, 6)),
        np.zeros((n, 10)),
        np.zeros((n, 10)),
        np.zeros((n, 6)),
        np.zeros((n, 6)),
        np.zeros(nv),
        np.zeros((len(bodies.root), 16)),
    )


@fused
def move(robot: Model, store: Work, bodies: Bodies, motion: Motion, q: Array) -> None:
    """Poses, motions W of the freedoms and inertias of the bodies at q."""
    for k in range(len(q)):
        store.position[k] = q[k]
    place_bodies(robot, store)
    E, r, o = motion.E, motion.r, motion.origin
    own_transforms(robot, store, E, r)
    compose(bodies.parent, E, r)
    n = len(r)
    ox = oy = oz = 0.0
    for i in range(n):
        ox, oy, oz = ox + r[i, 0], oy + r[i, 1], oz + r[i, 2]
    ox, oy, oz = ox / n, oy / n, oz / n
    o[0], o[1], o[2] = ox, oy, oz
    W, S, I = motion.W, bodies.S, motion.inertia
    second, moment, mass = bodies.second, bodies.moment, bodies.mass
    for i in range(n):
        dx, dy, dz = r[i, 0] - ox, r[i, 1] - oy, r[i, 2] - oz
        e00, e01, e02 = E[i, 0, 0], E[i, 0, 1], E[i, 0, 2]
        e10, e11, e12 = E[i, 1, 0], E[i, 1, 1], E[i, 1, 2]
        e20, e21, e22 = E[i, 2, 0], E[i, 2, 1], E[i, 2, 2]
        for k in range(bodies.first[i], bodies.first[i + 1]):
            a, b, c = S[k, 0], S[k, 1], S[k, 2]
            w0 = e00 * a + e10 * b + e20 * c
            w1 = e01 * a + e11 * b + e21 * c
            w2 = e02 * a + e12 * b + e22 * c
            a, b, c = S[k, 3], S[k, 4], S[k, 5]
            W[k, 0], W[k, 1], W[k, 2] = w0, w1, w2
            W[k, 3] = e00 * a + e10 * b + e20 * c + dy * w2 - dz * w1
            W[k, 4] = e01 * a + e11 * b + e21 * c + dz * w0 - dx * w2
            W[k, 5] = e02 * a + e12 * b + e22 * c + dx * w1 - dy * w0
        # ten numbers of the body: I turned, + 2 (d.h) - d h' - h d' + m ((d.d) - d d')
        a, b, c = moment[i, 0], moment[i, 1], moment[i, 2]
        hx, hy = e00 * a + e10 * b + e20 * c, e01 * a + e11 * b + e21 * c
        hz = e02 * a + e12 * b + e22 * c
        xx, xy, xz = second[i, 0, 0], second[i, 0, 1], second[i, 0, 2]
        yy, yz, zz = second[i, 1, 1], second[i, 1, 2], second[i, 2, 2]
        a0, b0, c0 = _product(xx, xy, xz, yy, yz, zz, e00, e10, e20)
        a1, b1, c1 = _product(xx, xy, xz, yy, yz, zz, e01, e11, e21)
        a2, b2, c2 = _product(xx, xy, xz, yy, yz, zz, e02, e12, e22)
        half = 0.5 * mass[i]
        gx, gy, gz = hx + half * dx, hy + half * dy, hz + half * dz
        along = 2.0 * (dx * gx + dy * gy + dz * gz)
        I[i, 4] = a0 * e00 + b0 * e10 + c0 * e20 + along - 2.0 * dx * gx
        I[i, 5] = a0 * e01 + b0 * e11 + c0 * e21 - dx * gy - dy * gx
        I[i, 6] = a0 * e02 + b0 * e12 + c0 * e22 - dx * gz - dz * gx
        I[i, 7] = a1 * e01 + b1 * e11 + c1 * e21 + along - 2.0 * dy * gy
        I[i, 8] = a1 * e02 + b1 * e12 + c1 * e22 - dy * gz - dz * gy
        I[i, 9] = a2 * e02 + b2 * e12 + c2 * e22 + along - 2.0 * dz * gz
        I[i, 0], I[i, 1] = mass[i], hx + mass[i] * dx
        I[i, 2], I[i, 3] = hy + mass[i] * dy, hz + mass[i] * dz


@inlined
def _product(
    xx: float,
    xy: float,
    xz: float,
    yy: float,
    yz: float,
    zz: float,
    x: float,
    y: float,
    z: float,
) -> tuple[float, float, float]:
    """Symmetric matrix times (x, y, z)."""
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z


@inlined
def _times(I: Array, x: Array, out: Array) -> None:
    """I x (6,): angular part I w + h x v, linear part m v - h x w."""
    m, hx, hy, hz = I[0], I[1], I[2], I[3]
    w0, w1, w2, v0, v1, v2 = x[0], x[1], x[2], x[3], x[4], x[5]
    out[0] = I[4] * w0 + I[5] * w1 + I[6] * w2 + hy * v2 - hz * v1
    out[1] = I[5] * w0 + I[7] * w1 + I[8] * w2 + hz * v0 - hx * v2
    out[2] = I[6] * w0 + I[8] * w1 + I[9] * w2 + hx * v1 - hy * v0
    out[3] = m * v0 - hy * w2 + hz * w1
    out[4] = m * v1 - hz * w0 + hx * w2
    out[5] = m * v2 - hx * w1 + hy * w0


@fused
def body_velocities(bodies: Bodies, motion: Motion, v: Array) -> None:
    """Velocity (6,) of every body at o."""
    velocity = motion.velocity
    for i in range(len(velocity)):
        p = bodies.parent[i]
        for m in range(6):
            velocity[i, m] = velocity[p, m] if p >= 0 else 0.0
        for k in range(bodies.first[i], bodies.first[i + 1]):
            for m in range(6):
                velocity[i, m] += motion.W[k, m] * v[k]


@fused
def bias_forces(bodies: Bodies, motion: Motion, v: Array, external: Array) -> None:
    """Torques ``bias`` that hold qdd = 0 at v under gravity and wrenches (N, 6), own frames."""
    velocity, a, f = motion.velocity, motion.acceleration, motion.wrench
    product, momentum = np.empty(6), np.empty(6)
    body_velocities(bodies, motion, v)
    n = len(f)
    for i in range(n):
        p = bodies.parent[i]
        for m in range(3):
            a[i, m] = a[p, m] if p >= 0 else 0.0
            a[i, m + 3] = a[p, m + 3] if p >= 0 else -bodies.gravity[m]
        w0, w1, w2 = velocity[i, 0], velocity[i, 1], velocity[i, 2]
        u0, u1, u2 = velocity[i, 3], velocity[i, 4], velocity[i, 5]
        for k in range(bodies.first[i], bodies.first[i + 1]):
            W, rate = motion.W[k], v[k]
            a[i, 0] += rate * (w1 * W[2] - w2 * W[1])
            a[i, 1] += rate * (w2 * W[0] - w0 * W[2])
            a[i, 2] += rate * (w0 * W[1] - w1 * W[0])
            a[i, 3] += rate * (w1 * W[5] - w2 * W[4] + u1 * W[2] - u2 * W[1])
            a[i, 4] += rate * (w2 * W[3] - w0 * W[5] + u2 * W[0] - u0 * W[2])
            a[i, 5] += rate * (w0 * W[4] - w1 * W[3] + u0 * W[1] - u1 * W[0])
        _times(motion.inertia[i], a[i], product)
        _times(motion.inertia[i], velocity[i], momentum)
        n0, n1, n2, p0, p1, p2 = (
            momentum[0],
            momentum[1],
            momentum[2],
            momentum[3],
            momentum[4],
            momentum[5],
        )
        f[i, 0] = product[0] + w1 * n2 - w2 * n1 + u1 * p2 - u2 * p1
        f[i, 1] = product[1] + w2 * n0 - w0 * n2 + u2 * p0 - u0 * p2
        f[i, 2] = product[2] + w0 * n1 - w1 * n0 + u0 * p1 - u1 * p0
        f[i, 3] = product[3] + w1 * p2 - w2 * p1
        f[i, 4] = product[4] + w2 * p0 - w0 * p2
        f[i, 5] = product[5] + w0 * p1 - w1 * p0
    if len(external) > 0:
        for i in range(n):
            _push(motion, i, external[i], f[i])
    for i in range(n - 1, -1, -1):
        for k in range(bodies.first[i], bodies.first[i + 1]):
            total = 0.0
            for m in range(6):
                total += motion.W[k, m] * f[i, m]
            motion.bias[k] = total
        p = bodies.parent[i]
        if p >= 0:
            for m in range(6):
                f[p, m] += f[i, m]


@inlined
def _push(motion: Motion, i: int, own: Array, f: Array) -> None:
    """Take a wrench (6,) in the frame of body i off f (6,), about o in world axes."""
    E, r, o = motion.E[i], motion.r[i], motion.origin
    fx = E[0, 0] * own[3] + E[1, 0] * own[4] + E[2, 0] * own[5]
    fy = E[0, 1] * own[3] + E[1, 1] * own[4] + E[2, 1] * own[5]
    fz = E[0, 2] * own[3] + E[1, 2] * own[4] + E[2, 2] * own[5]
    dx, dy, dz = r[0] - o[0], r[1] - o[1], r[2] - o[2]
    f[0] -= E[0, 0] * own[0] + E[1, 0] * own[1] + E[2, 0] * own[2] + dy * fz - dz * fy
    f[1] -= E[0, 1] * own[0] + E[1, 1] * own[1] + E[2, 1] * own[2] + dz * fx - dx * fz
    f[2] -= E[0, 2] * own[0] + E[1, 2] * own[1] + E[2, 2] * own[2] + dx * fy - dy * fx
    f[3] -= fx
    f[4] -= fy
    f[5] -= fz


@fused
def fill_inertia(bodies: Bodies, motion: Motion, added: Array, H: Array) -> None:
    """Lower triangle of H (nv, nv), armature and ``added`` (nv,) on its diagonal."""
    composite, force = motion.composite, np.empty(6)
    n = len(composite)
    for i in range(n):
        for m in range(10):
            composite[i, m] = motion.inertia[i, m]
    for i in range(n - 1, -1, -1):
        p = bodies.parent[i]
        if p >= 0:
            for m in range(10):
                composite[p, m] += composite[i, m]
        for k in range(bodies.first[i], bodies.first[i + 1]):
            _times(composite[i], motion.W[k], force)
            j = k
            while j >= 0:
                W = motion.W[j]
                H[k, j] = (
                    W[0] * force[0]
                    + W[1] * force[1]
                    + W[2] * force[2]
                    + W[3] * force[3]
                    + W[4] * force[4]
                    + W[5] * force[5]
                )
                j = bodies.freedom_parent[j]
            H[k, k] += bodies.armature[k] + added[k]


@fused
def point_row(
    bodies: Bodies, motion: Motion, tip: int, p: Array, along: Array, sign: float, row: Array
) -> None:
    """Add sign times the velocity of point p along a direction, per qd, to a row (nv,)."""
    o = motion.origin
    ax, ay, az = p[0] - o[0], p[1] - o[1], p[2] - o[2]
    nx, ny, nz = sign * along[0], sign * along[1], sign * along[2]
    mx, my, mz = ay * nz - az * ny, az * nx - ax * nz, ax * ny - ay * nx
    k = tip
    while k >= 0:
        W = motion.W[k]
        row[k] += W[0] * mx + W[1] * my + W[2] * mz + W[3] * nx + W[4] * ny + W[5] * nz
        k = bodies.freedom_parent[k]


@fused
def tree_momentum(bodies: Bodies, motion: Motion) -> None:
    """Mass, centre, momentum and inertia about the centre of every free tree, at velocity."""
    total, product = motion.total, np.empty(6)
    for t in range(len(total)):
        for m in range(16):
            total[t, m] = 0.0
    for i in range(len(motion.velocity)):
        t = bodies.tree[i]
        if t >= 0:
            _times(motion.inertia[i], motion.velocity[i], product)
            total[t, 0] += motion.inertia[i, 0]
            for m in range(3):
                total[t, 1 + m] += motion.inertia[i, 1 + m]
                total[t, 4 + m] += product[3 + m]
                total[t, 7 + m] += product[m]
            for m in range(6):
                total[t, 10 + m] += motion.inertia[i, 4 + m]
    for t in range(len(total)):
        T = total[t]
        if T[0] > 0.0:
            cx, cy, cz = T[1] / T[0], T[2] / T[0], T[3] / T[0]
            T[7] -= cy * T[6] - cz * T[5]
            T[8] -= cz * T[4] - cx * T[6]
            T[9] -= cx * T[5] - cy * T[4]
            T[10] -= T[0] * (cy * cy + cz * cz)
            T[11] += T[0] * cx * cy
            T[12] += T[0] * cx * cz
            T[13] -= T[0] * (cx * cx + cz * cz)
            T[14] += T[0] * cy * cz
            T[15] -= T[0] * (cx * cx + cy * cy)
            T[1] = cx + motion.origin[0]
            T[2] = cy + motion.origin[1]
            T[3] = cz + motion.origin[2]


@fused
def potential_and_kinetic(bodies: Bodies, motion: Motion, v: Array) -> float:
    """Energy at velocities in ``motion``: v' H v / 2 - sum m g . c, zero at the origin."""
    g, o, product, energy = bodies.gravity, motion.origin, np.empty(6), 0.0
    for i in range(len(motion.velocity)):
        I = motion.inertia[i]
        for m in range(3):
            energy -= g[m] * (I[1 + m] + I[0] * o[m])
        _times(I, motion.velocity[i], product)
        for m in range(6):
            energy += 0.5 * motion.velocity[i, m] * product[m]
    for k in range(len(v)):
        energy += 0.5 * bodies.armature[k] * v[k] * v[k]
    return energy
