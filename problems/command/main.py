"""The command ``dynsys``: one module per command, which declares its arguments and runs it.

A command's module has ``EXAMPLES`` to copy, ``add_arguments(parser)`` and ``run(args)``, which
returns the exit status: 0 done, 1 the answer is "no" (ill-posed, a peer disagrees, something
required is missing), 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, NoReturn, TextIO, cast

from dynsys.distribution import EXTRA, install, version
from dynsys.errors import DynsysError

__all__ = ["command_parser", "main"]

DONE, BAD_INPUT, INTERRUPTED = 0, 2, 130

COMMANDS = {
    "info": "Show bodies, joints, masses and limits of a robot.",
    "init": "Write a commented problem file for a robot, with the sensors found in its model.",
    "check": "Say what a layout determines; exit 1 if not all.",
    "solve": "Estimate every sample of a log, with uncertainty.",
    "calibrate": "Find noise, offsets, mountings and delays of sensors from a log.",
    "detect": "Find contacts in a log: when, on which link, where along it, how hard.",
    "live": "Estimate while samples come: JSON on standard input, UDP or WebSocket.",
    "place": "Choose sensors to add within a budget.",
    "plan": "Find, price and save the order in which a problem is solved.",
    "compare": "Compare orders of elimination with RNEA, ABA and CRBA.",
    "export": "Write a problem as dependency-free C99 for a controller.",
    "simulate": "Write a noisy synthetic log for a layout.",
    "identify": "Identify inertias, friction, rotors and offsets, with deviations.",
    "report": "Write one self-contained page on a problem, also as PDF.",
    "studio": "Place sensors on the robot in a browser page.",
    "view": "Show the robot and its estimates over time in a browser (viser).",
    "doctor": "Report what is installed and the line to run for what is not.",
    "completion": "Print the script that completes dynsys in a shell.",
    "demo": "Tour: a humanoid from sensors to torques, ends with a report.",
}
"""In the order of the help, with what they are for. Only the module of the command that is run
is loaded."""

ENDED_BY_CTRL_C = ("live", "plan", "studio", "view")
"""They say that Ctrl-C ends them. It does, also where a shell has switched it off, as for what
a script runs in the background; there it stays off for others: their work is to be finished."""

STATUS = """\
exit status: 0 done, 1 the answer is "no", 2 bad input, 130 interrupted"""

FIRST_STEPS = f"""\
first steps:
  dynsys demo                                     sensors to torques, a humanoid
  dynsys info example:humanoid --floating-base
  dynsys init arm.urdf                            a problem file for your robot
  dynsys check catalogue:nao                      what these sensors determine
  dynsys place catalogue:nao --budget 2           which sensors to add
  dynsys simulate catalogue:nao_slippery -o log.npz
  dynsys solve catalogue:nao_slippery log.npz -o out.npz
  dynsys compare example:humanoid --floating-base orders beside RNEA and ABA
  dynsys export example:humanoid --floating-base -o c         the same as C99
  dynsys COMMAND --help                           options and examples

{STATUS}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Errors of the user's input are one line on stderr, without a traceback; so are warnings.
    """
    given = sys.argv[1:] if arguments is None else arguments
    asked = next((word for word in given if not word.startswith("-")), "")
    args = command_parser(None if asked == "completion" else asked).parse_args(given)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        from problems.command.arguments import check_outputs

        check_outputs(args)
        with (
            warnings.catch_warnings(),
            _blas_threads(command),
            _interrupts(asked),
            redirect_stdout(cast(TextIO, _StandardOutput(sys.stdout))),
        ):
            warnings.showwarning = _show_once(set())
            status = command(args)
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _give_up_stdout()
        return DONE
    except Exception as error:  # other errors than these are defects of dynsys itself
        message = str(error)
        if isinstance(error, ModuleNotFoundError) and error.name:
            extra = EXTRA.get(error.name.partition(".")[0])
            remedy = f"run: {install(extra)}" if extra else "'dynsys doctor' says what to run"
            message = f"the Python module {error.name!r} is missing; {remedy}"
        elif isinstance(error, _StandardOutputError):
            _give_up_stdout()
        elif not isinstance(error, DynsysError):
            raise
        sys.stderr.write(f"dynsys: error: {message}\n")
        return BAD_INPUT


class _StandardOutputError(DynsysError):
    """Standard output cannot be written, as on a full disk."""


class _StandardOutput:
    """Standard output that says in words why it cannot be written; not that a pipe broke."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._told():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._told():
            self._stream.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            words = f"standard output: cannot be written: {error.strerror}"
            raise _StandardOutputError(words) from None


def _give_up_stdout() -> None:
    """Let what still waits for standard output go: Python would try again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _blas_threads(
    command: Callable[[argparse.Namespace], int],
) -> AbstractContextManager[object]:
    """One thread for matrices, of which commands factor thousands of small ones.

    A second thread waits for the first, spinning: 23 s of processor time in place of 1.5 for
    ``dynsys place`` on a machine that is busy. Fits of many parameters have large matrices.
    """
    threads = None if command.__module__ == "problems.command.identify" else 1
    import scipy.linalg  # noqa: F401  # what is not loaded yet cannot be limited
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(threads, user_api="blas")
    return limits


@contextmanager
def _interrupts(name: str) -> Iterator[None]:
    """Let Ctrl-C end a command that promises it."""
    before = signal.getsignal(signal.SIGINT)
    if name not in ENDED_BY_CTRL_C or before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _show_once(shown: set[str]) -> Callable[..., None]:
    """Return what writes a warning, once, without the line of code that it comes from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            sys.stderr.write(f"dynsys: warning: {message}\n")

    return show


class _Version(argparse.Action):
    """The version, which is looked up only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        sys.stdout.write(f"dynsys {version('(not installed)')}\n")
        parser.exit(0)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Examples as they stand, and room for the longest command beside its summary."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


def command_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The command line; with the arguments of all commands, or of ``only`` one."""
    parser = argparse.ArgumentParser(
        prog="dynsys",
        description="Rigid-body dynamics as one sparse linear system D(q) d + b(q, qd) = 0.",
        epilog=FIRST_STEPS,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if only is not None and name != only:
            commands.add_parser(name, help=summary)
            continue
        module = import_module(f"problems.command.{name}")
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"examples:\n{module.EXAMPLES}\n\n{STATUS}",
            formatter_class=_HelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="write JSON instead of tables")
        sub.set_defaults(command=module.run, parser=parser)
        module.add_arguments(sub)
    return parser


if __name__ == "__main__":
    sys.exit(main())
