"""The page: a report as one HTML file that loads nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from statistics import median

from dynsys.errors import ReportError
from problems.report.build import Report
from problems.report.draw_matrix import bars, matrix, matrix_legend
from problems.report.draw_robot import skeletons, tree
from problems.report.draw_series import series_grid
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

__all__ = [
    "estimates",
    "orders",
    "origin",
    "render",
    "robot",
    "sparsity",
    "timings",
    "uncertainty",
    "verdict",
    "write_page",
]

# ----------------------------------------------------------------------
# Sections on robot, sensors and estimates: HTML of one part; empty where it does not apply.

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


# ----------------------------------------------------------------------
# Sections on the linear system, its cost, and where the page comes from: HTML of one part.


def sparsity(report: Report) -> str:
    """The system before and after permutation."""
    o = report.orders
    if o is None:
        return ""
    pictures = matrix(o.before, 1) + (matrix(o.after, 2) if o.after is not None else "")
    caption = (
        "Every entry that can be nonzero at some posture; colour is the quantity of the unknown"
        " it multiplies. Point at an entry, or use the arrow keys, to read its equation and its"
        " unknown; press a name above to see one quantity alone. Fill: entries that"
        " elimination adds."
    )
    return (
        f"<p>{count(report.unknowns)} unknowns, {count(report.equations)} equations,"
        f" {count(report.entries)} entries: {_density(report)} of the matrix.</p>"
        f"{matrix_legend(o.before, o.after)}"
        + figure(f'<div class="matrices">{pictures}</div>', caption)
    )


def _density(report: Report) -> str:
    return f"{100.0 * report.entries / (report.unknowns * report.equations):.2g}%"


def orders(report: Report) -> str:
    """Fill and exact operations of every order."""
    o = report.orders
    if o is None:
        return ""
    marked = [k for k, row in enumerate(o.rows) if "(ours)" in row.name]
    rows = [
        (text(r.name) + (" · drawn above" if r.name == o.shown else ""), count(r.fill),
         count(r.elimination), count(r.executed))
        for r in o.rows
    ]  # fmt: skip
    columns = ("order", "fill [entries]", "elimination [operations]", "executed [operations]")
    notes = [f"<li>{text(r.name)}: {text(r.note)}</li>" for r in o.rows if r.note]
    cost = [(r.name, r.executed or r.elimination) for r in o.rows]
    picture = bars(
        [(name, value, count(value)) for name, value in cost],
        "operations per solve for each order", "operations per solve (scale of powers of ten)",
    )  # fmt: skip
    parts = [
        _plan_words(report),
        f"<p>{text(o.what)}.</p>",
        table(columns, rows, marked=marked),
    ]
    parts.append(
        figure(picture, "Operations per solve: executed where counted, else elimination.")
    )
    parts.append(
        "<p>Elimination: factorisation and substitution alone, every entry a number. Executed:"
        " the whole computation after simplification, entries of the system included, as it is"
        " compiled for this robot.</p>"
    )
    return "".join(parts) + (f"<ul>{''.join(notes)}</ul>" if notes else "")


def _plan_words(report: Report) -> str:
    p = report.plan
    if p is None:
        return ""
    return (
        f"<p>Plan: {text(p.ordering)}; {count(p.operations)} operations per solve"
        f" ({count(p.multiplications)} multiplications, {count(p.additions)} additions,"
        f" {count(p.divisions)} divisions). Pivots safe by argument:"
        f" {count(p.pivots_by_argument)}; by sampling: {count(p.pivots_by_sampling)}.</p>"
    )


def timings(report: Report) -> str:
    """Time per solve beside the recursions and Pinocchio."""
    t = report.timings
    if t is None:
        return ""
    rows = [(text(r.name), number(r.one), number(r.batch)) for r in t.rows]
    columns = ("computation", "one [µs]", "batch [µs]")
    notes = "".join(f"<li>{text(r.name)}: {text(r.note)}</li>" for r in t.rows if r.note)
    known = [
        (f"{r.name}, {what}", value, f"{number(value)} µs")
        for r in t.rows
        for what, value in (("one", r.one), ("batch", r.batch))
        if value is not None
    ]
    picture = bars(known, "time per solve", "microseconds per state (scale of powers of ten)")
    parts = [f"<p>{text(t.how)}.</p>", table(columns, rows)]
    parts += [f"<ul>{notes}</ul>"] if notes else []
    return "".join(parts) + figure(picture, "Time per state; shorter is faster.")


def origin(report: Report) -> str:
    """Versions, fingerprints, and how to make the page again."""
    p = report.provenance
    versions = ", ".join(f"{text(n)} {text(v)}" for n, v in p.versions.items())
    prints = [
        (text(name), f'<span class="mono">{text(digest)}</span>')
        for name, digest in p.fingerprints.items()
    ]
    notes = "".join(f"<li>{text(note)}</li>" for note in report.notes)
    return (
        f"<p>Made {text(p.date)} on {text(p.machine)} with {versions}.</p>"
        f"<p>To make it again:</p><pre>{text(p.command)}</pre>"
        + table(("fingerprint of", "SHA-256"), prints, left=2)
        + (f"<ul>{notes}</ul>" if notes else "")
    )


SECTIONS = (
    ("robot", "Robot and sensors", robot),
    ("verdict", "What the sensors determine", verdict),
    ("uncertainty", "Uncertainty", uncertainty),
    ("estimates", "Estimates over time", estimates),
    ("sparsity", "Sparsity", sparsity),
    ("orders", "Fill and operations", orders),
    ("timings", "Time per solve", timings),
    ("origin", "How this page was made", origin),
)

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


def render(report: Report) -> str:
    """HTML of a report: styles, script, pictures and data inline."""
    made = [(key, title, make(report)) for key, title, make in SECTIONS]
    if not report.robot.sensors:
        made[0] = ("robot", "Robot", made[0][2])
    shown = [(key, title, body) for key, title, body in made if body]
    links = "".join(f'<li><a href="#{key}">{text(title)}</a></li>' for key, title, _ in shown)
    sections = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}">{k}. {text(title)}</h2>'
        f"{body}</section>"
        for k, (key, title, body) in enumerate(shown, 1)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(report.title)}</title><style>{_file('page.css')}</style></head>"
        f"<body><main><header><h1>{text(report.title)}</h1>{_lead(report)}{_cards(report)}"
        f'<nav aria-label="sections"><ul>{links}</ul></nav></header>{sections}'
        f"<footer>Made by dynsys {text(report.provenance.versions.get('dynsys', ''))}:"
        " rigid-body dynamics as one sparse linear system, D(q) d + b(q, qd) = 0. SI units"
        " throughout; wrenches (tx ty tz fx fy fz) in body coordinates, moments first."
        f"</footer></main><script>{_file('page.js')}</script></body></html>\n"
    )


def _file(name: str) -> str:
    return (resources.files("problems.report") / name).read_text(encoding="utf-8")


def _lead(report: Report) -> str:
    return f'<p class="lead">{text(report.spec)} · {text(report.provenance.date)}</p>'


def _cards(report: Report) -> str:
    """The few numbers that matter most."""
    cards: list[tuple[str, str, str]] = []
    v, t, u = report.verdict, report.timings, report.uncertainty
    if v is not None:
        mark = "✓" if v.is_well_posed else "✗"
        cards.append(
            ("verdict", f"{mark} {v.status}", f"{plural(v.checks, 'reading')} to spare")
        )
    size = f"{count(report.entries)} entries"
    cards.append(
        ("unknowns", count(report.unknowns), f"{count(report.equations)} equations, {size}")
    )
    operations = _operations(report)
    if operations is not None:
        cards.append(("operations per solve", count(operations[0]), operations[1]))
    row = next((r for r in t.rows if r.one is not None), None) if t else None
    if row is not None:
        batch = f"{number(row.batch)} µs in batches; " if row.batch is not None else ""
        cards.append(("time per solve", f"{number(row.one)} µs", f"{batch}{row.name}"))
    known = [j.median for j in u.joints if j.median] if u else []
    if known:
        cards.append(
            ("deviation of a torque", f"{number(median(known), 2)} N m",
             f"median joint; largest {number(max(known), 2)} N m")
        )  # fmt: skip
    return '<dl class="cards">' + "".join(
        f'<div class="card"><dt>{text(name)}</dt><dd>{text(value)}<small>{text(more)}</small>'
        "</dd></div>"
        for name, value, more in cards
    ) + "</dl>"  # fmt: skip


def _operations(report: Report) -> tuple[int, str] | None:
    """Operations of a solve and their order: ours, else the cheapest; None if there is none."""
    if report.plan is not None:
        return report.plan.operations, report.plan.ordering
    rows = () if report.orders is None else report.orders.rows
    for row in rows:
        if row.executed is not None:
            return row.executed, row.name
    found = [(row.elimination, row.name) for row in rows if row.elimination is not None]
    return min(found, default=None)


def write_page(report: Report, path: str | Path) -> Path:
    """Write the page: complete or not at all.

    Raises
    ------
    ReportError
        if the file cannot be written.
    """
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_text(render(report), encoding="utf-8")
        os.replace(part, target)
    except OSError as error:
        raise ReportError(
            f"{target}: cannot be written: {error}; choose another file with -o"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target
