"""One step of time, compiled: free motion, impulses, positions, momentum.

    v' = v + dt M^-1 (torque - bias(v_m)) + M^-1 J^T x          M, bias and J at q_m

| scheme        | q_m              | v_m            | q'                       | order |
|---------------|------------------|----------------|--------------------------|-------|
| midpoint      | q after dt/2 v   | (v + v') / 2   | q_m after dt/2 v'        | 2     |
| semi_implicit | q                | v              | q after dt v'            | 1     |
| explicit      | q                | v              | q after dt v             | 1     |

"after" follows the exponential map of the joints. The midpoint rule is the symmetric one; v_m
is found by two passes, which keeps its order. Where its end would lie below the ground or
beyond a limit (an impact: v and v' differ by a jump) the step ends at q after dt v' instead,
which the impulses x were made for. Contact and limits reduce the order to one at such steps.

**Momentum.** Schemes in joint coordinates lose it: a free body that spins changes its speed,
because the axes that its velocity refers to turn within the step. The total momentum of a tree
with a free root obeys a law of its own,

    P' = P + f + m g dt,    L' = L + n      f, n: impulses about the centre of mass at q_m

with L about the centre of mass, and the centre moves by dt (P + P') / 2 m. At the end of a step
the whole tree is moved and set in motion, as if it were one rigid body, by what is missing from
these. Of all corrections this has the least kinetic energy: M^-1 times the rows of momentum is
a rigid motion. What is missing is of third order in dt, so that the order stays; momentum is
then exact to rounding, angular momentum about any fixed point too ("explicit", the scheme of
[DRUM], is left as it is).

**Impulses** (:mod:`dynsys.simulation.impulses`) hold a gap g >= 0 open to the end of the step,
u_n >= -g / dt, or, with restitution e, u_n >= e times the speed of approach. What is still
below the ground is moved out by positions alone, M^-1 J^T times the impulses that would do it:
velocity and energy of motion do not change, and nothing rebounds that should not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynsys.jit import Loop, inlined
from dynsys.loops.flat import Q0, Model, Work
from dynsys.loops.tree_state import advance
from dynsys.recursive.sparse_factors import ltl_in_situ
from dynsys.simulation.impulses import (
    CLOSURE,
    CONTACT,
    DRY,
    LIMIT,
    Blocks,
    find_impulses,
    soften,
)
from dynsys.simulation.motion import (
    Bodies,
    Motion,
    bias_forces,
    body_velocities,
    fill_inertia,
    move,
    point_row,
    potential_and_kinetic,
    tree_momentum,
)
from dynsys.types import Array, IntArray

__all__ = [
    "CONTACT_MARGIN",
    "EXPLICIT",
    "MIDPOINT",
    "SEMI_IMPLICIT",
    "Log",
    "Rows",
    "Setup",
    "Step",
    "advance_steps",
]

MIDPOINT, SEMI_IMPLICIT, EXPLICIT = 0, 1, 2
CONTACT_MARGIN = 1e-3
"""Gap (m, rad) below which a point or a limit takes part in a step; more where it closes."""
DEEPER = 1e-5
"""How much deeper (m, rad) than before the midpoint rule may end."""
APART = 1e-12
"""How far (m, rad) a closure may be apart."""

# numbers of a setup
(DT, HEIGHT, FRICTION, RESTITUTION, CORRECTION, SLOP, SPEED_LIMIT, TOLERANCE, SMOOTHING) = (
    range(9)
)

# scalars of a log
(
    TIME,
    ENERGY,
    DRIVE_WORK,
    CONTACT_WORK,
    FRICTION_WORK,
    PENETRATION,
    CONTACTS,
    STEPS,
    SWEEPS,
    RESIDUAL,
    CONVERGED,
) = range(11)
SCALARS = 11


class Setup(NamedTuple):
    """What is constant in a simulation, besides the robot."""

    numbers: Array
    scheme: int
    newton_rows: int  # most rows that Newton's method is used for
    sweeps: int
    axes: Array  # (3, 3) normal of the plane, two tangents
    point_body: IntArray  # (K,)
    point: Array  # (K, 3) in the body's frame
    radius: Array  # (K,)
    rim: Array  # (K, 7) axis of a rim (zero for a ball), a direction across it, phase
    limit_place: IntArray  # (L, 2) place in q and in v
    limit: Array  # (L, 2) lower, upper
    dry_place: IntArray  # (D,) place in v
    dry: Array  # (D,) dry friction
    damping: Array  # (nv,)
    constant: Array  # (nv,) constant torque against the drive
    closure_body: IntArray  # (C, 2)
    closure_E: Array  # (C, 2, 3, 3) body -> frame
    closure_r: Array  # (C, 2, 3)
    closure_rows: IntArray  # (C, 6) 1 where the direction is closed


class Rows(NamedTuple):
    """Rows of a step: blocks, Jacobian, and what each row is about."""

    blocks: Blocks
    J: Array  # (m, nv)
    tip: IntArray  # (m, 2) freedoms at which the row begins, -1 for none
    offset: Array  # (m,) to be added to J v
    yields: Array  # (m,) to be added to the diagonal of A
    place: IntArray  # (m,) where the impulse is kept between steps


class Step(NamedTuple):
    """What one step writes, before it goes to the log."""

    q: Array
    v: Array
    kept: Array  # impulses by place: contacts 3 K, limits 2 L, dry D, closures 6 C
    q_mid: Array
    v_mid: Array
    change: Array  # v' - v before the momentum is corrected
    wrench: Array  # (N, 6) on every body but for gravity, body coordinates
    positions: Array  # (K, 3) of the contact points at q_m
    gap: Array  # (K,) at the start
    speed: Array  # (K,) along the normal, at the start
    scalars: Array


class Log(NamedTuple):
    """What is recorded of every step."""

    scalars: Array  # (T, 11)
    q: Array  # (T, nq) at q_m
    qd: Array  # (T, nv) v_m
    qdd: Array  # (T, nv)
    torque: Array  # (T, nv)
    impulses: Array  # (T, 3 K + ...)
    wrench: Array  # (T, N, 6)


@Loop
def advance_steps(
    robot: Model,
    store: Work,
    bodies: Bodies,
    motion: Motion,
    setup: Setup,
    q: Array,
    v: Array,
    kept: Array,
    time: float,
    torque: Array,
    added: Array,
    external: Array,
    log: Log,
    first: int,
    count: int,
) -> int:
    """Make ``count`` steps of q, v and kept impulses, in place, from row ``first`` of the log.

    Returns the number of steps made: fewer where the motion is no longer finite, and minus one
    minus the freedom where the inertia matrix is not positive definite.
    """
    nv, n = len(v), len(bodies.parent)
    step = Step(
        q,
        v,
        kept,
        np.empty(len(q)),
        np.empty(nv),
        np.empty(nv),
        np.empty((n, 6)),
        np.empty((len(setup.radius), 3)),
        np.empty(len(setup.radius)),
        np.empty(len(setup.radius)),
        np.zeros(SCALARS),
    )
    H = np.empty((nv, nv))
    for made in range(count):
        bad = _one_step(robot, store, bodies, motion, setup, torque, added, external, H, step)
        if bad >= 0:
            return -1 - bad
        row = first + made
        step.scalars[TIME] = time + made * setup.numbers[DT]
        finite = True
        for k in range(SCALARS):
            log.scalars[row, k] = step.scalars[k]
        for k in range(len(q)):
            log.q[row, k] = step.q_mid[k]
        for k in range(nv):
            log.qd[row, k] = step.v_mid[k]
            log.qdd[row, k] = step.change[k] / setup.numbers[DT]
            log.torque[row, k] = torque[k] - added[k] * log.qdd[row, k]
            finite = finite and np.isfinite(v[k])
        for k in range(len(kept)):
            log.impulses[row, k] = kept[k]
        for i in range(n):
            for m in range(6):
                log.wrench[row, i, m] = step.wrench[i, m]
        if not finite:
            return made
    return count


@Loop
def _one_step(
    robot: Model,
    store: Work,
    bodies: Bodies,
    motion: Motion,
    setup: Setup,
    torque: Array,
    added: Array,
    external: Array,
    H: Array,
    step: Step,
) -> int:
    """Advance by dt; the freedom at which M has no positive pivot, or -1."""
    dt, nv = setup.numbers[DT], len(step.v)
    totals = begin(robot, store, bodies, motion, setup, step)
    inertia = np.empty(nv)
    for k in range(nv):
        inertia[k] = added[k] + 0.5 * dt * setup.damping[k]
    fill_inertia(bodies, motion, inertia, H)
    ltl_in_situ(H, bodies.freedom_parent)
    for k in range(nv):
        if not H[k, k] > 0.0:
            return k
    rows = gather_rows(bodies, motion, setup, step)
    m = len(rows.offset)
    Y, A = np.empty((m, nv)), np.empty((m, m))
    respond(bodies.freedom_parent, H, rows, Y, A)
    x, free = np.empty(m), np.empty(nv)
    for i in range(m):
        x[i] = step.kept[rows.place[i]]
    for _ in range(2 if setup.scheme == MIDPOINT else 1):
        free_impulse(bodies, motion, setup, step, torque, external, free)
        _solve_LT(bodies.freedom_parent, H, free)
        _solve_L(bodies.freedom_parent, H, free)
        for k in range(nv):
            free[k] += step.v[k]
        settle(setup, rows, A, free, x, step)
        for k in range(nv):  # v' = free + L^-1 Y^T x
            step.change[k] = 0.0
            for i in range(m):
                step.change[k] += Y[i, k] * x[i]
        _solve_L(bodies.freedom_parent, H, step.change)
        for k in range(nv):
            step.change[k] += free[k] - step.v[k]
    finish(robot, store, bodies, motion, setup, step, rows, x, torque, added, external, totals)
    if push_out(motion, setup, step, rows, A, x):  # positions only
        for k in range(nv):
            free[k] = 0.0
            for i in range(m):
                free[k] += Y[i, k] * x[i]
        _solve_L(bodies.freedom_parent, H, free)
        shift(robot, step, free)
    return -1


# ---- parts of a step, which routes other than the compiled one call from Python --------------


@inlined
def copy(source: Array, out: Array) -> None:
    """Copy a vector into another."""
    for k in range(len(out)):
        out[k] = source[k]


@Loop
def begin(
    robot: Model, store: Work, bodies: Bodies, motion: Motion, setup: Setup, step: Step
) -> Array:
    """Energy, momentum and gaps at the start; then all is placed at q_m. Returns momenta."""
    dt, q, v = setup.numbers[DT], step.q, step.v
    move(robot, store, bodies, motion, q)
    body_velocities(bodies, motion, v)
    tree_momentum(bodies, motion)
    totals = np.empty((len(motion.total), 16))
    for t in range(len(totals)):
        copy(motion.total[t], totals[t])
    step.scalars[ENERGY] = potential_and_kinetic(bodies, motion, v)
    deepest = 0.0
    for c in range(len(step.gap)):
        place_point(motion, setup, c, step.positions[c])
        step.gap[c] = _height(setup, step.positions[c])
        step.speed[c] = _speed(motion, setup, c, step.positions[c])
        deepest = max(deepest, -step.gap[c])
    step.scalars[PENETRATION] = deepest
    step.scalars[STEPS] = step.scalars[SWEEPS] = 0.0
    if setup.scheme == MIDPOINT:
        advance(robot.integers, q, v, 0.5 * dt, step.q_mid)
        move(robot, store, bodies, motion, step.q_mid)
        for c in range(len(step.gap)):
            place_point(motion, setup, c, step.positions[c])
    else:
        copy(q, step.q_mid)
    for k in range(len(v)):
        step.change[k] = 0.0
    return totals


@Loop
def free_impulse(
    bodies: Bodies,
    motion: Motion,
    setup: Setup,
    step: Step,
    torque: Array,
    external: Array,
    out: Array,
) -> None:
    """dt (torque - bias - damping), at v_m made from the last known change of v."""
    dt = setup.numbers[DT]
    part = 0.5 if setup.scheme == MIDPOINT else 0.0
    for k in range(len(out)):
        step.v_mid[k] = step.v[k] + part * step.change[k]
    bias_forces(bodies, motion, step.v_mid, external)
    for k in range(len(out)):
        resisting = motion.bias[k] + setup.damping[k] * step.v[k] + setup.constant[k]
        out[k] = dt * (torque[k] - resisting)


@inlined
def place_point(motion: Motion, setup: Setup, c: int, out: Array) -> None:
    """Position of contact c: of a ball or a rim, its lowest point over the plane."""
    i, normal, rim = setup.point_body[c], setup.axes[0], setup.rim[c]
    E, r, radius = motion.E[i], motion.r[i], setup.radius[c]
    for m in range(3):
        out[m] = r[m]
        for n in range(3):
            out[m] += E[n, m] * setup.point[c, n]
    if radius == 0.0:
        return
    if rim[0] == 0.0 and rim[1] == 0.0 and rim[2] == 0.0:  # a ball
        for m in range(3):
            out[m] -= radius * normal[m]
        return
    axis, down = np.empty(3), np.empty(3)
    along = 0.0
    for m in range(3):
        axis[m] = E[0, m] * rim[0] + E[1, m] * rim[1] + E[2, m] * rim[2]
        along += axis[m] * normal[m]
    size = 0.0
    for m in range(3):
        down[m] = along * axis[m] - normal[m]
        size += down[m] * down[m]
    if size < 1e-12:  # flat on the plane: any direction will do
        for m in range(3):
            down[m] = E[0, m] * rim[3] + E[1, m] * rim[4] + E[2, m] * rim[5]
        size = 1.0
    c_, s_, size = np.cos(rim[6]), np.sin(rim[6]), np.sqrt(size)
    for m in range(3):
        down[m] /= size
    for m in range(3):
        a, b = (m + 1) % 3, (m + 2) % 3
        side = axis[a] * down[b] - axis[b] * down[a]
        out[m] += radius * (c_ * down[m] + s_ * side)


@inlined
def _height(setup: Setup, p: Array) -> float:
    """Distance of a point from the plane."""
    n = setup.axes[0]
    return float(n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - setup.numbers[HEIGHT])


@inlined
def _speed(motion: Motion, setup: Setup, c: int, p: Array) -> float:
    """Velocity of contact point c, at p, along the normal."""
    u, o, n = motion.velocity[setup.point_body[c]], motion.origin, setup.axes[0]
    total = 0.0
    for m in range(3):
        a, b = (m + 1) % 3, (m + 2) % 3
        total += n[m] * (u[m + 3] + u[a] * (p[b] - o[b]) - u[b] * (p[a] - o[a]))
    return total


@Loop
def gather_rows(bodies: Bodies, motion: Motion, setup: Setup, step: Step) -> Rows:
    """Rows of all contacts and limits near by, of dry joints and closures, at q_m."""
    numbers, v, nv = setup.numbers, step.v, len(step.v)
    dt, K, L = numbers[DT], len(setup.radius), len(setup.limit)
    g = bodies.gravity
    gravity = np.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    near, speed = np.zeros(K, dtype=np.bool_), step.speed
    sides = np.zeros((L, 2), dtype=np.bool_)
    m = count = 0
    for c in range(K):
        if step.gap[c] < CONTACT_MARGIN + 2.0 * dt * abs(speed[c]):
            near[c] = True
            m += 3
            count += 1
    for j in range(L):
        at, rate = step.q[setup.limit_place[j, 0]], abs(v[setup.limit_place[j, 1]])
        reach = CONTACT_MARGIN + 2.0 * dt * rate
        sides[j, 0] = at - setup.limit[j, 0] < reach
        sides[j, 1] = setup.limit[j, 1] - at < reach
        for side in range(2):
            if sides[j, side]:
                m += 1
                count += 1
    closed = len(setup.dry)
    for c in range(len(setup.closure_rows)):
        for r in range(6):
            closed += setup.closure_rows[c, r]
    m, count = m + closed, count + closed
    kind, row = np.empty(count, dtype=np.intp), np.empty(count, dtype=np.intp)
    limit = np.zeros(count)
    J, tip = np.zeros((m, nv)), np.empty((m, 2), dtype=np.intp)
    for i in range(m):
        tip[i, 0] = tip[i, 1] = -1
    offset, yields, place = np.zeros(m), np.zeros(m), np.empty(m, dtype=np.intp)
    i = b = 0
    for c in range(K):
        if near[c]:
            kind[b], row[b], limit[b] = CONTACT, i, numbers[FRICTION]
            last = bodies.last[setup.point_body[c]]
            for r in range(3):
                point_row(bodies, motion, last, step.positions[c], setup.axes[r], 1.0, J[i + r])
                tip[i + r, 0], place[i + r] = last, 3 * c + r
            gap, e = step.gap[c], numbers[RESTITUTION]
            if e > 0.0 and speed[c] < -4.0 * gravity * dt and gap + dt * speed[c] <= 0.0:
                offset[i] = e * speed[c]
            else:
                offset[i] = max(gap, 0.0) / dt
            i, b = i + 3, b + 1
    for j in range(L):
        for side in range(2):
            if sides[j, side]:
                k, sign = setup.limit_place[j, 1], 1.0 - 2.0 * side
                kind[b], row[b] = LIMIT, i
                J[i, k], tip[i, 0], place[i] = sign, k, 3 * K + 2 * j + side
                room = sign * (step.q[setup.limit_place[j, 0]] - setup.limit[j, side])
                offset[i] = max(room, 0.0) / dt
                i, b = i + 1, b + 1
    for j in range(len(setup.dry)):
        k = setup.dry_place[j]
        kind[b], row[b], limit[b] = DRY, i, dt * setup.dry[j]
        J[i, k], tip[i, 0], place[i] = 1.0, k, 3 * K + 2 * L + j
        yields[i] = numbers[SMOOTHING] / (dt * setup.dry[j])
        i, b = i + 1, b + 1
    for c in range(len(setup.closure_body)):
        one, two = setup.closure_body[c, 0], setup.closure_body[c, 1]
        E, p = closure_frame(motion, setup, c, 0)
        for r in range(6):
            if setup.closure_rows[c, r] == 0:
                continue
            kind[b], row[b] = CLOSURE, i
            place[i] = 3 * K + 2 * L + len(setup.dry) + 6 * c + r
            for end in range(2):
                body, sign = (one, 1.0) if end == 0 else (two, -1.0)
                if body < 0:
                    continue
                last = bodies.last[body]
                tip[i, end] = last
                if r < 3:
                    k = last
                    while k >= 0:
                        for x in range(3):
                            J[i, k] += sign * motion.W[k, x] * E[r, x]
                        k = bodies.freedom_parent[k]
                else:
                    point_row(bodies, motion, last, p, E[r - 3], sign, J[i])
            i, b = i + 1, b + 1
    return Rows(Blocks(kind, row, limit), J, tip, offset, yields, place)


@inlined
def closure_frame(motion: Motion, setup: Setup, c: int, end: int) -> tuple[Array, Array]:
    """Axes E (3, 3) and origin (3,) of one frame of a closure, base coordinates."""
    body, own, at = (
        setup.closure_body[c, end],
        setup.closure_E[c, end],
        setup.closure_r[c, end],
    )
    E, p = np.empty((3, 3)), np.empty(3)
    for m in range(3):
        p[m] = at[m] if body < 0 else motion.r[body, m]
        for n in range(3):
            E[m, n] = own[m, n] if body < 0 else 0.0
            if body >= 0:
                p[m] += motion.E[body, n, m] * at[n]
                for k in range(3):
                    E[m, n] += own[m, k] * motion.E[body, k, n]
    return E, p


@Loop
def respond(parent: IntArray, L: Array, rows: Rows, Y: Array, A: Array) -> None:
    """Y = J L^-1 and A = Y Y^T for M = L^T L, along the branches that each row sees."""
    m, nv = Y.shape
    for i in range(m):
        for k in range(nv):
            Y[i, k] = rows.J[i, k]
        one, two = rows.tip[i, 0], rows.tip[i, 1]
        while one >= 0 or two >= 0:
            k = max(one, two)
            if one == k:
                one = parent[one]
            if two == k:
                two = parent[two]
            Y[i, k] /= L[k, k]
            j = parent[k]
            while j >= 0:
                Y[i, j] -= L[k, j] * Y[i, k]
                j = parent[j]
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            if rows.tip[i, 1] < 0 and rows.tip[j, 1] < 0:
                one, two = rows.tip[i, 0], rows.tip[j, 0]
                while one != two:
                    if one > two:
                        one = parent[one]
                    else:
                        two = parent[two]
                while one >= 0:
                    total += Y[i, one] * Y[j, one]
                    one = parent[one]
            else:
                for k in range(nv):
                    total += Y[i, k] * Y[j, k]
            A[i, j] = A[j, i] = total
    soften(A)
    for i in range(m):
        A[i, i] += rows.yields[i]


@Loop
def _solve_LT(parent: IntArray, L: Array, x: Array) -> None:
    """Replace x by L^-T x."""
    for k in range(len(x) - 1, -1, -1):
        x[k] /= L[k, k]
        j = parent[k]
        while j >= 0:
            x[j] -= L[k, j] * x[k]
            j = parent[j]


@Loop
def _solve_L(parent: IntArray, L: Array, x: Array) -> None:
    """Replace x by L^-1 x."""
    for k in range(len(x)):
        j = parent[k]
        while j >= 0:
            x[k] -= L[k, j] * x[j]
            j = parent[j]
        x[k] /= L[k, k]


@Loop
def settle(setup: Setup, rows: Rows, A: Array, free: Array, x: Array, step: Step) -> None:
    """Impulses x (m,) that hold contacts, limits, dry joints and closures."""
    m = len(rows.offset)
    scalars = step.scalars
    scalars[RESIDUAL], scalars[CONVERGED] = 0.0, 1.0
    if m == 0:
        return
    b, outcome, most = np.empty(m), np.zeros(3), 0.0
    for i in range(m):
        b[i] = rows.offset[i]
        for k in range(len(free)):
            b[i] += rows.J[i, k] * free[k]
        most = max(most, abs(b[i]))
    tolerance = setup.numbers[TOLERANCE] * most + 1e-14
    newton = m <= setup.newton_rows
    find_impulses(A, b, rows.blocks, newton, setup.sweeps, tolerance, x, outcome)
    scalars[STEPS] += outcome[0]
    scalars[SWEEPS] += outcome[1]
    scalars[RESIDUAL] = outcome[2]
    scalars[CONVERGED] = 1.0 if outcome[2] <= tolerance else 0.0


@Loop
def finish(
    robot: Model,
    store: Work,
    bodies: Bodies,
    motion: Motion,
    setup: Setup,
    step: Step,
    rows: Rows,
    x: Array,
    torque: Array,
    added: Array,
    external: Array,
    totals: Array,
) -> None:
    """Works, wrenches and kept impulses of the step; then q' and v', momentum put right."""
    dt, q, v, nv = setup.numbers[DT], step.q, step.v, len(step.v)
    _account(setup, step, rows, x, torque, added)
    _wrenches(motion, setup, step, rows, x, external)
    force = np.zeros((len(totals), 6))
    _tree_impulses(bodies, motion, step, torque, dt, force)
    old, new_v = np.empty(len(q)), np.empty(nv)
    copy(q, old)
    for k in range(nv):
        new_v[k] = v[k] + step.change[k]
    part = 0.5
    if setup.scheme == MIDPOINT:
        advance(robot.integers, step.q_mid, new_v, 0.5 * dt, q)
    elif setup.scheme == SEMI_IMPLICIT:
        part = 1.0
        advance(robot.integers, old, new_v, dt, q)
    else:
        part = 0.0
        advance(robot.integers, old, v, dt, q)
    move(robot, store, bodies, motion, q)
    if setup.scheme == MIDPOINT and _deeper(motion, setup, step, rows, old):
        part = 1.0
        advance(robot.integers, old, new_v, dt, q)
        move(robot, store, bodies, motion, q)
    copy(new_v, v)
    if len(totals) > 0 and setup.scheme != EXPLICIT:
        body_velocities(bodies, motion, v)
        tree_momentum(bodies, motion)
        for t in range(len(totals)):
            if totals[t, 0] > 0.0:
                _put_right(robot, bodies, motion, t, totals[t], force[t], part * dt, dt, q, v)


@Loop
def _account(
    setup: Setup, step: Step, rows: Rows, x: Array, torque: Array, added: Array
) -> None:
    """Works of drives, contacts and friction in this step, and impulses by place."""
    dt, v = setup.numbers[DT], step.v
    scalars = step.scalars
    scalars[DRIVE_WORK] = scalars[CONTACT_WORK] = scalars[FRICTION_WORK] = 0.0
    scalars[CONTACTS] = 0.0
    for k in range(len(v)):
        mean, change = v[k] + 0.5 * step.change[k], step.change[k]
        scalars[DRIVE_WORK] += (dt * torque[k] - added[k] * change) * mean
        scalars[FRICTION_WORK] -= dt * (setup.damping[k] * mean + setup.constant[k]) * mean
    for i in range(len(step.kept)):
        step.kept[i] = 0.0
    for c in range(len(rows.blocks.kind)):
        kind, first = rows.blocks.kind[c], rows.blocks.row[c]
        if kind == CONTACT and x[first] > 0.0:
            scalars[CONTACTS] += 1
        for i in range(first, first + (3 if kind == CONTACT else 1)):
            step.kept[rows.place[i]] = x[i]
            work = 0.0
            for k in range(len(v)):
                work += rows.J[i, k] * (v[k] + 0.5 * step.change[k])
            scalars[FRICTION_WORK if kind == DRY else CONTACT_WORK] += work * x[i]


@Loop
def _wrenches(
    motion: Motion, setup: Setup, step: Step, rows: Rows, x: Array, external: Array
) -> None:
    """Wrench (6,) on every body by contacts, closures and what pushes, body coordinates."""
    dt, wrench = setup.numbers[DT], step.wrench
    for i in range(len(wrench)):
        for m in range(6):
            wrench[i, m] = external[i, m] if len(external) > 0 else 0.0
    force, moment = np.empty(3), np.zeros(3)
    for c in range(len(setup.radius)):
        if step.kept[3 * c] != 0.0:
            for m in range(3):
                force[m] = 0.0
                for r in range(3):
                    force[m] += setup.axes[r, m] * step.kept[3 * c + r] / dt
            _add_wrench(motion, setup.point_body[c], step.positions[c], moment, force, wrench)
    first = 3 * len(setup.radius) + 2 * len(setup.limit) + len(setup.dry)
    for c in range(len(setup.closure_body)):
        E, p = closure_frame(motion, setup, c, 0)
        for end in range(2):
            body, sign = setup.closure_body[c, end], 1.0 - 2.0 * end
            if body >= 0:
                for m in range(3):
                    force[m] = moment[m] = 0.0
                    for r in range(3):
                        moment[m] += sign * E[r, m] * step.kept[first + 6 * c + r] / dt
                        force[m] += sign * E[r, m] * step.kept[first + 6 * c + 3 + r] / dt
                _add_wrench(motion, body, p, moment, force, wrench)


@inlined
def _add_wrench(
    motion: Motion, i: int, p: Array, moment: Array, force: Array, wrench: Array
) -> None:
    """Add a moment and a force at p, base coordinates, to the wrench of body i in its frame."""
    E, r, turned = motion.E[i], motion.r[i], np.empty(3)
    for m in range(3):
        a, b = (m + 1) % 3, (m + 2) % 3
        turned[m] = moment[m] + (p[a] - r[a]) * force[b] - (p[b] - r[b]) * force[a]
    for m in range(3):
        for n in range(3):
            wrench[i, m] += E[m, n] * turned[n]
            wrench[i, m + 3] += E[m, n] * force[n]


@Loop
def _tree_impulses(
    bodies: Bodies, motion: Motion, step: Step, torque: Array, dt: float, out: Array
) -> None:
    """Impulse (n, f) on each free tree about its centre of mass at q_m, gravity apart."""
    T = len(out)
    if T == 0:
        return
    centre, own = np.zeros((T, 4)), np.empty(6)
    for i in range(len(step.wrench)):
        t = bodies.tree[i]
        if t >= 0:
            for m in range(4):
                centre[t, m] += motion.inertia[i, m]
    for i in range(len(step.wrench)):
        t = bodies.tree[i]
        if t < 0 or centre[t, 0] <= 0.0:
            continue
        for m in range(6):
            own[m] = step.wrench[i, m]
        if bodies.root[t] == i:  # forces of a drive at the free joint itself
            for m in range(6):
                k = bodies.first[i]
                for f in range(6):
                    own[m] += bodies.S[k + f, m] * torque[k + f]
        E, r, o = motion.E[i], motion.r[i], motion.origin
        f0 = E[0, 0] * own[3] + E[1, 0] * own[4] + E[2, 0] * own[5]
        f1 = E[0, 1] * own[3] + E[1, 1] * own[4] + E[2, 1] * own[5]
        f2 = E[0, 2] * own[3] + E[1, 2] * own[4] + E[2, 2] * own[5]
        dx = r[0] - o[0] - centre[t, 1] / centre[t, 0]
        dy = r[1] - o[1] - centre[t, 2] / centre[t, 0]
        dz = r[2] - o[2] - centre[t, 3] / centre[t, 0]
        n0 = E[0, 0] * own[0] + E[1, 0] * own[1] + E[2, 0] * own[2]
        n1 = E[0, 1] * own[0] + E[1, 1] * own[1] + E[2, 1] * own[2]
        n2 = E[0, 2] * own[0] + E[1, 2] * own[1] + E[2, 2] * own[2]
        out[t, 0] += dt * (n0 + dy * f2 - dz * f1)
        out[t, 1] += dt * (n1 + dz * f0 - dx * f2)
        out[t, 2] += dt * (n2 + dx * f1 - dy * f0)
        out[t, 3] += dt * f0
        out[t, 4] += dt * f1
        out[t, 5] += dt * f2


@Loop
def _put_right(
    robot: Model,
    bodies: Bodies,
    motion: Motion,
    t: int,
    before: Array,
    impulse: Array,
    weight: float,
    dt: float,
    q: Array,
    v: Array,
) -> None:
    """Move tree t and set it in motion, rigidly, by what its momentum lacks; see the module."""
    now, root, mass = motion.total[t], bodies.root[t], before[0]
    turn, push, missing, way = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for m in range(3):
        end = before[4 + m] + impulse[3 + m] + mass * bodies.gravity[m] * dt
        push[m] = (end - now[4 + m]) / mass
        missing[m] = before[7 + m] + impulse[m] - now[7 + m]
        travel = ((dt - weight) * before[4 + m] + weight * end) / mass
        way[m] = before[1 + m] + travel - now[1 + m]
    place = robot.integers[root + 1, Q0]
    for m in range(3):
        for n in range(3):
            q[place + m] += bodies.root_E[t, m, n] * way[n]
    # turn = I^-1 missing, I symmetric (3, 3)
    a, b, c, d, e, f = now[10], now[11], now[12], now[13], now[14], now[15]
    m00, m01, m02 = d * f - e * e, c * e - b * f, b * e - c * d
    m11, m12, m22 = a * f - c * c, b * c - a * e, a * d - b * b
    det = a * m00 + b * m01 + c * m02
    if not det > 1e-30 * (a + d + f) ** 3:
        return  # no inertia about some axis
    turn[0] = (m00 * missing[0] + m01 * missing[1] + m02 * missing[2]) / det
    turn[1] = (m01 * missing[0] + m11 * missing[1] + m12 * missing[2]) / det
    turn[2] = (m02 * missing[0] + m12 * missing[1] + m22 * missing[2]) / det
    E, r, k = motion.E[root], motion.r[root], bodies.first[root]
    for m in range(3):  # velocity of the root's origin
        i, j = (m + 1) % 3, (m + 2) % 3
        missing[m] = push[m] + turn[i] * (r[j] - now[1 + j]) - turn[j] * (r[i] - now[1 + i])
    for s in range(6):  # S of a free joint is the identity
        for n in range(3):
            v[k + s] += E[s % 3, n] * (turn[n] if s < 3 else missing[n])


# ---- out of the ground, by positions alone ------------------------------------------------


@inlined
def _violation(
    motion: Motion, setup: Setup, q: Array, kind: int, place: int, p: Array
) -> float:
    """Depth of a contact or limit, zero above it; opening of a closure along its row."""
    K, L = len(setup.radius), len(setup.limit)
    if kind == CONTACT:
        place_point(motion, setup, place // 3, p)
        return max(0.0, -_height(setup, p))
    if kind == LIMIT:
        j = (place - 3 * K) // 2
        side = (place - 3 * K) % 2
        at = q[setup.limit_place[j, 0]]
        return float(max(0.0, (1.0 - 2.0 * side) * (setup.limit[j, side] - at)))
    row = place - 3 * K - 2 * L - len(setup.dry)
    c, r = row // 6, row % 6
    E, p1 = closure_frame(motion, setup, c, 0)
    F, p2 = closure_frame(motion, setup, c, 1)
    if r >= 3:
        total = 0.0
        for m in range(3):
            total += E[r - 3, m] * (p1[m] - p2[m])
        return total
    # row r of recursive.constraint_rows.turning_error: of a hinge, how its free axis leans
    a, b = (r + 1) % 3, (r + 2) % 3
    held = setup.closure_rows[c]
    hinge = held[0] + held[1] + held[2] == 2
    first = 1.0 if hinge and held[b] == 0 else 0.0 if hinge else 0.5
    total = 0.0
    for m in range(3):
        total += first * E[a, m] * F[b, m]
        total -= (1.0 - first) * E[b, m] * F[a, m]
    return total


@Loop
def _deeper(motion: Motion, setup: Setup, step: Step, rows: Rows, old: Array) -> bool:
    """Whether some contact or limit ends deeper than it began."""
    p = np.empty(3)
    for c in range(len(rows.blocks.kind)):
        kind, i = rows.blocks.kind[c], rows.blocks.row[c]
        if kind == CONTACT:
            began = max(0.0, -step.gap[rows.place[i] // 3])
        elif kind == LIMIT:
            began = _violation(motion, setup, old, kind, rows.place[i], p)
        else:
            continue
        if _violation(motion, setup, step.q, kind, rows.place[i], p) > began + DEEPER:
            return True
    return False


@Loop
def push_out(motion: Motion, setup: Setup, step: Step, rows: Rows, A: Array, x: Array) -> bool:
    """Impulses x (m,) that would put right in unit time what is too deep or apart, if any is.

    A closure is put right at once, contacts and limits by a part of their depth.
    """
    numbers, p, wanted = setup.numbers, np.empty(3), np.zeros(len(x))
    most, some = numbers[SPEED_LIMIT] * numbers[DT], False
    for c in range(len(rows.blocks.kind)):
        kind, i = rows.blocks.kind[c], rows.blocks.row[c]
        if kind == DRY:
            continue
        depth = _violation(motion, setup, step.q, kind, rows.place[i], p)
        if kind == CLOSURE:
            wanted[i] = depth
            some = some or abs(depth) > APART
        else:
            wanted[i] = -min(most, max(0.0, depth - numbers[SLOP]) * numbers[CORRECTION])
            some = some or wanted[i] < 0.0
    if not some:
        return False
    blocks = Blocks(rows.blocks.kind, rows.blocks.row, np.zeros(len(rows.blocks.kind)))
    outcome, size = np.zeros(3), 0.0
    for i in range(len(x)):
        x[i], size = 0.0, max(size, abs(wanted[i]))
    newton = len(x) <= setup.newton_rows
    find_impulses(A, wanted, blocks, newton, setup.sweeps, 1e-9 * size, x, outcome)
    return bool(outcome[2] < 1e-3 * size)


@Loop
def shift(robot: Model, step: Step, way: Array) -> None:
    """Move q by ``way`` (nv,)."""
    old = np.empty(len(step.q))
    copy(step.q, old)
    advance(robot.integers, old, way, 1.0, step.q)
