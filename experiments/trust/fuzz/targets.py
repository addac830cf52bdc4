"""What is fuzzed: every reader of files, and what is done with what it read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import yaml

import dynsys
import problems
from dynsys.kernel.cache import KernelCache
from experiments.trust.fuzz.files import (
    CODE,
    KEY,
    LAYOUT,
    MJCF,
    URDF,
    cache_file,
    db3_file,
    layout,
    layout_files,
    plan_file,
    problem_text,
    robot,
    valid_log,
)
from experiments.trust.fuzz.mutations import mutate, mutate_cache_entry, mutate_npz, mutate_plan
from problems.estimation.outputs import parse_outputs
from problems.log_jobs import SolveJob, run_job
from problems.logs import Differentiation, SampleReader, open_log
from problems.problem_file import load_problem
from sensors import Layout

__all__ = ["TARGETS", "Target"]

SMALL = 12
"""Robots of so many bodies at most are also solved after reading."""

Mutation = Callable[[bytes, Sequence[bytes], Any], bytes]


@final
@dataclass(frozen=True)
class Target:
    """A reader.

    Parameters
    ----------
    ending : of the file it reads.
    seeds : valid files.
    check : reads the file at a path and uses what it read; raises what the reader raises.
    mutation : makes a new file of an old one.
    """

    ending: str
    seeds: Callable[[], Sequence[bytes]]
    check: Callable[[Path], None]
    mutation: Mutation = mutate


# ---- robots --------------------------------------------------------------------------------


def _solvable(tree: dynsys.KinematicTree) -> None:
    """Solve at one state: finite numbers or an error of ours."""
    if tree.n_bodies > SMALL:
        return
    q, zero = tree.neutral(), np.zeros(tree.nv)
    torque = problems.InverseDynamics(tree, "reference").solve(q, zero, zero).torque
    qdd = problems.ForwardDynamics(tree, "reference").solve(q, zero, torque).qdd
    assert np.isfinite(torque).all() and np.isfinite(qdd).all(), "not finite, and no error"


def _check_robot(path: Path) -> None:
    read = dynsys.load(path)
    with suppress(dynsys.DynsysError):
        dynsys.load(path, floating_base=True)
    with suppress(dynsys.DynsysError):
        dynsys.load(path, mimic="couple")
    _solvable(read)


# ---- layouts, problems ---------------------------------------------------------------------


def _check_layout(path: Path) -> None:
    read = Layout.load(path, robot())
    read.pack({}, missing=np.nan)
    read.covariance()
    read.fingerprint()


def _check_problem(path: Path) -> None:
    problem = load_problem(path)
    problem.sensors.covariance()
    if problem.tree.n_bodies <= SMALL:
        parse_outputs(problem.estimation, problem.outputs)


# ---- plans, kernels ------------------------------------------------------------------------


def _check_plan(path: Path) -> None:
    plan = dynsys.Plan.load(path)
    str(plan)
    plan.checked_pivots  # noqa: B018
    problems.ForwardDynamics(robot()).compile(plan)


def _check_cache(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / f"{KEY}.kernel"
        shutil.copyfile(path, entry)
        entry.chmod(0o600)
        found = KernelCache(folder).get(KEY)
        if found is None:
            raise dynsys.DynsysError("not used")
        assert found.payload == CODE, "code with a wrong checksum was accepted"


# ---- logs ----------------------------------------------------------------------------------


def _check_log(path: Path) -> None:
    """Read a log a stretch at a time, then run a job on it: a whole output or none."""
    with open_log(path) as log:
        reader = SampleReader(layout(), log, Differentiation(0.04, 2), allow_missing=True)
        for start in range(0, min(log.n_samples, 200), 7):
            reader.read(start, min(start + 7, log.n_samples))
    _check_job(path)


def _check_job(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem, output = Path(folder) / "problem.yaml", Path(folder) / "out.npz"
        text = {
            "robot": "synthetic:chain:3",
            "layout": yaml.safe_load(LAYOUT),
            "log": {"differentiate": {"window": 0.04, "order": 2}},
        }
        problem.write_text(yaml.safe_dump(text))
        job = SolveJob(str(problem), str(path), str(output), ("torque",), 8, True)
        try:
            run_job(job)
        except dynsys.DynsysError:
            assert not output.exists(), "an error, and an output"
            raise
        with np.load(output) as found:
            assert len(found["torque"]) == job.n_samples(), "partial output"


_METADATA = """rosbag2_bagfile_information:
  version: 5
  storage_identifier: sqlite3
  duration: {nanoseconds: 1000000000}
  starting_time: {nanoseconds_since_epoch: 0}
  message_count: 5
  topics_with_message_count:
  - topic_metadata: {name: /joint_states, type: sensor_msgs/msg/JointState,
      serialization_format: cdr, offered_qos_profiles: ''}
    message_count: 5
  compression_format: ''
  compression_mode: ''
  relative_file_paths: [bag.db3]
  files: []
"""


def _check_bag(path: Path) -> None:
    """Read the file as the .db3 of a ROS 2 bag."""
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        bag.mkdir()
        shutil.copyfile(path, bag / "bag.db3")
        (bag / "metadata.yaml").write_text(_METADATA)
        with open_log(bag, spool=Path(folder) / "spool") as log:
            reader = SampleReader(layout(), log, Differentiation(0.04, 2), allow_missing=True)
            reader.read(0, min(log.n_samples, 5))


TARGETS: dict[str, Target] = {
    "urdf": Target(".urdf", lambda: (URDF,), _check_robot),
    "mjcf": Target(".xml", lambda: (MJCF,), _check_robot),
    "layout": Target(".yaml", layout_files, _check_layout),
    "problem": Target(".yaml", lambda: [problem_text()], _check_problem),
    "plan": Target(".plan", lambda: [plan_file()], _check_plan, mutate_plan),
    "cache": Target(".kernel", lambda: [cache_file()], _check_cache, mutate_cache_entry),
    "npz": Target(".npz", lambda: [valid_log(".npz")], _check_log, mutate_npz),
    "csv": Target(".csv", lambda: [valid_log(".csv")], _check_log),
    "parquet": Target(".parquet", lambda: [valid_log(".parquet")], _check_log),
    "mcap": Target(".mcap", lambda: [valid_log(".mcap")], _check_log),
    "db3": Target(".db3", lambda: [db3_file()], _check_bag),
}
