"""What a robot may touch and hold: a plane, contact points, closures between frames.

    J_c (3, nv)   velocity of point c along the plane's normal and two tangents, per qd

Row order per contact: normal first, N and D of [DRUM] section 6.3 side by side. The
contact-space inertia A = J M^-1 J^T is found by one of four routes:

| route      | how                                                                        |
|------------|----------------------------------------------------------------------------|
| y_factor   | M = L^T L by branch-induced sparsity, Y = J L^-1, A = Y Y^T ([OSI] 4.1)    |
| ltl        | the same factors, M^-1 J^T by back-substitution, times J ([BIS])           |
| dense      | LAPACK's Cholesky factorisation and back-substitution, times J             |
| drumwright | articulated bodies, Theta(n) per column ([DRUM]); A comes along            |

All use the sparsity of J. The first is the one of the compiled step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple, TypeAlias, final, get_args

import numpy as np
from scipy.linalg import lapack

from dynsys.errors import ModelError, SingularSystemError, nearest_name
from dynsys.jit import Loop
from dynsys.loops import drumwright
from dynsys.loops.drumwright import Freedoms
from dynsys.loops.flat import FlatRobot, TreeArrays
from dynsys.loops.tree_state import Poses, TreeState
from dynsys.model.constraints import WRENCHES, Constraint, JointConstraint
from dynsys.model.spatial import Transform, compose
from dynsys.model.tree import Frame, KinematicTree, Shape
from dynsys.recursive.sparse_factors import ltl_in_situ, solve_L_in_situ, solve_LT_in_situ
from dynsys.types import Array, ArrayLike, IntArray, float_array

__all__ = [
    "ROUTES",
    "Closure",
    "ContactInertia",
    "ContactPoints",
    "ContactSpace",
    "Ground",
    "Route",
]


@final
@dataclass(frozen=True)
class Ground:
    """Plane normal . p = ``height`` with Coulomb friction.

    ``restitution`` is the part of the speed of approach that a contact has afterwards.
    ``correction`` is the part of a penetration beyond ``slop`` (m) that a step removes, at no
    more than ``speed_limit`` (m/s), without giving it that speed.
    """

    friction: float = 0.8
    height: float = 0.0
    correction: float = 0.2
    slop: float = 1e-4
    speed_limit: float = 0.5
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    restitution: float = 0.0

    def __post_init__(self) -> None:
        if not self.friction >= 0 or not 0 <= self.correction <= 1 or not self.slop >= 0:
            raise ModelError(f"friction and slop must be >= 0, correction in 0..1: {self}")
        if not 0 <= self.restitution <= 1 or not self.speed_limit >= 0:
            raise ModelError(f"restitution must be in 0..1, speed_limit >= 0: {self}")
        normal = np.array(self.normal, dtype=np.float64)
        if normal.shape != (3,) or not 0 < np.linalg.norm(normal) < np.inf:
            raise ModelError(f"normal must be three numbers, not all zero: {self}")
        if not np.isfinite(self.height):
            raise ModelError(f"height must be finite: {self}")

    @property
    def axes(self) -> Array:
        """Unit normal and two tangents (3, 3), right-handed: z, x, y for a horizontal plane."""
        n = np.array(self.normal, dtype=np.float64)
        n = n / np.linalg.norm(n)
        across = np.eye(3)[0] if abs(n[0]) < 0.9 else np.eye(3)[1]
        first = across - (across @ n) * n
        first = first / np.linalg.norm(first)
        return np.array([n, first, np.cross(n, first)])


@final
class ContactPoints:
    """Points, balls and rims fixed to bodies: what of a robot may touch the plane.

    Parameters
    ----------
    robot : the robot.
    frames : name of a frame or body, or number of a body, for every point (K,).
    points : (K, 3) in the coordinates of that frame; None for its origin.
    radius : (K,) of a ball about the point, or of a rim; 0 for the point itself.
    names : (K,); by default the frame's, with [0], [1], ... where it has several.
    rims : (K, 7) axis of a rim in the frame (zero where there is none), a direction across it,
        and by how much (rad) the point lies beside the lowest one.

    ``body`` (K,) and ``point`` (K, 3), in body coordinates, say where they are.
    """

    def __init__(
        self,
        robot: KinematicTree,
        frames: Sequence[str | int],
        points: ArrayLike | None = None,
        radius: ArrayLike = 0.0,
        names: Sequence[str] | None = None,
        rims: ArrayLike | None = None,
    ) -> None:
        self.robot = robot
        count = len(frames)
        places = [robot.frame(name) for name in frames]
        for name, place in zip(frames, places, strict=True):
            if place.body < 0:
                raise ModelError(
                    f"robot {robot.name!r}: {name!r} is on the base, where a contact point"
                    " never moves"
                )
        given = _numbers(robot, "points", np.zeros((count, 3)) if points is None else points)
        turns = _numbers(robot, "rims", np.zeros((count, 7)) if rims is None else rims)
        if (given.shape, turns.shape) != ((count, 3), (count, 7)) and count + given.size:
            raise ModelError(
                f"robot {robot.name!r}: {count} contact points need points ({count}, 3) and"
                f" rims ({count}, 7), got {given.shape} and {turns.shape}"
            )
        self.body: IntArray = np.array([place.body for place in places], dtype=np.intp)
        self.point = np.array(
            [_in_body(f, p) for f, p in zip(places, given.reshape(count, 3), strict=True)]
        ).reshape(count, 3)
        radii = _numbers(robot, "radius", radius)
        if radii.shape not in ((), (count,)):
            raise ModelError(
                f"robot {robot.name!r}: radius must be one number or ({count},), got"
                f" {radii.shape}"
            )
        self.radius = np.zeros(count) + radii
        if not (self.radius >= 0).all():
            raise ModelError(f"robot {robot.name!r}: a radius of a contact point is negative")
        self.rim = turns.reshape(count, 7).copy()
        for row, place in zip(self.rim, places, strict=True):
            row[:3], row[3:6] = place.transform.E.T @ row[:3], place.transform.E.T @ row[3:6]
        self.names = _point_names(robot, frames) if names is None else tuple(map(str, names))
        if len(self.names) != count or len(set(self.names)) != count:
            raise ModelError(
                f"robot {robot.name!r}: contact points need a name each, all other"
            )

    def __len__(self) -> int:
        return len(self.body)

    @staticmethod
    def of_shapes(robot: KinematicTree, shapes: Sequence[str] | None = None) -> ContactPoints:
        """Points of the primitive shapes in the robot's file, which ``robot.shapes`` lists.

        A sphere is a ball, a capsule two, a box its eight corners, a cylinder three points on
        each of its rims: the lowest, and two beside it to stand on. A point is called after its
        shape: ``foot``, ``box[3]``.

        Parameters
        ----------
        shapes : names of shapes, or of bodies and frames for all that they carry; None for all
            primitive shapes of bodies that move.

        Raises
        ------
        ModelError
            for a name that is none, or a shape that is no primitive one, such as a mesh.
        """
        moving = [s for s in robot.shapes if s.body >= 0]
        if shapes is None:
            chosen = [s for s in moving if s.kind in _PRIMITIVES]
        else:
            chosen = [s for name in shapes for s in _shapes_called(robot, moving, name)]
        bodies, centres, radii, rims, names = [], [], [], [], []
        for shape in chosen:
            points = _PRIMITIVES[shape.kind](shape)
            for k, (centre, radius, rim) in enumerate(points):
                to_body = shape.transform.E.T
                bodies.append(shape.body)
                centres.append(shape.transform.r + to_body @ centre)
                radii.append(radius)
                rims.append([*(to_body @ rim[:3]), *(to_body @ rim[3:6]), rim[6]])
                names.append(shape.name if len(points) == 1 else f"{shape.name}[{k}]")
        return ContactPoints(robot, bodies, np.array(centres), radii, names, np.array(rims))

    def positions(self, poses: Poses) -> Array:
        """Positions (K, 3) in base coordinates: of balls and rims, those of their centres."""
        E, r = poses.E[self.body], poses.r[self.body]
        return np.asarray(r + np.einsum("kji,kj->ki", E, self.point))

    def jacobian(
        self, tree: TreeArrays, poses: Poses, positions: Array, active: IntArray
    ) -> Array:
        """J (3 len(active), nv) of the chosen points at given positions, along z, x, y."""
        J = np.zeros((3 * len(active), len(tree.S)))
        fill_jacobian(
            *(tree.parent, tree.first, tree.S, poses.E, poses.r),
            *(self.body[active], positions[active], J),
        )
        return J


_NO_RIM = np.zeros(7)
_Point: TypeAlias = tuple[Array, float, Array]


def _sphere(shape: Shape) -> list[_Point]:
    return [(np.zeros(3), shape.size[0], _NO_RIM)]


def _box(shape: Shape) -> list[_Point]:
    return [(np.array(s) * shape.size, 0.0, _NO_RIM) for s in product((-1, 1), repeat=3)]


def _capsule(shape: Shape) -> list[_Point]:
    radius, half = shape.size
    return [(np.array([0.0, 0.0, end * half]), radius, _NO_RIM) for end in (-1, 1)]


def _cylinder(shape: Shape) -> list[_Point]:
    radius, half = shape.size
    beside = 2 * np.pi / 3
    return [
        (np.array([0.0, 0.0, end * half]), radius, np.array([0.0, 0, 1, 1, 0, 0, phase]))
        for end in (-1, 1)
        for phase in (0.0, beside, -beside)
    ]


_PRIMITIVES: dict[str, Callable[[Shape], list[_Point]]] = {
    "sphere": _sphere,
    "box": _box,
    "capsule": _capsule,
    "cylinder": _cylinder,
}


def _shapes_called(robot: KinematicTree, moving: Sequence[Shape], name: str) -> list[Shape]:
    """The shape of a name, or all shapes of a body or frame."""
    found = [s for s in moving if s.name == name]
    if not found and name in robot.frames:
        found = [s for s in moving if s.body == robot.frames[name].body]
    if not found:
        hint = nearest_name(name, [*(s.name for s in moving), *robot.frames])
        raise ModelError(f"robot {robot.name!r}: {name!r} has no shape to touch with{hint}")
    for shape in found:
        if shape.kind not in _PRIMITIVES:
            raise ModelError(
                f"robot {robot.name!r}: shape {shape.name!r} of {name!r} is a {shape.kind};"
                f" there are points of {', '.join(_PRIMITIVES)} only: give points or frames"
            )
    return found


def _numbers(robot: KinematicTree, what: str, values: ArrayLike) -> Array:
    try:
        found = np.array(float_array(values))
    except (TypeError, ValueError) as error:
        raise ModelError(f"robot {robot.name!r}: {what} of contacts: {error}") from None
    if not np.isfinite(found).all():
        raise ModelError(f"robot {robot.name!r}: {what} of contacts must be finite numbers")
    return found


def _in_body(frame: Frame, point: Array) -> Array:
    """Point of a frame in the coordinates of its body."""
    return np.asarray(frame.transform.r + frame.transform.E.T @ point)


def _point_names(robot: KinematicTree, frames: Sequence[str | int]) -> tuple[str, ...]:
    plain = [f if isinstance(f, str) else robot.body_names[int(f)] for f in frames]
    number = {name: iter(range(len(plain))) for name in plain}
    return tuple(
        name if plain.count(name) == 1 else f"{name}[{next(number[name])}]" for name in plain
    )


@final
@dataclass(frozen=True)
class Closure:
    """Two frames that move together: a loop closed, a hand that holds an object.

    ``rows`` names the directions that are held, in the axes of the first frame: rotations about
    x, y, z (``tx ty tz``) and ways (``fx fy fz``); all six by default. The wrench found acts on
    the first frame's body, at that frame; its opposite on the second's. The second frame may be
    one of the base. ``placement`` and ``second_placement`` move the two within their frames.
    """

    name: str
    first: str | int
    second: str | int
    rows: tuple[str, ...] = ("tx", "ty", "tz", "fx", "fy", "fz")
    placement: Transform = field(default_factory=Transform.identity)
    second_placement: Transform = field(default_factory=Transform.identity)

    @staticmethod
    def of(constraint: Constraint) -> Closure:
        """The closure that holds what a constraint of the robot's file does.

        Raises
        ------
        ModelError
            naming the constraint that a simulation cannot hold, and the way out.
        """
        way_out = "leave it out: Simulation(..., constraints=())"
        if isinstance(constraint, JointConstraint):
            held = constraint.joint if constraint.leader is None else constraint.leader
            raise ModelError(
                f"constraint {constraint.name!r} ties joint {constraint.joint!r}, which a"
                f" simulation does not hold: lock joint {held!r}, robot.with_locked({{{held!r}:"
                f" position}}), or {way_out}"
            )
        if not constraint.is_placed:
            raise ModelError(
                f"constraint {constraint.name!r} does not say where {constraint.frame!r} is"
                f" held: give other_placement, or {way_out}"
            )
        halves = [sum(k // 3 == half for k in constraint.held) for half in (0, 1)]
        if constraint.axes != "frame" and not set(halves) <= {0, 3}:
            raise ModelError(
                f"constraint {constraint.name!r} holds some directions of axes of the"
                f" {constraint.axes}; a simulation holds directions of the frame: give axes="
                f"'frame', or {way_out}"
            )
        return Closure(
            constraint.name,
            constraint.frame,
            -1 if constraint.other is None else constraint.other,
            tuple(WRENCHES[k] for k in constraint.held),
            constraint.placement,
            constraint.other_placement or Transform.identity(),
        )

    def __post_init__(self) -> None:
        known = ("tx", "ty", "tz", "fx", "fy", "fz")
        for row in self.rows:
            if row not in known:
                raise ModelError(
                    f"closure {self.name!r}: no direction {row!r}; there are {', '.join(known)}"
                )
        if not self.rows:
            raise ModelError(f"closure {self.name!r} closes no direction")

    @property
    def closed(self) -> IntArray:
        """1 (6,) where the direction is held."""
        known = ("tx", "ty", "tz", "fx", "fy", "fz")
        return np.array([row in self.rows for row in known], dtype=np.intp)

    def places(self, robot: KinematicTree) -> tuple[tuple[int, Transform], ...]:
        """Body and transform body -> frame of both frames."""
        found = [robot.frame(name) for name in (self.first, self.second)]
        if found[0].body < 0 or found[0].body == found[1].body:
            raise ModelError(
                f"closure {self.name!r}: frames {self.first!r} and {self.second!r} must be on"
                " two bodies, the first one on a body that moves"
            )
        moved = zip(found, (self.placement, self.second_placement), strict=True)
        return tuple((frame.body, compose(frame.transform, at)) for frame, at in moved)


@Loop
def fill_jacobian(
    parent: IntArray,
    first: IntArray,
    S: Array,
    E: Array,
    r: Array,
    body: IntArray,
    position: Array,
    J: Array,
) -> None:
    """Rows 3 c .. 3 c + 2 of J, zeros at first: velocity of a point along z, x, y."""
    arm, w, v = np.empty(3), np.empty(3), np.empty(3)
    for c in range(len(body)):
        i = body[c]
        while i >= 0:
            for m in range(3):
                arm[m] = position[c, m] - r[i, m]
            for k in range(first[i], first[i + 1]):
                for m in range(3):
                    w[m] = v[m] = 0.0
                    for n in range(3):
                        w[m] += E[i, n, m] * S[k, n]
                        v[m] += E[i, n, m] * S[k, n + 3]
                J[3 * c, k] = v[2] + w[0] * arm[1] - w[1] * arm[0]
                J[3 * c + 1, k] = v[0] + w[1] * arm[2] - w[2] * arm[1]
                J[3 * c + 2, k] = v[1] + w[2] * arm[0] - w[0] * arm[2]
            i = parent[i]


# ---- contact-space inertia ---------------------------------------------------------------

Route = Literal["y_factor", "ltl", "dense", "drumwright"]
ROUTES: tuple[Route, ...] = get_args(Route)


class ContactSpace(NamedTuple):
    """A (3 c, 3 c), and velocity changes M^-1 r (nv,) by joint impulses r (nv,)."""

    A: Array
    respond: Callable[[Array], Array]


@final
class ContactInertia:
    """Contact spaces of one robot by one route, at any q."""

    def __init__(self, flat: FlatRobot, route: Route = "drumwright") -> None:
        if route not in ROUTES:
            raise ModelError(
                f"no route {route!r} to the contact-space inertia{nearest_name(route, ROUTES)};"
                f" there are: {', '.join(ROUTES)}"
            )
        self.tree, self.route = flat.tree, route
        self._robot = flat.robot
        self._base = drumwright.floating_base(self.tree)

    def at(self, q: Array, J: Array, tip: IntArray, points: Array) -> ContactSpace:
        """Contact space of c points with Jacobian J (3 c, nv).

        Point k moves with freedom ``tip[k]`` and is at ``points[k]`` in base coordinates; J is
        nonzero at that freedom and those that support it.
        """
        state = TreeState(self._robot, q)
        if self.route == "drumwright":
            freedoms, base = Freedoms.at(state), self._base
            A = drumwright.contact_inertia(freedoms, J, base, tip, points)
            return ContactSpace(
                A, lambda r: drumwright.multiply_inverse(freedoms, r[:, None], base)[:, 0]
            )
        A = np.zeros((len(J), len(J)))
        solve, L = self._factors(state)
        if self.route == "y_factor":
            Y = J.copy()
            square_supported(self.tree.freedom_parent, tip, L, Y, A)
        else:
            response = solve(np.ascontiguousarray(J.T))
            multiply_supported(self.tree.freedom_parent, tip, J, response, A)
        return ContactSpace(A, lambda r: solve(r[:, None].copy())[:, 0])

    def _factors(self, state: TreeState) -> tuple[Callable[[Array], Array], Array]:
        """Factorise M; the function returned replaces B (nv, m) by M^-1 B; and the factor."""
        H, parent = state.H, self.tree.freedom_parent
        if self.route == "dense":
            L, failed = lapack.dpotrf(H, lower=1)
            if failed:
                raise SingularSystemError(
                    f"robot {self._robot.name!r}: its inertia matrix is not positive"
                    " definite; give its bodies mass or its joints armature"
                )
            return lambda B: np.ascontiguousarray(lapack.dpotrs(L, B, lower=1)[0]), L
        ltl_in_situ(H, parent)
        state.require_positive(np.diagonal(H))

        def solve(B: Array) -> Array:
            solve_LT_in_situ(H, parent, B, False)
            solve_L_in_situ(H, parent, B, False)
            return B

        return solve, H


@Loop
def multiply_supported(
    parent: IntArray, tip: IntArray, J: Array, response: Array, A: Array
) -> None:
    """Add J response, which is symmetric, to A (m, m), zeros at first."""
    for c in range(len(tip)):
        k = tip[c]
        while k >= 0:
            for row in range(3 * c, 3 * c + 3):
                element = J[row, k]
                for column in range(3 * c + 3):
                    A[row, column] += element * response[k, column]
            k = parent[k]
    for row in range(len(A)):
        for column in range(row):
            A[column, row] = A[row, column]


@Loop
def square_supported(parent: IntArray, tip: IntArray, L: Array, Y: Array, A: Array) -> None:
    """Replace Y, which is J at first, by J L^-1 and write A = Y Y^T ([OSI] section 4.1).

    Rows in threes; those of point c begin at freedom tip[c] and see its ancestors only.
    """
    for c in range(len(tip)):
        for i in range(3 * c, 3 * c + 3):
            y, k = Y[i], tip[c]
            while k >= 0:
                y[k] /= L[k, k]
                j = parent[k]
                while j >= 0:
                    y[j] -= L[k, j] * y[k]
                    j = parent[j]
                k = parent[k]
    for c in range(len(tip)):
        for d in range(c + 1):
            one, two = tip[c], tip[d]
            while one != two:  # their nearest common ancestor
                if one > two:
                    one = parent[one]
                else:
                    two = parent[two]
            while one >= 0:
                for i in range(3 * c, 3 * c + 3):
                    for j in range(3 * d, 3 * d + 3):
                        A[i, j] += Y[i, one] * Y[j, one]
                one = parent[one]
    for i in range(len(A)):
        for j in range(i):
            A[j, i] = A[i, j]
