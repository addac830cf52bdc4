"""Installed as developers do: importable from anywhere, seen by type checkers, run by name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from dynsys.distribution import DISTRIBUTION
from tests.processes import LIMIT

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools.build_meta import build_editable as b; import sys; b(sys.argv[1])"
PACKAGES = ("dynsys", "sensors", "problems")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folder that holds a clone called dynsys, and the site of its editable install."""
    above = tmp_path_factory.mktemp("above")
    clone, wheels, site = above / "dynsys", above / "wheels", above / "site"
    for folder in (clone, wheels):
        folder.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, clone)
    for package in PACKAGES:
        (clone / package).mkdir()
        (clone / package / "__init__.py").write_text("answer: int = 42\n")
        (clone / package / "py.typed").touch()
    command = [sys.executable, "-c", BUILD, str(wheels)]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-800:]
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return above, site


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("place", [".", "dynsys", "site"])
def test_editable_install_imports_from_anywhere(
    installed: tuple[Path, Path], package: str, place: str
) -> None:
    """In the folder above, the clone itself was taken for an empty package of that name."""
    above, site = installed
    ask = f"import site; site.addsitedir({str(site)!r}); import {package} as p; print(p.answer)"
    command = [sys.executable, "-S", "-E", "-c", ask]
    done = subprocess.run(
        command, cwd=above / place, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.stdout.strip() == "42", done.stderr


def test_editable_install_is_a_path_that_type_checkers_read(
    installed: tuple[Path, Path],
) -> None:
    """They read .pth files, but run no code: a finder that is a program hides all types."""
    above, site = installed
    lines = [line for pth in site.glob("*.pth") for line in pth.read_text().splitlines()]
    assert [Path(line).resolve() for line in lines] == [(above / "dynsys").resolve()]
    assert not list(site.glob("*.py"))


@pytest.mark.slow
def test_dynsys_is_run_by_its_name() -> None:
    run = [sys.executable, "-m", "dynsys"]
    done = subprocess.run(
        [*run, "--version"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0 and done.stdout.startswith("dynsys ")
    done = subprocess.run(
        [*run, "info", "no.urdf"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 2 and done.stderr.startswith("dynsys: error: ")


def test_what_is_installed_has_one_name_everywhere() -> None:
    """``dynsys`` is another project on the public index; a hint must not name it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    files = [
        path
        for folder in (*PACKAGES, "docs", "experiments", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
    ]
    wrong = re.compile(r"""pip install ['"]?dynsys(?!-robotics)|version\(["']dynsys["']\)""")
    for path in (*files, ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"):
        assert not wrong.search(path.read_text()), path
    used = {
        extra
        for path in files
        if path.suffix == ".py" and path.parts[len(ROOT.parts)] in PACKAGES
        for extra in re.findall(r"""\binstall\(["'](\w+)["']\)""", path.read_text())
    }
    assert used and used <= set(project["optional-dependencies"])
