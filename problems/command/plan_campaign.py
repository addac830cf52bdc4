"""``dynsys plan --campaign``: orders of many robots, problems and seeds, as files."""

from __future__ import annotations

import argparse
from typing import Any

from dynsys.errors import ModelError
from dynsys.plan.search.campaign import Campaign, CampaignTask, Outcome, Summary
from problems import terminal
from problems.planning import plan_task

__all__ = ["run_campaign", "tasks"]


def tasks(args: argparse.Namespace) -> tuple[CampaignTask, ...]:
    """Every robot with every problem and every seed."""
    if not args.evaluations:
        raise ModelError("a campaign needs --evaluations N, so that its results are repeatable")
    return tuple(
        CampaignTask(
            {
                "robot": robot,
                "problem": problem,
                "floating_base": args.floating_base,
                "seed": args.seed + k,
                "evaluations": args.evaluations,
            }
        )
        for robot in args.what
        for problem in (args.problem or ["fd"])
        for k in range(args.seeds)
    )


def run_campaign(args: argparse.Namespace) -> int:
    """Run what is open, show all results; 1 if tasks failed or are still open."""
    campaign = Campaign(args.campaign, tasks(args))
    done = len(campaign.tasks) - len(campaign.open_tasks()) if args.campaign.is_dir() else 0
    with terminal.progress_bar("campaign") as start:
        advance = start(done, len(campaign.tasks))
        summary = campaign.run(
            plan_task,
            workers=args.workers,
            scheduler=args.scheduler,
            progress=lambda outcome: advance(1),
        )
    outcomes = campaign.outcomes()
    if args.json:
        terminal.show_json(
            {"summary": vars(summary), "results": [_as_json(outcome) for outcome in outcomes]}
        )
    else:
        _show(summary, outcomes)
    return 1 if summary.failed or summary.open else 0


def _as_json(outcome: Outcome) -> dict[str, Any]:
    result = dict(outcome.result or {})
    for long in ("row_order", "col_order"):
        result.pop(long, None)
    return dict(outcome.task.payload) | result | {"error": outcome.error}


def _show(summary: Summary, outcomes: list[Outcome]) -> None:
    rows = []
    for outcome in outcomes:
        told = _as_json(outcome)
        before, after = told.get("constructive"), told.get("found")
        saved = f"{1 - after / before:.1%}" if before and after else "-"
        rows.append(
            (
                str(told["robot"]),
                str(told["problem"]),
                str(told["seed"]),
                str(before or "-"),
                str(after or "-"),
                saved,
                outcome.error or "",
            )
        )
    columns = (
        "robot",
        "problem",
        "seed",
        "constructive [ops]",
        "found [ops]",
        "saved",
        "error",
    )
    terminal.show_table(columns, rows, right=columns[2:6])
    ended = "interrupted, run it again to go on" if summary.interrupted else "done"
    terminal.show_line(
        f"{ended}: {summary.before} known before, {summary.computed} computed,"
        f" {summary.open} open, {summary.failed} failed"
    )
