"""What several commands share: arguments, lists of names, work on many samples with a bar."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from problems.logs.jobs import Job
    from problems.logs.run import Finished

__all__ = [
    "EXAMPLES",
    "STATUS",
    "add_problem",
    "add_running",
    "epilog",
    "names_in",
    "positive",
    "run_with_bar",
    "seconds",
    "whole",
]


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Declare the problem."""
    parser.add_argument(
        "problem", metavar="PROBLEM", help="a problem file (.yaml) or catalogue:NAME"
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Declare how the work is done."""
    parser.add_argument("--workers", type=positive, default=1, help="processes (default 1)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|local",
        help="run on a Dask cluster; local starts one with --workers workers",
    )
    parser.add_argument(
        "--chunk", type=positive, default=8192, help="samples at a time (default 8192)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="do not go on where an interrupted run stopped"
    )


def names_in(text: str) -> list[str]:
    """Names of a list with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def run_with_bar(job: Job, what: str, args: argparse.Namespace) -> Finished:
    """Do a job as the arguments of :func:`add_running` say, and show how far it is."""
    from problems import terminal
    from problems.logs.run import run_job

    with terminal.progress_bar(what) as progress:
        return run_job(
            job,
            workers=args.workers,
            scheduler=args.scheduler,
            fresh=args.fresh,
            progress=progress,
        )


# ----------------------------------------------------------------------
# Numbers on the command line, checked where they are read: ``type=`` of argparse.


def whole(text: str) -> int:
    """Return a whole number >= 0: a seed."""
    return _at_least(text, 0)


def positive(text: str) -> int:
    """Return a whole number >= 1: a count of states, seeds or processes."""
    return _at_least(text, 1)


def seconds(text: str) -> float:
    """Return a finite time >= 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds >= 0, got {text!r}")
    return value


def _at_least(text: str, smallest: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < smallest:
        raise argparse.ArgumentTypeError(f"must be a whole number >= {smallest}, got {text!r}")
    return int(text)


# ----------------------------------------------------------------------
# What ``dynsys COMMAND --help`` shows below the options: lines to copy, exit status.

STATUS = """\
exit status: 0 done, 1 the answer is "no", 2 bad input, 130 interrupted"""

EXAMPLES = {
    "info": """\
  dynsys info arm.urdf
  dynsys info example:humanoid --floating-base
  dynsys info synthetic:random_tree:8:seed=3 --json""",
    "check": """\
  dynsys check catalogue:nao           what two feet on load cells leave unseen
  dynsys check problem.yaml --quick    without the search for bad postures
  dynsys check problem.yaml --json | jq .repairs""",
    "solve": """\
  dynsys solve problem.yaml log.mcap -o torques.parquet
  dynsys solve catalogue:nao_slippery log.npz -o out.npz --outputs torque
  dynsys solve problem.yaml log.parquet -o out.parquet --workers 8""",
    "place": """\
  dynsys place catalogue:nao        the least that determines all torques
  dynsys place catalogue:nao --budget 2 --picture curve.png
  dynsys place problem.yaml --candidates shop.yaml --goal torque.l_knee""",
    "plan": """\
  dynsys plan example:humanoid --floating-base -o fd.plan.json
  dynsys plan synthetic:chain:8 --problem published:sie_friction --evaluations 9
  dynsys plan synthetic:chain:6 synthetic:chain:8 --campaign results --seeds 4 \\
      --problem published:sie_friction --evaluations 500 --workers 2""",
    "compare": """\
  dynsys compare example:humanoid --problem fd
  dynsys compare synthetic:chain:8 --problem published:sie_friction --plot png
  dynsys compare arm.urdf --problem id --no-time --json""",
    "export": """\
  dynsys export arm.urdf --problem id -o controller/dynamics
  dynsys export example:humanoid --floating-base --outputs qdd,joint_wrench -o c
  dynsys export catalogue:nao_slippery --outputs torque,std.torque -o c""",
    "simulate": """\
  dynsys simulate catalogue:nao_slippery -o log.npz --truth
  dynsys simulate problem.yaml -o log.parquet --duration 3600 --workers 8""",
    "report": """\
  dynsys report catalogue:nao -o report.html
  dynsys report problem.yaml --log log.npz -o report.html""",
    "studio": """\
  dynsys studio catalogue:nao
  dynsys studio problem.yaml --port 8080""",
    "doctor": """\
  dynsys doctor
  dynsys doctor --json | jq '.components[] | select(.found == null) | .remedy'""",
    "demo": """\
  dynsys demo
  dynsys demo --json""",
    "completion": """\
  eval "$(dynsys completion bash)"     in ~/.bashrc
  eval "$(dynsys completion zsh)"      in ~/.zshrc, after compinit
  dynsys completion fish > ~/.config/fish/completions/dynsys.fish""",
}
"""Lines to copy, by command."""


def epilog(command: str) -> str:
    """Return what stands below the options of a command."""
    lines = EXAMPLES.get(command)
    return f"examples:\n{lines}\n\n{STATUS}" if lines else STATUS
