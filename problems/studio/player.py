"""A log, sample by sample: what the sensors of the layout make of it."""

from __future__ import annotations

from typing import final

from dynsys.errors import RefusedError
from problems.estimation.estimate import Estimate
from problems.estimation.estimation import Estimation
from problems.estimation.factors import general_backend
from problems.logs import AbstractDifferentiation, AbstractLog, SampleReader, Samples
from problems.measured.prior import Prior
from sensors.layout import Layout

__all__ = ["Player"]


@final
class Player:
    """An open log; sensors that it knows nothing of go without data.

    Parameters
    ----------
    log : the log; it is the player's to close.
    method : how velocities and accelerations that are not logged are made.
    """

    def __init__(self, log: AbstractLog, method: AbstractDifferentiation) -> None:
        self.log = log
        self.method = method
        self.name = log.path.name
        self.sample = 0
        self._layout: Layout | None = None
        self._reader: SampleReader
        self._problem: Estimation
        if self.log.n_samples < 1:
            self.log.close()
            raise RefusedError(f"{self.name}: the log has no samples")
        self.seconds = self._duration()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.log.n_samples

    def _duration(self) -> float:
        """Seconds from the first to the last sample; without time, one per sample."""
        if "time" not in self.log.widths:
            return float(self.n_samples - 1)
        ends = [self.log.read(["time"], k, k + 1) for k in (0, self.n_samples - 1)]
        return float(ends[1]["time"][0, 0] - ends[0]["time"][0, 0])

    def use(self, layout: Layout, prior: Prior | None) -> None:
        """Read the log with these sensors from now on; LogError if positions are missing."""
        if layout is not self._layout:
            self._reader = SampleReader(layout, self.log, self.method, allow_missing=True)
            backend = general_backend()  # layouts change: kernels would not pay
            self._problem = Estimation(layout.robot, layout, prior, backend)
            self._layout = layout

    def is_ready(self, layout: Layout) -> bool:
        """Tell whether the log is read with these sensors already."""
        return layout is self._layout

    @property
    def without_data(self) -> tuple[str, ...]:
        """Sensors that the log knows nothing of."""
        return self._reader.not_measured

    def read(self, sample: int) -> Samples:
        """One sample (arrays of length one)."""
        if not 0 <= sample < self.n_samples:
            raise RefusedError(f"the log has samples 0 to {self.n_samples - 1}")
        self.sample = sample
        return self._reader.read(sample, sample + 1)

    def estimate(self, sample: Samples) -> Estimate:
        """Torques and wrenches of a sample."""
        return self._problem.solve(
            sample.q[0], sample.qd[0], sample.y[0], uncertainty=("torque",)
        )

    def close(self) -> None:
        """Let go of the file."""
        self.log.close()
