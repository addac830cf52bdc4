"""Kernels from the cache: verified, rebuilt when wrong, safe with several processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import dynsys
from dynsys import KinematicTree, SingularSystemError, synthetic
from dynsys.kernel import build
from dynsys.kernel.build import dynamics_kernel
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.calls import Answer
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.quantities import quantity_kernel
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from dynsys.plan.record import DynamicsSpec, guarded_dynamics
from dynsys.recursive.aba import aba
from dynsys.recursive.rnea import rnea
from dynsys.resumable import PATIENCE
from problems import ForwardDynamics
from tests.processes import LIMIT, started

LIBRARY = Path(dynsys.__file__).parent
ROBOT = synthetic.chain(4)
ALL = np.ones(4, dtype=bool)


def torque(cache: KernelCache) -> np.ndarray:
    kernel = dynamics_kernel(DynamicsSpec(ROBOT, ALL, "qdd", ("torque",)), cache=cache)
    (answer,), finite = kernel.one(np.ones(4), np.ones(4), np.ones(4))
    assert finite
    return answer


def expected() -> np.ndarray:
    return rnea(ROBOT, np.ones(4), np.ones(4), np.ones(4))


def assert_right(cache: KernelCache) -> None:
    np.testing.assert_allclose(torque(cache), expected(), rtol=1e-12)


def only_entry(cache: KernelCache) -> Path:
    assert cache.folder is not None
    (entry,) = cache.folder.glob("*.kernel")
    return entry


def test_second_use_comes_from_the_cache(tmp_path: Path) -> None:
    for hits in (0, 1):
        cache = KernelCache(tmp_path / "kernels")
        assert_right(cache)
        assert cache.status().hits == hits


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_damaged_entries_are_rebuilt(tmp_path: Path, damage: str) -> None:
    cache = KernelCache(tmp_path / "kernels")
    torque(cache)
    entry = only_entry(cache)
    data = bytearray(entry.read_bytes())
    if damage == "truncated":
        del data[len(data) // 2 :]
    elif damage == "flipped":
        data[-100] ^= 0xFF
    else:
        data.clear()
    entry.write_bytes(bytes(data))
    assert_right(KernelCache(tmp_path / "kernels"))
    again = KernelCache(tmp_path / "kernels")
    torque(again)
    assert again.status().hits == 1


def test_code_that_computes_something_else_is_not_used(tmp_path: Path) -> None:
    """A whole entry of another kernel under this key: its reference states do not come out."""
    cache = KernelCache(tmp_path / "kernels")
    torque(cache)
    entry = only_entry(cache)
    stored = cache.get(entry.stem)
    assert stored is not None
    wrong = {**stored.arrays, "outputs": stored.arrays["outputs"] + 1.0}
    cache.put(entry.stem, stored.payload, {}, wrong)
    assert_right(KernelCache(tmp_path / "kernels"))


@pytest.mark.finding("P-10", "tests that cannot fail")
def test_code_that_does_not_match_its_reference_states_is_not_used(tmp_path: Path) -> None:
    """Signed, loadable code of another robot beside the states of this one."""
    cache, other = KernelCache(tmp_path / "kernels"), KernelCache(tmp_path / "other")
    torque(cache)
    heavier = replace(ROBOT, gravity=2.0 * np.asarray(ROBOT.gravity))
    dynamics_kernel(DynamicsSpec(heavier, ALL, "qdd", ("torque",)), cache=other)
    right, wrong = (c.get(only_entry(c).stem) for c in (cache, other))
    assert right is not None and wrong is not None
    cache.put(right.key, wrong.payload, right.metadata, right.arrays)
    assert_right(KernelCache(tmp_path / "kernels"))


@pytest.mark.parametrize("entry", ["one", "batch"])
@pytest.mark.finding("P-9", "item 8")
def test_every_entry_of_loaded_code_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Code with both entries: one that is wrong, at one state or in full vectors, is found."""
    cache = KernelCache(tmp_path / "kernels")

    def kernel() -> Kernel:
        return quantity_kernel(synthetic.humanoid30(), "ltdl", (), cache=cache)

    kernel()
    original = getattr(Kernel, entry)

    def damaged(self: Kernel, *inputs: ArrayLike, **options: Any) -> Answer:
        outputs, finite = original(self, *inputs, **options)
        outputs[0][0, ...] += 1.0  # of rows: the first, which is in a full vector
        return outputs, finite

    assert cache.status().rejected == 0
    before = len(list((tmp_path / "kernels").iterdir()))
    monkeypatch.setattr(Kernel, entry, damaged)
    monkeypatch.setattr(cache, "put", lambda *_: None)
    kernel()
    assert len(list((tmp_path / "kernels").iterdir())) == before - 1


