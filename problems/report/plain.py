"""Content of a report as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(value: Any, digits: int = 6) -> Any:
    """Dataclasses, arrays and mappings as dictionaries and lists; what is not finite as None.

    Numbers are rounded to some digits.

    Examples
    --------
    >>> plain({"x": np.array([1.23456789, np.nan]), "n": np.int64(3)})
    {'x': [1.23457, None], 'n': 3}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), digits) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, digits) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    if isinstance(value, np.integer):
        return int(value)
    return value
