"""Readings by sensor name, put together to the vector y of a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dynsys.errors import LayoutError
from dynsys.types import Array, ArrayLike

if TYPE_CHECKING:
    from sensors.layout import Layout

__all__ = ["pack_readings"]


def pack_readings(
    layout: Layout, values: Mapping[str, ArrayLike], missing: ArrayLike | None
) -> Array:
    """Return y (size,), or (N, size); see :meth:`sensors.Layout.pack`."""
    for name in values:
        _ = layout[name]  # refuses names that are none
    given = {name: _reading(name, x, layout.sizes[name]) for name, x in values.items()}
    counts = {len(value) for value in given.values() if value.ndim == 2}
    if len(counts) > 1:
        raise LayoutError(f"readings have different numbers of samples: {sorted(counts)}")
    y = np.empty((*counts, layout.size))
    y[...] = layout.constants
    for sensor in layout.sensors:
        where = layout.slice(sensor.name)
        if sensor.name in given:
            y[..., where] = given[sensor.name]
        elif sensor.constant(1) is None:
            if missing is None:
                raise LayoutError(
                    f"no reading of {sensor}; give it, or NaN for each of its"
                    f" {where.stop - where.start} numbers to go without"
                )
            y[..., where] = missing
    return y


def _reading(name: str, value: ArrayLike, size: int) -> Array:
    try:
        out = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LayoutError(f"reading of sensor {name!r} is not numeric: {error}") from None
    if size == 1 and (out.ndim == 0 or (out.ndim == 1 and len(out) != 1)):
        out = out[..., None]
    if out.ndim not in (1, 2) or out.shape[-1] != size:
        raise LayoutError(
            f"reading of sensor {name!r} must have {size} numbers (per sample), got shape"
            f" {np.shape(value)}"
        )
    return out
