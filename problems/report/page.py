"""The page: a report as one HTML file that loads nothing."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from statistics import median

from problems.report.build import Report
from problems.report.markup import count, number, plural, text
from problems.report.robot_sections import estimates, robot, uncertainty, verdict
from problems.report.solver_sections import orders, origin, sparsity, timings
from problems.report.subject import ReportError

__all__ = ["render", "write_page"]

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
