"""``dynsys completion``: the script that completes the command line in a shell.

shtab writes it: commands, options and choices are read off the argument parser itself, so that
a new command or option completes without another line. What else the value of an argument may
be is told by the words of its metavar: ``ROBOT|PROBLEM`` takes names of ``NAMES``, and files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from dynsys.model import synthetic
from sensors import catalogue, published

__all__ = ["EXAMPLES", "SHELLS", "add_arguments", "completion_script", "run"]

EXAMPLES = """\
  eval "$(dynsys completion bash)"     in ~/.bashrc
  eval "$(dynsys completion zsh)"      in ~/.zshrc, after compinit
  dynsys completion fish > ~/.config/fish/completions/dynsys.fish"""

SHELLS = ("bash", "zsh", "fish")
FILES = {"ROBOT", "PROBLEM", "KIND", "LOG", "OUT", "FILE", "FOLDER", "LAYOUT"}
"""Words in a metavar that stand for files."""
FUNCTIONS = {
    "bash": '{name}() {{ compgen -W "{words}" -- "$1"; {files}; }}',
    "zsh": "{name}() {{ compadd -- {words}; {files} }}",
    "fish": "function {name}; printf '%s\\n' {words}; {files}; end",
}
"""By shell: what gives the names an argument takes, then files."""
GIVE_FILES = {
    "bash": 'compgen -f -- "$1"',
    "zsh": "_files",
    "fish": "__fish_complete_path (commandline -ct)",
}
WHOLE_WORDS = """
# bash breaks words at colons: they are handed on whole, and what it has already is taken off
_{prog}() {{
  local line=${{COMP_LINE:0:COMP_POINT}} current
  read -ra COMP_WORDS <<< "$line"
  [[ $line == *[[:space:]] ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
  current=${{COMP_WORDS[COMP_CWORD]}}
  _shtab_{prog}
  if [[ -e ${{COMPREPLY[0]-}} ]]; then
    compopt -o filenames 2>/dev/null
  elif [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *: ]]; then
    compopt -o nospace 2>/dev/null
  fi
  if [[ $COMP_WORDBREAKS == *:* && $current == *:* ]]; then
    current=${{current%"${{current##*:}}"}}
    COMPREPLY=("${{COMPREPLY[@]#"$current"}}")
  fi
}}
complete -F _{prog} {prog}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(args: argparse.Namespace) -> int:
    """Write the script."""
    script = completion_script(args.parser, args.shell)
    if args.json:
        script = json.dumps({"shell": args.shell, "script": script}, indent=2) + "\n"
    sys.stdout.write(script)
    return 0


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that makes ``shell`` complete what this parser takes."""
    import shtab

    for action in _actions(parser):
        meanings = action.metavar.split("|") if isinstance(action.metavar, str) else []
        names = [name for meaning in meanings for name in _names(meaning)]
        files = not FILES.isdisjoint(meanings)
        if action.choices is None and (names or files):
            action.complete = _completer(f"_{parser.prog}", meanings, names, files, shell)  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell).rstrip("\n") + "\n"
    return script + WHOLE_WORDS.format(prog=parser.prog) if shell == "bash" else script


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from command._actions


def _names(meaning: str) -> list[str]:
    """Names that an argument takes with this word in its metavar."""
    dynamics = ["id", "fd", "hybrid:"]
    if meaning == "ROBOT":
        data = resources.files("dynsys.model") / "data"
        bundled = sorted(Path(f.name).stem for f in data.iterdir() if f.name.endswith(".urdf"))
        return [f"example:{name}" for name in bundled] + [
            f"synthetic:{name}" for name in synthetic.__all__
        ]
    if meaning == "PROBLEM":
        return [f"catalogue:{name}" for name in catalogue.names()]
    if meaning == "KIND":
        return dynamics + [f"published:{name}" for name in published.__all__]
    return {"DYNAMICS": dynamics, "ADDRESS": ["local"]}.get(meaning, [])


def _completer(
    prefix: str, meanings: list[str], names: list[str], files: bool, shell: str
) -> dict[str, str | dict[str, str]]:
    """Return a function of the shell's language, and how shtab's script calls it."""
    name = "_".join([prefix, *meanings]).lower()
    give_files = GIVE_FILES[shell] if files else ":"
    text = FUNCTIONS[shell].format(name=name, words=" ".join(names), files=give_files)
    return {shell: f"({name})" if shell == "fish" else name, "preamble": {shell: text}}
