"""Logs: read, align, differentiate, solve in chunks, write; names in :mod:`.source`."""

from dynsys.errors import LogError
from problems.logs.differentiate import AbstractDifferentiation, Butterworth, Differentiation
from problems.logs.files import FORMATS, open_log, write_log
from problems.logs.judge import Judgement, judge_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.smoother import Smoother, smooth_motion
from problems.logs.source import AbstractLog

__all__ = [
    "FORMATS",
    "AbstractDifferentiation",
    "AbstractLog",
    "Butterworth",
    "Differentiation",
    "Judgement",
    "LogError",
    "SampleReader",
    "Samples",
    "Smoother",
    "judge_log",
    "open_log",
    "smooth_motion",
    "write_log",
]
