"""Estimates as tables and pictures of other tools: pandas, xarray, matplotlib.

Columns have the names of ``dynsys solve`` (:mod:`problems.estimation.outputs`): ``torque``,
``std.torque.l_knee``, ``external_wrench.l_sole``, ``p_value``. One row for each state; one
state makes one row. None of the three tools is needed by anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dynsys.distribution import install
from dynsys.errors import LayoutError, ReportError
from dynsys.types import Array, ArrayLike
from problems.estimation.outputs import Output, parse_outputs, rows_of
from problems.inputs import ascending_times
from problems.measured.measured_system import QUANTITIES, Quantity

if TYPE_CHECKING:
    from problems.estimation.estimate import Estimate

__all__ = ["plotted", "to_pandas", "to_xarray"]

BAND = 2.0
"""Standard deviations on either side that a picture shades: about 95 %."""

_ALONG = {
    "torque": "freedom",
    "qdd": "freedom",
    "acceleration": "acceleration_component",
    "joint_wrench": "wrench_component",
    "external_wrench": "wrench_component",
    "suspects": "sensor",
}
"""Second dimension of what xarray is given, by quantity."""

MOST_LINES = 10
"""Lines of a picture beyond which none can be told from the others."""


def to_pandas(e: Estimate, outputs: Sequence[str], time: ArrayLike | None) -> Any:
    """See :meth:`problems.Estimate.to_pandas`."""
    pandas = _tool("pandas")
    taken = _taken(e, outputs)
    columns = [column for output in taken for column in output.group.columns]
    rows = rows_of(taken, e)
    index = (
        None if time is None else pandas.Index(ascending_times(time, len(rows)), name="time")
    )
    return pandas.DataFrame(rows, columns=columns, index=index)


def to_xarray(e: Estimate, outputs: Sequence[str], time: ArrayLike | None) -> Any:
    """See :meth:`problems.Estimate.to_xarray`."""
    xarray = _tool("xarray")
    taken = _taken(e, outputs)
    axis = "state" if time is None else "time"
    found: dict[str, Any] = {}
    for output in taken:
        name, columns = output.group
        rows = output.take(e)
        if len(columns) == 1 and name == columns[0]:
            found[name] = (axis, rows[:, 0])
            continue
        labels = [column.removeprefix(f"{name}.") for column in columns]
        along = _ALONG.get(name.removeprefix("std.").partition(".")[0], f"{name}_entry")
        found[name] = xarray.DataArray(rows, dims=(axis, along), coords={along: labels})
    n = e.shape[0] if e.shape else 1
    places = np.arange(n) if time is None else ascending_times(time, n)
    return xarray.Dataset(found, coords={axis: places}, attrs={"robot": e.problem.robot.name})


def plotted(
    e: Estimate, quantity: str, names: Sequence[str] | None, time: ArrayLike | None, axes: Any
) -> Any:
    """See :meth:`problems.Estimate.plot`."""
    robot = e.problem.robot
    if quantity not in QUANTITIES:
        parse_outputs(e.problem, [quantity])  # says what there is
        raise LayoutError(f"plot draws one of {', '.join(QUANTITIES)}, not {quantity!r}")
    kind: Quantity = quantity
    wanted = [kind] if names is None else [f"{kind}.{name}" for name in names]
    values = parse_outputs(e.problem, wanted)
    spreads = parse_outputs(e.problem, [f"std.{name}" for name in wanted])
    columns = [c.removeprefix(f"{kind}.") for o in values for c in o.group.columns]
    y, std = rows_of(values, e), rows_of(spreads, e)
    if axes is None:
        pyplot = _tool("matplotlib.pyplot", "plot")
        size = (8.0, 4.5) if e.shape else (6.0, 1.0 + 0.22 * len(columns))
        _, axes = pyplot.subplots(figsize=size, layout="constrained")
    axes.set_title(f"{kind.replace('_', ' ')} of {robot.name}, 95 % bands")
    unit = _unit(e, kind)
    if e.shape:
        x = np.arange(float(len(y))) if time is None else ascending_times(time, len(y))
        axes.set_xlabel("sample" if time is None else "time [s]")
        axes.set_ylabel(unit)
        _lines(axes, x, y, std, columns)
    else:
        axes.set_xlabel(unit)
        axes.errorbar(y[0], np.arange(len(columns)), xerr=BAND * std[0], fmt="o", capsize=3)
        axes.set_yticks(np.arange(len(columns)), columns)
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
    return axes


def _lines(axes: Any, x: Array, y: Array, std: Array, columns: Sequence[str]) -> None:
    """Every column over x, those that move most first; the rest, beyond ten, in grey."""
    size = np.nan_to_num(np.nanmax(np.abs(y), axis=0, initial=0.0), nan=0.0)
    order = np.argsort(-size, kind="stable")
    for rank, k in enumerate(order.tolist()):
        if rank >= MOST_LINES:
            axes.plot(x, y[:, k], color="0.8", linewidth=0.6, zorder=1)
            continue
        (line,) = axes.plot(x, y[:, k], label=columns[k], linewidth=1.2)
        low, high = y[:, k] - BAND * std[:, k], y[:, k] + BAND * std[:, k]
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    rest = len(columns) - MOST_LINES
    if rest > 0:
        axes.plot([], [], color="0.8", label=f"{rest} smaller ones")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.grid(alpha=0.3)


def _unit(e: Estimate, kind: Quantity) -> str:
    """Unit of a quantity; of joints the one that most of them have, with the others named."""
    slides = [bool(j.nv and not np.any(j.S[:3])) for j in e.problem.robot.joints]
    some = any(slides)
    return {
        "torque": "N m (sliding joints: N)" if some else "N m",
        "qdd": "rad/s² (sliding joints: m/s²)" if some else "rad/s²",
        "acceleration": "rad/s², m/s²",
        "joint_wrench": "N m, N",
        "external_wrench": "N m, N",
    }[kind]


def _taken(e: Estimate, outputs: Sequence[str]) -> list[Output]:
    return parse_outputs(e.problem, outputs or ["torque"])


def _tool(module: str, extra: str = "tables") -> Any:
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise ReportError(f"{name} is not installed; run: {install(extra)}") from None