def rows(cache: KernelCache) -> np.ndarray:
    kernel = dynamics_kernel(DynamicsSpec(ROBOT, ALL, "qdd", ("torque",)), cache=cache)
    return kernel.batch(*[np.ones((3, 4))] * 3)[0][0]


def test_code_for_batches_is_compiled_when_there_is_one(tmp_path: Path) -> None:
    """From the stored program: nothing is recorded again, whichever process asks for it."""
    cache = KernelCache(tmp_path / "kernels")
    torque(cache)
    first = only_entry(cache)
    for hits in (1, 2):  # of the code for one state; then of both
        again = KernelCache(tmp_path / "kernels")
        np.testing.assert_allclose(rows(again), [expected()] * 3, rtol=1e-12)
        assert again.status().hits == hits
        assert len(list(first.parent.glob("*.kernel"))) == 2
    (other,) = set(first.parent.glob("*.kernel")) - {first}
    wrong = cache.get(first.stem)
    assert wrong is not None
    cache.put(other.stem, wrong.payload)  # code, but not for batches
    np.testing.assert_allclose(rows(cache), [expected()] * 3, rtol=1e-12)


TAKE = """
import sys
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.taking import taking_kernel
cache = KernelCache(sys.argv[1])
kernel = taking_kernel([("q", 2)], cache=cache)
assert kernel.one([1.0, 2.0])[1]
print(cache.status().hits)
"""


@pytest.mark.slow
def test_edited_comments_keep_kernels_and_edited_numbers_do_not(tmp_path: Path) -> None:
    library = shutil.copytree(
        LIBRARY, tmp_path / "dynsys", ignore=shutil.ignore_patterns("__pycache__")
    )
    here = {"PYTHONPATH": str(tmp_path), "DYNSYS_CACHE": str(tmp_path / "kernels")}

    def hits() -> int:
        command = [sys.executable, "-c", TAKE, str(tmp_path / "kernels")]
        told = subprocess.check_output(
            command, env=os.environ | here, cwd=tmp_path, timeout=120
        )
        return int(told)

    edited = library / "kernel" / "taking.py"
    assert hits() == 0
    edited.write_text("# Vectors\n\n" + edited.read_text().replace("Sum of the", "The sum of"))
    assert hits() == 1
    edited.write_text(edited.read_text().replace("LARGEST = 1e150", "LARGEST = 1e140"))
    assert hits() == 0


COMPILE = """
import os, sys, time
from pathlib import Path
from dynsys.kernel import build
from dynsys.kernel.cache import KernelCache
from tests.kernel.test_build import assert_right, rows

folder, others = Path(sys.argv[1]), int(sys.argv[2])
compiled = build.compile_computation

def counted(*given, **named):
    (part,) = named["parts"]
    print(part, flush=True)
    while len(list(folder.glob(f"{part}-*"))) < others:
        time.sleep(0.01)
    time.sleep(0.5)  # for others to begin, too
    return compiled(*given, **named)

build.compile_computation = counted
cache = KernelCache(folder / "kernels")
(folder / f"one-{os.getpid()}").touch()
assert_right(cache)
(folder / f"batch-{os.getpid()}").touch()
rows(cache)
"""


