"""Reports: the page they become, and the command that writes it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import DynsysError, KinematicTree, LinearSystem
from dynsys.errors import LogError
from dynsys.plan.orders.libraries import SuperLU
from dynsys.plan.orders.orders import OrderingContext
from problems import Estimation, ForwardDynamics
from problems.command import main as cli
from problems.report import (
    Report,
    ReportError,
    build_report,
    estimation_subject,
    read_subject,
    render,
    write_page,
    write_pdf,
)
from problems.report.estimates import (
    LEFT,
    RIGHT,
    WIDTH,
    around_zero,
    estimates_section,
    solve_log,
    ticks,
    uncertainty_part,
)
from problems.report.markup import count
from problems.report.robot import (
    MARGIN,
    JointDeviation,
    robot_part,
    skeletons,
)
from problems.report.sparsity import assembled, eliminated, matrix
from tests.problems.report.report_page import Page

# ---- the page -------------------------------------------------------------------------


def test_page_is_well_formed_and_loads_nothing(report: Report) -> None:
    text = render(report)
    parsed = Page(text)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text)
    for tag, attributes in parsed.attributes:
        assert not {"src", "srcset", "data", "poster", "action"} & set(attributes), tag
        href = attributes.get("href")
        assert href is None or href.startswith("#") or href == "data:,"
    assert "default-src 'none'" in text


def test_page_names_everything_once_escaped(report: Report, arm: Estimation) -> None:
    text = render(report)
    parsed = Page(text)
    assert report.verdict is not None
    assert str(report.verdict).splitlines()[0].split(": ", 2)[2] in parsed.text
    for name in (*arm.robot.body_names, *arm.robot.joint_names, "base_ft", "tip_<imu>"):
        assert name in parsed.text
    assert "tip_<imu>" not in text.split("<script")[0]  # escaped outside the data
    assert report.provenance.command in parsed.text
    assert all(digest in parsed.text for digest in report.provenance.fingerprints.values())


@pytest.mark.finding("item 9")
def test_no_name_opens_or_ends_a_script(arm: Estimation) -> None:
    """Inside <script>, ``<!--<script>`` makes browsers skip the next </script>."""
    names = ("<!--<script>", "</script>", "a & b")
    bodies = [replace(b, name=n) for b, n in zip(arm.robot.bodies, names, strict=False)]
    robot = KinematicTree("r", [*bodies, *arm.robot.bodies[len(names) :]])
    text = matrix(assembled(LinearSystem(robot), None), 1)
    (data,) = re.findall(r'<script type="application/json">(.*)</script>', text, re.DOTALL)
    assert not any(mark in data for mark in "<>&")
    assert all(name in str(json.loads(data)) for name in names)


def test_pictures_have_text_alternatives(report: Report) -> None:
    parsed = Page(render(report))
    for tag, attributes in parsed.attributes:
        if tag == "svg":
            hidden = attributes.get("aria-hidden") == "true"
            assert hidden or attributes.get("aria-label"), attributes
    headers = [a for tag, a in parsed.attributes if tag == "th"]
    assert all(a.get("scope") in ("col", "row") for a in headers)


def test_discs_grow_with_the_deviation_whatever_its_size() -> None:
    """The largest is always as large; what is not determined is a cross and no measure."""
    robot = dynsys.synthetic.chain(3)
    for largest in (1e-3, 1e3):
        found = [
            JointDeviation(name, i, "N m", median, median, median)
            for i, (name, median) in enumerate(
                zip(robot.joint_names, (largest / 4, None, largest), strict=True)
            )
        ]
        for drawn in skeletons(robot_part(robot, None), found).split("</svg>")[:2]:
            assert re.findall(r'class="disc"[^>]* r="([^"]*)"', drawn) == ["8.0", "14.0"]
            assert drawn.count("not determined") == drawn.count('class="open"') == 1


def test_two_counts_of_unknowns_are_explained(report: Report) -> None:
    assert report.verdict is not None and report.verdict.unknowns > report.unknowns
    text = Page(render(report)).text
    assert f"{count(report.verdict.unknowns)} with the net wrenches, as the verdict" in text


def test_matrix_data_match_its_picture(report: Report) -> None:
    parsed = Page(render(report))
    assert report.orders is not None
    matrices = [d for d in parsed.data if "rows" in d]
    assert len(matrices) == 2
    names = matrices[0]
    assert sum(len(parts) for _, parts in names["rows"]) == report.equations
    assert sum(len(parts) for _, parts in names["columns"]) == report.unknowns
    runs = re.findall(r'class="q-(\w+)" data-kind="\w+" d="([^"]*)"', render(report))
    entries = sum(int(n) for _, d in runs for n in re.findall(r"h(\d+)", d))
    both = (report.orders.before, report.orders.after)
    assert entries == sum(sum(m.counts.values()) for m in both if m is not None)


def test_large_matrices_stay_small_files() -> None:
    system = ForwardDynamics(dynsys.synthetic.chain(50)).system
    order = SuperLU("COLAMD").order(system.pattern(), OrderingContext.sampled(system, 1))
    content = eliminated(system, None, order, "COLAMD")
    assert content.shape == (1000, 1000) and content.counts["fill"] > 2000
    assert len(matrix(content, 1)) < 1_000_000


@pytest.mark.parametrize(("low", "high"), [(-1.2, 9.0), (0.0, 1e-9), (-3e5, 2e6), (5.0, 5.0)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high, 4)
    assert 1 <= len(found) <= 6
    reach = 1e-9 * max(abs(low), abs(high))
    assert all(low - reach <= value <= high + reach for value in found)
    assert around_zero(max(high, 1e-12))[1] == 0.0


# ---- the command ----------------------------------------------------------------------


@pytest.mark.slow
def test_command_writes_the_page_and_its_content(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "chain.html"
    words = ["report", "synthetic:chain:3", "--problem", "id", "--no-time", "-o", str(target)]
    assert cli.main(words) == 0
    assert f"wrote {target}" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == [str(target)]
    assert told["robot"]["n_bodies"] == 3 and told["orders"]["before"]["shape"] == [60, 60]
    assert Page(target.read_text(encoding="utf-8")).text


def test_errors_say_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["report", "synthetic:chain:2", "--log", "log.npz"]
    assert cli.main(words) == 2
    assert "has no sensors" in capsys.readouterr().err
    small = build_report(read_subject("synthetic:chain:2"), timed=False)
    with pytest.raises(ReportError, match="cannot be written"):
        write_page(small, tmp_path / "missing" / "page.html")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ReportError, match="apt-get install"):
        write_pdf(tmp_path / "page.html", tmp_path / "page.pdf")


def test_logs_that_do_not_fit_are_named(arm: Estimation, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", q=np.full((4, arm.robot.nq), np.nan), y=np.zeros((4, 1)))
    subject = estimation_subject("arm", arm)
    with pytest.raises(LogError, match=r"bad\.npz"):
        build_report(subject, log=tmp_path / "bad.npz", timed=False)
    with pytest.raises(DynsysError, match="no such log"):
        build_report(subject, log=tmp_path / "none.npz", timed=False)


NAN = float("nan")


def test_the_base_is_joined_to_the_first_bodies_only() -> None:
    drawn = skeletons(robot_part(dynsys.synthetic.balanced_tree(3), None))
    bases = re.findall(
        r'<path class="link" d="([^"]*)"/><path class="axis"[^>]*><title>', drawn
    )
    assert [lines.count("M") for lines in bases] == [1, 1]


def test_rulers_are_as_long_as_they_say_and_end_at_the_margin() -> None:
    robot = robot_part(dynsys.synthetic.chain(3), None)
    first, second = (np.array(body.position) for body in robot.bodies[:2])
    views = re.findall(r"<svg.*?</svg>", skeletons(robot), re.DOTALL)
    for drawn, axes in zip(views, ([1, 2], [0, 2]), strict=True):
        numbers = r'viewBox="0 0 (\d+).*?class="link" d="M(\S+) (\S+?)L(\S+) ([\d.]+)'
        width, x1, y1, x2, y2 = map(float, re.findall(numbers, drawn)[0])
        bar = r'd="M(\S+) \S+v4h(\S+)v-4"/><text class="ruler" x="(\S+)"[^>]*>(\S+) m<'
        x, length, middle, metres = map(float, re.findall(bar, drawn)[0])
        scale = np.hypot(x2 - x1, y2 - y1) / np.linalg.norm((second - first)[axes])
        assert length == pytest.approx(metres * scale, rel=0.01)
        assert x + length == pytest.approx(width - MARGIN / 2, abs=0.7)
        assert middle == pytest.approx(x + length / 2, abs=0.1)


def test_samples_fill_the_width_of_a_picture(report: Report) -> None:
    assert report.log is not None
    for series in report.log.torques:
        drawn = estimates_section(replace(report.log, torques=[series], wrenches=[]))
        (line,) = re.findall(
            r'class="estimate" d="M(\d[^"]*L[^"]*)"/><path class="truth"', drawn
        )
        x = [float(point.split()[0]) for point in line.split("L")]
        assert (min(x), max(x)) == (LEFT, WIDTH - RIGHT)
        np.testing.assert_allclose(np.diff(x, 2), 0.0, atol=0.21)  # at an even pace


def test_ticks_around_zero_are_round() -> None:
    assert around_zero(0.7) == [-0.5, 0.0, 0.5]


def test_deviations_of_a_wrench_that_is_mostly_open_are_left_out(
    arm: Estimation, arm_log: Path
) -> None:
    solved = solve_log(estimation_subject("arm.yaml", arm), arm_log)
    std = np.full((4, arm.robot.n_bodies, 6), 0.5)
    std[:3, 0, 0] = np.nan  # open in three samples of four
    std[:1, 0, 1] = np.nan
    stds = {"torque": solved.stds["torque"][:4], "external_wrench": std}
    first = uncertainty_part(arm, replace(solved, stds=stds)).wrenches[0]
    assert list(first.components.values())[:3] == [None, 0.5, 0.5]
