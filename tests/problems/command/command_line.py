"""The command line, run inside the test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from problems.command import main as cli


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of ``dynsys`` with these arguments."""
    status = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Exit status and what the command tells with ``--json``."""
    status, out, _ = run(capsys, *arguments, "--json")
    return status, json.loads(out)
