"""One sample at a time, quickly: estimates whose code is there before the first sample.

Three ways, each tried where the one before does not answer:

    llvm       one kernel for all outputs and the p-value, complete samples; microseconds
    reduced    the reduced system, any readings missing; a fraction of a millisecond
    general    ``Estimation.solve``, the slow twin of both; milliseconds

Outputs that no row of a kernel is (suspects, residuals) take the last way always;
``LiveEstimator.slow`` names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import final

import numpy as np
from scipy.special import chdtrc

from dynsys.errors import DynsysError, KernelBuildError
from dynsys.kernel.build import best_backend
from dynsys.kernel.calls import AbstractKernel
from dynsys.system.parts import kind_of
from dynsys.types import Array, IntArray
from problems.estimation.compiled import EstimatorOutputs
from problems.estimation.estimation import Estimation
from problems.estimation.outputs import AGREEMENT, Output, judged, rows_of, uncertain
from problems.estimation.reduced_batch import moved_part
from problems.measured.measured_system import QUANTITIES

__all__ = ["LiveEstimator"]


@final
class LiveEstimator:
    """Outputs of samples, side by side in ``row``; the arrays are used again by the next one.

    Parameters
    ----------
    estimation : the problem; where it has a plan, the kernel executes it.
    outputs : what is wanted.

    Attributes
    ----------
    row : (columns,) outputs of the last sample.
    chi_square, degrees_of_freedom, p_value : of the last sample, as of an
        :class:`Estimate`: where nothing checks it, about 0, 0 and 1.
    method : the way that it took.
    slow : names of outputs for which every sample takes the general path.
    """

    def __init__(self, estimation: Estimation, outputs: Sequence[Output]) -> None:
        self.estimation, self.outputs = estimation, list(outputs)
        self.columns = tuple(c for o in self.outputs for c in o.group.columns)
        self.row = np.full(len(self.columns), np.nan)
        self.chi_square = self.p_value = float("nan")
        self.degrees_of_freedom = 0
        self.method = ""
        self.slow = tuple(o.group.name for o in self.outputs if not _has_rows(o))
        self._wanted = EstimatorOutputs.of_estimate(judged(outputs), uncertain(outputs))
        robot, stds = estimation.robot, self._wanted.uncertainty
        self._at_frames = {name: moved_part(robot, name) for name in stds if "." in name}
        self._kernel: AbstractKernel | None = None
        self._can_reduce = not (self.slow or estimation.layout.has_encoder_noise)
        self._place_outputs()

    # ---- where columns come from ---------------------------------------------------------

    def _place_outputs(self) -> None:
        """Arrays that kernels write, all in one, and which of its numbers each column is."""
        signature = self.estimation.measured
        robot, size = self.estimation.robot, signature.layout.size
        beliefs = len(signature.variance) - size
        sizes = {"residual": size + beliefs, "multiplier": size + beliefs}
        for name in self._wanted.names:
            if name not in sizes:
                joints = name.removeprefix("std_") in ("torque", "qdd")
                sizes[name] = robot.nv if joints else 6 if "." in name else 6 * robot.n_bodies
        sizes["std_multiplier"] = size + beliefs
        ends = np.cumsum([0, *(sizes[name] for name in self._wanted.names)])
        self._all = np.full(int(ends[-1]), np.nan)
        self._arrays = {
            name: self._all[start:stop]
            for name, start, stop in zip(self._wanted.names, ends, ends[1:], strict=False)
        }
        starts = dict(zip(self._wanted.names, ends.tolist(), strict=False))
        plain: list[IntArray] = []
        where: list[IntArray] = []
        self._moved: list[tuple[slice, Array, Array]] = []
        self._facts: list[tuple[int, str]] = []
        column = 0
        for output in self.outputs:
            here = slice(column, column := column + len(output.group.columns))
            if output.needs in AGREEMENT and output.group.name in AGREEMENT:
                self._facts.append((here.start, output.group.name))
            elif output.rows is not None:
                name = output.needs if output.std_of is None else f"std_{output.std_of}"
                used = np.flatnonzero(output.rows.any(axis=0))
                matrix = output.rows[:, used]
                if np.array_equal(matrix, np.eye(len(used))):
                    plain.append(np.arange(here.start, here.stop))
                    where.append(starts[name] + used)
                else:
                    part = slice(int(used[0]), int(used[-1]) + 1)
                    values = self._arrays[name][part]
                    self._moved.append(
                        (here, np.ascontiguousarray(output.rows[:, part]), values)
                    )
        self._plain = np.concatenate(plain) if plain else np.zeros(0, dtype=np.intp)
        self._where = np.concatenate(where) if where else np.zeros(0, dtype=np.intp)

    # ---- before the first sample ---------------------------------------------------------

    def prepare(self) -> dict[str, float]:
        """Compile all that a sample may need and run it; seconds a sample by each way.

        The first time on a machine this takes seconds to a minute, later the cache has it.
        """
        problem = self.estimation
        if not self.slow:
            with suppress(KernelBuildError):
                compiled = replace(problem, backend=best_backend())
                self._kernel = compiled.compile(
                    outputs=self._wanted.outputs, uncertainty=self._wanted.uncertainty
                )
        problem.settle(1000)
        # not at the neutral posture: stretched legs need pivoting
        q, qd = problem.robot.random_configuration(0), np.zeros(problem.robot.nv)
        constants = problem.layout.constants
        y = np.where(np.isnan(constants), 0.0, constants)
        found: dict[str, float] = {}
        lacking = np.flatnonzero(np.isnan(constants))[:1]
        for missing in (lacking[:0], lacking):
            rows = y.copy()
            rows[missing] = np.nan
            for _ in range(3):
                begin = perf_counter()
                with suppress(DynsysError):
                    self.solve(q, qd, rows)
                    found[self.method] = perf_counter() - begin
        return found

    # ---- a sample ------------------------------------------------------------------------

    def solve(self, q: Array, qd: Array, y: Array) -> None:
        """Estimate at a state (nq,), (nv,) with readings (size,), NaN where missing.

        Raises
        ------
        DynsysError
            if the readings contradict each other, or a number overflows.
        """
        kernel = self._kernel
        if kernel is not None and not np.isnan(y).any():
            _, finite = kernel.one(q, qd, y, out=list(self._arrays.values()))
            if finite:
                arrays, measured = self._arrays, self.estimation.measured
                chi_square = float(arrays["residual"] @ arrays["multiplier"])
                if np.isfinite(chi_square):
                    self._take(
                        max(chi_square, 0.0), measured.degrees_of_freedom, best_backend()
                    )
                    return
        if self._can_reduce and self._reduced(q, qd, y):
            return
        self._generally(q, qd, y)

    def _take(self, chi_square: float, free: int, method: str) -> None:
        """Outputs from the arrays of kernels, and the facts of the sample."""
        row = self.row
        row[self._plain] = self._all[self._where]
        for here, matrix, values in self._moved:
            np.dot(matrix, values, out=row[here])
        self._agree(chi_square, free, method)
        for place, name in self._facts:
            row[place] = getattr(self, name)

    def _agree(self, chi_square: float, free: int, method: str) -> None:
        self.degrees_of_freedom, self.method = free, method
        self.chi_square = chi_square
        self.p_value = float(chdtrc(free, chi_square)) if free > 0 else 1.0

    def _reduced(self, q: Array, qd: Array, y: Array) -> bool:
        """Answer by the reduced system; False where it leaves the state to the general path."""
        problem = self.estimation
        rows = problem.measured.pack(y, None, None)
        names = [name for name in self._wanted.outputs if name in QUANTITIES]
        stds, moved = self._wanted.uncertainty, self._at_frames
        found = problem.reduced.solve(
            q[None], qd[None], rows[None], names, list(dict.fromkeys(map(kind_of, stds))),
            moved=moved,
        )  # fmt: skip
        at_frames = {f"std_{name}": found.at_frame(name) for name in moved}
        if not found.answered[0] or not all(np.isfinite(x).all() for x in at_frames.values()):
            return False
        for name, values in (found.arrays | at_frames).items():
            if name in self._arrays:
                self._arrays[name][:] = values[0]
        self._take(float(found.chi_square[0]), int(found.degrees_of_freedom[0]), "reduced")
        return True

    def _generally(self, q: Array, qd: Array, y: Array) -> None:
        e = self.estimation.solve(q, qd, y, uncertainty=uncertain(self.outputs) or None)
        self.row[:] = rows_of(self.outputs, e)[0]
        self._agree(float(e.chi_square), int(e.degrees_of_freedom), "general")


def _has_rows(output: Output) -> bool:
    return output.rows is not None or output.group.name in AGREEMENT
