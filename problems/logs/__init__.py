"""Logs: read, align, differentiate, solve in chunks, write; names in :mod:`.source`."""

from dynsys.errors import LogError
from problems.logs.differentiate import Differentiation
from problems.logs.files import FORMATS, open_log, write_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.source import AbstractLog

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
