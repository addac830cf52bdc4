"""A plan that ``dynsys plan`` wrote is what ``solve``, ``export`` and the library execute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import ModelError, PlanMismatchError, synthetic
from problems.log_jobs import SimulateJob, SolveJob, run_job
from problems.problem_file import load_problem
from sensors import published
from tests.kernel.exported_c import call, compile_and_check, needs_compiler
from tests.plan.test_plan import rewrite
from tests.problems.command.command_line import run, run_json
from tests.problems.test_plans_run import anew, pull_late, sequences
from tests.processes import LIMIT

LIBRARY = """
import sys, numpy as np, dynsys, problems
from problems.problem_file import load_problem
problem, plan, states, out = sys.argv[1:]
problem, given = load_problem(problem), np.load(states)
est = problems.Estimation(problem.tree, problem.sensors, plan=dynsys.Plan.load(plan))
assert est.compile().operations == est.executes.operations
e = est.solve_batch(given["q"], given["qd"], given["y"])
one = est.solve(given["q"][0], given["qd"][0], given["y"][0])
assert {one.method, e.method} == {"llvm"}
np.savez(out, torque=e.torque.array, one=one.torque.array)
"""


def square(folder: Path) -> str:
    """Load cells as published: as many readings as unknowns."""
    robot = synthetic.chain(5)
    published.sie_friction(robot).save(folder / "cells.yaml")
    path = folder / "problem.yaml"
    path.write_text("robot: synthetic:chain:5\nlayout: cells.yaml\n")
    return str(path)


def redundant(folder: Path) -> str:
    """A small robot of the catalogue."""
    try:
        _ = load_problem("catalogue:panda")
    except ModelError as error:
        pytest.skip(str(error))
    return "catalogue:panda"


PROBLEMS = {"square": square, "redundant": redundant}


def other_process(*words: object) -> str:
    """What another Python process says."""
    folder = Path(problems.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("kind", PROBLEMS)
def test_one_plan_for_all_processes(kind: str, tmp_path: Path) -> None:
    """Planned, solved, exported and called in processes of their own: all as SuperLU says."""
    spec = PROBLEMS[kind](tmp_path)
    plan, log, out, c = (tmp_path / name for name in ("p.json", "log.npz", "out.npz", "c"))
    run_job(SimulateJob(spec, str(log), duration=0.3))
    dynsys_command = ("-m", "dynsys")
    told = json.loads(other_process(*dynsys_command, "plan", spec, "-o", plan, "--json"))
    assert told["method"] == {"square": "recursion", "redundant": "saddle"}[kind]
    assert told["operations"] == dynsys.Plan.load(plan).operations.total
    other_process(
        *dynsys_command, "solve", spec, log, "-o", out, "--plan", plan, "--outputs", "torque"
    )
    other_process(*dynsys_command, "export", spec, "--plan", plan, "-o", c)
    # the same states through SuperLU
    problem = load_problem(spec)
    samples = SolveJob(spec, str(log), str(out)).reader().read(0, 20)
    exact = problems.Estimation(problem.tree, problem.sensors, backend="superlu")
    expected = exact.solve_batch(samples.q, samples.qd, samples.y).torque.array
    close = {"rtol": 0, "atol": 1e-10 * np.abs(expected).max()}
    with np.load(out) as solved:
        np.testing.assert_allclose(solved["torque"][:20], expected, **close)
    np.savez(tmp_path / "states.npz", q=samples.q, qd=samples.qd, y=samples.y)
    other_process("-c", LIBRARY, spec, plan, tmp_path / "states.npz", tmp_path / "lib.npz")
    with np.load(tmp_path / "lib.npz") as found:
        np.testing.assert_allclose(found["torque"], expected, **close)
        np.testing.assert_allclose(found["one"], expected[0], **close)
    assert "ok torque" in compile_and_check(c, "estimation")
    est = problems.Estimation(problem.tree, problem.sensors, plan=dynsys.Plan.load(plan))
    states = np.hstack([samples.q, samples.qd, samples.y])
    found_c = call(c, "estimation", est.compile().signature, states)
    np.testing.assert_allclose(found_c, expected, **close)


def late(path: Path, plan: Path) -> Path:
    """Another file, a third of whose pivots comes late; its cost is not stated anew."""
    other = path / "late.json"
    other.write_text(plan.read_text())
    rewrite(other, lambda content: [pull_late(x) for x in sequences(content)])
    return other


def test_solve_and_export_execute_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A poorer order in the file is a longer function; one that lies about its cost, none."""
    spec, plan = square(tmp_path), tmp_path / "p.json"
    assert run(capsys, "plan", spec, "-o", plan)[0] == 0
    poorer = late(tmp_path, plan)
    asked = ("export", spec, "--plan", poorer, "--outputs", "qdd", "-o", tmp_path / "none")
    status, _, error = run(capsys, *asked)
    assert status == 2 and "not as it was made" in error and not (tmp_path / "none").exists()
    anew(dynsys.Plan.load(poorer)).save(poorer)
    sizes = []
    for file in (plan, poorer):
        folder = tmp_path / file.stem
        asked = ("export", spec, "--plan", file, "--outputs", "qdd", "-o", folder)
        assert run(capsys, *asked)[0] == 0
        sizes.append((folder / "estimation.c").stat().st_size)
    assert sizes[1] > sizes[0]  # the small system of the recursion alone is reordered
    status, _, error = run(capsys, "export", spec, "--plan", poorer, "-o", tmp_path / "no")
    assert status == 2 and "its order executes" in error
    log, out = tmp_path / "log.npz", tmp_path / "out.npz"
    run_job(SimulateJob(spec, str(log), duration=0.3))
    asked = ("solve", spec, log, "-o", out, "--outputs", "torque", "--plan", poorer)
    status, _, error = run(capsys, *asked)
    assert status == 2 and "its order executes" in error and not out.exists()
    status, _, error = run(capsys, *asked[:-1], tmp_path / "nothing.json")
    assert status == 2 and "no such file" in error


