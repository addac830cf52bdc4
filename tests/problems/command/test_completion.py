"""Completion as the shells themselves run it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from problems.command import main as cli
from problems.command.completion import SHELLS, completion_script
from tests.processes import LIMIT

SCRIPTS = {shell: completion_script(cli.command_parser(), shell) for shell in SHELLS}

BASH_HARNESS = """
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=" :="
_dynsys
printf "%s\\n" "${COMPREPLY[@]}"
"""

# A terminal in a terminal: whatever is offered when the tab key is pressed goes to a file.
ZSH_HARNESS = r"""
zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner "source inner.zsh"
while zpty -r inner line; do [[ $line == *ready* ]] && break; done
zpty -w -n inner "$1"$'\t'
zpty -w inner $'\025exit'
while zpty -r inner line; do :; done
cat offered
"""
ZSH_INNER = r"""
autoload -Uz compinit && compinit -D -u
eval "$(< script.zsh)"
LISTMAX=10000 PROMPT=
touch offered
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- $hits >> offered
  builtin compadd "$@"
}
zle-line-init() { print now rea''dy }  # the editor reads keys now, no longer the terminal
zle -N zle-line-init
"""


def ask(shell: str, script: str, line: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [shell, "-c", script, shell, line],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=LIMIT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )
    assert done.stderr == ""
    return [word.split("\t")[0].rstrip() for word in done.stdout.splitlines() if word]


def bash(line: str, folder: Path) -> list[str]:
    return ask("bash", SCRIPTS["bash"] + BASH_HARNESS, line, folder)


def zsh(line: str, folder: Path) -> list[str]:
    (folder / "script.zsh").write_text(SCRIPTS["zsh"])
    (folder / "inner.zsh").write_text(ZSH_INNER)
    (folder / "offered").unlink(missing_ok=True)
    return sorted(set(ask("zsh", ZSH_HARNESS, line, folder)))


def fish(line: str, folder: Path) -> list[str]:
    script = f"function dynsys; end\n{SCRIPTS['fish']}\ncomplete -C $argv[2]"
    script = script.replace("$argv[2]", f"'{line}'")
    return ask("fish", script, line, folder)


@pytest.fixture(params=[bash, zsh, fish], ids=lambda f: f.__name__)
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[str]]:
    shell: Callable[[str, Path], list[str]] = request.param
    if shutil.which(shell.__name__, path="/usr/bin:/bin") is None:
        pytest.skip(f"{shell.__name__} is not installed")
    (tmp_path / "arm.urdf").touch()
    return lambda line: shell(line, tmp_path)


@pytest.mark.slow
def test_commands(complete: Callable[[str], list[str]]) -> None:
    assert complete("dynsys che") == ["check"]
    assert {"info", "solve", "export", "doctor", "demo"} <= set(complete("dynsys "))


@pytest.mark.slow
def test_options_of_a_command(complete: Callable[[str], list[str]]) -> None:
    assert complete("dynsys check --qu") == ["--quick"]
    assert "--budget" in complete("dynsys place catalogue:nao --")
    assert "--budget" not in complete("dynsys check --")


@pytest.mark.slow
def test_values(complete: Callable[[str], list[str]]) -> None:
    assert complete("dynsys plan --objective t") == ["time"]
    assert complete("dynsys completion z") == ["zsh"]
    assert complete("dynsys compare --problem publ") == [
        f"published:{name}" for name in ("sie", "sie_friction", "sie_friction_fy")
    ]


@pytest.mark.slow
def test_files_beside_names(complete: Callable[[str], list[str]]) -> None:
    assert "arm.urdf" in complete("dynsys info a")
    assert complete("dynsys info exam") == ["example:humanoid"]
    assert "arm.urdf" in complete("dynsys solve catalogue:panda a")


def test_names_with_a_colon(complete: Callable[[str], list[str]]) -> None:
    found = complete("dynsys check catalogue:pan")
    assert [word.removeprefix("catalogue:") for word in found] == ["panda"]


def test_bash_does_not_repeat_what_stands_before_the_colon(tmp_path: Path) -> None:
    assert bash("dynsys check catalogue:pan", tmp_path) == ["panda"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert cli.main(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


def test_every_command_and_option_is_in_every_script() -> None:
    subparsers = next(
        a for a in cli.command_parser()._actions if isinstance(a, argparse._SubParsersAction)
    )
    for script in SCRIPTS.values():
        for name, command in subparsers.choices.items():
            assert name in script
            flags = [flag for action in command._actions for flag in action.option_strings]
            assert all(flag.lstrip("-") in script for flag in flags)
