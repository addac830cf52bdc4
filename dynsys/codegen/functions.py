"""Kernels of single quantities of a robot, specialised to it: H, H^-1, Jacobians, poses.

The recursions of :mod:`dynsys.recursive`, recorded on the robot with re-chosen frames where the
quantity does not depend on them. Matrices of robots with many freedoms are computed in two
parts: straight-line code for the freedoms, loops for the matrix (:mod:`dynsys.codegen.tailed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dynsys.codegen.build import kernel_from
from dynsys.codegen.cache import KernelCache
from dynsys.codegen.computation import AbstractComputation
from dynsys.codegen.emit import check_dtype
from dynsys.codegen.kernel import Kernel
from dynsys.codegen.ltdl_code import ltdl_computation
from dynsys.codegen.matrices import (
    inertia_matrix,
    inverse_inertia_matrix,
    operational_matrix,
    recorded,
)
from dynsys.codegen.target import host
from dynsys.codegen.tiles import own_supports
from dynsys.errors import KernelBuildError
from dynsys.model.expanded import expanded_parent
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import sample_states
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.recursive.jacobian import jacobian_scalars
from dynsys.types import IntArray, ScalarArray

__all__ = ["QUANTITIES", "Quantity", "quantity_computation", "specialise"]

Quantity = Literal[
    "inertia", "inverse_inertia", "operational_space_inverse", "ltdl", "jacobian", "pose"
]
QUANTITIES: tuple[str, ...] = get_args(Quantity)
CHECK_STATES = 3
AGREEMENT = {"float64": 1e-5, "float32": 1e-1}
"""Relative agreement asked of a loaded kernel: the inverse inertia of icub, for one, is so
ill-conditioned that eight digits are lost."""


def specialise(
    robot: KinematicTree,
    quantity: Quantity,
    body: str | int | None = None,
    *,
    bodies: Sequence[str | int] = (),
    dtype: str = "float64",
    cache: KernelCache | None = None,
) -> Kernel:
    """Kernel of one quantity of q: ``kernel.one(q)`` and ``kernel.batch(q)``, flattened.

    Parameters
    ----------
    quantity : ``inertia`` H (nv, nv); ``inverse_inertia`` H^-1 (nv, nv);
        ``operational_space_inverse`` Lambda^-1 = J H^-1 J^T (6 m, 6 m) of m bodies or frames,
        each in its own coordinates; ``jacobian`` (6, nv) of a body or frame in its own
        coordinates; ``pose``: E (3, 3) and origin (3,) of a body or frame in base coordinates;
        ``ltdl``: L (nv, nv) and d (nv,) with H = L^T diag(d) L, of a given H instead of q.
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
    _check(quantity, wanted)
    check_dtype(dtype)
    signature = _signature(robot, quantity, len(wanted))
    places = [repr((robot.frame(name).body, name)) for name in wanted]
    question = ("quantity", fingerprint_robot(robot).digest, quantity, *places)
    if quantity == "ltdl":
        states = _sample_matrices(expanded_parent(robot))
    else:
        states = sample_states(robot, CHECK_STATES, 7, 0)[:, : robot.nq]
    return kernel_from(
        lambda: quantity_computation(robot, quantity, wanted, dtype),
        signature,
        states,
        question,
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
    width = host().tile_width(dtype)
    if quantity == "inertia":
        return inertia_matrix(robot, dtype, width)
    if quantity == "inverse_inertia":
        return inverse_inertia_matrix(robot, dtype, width)
    if quantity == "operational_space_inverse":
        return operational_matrix(robot, bodies, dtype, width)
    if quantity == "ltdl":
        return ltdl_computation(expanded_parent(robot), width)
    algorithm = jacobian_scalars if quantity == "jacobian" else _pose
    return recorded(robot, lambda q: algorithm(robot, q, bodies[0]), dtype)


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
