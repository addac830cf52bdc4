"""Kernels of single quantities of a robot, specialised to it: H, H^-1, Jacobians, momentum.

The recursions of :mod:`dynsys.recursive`, recorded on the robot with re-chosen frames where the
quantity does not depend on them. Few freedoms: straight-line code. Many: articulated or
composite freedoms in straight-line code, then loops over tiles of the matrix, SIMD even for one
state (:mod:`dynsys.kernel.llvm.computation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError
from dynsys.kernel.build import kernel_from, tile_width
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.computation import AbstractComputation, MatrixProgram, check_dtype
from dynsys.kernel.llvm.ltdl import ltdl_computation
from dynsys.kernel.llvm.matrix_tails import GramTail, InertiaTail, block_starts
from dynsys.model.expanded import expanded_parent, last_freedom, own_supports
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.record import SAMPLES, cheapest_accurate, sample_states
from dynsys.program.frames import Reframed, Regrouping, reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.common_frame import (
    Freedoms,
    articulated_freedoms,
    composite_freedoms,
)
from dynsys.recursive.coriolis import coriolis_scalars
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.inverse import inverse_scalars, operational_inverse
from dynsys.recursive.jacobian import jacobian_scalars
from dynsys.recursive.momentum import (
    bias_scalars,
    centre_jacobian_scalars,
    centre_of_mass_scalars,
    centroidal_scalars,
    kinetic_scalars,
    matrix_scalars,
    momentum_scalars,
    potential_scalars,
    require_mass,
)
from dynsys.types import IntArray, ScalarArray

__all__ = [
    "QUANTITIES",
    "Quantity",
    "inertia_matrix",
    "inverse_inertia_matrix",
    "operational_matrix",
    "quantity_computation",
    "quantity_kernel",
    "recorded",
    "specialise",
]

Quantity = Literal[
    "inertia",
    "inverse_inertia",
    "operational_space_inverse",
    "ltdl",
    "jacobian",
    "pose",
    "kinetic_energy",
    "potential_energy",
    "momentum",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "centroidal_momentum_bias",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "coriolis_matrix",
]
QUANTITIES: tuple[str, ...] = get_args(Quantity)


class Sum(NamedTuple):
    """A quantity of the whole robot, in base coordinates, at q or at q and qd.

    ``regroup`` says which masses may move to the parent: on the fixed base they are gone.
    """

    algorithm: Callable[..., ScalarArray]
    inputs: tuple[str, ...]
    shape: Callable[[KinematicTree], tuple[int, ...]]
    regroup: Regrouping = "none"
    gravity: bool = True


AT_REST, MOVING = ("q",), ("q", "qd")
SUMS: dict[str, Sum] = {
    "kinetic_energy": Sum(kinetic_scalars, MOVING, lambda _: (), "all"),
    "potential_energy": Sum(potential_scalars, AT_REST, lambda _: ()),
    "momentum": Sum(momentum_scalars, MOVING, lambda _: (6,), "all"),
    "centroidal_momentum": Sum(centroidal_scalars, MOVING, lambda _: (6,)),
    "centroidal_momentum_matrix": Sum(matrix_scalars, AT_REST, lambda r: (6, r.nv)),
    "centroidal_momentum_bias": Sum(bias_scalars, MOVING, lambda _: (6,), gravity=False),
    "centre_of_mass": Sum(centre_of_mass_scalars, AT_REST, lambda _: (3,)),
    "centre_of_mass_jacobian": Sum(centre_jacobian_scalars, AT_REST, lambda r: (3, r.nv)),
    "coriolis_matrix": Sum(coriolis_scalars, MOVING, lambda r: (r.nv, r.nv), "all"),
}
"""What recursions gather over all bodies, by name."""
OF_CENTRE = (
    centroidal_scalars,
    matrix_scalars,
    bias_scalars,
    centre_of_mass_scalars,
    centre_jacobian_scalars,
)
"""Those of them that a robot without mass does not have."""
CHECK_STATES = 3
AGREEMENT = {"float64": 1e-5, "float32": 1e-1}
"""Relative agreement asked of a loaded kernel: the inverse inertia of icub, for one, is so
ill-conditioned that eight digits are lost."""
FEWEST_FREEDOMS = 16
"""Below, straight-line code of the whole inverse is faster."""
MOST_PAIRS = 300
"""Joints on joints; above, forces carried from joint to joint cost more than any tile."""
TILE, ZERO_TILE = 35, 12
"""What a tile of H costs, in operations of straight-line code (measured)."""
ACCURATE = 1e-12
"""Relative error of pivots above which mass moments stay with their bodies."""


def specialise(
    robot: KinematicTree,
    quantity: Quantity,
    body: str | int | None = None,
    *,
    bodies: Sequence[str | int] = (),
    dtype: str = "float64",
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel of one quantity: ``kernel.one(q)`` and ``kernel.batch(q)``, flattened.

    Parameters
    ----------
    quantity : ``inertia`` H (nv, nv); ``inverse_inertia`` H^-1 (nv, nv);
        ``operational_space_inverse`` Lambda^-1 = J H^-1 J^T (6 m, 6 m) of m bodies or frames,
        each in its own coordinates; ``jacobian`` (6, nv) of a body or frame in its own
        coordinates; ``pose``: E (3, 3) and origin (3,) of a body or frame in base coordinates;
        ``ltdl``: L (nv, nv) and d (nv,) with H = L^T diag(d) L, of a given H instead of q;
        and what ``dynsys.kinetic_energy`` and its kin of :mod:`dynsys.motion` give, by their
        names: of q, or of q and qd.
    body : name or number, for ``jacobian`` and ``pose``.
    bodies : names or numbers, for ``operational_space_inverse``.

    Raises
    ------
    KernelBuildError
        for an unknown quantity or dtype, or if the bodies it needs are not named.
    SingularSystemError
        if H has no inverse because a joint moves no inertia, naming the joint.
    ModelError
        for an unknown body, and for robots with coupled joints where H has no tree sparsity.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> (H,), _ = dynsys.specialise(robot, "inertia").one(robot.neutral())
    >>> bool(np.allclose(H.reshape(3, 3), dynsys.crba(robot, robot.neutral())))
    True
    """
    wanted = tuple(bodies) if body is None else (body, *bodies)
    return quantity_kernel(robot, quantity, wanted, dtype, cache)


