"""Signature of a kernel: which named vectors it reads and which it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dynsys.errors import KernelBuildError, StateError

__all__ = ["Signature"]


@final
@dataclass(frozen=True)
class Signature:
    """Named groups of inputs and outputs, each a vector of fixed size.

    A program's inputs are the concatenation of the input groups, its outputs the concatenation
    of the output groups.

    Examples
    --------
    >>> s = Signature(inputs=(("q", 7), ("qd", 6)), outputs=(("torque", 6),))
    >>> s.n_inputs, s.n_outputs, s.input_place(8)
    (13, 6, (1, 1))
    """

    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        given, wanted = ([name for name, _ in side] for side in (self.inputs, self.outputs))
        for name in wanted:
            if name in given:
                raise KernelBuildError(f"output {name!r} is an input here; leave it out")
        for name in (*given, *wanted):
            if (*given, *wanted).count(name) > 1:
                raise KernelBuildError(f"{name!r} is asked for twice; leave one out")
        if any(size < 0 for _, size in self.groups):
            raise KernelBuildError(f"kernel signature has a negative size: {self.groups}")

    def __str__(self) -> str:
        """Return "q (7), qd (6) -> torque (6)"."""
        sides = (self.inputs, self.outputs)
        return " -> ".join(", ".join(f"{name} ({n})" for name, n in side) for side in sides)

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """All groups: inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def n_inputs(self) -> int:
        """Numbers read per state."""
        return sum(size for _, size in self.inputs)

    @property
    def n_outputs(self) -> int:
        """Numbers written per state."""
        return sum(size for _, size in self.outputs)

    def require(self, n_inputs: int, n_outputs: int) -> None:
        """KernelBuildError unless a program of these sizes can have a kernel so called."""
        if (self.n_inputs, self.n_outputs) != (n_inputs, n_outputs):
            raise KernelBuildError(
                f"the signature has {self.n_inputs} inputs and {self.n_outputs} outputs, the"
                f" program {n_inputs} and {n_outputs}"
            )
        if not self.inputs or not self.outputs:
            raise KernelBuildError("a kernel needs at least one input and one output group")

    def check_count(self, inputs: Sequence[Any], out: Sequence[Any] | None) -> None:
        """Refuse too few or too many arrays; StateError names those that are expected."""
        if len(inputs) != len(self.inputs):
            names = [name for name, _ in self.inputs]
            raise StateError(f"expected {len(names)} arguments {names}, got {len(inputs)}")
        if out is not None and len(out) != len(self.outputs):
            names = [name for name, _ in self.outputs]
            raise StateError(f"out: expected {len(names)} arrays {names}, got {len(out)}")

    def input_place(self, number: int) -> tuple[int, int]:
        """(group, index in it) of an input of the program."""
        return _place(self.inputs, number)

    def output_place(self, number: int) -> tuple[int, int]:
        """(group counted among the outputs, index in it) of an output of the program."""
        return _place(self.outputs, number)


def _place(groups: tuple[tuple[str, int], ...], number: int) -> tuple[int, int]:
    for group, (_, size) in enumerate(groups):
        if number < size:
            return group, number
        number -= size
    raise KernelBuildError(f"number {number} lies beyond the groups {groups}")
