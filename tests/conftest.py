"""Shared set-up: threads, hypothesis profiles and the bundled humanoid."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from dynsys import KinematicTree
from problems.robots import read_robot

# Inherited by the workers of pytest-xdist: with one per core, more threads only wait.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "dynsys",
    deadline=None,  # machines differ; time is measured elsewhere
    derandomize=True,  # the same on every run; see profile explore
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("dynsys"), derandomize=False)
settings.load_profile("dynsys")


@pytest.fixture(scope="session")
def humanoid() -> KinematicTree:
    """Return the bundled humanoid on a floating base."""
    return read_robot("example:humanoid", floating_base=True).robot
