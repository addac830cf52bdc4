"""Logs: read, align, differentiate, solve in chunks, write; names in :mod:`.columns`."""

from dynsys.errors import LogError
from problems.logs.differentiate import Differentiation
from problems.logs.open import FORMATS, open_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.source import AbstractLog
from problems.logs.write import write_log

__all__ = [
    "FORMATS",
    "AbstractLog",
    "Differentiation",
    "LogError",
    "SampleReader",
    "Samples",
    "open_log",
    "write_log",
]