def compiler(folder: Path, others: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A process that says what it compiles, and goes on when ``others`` have asked, too."""
    command = [sys.executable, "-c", COMPILE, str(folder), str(others)]
    return started(command, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_of_processes_that_need_the_same_kernel_one_compiles_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(compiler(tmp_path, 3)) for _ in range(3)]
        told = [process.communicate(timeout=LIMIT)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(b"".join(told).split()) == [b"batch", b"one"]
    assert {path.suffix for path in (tmp_path / "kernels").iterdir()} == {".kernel"}


@pytest.mark.slow
def test_killed_compilers_leave_nothing_that_harms(tmp_path: Path) -> None:
    with compiler(tmp_path, others=2) as process:
        assert process.stdout is not None and process.stdout.readline() == b"one\n"
        process.kill()
    start = time.monotonic()
    assert_right(KernelCache(tmp_path / "kernels"))
    assert time.monotonic() - start < PATIENCE / 2, "waited for a process that is dead"
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".kernel"]


def test_of_threads_that_need_the_same_kernel_one_compiles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, asked = build.compile_computation, threading.Barrier(2)
    parts: list[tuple[str, ...]] = []

    def counted(*given: Any, **named: Any) -> bytes:
        parts.append(named["parts"])
        time.sleep(0.3)  # for the other to begin, too
        return compiled(*given, **named)

    def answer(_: int) -> None:
        asked.wait(60)
        assert_right(KernelCache(tmp_path / "kernels"))

    monkeypatch.setattr(build, "compile_computation", counted)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(answer, range(2)))
    assert parts == [("one",)]


@pytest.mark.slow
def test_bad_quaternions_and_nan_come_out_as_not_finite(tmp_path: Path) -> None:
    robot = synthetic.humanoid30()
    unknown = np.zeros(robot.nv, dtype=bool)
    cache = KernelCache(tmp_path / "kernels")
    kernel = dynamics_kernel(DynamicsSpec(robot, unknown, "torque", ("qdd",)), cache=cache)
    q, zero = robot.neutral(), np.zeros(robot.nv)
    assert kernel.one(q, zero, zero)[1]
    long = q.copy()
    long[3:7] *= 1.001
    bad = q.copy()
    bad[9] = np.nan
    for wrong in (long, bad):
        assert not kernel.one(wrong, zero, zero)[1]
        assert not kernel.batch(wrong[None], zero[None], zero[None])[1]


def ring_between_axes(angle: float) -> KinematicTree:
    """Two joints with a massless ring between them; parallel axes at q = 0 if angle is 0."""
    c, s = np.cos(angle), np.sin(angle)
    tilt = Transform(np.array([[1, 0, 0], [0, c, s], [0, -s, c]]), np.zeros(3))
    ball = Inertia(1.0, np.array([0.1, 0.2, 0.0]), 0.01 * np.eye(3))
    return KinematicTree(
        "gimbal",
        [
            Body("arm", -1, Revolute(), inertia=ball),
            Body("ring", 0, Revolute(np.array([1.0, 0, 0])), joint_name="ring_joint"),
            Body("rotor", 1, Revolute(), tilt, inertia=ball),
        ],
    )


def test_pivots_safe_by_sampling_only_are_watched() -> None:
    """A massless ring has no inertia of its own: its pivot is checked at run time."""
    robot = ring_between_axes(0.3)
    plan = ForwardDynamics(robot).plan()
    assert [pivot.safety for pivot in plan.pivots] == ["argument", "sampling", "argument"]
    assert [pivot.name for pivot in plan.checked_pivots] == ["inertia of joint 'ring_joint'"]
    q, qd, tau = np.array([0.1, 0.7, -0.4]), np.ones(3), np.ones(3)
    solution = ForwardDynamics(robot).solve(q, qd, tau)
    assert not solution.fallback
    np.testing.assert_allclose(solution.qdd, aba(robot, q, qd, tau), rtol=1e-9)


def test_robots_without_inertia_are_refused_by_name() -> None:
    bodies = [*ROBOT.bodies, Body("tip", 3, Revolute(), joint_name="wrist")]
    robot = KinematicTree("arm", bodies)
    with pytest.raises(SingularSystemError, match="'wrist'"):
        guarded_dynamics(DynamicsSpec(robot, np.zeros(5, dtype=bool), "torque", ("qdd",)))
