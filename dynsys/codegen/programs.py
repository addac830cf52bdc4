"""Programs of the dynamics of one robot: recorded, simplified, counted.

Each function runs an algorithm of the library on expression-graph scalars, on the robot with
its frames re-chosen and masses regrouped (:mod:`dynsys.codegen.reframe`), and returns the
simplified :class:`Program` with its :class:`Signature`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynsys.codegen.graph import Graph, Program
from dynsys.codegen.reframe import Reframed, reframe
from dynsys.codegen.signature import Signature
from dynsys.codegen.simplify import simplify
from dynsys.model.spatial import cross_force, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import transforms, velocities
from dynsys.recursive.rnea import net_wrenches
from dynsys.system.symmetric import solve_symmetric
from dynsys.types import BoolArray, ScalarArray

__all__ = ["DYNAMICS_OUTPUTS", "dynamics_program", "robot_program", "sample_states"]

SAMPLES = 12
DYNAMICS_OUTPUTS = ("torque", "qdd", "acceleration", "joint_wrench")


def sample_states(
    robot: KinematicTree, count: int, seed: int, extra: int
) -> NDArray[np.longdouble]:
    """Random inputs (count, nq + nv + extra): q with unit quaternions, then normal numbers."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(count)], dtype=np.longdouble)
    for where in robot.quaternion_slices:
        q[:, where] /= np.sqrt((q[:, where] ** 2).sum(axis=1, keepdims=True))
    rest = rng.normal(size=(count, robot.nv + extra)).astype(np.longdouble)
    return np.hstack([q, rest])


def robot_program(
    robot: KinematicTree,
    algorithm: Callable[[ScalarArray], ScalarArray],
    output: tuple[str, int],
) -> tuple[Program, Signature]:
    """Program of any algorithm of q alone, such as CRBA or a Jacobian."""
    graph = Graph()
    q = graph.inputs(robot.nq)
    program = graph.program(list(np.ravel(algorithm(q))))
    samples = sample_states(robot, SAMPLES, 0, 0)[:, : robot.nq]
    return simplify(program, samples), Signature((("q", robot.nq),), (output,))


def dynamics_program(
    robot: KinematicTree,
    known: BoolArray,
    given: str,
    outputs: tuple[str, ...],
    *,
    wrenches: bool = False,
    regroup: bool = True,
) -> tuple[Program, Signature]:
    """Program of the symmetric elimination of D at given inputs.

    Parameters
    ----------
    known : (nv,) freedoms whose qdd is given; of the others the torque is.
    given : name of the input vector (nv,) that holds them.
    outputs : any of :data:`DYNAMICS_OUTPUTS`, in the order wanted.
    wrenches : external wrenches (n_bodies, 6) are a further input, else they are zero.
    regroup : move mass moments towards the base (fewer operations, same results).
    """
    graph = Graph()
    q, qd, inputs = graph.inputs(robot.nq), graph.inputs(robot.nv), graph.inputs(robot.nv)
    f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6) if wrenches else None
    mechanism = reframe(robot, regroup=regroup)
    qdd, torque = symmetric_dynamics(mechanism, q, qd, inputs, known, f_ext)
    results: dict[str, ScalarArray] = {"qdd": qdd, "torque": torque}
    if not set(outputs) <= set(results):
        results |= body_quantities(robot, q, qd, qdd, f_ext)
    program = graph.program([x for name in outputs for x in np.ravel(results[name])])
    n_wrenches = 6 * robot.n_bodies if wrenches else 0
    samples = sample_states(robot, SAMPLES, 0, robot.nv + n_wrenches)
    groups = [("q", robot.nq), ("qd", robot.nv), (given, robot.nv)]
    if wrenches:
        groups.append(("f_ext", n_wrenches))
    sizes = tuple((name, len(np.ravel(results[name]))) for name in outputs)
    return simplify(program, samples), Signature(tuple(groups), sizes)


def symmetric_dynamics(
    mechanism: Reframed,
    q: ScalarArray,
    qd: ScalarArray,
    inputs: ScalarArray,
    known: BoolArray,
    f_ext: ScalarArray | None = None,
) -> tuple[ScalarArray, ScalarArray]:
    """qdd and torque (nv,) over scalars of any kind; ``f_ext`` in the robot's own frames."""
    X_up = transforms(mechanism, q)
    imposed = inputs.copy()
    imposed[~known] = 0
    bias = net_wrenches(mechanism, X_up, qd, imposed)
    if f_ext is not None:
        for body, place in enumerate(mechanism.place):
            bias[place] = bias[place] - mechanism.wrench_to_new(body, f_ext[body])
    return solve_symmetric(mechanism, X_up, bias, inputs, known)


def body_quantities(
    robot: KinematicTree,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None,
) -> dict[str, ScalarArray]:
    """Accelerations and joint wrenches (n_bodies, 6) of the robot's own frames, from qdd.

    The rows (3a) and (3f) of [NORI] by substitution: spatial and proper accelerations.
    """
    X_up = transforms(robot, q)
    v = velocities(robot, X_up, qd)
    a: list[ScalarArray] = []
    f: list[ScalarArray] = []
    gravity = np.concatenate([np.zeros(3), -robot.gravity])
    for i, (X, parent, freedoms) in enumerate(
        zip(X_up, robot.parent, robot.v_slices(), strict=True)
    ):
        S, M = robot.motion_subspace[i], robot.moments[i].matrix()
        carried = X.motion(gravity if parent < 0 else a[parent])
        a.append(carried + S @ qdd[freedoms] + cross_motion(v[i], S @ qd[freedoms]))
        f.append(M @ a[i] + cross_force(v[i], M @ v[i]) - (0 if f_ext is None else f_ext[i]))
    for i in reversed(range(robot.n_bodies)):
        if (parent := robot.parent[i]) >= 0:
            f[parent] = f[parent] + X_up[i].force_back(f[i])
    return {"acceleration": np.array(a), "joint_wrench": np.array(f)}
