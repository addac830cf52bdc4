"""Without extras everything of the three uses answers: NumPy executes plans, loops are Python.

``make plain`` runs this file, the README and others in an environment without any extra; here
NumPy is asked for by name, or the extras are taken from a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import KernelBuildError, PlanMismatchError
from dynsys.kernel.build import best_backend
from dynsys.types import Array
from tests.kernel.exported_c import COMPILERS, compile_and_check
from tests.processes import LIMIT

ROOT = Path(__file__).parents[1]
HEAVY = ("llvmlite", "numba", "clarabel", "sksparse", "matplotlib")
ABSENT = f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"
"""Python that has none of them."""


def python(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run text in a process of its own, from the root, without a kernel cache."""
    command = [sys.executable, *options, "-c", text]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def state(
    robot: dynsys.KinematicTree, seed: int = 0, n: int | None = None
) -> tuple[Array, ...]:
    """Arguments q, qd and a third, (n, ...) of them if there is an n."""
    rng = np.random.default_rng(seed)
    if n is None:
        return robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
    q = np.array([robot.random_configuration(rng) for _ in range(n)])
    return q, *rng.normal(size=(2, n, robot.nv))


@pytest.fixture(scope="module")
def robot(humanoid: dynsys.KinematicTree) -> dynsys.KinematicTree:
    return humanoid


# ---- dynamics ------------------------------------------------------------------------------


def test_dynamics_by_numpy_are_rnea_and_aba(robot: dynsys.KinematicTree) -> None:
    q, qd, qdd = state(robot)
    wrenches = np.random.default_rng(1).normal(size=(robot.n_bodies, 6))
    torque = dynsys.recursive.rnea(robot, q, qd, qdd, wrenches)
    inverse = problems.InverseDynamics(robot, backend="numpy").solve(q, qd, qdd, wrenches)
    forward = problems.ForwardDynamics(robot, backend="numpy").solve(q, qd, torque, wrenches)
    np.testing.assert_allclose(inverse.torque, torque, atol=1e-9)
    np.testing.assert_allclose(forward.qdd, qdd, atol=1e-9)
    assert forward.residual < 1e-12 and not forward.fallback
    legs = [name for name in robot.joint_names if name.startswith("l_")]
    hybrid = problems.HybridDynamics(robot, legs, backend="numpy")
    given = np.where(hybrid.known, qdd, torque)
    found = hybrid.solve(q, qd, given, wrenches)
    np.testing.assert_allclose(found.qdd, qdd, atol=1e-9)
    np.testing.assert_allclose(found.torque, torque, atol=1e-9)


@pytest.mark.parametrize("kind", [problems.InverseDynamics, problems.ForwardDynamics])
def test_a_plan_is_what_numpy_runs(kind: type[problems.InverseDynamics]) -> None:
    robot = dynsys.synthetic.random_tree(6, seed=3)
    problem = kind(robot)
    plan = problem.plan()
    kernel = problem.compile(plan, backend="numpy")
    assert kernel.operations == plan.operations  # type: ignore[attr-defined]
    q, qd, x = state(robot, n=3000)
    (rows,), finite = kernel.batch(q, qd, x, threads=2)
    assert finite
    for k in (0, 1, 1023, 1024, 2999):
        (one,), fine = kernel.one(q[k], qd[k], x[k])
        assert fine
        np.testing.assert_allclose(one, rows[k], rtol=1e-12, atol=1e-12)
    last = plan.steps[-1]
    with pytest.raises(PlanMismatchError):
        problem.plan(steps=plan.steps[:-1])
    leaves_first = (*reversed(plan.steps[:0]), *plan.steps[:-1], last)
    assert problem.plan(steps=leaves_first).operations == plan.operations


def test_what_must_not_be_answered_is_nan_and_named() -> None:
    robot = dynsys.synthetic.random_tree(3, 2, joint_types=["revolute", "spherical"])
    problem = problems.ForwardDynamics(robot, backend="numpy")
    q, qd, torque = state(robot, n=4)
    where = robot.quaternion_slices[0]
    q[2, where] *= 1.01
    (rows,), finite = problem.compile().batch(q, qd, torque)
    assert not finite and not np.isfinite(rows[2]).all()
    assert np.isfinite(rows[[0, 1, 3]]).all()
    with pytest.raises(dynsys.StateError, match="state 2: "):
        problem.solve_batch(q, qd, torque)