def quantity_kernel(
    robot: KinematicTree,
    quantity: Quantity,
    wanted: Sequence[str | int],
    dtype: str = "float64",
    cache: KernelCache | None = None,
    *,
    program: Callable[[], Program] | None = None,
) -> Kernel:
    """Kernel of :func:`specialise` for the bodies ``wanted``.

    ``program``, if given, is called instead of recording the quantity.
    """
    _check(quantity, wanted)
    check_dtype(dtype)
    signature = _signature(robot, quantity, len(wanted))
    frames = [robot.frame(name) for name in wanted]  # no part of the robot's fingerprint
    places = [repr((f.body, f.transform.E.tolist(), f.transform.r.tolist())) for f in frames]
    made_from = ("quantity", fingerprint_robot(robot).digest, quantity, *places)
    if quantity == "ltdl":
        states = _sample_matrices(expanded_parent(robot))
    else:
        states = sample_states(robot, CHECK_STATES, 7)[:, : signature.n_inputs]
    return kernel_from(
        program or (lambda: quantity_computation(robot, quantity, wanted, dtype)),
        signature,
        states,
        made_from,
        dtype=dtype,
        cache=cache,
        agreement=AGREEMENT[dtype],
    )


def quantity_computation(
    robot: KinematicTree,
    quantity: Quantity,
    bodies: Sequence[str | int] = (),
    dtype: str = "float64",
) -> Program | AbstractComputation:
    """What the kernel of a quantity computes on this machine."""
    width = tile_width(dtype)
    if quantity == "inertia":
        return inertia_matrix(robot, dtype, width)
    if quantity == "inverse_inertia":
        return inverse_inertia_matrix(robot, dtype, width)
    if quantity == "operational_space_inverse":
        return operational_matrix(robot, bodies, dtype, width)
    if quantity == "ltdl":
        return ltdl_computation(expanded_parent(robot), width)
    if quantity in SUMS:
        return _sum(robot, SUMS[quantity], dtype)
    algorithm = jacobian_scalars if quantity == "jacobian" else _pose
    return recorded(robot, lambda q: algorithm(robot, q, bodies[0]), dtype)