def test_plans_of_dynamics_are_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan, robot = tmp_path / "p.json", "synthetic:chain:3"
    assert run(capsys, "plan", robot, "-o", plan)[0] == 0
    assert run(capsys, "export", robot, "--plan", plan, "-o", tmp_path / "c")[0] == 0
    asked = ("export", robot, "--problem", "id", "--plan", plan, "-o", tmp_path / "id")
    status, _, error = run(capsys, *asked)
    assert status == 2 and "ForwardDynamics" in error


def test_a_problem_file_names_its_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Path(square(tmp_path))
    spec.write_text(spec.read_text() + "plan: plans/p.json\noutputs: [torque]\n")
    (tmp_path / "plans").mkdir()
    monkeypatch.chdir(tmp_path / "plans")  # the plan is beside the file, wherever we are
    assert run(capsys, "plan", spec, "-o", tmp_path / "plans" / "p.json")[0] == 0
    problem = load_problem(spec)
    assert problem.estimation.executes is None
    plan = problem.planned.executes
    assert plan is not None and plan.method == "recursion"
    assert run(capsys, "export", spec, "-o", tmp_path / "c")[0] == 0
    # the plan of other sensors is refused where something is solved, not where it is judged
    few = published.sie_friction_fy(synthetic.chain(5))
    few.save(tmp_path / "cells.yaml")
    with pytest.raises(PlanMismatchError, match="was made for another problem"):
        _ = load_problem(spec).planned
    status, _, error = run(capsys, "export", spec, "-o", tmp_path / "other")
    assert status == 2 and "Make a new plan" in error
    assert run(capsys, "check", spec, "--quick", "--samples", 2)[0] in (0, 1)
    assert run(capsys, "plan", spec, "-o", tmp_path / "plans" / "p.json")[0] == 0
    assert run(capsys, "export", spec, "-o", tmp_path / "other")[0] == 0


def test_redundant_layouts_are_planned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, robot = tmp_path / "layout.yaml", synthetic.chain(3)
    some = [
        *sensors.zero_external_wrench_except(robot, []),
        *sensors.all_joint_torques(robot, std=0.1),
        *sensors.all_joint_accelerations(robot, std=0.1),
    ]
    sensors.Layout(robot, some).save(path)
    asked = ("plan", "synthetic:chain:3", "--problem", path)
    status, told = run_json(capsys, *asked, "--outputs", "torque,std.torque")
    assert status == 0 and told["method"] == "saddle"
    _, plain = run_json(capsys, *asked)
    assert plain["operations"] == plain["constructive_operations"] < told["operations"]
    sensors.Layout(robot, some[:2]).save(path)
    status, _, error = run(capsys, *asked)
    assert status == 2 and "do not determine" in error


@needs_compiler
@pytest.mark.finding("Z-W7")
def test_export_of_statements_that_come_and_go(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The weight of the C function is what ``active`` is to the library."""
    robot = synthetic.chain(2)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, std=0.01),
        ],
    )
    layout.save(tmp_path / "arm.yaml")
    spec, folder = tmp_path / "problem.yaml", tmp_path / "c"
    spec.write_text("robot: synthetic:chain:2\nlayout: arm.yaml\n")
    name = "link_2/torque"
    asked = ("export", spec, "--outputs", "torque", "-o", folder)
    assert run(capsys, *asked, "--switchable", name)[0] == 0
    est = load_problem(spec).estimation
    signature = est.compile(switchable=[name]).signature
    y, weight = np.linspace(0.1, 1.0, layout.size), np.ones((2, layout.size))
    y[np.isfinite(layout.constants)] = 0.0
    weight[1, layout.slice(name)] = 0.0
    states = np.array([np.hstack([[0.3, 0.2, 0.1, 0.5], y, w]) for w in weight])
    found = call(folder, "estimation", signature, states)
    for k, on in enumerate((True, False)):
        e = est.solve([0.3, 0.2], [0.1, 0.5], y, active={name: on})
        np.testing.assert_allclose(found[k], e.torque.array, atol=1e-9)
    assert abs(found[0] - found[1]).max() > 1e-5
    status, _, error = run(capsys, *asked, "--switchable", "link_2/torqe", "--overwrite")
    assert status == 2 and f"{name!r}" in error
    dynamics = ("export", "synthetic:chain:2", "-o", tmp_path / "d", "--switchable", name)
    status, _, error = run(capsys, *dynamics)
    assert status == 2 and "--switchable" in error
