"""Derivatives of dynamics beside Pinocchio's calls and CasADi's generated Jacobians.

    python -m experiments.derivatives [--robots NAME ...] [--casadi FOLDER] [--json FILE]
    python -m experiments.derivatives --compile [--json FILE]      compile times, operations

One core, one run, the same outputs: d torque by q, qd and qdd (H), d qdd by q, qd and torque
(H^-1). ``problem.derivatives`` and ``derivatives_batch`` (so many states in one call) stand
beside ``pinocchio.computeRNEADerivatives`` and ``computeABADerivatives`` called from Python,
one state a call; all run in turns, medians of processor time over the turns. Before that, the
answers are compared at some states, to 1e-9; where they differ by more, as on icub, whose H is
ill-conditioned, ours must agree with extended precision, to 1e-9 or a hundredth of what
Pinocchio loses; that and the condition number, which bounds both, are said.
CasADi differentiates RNEA (this project's, in the link frames of the file), its C is compiled
by ``cc -O3`` and called through ``Function.buffer``; fixed bases only, where the compiler
finishes in time.

``--compile`` counts operations and times the first call from an empty cache, code for batches
apart, and counts how operations grow: the recursion is O(n d), d the depth of the tree
(Carpentier, Mansard, 2018), forward dynamics adds H^-1 times its n columns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pinocchio as pin

import dynsys
import problems
from dynsys.interop import PinocchioMap
from dynsys.kernel.build import dynamics_computation
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import dynamics_program, guarded_dynamics
from dynsys.private_folder import CACHE_VARIABLE
from dynsys.program.program import Op, Program
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array
from experiments.example_robots import load_quietly, pinocchio_model_of, robot_path
from experiments.peers.robots import PeerRobot, peer_robot
from problems.problem import AbstractDynamics
from problems.terminal import show_table

__all__ = ["beside_pinocchio", "growth", "main", "operations", "trial"]

ROBOTS = ("panda", "solo12", "allegro", "humanoid30", "icub", "talos")
MORE = {
    "allegro": ("allegro_hand_description/urdf/allegro_right_hand.urdf", False),
    "hyq": ("hyq_description/robots/hyq_no_sensors.urdf", True),
}
STATES, BATCH = 32, 512
AGREE = 1e-9
TRIAL = {
    "panda": ("panda_description/urdf/panda.urdf", 5461, 13_077),
    "hyq": (MORE["hyq"][0], 2248, 4946),
    "allegro": (MORE["allegro"][0], 3491, None),
    "icub": ("icub_description/robots/icub.urdf", 32_962, 100_696),
    "talos": ("talos_data/robots/talos_full_v2.urdf", 50_353, None),
}
"""Fixed bases: operations of a trial, reverse or forward accumulation, by q and qd alone."""
CASADI = ("panda", "allegro")
PATIENCE = 60.0
"""Seconds that the C compiler may take for CasADi's text."""
Row: TypeAlias = dict[str, Any]


def peer(name: str) -> PeerRobot:
    """A robot in both libraries, without rotor inertias."""
    if name in MORE:
        path, floating = robot_path(MORE[name][0]), MORE[name][1]
        robot, model = load_quietly(path, floating), pinocchio_model_of(path, floating)
        found = PeerRobot(name, robot, model, PinocchioMap(robot, model))
    else:
        found = peer_robot(name)
    found.model.armature[:] = 0.0
    robot = found.robot
    if robot.armature.any():
        robot = robot.with_armature(np.zeros(robot.nv))
    return PeerRobot(name, robot, found.model, PinocchioMap(robot, found.model))


def both(robot: KinematicTree) -> dict[str, AbstractDynamics]:
    """Inverse and forward dynamics."""
    return {"ID": problems.InverseDynamics(robot), "FD": problems.ForwardDynamics(robot)}


# ---- times -----------------------------------------------------------------------------------


def in_turns(calls: Sequence[Callable[[], object]], turns: int, each: Sequence[int]) -> Array:
    """Median microseconds of processor time per call."""
    found = np.empty((len(calls), turns))
    for turn in range(turns):
        for k, call in enumerate(calls):
            start = time.thread_time_ns()
            for _ in range(each[k]):
                call()
            found[k, turn] = (time.thread_time_ns() - start) * 1e-3 / each[k]
    return np.asarray(np.median(found, axis=1))


