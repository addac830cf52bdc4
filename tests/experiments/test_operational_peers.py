"""The comparison with Pinocchio's routes to Lambda^-1: judged rightly, answers the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pinocchio")

import dynsys
from experiments import operational_peers
from experiments.operational_peers import BARS, FRAMES, Comparison, Route, our_contenders
from experiments.peers.build import Builder, find_compilers
from experiments.peers.exact import exact_matrices, product_error, residual, scaled_error
from experiments.peers.pinocchio import LAMBDA, LTDL, SpaceLoops, pinocchio_contenders
from experiments.peers.robots import peer_robot


@pytest.mark.slow
def test_exact_matrices_are_those_of_the_library() -> None:
    robot = dynsys.synthetic.humanoid30()
    frames, q = ["left_leg_6", "right_arm_6"], robot.random_configuration(0)
    exact = exact_matrices(robot, frames, q[None])
    space = dynsys.operational_space(robot, q, frames)
    assert scaled_error(space.Lambda_inv[None], exact.Lambda_inv) < 1e-12
    assert residual(dynsys.inverse_inertia(robot, q)[None], exact.H) < 1e-12
    assert product_error(dynsys.recursive.crba(robot, q)[None], exact.H.astype(float)) < 1e-14
    assert 0 < exact.kept[0] <= 1


def test_errors_see_a_wrong_answer() -> None:
    H = np.array([[[4.0, 1.0], [1.0, 2.0]]])
    inverse = np.linalg.inv(H)
    wrong = H + np.array([[0.0, 1e-3], [0.0, 0.0]])
    assert scaled_error(wrong, H) == pytest.approx(1e-3 / np.sqrt(8))
    assert residual(inverse, H) < 1e-15 < 1e-5 < residual(inverse * 1.001, H)
    assert product_error(1.001 * H, H) == pytest.approx(1e-3)


def _comparison(ours_ns: float, ours_error: float, theirs_error: float = 1e-12) -> Comparison:
    routes = [
        Route("ours", LAMBDA, ours_ns, ours_ns, ours_error),
        Route("slow", LAMBDA, 9000.0, 9000.0, theirs_error),
        Route("fast", LAMBDA, 5000.0, 5000.0, 1e-12),
    ]
    return Comparison("icub", 38, LAMBDA, routes)


def test_a_bound_is_broken_by_time_by_error_and_by_another_question() -> None:
    assert _comparison(1000.0, 1e-12).holds
    assert _comparison(1000.0, 1e-12).ratio == 5.0
    assert _comparison(1000.0, 1e-12).best.who == "fast"
    assert not _comparison(5000.0 / BARS[LAMBDA] + 1, 1e-12).holds
    assert not _comparison(1000.0, 1e-9).holds
    assert not _comparison(1000.0, 1e-12, theirs_error=1.0).holds


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FRAMES))
def test_every_route_gives_the_exact_answer(name: str) -> None:
    peer = peer_robot(name)
    q = peer.states(3).q
    exact = exact_matrices(peer.robot, FRAMES[name], q)
    H = exact.H.astype(np.float64)
    contenders = our_contenders(peer, q, H)
    compilers = find_compilers()
    library = compilers and Builder(compilers, False, print).operational_loops()
    if library:
        loops = SpaceLoops(library, peer, FRAMES[name])
        contenders += pinocchio_contenders(peer, loops, q, H)
    for contender in contenders:
        contender.run(1)
        found = contender.result()
        if contender.task == LAMBDA:
            error = scaled_error(found, exact.Lambda_inv)
        elif contender.task == LTDL:
            error = product_error(found, H)
        else:
            error = residual(found, exact.H)
        assert error < (1e-10 if contender.who == "ours" else 1e-6), contender.who


def test_without_a_compiler_it_says_so_and_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(operational_peers, "find_compilers", list)
    assert operational_peers.main([]) == 0
    assert "needs clang or gcc" in capsys.readouterr().err
