"""``dynsys studio``: place sensors on a robot in the browser and see what becomes known."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe

from problems import terminal
from problems.command.arguments import (
    add_flags,
    add_robot,
    has_display,
    port,
    robot_options,
)
from problems.command.demo_log import bundled
from problems.problem_file import ProblemFile, load_problem
from problems.studio.background import Lanes, ProcessBackground
from problems.studio.files import Folder
from problems.studio.server import StudioServer
from problems.studio.session import Session
from problems.web import AccessRules
from sensors.parameters import sensor_name

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys studio catalogue:nao
  dynsys studio problem.yaml --port 8080"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "problem",
        metavar="PROBLEM",
        nargs="?",
        default="",
        help="a problem file (.yaml), catalogue:NAME, or a robot: .urdf, .xml, example:NAME,"
        " synthetic:NAME; by default the humanoid of dynsys demo with its log",
    )
    add_robot(parser, "for a robot: its root link moves freely")
    parser.add_argument("--log", metavar="LOG", help="a log to play")
    parser.add_argument(
        "--folder", default=".", help="where the page opens and saves layouts (this folder)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (127.0.0.1: this machine alone); others need --token",
    )
    parser.add_argument(
        "--port", type=port, default=8080, help="to listen on; 0: any free one (8080)"
    )
    parser.add_argument(
        "--token", default="", help="letters and digits, 16 or more, that every page must know"
    )
    add_flags(parser, no_browser="do not open a browser")


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    problem, log = _problem(args)
    _ = problem.estimation  # what is wrong with it is said here, not on the page
    access, folder = AccessRules(args.host, args.token), Folder(args.folder)
    background = Lanes(ProcessBackground(), ProcessBackground())
    ready: list[Session] = []

    def begin(name: str) -> Session:
        return ready.pop() if ready else Session(name, problem, folder, background, log)

    try:
        with StudioServer(access, args.port, begin) as server:
            # the first page finds its session, and perhaps the verdict, ready
            ready.append(Session(token_urlsafe(16), problem, folder, background, log))
            ready[0].act("hello", {})
            try:
                _tell(args, server.address, problem.tree.name)
                if not args.no_browser and has_display():
                    webbrowser.open(server.address)
                server.serve_forever(poll_interval=0.1)
            except KeyboardInterrupt:
                terminal.show_line()
    finally:
        background.close()
    return 0


def _tell(args: argparse.Namespace, address: str, robot: str) -> None:
    if args.json:
        terminal.show_json({"address": address, "robot": robot})
    else:
        terminal.show_line(f"studio: {address}  (Ctrl-C ends it)")
    sys.stdout.flush()  # whoever reads a pipe waits for the address


def _problem(args: argparse.Namespace) -> tuple[ProblemFile, Path | None]:
    """What to show, and the log to play."""
    log = Path(args.log) if args.log else None
    if not args.problem:
        return load_problem(bundled("humanoid.yaml")), log or bundled("humanoid_log.npz")
    if args.problem.startswith("catalogue:") or args.problem.endswith((".yaml", ".yml")):
        return load_problem(args.problem), log
    spec = args.problem
    if not spec.startswith(("synthetic:", "example:")):
        spec = str(Path(spec).resolve())
    bare = ProblemFile(spec, {"sensors": []}, args.floating_base, **robot_options(args))
    return replace(bare, layout=_nothing_touches(bare)), log


def _nothing_touches(bare: ProblemFile) -> dict[str, object]:
    """Layout to begin with: no contact anywhere, no drive at a free base, no sensor."""
    statements: list[object] = ["zero_external_wrench_except"]
    for name, joint in zip(bare.tree.joint_names, bare.tree.joints, strict=True):
        if joint.kind == "free":
            label = sensor_name(name, "torque")
            record = {"kind": "joint_torque", "name": label, "joint": name}
            statements.append({**record, "value": 0.0})
    return {"sensors": statements}