def beside_pinocchio(name: str, casadi: Path | None = None, turns: int = 15) -> list[Row]:
    """Times of one robot, ours and theirs; the answers agree, or AssertionError."""
    made = peer(name)
    robot, model, nv = made.robot, made.model, made.robot.nv
    data, states = model.createData(), made.states(BATCH)
    theirs = made.to_pinocchio(states)
    T = np.array([made.order.v_to_pin(unit) for unit in np.eye(nv)]).T
    rows = []
    for task, problem in both(robot).items():
        third, other = (
            (states.qdd, theirs.qdd) if task == "ID" else (states.torque, theirs.torque)
        )
        call = pin.computeRNEADerivatives if task == "ID" else pin.computeABADerivatives
        left = T.T if task == "ID" else np.linalg.inv(T)
        problem.derivatives_batch(states.q, states.v, third)
        ours = np.empty((STATES, 2, nv, nv))
        pins = np.empty_like(ours)
        for k in range(STATES):
            J = problem.derivatives(states.q[k], states.v[k], third[k])
            found = call(model, data, theirs.q[k], theirs.v[k], other[k])
            ours[k], pins[k] = (J.q, J.qd), [left @ D @ T for D in found[:2]]
        differences, lost, condition = _relative(ours, pins), None, 0.0
        if differences.max() > AGREE:  # who is right is decided in extended precision
            some = np.flatnonzero(differences > AGREE)
            exact = _extended(problem, states.q[some], states.v[some], third[some])
            lost = float(_relative(pins[some], exact).max())
            differences[some] = _relative(ours[some], exact)
            at = states.q[int(differences.argmax())]
            condition = float(np.linalg.cond(dynsys.crba(robot, at)))
        worst = float(differences.max())
        allowed = max(AGREE, (lost or 0.0) / 100.0)
        assert worst <= allowed, f"{name} {task}: {worst:.1e} beside Pinocchio"
        q, v, x = states.q[0].copy(), states.v[0].copy(), third[0].copy()
        pq, pv, px = theirs.q[0].copy(), theirs.v[0].copy(), other[0].copy()
        w, u = np.ones(nv), np.ones(3 * nv)
        for first in (
            lambda: problem.jvp(q, v, x, u),  # noqa: B023
            lambda: problem.vjp(q, v, x, w),  # noqa: B023
            lambda: problem.hvp(q, v, x, w, u),  # noqa: B023
        ):
            first()
        calls: list[Callable[[], object]] = [
            lambda: problem.derivatives(q, v, x),  # noqa: B023
            lambda: call(model, data, pq, pv, px),  # noqa: B023
            lambda: problem.derivatives_batch(states.q, states.v, third),  # noqa: B023
            lambda: problem.jvp(q, v, x, u),  # noqa: B023
            lambda: problem.vjp(q, v, x, w),  # noqa: B023
            lambda: problem.hvp(q, v, x, w, u),  # noqa: B023
        ]
        generated = None
        if casadi is not None and name in CASADI and task == "ID":
            generated = casadi_jacobian(robot, casadi)
        if generated is not None:
            run, answer = generated
            found = answer(q, v, x)
            J = problem.derivatives(q, v, x)
            for ours, matrix in zip((J.q, J.qd), found, strict=False):
                assert np.abs(ours - matrix).max() <= AGREE * (1.0 + np.abs(matrix).max())
            calls.append(run)
        us = in_turns(calls, turns, [200, 200, 2, 200, 200, 200, 200][: len(calls)])
        rows.append(
            {
                "robot": name,
                "freedoms": nv,
                "task": task,
                "one": us[0],
                "pinocchio": us[1],
                "batch": us[2] / BATCH,
                "times": us[1] / us[0],
                "times in batches": us[1] / (us[2] / BATCH),
                "jvp": us[3],
                "vjp": us[4],
                "hvp": us[5],
                "casadi": us[6] if generated is not None else None,
                "difference": worst,
                "lost by Pinocchio": lost,
                "condition of H": condition or None,
            }
        )
    return rows


def _relative(found: Array, expected: Array) -> Array:
    """Largest difference of each state, beside one and its largest number."""
    scale = 1.0 + np.abs(expected).max(axis=(1, 2, 3))
    return np.asarray(np.abs(found - expected).max(axis=(1, 2, 3)) / scale)


def _extended(problem: AbstractDynamics, *state: Array) -> Array:
    """Derivatives by q and qd (N, 2, nv, nv) of the kernel's computation, 64-bit mantissa."""
    made = dynamics_computation(problem._spec(("derivatives",)))
    inputs = np.hstack(state).astype(np.longdouble)
    found = made.evaluate(inputs).reshape(len(inputs), 3, problem.robot.nv, problem.robot.nv)
    return np.asarray(found[:, :2], dtype=np.float64)


def casadi_jacobian(
    robot: KinematicTree, folder: Path
) -> tuple[Callable[[], object], Callable[..., list[Array]]] | None:
    """CasADi's Jacobians of RNEA as compiled C: a call at fixed inputs, and one with answers.

    None if the compiler takes too long. The library is kept in the folder.
    """
    import casadi as ca

    ca.GlobalOptions.setNumpyMode(-1)
    name = f"jacobian_{robot.name}".replace("-", "_")
    library = folder / f"{name}.so"
    if not library.exists():
        symbols = [
            ca.SX.sym(x, n) for x, n in zip("qvx", (robot.nq, robot.nv, robot.nv), strict=True)
        ]
        arrays = []
        for symbol in symbols:
            array = np.empty(symbol.shape[0], dtype=object)
            for k in range(len(array)):
                array[k] = symbol[k]
            arrays.append(array)
        answer = ca.vertcat(*rnea_scalars(robot, *arrays))
        jacobians = [ca.densify(ca.jacobian(answer, symbol)) for symbol in symbols]
        function = ca.Function(name, symbols, jacobians)
        text = folder / f"{name}.c"
        generator = ca.CodeGenerator(text.name)
        generator.add(function)
        generator.generate(f"{folder}/")
        command = [
            "cc",
            "-O3",
            "-march=native",
            "-fPIC",
            "-shared",
            str(text),
            "-o",
            str(library),
        ]
        try:
            subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
        except subprocess.TimeoutExpired:
            return None
    function = ca.external(name, str(library))
    buffer, evaluate = function.buffer()
    inputs = [np.zeros(n) for n in (robot.nq, robot.nv, robot.nv)]
    outputs = [np.zeros((robot.nv, robot.nv)) for _ in range(3)]
    for k, x in enumerate(inputs):
        buffer.set_arg(k, x.data)
    for k, found in enumerate(outputs):
        buffer.set_res(k, found.data)
    keep = (function, buffer)

    def answer_at(*state: Array) -> list[Array]:
        assert keep
        for place, x in zip(inputs, state, strict=True):
            place[:] = x
        evaluate()
        return [x.T.copy() for x in outputs]

    return evaluate, answer_at