def test_parameters_and_derivatives_by_numpy() -> None:
    robot = dynsys.synthetic.chain(4)
    q, qd, torque = state(robot)
    problem = problems.ForwardDynamics(robot, backend="numpy")
    kernel = problem.compile(parameters=["link_4.mass"])
    heavy = robot.with_parameters({"link_4.mass": 7.0})
    (qdd,), _ = kernel.one(q, qd, torque, [7.0])
    np.testing.assert_allclose(qdd, dynsys.recursive.aba(heavy, q, qd, torque), rtol=1e-9)
    J = problem.derivatives(q, qd, torque)
    for k, step in enumerate(1e-6 * np.eye(4)):
        ends = (dynsys.recursive.aba(robot, robot.integrate(q, s * step, 1.0), qd, torque)
                for s in (1, -1))  # fmt: skip
        slope = np.subtract(*ends) / 2e-6
        np.testing.assert_allclose(J.q[:, k], slope, rtol=1e-5, atol=1e-5 * abs(J.q).max())
    H_inverse = np.linalg.inv(dynsys.recursive.crba(robot, q))
    np.testing.assert_allclose(J.torque, H_inverse, rtol=1e-8, atol=1e-8 * abs(H_inverse).max())


def test_numpy_says_what_machine_code_says() -> None:
    if best_backend() != "llvm":
        pytest.skip("needs the extra fast")
    robot = dynsys.synthetic.random_tree(5, 4, joint_types=["revolute", "spherical"])
    q, qd, x = state(robot, n=40)
    q[3, robot.quaternion_slices[0]] = 0.0
    qd[5, 1], x[7, 0] = np.nan, np.inf
    for kind in (problems.InverseDynamics, problems.ForwardDynamics):
        for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-2)):
            kernels = [kind(robot).compile(backend=b, dtype=dtype) for b in ("llvm", "numpy")]
            ((machine,), _), ((ours,), _) = (kernel.batch(q, qd, x) for kernel in kernels)
            fine = np.isfinite(machine).all(axis=1)
            np.testing.assert_array_equal(fine, np.isfinite(ours).all(axis=1))
            scale = abs(machine[fine]).max()
            np.testing.assert_allclose(ours[fine], machine[fine], atol=tolerance * scale)
            assert (~fine).sum() == 3


# ---- estimates -----------------------------------------------------------------------------


def arm_and_layout() -> tuple[dynsys.KinematicTree, sensors.Layout]:
    arm = dynsys.synthetic.chain(5)
    layout = sensors.published.sie_friction(arm)
    more = sensors.JointTorque("more", arm.joint_names[2], std=0.3)
    return arm, sensors.Layout(arm, [*layout.sensors, more])


def dense(est: problems.Estimation, q: Array, qd: Array, y: Array) -> tuple[Array, Array]:
    """Estimate and standard deviation of the torques, by dense algebra in one line of each.

    [D^T C^-1 D, L^T; L, 0]: rows without noise, the laws among them, hold exactly.
    """
    D, b = est.system.assemble(q, qd)
    D = D.toarray()
    rows = est.system.measured_rows
    variance = np.zeros(len(D))
    variance[rows] = est.layout.std**2
    right = -b
    right[rows] += y
    exact = variance == 0
    W = np.diag(1.0 / variance[~exact])
    A, L = D[~exact], D[exact]
    K = np.block([[A.T @ W @ A, L.T], [L, np.zeros((len(L), len(L)))]])
    K_inverse = np.linalg.pinv(K, rcond=1e-14)
    n = D.shape[1]
    d = (K_inverse @ np.concatenate([A.T @ W @ right[~exact], right[exact]]))[:n]
    where = np.ravel(est.system.unknowns.columns("torque"))
    return d[where], np.sqrt(np.diag(K_inverse)[where])


