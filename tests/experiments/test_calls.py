"""What users call is timed in turns beside its peers."""

from __future__ import annotations

import pytest

from dynsys import synthetic
from dynsys.interop import PinocchioMap
from experiments import calls
from experiments.peers.robots import PeerRobot, to_pinocchio
from sensors import published


def small() -> PeerRobot:
    robot = synthetic.chain(2)
    model = to_pinocchio(robot)
    return PeerRobot("arm", robot, model, PinocchioMap(robot, model))


def test_verbs_and_batches_are_timed_beside_their_peers() -> None:
    rows = calls.verbs([small()], turns=3, each=5)
    assert [row["verb"] for row in rows] == ["rnea", "aba", "crba", "jacobian"]
    for row in rows:
        assert row["times"] == pytest.approx(row["ours_us"] / row["pinocchio_us"])
        assert row["second_ms"] > 1e-3 * row["ours_us"]  # it compiled
    found = calls.batches([small()], sizes=(64, 128), turns=3)
    assert [(row["problem"], row["states"]) for row in found] == [
        (problem, n) for problem in ("InverseDynamics", "ForwardDynamics") for n in (64, 128)
    ]
    arm = synthetic.chain(4)
    found += calls.estimations({"arm": published.sie_friction(arm)}, sizes=(64,), turns=3)
    assert (found[-1]["problem"], found[-1]["states"]) == ("Estimation", 64)
    assert all(row["times"] > 0 for row in found)


@pytest.mark.slow
def test_a_first_answer_is_timed_in_processes_of_its_own() -> None:
    row = calls.first_answer(bodies=3)
    assert row["bodies"] == 3
    assert 0 < row["again_s"]
    assert 0 < row["first_s"]
