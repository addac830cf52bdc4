"""Everything dynsys, sensors and problems raise: one tree of exceptions, by what went wrong.

Catch :class:`DynsysError` to catch them all. Messages say what, where and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

__all__ = [
    "CampaignError",
    "ContradictionError",
    "DynsysError",
    "KernelBuildError",
    "LayoutError",
    "LayoutWarning",
    "LogError",
    "LogWarning",
    "MissingPackage",
    "ModelError",
    "ModelWarning",
    "NoOrderError",
    "PlanFileError",
    "PlanMismatchError",
    "PlanOrderError",
    "RefusedError",
    "ReportError",
    "SchedulerError",
    "SimulationWarning",
    "SingularSystemError",
    "SlowWarning",
    "StateError",
    "StructurallySingularError",
    "TooLarge",
    "UnavailableOrdering",
    "WorkersLost",
    "nearest_name",
]


class DynsysError(Exception):
    """Base of all errors raised on purpose by dynsys, sensors and problems."""


class ModelError(DynsysError):
    """A robot file or description is broken, unphysical or unsupported."""


class StateError(DynsysError, ValueError):
    """A vector handed in (q, qd, qdd, torque, wrench) has a wrong length or a bad value."""


class ContradictionError(StateError):
    """Statements without noise contradict each other at this state: names them."""


class LayoutError(DynsysError):
    """A sensor layout names unknown parts, repeats a sensor or has wrong sizes."""


class StructurallySingularError(DynsysError):
    """No state whatever makes the system solvable: too few equations see some unknowns."""


class SingularSystemError(DynsysError):
    """The system is singular at this state: names the unknown that is not determined."""


class PlanMismatchError(DynsysError):
    """A plan was made for another robot, problem or layout."""


class PlanFileError(PlanMismatchError):
    """A file is no plan, or a damaged one, or from another version of dynsys."""


class TooLarge(DynsysError):
    """The core has too many orders to try all."""


class MissingPackage(DynsysError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""


class UnavailableOrdering(DynsysError, ImportError):
    """An ordering needs a library that is not installed; the message says which."""


class SchedulerError(DynsysError):
    """A Dask cluster was asked for that is not installed or cannot be reached."""


class WorkersLost(DynsysError):
    """Worker processes or the cluster died; what is finished is kept."""


class CampaignError(DynsysError):
    """A folder belongs to another campaign, or workers die again and again."""


class KernelBuildError(DynsysError):
    """Compiling a kernel failed; the reference backend still works."""


class PlanOrderError(PlanMismatchError, KernelBuildError):
    """The order of a plan cannot be executed for what is asked: says why, names the pivot."""


class NoOrderError(KernelBuildError):
    """No order of elimination answers without pivoting at run time; names what is left over."""


class LogError(DynsysError):
    """A log cannot be read, lacks data, or does not fit the robot."""


class ReportError(DynsysError):
    """A report cannot be made, written or printed; says what to do."""


class RefusedError(DynsysError):
    """A message asks for something that studio does not do: says what and why."""


class ModelWarning(UserWarning):
    """A robot file says something that dynsys reads differently or not at all."""


class SimulationWarning(UserWarning):
    """A simulation went on with an answer that is less exact than asked for."""


class LayoutWarning(ModelWarning):
    """A sensor layout leaves something open that dynsys assumes."""


class LogWarning(UserWarning):
    """A log has what no robot gives, or lacks readings that are let go."""


class SlowWarning(UserWarning):
    """The answer is right, but comes late: the message says which extra makes it fast."""


MAX_COMPARED = 2000
"""Names that are compared with a wrong one, which takes some microseconds each."""


def nearest_name(name: str, known: Sequence[str]) -> str:
    """End of a message about an unknown name: ``; did you mean 'x'?``, or nothing."""
    close = difflib.get_close_matches(str(name)[:80], known[:MAX_COMPARED], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
