"""Loops: machine code for numbers, the source for other scalars, numba only on a call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from dynsys import jit
from dynsys.jit import Loop, fused, inlined
from dynsys.types import Array
from tests.processes import LIMIT, started

FACTOR = 3.0


@inlined
def _scaled(x: float) -> float:
    return FACTOR * x


@fused
def _add_scaled(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] += _scaled(x[i])


def _sum(x: Array) -> float:
    total = x[0]
    for i in range(1, len(x)):
        total = total + x[i]
    return total


@pytest.mark.slow
def test_importing_the_packages_loads_no_compiler() -> None:
    code = "import dynsys, sensors, problems, dynsys.plan.search.search, sys;"
    code += "sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)


def test_loops_call_each_other() -> None:
    out = np.ones(4)
    _add_scaled(np.arange(4.0), out)
    np.testing.assert_array_equal(out, [1.0, 4.0, 7.0, 10.0])


def test_a_damaged_cache_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    assert Loop(_sum)(np.ones(3)) == 3.0
    kept = list(tmp_path.rglob("*.nb?"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:7])
    assert Loop(_sum)(np.ones(3)) == 3.0


def test_other_scalars_run_the_source() -> None:
    loop = Loop(_sum)
    exact = np.array([Decimal("0.1"), Decimal("0.2")])
    assert loop(exact) == Decimal("0.3")
    assert "machine" not in vars(loop)  # nothing was compiled
    assert loop(np.array([0.5, 0.25])) == 0.75


def test_kept_machine_code_depends_on_constants_of_callees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba itself looks at the file of the outermost function only."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    for factor in (3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "_scaled", inlined(_scaled.source))
        out = np.zeros(2)
        fused(_add_scaled.source)(np.ones(2), out)
        assert (out == factor).all()


# ---- where machine code is kept -----------------------------------------------------------


def _plus_one(x: float) -> float:
    return x + 1.0


def test_compiled_loops_go_to_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = numba.config.CACHE_DIR
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    assert Loop(_plus_one).compiled("float64(float64)")(1.0) == 2.0
    assert list((tmp_path / "cache").rglob("*.nbc"))
    assert numba.config.CACHE_DIR == before


def _times(number: int) -> Callable[[float], float]:
    if number == 2:

        def times(x: float) -> float:
            return 2.0 * x
    else:

        def times(x: float) -> float:
            return 3.0 * x

    return times


def test_loops_of_one_name_are_told_apart_by_their_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        assert [Loop(_times(n)).compiled("float64(float64)")(1.0) for n in (2, 3)] == [2.0, 3.0]


def test_without_a_usable_folder_loops_are_compiled_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder in ("off", str(tmp_path / "file" / "loops"), str(shared)):
        monkeypatch.setenv("DYNSYS_CACHE", folder)
        assert Loop(_plus_one).compiled("float64(float64)")(1.0) == 2.0
    assert not list(shared.iterdir())


def test_a_damaged_file_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    Loop(_plus_one).compiled("float64(float64)")
    for path in tmp_path.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:7])
    assert Loop(_plus_one).compiled("float64(float64)")(1.0) == 2.0


SPRINGS = '''"""Springs."""

from dynsys.jit import Loop, inlined

@inlined
def _pull(x):
    """Return the force."""
    return -2.0 * x

@Loop
def force(x):
    return _pull(x) + 0.5
'''
FORCE = """
import sys, time
from pathlib import Path
from springs import force

Path(sys.argv[1]).touch()
while len(list(Path().glob("asked-*"))) < int(sys.argv[2]):
    time.sleep(0.01)
print(sum(force.compiled("float64(float64)").stats.cache_misses.values()))
"""


def compilations(folder: Path, processes: int = 1) -> int:
    """Times that so many processes, which begin together, compile the loop of springs.py."""
    where = {"DYNSYS_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    where["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(jit.__file__).parents[1])])
    options = {"env": os.environ | where, "cwd": folder, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        all_started = [
            stack.enter_context(
                started([sys.executable, "-c", FORCE, f"asked-{k}", str(processes)], **options)
            )
            for k in range(processes)
        ]
        return sum(int(process.communicate(timeout=LIMIT)[0]) for process in all_started)


@pytest.mark.slow
def test_edited_comments_keep_machine_code_and_edited_numbers_do_not(tmp_path: Path) -> None:
    springs = tmp_path / "springs.py"
    springs.write_text(SPRINGS)
    assert compilations(tmp_path) == 1
    springs.write_text("# Hooke\n\n" + SPRINGS.replace("Return the force.", "It pulls."))
    assert compilations(tmp_path) == 0
    springs.write_text(SPRINGS.replace("2.0", "3.0"))
    assert compilations(tmp_path) == 1


@pytest.mark.slow
def test_of_processes_that_need_the_same_loop_one_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "springs.py").write_text(SPRINGS)
    assert compilations(tmp_path, processes=3) == 1


def test_loops_of_no_file_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would tell that what they call has been edited."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    names: dict[str, Any] = {}
    exec(compile("def typed(x):\n    return x", "<typed>", "exec"), names)
    assert Loop(names["typed"]).compiled("float64(float64)")(2.0) == 2.0
    assert not (tmp_path / "cache").exists()
