"""Broken and hostile files: read or refused by an error of ours, within time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.trust.fuzz.campaign import fuzz_area
from experiments.trust.fuzz.hostile import hostile
from experiments.trust.fuzz.targets import TARGETS
from experiments.trust.fuzz.worker import Outcome, Worker

CASES = {"mjcf": 30, "layout": 30, "problem": 40, "parquet": 25, "mcap": 15, "db3": 15}

# One per failure that a campaign found (experiments/trust/findings.yaml).
REFUSED = [
    ("mjcf", "replicate a billion"),
    ("mjcf", "composite of a billion"),
    ("mjcf", "height field of a terabyte"),
    ("mjcf", "keyframes"),
    ("layout", "a number of 100000 digits"),
    ("layout", "base 60"),
    ("layout", "octal"),
    ("layout", "std 1e300"),
    ("layout", "unhashable kind"),
    ("layout", "unhashable name"),
    ("layout", "half a million keys"),
    ("problem", "chain of a billion"),
    ("problem", "tree of depth 60"),
    ("problem", "grid of a billion"),
    ("problem", "prior std is text"),
    ("problem", "prior mean is a list"),
    ("plan", "missing"),
    ("plan", "directory"),
    ("plan", "fifo"),
    ("plan", "link to itself"),
    ("plan", "link to /dev/zero"),
    ("plan", "name with a null"),
    ("cache", "not JSON"),
    ("cache", "not UTF-8"),
    ("cache", "no arrays"),
    ("cache", "no metadata"),
    ("cache", "no such type"),
    ("cache", "more than there is"),
    ("cache", "a fraction"),
    ("npz", "fifo"),
    ("npz", "link to /dev/zero"),
    ("npz", "name of 5000 letters"),
    ("npz", "encrypted member"),
    ("npz", "header without its end"),
    ("npz", "damaged compression"),
    ("csv", "three gigabytes of zeros"),
    ("csv", "gaps"),
    ("csv", "short rows"),
    ("csv", "100000 columns"),
    ("csv", "blank lines"),
    ("parquet", "repeated name"),
    ("parquet", "damaged page"),
    ("mcap", "damaged chunk"),
    ("mcap", "no field definition"),
    ("mcap", "field of another name"),
    ("mcap", "a bomb of 2 GB"),
    ("db3", "damaged page"),
]


def judged(area: str, name: str, folder: Path) -> Outcome:
    worker = Worker(TARGETS[area].check, coverage=False)
    try:
        return worker.run(hostile(area)[name](folder))
    finally:
        worker.stop()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path / "cache"))
    yield


@pytest.mark.parametrize(("area", "name"), REFUSED)
@pytest.mark.finding(
    "G-1",
    "G-2",
    "G-3",
    "G-4",
    "G-5",
    "G-6",
    "G-7",
    "G-8",
    "G-9",
    "G-10",
    "G-11",
    "G-12",
    "G-13",
    "G-14",
    "G-15",
    "G-16",
    "G-17",
    "G-18",
    "G-19",
    "G-20",
    "G-21",
    "G-22",
    "G-23",
    "G-24",
    "G-26",
    "G-27",
    "G-28",
    "G-29",
    "G-33",
)
def test_hostile_file_is_refused(area: str, name: str, tmp_path: Path) -> None:
    outcome = judged(area, name, tmp_path)
    assert outcome.kind == "refused", outcome


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("area", TARGETS)
def test_mutants_are_read_or_refused(area: str) -> None:
    campaign = fuzz_area(area, seed=1, cases=CASES.get(area, 60))
    assert campaign.read >= 1, "no valid file was read: nothing was tried"
    assert not campaign.failures


@pytest.mark.finding("G-25")
def test_parquet_row_groups_beyond_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from problems.logs import LogError, open_log
    from problems.logs import tables as parquet_log

    monkeypatch.setattr(parquet_log, "MAX_GROUP_ROWS", 10)
    path = tmp_path / "log.parquet"
    path.write_bytes(TARGETS["parquet"].seeds()[0])
    with pytest.raises(LogError, match="row group"):
        open_log(path)


def test_a_failure_is_a_failure(tmp_path: Path) -> None:
    def raises(_: Path) -> None:
        raise KeyError("x")

    def eats(_: Path) -> None:
        bytearray(3 * 2**30)

    def dies(_: Path) -> None:
        import os

        os._exit(3)

    for check, kind in ((raises, "exception"), (eats, "memory"), (dies, "crash")):
        worker = Worker(check, coverage=False)
        assert worker.run(tmp_path).kind == kind
        worker.stop()


@pytest.mark.slow
def test_every_input_is_judged_by_its_own_memory(tmp_path: Path) -> None:
    """The peak of a large input once hid the growth of those after it."""

    def eats(path: Path) -> None:
        assert bytearray(int(path.name) * 2**20)

    worker = Worker(eats, coverage=False)
    kinds = [worker.run(tmp_path / str(size)).kind for size in (400, 600, 1, 400, 600, 1)]
    worker.stop()
    assert kinds == ["read", "memory", "read", "read", "memory", "read"]