def test_an_estimate_by_numpy_is_that_of_dense_algebra() -> None:
    arm, layout = arm_and_layout()
    est = problems.Estimation(arm, layout, backend="numpy")
    q, qd, _ = state(arm, 2)
    y = np.random.default_rng(0).normal(size=layout.size)
    e = est.solve(q, qd, y)
    torque, std = dense(est, q, qd, y)
    np.testing.assert_allclose(e.torque.array, torque, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(e.std.torque.array, std, rtol=1e-6)
    assert e.method == "numpy"
    general = problems.Estimation(arm, layout, backend="dense").solve(q, qd, y)
    np.testing.assert_allclose(e.torque.array, general.torque.array, rtol=1e-8, atol=1e-8)
    assert e.chi_square == pytest.approx(general.chi_square)


def test_an_estimator_executes_its_plan_by_numpy_and_leaves_out_what_is_switched_off() -> None:
    arm, layout = arm_and_layout()
    est = problems.Estimation(arm, layout)
    plan = est.plan()
    kernel = est.compile(plan, backend="numpy")
    assert kernel.operations == plan.operations  # type: ignore[attr-defined]
    q, qd, _ = state(arm, 2, n=300)
    y = np.random.default_rng(0).normal(size=(300, layout.size))
    (rows,), _ = kernel.batch(q, qd, y)
    fine = np.isfinite(rows).all(axis=1)  # others need pivoting: the general path has them
    many = est.solve_batch(q, qd, y, outputs=["torque"]).torque.array
    assert fine.mean() > 0.9 and fine[0] and np.isfinite(many).all()
    np.testing.assert_allclose(rows[fine], many[fine], rtol=1e-6, atol=1e-6)
    switched = est.compile(backend="numpy", switchable=["more"])
    gap = layout.slice("more")
    weight = np.ones(layout.size)
    weight[gap] = 0.0
    (torque,), _ = switched.one(q[0], qd[0], y[0], weight)
    missing = y[0].copy()
    missing[gap] = np.nan
    without = est.solve(q[0], qd[0], missing)
    np.testing.assert_allclose(torque, without.torque.array, rtol=1e-7, atol=1e-7)


def test_a_blind_posture_is_not_answered() -> None:
    arm = dynsys.synthetic.chain(8)
    layout = sensors.published.sie_friction(arm)
    est = problems.Estimation(arm, layout)
    (torque,), finite = est.compile(backend="numpy").one(
        arm.neutral(), np.zeros(8), np.zeros(layout.size)
    )
    assert not finite and not np.isfinite(torque).all()
    assert est.solve(arm.neutral(), np.zeros(8), np.zeros(layout.size)).undetermined()


# ---- without the packages ------------------------------------------------------------------

USES = """
import warnings, dynsys, numpy as np, problems, sensors
arm = dynsys.synthetic.chain(4)
q, qd, x = [0.3, 0.5, -0.4, 0.2], [0.1] * 4, [1.0] * 4
for kind in (problems.InverseDynamics, problems.ForwardDynamics):
    problem = kind(arm)
    plan = problem.plan()
    assert problem.compile(plan).operations == plan.operations
    solution = problem.solve(q, qd, x)
torque = dynsys.rnea(arm, q, qd, solution.qdd)
torque = dynsys.rnea(arm, q, qd, solution.qdd)
assert np.allclose(torque, x)
layout = sensors.published.sie_friction(arm)
est = problems.Estimation(arm, layout)
assert est.verdict(search=False).is_well_posed
plan = est.plan(search_seconds=0.2)
e = problems.Estimation(arm, layout, plan=plan).solve(q, qd, np.zeros(layout.size))
assert e.torque.array.shape == e.std.torque.array.shape == (4,) and e.method == "numpy"
big = dynsys.synthetic.chain(220)
state = np.zeros((3, 220))
assert problems.InverseDynamics(big, backend="loops").compile().one(*state)[1]
"""


def test_three_uses_without_the_packages_each_notice_said_once() -> None:
    done = python(ABSENT + USES)
    notices = [line for line in done.stderr.splitlines() if "SlowWarning:" in line]
    assert len(notices) == 3 and len(set(notices)) == 3
    assert all("pip install 'dynsys-robotics[fast]' makes it fast" in line for line in notices)
    assert [any(word in x for x in notices) for word in ("NumPy", "Python", "fewer")] == [
        True
    ] * 3


def test_commands_answer_without_the_packages(tmp_path: Path) -> None:
    """``compare`` asked for machine code."""
    asked = (
        "compare synthetic:chain:3 --states 2 --json",
        f"plan synthetic:chain:4 --problem published:sie_friction -o {tmp_path / 'plan.json'}",
        "info synthetic:chain:3",
        "doctor",
    )
    for line in asked:
        command = f"from problems.command.main import main; sys.exit(main({line.split()!r}))"
        assert "Traceback" not in python(ABSENT + command).stderr


def test_what_needs_a_package_says_which_extra_brings_it() -> None:
    python(
        ABSENT
        + """
import dynsys, problems
from dynsys.errors import MissingPackage
try:
    problems.InverseDynamics(dynsys.synthetic.chain(2)).compile(backend="llvm")
except MissingPackage as error:
    assert "needs the Python package llvmlite; run: pip install" in str(error)
    assert "[fast]" in str(error) and isinstance(error, ImportError)
else:
    raise SystemExit("no error")
"""
    )


def test_without_clarabel_least_squares_identifies_and_the_way_to_it_is_named() -> None:
    python(
        ABSENT
        + """
import dynsys, numpy as np, problems, sensors
from dynsys.errors import MissingPackage
arm = dynsys.synthetic.chain(2)
layout = sensors.Layout(arm, sensors.all_joint_torques(arm, std=0.1))
ident = problems.Identification(arm, layout)
rng = np.random.default_rng(0)
q, qd, qdd = rng.normal(size=(3, 50, 2))
y = -5.0 * dynsys.rnea(arm, q, qd, qdd)  # masses below zero
assert np.isfinite(list(ident.fit(q, qd, qdd, y, physical=False).values.values())).all()
try:
    ident.fit(q, qd, qdd, y)
except MissingPackage as error:
    text = str(error)
    assert "physical=False, --not-physical" in text and "[identify]" in text
else:
    raise SystemExit("no error")
"""
    )


def test_importing_loads_what_is_asked_for() -> None:
    python("import dynsys, problems, sys; assert 'numpy' not in sys.modules")
    help_page = (
        "import sys; from problems.command.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\nassert 'numpy' not in sys.modules"
    )
    assert "first steps:" in python(help_page).stdout
    loaded = f"assert not set({HEAVY!r}) & set(sys.modules)"
    python(f"import dynsys, problems, sys; dynsys.rnea, problems.Estimation; {loaded}")


def test_measuring_loads_no_package_for_pictures() -> None:
    """``python -m experiments.NAME --json`` drew nothing and asked for matplotlib."""
    python("""
import importlib, pkgutil, sys
import experiments
sys.modules["matplotlib"] = None
for found in pkgutil.walk_packages(experiments.__path__, "experiments.", lambda name: None):
    if found.name.count(".") > 1 and found.name.endswith((".figures", ".pictures")):
        continue  # what draws
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:  # a peer
        assert (error.name or "").partition(".")[0] != "matplotlib", found.name
""")


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
def test_c_is_written_without_machine_code(tmp_path: Path) -> None:
    python(
        ABSENT
        + f"""
import dynsys, problems, sensors
arm = dynsys.synthetic.chain(4)
problems.ForwardDynamics(arm).export_c({str(tmp_path)!r})
problems.Estimation(arm, sensors.published.sie_friction(arm)).export_c({str(tmp_path / "e")!r})
"""
    )
    assert (tmp_path / "forwarddynamics.c").exists()
    compile_and_check(tmp_path, "forwarddynamics")


def test_a_backend_that_is_none_is_named() -> None:
    arm, layout = arm_and_layout()
    for problem in (problems.InverseDynamics(arm), problems.Estimation(arm, layout)):
        with pytest.raises(KernelBuildError, match=r"no backend 'gpu': .*llvm, numpy"):
            problem.compile(backend="gpu")  # type: ignore[arg-type]


def test_a_search_for_a_matching_may_meet_every_row() -> None:
    """Of a full pattern with a row too many; Python minds the ends of arrays."""
    python(
        ABSENT + "import numpy as np; from scipy.sparse import csc_array\n"
        "from dynsys.plan.orders.dulmage_mendelsohn import matching\n"
        "found = matching(csc_array(np.ones((5, 4), dtype=bool)))\n"
        "assert sorted(found.tolist()) == [-1, 0, 1, 2, 3]"
    )
