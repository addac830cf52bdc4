"""Campaigns: results are files, each computed once, whatever dies in between."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dynsys import resumable
from dynsys.errors import CampaignError, WorkersLost
from dynsys.plan.search.campaign import Campaign, CampaignTask, Outcome
from dynsys.resumable import Serial
from tests.plan.campaign_tasks import failing, square
from tests.processes import started

ROOT = Path(__file__).parents[2]


def campaign(folder: Path, count: int, **extra: object) -> Campaign:
    marks = folder / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    tasks = tuple(CampaignTask({"x": x, "marks": str(marks), **extra}) for x in range(count))
    return Campaign(folder / "results", tasks)


def counts(folder: Path, what: str) -> Counter[int]:
    path = folder / "marks" / what
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(int(line.split()[0]) for line in lines)


def assert_complete(done: Campaign) -> None:
    found = done.outcomes()
    assert [outcome.result for outcome in found] == [
        {"square": task.payload["x"] ** 2} for task in done.tasks
    ]
    assert len(list(done.folder.glob("*.json"))) == len(done.tasks)


def test_every_task_once_and_none_again(tmp_path: Path) -> None:
    work, seen = campaign(tmp_path, 5), list[Outcome]()
    summary = work.run(square, progress=seen.append)
    assert (summary.before, summary.computed, summary.open, summary.failed) == (0, 5, 0, 0)
    assert len(seen) == 5
    assert_complete(work)
    again = work.run(square)
    assert (again.before, again.computed) == (5, 0)
    assert set(counts(tmp_path, "begun").values()) == {1}
    assert not list(work.folder.glob("*.lock")) and not list(work.folder.glob(".*"))


def test_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    work = campaign(tmp_path, 4)

    def stop(outcome: Outcome) -> None:
        raise KeyboardInterrupt

    summary = work.run(square, progress=stop)
    assert summary.interrupted and summary.computed == 1 and summary.open == 3
    assert work.run(square).computed == 3
    assert set(counts(tmp_path, "begun").values()) == {1}


def test_damaged_results_are_computed_again_and_errors_are_outcomes(tmp_path: Path) -> None:
    work = campaign(tmp_path, 3)
    work.run(square)
    (work.folder / f"{work.tasks[1].key}.json").write_text('{"payload"')
    assert work.run(square).computed == 1
    assert_complete(work)
    bad = campaign(tmp_path / "bad", 2)
    summary = bad.run(failing)
    assert summary.failed == 2 and summary.open == 0
    assert bad.outcomes()[1].error == "ValueError: no square of 1"


def test_one_digit_that_changes_is_damage(tmp_path: Path) -> None:
    work = campaign(tmp_path, 3)
    work.run(square)
    file = work.folder / f"{work.tasks[2].key}.json"
    file.write_text(file.read_text().replace('"square": 4', '"square": 5'))
    assert [outcome.result for outcome in work.outcomes()] == [{"square": 0}, {"square": 1}]
    assert work.run(square).computed == 1
    assert_complete(work)


def test_lost_workers_are_replaced_as_often_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses in a row: one task that is finished in between starts the count anew."""
    left, tries = [[0, 1]], list[int]()

    class Dying(Serial):
        def submit(self, *arguments: Any, **_: Any) -> Any:
            tries.append(1)
            if len(tries) == 2:
                left.append([1])
                return super().submit(lambda: None)
            raise BrokenProcessPool("gone")

    monkeypatch.setattr(resumable, "executor", lambda *_: nullcontext(Dying()))
    with pytest.raises(WorkersLost):
        resumable.run_open(lambda: left[-1], print, lambda *_: None, patience=3)
    assert len(tries) == 1 + 1 + 3


def test_same_task_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="twice"):
        Campaign(tmp_path, (CampaignTask({"x": 1}), CampaignTask({"x": 1})))


@pytest.mark.slow
def test_killed_worker_loses_only_its_task(tmp_path: Path) -> None:
    work = campaign(tmp_path, 6)
    fatal = CampaignTask({"x": 99, "marks": str(tmp_path / "marks"), "dies_once": True})
    work = Campaign(work.folder, (*work.tasks[:3], fatal, *work.tasks[3:]))
    summary = work.run(square, workers=2)
    assert summary.open == 0 and summary.failed == 0
    assert_complete(work)
    done = counts(tmp_path, "done")
    assert set(done.values()) == {1} and len(done) == 7


@pytest.mark.slow
def test_workers_that_always_die_are_reported(tmp_path: Path) -> None:
    marks = tmp_path / "elsewhere"  # never made: the mark that it died cannot be left
    task = CampaignTask({"pid": True, "x": 1, "marks": str(marks)})
    with pytest.raises(CampaignError, match="workers died 3 times"):
        Campaign(tmp_path / "results", (task,)).run(_suicide, workers=2)


def _suicide(payload: object) -> dict[str, int]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


@pytest.mark.slow
def test_killed_coordinator_goes_on(tmp_path: Path) -> None:
    work = campaign(tmp_path, 8, may_be_held=True)
    (tmp_path / "marks" / "hold 3").touch()
    program = (
        "from pathlib import Path\n"
        "from tests.plan.test_campaign import campaign\n"
        "from tests.plan.campaign_tasks import square\n"
        f"campaign(Path({str(tmp_path)!r}), 8, may_be_held=True).run(square)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with started([sys.executable, "-c", program], env=environment) as child:
        while 3 not in counts(tmp_path, "begun"):
            assert child.poll() is None
            time.sleep(0.02)
        child.kill()
    (tmp_path / "marks" / "hold 3").unlink()
    assert len(work.outcomes()) == 3
    assert work.run(square).computed == 5
    assert_complete(work)
    done, begun = counts(tmp_path, "done"), counts(tmp_path, "begun")
    assert begun - Counter(range(8)) == {3: 1}, "only the task in flight is begun again"
    assert done == Counter(range(8))


@pytest.mark.slow
def test_dask_worker_killed_midway(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    work = campaign(tmp_path, 6, seconds=0.05)
    fatal = CampaignTask({"x": 99, "marks": str(tmp_path / "marks"), "dies_once": True})
    work = Campaign(work.folder, (*work.tasks[:2], fatal, *work.tasks[2:]))
    summary = work.run(square, workers=2, scheduler="local")
    assert summary.open == 0 and summary.failed == 0
    assert_complete(work)
    done = counts(tmp_path, "done")
    assert set(done.values()) == {1} and len(done) == 7


@pytest.mark.filterwarnings("error:Port")
def test_dask_clusters_take_ports_that_are_free() -> None:
    pytest.importorskip("distributed")
    with resumable.local_cluster(0) as one, resumable.local_cluster(0) as other:
        pages = {cluster.scheduler.http_server.port for cluster in (one, other)}
    assert len(pages) == 2
