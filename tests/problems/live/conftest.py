"""One problem with every kind of joint, its log, and what the tests of this room share."""

from __future__ import annotations

from pathlib import Path

import pytest

from problems.logs.samples import Samples
from problems.problem_file import ProblemFile
from tests.problems.live.live_cases import loaded
from tests.problems.logs.log_cases import simulated, write_problem


@pytest.fixture(scope="session")
def live_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    path = write_problem(tmp_path_factory.mktemp("live") / "problem.yaml")
    return path, simulated(path)


@pytest.fixture(scope="session")
def live(live_files: tuple[Path, Path]) -> tuple[ProblemFile, Samples]:
    return loaded(*live_files)