# ---- operations and compile times ------------------------------------------------------------


def count(program: Program) -> int:
    """Multiplications, additions and divisions."""
    kinds = program.op.tolist()
    return sum(kinds.count(int(op)) for op in (Op.ADD, Op.MUL, Op.DIV))


def operations(problem: AbstractDynamics) -> int:
    """Operations of all derivatives in straight-line code, on any processor."""
    return count(guarded_dynamics(problem._spec(("derivatives",))))


def executed(problem: AbstractDynamics, states: int) -> int:
    """Operations that the kernel of so many states executes for one, lanes of vectors too."""
    found = problem._derivative_kernel(False, states).operations
    assert found is not None
    return found.total


def trial() -> list[Row]:
    """Fixed bases, by q and qd alone: operations beside those of the trial."""
    rows = []
    for name, (path, inverse, forward) in TRIAL.items():
        robot = load_quietly(robot_path(path), False)
        found = {}
        for task, problem in both(robot).items():
            answer = "torque" if task == "ID" else "qdd"
            outputs = (f"d{answer}_dq", f"d{answer}_dqd")
            if task == "FD" and forward is None:
                continue
            found[task] = count(dynamics_program(problem._spec(outputs)))
        row = {"robot": name, "freedoms": robot.nv, "ID": found["ID"], "ID trial": inverse}
        rows.append(row | {"FD": found.get("FD"), "FD trial": forward})
    return rows


def growth() -> list[Row]:
    """Operations of chains and trees, in parts of n d, d the mean number of supports."""
    rows = []
    made = {f"chain {n}": synthetic.chain(n) for n in (4, 8, 16, 32)}
    made |= {f"tree {2**m - 1}": synthetic.balanced_tree(m) for m in (2, 3, 4, 5)}
    for name, robot in made.items():
        pairs = sum(len(robot.support(i)) for i in range(robot.n_bodies))
        program = dynamics_program(problems.InverseDynamics(robot)._spec(("derivatives",)))
        rows.append(
            {
                "robot": name,
                "n d": pairs,
                "ID": count(program),
                "per pair": count(program) / pairs,
            }
        )
    return rows


def compile_times(name: str) -> list[Row]:
    """Operations; seconds of the first call and first large batch from an empty cache."""
    made = peer(name)
    states, before = made.states(BATCH), os.environ.get(CACHE_VARIABLE)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        try:
            for task, problem in both(made.robot).items():
                third = states.qdd if task == "ID" else states.torque
                start = time.process_time()
                problem.derivatives(states.q[0], states.v[0], third[0])
                first = time.process_time() - start
                start = time.process_time()
                problem.derivatives_batch(states.q, states.v, third)
                batch = time.process_time() - start
                row = {"robot": name, "task": task, "executed": executed(problem, 1)}
                row |= {"in a batch": executed(problem, BATCH)}
                rows.append(row | {"first": first, "batch": batch})
        finally:
            os.environ.pop(CACHE_VARIABLE)
            if before is not None:
                os.environ[CACHE_VARIABLE] = before
    return rows


# ---- the command -----------------------------------------------------------------------------


def show(rows: Sequence[Row]) -> None:
    """A table of rows of the same keys."""
    if not rows:
        return

    def text(x: object) -> str:
        return (
            "-"
            if x is None
            else f"{x:.3g}"
            if isinstance(x, float)
            else f"{x:,}"
            if isinstance(x, int)
            else str(x)
        )

    columns = tuple(rows[0])
    show_table(columns, [[text(row[c]) for c in columns] for row in rows], right=columns[1:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show, and write what was found into the JSON file, beside what it has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--casadi", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    found: dict[str, list[Row]] = {}
    if args.compile:
        found = {"trial": trial(), "growth": growth()}
        found["compile"] = [row for name in args.robots for row in compile_times(name)]
    else:
        found["times"] = [
            row for name in args.robots for row in beside_pinocchio(name, args.casadi)
        ]
    for rows in found.values():
        show(rows)
    if args.json:
        known = json.loads(args.json.read_text()) if args.json.exists() else {}
        args.json.write_text(json.dumps(known | found, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
