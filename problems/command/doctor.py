"""``dynsys doctor``: what is installed, what is not, what takes its place, what to run."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dynsys.distribution import EXTRA
from problems.terminal import show_json, show_line, show_table

__all__ = ["EXAMPLES", "add_arguments", "examine", "run"]

EXAMPLES = """\
  dynsys doctor
  dynsys doctor --json | jq '.components[] | select(.found == null) | .remedy'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(args: argparse.Namespace) -> int:
    """Show what is there; 1 if something required is missing."""
    report = examine()
    if args.json:
        told = {"healthy": report.healthy, "components": [vars(c) for c in report.components]}
        show_json(told)
    else:
        _show(report)
    return 0 if report.healthy else 1


@final
@dataclass(frozen=True)
class Component:
    """One thing dynsys can use.

    ``found`` is a version or a short description, None where it is missing; ``without`` says
    what happens then and ``remedy`` is the line to run. ``extra`` of dynsys brings it, if one
    does.
    """

    name: str
    purpose: str
    required: bool
    found: str | None
    without: str = ""
    remedy: str = ""
    extra: str | None = None


@final
@dataclass(frozen=True)
class Report:
    """All components; healthy if nothing required is missing."""

    components: list[Component]

    @property
    def healthy(self) -> bool:
        """True if every required component was found."""
        return all(c.found is not None for c in self.components if c.required)


@dataclass(frozen=True)
class _Package:
    """A Python distribution, the module that proves it works (if any), what it is for."""

    distribution: str
    module: str
    purpose: str
    without: str = ""
    requirement: str = ""


REQUIRED = (
    _Package("numpy", "numpy", "arrays"),
    _Package("scipy", "scipy.sparse.linalg", "sparse systems, SuperLU"),
    _Package("networkx", "networkx", "graphs: matching, orderings"),
    _Package("rich", "rich", "tables on the terminal"),
    _Package("pyyaml", "yaml", "YAML files"),
    _Package("shtab", "shtab", "completion in a shell"),
    _Package("threadpoolctl", "threadpoolctl", "one thread for small matrices"),
)
CHOLMOD = _Package(
    "scikit-sparse",
    "sksparse.cholmod",
    "CHOLMOD: sparse Cholesky",
    "scipy's SuperLU takes its place, slower (SuiteSparse before 7.4: <0.5 in the line below)",
    "scikit-sparse>=0.4.16,<0.6",
)
FAST = (
    _Package(
        "llvmlite",
        "llvmlite.binding",
        "machine code for one robot",
        "NumPy executes plans, 10 to 60 times slower",
        "llvmlite>=0.45",
    ),
    _Package(
        "numba",
        "numba",
        "compiled numeric loops",
        "loops run as Python: searches try fewer orders",
        "numba>=0.62",
    ),
)
OPTIONAL = (
    _Package(
        "clarabel",
        "clarabel",
        "physically consistent inertias",
        "no fit(physical=True) where the data want what no body has",
        "clarabel>=0.11",
    ),
    _Package("mujoco", "mujoco", "reading MJCF files", "URDF files only", "mujoco>=3.1"),
    _Package("xacro", "xacro", "expanding .xacro files", "URDF files only", "xacro>=2.0"),
    _Package("matplotlib", "matplotlib", "pictures", "no pictures", "matplotlib>=3.8"),
    _Package(
        "trimesh", "trimesh", "meshes in studio and view", "rounded solids", "trimesh>=4.4"
    ),
    _Package("pandas", "pandas", "estimates as tables", "no to_pandas()", "pandas>=2.1"),
    _Package("xarray", "xarray", "labelled arrays", "no to_xarray()", "xarray>=2024.1"),
    _Package("pyarrow", "pyarrow", "Parquet logs", "no Parquet logs", "pyarrow>=15"),
    _Package("h5py", "h5py", "MATLAB 7.3 logs", "older .mat files only", "h5py>=3.10"),
    _Package("mcap", "mcap", "ROS 2 bags (.mcap)", "no .mcap logs", "mcap>=1.1"),
    _Package(
        "mcap-ros2-support",
        "mcap_ros2",
        "ROS 2 messages in .mcap",
        "no .mcap logs",
        "mcap-ros2-support>=0.5",
    ),
    _Package("rosbags", "rosbags", "ROS 2 bags (.db3)", "no .db3 logs", "rosbags>=0.10"),
    _Package(
        "websockets",
        "websockets",
        "dynsys live by WebSocket",
        "live takes standard input, UDP and logs",
        "websockets>=14",
    ),
    _Package(
        "foxglove-sdk",
        "foxglove",
        "dynsys live as a source for Foxglove",
        "no live source for Foxglove",
        "foxglove-sdk>=0.14",
    ),
    _Package("viser", "viser", "dynsys view", "no dynsys view", "viser>=1.1.1"),
    _Package(
        "rerun-sdk", "rerun", "solved logs for rerun (.rrd)", "no .rrd files", "rerun-sdk>=0.24"
    ),
    _Package(
        "distributed",
        "distributed",
        "Dask clusters (--scheduler)",
        "processes of one machine only (--workers)",
        "distributed>=2024.5",
    ),
    _Package(
        "casadi", "casadi", "functions of CasADi", "no casadi_function", "casadi>=3.8,<3.9"
    ),
    _Package("jax", "jax", "functions of JAX", "no jax_function", "jax>=0.10,<0.12"),
    _Package("torch", "torch", "functions of PyTorch", "no torch_function", "torch>=2.6,<3"),
    _Package(
        "cvxopt",
        "cvxopt",
        "UMFPACK's order",
        "compare takes the system's UMFPACK, or leaves it out",
        "cvxopt>=1.3",
    ),
    _Package(
        "pin", "pinocchio", "peer: Pinocchio", "tests against it are skipped", "pin==4.1.0"
    ),
    _Package(
        "example-robot-data",
        "",
        "files of real robots",
        "catalogue layouts of real robots have no model",
        "example-robot-data==6.0.0",
    ),
    _Package("idyntree", "idyntree", "peer: iDynTree", "comparisons leave it out", "idyntree"),
)


