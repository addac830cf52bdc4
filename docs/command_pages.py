"""The page of the command line: what ``--help`` says, of every command."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from unittest import mock

from problems.command import main as cli

__all__ = ["command_pages"]

INTRODUCTION = """\
# The command line

Every command takes `--json` for machines and writes a table otherwise, long work shows a bar,
and the exit status means the same everywhere:

| status | meaning |
|---|---|
| 0 | done; where a question was asked, the answer is yes |
| 1 | the answer is "no": ill-posed, goals stay open, peers disagree, something is missing |
| 2 | bad input; one line on stderr says what, where and what to do |
| 130 | interrupted (Ctrl-C); long work goes on where it stopped when run again |

Completion of commands, options, robots and layouts in your shell:

```text
eval "$(dynsys completion bash)"          # in ~/.bashrc; zsh: the same in ~/.zshrc
dynsys completion fish > ~/.config/fish/completions/dynsys.fish
```
"""


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of the one page."""
    with mock.patch.dict(os.environ, {"COLUMNS": "88"}):
        parser = cli.command_parser()
        subparsers = next(
            action
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        parts = [INTRODUCTION]
        for name, sub in subparsers.choices.items():
            parts.append(f"## dynsys {name}\n\n```text\n{sub.format_help().rstrip()}\n```")
    yield "commands.md", "\n\n".join(parts) + "\n"
