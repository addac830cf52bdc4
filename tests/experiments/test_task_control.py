"""The comparison of task controllers with Pinocchio: the same answers, judged rightly."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pinocchio")

from experiments import task_control
from experiments.peers.build import Builder, find_compilers
from experiments.peers.robots import peer_robot
from experiments.peers.timing import largest_difference
from experiments.task_control import ALL, BAR, NATIVE, OURS, Route, commands, contenders


@pytest.mark.slow
@pytest.mark.trust
def test_every_route_gives_the_same_torque_and_ours_is_faster() -> None:
    peer = peer_robot("talos")
    given = commands(peer, 2)
    compilers = find_compilers()
    library = Builder(compilers, False, print).task_loops() if compilers else None
    routes = contenders(peer, given, library)
    for route in routes:
        route.run(1)
        assert largest_difference(route.result(), given.torque) < 1e-9, route.who
    python = {r.who: r for r in routes if r.mode == "python" and r.task == ALL}
    times = task_control.measure(list(python.values()), 5, 3e-4)
    ours, theirs = (median for median, _ in times)
    assert theirs > BAR * ours


def _routes(ours_ns: float, error: float = 1e-12) -> list[Route]:
    rows = [(OURS, ours_ns, error), (NATIVE, 5000.0, 1e-12)]
    return [Route("talos", who, ALL, "one state", ns, ns, e) for who, ns, e in rows]


def test_a_bound_is_broken_by_time_and_by_error() -> None:
    assert task_control.holds(_routes(1000.0))
    assert task_control.ratios(_routes(1000.0)) == {("talos", "one state", ALL): 5.0}
    assert not task_control.holds(_routes(5000.0 / BAR + 1))
    assert not task_control.holds(_routes(1000.0, error=1e-6))
    assert not task_control.holds(_routes(1000.0, error=np.inf))
