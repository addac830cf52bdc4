"""Sections on robot, sensors and estimates: HTML of one part; empty where it does not apply."""

from __future__ import annotations

from collections.abc import Sequence

from problems.report.build import Report
from problems.report.draw_robot import skeletons
from problems.report.draw_series import series_grid
from problems.report.draw_tree import tree
from problems.report.log_part import LogPart, Series
from problems.report.markup import (
    count,
    figure,
    legend,
    number,
    plural,
    symbol_legend,
    table,
    text,
)
from problems.report.robot_part import FAMILIES, SensorPart
from problems.verdict.verdict import Verdict
from problems.verdict.words import describe

__all__ = ["estimates", "robot", "uncertainty", "verdict"]

FIRST = 9
"""Series that are shown without asking."""


def robot(report: Report) -> str:
    """Skeleton and tree with the sensors, exact knowledge in words."""
    r = report.robot
    families = {s.family for s in r.sensors}
    words = [(family, w) for family, w in FAMILIES.items() if family in families]
    hint = " Symbols are where the sensors sit; point at one for its noise." if words else ""
    views = f'<div class="views">{"".join(skeletons(r))}</div>'
    parts = [
        f"<p>{count(r.n_bodies)} bodies, {count(r.nv)} freedoms, {number(r.mass, 4)} kg."
        f"{_sensor_words(r.sensors)}</p>",
        figure(
            views + symbol_legend(words),
            f"Skeleton in the {text(r.posture)}; lines join the origins of the bodies, circles"
            f" are joints.{hint}",
        ),
        figure(
            tree(r, label=f"tree of {r.n_bodies} bodies with joints and sensors"),
            "The tree, from the base outwards, with joints"
            + (" and sensors." if words else "."), "tall",
        ),
    ]  # fmt: skip
    if r.statements:
        listed = "".join(f"<li>{text(line)}</li>" for line in r.statements)
        parts.append(f"<p>Known without a sensor:</p><ul>{listed}</ul>")
    whole = [s for s in r.sensors if s.body < 0]
    if whole:
        names = ", ".join(f"{text(s.name)} ({text(s.kind)})" for s in whole)
        parts.append(f"<p>On the robot as a whole: {names}.</p>")
    return "".join(parts)


def _sensor_words(sensors: Sequence[SensorPart]) -> str:
    if not sensors:
        return ""
    readings = sum(s.readings for s in sensors)
    return f" {count(len(sensors))} sensors give {count(readings)} readings per sample."


def verdict(report: Report) -> str:
    """What the layout determines, in words."""
    v = report.verdict
    if v is None:
        return ""
    headline = str(v).splitlines()[0].split(": ", 2)[2]
    mark = "✓ yes" if v.is_well_posed else "✗ no"
    parts = [
        f'<div class="verdict{"" if v.is_well_posed else " no"}">'
        f"<strong>{mark}: {text(v.status)}</strong><br>{text(headline)}.</div>",
        f"<p>Rank {count(v.rank)} of {count(v.unknowns)} unknowns (net wrenches counted among"
        f" them) from {count(v.equations)} equations, laws and readings:"
        f" {plural(v.checks, 'reading')} to check others by.</p>",
    ]
    if not v.is_well_posed:
        parts.append(_unseen(v))
    _, median, high, most = v.condition
    parts.append(
        f"<p>Condition number over {v.samples} random postures: median {number(median, 2)}, 90%"
        f" below {number(high, 2)}, largest {number(most, 2)}.</p>"
    )
    for drop in v.rank_drops:
        lines = "".join(f"<li>{text(line)}</li>" for line in describe(drop.directions, 3))
        parts.append(
            f"<p>{text(drop.where[:1].upper() + drop.where[1:])}, "
            f" {plural(drop.lost, 'more direction')} not seen:</p><ul>{lines}</ul>"
        )
        if drop.repairs:
            parts.append(f"<p>Repair there: {text(drop.repairs[0].words)}.</p>")
    return "".join(parts)


def _unseen(v: Verdict) -> str:
    lines = "".join(f"<li>{text(line)}</li>" for line in describe(v.directions))
    rows = [
        (text(kind.replace("_", " ")), ", ".join(text(_named(n, c)) for n, c in names.items()))
        for kind, names in v.undetermined.items()
        if names
    ]
    parts = [f"<h3>What no sensor sees</h3><ul>{lines}</ul>"]
    parts.append(table(("quantity", "not determined of"), rows, left=2))
    if v.repairs:
        repairs = "".join(f"<li>{text(r.words)}</li>" for r in v.repairs[:8])
        parts.append(
            f"<h3>Any one of these repairs it</h3><ul>{repairs}</ul><p>For the first, in the"
            f" layout file:</p><pre>{text(v.repairs[0].yaml.strip())}</pre>"
        )
    return "".join(parts)


