"""Reports: what they collect, the page they become, and the page in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.errors import DynsysError
from dynsys.ordering import OrderingContext, SuperLU
from problems import Estimation, ForwardDynamics, cli
from problems.doctor import find_browser
from problems.logs.source import LogError
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
from problems.report.draw_matrix import matrix
from problems.report.draw_series import around_zero, ticks
from problems.report.matrix_part import eliminated
from problems.report.orders_part import orders_part
from problems.report.pinocchio_peer import pinocchio_model
from problems.report.robot_part import robot_part
from problems.report.saddle_part import saddle
from problems.trajectory import Trajectory

VOID = {"meta", "link", "br", "path", "rect", "circle", "input", "hr"}


class Page(HTMLParser):
    """Checks that elements nest; collects texts, attributes and scripts of JSON."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data: list[Any] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID or (tag in ("path", "rect", "circle") and self._titled()):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if data.lstrip().startswith("{"):
                self.data.append(json.loads(data))
        else:
            self.text += data

    def _titled(self) -> bool:
        """True for a shape that holds its title: it has an end tag of its own."""
        return not (self.get_starttag_text() or "").endswith("/>")


@pytest.fixture(scope="module")
def arm() -> Estimation:
    """Two-branch robot with a few sensors of several kinds."""
    robot = dynsys.synthetic.random_tree(5, seed=3, joint_types=("revolute", "prismatic"))
    body = robot.body_names
    layout = sensors.Layout(
        robot,
        [
            sensors.Imu("tip_<imu>", body[-1], std=0.1),
            sensors.ForceTorque("base_ft", robot.joint_names[0], std=[0.1, 1.0]),
            *sensors.all_joint_accelerations(robot, std=0.5),
            *sensors.all_joint_torques(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot, [body[-1]]),
        ],
    )
    return Estimation(robot, layout)


@pytest.fixture(scope="module")
def log(arm: Estimation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short log with truth; written by inverse dynamics, without noise."""
    from problems.readings import TrueReadings

    path = tmp_path_factory.mktemp("log") / "arm.npz"
    time = np.arange(60) / 50.0
    q, qd, qdd = Trajectory.random(arm.robot, 1.2, seed=1).at(time)
    f_ext = np.zeros((60, arm.robot.n_bodies, 6))
    f_ext[:, -1, 3] = 10.0 * np.sin(time)
    torque, y = TrueReadings(arm.layout).at(q, qd, qdd, f_ext)
    last = f"truth.external_wrench.{arm.robot.body_names[-1]}"
    content = {"time": time, "q": q, "qd": qd, "y": y, "truth.torque": torque}
    np.savez(path, **content, **{last: f_ext[:, -1]})  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="module")
def report(arm: Estimation, log: Path) -> Report:
    subject = estimation_subject("arm.yaml", arm)
    return build_report(subject, log=log, command=["dynsys", "report", "arm.yaml"])


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(report, tmp_path_factory.mktemp("page") / "arm.html")


# ---- what is collected ----------------------------------------------------------------


def test_report_holds_what_the_problem_says(report: Report, arm: Estimation) -> None:
    assert report.verdict is not None and report.uncertainty is not None
    assert report.log is not None and report.orders is not None and report.timings is not None
    assert (report.equations, report.unknowns) == arm.system.shape
    assert report.entries == arm.system.nnz
    assert [j.joint for j in report.uncertainty.joints] == list(arm.robot.joint_names)
    assert [w.body for w in report.uncertainty.wrenches] == [arm.robot.body_names[-1]]


def test_deviations_are_those_of_the_estimates(
    report: Report, arm: Estimation, log: Path
) -> None:
    content = np.load(log)
    e = arm.solve_batch(content["q"], content["qd"], content["y"], uncertainty="torque")
    expected = np.median(e.std.torque.array, axis=0)
    assert report.uncertainty is not None
    found = [joint.median for joint in report.uncertainty.joints]
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=1e-9)


def test_samples_with_missing_readings_do_not_hide_the_others(
    arm: Estimation, log: Path, tmp_path: Path
) -> None:
    content = dict(np.load(log))
    content["y"][:6] = np.nan
    np.savez(tmp_path / "gaps.npz", **content)  # type: ignore[arg-type]
    subject = estimation_subject("arm", arm)
    found = build_report(subject, log=tmp_path / "gaps.npz", timed=False)
    assert found.uncertainty is not None and found.log is not None
    assert all(joint.missing == 0.1 for joint in found.uncertainty.joints)
    assert all("(open in 10%)" in joint.words for joint in found.uncertainty.joints)
    assert np.isnan(found.log.torques[0].value[:6]).all()
    assert np.isfinite(found.log.torques[0].value[6:]).all()
    assert Page(render(found)).text.count("open in 10%") >= 5


def test_estimates_without_noise_are_the_truth(report: Report) -> None:
    assert report.log is not None
    series = [*report.log.torques, *report.log.wrenches]
    assert len(report.log.torques) == 5 and len(report.log.wrenches) == 6
    for one in series:
        assert one.truth is not None and one.rmse is not None
        assert one.rmse < 1e-6
        assert one.inside == 1.0
        np.testing.assert_allclose(one.value, one.truth, atol=1e-6)


def test_sensors_sit_where_their_frames_are(arm: Estimation) -> None:
    part = robot_part(arm.robot, arm.layout)
    by_name = {sensor.name: sensor for sensor in part.sensors}
    tip = by_name["tip_<imu>"]
    assert tip.body == arm.robot.n_bodies - 1
    assert tip.position == part.bodies[-1].position
    assert tip.family == "inertial" and "m/s^2" in tip.noise
    assert by_name["base_ft"].body == 0
    assert part.statements == ["no external wrench, or a known one, on 4 bodies"]


def test_matrix_after_permutation_has_the_same_entries() -> None:
    subject = read_subject("synthetic:chain:3", "id")
    part = orders_part(subject)
    assert part.after is not None and part.shown
    for kind, (rows, columns) in part.before.entries.items():
        assert set(zip(rows, columns, strict=True)) == {
            (part.after.row_order[r], part.after.col_order[c])
            for r, c in zip(*part.after.entries[kind], strict=True)
        }
    assert sum(part.before.counts.values()) == subject.system.nnz
    labels = [f"{n} {p}" for n, parts in part.before.row_labels for p in parts]
    assert len(labels) == len(set(labels)) == subject.system.shape[0]


def test_symmetric_system_is_the_one_that_is_solved(arm: Estimation) -> None:
    found = saddle(arm)
    pattern = found.pattern.toarray()
    assert (pattern == pattern.T).all() and pattern.diagonal().all()
    n = arm.system.shape[0] + arm.system.shape[1]
    assert pattern.shape == (n, n)
    m = arm.layout.size
    D = arm.system.pattern().toarray()
    n_laws = arm.measured.laws.shape[0]
    np.testing.assert_array_equal(pattern[:m, m : m + D.shape[1]], D[n_laws:])
    np.testing.assert_array_equal(pattern[m + D.shape[1] :, m : m + D.shape[1]], D[:n_laws])
    assert sum(len(parts) for _, parts in found.labels) == n


def test_orders_of_least_squares_count_fill_and_operations(report: Report) -> None:
    assert report.orders is not None
    rows = {row.name: row for row in report.orders.rows}
    assert {"as assembled", "leaf to root", "minimum degree (SuperLU)"} <= set(rows)
    assert all(r.fill is None or r.fill >= 0 for r in rows.values())
    best = min((r for r in rows.values() if r.elimination), key=lambda r: r.elimination or 0)
    assert best.name == report.orders.shown
    ours = rows["compiled estimator, torques (ours)"]
    assert ours.executed is not None and best.elimination is not None
    assert ours.executed < best.elimination


def test_pinocchio_model_of_a_tree_gives_the_same_torques(arm: Estimation) -> None:
    pytest.importorskip("pinocchio", reason="Pinocchio is not installed")
    robot = arm.robot
    found = pinocchio_model(robot)
    assert found is not None
    pin, model, to = found
    q = robot.random_configuration(4)
    qd, qdd = np.random.default_rng(4).normal(size=(2, robot.nv))
    theirs = pin.rnea(model, model.createData(), *_pin(to, q, qd, qdd))
    np.testing.assert_allclose(
        to.tau_from_pin(theirs), dynsys.rnea(robot, q, qd, qdd), atol=1e-9
    )


def _pin(to: Any, q: Any, qd: Any, qdd: Any) -> tuple[Any, Any, Any]:
    return to.q_to_pin(q), to.v_to_pin(qd), to.v_to_pin(qdd)


def test_dynamics_leaves_out_what_does_not_apply() -> None:
    found = build_report(read_subject("synthetic:chain:4", "fd"), timed=False)
    assert found.verdict is found.uncertainty is found.log is found.timings is None
    assert found.plan is not None and found.plan.operations > 0
    text = render(found)
    shown = re.findall(r'<h2 id="(\w+)"', text)
    assert shown == ["robot", "sparsity", "orders", "origin"]
    assert "ABA, the recursion" in text


def test_undetermined_problem_says_what_is_missing() -> None:
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [*sensors.all_joint_torques(robot), *sensors.zero_external_wrench_except(robot)][1:],
    )
    found = build_report(estimation_subject("chain", Estimation(robot, layout)), timed=False)
    text = render(found)
    assert "✗ no: under-determined" in text
    assert "measure" in text and "not determined" in text


def test_square_problem_without_any_order_has_a_page() -> None:
    robot = dynsys.synthetic.chain(3)
    first, second, _ = sensors.all_joint_torques(robot)
    again = sensors.JointTorque("again", first.joint)
    untouched = sensors.zero_external_wrench_except(robot)
    layout = sensors.Layout(robot, [first, second, again, *untouched])
    found = build_report(estimation_subject("chain", Estimation(robot, layout)), timed=False)
    assert found.orders is not None
    assert all(row.elimination is row.executed is None for row in found.orders.rows)
    text = render(found)
    assert "✗ no" in text and "operations per solve</dt>" not in text


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


def test_pictures_have_text_alternatives(report: Report) -> None:
    parsed = Page(render(report))
    for tag, attributes in parsed.attributes:
        if tag == "svg":
            hidden = attributes.get("aria-hidden") == "true"
            assert hidden or attributes.get("aria-label"), attributes
    headers = [a for tag, a in parsed.attributes if tag == "th"]
    assert all(a.get("scope") in ("col", "row") for a in headers)


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


# ---- in a browser ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium behind chromedriver, its console and network traffic logged."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary, driver = find_browser(), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip(
            "Chromium or chromedriver is not installed: apt-get install chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    found = webdriver.Chrome(options=options, service=service)
    yield found
    found.quit()


def _requests(browser: Any) -> list[str]:
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def test_page_opens_without_console_error_or_request(browser: Any, page: Path) -> None:
    browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    loaded = [u for u in _requests(browser) if not u.startswith(("data:", "chrome:", "about:"))]
    assert loaded == [page.as_uri()]
    assert "arm" in browser.page_source


def test_pointing_at_an_entry_names_equation_and_unknown(browser: Any, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(page.as_uri())
    box = browser.find_element("id", "matrix-1")
    svg, readout = (box.find_element("css selector", s) for s in ("svg", ".readout"))
    svg.send_keys(Keys.ARROW_RIGHT)
    first = readout.text
    assert "equation 1: law of acceleration" in first and "unknown 1: acceleration of" in first
    svg.send_keys(Keys.ARROW_DOWN)
    assert readout.text != first and "no entry" not in readout.text
    button = browser.find_element("css selector", '.kinds button[data-kind="torque"]')
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    dimmed = browser.find_elements("css selector", "#matrix-1 .entries.one path.on")
    assert [path.get_attribute("data-kind") for path in dimmed] == ["torque"]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_page_fits_narrow_and_wide_light_and_dark(
    browser: Any, page: Path, scheme: str, width: int
) -> None:
    emulate = browser.execute_cdp_cmd
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    emulate("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    emulate("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    script = "return [document.documentElement.scrollWidth, innerWidth]"
    content, window = browser.execute_script(script)
    assert content <= window
    style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (_brightness(c) for c in browser.execute_script(style))
    assert (ink > paper) == (scheme == "dark") and abs(ink - paper) > 150
    emulate("Emulation.clearDeviceMetricsOverride", {})
    emulate("Emulation.setEmulatedMedia", {"features": []})


def _brightness(colour: str) -> float:
    return float(np.mean([float(x) for x in re.findall(r"[\d.]+", colour)[:3]]))


def test_pdf_is_printed(page: Path, tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    made = write_pdf(page, tmp_path / "arm.pdf")
    content = made.read_bytes()
    assert content.startswith(b"%PDF-") and len(content) > 20_000
