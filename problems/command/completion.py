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

__all__ = [
    "SHELLS",
    "Argument",
    "Command",
    "commands_of",
    "completion_script",
]


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


# ----------------------------------------------------------------------
# The completion scripts of bash, zsh and fish, written from one list of commands.


@final
@dataclass(frozen=True)
class Argument:
    """An option (``flags``) or a positional argument (no flags), and what its value may be."""

    flags: tuple[str, ...]
    summary: str
    takes_value: bool
    repeats: bool
    words: tuple[str, ...]
    files: bool


@final
@dataclass(frozen=True)
class Command:
    """A subcommand."""

    name: str
    summary: str
    options: tuple[Argument, ...]
    positionals: tuple[Argument, ...]

    @property
    def flags(self) -> list[str]:
        """Every spelling of every option."""
        return [flag for option in self.options for flag in option.flags]

    @property
    def value_flags(self) -> list[str]:
        """Spellings of the options that a value follows."""
        return [flag for o in self.options if o.takes_value for flag in o.flags]


def _quoted(text: str) -> str:
    """Text as one word of a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def _cases(command: Command, give: Callable[[Argument], str]) -> list[str]:
    """Branches of a case statement over the option before the cursor or the place."""
    lines = []
    for option in command.options:
        if option.takes_value:
            lines.append(f"      {command.name},{f'|{command.name},'.join(option.flags)})")
            lines.append(f"        {give(option)} ;;")
    for place, argument in enumerate(command.positionals, start=1):
        key = f"{command.name},{place}" if not argument.repeats else f"{command.name},[1-9]*"
        lines += [f"      {key})", f"        {give(argument)} ;;"]
    return lines


def _flag_tables(commands: Sequence[Command], assign: Callable[[Command], str]) -> str:
    return "\n".join(f"    {command.name}) {assign(command)} ;;" for command in commands)


def _body(commands: Sequence[Command], give: Callable[[Argument], str]) -> str:
    return "\n".join(line for command in commands for line in _cases(command, give))


# ---- bash ------------------------------------------------------------------------------------

BASH = """\
# bash completion of {prog}; add to ~/.bashrc:  eval "$({prog} completion bash)"
_{prog}_give() {{  # words, and files where $2 is "files"
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
  if [[ $2 == files ]]; then
    (( ${{#COMPREPLY[@]}} )) || compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$cur")
  fi
}}
_{prog}() {{
  local line=${{COMP_LINE:0:COMP_POINT}} cur previous command='' flags='' takes=''
  local -a words
  local -i place=0 k
  read -ra words <<< "$line"
  cur=${{line##*[[:space:]]}}
  [[ -n $cur ]] && unset 'words[-1]'
  COMPREPLY=()
  if (( ${{#words[@]}} < 2 )); then
    mapfile -t COMPREPLY < <(compgen -W {names} -- "$cur")
    return
  fi
  command=${{words[1]}}
  case $command in
{tables}
  esac
  for (( k = 2; k < ${{#words[@]}}; k++ )); do
    if [[ ${{words[k]}} == -* ]]; then
      [[ " $takes " == *" ${{words[k]}} "* ]] && (( k++ ))
    else
      (( place++ ))
    fi
  done
  previous=${{words[-1]}}
  if [[ " $takes " == *" $previous "* ]]; then
    place=0
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    return
  else
    previous=$(( place + 1 ))
  fi
  case $command,$previous in
{cases}
  esac
  if [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]]; then
    local before=${{cur%"${{cur##*:}}"}}
    COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
  fi
  if [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *: ]]; then
    compopt -o nospace 2>/dev/null
  fi
}}
complete -F _{prog} {prog}
"""


def bash(prog: str, commands: Sequence[Command]) -> str:
    """Script for bash. Words are compared whole although bash breaks them at colons."""

    def give(argument: Argument) -> str:
        files = " files" if argument.files else ""
        return f"_{prog}_give {_quoted(' '.join(argument.words))}{files}"

    def assign(command: Command) -> str:
        takes = " ".join(command.value_flags)
        return f"flags={_quoted(' '.join(command.flags))} takes={_quoted(takes)}"

    return BASH.format(
        prog=prog,
        names=_quoted(" ".join(["--help", "--version", *(c.name for c in commands)])),
        tables=_flag_tables(commands, assign),
        cases=_body(commands, give),
    )


# ---- zsh -------------------------------------------------------------------------------------

ZSH = """\
#compdef {prog}
# zsh completion of {prog}; add to ~/.zshrc after compinit:  eval "$({prog} completion zsh)"
_{prog}() {{
  local command previous
  local -a names flags takes
  local -i place=0 k
  if (( CURRENT == 2 )); then
    names=({names})
    _describe command names
    compadd -- --help --version
    return
  fi
  command=$words[2]
  case $command in
{tables}
  esac
  for (( k = 3; k < CURRENT; k++ )); do
    if [[ $words[k] == -* ]]; then
      (( ${{takes[(Ie)$words[k]]}} )) && (( k++ ))
    else
      (( place++ ))
    fi
  done
  previous=$words[CURRENT-1]
  if (( ${{takes[(Ie)$previous]}} )); then
    place=0
  elif [[ $PREFIX == -* ]]; then
    compadd -- $flags
    return
  else
    previous=$(( place + 1 ))
  fi
  case $command,$previous in
{cases}
  esac
}}
(( $+functions[compdef] )) && compdef _{prog} {prog}
"""


def zsh(prog: str, commands: Sequence[Command]) -> str:
    """Script for zsh, with the commands' summaries."""

    def give(argument: Argument) -> str:
        words = f"compadd -- {' '.join(map(_quoted, argument.words))}" if argument.words else ""
        return "; ".join(filter(None, [words, "_files" if argument.files else ""])) or ":"

    def assign(command: Command) -> str:
        return f"flags=({' '.join(command.flags)}) takes=({' '.join(command.value_flags)})"

    return ZSH.format(
        prog=prog,
        names=" ".join(_quoted(f"{c.name}:{c.summary}") for c in commands),
        tables=_flag_tables(commands, assign),
        cases=_body(commands, give),
    )


# ---- fish ------------------------------------------------------------------------------------


def fish(prog: str, commands: Sequence[Command]) -> str:
    """Script for fish, with the summaries of commands and options."""
    lines = [
        f"# fish completion of {prog}; run:"
        f"  {prog} completion fish > ~/.config/fish/completions/{prog}.fish",
        f"complete -c {prog} -f",
    ]
    for command in commands:
        about = _quoted(command.summary)
        lines.append(
            f"complete -c {prog} -n __fish_use_subcommand -a {command.name} -d {about}"
        )
        here = f"complete -c {prog} -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            lines.append(f"{here} {_fish_option(option)}")
        for argument in command.positionals:
            words = f" -a {_quoted(' '.join(argument.words))}" if argument.words else ""
            files = " -F" if argument.files else ""
            if words or files:
                lines.append(f"{here}{files}{words}")
    return "\n".join(lines) + "\n"


def _fish_option(option: Argument) -> str:
    parts = [
        f"-l {flag.removeprefix('--')}" if flag.startswith("--") else f"-s {flag[1:]}"
        for flag in option.flags
    ]
    if option.takes_value:
        parts.append("-rF" if option.files else "-x")
        if option.words:
            parts.append(f"-a {_quoted(' '.join(option.words))}")
    parts.append(f"-d {_quoted(option.summary)}")
    return " ".join(parts)


SHELLS: dict[str, Callable[[str, Sequence[Command]], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
"""Script of each shell as a function of the program's name and its commands."""