def _sum(robot: KinematicTree, asked: Sum, dtype: str) -> Program:
    """Program of a quantity of the whole robot."""
    if asked.algorithm in OF_CENTRE:
        require_mass(robot)
    seen = robot if asked.gravity else robot.with_gravity(np.zeros(3))
    mechanism = reframe(seen, regroup=asked.regroup)

    def algorithm(state: ScalarArray) -> ScalarArray:
        parts = [state[: robot.nq], state[robot.nq :]][: len(asked.inputs)]
        return asked.algorithm(mechanism, *parts)

    return recorded(robot, algorithm, dtype, moving=asked.inputs == MOVING)


def _pose(robot: KinematicTree, q: ScalarArray, body: str | int) -> ScalarArray:
    """E (3, 3), flattened, and origin (3,) of a body or frame in base coordinates."""
    frame = robot.frame(body)
    X = Transform.identity()
    for i in robot.support(frame.body):
        X = X.then(robot.joint_transform(i, q))
    X = X.then(frame.transform)
    return np.concatenate([np.ravel(X.E), X.r])


def _sample_matrices(parent: IntArray) -> NDArray[np.longdouble]:
    """Random positive definite matrices (count, n n) with the sparsity of a tree's H."""
    n = len(parent)
    L = np.random.default_rng(7).normal(size=(CHECK_STATES, n, n)) / n
    for i, support in enumerate(own_supports(parent)):
        L[:, i, sorted(set(range(n)) - support)] = 0.0
    unit: NDArray[np.longdouble] = L.astype(np.longdouble) + np.eye(n, dtype=np.longdouble)
    H: NDArray[np.longdouble] = unit.transpose(0, 2, 1) @ unit
    return H.reshape(CHECK_STATES, -1)


def _signature(robot: KinematicTree, quantity: Quantity, n_bodies: int) -> Signature:
    n = robot.nv
    if quantity == "ltdl":
        return Signature((("inertia", n * n),), (("L", n * n), ("diagonal", n)))
    if quantity in SUMS:
        asked, sizes_of = SUMS[quantity], {"q": robot.nq, "qd": robot.nv}
        size = int(np.prod(asked.shape(robot)))
        inputs = tuple((name, sizes_of[name]) for name in asked.inputs)
        return Signature(inputs, ((quantity, size),))
    sizes = {"jacobian": 6 * n, "pose": 12, "operational_space_inverse": (6 * n_bodies) ** 2}
    return Signature((("q", robot.nq),), ((quantity, sizes.get(quantity, n * n)),))


def _check(quantity: str, bodies: Sequence[str | int]) -> None:
    if quantity not in QUANTITIES:
        raise KernelBuildError(f"there is no quantity {quantity!r}: {', '.join(QUANTITIES)}")
    if quantity in ("jacobian", "pose") and len(bodies) != 1:
        raise KernelBuildError(f"name the one body or frame whose {quantity} is wanted")
    if quantity == "operational_space_inverse" and not bodies:
        raise KernelBuildError(
            "name the bodies or frames of the operational space: bodies=[...]"
        )


# ---- H, H^-1 and Lambda^-1: which way is cheaper is decided here -----------------------------


def recorded(
    robot: KinematicTree,
    algorithm: Callable[[ScalarArray], ScalarArray],
    dtype: str,
    *,
    moving: bool = False,
) -> Program:
    """Simplified program of an algorithm of q; NaN at q that are no configuration.

    ``moving`` hands q and qd (nq + nv,) to the algorithm.
    """
    graph, n = Graph(), robot.nq + (robot.nv if moving else 0)
    outputs = np.ravel(algorithm(graph.inputs(n)))
    samples = sample_states(robot, SAMPLES, 0)[:, :n]
    program = simplify(graph.program(list(outputs)), samples)
    return guarded(program, robot.quaternion_slices, dtype, n_finite=n)


def inertia_matrix(robot: KinematicTree, dtype: str, width: int) -> Program | MatrixProgram:
    """H (nv, nv) of q: local frames for short limbs, a common frame for long ones."""

    def local() -> Program:
        return recorded(robot, lambda q: crba_scalars(reframe(robot), q), dtype)

    if robot.is_coupled or robot.nv < max(FEWEST_FREEDOMS, width):
        return local()
    parent = expanded_parent(robot)
    head = recorded(robot, lambda q: _flat(composite_freedoms(reframe(robot), q)), dtype)
    by_tiles = MatrixProgram(head, InertiaTail(parent))
    if sum(len(robot.support(i)) - 1 for i in range(robot.n_bodies)) > MOST_PAIRS:
        return by_tiles
    straight = local()
    loops = _operations(head) + _tile_operations(own_supports(parent), width)
    return by_tiles if loops < _operations(straight) else straight


