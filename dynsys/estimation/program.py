"""Program of an estimator: recorded by elimination, simplified, checked for its digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.codegen.graph import Graph, Scalar
from dynsys.codegen.guard import guarded
from dynsys.codegen.program import Program
from dynsys.codegen.simplify import simplify
from dynsys.errors import KernelBuildError
from dynsys.estimation.direction import open_joints
from dynsys.estimation.elimination import Elimination
from dynsys.estimation.pivots import Safety, eliminate_all
from dynsys.estimation.question import Question
from dynsys.estimation.recorder import Recorder, Ref
from dynsys.estimation.rows import LinearRow, Unknowns, equation_rows, law_rows
from dynsys.estimation.saddle import saddle_point
from dynsys.system.kinematics import Kinematics

__all__ = ["estimation_program"]

SAMPLES = 64
"""States at which pivots are judged."""
SIMPLIFY_SAMPLES = 12
CHECKS = 256
"""States at which a finished program is judged."""
ACCURATE = 1e-10
"""Relative error of estimates at random states, beside extended precision."""
ACCURATE_DEVIATION = 1e-8
"""The same for standard deviations."""
ANY = Safety(steady=1e-9, kept=1e-9, multiplier=1e9)
STEADY = Safety(steady=3e-2, kept=1e-4, multiplier=1e4)
CAREFUL = Safety(steady=1e-1, kept=1e-2, multiplier=1e2)
ATTEMPTS = ((STEADY, ANY), (CAREFUL, STEADY, ANY))
"""What counts as safe: where the first attempt loses digits or states, the next one waits for
better pivots, at more operations."""
CERTAIN = 1e-12
"""A variance below this part of its terms, at every state, is zero: an exact quantity."""
PIVOT_MARGIN, SWITCHED_MARGIN = 1e5, 1e9
"""A watched pivot may fall this far below its median before the answer becomes NaN; the second
where sensors can be switched off, which lowers pivots and costs no digits."""


def estimation_program(question: Question, dtype: str = "float64") -> Program:
    """Guarded program: NaN at bad quaternions and where a varying pivot vanishes.

    Raises
    ------
    KernelBuildError
        if some unknown has no safe pivot (the measurements do not determine it, or only with
        pivots that depend on the state), or digits are lost; names the unknowns.
    """
    samples = question.samples(SAMPLES, 0)
    best: Program | None = None
    least = CHECKS // 2
    for safeties in ATTEMPTS:
        recorded = _recording(question, samples, safeties).program
        program = simplify(recorded, samples[:SIMPLIFY_SAMPLES])
        program = _guarded(program, question, dtype)
        failures = _failures(program, question)
        if failures < least:
            best, least = program, failures
        if not least:
            break
    if best is None:
        raise KernelBuildError(
            f"robot {question.robot.name!r}: elimination without pivoting at run time loses"
            " too many digits; the measurements hardly determine the answer: use the reference"
            " backend"
        )
    return best


def _recording(
    question: Question, samples: NDArray[np.longdouble], safeties: Sequence[Safety]
) -> _Recording:
    """Elimination of all unknowns, joints turned round where that gives them a safe pivot."""
    turned = open_joints(question.robot, question.equations)
    while True:
        recorded = _Recording(question, samples, safeties, turned)
        more = recorded.joints_to_turn()
        if more <= turned:
            recorded.require_complete()
            return recorded
        turned |= more


@final
class _Recording:
    """Rows, elimination and outputs on one graph; watched reciprocals end the outputs."""

    def __init__(
        self,
        question: Question,
        samples: NDArray[np.longdouble],
        safeties: Sequence[Safety],
        turned: frozenset[tuple[str, int]],
    ) -> None:
        robot = question.robot
        self.question, self.graph = question, Graph()
        q, qd = self.graph.inputs(robot.nq), self.graph.inputs(robot.nv)
        y = self.graph.inputs(question.n_rows)
        weights = self.graph.inputs(question.n_rows) if question.switchable else y
        kin = Kinematics.at(robot, q, qd)
        self.unknowns = Unknowns(question.unknowns, turned)
        laws = law_rows(self.unknowns, kin, q)
        self.measurements: list[LinearRow] = []
        weight: dict[int, Any] = {}
        for block in question.equations:
            for row in equation_rows(self.unknowns, block, kin):
                r = len(self.measurements)
                if block.name in question.switchable:
                    weight[r] = weights[r]
                constant = row.constant - y[r]
                self.measurements.append(LinearRow(row.body, row.coefficients, constant))
        self.record = Recorder(self.graph, samples)
        rows, self._group, avoided = saddle_point(
            self.record, self.unknowns.body, laws, self.measurements, question.noise, weight
        )
        self.system = Elimination(self.record, rows)
        self._left = eliminate_all(self.system, self._group, safeties, avoided)

    def joints_to_turn(self) -> frozenset[tuple[str, int]]:
        """Joints between two unknowns of which one was left over."""
        layout = self.unknowns.layout
        blocks = [layout.at(u) for u in self._left if u < layout.size]
        found: set[tuple[str, int]] = {(block.kind, block.body) for block in blocks}
        left = set(self._left)
        for kind, columns in (
            ("joint_wrench", self.unknowns.passed_on),
            ("acceleration", self.unknowns.carried),
        ):
            found |= {(kind, i) for i, stage in columns.items() if left & set(stage)}
        kinds = ("joint_wrench", "acceleration")
        staged = self.unknowns.carried
        return frozenset((kind, i) for kind, i in found if kind in kinds and i in staged)

    def require_complete(self) -> None:
        """Raise KernelBuildError if unknowns were left over."""
        if not self._left:
            return
        layout = self.unknowns.layout
        names = {str(layout.at(u)): None for u in self._left if u < layout.size}
        for u in self._left:
            names[f"what passes joint {layout.robot.joint_names[self._group[u]]!r}"] = None
        shown = ", ".join(list(names)[:6]) + (" ..." if len(names) > 6 else "")
        raise KernelBuildError(
            f"robot {layout.robot.name!r}: the measurements do not determine every unknown, or"
            f" not by pivots that are safe at every state; left over: {shown}. The verdict says"
            " what is missing; the reference backend solves what is determined"
        )

    @property
    def program(self) -> Program:
        """All outputs, then reciprocals of watched pivots with a positive sign."""
        question, record = self.question, self.record
        x = self.system.solution()
        refs: list[Ref] = []
        for name in question.outputs:
            if name == "residual":
                refs += [self._residual(row, x) for row in self.measurements]
            else:
                refs += [x[c] for c in question.columns(name).tolist()]
        deviations = [c for n in question.uncertainty for c in question.columns(n).tolist()]
        Z = self.system.inverse_entries((c, c) for c in deviations)
        watched = [
            ref if (record.values(ref) > 0).all() else -ref for ref in self.system.reciprocals
        ]
        outputs = [
            *map(self._scalar, refs),
            *(self._deviation(Z[c, c]) for c in deviations),
            *map(self._scalar, watched),
        ]
        return self.graph.program(outputs)

    def _residual(self, row: LinearRow, x: dict[int, Ref]) -> Ref:
        """Y d + b - y of one row."""
        *coefficients, total = self.record.include([*row.coefficients.values(), row.constant])
        for column, coefficient in zip(row.coefficients, coefficients, strict=True):
            total = self.record.add(total, self.record.mul(coefficient, x[column]))
        return total

    def _deviation(self, variance: Ref) -> Any:
        """Root of a variance; what is left by cancellation at every state is exactly zero."""
        if not variance or (self.record.kept(variance) < CERTAIN).all():
            return 0.0
        return np.sqrt(self._scalar(variance))

    def _scalar(self, ref: Ref) -> Any:
        return Scalar(self.graph, ref) if ref else 0.0


def _failures(program: Program, question: Question) -> int:
    """Number of random states, of CHECKS, where double precision has no answer or a bad one."""
    rounded = question.samples(CHECKS, 4).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = program.evaluate(rounded.astype(np.longdouble))
        errors = np.abs(program.evaluate(rounded) - exact)
    good = np.ones(CHECKS, dtype=bool)
    start = 0
    for name, size in question.signature.outputs:
        where = slice(start, start + size)
        scale = np.nanmax(np.abs(exact[:, where]), axis=1, initial=np.finfo(float).tiny)
        allowed = ACCURATE_DEVIATION if name.startswith("std_") else ACCURATE
        good &= np.max(errors[:, where], axis=1, initial=0) <= allowed * scale
        start += size
    return int((~good).sum())


def _guarded(program: Program, question: Question, dtype: str) -> Program:
    states = question.samples(SAMPLES, 3)
    n_outputs = question.signature.n_outputs
    reciprocals = program.evaluate(states)[:, n_outputs:]
    margin = SWITCHED_MARGIN if question.switchable else PIVOT_MARGIN
    limits = margin * np.median(np.abs(reciprocals), axis=0)
    quaternions = question.robot.quaternion_slices
    return guarded(program, quaternions, dtype, [float(x) for x in limits])
