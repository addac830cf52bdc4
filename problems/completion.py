"""Shell completion: the words that may follow on the command line, as a script for a shell.

The words are read off the argument parser itself, so that a new command or option completes
without another line. What an argument's metavar stands for is said once, in ``WORDS``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import final

from problems.completion_scripts import SHELLS, Argument, Command

__all__ = ["SHELLS", "commands_of", "completion_script"]


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that makes ``shell`` (bash, zsh or fish) complete this parser.

    Raises
    ------
    KeyError
        if there is no such shell in ``SHELLS``.
    """
    return SHELLS[shell](parser.prog, commands_of(parser))


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """Commands of a parser, with their options and positional arguments."""
    subparsers = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {a.dest: a.help or "" for a in subparsers._choices_actions}
    return [
        Command(
            name,
            summaries.get(name, ""),
            tuple(_argument(a) for a in sub._actions if a.option_strings),
            tuple(_argument(a) for a in sub._actions if not a.option_strings),
        )
        for name, sub in subparsers.choices.items()
    ]


def _argument(action: argparse.Action) -> Argument:
    value = _Value.of(action)
    summary = (action.help or "").replace("%%", "%")
    return Argument(
        tuple(action.option_strings),
        summary,
        takes_value=action.nargs != 0,
        repeats=action.nargs in ("+", "*"),
        words=value.words,
        files=value.files,
    )


# ---- what values an argument takes -----------------------------------------------------------


def _robots() -> list[str]:
    from dynsys.model import synthetic

    data = resources.files("dynsys.model") / "data"
    bundled = sorted(Path(f.name).stem for f in data.iterdir() if f.name.endswith(".urdf"))
    return [f"example:{name}" for name in bundled] + [
        f"synthetic:{name}" for name in synthetic.__all__
    ]


def _layouts() -> list[str]:
    from sensors import catalogue

    return [f"catalogue:{name}" for name in catalogue.names()]


def _dynamics() -> list[str]:
    return ["id", "fd", "hybrid:"]


def _published() -> list[str]:
    from sensors import published

    return [f"published:{name}" for name in published.__all__]


WORDS: dict[str, tuple[Callable[[], Sequence[str]], ...]] = {
    "ROBOT": (_robots,),
    "PROBLEM": (_layouts,),
    "DYNAMICS": (_dynamics,),
    "KIND": (_dynamics, _published),
    "ADDRESS": (lambda: ["local"],),
}
"""Names that complete an argument with this word in its metavar, beside files."""

FILES = ("ROBOT", "PROBLEM", "KIND", "LOG", "OUT", "FILE", "FOLDER", "LAYOUT")
"""Words in a metavar that stand for files."""


@final
@dataclass(frozen=True)
class _Value:
    words: tuple[str, ...]
    files: bool

    @classmethod
    def of(cls, action: argparse.Action) -> _Value:
        if action.choices is not None:
            return cls(tuple(str(choice) for choice in action.choices), False)
        meanings = action.metavar.split("|") if isinstance(action.metavar, str) else []
        words = [word for m in meanings for names in WORDS.get(m, ()) for word in names()]
        return cls(tuple(words), any(m in FILES for m in meanings))
