"""The command ``dynsys``.

Exit status: 0 done, 1 the answer is "no" (ill-posed, a peer disagrees, something required is
missing), 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from dynsys.distribution import version
from problems.command import arguments as command_help
from problems.command import check as check_command
from problems.command import compare as compare_command
from problems.command import demo as demo_command
from problems.command import export as export_command
from problems.command import info as info_command
from problems.command import place as place_command
from problems.command import plan as plan_command
from problems.command import report as report_command
from problems.command import simulate as simulate_command
from problems.command import solve as solve_command
from problems.command import studio as studio_command

__all__ = ["main"]

DONE, NO, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

EXAMPLES = f"""\
first steps:
  dynsys demo                                     sensors to torques, a humanoid
  dynsys info example:humanoid --floating-base
  dynsys check catalogue:nao                      what these sensors determine
  dynsys place catalogue:nao --budget 2           which sensors to add
  dynsys simulate catalogue:nao_slippery -o log.npz
  dynsys solve catalogue:nao_slippery log.npz -o out.npz
  dynsys compare example:humanoid                 orders beside RNEA and ABA
  dynsys export example:humanoid -o c             the same computation as C99
  dynsys COMMAND --help                           options and examples

{command_help.STATUS}
"""


COMMANDS = (
    ("info", "Show bodies, joints, masses and limits of a robot.", info_command),
    ("check", "Say what a layout determines; exit 1 if not all.", check_command),
    ("solve", "Estimate every sample of a log, with uncertainty.", solve_command),
    ("place", "Choose sensors to add within a budget.", place_command),
    ("plan", "Find, price and save the order in which a problem is solved.", plan_command),
    ("compare", "Compare orders of elimination with RNEA, ABA and CRBA.", compare_command),
    ("export", "Write a problem as dependency-free C99 for a controller.", export_command),
    ("simulate", "Write a noisy synthetic log for a layout.", simulate_command),
    ("report", "Write one self-contained page on a problem, also as PDF.", report_command),
    ("studio", "Place sensors on the robot in a browser page.", studio_command),
)
"""Name, summary and module of most commands, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Errors of the user's input are one line on stderr, without a traceback.
    """
    args = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        status = command(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        message = _explain(error)
        if message is None:
            raise
        sys.stderr.write(f"dynsys: error: {message}\n")
        return BAD_INPUT


def _explain(error: Exception) -> str | None:
    """Return the message for an error that is not a defect of dynsys itself, else None."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the Python module {error.name!r} is missing; 'dynsys doctor' says what to run"
    from dynsys.errors import DynsysError

    return str(error) if isinstance(error, DynsysError) else None


# ---- commands -----------------------------------------------------------------------------
# Those that need nothing installed; all import what they need when they run: --help is quick.


def _doctor(args: argparse.Namespace) -> int:
    import json

    from problems import doctor

    report = doctor.examine()
    if args.json:
        sys.stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
    else:
        doctor.show(report)
    return DONE if report.healthy else NO


def _completion(args: argparse.Namespace) -> int:
    import json

    from problems.command.completion import completion_script

    script = completion_script(_parser(), args.shell)
    if args.json:
        script = json.dumps({"shell": args.shell, "script": script}, indent=2) + "\n"
    sys.stdout.write(script)
    return DONE


# ---- arguments ----------------------------------------------------------------------------


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Examples as they stand, and room for the longest command beside its summary."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dynsys",
        description="Rigid-body dynamics as one sparse linear system D(q) d + b(q, qd) = 0.",
        epilog=EXAMPLES,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"dynsys {version('(not installed)')}"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(
        name: str, summary: str, command: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=command_help.epilog(name),
            formatter_class=_HelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="write JSON instead of tables")
        sub.set_defaults(command=command)
        return sub

    for name, summary, module in COMMANDS:
        module.add_arguments(add(name, summary, module.run))
    add("doctor", "Report what is installed and the line to run for what is not.", _doctor)
    shell = add("completion", "Print the script that completes dynsys in a shell.", _completion)
    shell.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    tour = "Tour: a humanoid from sensors to torques, ends with a report."
    demo_command.add_arguments(add("demo", tour, demo_command.run))
    return parser


if __name__ == "__main__":
    sys.exit(main())