def inverse_inertia_matrix(
    robot: KinematicTree, dtype: str, width: int
) -> Program | MatrixProgram:
    """H^-1 (nv, nv) of q.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    parent = expanded_parent(robot)
    require_inertia(robot)
    if robot.nv < max(FEWEST_FREEDOMS, 2 * width):
        return recorded(
            robot, lambda q: inverse_scalars(crba_scalars(reframe(robot), q), parent), dtype
        )
    head = _accurate(
        lambda mechanism: recorded(
            robot, lambda q: _flat(articulated_freedoms(mechanism, q)[0]), dtype
        ),
        robot,
    )
    return MatrixProgram(head, GramTail(parent, own_supports(parent), own=True))


def operational_matrix(
    robot: KinematicTree, bodies: Sequence[str | int], dtype: str, width: int
) -> Program | MatrixProgram:
    """Lambda^-1 (6 m, 6 m) = J H^-1 J^T of q for bodies and frames, each in its own frame.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    parent, last = expanded_parent(robot), last_freedom(robot)
    require_inertia(robot)
    own = own_supports(parent)
    ends = [
        last[robot.frame(body).body] if robot.frame(body).body >= 0 else -1 for body in bodies
    ]
    supports = [own[k] if k >= 0 else frozenset[int]() for k in ends for _ in range(6)]

    def freedoms(mechanism: Reframed, q: ScalarArray) -> tuple[Freedoms, ScalarArray]:
        articulated, poses = articulated_freedoms(mechanism, q)
        rows = [_rows(robot, mechanism, poses, body) for body in bodies]
        return articulated, np.vstack(rows).T

    if len(supports) < 2 * width or robot.nv < width:
        return recorded(
            robot, lambda q: operational_inverse(*freedoms(reframe(robot), q), supports), dtype
        )

    def head(mechanism: Reframed) -> Program:
        def numbers(q: ScalarArray) -> ScalarArray:
            articulated, wrenches = freedoms(mechanism, q)
            return np.concatenate([np.ravel(wrenches), _flat(articulated)])

        return recorded(robot, numbers, dtype)

    return MatrixProgram(_accurate(head, robot), GramTail(parent, supports, own=False))


def require_inertia(robot: KinematicTree) -> None:
    """Refuse robots whose H is singular everywhere."""
    pivot_safety(robot, np.zeros(robot.nv, dtype=np.bool_))


def _rows(
    robot: KinematicTree, mechanism: Reframed, poses: Sequence[Transform], body: str | int
) -> ScalarArray:
    """Rows (6, 6) of a body's or frame's Jacobian as wrenches in the common frame."""
    frame = robot.frame(body)
    if frame.body < 0:
        return np.zeros((6, 6))
    own = poses[mechanism.place[frame.body]].then(mechanism.to_new[frame.body].inverse())
    return own.then(frame.transform).matrix()


def _flat(bodies: Freedoms) -> ScalarArray:
    return np.concatenate([np.ravel(part) for part in bodies])


def _accurate(head: Callable[[Reframed], Program], robot: KinematicTree) -> Program:
    """A head on masses regrouped as far as that costs no accuracy in its pivots."""
    states = sample_states(robot, SAMPLES, 5)[:, : robot.nq].astype(np.float64)

    def error(program: Program) -> float:
        end = len(program.outputs)
        pivots = slice(end - 13 * robot.nv, end - 12 * robot.nv)
        exact = program.evaluate(states.astype(np.longdouble))[:, pivots]
        return float(np.abs(program.evaluate(states)[:, pivots] / exact - 1).max())

    def record(regroup: Regrouping) -> Program:
        return head(reframe(robot, regroup=regroup))

    return cheapest_accurate(record, error, ACCURATE)


def _operations(program: Program) -> int:
    counts = program.count()
    return counts["mul"] + counts["add"]


def _tile_operations(supports: Sequence[frozenset[int]], width: int) -> int:
    starts = block_starts(len(supports), width)
    cost = 0
    for a in starts:
        for b in (b for b in starts if b <= a):
            related = any(
                j in supports[i] for i in range(a, a + width) for j in range(b, b + width)
            )
            cost += TILE if related else ZERO_TILE
    return cost