def _named(name: str, components: Sequence[str]) -> str:
    return f"{name} ({', '.join(components)})" if components else name


def uncertainty(report: Report) -> str:
    """Deviations as bars on the tree and discs on the skeleton."""
    u = report.uncertainty
    if u is None:
        return ""
    views = f'<div class="views">{"".join(skeletons(report.robot, u.joints))}</div>'
    parts = [
        f"<p>Standard deviations of the joint torques over {text(u.over)}. They follow from the"
        " posture and the noise of the sensors alone, not from what the sensors read.</p>",
        figure(
            tree(report.robot, u.joints, "standard deviation of each joint's torque"),
            "Bars: median; whiskers: 10% to 90% of the postures. Open: not determined.", "tall",
        ),
        figure(
            views, "The same on the robot: the area of a disc grows with the deviation."
            " A cross: not determined.",
        ),
    ]  # fmt: skip
    if u.wrenches:
        axes = list(u.wrenches[0].components)
        columns = ("body", *(f"{a} [{'N m' if a[0] == 't' else 'N'}]" for a in axes))
        rows = [
            (text(w.body), *(_deviation(value) for value in w.components.values()))
            for w in u.wrenches
        ]
        caption = "External wrenches that may act: median standard deviation, body coordinates."
        parts.append(table(columns, rows, caption=caption))
    return "".join(parts)


def _deviation(value: float | None) -> str:
    return "not determined" if value is None else number(value, 2)


def estimates(report: Report) -> str:
    """Estimates along the log."""
    log = report.log
    if log is None:
        return ""
    has_truth = any(s.truth is not None for s in (*log.torques, *log.wrenches))
    line = '<svg class="mark wide" viewBox="0 0 26 14" aria-hidden="true">{}</svg>'
    marks = [
        (line.format('<path class="estimate" d="M0 7H26"/>'), "estimate"),
        (line.format('<path class="band" d="M0 1H26V13H0z"/>'), "± 2 standard deviations"),
    ]
    if has_truth:
        marks.append((line.format('<path class="truth" d="M0 7H26"/>'), "truth"))
        marks.append((line.format('<path class="error" d="M0 7H26"/>'), "estimate minus truth"))
    first, rest = _chosen(log)
    parts = [_log_words(log), legend(marks), figure(series_grid(log, first), _shown_words(log))]
    for title, some in rest:
        if some:
            parts.append(
                f"<details><summary>{title} ({len(some)})</summary>{series_grid(log, some)}"
                "</details>"
            )
    return "".join(parts)


def _chosen(log: LogPart) -> tuple[list[Series], list[tuple[str, list[Series]]]]:
    """Series that move most, and all the others by kind."""
    n_wrenches = min(3, len(log.wrenches))
    torques = sorted(log.torques, key=lambda s: -s.reach)[: FIRST - n_wrenches]
    wrenches = sorted(log.wrenches, key=lambda s: -s.reach)[:n_wrenches]
    rest = [
        ("The other torques", [s for s in log.torques if s not in torques]),
        ("The other external wrenches", [s for s in log.wrenches if s not in wrenches]),
    ]
    return [*torques, *wrenches], rest


def _shown_words(log: LogPart) -> str:
    return (
        "Torques and components of external wrenches that move most, body coordinates; below"
        " each, where the truth is known, the error within ± 2 standard deviations."
        " Samples far less certain than the others are cut off."
        f" {len(log.time)} of {count(log.solved)} samples are drawn."
    )


def _log_words(log: LogPart) -> str:
    words = [
        f"Log {text(log.log)}: {count(log.samples)} samples over {number(log.duration)} s,"
        f" {count(log.solved)} of them estimated."
    ]
    if log.chi_square is not None and log.degrees_of_freedom:
        words.append(
            f"The readings agree with each other and with the laws: chi-square"
            f" {number(log.chi_square)} on average where {number(log.degrees_of_freedom)} is"
            " expected"
            if log.chi_square < 2 * log.degrees_of_freedom
            else f"The readings disagree more than their noise explains: chi-square"
            f" {number(log.chi_square)} on average where {number(log.degrees_of_freedom)} is"
            " expected"
        )
        words[-1] += f"; {100 * (log.suspicious or 0):.0f}% of the samples have p &lt; 0.01."
    torques = [s for s in log.torques if s.inside is not None]
    if torques:
        inside = sum(s.inside or 0.0 for s in torques) / len(torques)
        words.append(
            f"Of the true torques {100 * inside:.1f}% lie within ± 2 standard deviations of"
            " their estimate (95.4% expected of Gaussian noise)."
        )
    if log.made:
        words.append(f"{count(len(log.made))} velocities or accelerations were differentiated.")
    if log.without_data:
        words.append(f"Without data: {text(', '.join(log.without_data))}.")
    return f"<p>{' '.join(words)}</p>"
