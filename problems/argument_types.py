"""Numbers on the command line, checked where they are read: ``type=`` of argparse."""

from __future__ import annotations

import argparse
import math

__all__ = ["positive", "seconds", "whole"]


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
