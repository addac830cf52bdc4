"""The page: a report as one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from statistics import median

from dynsys.distribution import DISTRIBUTION
from dynsys.errors import ReportError
from dynsys.resumable import replacing
from problems.report.build import Provenance, Report
from problems.report.estimates import estimates_section, uncertainty_section
from problems.report.markup import count, listed, number, plural, table, text
from problems.report.orders import orders_section
from problems.report.robot import robot_section
from problems.report.sparsity import sparsity_section
from problems.report.timing import timings_section
from problems.verdict.statements import statement_lines
from problems.verdict.verdict import Verdict
from problems.verdict.words import describe

__all__ = ["render", "write_page"]


# ---- sections on the verdict, and on where the page comes from -----------------------------


def verdict_section(v: Verdict) -> str:
    """What the layout determines, in words."""
    mark = "✓ yes" if v.is_well_posed else "✗ no"
    parts = [
        f'<div class="verdict{"" if v.is_well_posed else " no"}">'
        f"<strong>{mark}: {text(v.status)}</strong><br>{text(v.words)}.</div>",
        f"<p>Rank {count(v.rank)} of {count(v.unknowns)} unknowns (as the paper counts, with"
        " the net wrench of every body, which the matrix below does without) from"
        f" {count(v.equations)} equations, laws and readings:"
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
        lost = f"{plural(drop.lost, 'direction')} not seen"
        if v.nullity:
            lost = f"{drop.lost} more not seen, {v.nullity + drop.lost} in all"
        parts.append(
            f"<p>{text(drop.where[:1].upper() + drop.where[1:])}, {lost}:</p>"
            + listed(map(text, describe(drop.directions, 3)))
        )
        if drop.repairs:
            parts.append(f"<p>Repair there: {text(drop.repairs[0].words)}.</p>")
    if v.statements:
        taken, *losses = (line.strip() for line in statement_lines(v.statements))
        parts.append(f"<p>{text(taken[:1].upper() + taken[1:])}.</p>")
        parts.append(listed(map(text, losses)))
    return "".join(parts)


def _unseen(v: Verdict) -> str:
    rows = [
        (text(kind.replace("_", " ")), ", ".join(text(_named(n, c)) for n, c in names.items()))
        for kind, names in v.undetermined.items()
        if names
    ]
    words = f"<h3>What no sensor sees</h3>{listed(map(text, describe(v.directions)))}"
    words += table(("quantity", "not determined of"), rows, left=2)
    if v.repairs:
        repairs = listed(text(r.words) for r in v.repairs[:8])
        words += (
            f"<h3>Any one of these repairs it</h3>{repairs}<p>For the first, in the"
            f" layout file:</p><pre>{text(v.repairs[0].yaml.strip())}</pre>"
        )
    return words


def _named(name: str, components: Sequence[str]) -> str:
    return f"{name} ({', '.join(components)})" if components else name


def origin_section(p: Provenance, notes: Sequence[str]) -> str:
    """Versions, fingerprints, and how to make the page again."""
    versions = ", ".join(f"{text(n)} {text(v)}" for n, v in p.versions.items())
    prints = [
        (text(name), f'<span class="mono">{text(digest)}</span>')
        for name, digest in p.fingerprints.items()
    ]
    return (
        f"<p>Made {text(p.date)} on {text(p.machine)} with {versions}.</p>"
        f"<p>To make it again:</p><pre>{text(p.command)}</pre>"
        + table(("fingerprint of", "SHA-256"), prints, left=2)
        + listed(map(text, notes))
    )


# ---- the page ------------------------------------------------------------------------------


POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


def render(report: Report) -> str:
    """HTML of a report: styles, script, pictures and data inline."""
    shown = list(_sections(report))
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
        f"<body><main><header><h1>{text(report.title)}</h1>"
        f'<p class="lead">{text(report.spec)} · {text(report.provenance.date)}</p>'
        f"{_cards(report)}"
        f'<nav aria-label="sections"><ul>{links}</ul></nav></header>{sections}'
        f"<footer>Made by dynsys {text(report.provenance.versions.get(DISTRIBUTION, ''))}:"
        " rigid-body dynamics as one sparse linear system, D(q) d + b(q, qd) = 0. SI units"
        " throughout; wrenches (tx ty tz fx fy fz) in body coordinates, moments first."
        f"</footer></main><script>{_file('page.js')}</script></body></html>\n"
    )


def _sections(r: Report) -> Iterator[tuple[str, str, str]]:
    """Key, title and HTML of every section that applies."""
    robot = "Robot and sensors" if r.robot.sensors else "Robot"
    yield "robot", robot, robot_section(r.robot)
    if r.verdict is not None:
        yield "verdict", "What the sensors determine", verdict_section(r.verdict)
    if r.uncertainty is not None:
        yield "uncertainty", "Uncertainty", uncertainty_section(r.robot, r.uncertainty)
    if r.log is not None:
        yield "estimates", "Estimates over time", estimates_section(r.log)
    if r.orders is not None:
        yield "sparsity", "Sparsity", sparsity_section(r.orders.before, r.orders.after)
        yield "orders", "Fill and operations", orders_section(r.orders, r.plan)
    if r.timings is not None:
        yield "timings", "Time per solve", timings_section(r.timings)
    yield "origin", "How this page was made", origin_section(r.provenance, r.notes)


def _file(name: str) -> str:
    return (resources.files("problems.report") / name).read_text(encoding="utf-8")


def _cards(report: Report) -> str:
    """The few numbers that matter most."""
    cards: list[tuple[str, str, str]] = []
    v, t, u = report.verdict, report.timings, report.uncertainty
    if v is not None:
        mark = "✓" if v.is_well_posed else "✗"
        cards.append(
            ("verdict", f"{mark} {v.status}", f"{plural(v.checks, 'reading')} to spare")
        )
    size = f"{count(report.equations)} equations, {count(report.entries)} entries"
    if v is not None and v.unknowns != report.unknowns:
        size += f"; {count(v.unknowns)} with the net wrenches, as the verdict counts"
    cards.append(("unknowns", count(report.unknowns), size))
    if v is not None and not v.is_well_posed:  # what it costs is said below, in its section
        blind, seen = len(v.undetermined.get("torque", ())), len(v.determined["torque"])
        more = "the others: see what repairs it" if blind else "what is not: see below"
        cards.append(("torques determined", f"{seen} of {seen + blind}", more))
        return _card_list(cards)
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
    return _card_list(cards)


def _card_list(cards: Sequence[tuple[str, str, str]]) -> str:
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
    try:
        with replacing(target) as part:
            part.write_text(render(report), encoding="utf-8")
    except OSError as error:
        raise ReportError(
            f"{target}: cannot be written: {error}; choose another file with -o"
        ) from None
    return target
