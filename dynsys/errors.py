"""Everything dynsys raises: one tree of exceptions, named by what went wrong.

Catch :class:`DynsysError` to catch them all. Messages say what, where and what to do.
"""

from __future__ import annotations

__all__ = [
    "DynsysError",
    "KernelBuildError",
    "LayoutError",
    "ModelError",
    "ModelWarning",
    "PlanMismatchError",
    "SingularSystemError",
    "StateError",
    "StructurallySingularError",
]


class DynsysError(Exception):
    """Base of all errors raised on purpose by dynsys, sensors and problems."""


class ModelError(DynsysError):
    """A robot file or description is broken, unphysical or unsupported."""


class StateError(DynsysError, ValueError):
    """A vector handed in (q, qd, qdd, torque, wrench) has a wrong length or a bad value."""


class LayoutError(DynsysError):
    """A sensor layout names unknown parts, repeats a sensor or has wrong sizes."""


class StructurallySingularError(DynsysError):
    """No state whatever makes the system solvable: too few equations see some unknowns."""


class SingularSystemError(DynsysError):
    """The system is singular at this state: names the unknown that is not determined."""


class PlanMismatchError(DynsysError):
    """A plan was made for another robot, problem or layout."""


class KernelBuildError(DynsysError):
    """Compiling a kernel failed; the reference backend still works."""


class ModelWarning(UserWarning):
    """A robot file says something that dynsys reads differently or not at all."""
