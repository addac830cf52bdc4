"""Sections of the table of trust: what each campaign tried, and the worst it saw."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.trust.realtime import allocation_free

__all__ = ["SECTIONS", "row", "summary"]

Json = Mapping[str, Any]


def row(*cells: object) -> str:
    """Line of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def summary(results: Mapping[str, Any]) -> list[str]:
    """One line per campaign: what was tried, how often, the worst of it."""
    lines = ["| campaign | tried | worst | unexplained failures |", "|---|---|---|---|"]
    for name, result in results.items():
        if name in _DESCRIBED:
            lines.append(row(name, *_DESCRIBED[name](result)))
    return lines


def _fuzz(result: Sequence[Json]) -> tuple[str, str, str]:
    cases = sum(one["cases"] for one in result)
    refused = sum(one["refused"] for one in result)
    areas = len({one["area"].removesuffix(", hostile") for one in result})
    failed = sum(len(one["failures"]) for one in result)
    tried = f"{cases} inputs to {areas} readers"
    return tried, f"{refused} refused by errors of dynsys", str(failed)


def _edges(result: Sequence[Json]) -> tuple[str, str, str]:
    named = sum(one["error"] is not None for one in result)
    errors = [one["true_error"] for one in result if one["true_error"] is not None]
    finite = [error for error in errors if math.isfinite(error)]
    largest = f"true error {max(finite, default=0.0):.1e}"
    worst = f"{largest} where the printed bound says so; {named} named errors"
    return f"{len(result)} questions", worst, str(sum(not one["covered"] for one in result))


def _agreement(result: Json) -> tuple[str, str, str]:
    worst, peer, quantity = max(
        (cell["difference"], peer, quantity)
        for peer, row in result["worst"].items()
        for quantity, cell in row.items()
    )
    states = f"{result['states']} states of {result['robots']} robots"
    tried = f"{result['comparisons']} comparisons, {states}"
    return tried, f"{worst:.1e} relative ({peer}, {quantity})", str(len(result["failures"]))


def _faults(result: Json) -> tuple[str, str, str]:
    lost = result["injected"] - result["survived"]
    skipped = [row["name"] for row in result["faults"] if row["skipped"]]
    tried = f"{result['injected']} injections of {len(result['faults']) - len(skipped)} faults"
    return tried, f"skipped: {', '.join(skipped)}" if skipped else "-", str(lost)


def _realtime(result: Json) -> tuple[str, str, str]:
    c = max(row["worst"] for row in result["C"]["compute_us"].values())
    python = max(row["worst"] for row in result["Python"]["compute_us"].values())
    ticks = result["C"]["ticks"] + result["Python"]["ticks"]
    failed = "0" if allocation_free(result) else "1"
    return f"{ticks} ticks at 1 kHz", f"{c:.0f} µs in C, {python:.0f} µs in Python", failed


def _supply(result: Json) -> tuple[str, str, str]:
    bad = [name for name, part in result.items() if not part["ok"]]
    return ", ".join(result), "-", str(len(bad))


_DESCRIBED: Mapping[str, Callable[[Any], tuple[str, str, str]]] = {
    "fuzz": _fuzz,
    "edges": _edges,
    "agreement": _agreement,
    "faults": _faults,
    "realtime": _realtime,
    "supply": _supply,
}


def _agreement_section(result: Json) -> list[str]:
    quantities = ("inverse", "forward", "accelerometer", "gyroscope", "force", "torque")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = ["## Agreement with others", "", f"Largest relative difference; {versions}.", ""]
    lines += [row("peer", *quantities), "|---|" + "---|" * len(quantities)]
    for peer, found in result["worst"].items():
        cells = [f"{found[q]['difference']:.1e}" if q in found else "-" for q in quantities]
        lines.append(row(peer, *cells))
    lines += ["", *(f"- {who} cannot: {why}" for who, why in result["refused"].items())]
    return lines


def _faults_section(result: Json) -> list[str]:
    lines = ["## Faults injected", "", "| fault | injected | survived | what survived means |"]
    lines.append("|---|---|---|---|")
    for one in result["faults"]:
        meaning = one["meaning"] or f"skipped: {one['skipped']}"
        lines.append(row(one["fault"], one["injected"], one["survived"], meaning))
    return lines


def _realtime_section(result: Json) -> list[str]:
    lines = [
        "## Real-time loop",
        "",
        f"{result['seconds']:g} s at 1 kHz, each loop on one core, µs. A virtual machine with"
        " an ordinary kernel and other work beside: wake-ups and outliers of milliseconds are"
        f" its doing; the loop in C was preempted {result['C']['preempted']} times and had"
        f" {result['C']['page_faults']} page faults.",
        "",
        "| loop | | median | 99% | 99.99% | worst | malloc after warm-up |",
        "|---|---|---|---|---|---|---|",
    ]
    for way in ("Python", "C"):
        part = result[way]
        rows = {"wake-up": part["wake_up_us"], **part["compute_us"]}
        for name, times in rows.items():
            counted = part.get("allocations", {}).get(name)
            calls = f"{counted['malloc_calls']} in {counted['calls']} calls" if counted else ""
            if way == "C" and name != "wake-up":
                calls = f"{part['malloc_calls']} in the loop"
            cells = (times[key] for key in ("median", "p99", "p99_99", "worst"))
            lines.append(row(way, name, *cells, calls))
    return [*lines, "", "![latencies](results/trust/realtime.png)"]


SECTIONS = {
    "agreement": _agreement_section,
    "faults": _faults_section,
    "realtime": _realtime_section,
}
