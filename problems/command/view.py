"""``dynsys view``: the robot and its estimates over time, in a browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser

from problems import terminal
from problems.command.arguments import add_flags, add_problem, add_web, has_display, web_host
from problems.problem_file import load_problem
from problems.view.page import ViewPage, require_viser
from problems.view.playback import solve_playback, touched_frames

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys view problem.yaml log.npz
  dynsys view catalogue:panda                     the robot and its sensors"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument(
        "log",
        metavar="LOG",
        nargs="?",
        help="estimate and play this log, as for 'dynsys solve'",
    )
    add_web(parser, 8090)
    add_flags(
        parser,
        no_browser="do not open a browser",
        dark="a dark page",
        no_meshes="rounded solids also where the robot's file has meshes",
    )


def run(args: argparse.Namespace) -> int:
    """Solve the log and serve the page until interrupted."""
    host = web_host(args)
    require_viser()  # before the work, not after it
    problem = load_problem(args.problem)
    playback = solve_playback(problem, args.log, touched_frames(problem)) if args.log else None
    page = ViewPage(problem, playback, host, args.port, not args.no_meshes, dark=args.dark)
    try:
        _tell(args, page, 0 if playback is None else playback.n_samples)
        if not args.no_browser and has_display():
            webbrowser.open(page.address)
        page.play()
    except KeyboardInterrupt:
        terminal.show_line()
    finally:
        page.close()
    return 0


def _tell(args: argparse.Namespace, page: ViewPage, n_samples: int) -> None:
    notes = list(page.scene.notes)
    if args.json:
        terminal.show_json(
            {
                "address": page.address,
                "samples": n_samples,
                "meshes": page.scene.has_shapes,
                "notes": notes,
            }
        )
    else:
        for note in notes[:5]:
            terminal.show_line(f"not shown: {note}")
        terminal.show_line(f"view: {page.address}  (Ctrl-C ends it)")
    sys.stdout.flush()  # whoever reads a pipe waits for the address