def examine() -> Report:
    """Look at Python, packages, tools and CPU. Reads only; installs nothing."""
    components = [Component("Python", "3.11 or newer", True, platform.python_version())]
    components += [_package(item, required=True) for item in REQUIRED]
    components += [_package(item, required=False) for item in (*FAST, CHOLMOD)]
    components += [*_build_tools(), _cpu()]
    components += [_package(item, required=False) for item in OPTIONAL]
    return Report([*components, _browser()])


def _package(item: _Package, *, required: bool) -> Component:
    """Import what holds machine code for proof: a broken installation counts as missing."""
    proven = required or item is CHOLMOD or item in FAST
    prove: Callable[[str], object] = (
        importlib.import_module if proven else importlib.util.find_spec
    )
    found: str | None = None
    without = item.without or "dynsys does not run"
    try:
        if not item.module or prove(item.module) is not None:
            found = importlib.metadata.version(item.distribution)
    except ModuleNotFoundError:  # PackageNotFoundError among them
        pass
    except Exception as error:  # whatever a broken binary raises: that is the finding
        without = f"installed but broken ({type(error).__name__}: {error}); {without}"
    wanted = item.requirement or item.distribution
    remedy = f"{sys.executable} -m pip install '{wanted}'"
    extra = EXTRA.get(item.module.partition(".")[0])
    return Component(item.distribution, item.purpose, required, found, without, remedy, extra)


def _build_tools() -> Iterator[Component]:
    """Yield what building scikit-sparse takes."""
    folders = [
        os.environ.get("SUITESPARSE_INCLUDE_DIR", ""),
        "/usr/include/suitesparse",
        "/usr/local/include/suitesparse",
        "/usr/local/include",
        f"{sys.prefix}/include/suitesparse",
    ]
    cholmod = next((f for f in folders if f and Path(f, "cholmod.h").exists()), None)
    compilers = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    compiler = next((name for name in compilers if name and shutil.which(name)), None)
    python = Path(sysconfig.get_path("include"), "Python.h")
    for name, found, packages in (
        ("SuiteSparse headers", cholmod, "libsuitesparse-dev"),
        ("C compiler", compiler, "gcc g++ libc6-dev"),
        ("Python headers", "Python.h" if python.exists() else None, "python3-dev"),
    ):
        remedy = f"sudo apt-get install {packages}"
        without = "scikit-sparse cannot be built here"
        yield Component(name, "building scikit-sparse", False, found, without, remedy)


def _browser() -> Component:
    found, without = None, "reports are HTML only"
    try:
        from problems.report.pdf import find_browser

        found = find_browser()
    except ModuleNotFoundError:  # reports need something required: reported on its own line
        pass
    remedy = "sudo apt-get install chromium"
    return Component("chromium", "reports as PDF", False, found, without, remedy)


def _cpu() -> Component:
    purpose = "vector instructions"
    without = "machine code uses narrower vectors"
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
        name = str(binding.get_host_cpu_name())
    except Exception:  # llvmlite missing or broken: reported on its own line
        return Component("CPU", purpose, False, platform.machine() or "unknown", without)
    flags = [f for f in ("avx2", "fma", "avx512f", "neon") if features.get(f, False)]
    return Component(
        "CPU", purpose, False, f"{name}: {' '.join(flags) or 'scalar only'}", without
    )


# ---- on the terminal ----------------------------------------------------------------------


def _show(report: Report) -> None:
    """Write a table, whether all that is required is here, then the lines for what is not."""
    rows = [
        (
            c.name,
            c.found or ("MISSING" if c.required else "not installed"),
            c.extra or "",
            c.purpose,
        )
        for c in report.components
    ]
    lines = ["", *(["Everything required is here. Optional parts:"] if report.healthy else [])]
    for c in report.components:
        if c.found is None:
            lines += [f"{c.name}: {c.without}. To have it:", f"    {c.remedy}"]
    try:
        show_table(("component", "found", "extra", "for"), rows)
        for line in lines:
            show_line(line)
    except ModuleNotFoundError:  # rich itself is missing
        table = [f"{name:22}{found:28}{extra:10}{what}" for name, found, extra, what in rows]
        sys.stdout.write("\n".join([*table, *lines]) + "\n")
