"""What an estimator is asked for, and whether a program answers that.

    readings y = Y d + b + noise   and the laws   ->   unknowns d, deviations, agreement

:class:`EstimatorSpec` is the question, whichever executor answers it (:mod:`.estimator`).
:func:`guarded_estimator` makes the answer NaN where a watched pivot vanishes, and
:func:`failures` compares it with extended precision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array

from dynsys.errors import KernelBuildError, nearest_name
from dynsys.model.natural import unusual
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import parameter_samples
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.methods import EliminationOrder, Method
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.record import PARAMETERS, sample_states
from dynsys.plan.repeated_rows import implied_readings, implied_rows
from dynsys.program.guards import guarded
from dynsys.program.program import Program, in_order_of_need
from dynsys.program.signature import Signature
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.parts import array_name, kind_of, part_of
from dynsys.system.size import natural_units, reading_units
from dynsys.system.unknowns import UnknownKind, UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = [
    "CHECKS",
    "ESTIMATES",
    "SAMPLES",
    "SIMPLIFY_SAMPLES",
    "Covariance",
    "EstimatorSpec",
    "PlannedEstimator",
    "block_digests",
    "equations_digest",
    "failures",
    "guarded_estimator",
    "program_errors",
    "watched_limits",
]

ESTIMATES: tuple[UnknownKind, ...] = (
    "torque",
    "qdd",
    "acceleration",
    "joint_wrench",
    "external_wrench",
)
OF_ROWS = ("residual", "multiplier")
"""Outputs that say how well the measurements agree, one number per row of y."""
Covariance: TypeAlias = "Array | csc_array[np.float64]"


@final
@dataclass(frozen=True, eq=False)
class EstimatorSpec:
    """What is to be estimated, from what.

    Parameters
    ----------
    equations : measurements ``Y d + b - y = 0`` on the unknowns of the robot; their rows in
        order are those of y. Rows without unknowns are ignored.
    covariance : C (rows, rows) of the noise, dense or sparse; zero rows are exact.
    outputs : any of ``torque``, ``qdd`` (nv,), ``acceleration``, ``joint_wrench``,
        ``external_wrench`` (6 n_bodies,) in body coordinates, ``residual`` (rows,),
        Y d + b - y, and ``multiplier`` (rows,), C^-1 (Y d + b - y): their product is the
        chi-square. ``torque.JOINT``, ``external_wrench.FRAME``: a part (:mod:`.system.parts`).
    uncertainty : quantities among these, but ``residual``, whose posterior standard deviations
        become outputs ``std_<name>``.
    switchable : names of equations that may be missing from a sample. If there are any,
        ``weight`` (rows,) is a further input: 1 counts fully, 0 not at all, in between it
        divides the row's standard deviation. The y of a missing row must be finite.
    beliefs : so many of the last rows are no readings: their y is zero, and no input.
    parameters : of the robot, by name, whose values are the last input. No measurement may
        depend on them but through the laws.
    state_std : (2 nv,) deviations of q, along v in ``robot.integrate(q, v, 1)``, and of qd,
        which those of estimates then count (:mod:`.estimator`); none by default.
    """

    robot: KinematicTree
    equations: tuple[EquationBlock, ...]
    covariance: Covariance
    outputs: tuple[str, ...]
    uncertainty: tuple[str, ...] = ()
    switchable: tuple[str, ...] = ()
    beliefs: int = 0
    parameters: tuple[str, ...] = ()
    state_std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in (*self.outputs, *self.uncertainty):
            if name not in OF_ROWS and kind_of(name) not in ESTIMATES:
                known = ", ".join((*ESTIMATES, *OF_ROWS))
                hint = nearest_name(name, ESTIMATES)
                raise KernelBuildError(f"output {name!r} is none of {known}{hint}")
        if "residual" in self.uncertainty:
            raise KernelBuildError("ask for the uncertainty of 'multiplier', not of 'residual'")
        if not self.outputs and not self.uncertainty:
            raise KernelBuildError("an estimator without outputs: name at least one")
        if self.covariance.shape != (self.n_rows, self.n_rows):
            raise KernelBuildError(
                f"the covariance has shape {self.covariance.shape}, the equations have"
                f" {self.n_rows} rows"
            )
        names = tuple(dict.fromkeys(block.name for block in self.equations))
        for name in self.switchable:
            if name not in names:
                hint = nearest_name(name, names)
                raise KernelBuildError(f"switchable: there is no sensor {name!r}{hint}")

    @cached_property
    def followed(self) -> tuple[str, ...]:
        """Names in ``uncertainty`` whose deviations count noise of q and qd."""
        named = self.uncertainty if any(self.state_std) else ()
        return tuple(name for name in named if name not in OF_ROWS)

    @cached_property
    def plain(self) -> EstimatorSpec:
        """The question without that noise, with values of all that would count it."""
        hidden = [name for name in self.followed if name not in self.outputs]
        return replace(self, outputs=(*self.outputs, *hidden), state_std=())

    @cached_property
    def unknowns(self) -> UnknownLayout:
        """Unknowns of the robot; net wrenches only if a measurement names one."""
        kinds = {term.unknown.kind for block in self.equations for term in block.terms}
        return UnknownLayout(self.robot, net_wrench="net_wrench" in kinds)

    @cached_property
    def system(self) -> LinearSystem:
        """Laws, then measurements, on :attr:`unknowns`."""
        laws = LinearSystem(self.robot, net_wrench=self.unknowns.net_wrench)
        here = laws.unknowns.block
        return laws.with_equations(
            [
                replace(
                    block,
                    terms=tuple(
                        replace(t, unknown=here(t.unknown.kind, t.unknown.body))
                        for t in block.terms
                    ),
                )
                for block in self.equations
            ]
        )

    @property
    def n_rows(self) -> int:
        """Number of measurements, beliefs included."""
        return sum(block.size for block in self.equations)

    @property
    def n_readings(self) -> int:
        """Length of y, and of the weights."""
        return self.n_rows - self.beliefs

    def all_rows(self, y: ScalarArray, rest: float = 0.0) -> ScalarArray:
        """Numbers (n_readings,) of the readings, then ``rest`` for every belief."""
        return np.array([*y, *[rest] * self.beliefs], dtype=y.dtype)

    @cached_property
    def noise(self) -> coo_array[np.float64]:
        """Covariance of the rows; zero where it does not matter, see :attr:`is_square`."""
        C = coo_array(self.covariance)
        of_unknowns = np.isin(np.arange(self.n_rows), self.seeing)
        crossing = (of_unknowns[C.row] != of_unknowns[C.col]) & (C.data != 0)
        if not self.is_square or self.uncertainty or self.switchable or crossing.any():
            return C
        return coo_array((np.where(of_unknowns[C.row], 0.0, C.data), C.coords), shape=C.shape)

    @cached_property
    def is_square(self) -> bool:
        """Whether laws and measurements are as many as the unknowns: noise then cancels."""
        per_body = 18 if self.unknowns.net_wrench else 12
        laws = per_body * self.robot.n_bodies + self.robot.nv
        return laws + len(self.seeing) == self.unknowns.size

    @property
    def repeated(self) -> IntArray:
        """Exact rows that the laws and other exact rows imply: checked, not eliminated."""
        return self._implied[0]

    @property
    def aside(self) -> IntArray:
        """Noisy rows, correlated with no others, that the laws and exact rows imply.

        A gyroscope's, a scale's under a body whose wrench is stated: they check the motion, no
        estimate depends on them.
        """
        return self._implied[1]

    @cached_property
    def seeing(self) -> IntArray:
        """Rows that an elimination works on: neither implied by others nor without unknowns."""
        return np.setdiff1d(np.flatnonzero(self._touching), np.concatenate(self._implied))

    @cached_property
    def _touching(self) -> BoolArray:
        """Whether a row has unknowns (rows,)."""
        seen = [np.zeros(0, dtype=bool)]
        for block in self.equations:
            none = np.zeros(block.size, dtype=bool)
            seen.append(np.any([none, *(t.pattern.any(axis=1) for t in block.terms)], axis=0))
        return np.concatenate(seen)

    @cached_property
    def _kinds(self) -> tuple[IntArray, IntArray]:
        """Exact rows, and noisy ones that are correlated with no others; never switched off."""
        C = coo_array(self.covariance)
        noisy = np.bincount(C.row, np.abs(C.data), self.n_rows) > 0
        shared = np.bincount(C.row, (C.row != C.col) & (C.data != 0), self.n_rows) > 0
        names = [block.name for block in self.equations for _ in range(block.size)]
        fixed = ~np.isin(names, self.switchable)
        return np.flatnonzero(~noisy & fixed), np.flatnonzero(noisy & ~shared & fixed)

    @cached_property
    def _implied(self) -> tuple[IntArray, IntArray]:
        """Rows of each kind that laws and exact rows imply."""
        exact, noisy = self._kinds
        if not len(exact):
            return exact, noisy[~self._touching[noisy]]
        system = self.system
        rows = system.measured_rows
        found = implied_rows(system, rows[exact], rows[noisy])
        return found[0] - rows[0], found[1] - rows[0]

    def columns(self, name: str) -> IntArray:
        """Columns that an output is made of."""
        kind, _, part = name.partition(".")
        whole = self.unknowns.columns(cast(UnknownKind, kind)).ravel()
        if not part:
            return whole
        start, M = part_of(self.robot, kind, part)
        return whole[start : start + M.shape[1]]

    def sums(self, name: str) -> list[dict[int, float]]:
        """Every number of an output as a sum of unknowns: factors by their columns."""
        kind, _, part = name.partition(".")
        columns = self.columns(name).tolist()
        if not part:
            return [{c: 1.0} for c in columns]
        M = part_of(self.robot, kind, part).matrix
        return [{c: x for c, x in zip(columns, row, strict=True) if x} for row in M.tolist()]

    def size(self, name: str) -> int:
        """Length of an output, or of its standard deviations."""
        return self.n_rows if name in OF_ROWS else self.columns(name).size

    @cached_property
    def signature(self) -> Signature:
        """Inputs q, qd, y and, if anything is switchable, weight; outputs by name."""
        inputs = [("q", self.robot.nq), ("qd", self.robot.nv), ("y", self.n_readings)]
        if self.switchable:
            inputs.append(("weight", self.n_readings))
        if self.parameters:
            inputs.append((PARAMETERS, len(self.parameters)))
        outputs = [(array_name(name), self.size(name)) for name in self.outputs]
        outputs += [(f"std_{array_name(name)}", self.size(name)) for name in self.uncertainty]
        return Signature(tuple(inputs), tuple(outputs))

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs); weights lie between 0 and 1."""
        further = self.signature.n_inputs - self.robot.nq - self.robot.nv - self.n_readings
        extra = np.concatenate([self._reading_units, np.ones(further)])
        states = sample_states(self.robot, count, seed, extra)
        if self.switchable:
            rng = np.random.default_rng(seed + 1)
            first = self.robot.nq + self.robot.nv + self.n_readings
            weights = rng.uniform(0.4, 0.9, (count, self.n_readings))
            states[:, first : first + self.n_readings] = weights
        if self.parameters:
            values = parameter_samples(self.robot, self.parameters, count, seed)
            states[:, -len(self.parameters) :] = values
        return states

    @cached_property
    def _reading_units(self) -> Array:
        """Natural units (readings,) of y."""
        state = sample_states(self.robot, 1, 0)[0].astype(np.float64)
        kinematics = Kinematics.at(self.robot, *np.split(state, [self.robot.nq]))
        return reading_units(self.unknowns, self.equations, kinematics)[: self.n_readings]

    def admissible(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """The same, but exact readings that repeat others agree with them."""
        states = self.samples(count, seed)
        if not len(self.repeated):
            return states
        program, n = self._agreeing, self.robot.nq + self.robot.nv
        z = np.random.default_rng(seed + 2).normal(size=(count, program.n_inputs - n))
        z *= unusual(natural_units(self.system))
        inputs = np.hstack([states[:, :n], z.astype(np.longdouble)])
        states[:, n + self._kinds[0]] = program.evaluate(inputs)
        return states

    def switched(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """The same, but every switchable sensor is on or off: at some states few, or most."""
        states = self.admissible(count, seed)
        rng = np.random.default_rng(seed + 3)
        names = np.array([block.name for block in self.equations for _ in range(block.size)])
        first = self.robot.nq + self.robot.nv + self.n_readings
        if self.switchable:
            states[:, first : first + self.n_readings] = 1.0
        share = rng.random((count, 1))
        for name in self.switchable:
            columns = first + np.flatnonzero(names == name)
            states[:, columns] = rng.random((count, 1)) < share
        return states

    @cached_property
    def _agreeing(self) -> Program:
        return implied_readings(self.system, self.system.measured_rows[self._kinds[0]])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of robot, equations (by their values at random states) and noise."""
        digest = hashlib.sha256(fingerprint_robot(self.robot).digest.encode())
        asked = (self.outputs, self.uncertainty, self.switchable, self.parameters)
        text = repr((*asked, self.signature))
        digest.update(text.encode())
        if self.followed:
            digest.update(_bytes(self.state_std))
        for name in (*self.outputs, *self.uncertainty):
            if "." in name:  # where a frame is
                digest.update(repr(self.sums(name)).encode())
        digest.update(equations_digest(self.robot, self.equations).encode())
        noise = coo_array(self.covariance)
        for part in (noise.row, noise.col, noise.data):
            digest.update(_bytes(part))
        return digest.hexdigest()


def equations_digest(robot: KinematicTree, equations: Iterable[EquationBlock]) -> str:
    """SHA-256 (hex) of equations: their terms, and their values at random states.

    What tells kernels of rows from others. The parameters of a sensor do not: its class may be
    the user's own, and say something else tomorrow.
    """
    return hashlib.sha256("".join(block_digests(robot, equations)).encode()).hexdigest()


def block_digests(
    robot: KinematicTree, equations: Iterable[EquationBlock], bits: int | None = None
) -> list[str]:
    """The same of each block by itself.

    With ``bits``, values count only so far beside the largest of their block: they are then
    the same on machines whose sines differ in the last digit.
    """
    blocks, digests = tuple(equations), []
    for block in blocks:
        shape = [(t.unknown.kind, t.unknown.body, t.pattern.shape) for t in block.terms]
        text = repr((block.name, block.size, shape))
        digests.append(hashlib.sha256(text.encode("utf-8", "surrogatepass")))
    for state in sample_states(robot, 3, 5).astype(np.float64):
        kin = Kinematics.at(robot, state[: robot.nq], state[robot.nq :])
        for block, digest in zip(blocks, digests, strict=True):
            values = [np.ravel(t.entries(kin)) for t in block.terms]
            found = np.concatenate([*values, np.ravel(block.bias_at(kin))]).astype(np.float64)
            for term in block.terms:
                digest.update(_bytes(term.pattern))
            digest.update(_bytes(found if bits is None else _rounded(found, bits)))
    return [digest.hexdigest() for digest in digests]


def _rounded(values: Array, bits: int) -> Array:
    """Values to so many bits below the largest; never near where its own binary digit changes.

    Entries like 1 - 2^-53 are common: 1.37 moves that place away from them.
    """
    largest = float(np.abs(values).max(initial=0.0))
    unit = np.ldexp(1.0, max(int(np.frexp(1.37 * largest)[1]) - bits, -1000))
    return np.asarray(np.round(values / unit) * unit + 0.0)


def _bytes(values: object) -> bytes:
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()


# ---- an answer -----------------------------------------------------------------------------

Order = TypeVar("Order", bound=EliminationOrder, covariant=True)


@final
@dataclass(frozen=True, eq=False)
class PlannedEstimator(Generic[Order]):
    """A guarded program, the order it executes, its pivots that vary, what found the order."""

    program: Program
    order: Order
    pivots: tuple[PlannedPivot, ...]
    ordering: str

    @property
    def method(self) -> Method:
        """Name of the executor."""
        return self.order.method

    @property
    def operations(self) -> Operations:
        """What it executes."""
        return program_operations(self.program)


# ---- is a program right? -------------------------------------------------------------------

SAMPLES = 64
"""States at which pivots are judged."""
SIMPLIFY_SAMPLES = 12
"""States at which equal values are found."""
CHECKS = 256
"""States at which a finished program is judged."""
ACCURATE = 1e-10
"""Relative error of estimates at random states, beside extended precision."""
ACCURATE_DEVIATION = 1e-8
"""The same for standard deviations."""


def failures(program: Program, spec: EstimatorSpec, *, switched: bool = False) -> int:
    """Number of random states, of CHECKS, where double precision has no answer or a bad one."""
    return int((~(program_errors(program, spec, CHECKS, switched=switched)[0] <= 1.0)).sum())


def program_errors(
    program: Program, spec: EstimatorSpec, count: int, *, switched: bool = False
) -> tuple[Array, Array]:
    """Errors of answers at random states (count,), beside what is accurate; all outputs.

    ``switched``: with sensors on or off.
    """
    states = spec.switched(count, 4) if switched else spec.admissible(count, 4)
    rounded = states.astype(np.float64)
    parts = [rounded[k : k + CHECKS] for k in range(0, count, CHECKS)]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        exact = np.vstack([program.evaluate(x.astype(np.longdouble)) for x in parts])
        found = np.vstack([program.evaluate(x) for x in parts])
        errors = np.abs(found - exact)
    worst = np.zeros(count)
    variance = float(np.max(spec.noise.diagonal(), initial=0.0)) or 1.0
    noise = {"residual": 1.0, "multiplier": 1.0 / variance, "std_multiplier": variance**-0.5}
    start = 0
    for name, size in spec.signature.outputs:
        where = slice(start, start + size)
        least = noise.get(name, np.finfo(float).tiny)
        scale = np.nanmax(np.abs(exact[:, where]), axis=1, initial=least)
        allowed = ACCURATE_DEVIATION if name.startswith("std_") else ACCURATE
        errors_here = np.max(errors[:, where], axis=1, initial=0) / (allowed * scale)
        worst = np.maximum(worst, errors_here.astype(np.float64))
        start += size
    return worst, found


def guarded_estimator(
    program: Program,
    spec: EstimatorSpec,
    dtype: str,
    margin: float,
    limits: Sequence[float] = (),
) -> Program:
    """NaN at bad quaternions, and where an output behind the answers exceeds its median.

    These outputs, reciprocals of pivots or their squares, may do so by the factor ``margin``;
    the last of them have ``limits`` instead. The checks of repeated rows end the outputs; where
    one fails the answer is NaN, too.
    """
    all_limits = watched_limits(program, spec, margin, limits)
    quaternions = spec.robot.quaternion_slices
    checked = guarded(program, quaternions, dtype, all_limits, n_checks=len(spec.repeated))
    return in_order_of_need(checked)


def watched_limits(
    program: Program, spec: EstimatorSpec, margin: float, limits: Sequence[float] = ()
) -> list[float]:
    """Limits of the outputs behind the answers; see :func:`guarded_estimator`."""
    states = spec.samples(SAMPLES, 3)
    n_outputs, n_checks = spec.signature.n_outputs, len(spec.repeated)
    end = len(program.outputs) - 2 * n_checks - len(limits)
    reciprocals = program.evaluate(states)[:, n_outputs:end]
    medians = np.median(np.abs(reciprocals), axis=0)
    return [*(float(margin * x) for x in medians), *limits]
