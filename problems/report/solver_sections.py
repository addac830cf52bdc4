"""Sections on the linear system, its cost, and where the page comes from: HTML of one part."""

from __future__ import annotations

from problems.report.build import Report
from problems.report.draw_bars import bars
from problems.report.draw_matrix import matrix, matrix_legend
from problems.report.markup import count, figure, number, table, text

__all__ = ["orders", "origin", "sparsity", "timings"]


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
