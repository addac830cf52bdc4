"""Which robots get loops, and where compiled loops are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from dynsys import jit
from dynsys.jit import Loop
from dynsys.loops import flat, prefer_loops
from dynsys.loops.loop_kernel import estimated_operations
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import chain, humanoid30, random_rotation, random_tree
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import dynamics_program


def test_usual_robots_get_straight_line_code_and_large_ones_loops() -> None:
    assert not prefer_loops(humanoid30())
    assert not prefer_loops(chain(100))
    assert prefer_loops(chain(300))
    assert prefer_loops(chain(10), limit=1000)


@pytest.mark.parametrize("robot", [chain(20), humanoid30(), random_tree(12, 1)])
def test_estimate_is_within_a_factor_of_two(robot: KinematicTree) -> None:
    program, _ = dynamics_program(robot, np.zeros(robot.nv, dtype=bool), "torque", ("qdd",))
    assert 0.5 < len(program.op) / estimated_operations(robot) < 2


def test_import_loads_no_compiler() -> None:
    code = "import dynsys.loops, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def plus_one(x: float) -> float:
    return x + 1.0


def test_compiled_loops_go_to_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = numba.config.CACHE_DIR
    monkeypatch.setattr(jit, "_folder", lambda loop: tmp_path / "loops")
    assert Loop(plus_one).compiled("float64(float64)")(1.0) == 2.0
    assert list((tmp_path / "loops").rglob("*.nbc"))
    assert numba.config.CACHE_DIR == before


def test_without_a_usable_folder_loops_are_compiled_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder in (None, tmp_path / "file" / "loops", shared):
        monkeypatch.setattr(jit, "_folder", lambda loop, folder=folder: folder)
        assert Loop(plus_one).compiled("float64(float64)")(1.0) == 2.0
    assert not list(shared.iterdir())


def test_a_damaged_cache_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_folder", lambda loop: tmp_path)
    Loop(plus_one).compiled("float64(float64)")
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:7])
    assert Loop(plus_one).compiled("float64(float64)")(1.0) == 2.0


def test_any_rotation_is_three_elementary_turns() -> None:
    rng = np.random.default_rng(0)
    near = [np.diag(d) for d in ((1.0, 1, 1), (-1, -1, 1), (1, -1, -1), (-1, 1, -1))]
    tilts = [Transform(random_rotation(rng), np.zeros(3)).E for _ in range(20)]
    for angle in (1e-17, 1e-12, 1e-9, 1e-6):
        c, s = np.cos(angle), np.sin(angle)
        tilts += [np.array([[1, 0, 0], [0, c, s], [0, -s, c]]) @ E for E in near]
    for E in [*near, *tilts]:
        psi, ca, sa, ct, st = flat.elementary_turns(E)
        assert ct >= 0 and (st != 0 or ct == 1)
        c, s = np.cos(psi), np.sin(psi)
        first = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        about_x = np.array([[1, 0, 0], [0, ca, sa], [0, -sa, ca]])
        last = np.array([[ct, st, 0], [-st, ct, 0], [0, 0, 1]])
        np.testing.assert_allclose(first @ about_x @ last, E, rtol=0, atol=1e-15)
