"""What a sensor would read, from all the others: the test of a sensor, and of a model.

    yhat = Y dhat + b_Y,     dhat estimated without the sensor,     cov(yhat) = Y cov(dhat) Y^T

``dhat`` follows from its open part z = (qdd, external wrenches) by the laws, so that a whole
log is predicted by one call of a kernel beside the estimation (:mod:`.response`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import LayoutError, StateError
from dynsys.recursive.inputs import state_rows
from dynsys.system.equations import Kinematics
from dynsys.system.response import read_blocks
from dynsys.types import Array, ArrayLike, float_array
from problems.estimation.estimation import Estimation
from problems.estimation.response import ROWS, ResponseKernels
from problems.measured.measured_system import MeasuredSystem, Readings
from sensors.force_torque import TOUCHED, ForceTorque
from sensors.layout import Layout, is_table
from sensors.sensor import AbstractSensor

__all__ = ["Prediction", "Predictor", "predict"]


@final
@dataclass(frozen=True, eq=False)
class Prediction:
    """Readings (N, rows) of a sensor that were not used, by the rows' ``labels``.

    NaN where the others do not determine them: at a sample with readings missing.

    ``std`` (N, rows) are the deviations of the prediction, without the sensor's own noise; None
    unless they were asked for. They do not count noise of q and qd.
    """

    sensor: AbstractSensor
    labels: tuple[str, ...]
    value: Array
    std: Array | None = None


@final
@dataclass(frozen=True, eq=False)
class Predictor:
    """Predicts one sensor from the rest of a layout.

    Parameters
    ----------
    problem : the estimation, with or without the sensor.
    sensor : its name in the layout, or a sensor that the robot might have.
    """

    problem: Estimation
    sensor: AbstractSensor | str

    @cached_property
    def target(self) -> AbstractSensor:
        """The sensor that is predicted."""
        return self.problem.layout[self.sensor] if isinstance(self.sensor, str) else self.sensor

    @cached_property
    def rest(self) -> Estimation:
        """The problem without the sensor."""
        problem, layout = self.problem, self.problem.layout
        if self.target.name not in layout.names:
            return problem
        others = [s for s in layout if s.name != self.target.name]
        left = layout.with_sensors(others)
        return Estimation(problem.robot, left, problem.prior, problem.backend)

    def others(self, y: Readings) -> Readings:
        """The readings without those of the sensor."""
        layout, name = self.problem.layout, self.target.name
        if name not in layout.names:
            return y
        if is_table(y):
            return y  # whose columns the layout without it does not look for
        if isinstance(y, Mapping):
            return {key: value for key, value in y.items() if key != name}
        try:
            rows = float_array(y)  # what is masked is missing
        except (TypeError, ValueError) as error:
            raise StateError(f"y is not numeric: {error}") from None
        if rows.ndim == 0 or rows.shape[-1] != layout.size:
            raise StateError(
                f"y must have {layout.size} readings of each sample, got shape {rows.shape}"
            )
        return np.delete(rows, np.arange(layout.size)[layout.slice(name)], axis=-1)

    @cached_property
    def _alone(self) -> MeasuredSystem:
        robot, target = self.problem.robot, self.problem.layout.settled(self.target)
        if isinstance(target, ForceTorque) and target.external == TOUCHED:
            target = replace(target, external="beyond")  # its body is stated to be untouched
        return MeasuredSystem(robot, Layout(robot, [target], quiet=True), None)

    @cached_property
    def _kernels(self) -> ResponseKernels:
        n = len(self._alone.response.open_columns)
        return ResponseKernels(self._alone, np.arange(n), np.arange(self._alone.layout.size))

    def at(self, q: ArrayLike, qd: ArrayLike, y: Readings, *, std: bool = False) -> Prediction:
        """Predict along a log.

        Parameters
        ----------
        q, qd, y : (N, nq), (N, nv), readings as for ``solve_batch``; those of the sensor itself
            may be among them and are not used.
        std : True also gives deviations, some milliseconds a state.

        Raises
        ------
        LayoutError
            if the other sensors determine what this one reads at no sample, naming the rows.
        """
        positions, speeds = state_rows(self.problem.robot, (("q", q), ("qd", qd)))
        others = self.others(y)
        e = self.rest.solve_batch(positions, speeds, others)
        d = np.zeros((len(positions), self._alone.laws.unknowns.size))
        columns = self._alone.laws.unknowns.columns
        d[:, columns("qdd")] = e.qdd.array
        d[:, columns("external_wrench")] = e.external_wrench.array
        z = np.ascontiguousarray(d[:, self._alone.response.open_columns])
        whole = np.asarray(np.isfinite(z).all(axis=1))
        (moved,), _ = self._kernels.linear((ROWS,)).batch(positions, speeds, np.nan_to_num(z))
        (fixed,), _ = self._kernels.bias((ROWS,)).batch(positions, speeds)
        value, deviations = moved + fixed, np.zeros_like(moved) if std else None
        packed = self.rest.measured.pack(others, None, len(positions))
        for k in range(len(whole)):
            if std or not whole[k]:  # an open wrench may or may not matter to this sensor
                reading, covariance = self._one(positions[k], speeds[k], packed[k], std)
                value[k] = np.where(whole[k], value[k], reading)
                if deviations is not None:
                    deviations[k] = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        blind = np.isnan(value).all(axis=0)
        if len(value) and blind.any():
            labels = [self._alone.layout.labels[k] for k in np.flatnonzero(blind)]
            raise LayoutError(
                f"{self.target}: the other sensors do not determine {', '.join(labels)}, so"
                " that nothing can be predicted; see the verdict without it"
            )
        return Prediction(self.target, self._alone.layout.labels, value, deviations)

    def covariance(self, q: ArrayLike, qd: ArrayLike, y: Readings) -> Array:
        """Mean covariance (rows, rows) of the predictions along a log, where there are any."""
        positions, speeds = state_rows(self.problem.robot, (("q", q), ("qd", qd)))
        packed = self.rest.measured.pack(self.others(y), None, len(positions))
        states = zip(positions, speeds, packed, strict=True)
        each = [covariance for _, covariance in (self._one(*x, True) for x in states)]
        known = [one for one in each if np.isfinite(one).all()]
        size = self._alone.layout.size
        return np.mean(known, axis=0) if known else np.zeros((size, size))

    def _one(self, q: Array, qd: Array, rows: Array, std: bool) -> tuple[Array, Array]:
        """Reading (rows,), its covariance (rows, rows) at one state; NaN where it is open."""
        kinematics = Kinematics.at(self.problem.robot, q, qd)
        B = read_blocks(self._alone.readings, kinematics, self._alone.response.at(kinematics))
        posterior = self.rest.posterior(q, qd, rows)
        columns = self.rest.measured.response.open_columns
        touched = np.flatnonzero(B[:, :-1].any(axis=0))
        part, at = B[:, touched], columns[touched]
        seen = posterior.determined(part, at) if len(at) else np.ones(len(B), dtype=bool)
        reading = np.where(seen, part @ posterior.d[at] + B[:, -1], np.nan)
        covariance = np.zeros((len(B), len(B)))
        if std and len(at):
            covariance = part @ posterior.covariance(at) @ part.T
        return reading, np.where(np.outer(seen, seen), covariance, np.nan)


def predict(
    problem: Estimation,
    sensor: AbstractSensor | str,
    q: ArrayLike,
    qd: ArrayLike,
    y: Readings,
    *,
    std: bool = False,
) -> Prediction:
    """Readings of a sensor from all the others; see :class:`Predictor`.

    Examples
    --------
    >>> import dynsys, numpy as np, problems, sensors
    >>> robot = dynsys.synthetic.chain(2)
    >>> layout = sensors.Layout(
    ...     robot,
    ...     [
    ...         *sensors.all_joint_accelerations(robot, std=0.1),
    ...         *sensors.zero_external_wrench_except(robot),
    ...         sensors.Accelerometer("tip", robot.body_names[1], std=0.1),
    ...     ],
    ... )
    >>> still = {f"{joint}/acceleration": np.zeros(3) for joint in robot.joint_names}
    >>> seen = predict(problems.Estimation(robot, layout), "tip", *np.zeros((2, 3, 2)), still)
    >>> seen.value.shape, bool(np.allclose(np.linalg.norm(seen.value, axis=1), 9.81))
    ((3, 3), True)
    """
    return Predictor(problem, sensor).at(q, qd, y, std=std)


def measured_rows(problem: Estimation, sensor: str, y: Readings, n: int) -> Array:
    """What the sensor did read (n, rows), NaN where there is nothing."""
    packed = problem.measured.pack(y, None, n)
    rows = packed[:, problem.layout.slice(sensor)]
    if np.isnan(rows).all():
        raise StateError(f"sensor {sensor!r} has no readings to compare with")
    return rows
