"""What is to be estimated, from what: a robot, its measurements, their noise, the outputs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array

from dynsys.codegen.programs import sample_states
from dynsys.errors import KernelBuildError
from dynsys.model.tree import KinematicTree
from dynsys.ordering.fingerprint import fingerprint_robot
from dynsys.program.signature import Signature
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.unknowns import UnknownKind, UnknownLayout
from dynsys.types import Array, IntArray

__all__ = ["ESTIMATES", "OF_ROWS", "Covariance", "Question"]

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
class Question:
    """See :func:`dynsys.estimation.estimation_kernel` for the meaning of each name."""

    robot: KinematicTree
    equations: tuple[EquationBlock, ...]
    covariance: Covariance
    outputs: tuple[str, ...]
    uncertainty: tuple[str, ...] = ()
    switchable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*self.outputs, *self.uncertainty):
            if name not in (*ESTIMATES, *OF_ROWS):
                known = ", ".join((*ESTIMATES, *OF_ROWS))
                raise KernelBuildError(f"{name!r} is none of {known}")
        if "residual" in self.uncertainty:
            raise KernelBuildError("ask for the uncertainty of 'multiplier', not of 'residual'")
        if not self.outputs and not self.uncertainty:
            raise KernelBuildError("an estimator without outputs: name at least one")
        if self.covariance.shape != (self.n_rows, self.n_rows):
            raise KernelBuildError(
                f"the covariance has shape {self.covariance.shape}, the equations have"
                f" {self.n_rows} rows"
            )
        unknown = set(self.switchable) - {block.name for block in self.equations}
        if unknown:
            raise KernelBuildError(f"switchable: there is no measurement {sorted(unknown)}")

    @cached_property
    def unknowns(self) -> UnknownLayout:
        """Unknowns of the robot; net wrenches only if a measurement names one."""
        kinds = {term.unknown.kind for block in self.equations for term in block.terms}
        return UnknownLayout(self.robot, net_wrench="net_wrench" in kinds)

    @property
    def n_rows(self) -> int:
        """Length of y."""
        return sum(block.size for block in self.equations)

    @cached_property
    def noise(self) -> coo_array[np.float64]:
        """Covariance of the rows; zero where it does not matter, see :attr:`is_square`."""
        if self.is_square and not self.uncertainty and not self.switchable:
            return coo_array((self.n_rows, self.n_rows), dtype=np.float64)
        return coo_array(self.covariance)

    @cached_property
    def is_square(self) -> bool:
        """Whether laws and measurements are as many as the unknowns: noise then cancels."""
        per_body = 18 if self.unknowns.net_wrench else 12
        laws = per_body * self.robot.n_bodies + self.robot.nv
        rows = sum(
            int(np.any([term.pattern.any(axis=1) for term in block.terms], axis=0).sum())
            for block in self.equations
            if block.terms
        )
        return laws + rows == self.unknowns.size

    def columns(self, name: str) -> IntArray:
        """Columns of an output, flattened."""
        return self.unknowns.columns(cast(UnknownKind, name)).ravel()

    def size(self, name: str) -> int:
        """Length of an output, or of its standard deviations."""
        return self.n_rows if name in OF_ROWS else self.columns(name).size

    @cached_property
    def signature(self) -> Signature:
        """Inputs q, qd, y and, if anything is switchable, weight; outputs by name."""
        inputs = [("q", self.robot.nq), ("qd", self.robot.nv), ("y", self.n_rows)]
        if self.switchable:
            inputs.append(("weight", self.n_rows))
        outputs = [(name, self.size(name)) for name in self.outputs]
        outputs += [(f"std_{name}", self.size(name)) for name in self.uncertainty]
        return Signature(tuple(inputs), tuple(outputs))

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs); weights lie between 0 and 1."""
        extra = self.signature.n_inputs - self.robot.nq - self.robot.nv
        states = sample_states(self.robot, count, seed, extra)
        if self.switchable:
            rng = np.random.default_rng(seed + 1)
            states[:, -self.n_rows :] = rng.uniform(0.4, 0.9, (count, self.n_rows))
        return states

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of robot, equations (by their values at random states) and noise."""
        digest = hashlib.sha256(fingerprint_robot(self.robot).digest.encode())
        text = repr((self.outputs, self.uncertainty, self.switchable, self.signature))
        digest.update(text.encode())
        for block in self.equations:
            shape = [(t.unknown.kind, t.unknown.body, t.pattern.shape) for t in block.terms]
            digest.update(repr((block.name, block.size, shape)).encode())
        for state in sample_states(self.robot, 3, 5, 0).astype(np.float64):
            kin = Kinematics.at(self.robot, state[: self.robot.nq], state[self.robot.nq :])
            for block in self.equations:
                for term in block.terms:
                    digest.update(_bytes(term.pattern) + _bytes(term.entries(kin)))
                digest.update(_bytes(block.bias_at(kin)))
        noise = coo_array(self.covariance)
        for part in (noise.row, noise.col, noise.data):
            digest.update(_bytes(part))
        return digest.hexdigest()


def _bytes(values: object) -> bytes:
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()
