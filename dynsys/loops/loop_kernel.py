"""LoopKernel: the dynamics of a large robot as compiled loops, called like a Kernel.

Straight-line code grows with the robot and takes its compiler seconds per thousand operations;
these loops are compiled once for all robots and run over its flat arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError
from dynsys.kernel.arguments import FloatArray, all_usable
from dynsys.kernel.calls import AbstractCompiledKernel
from dynsys.loops import flat as at
from dynsys.loops import states
from dynsys.loops.flat import flat_robot
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import DYNAMICS_OUTPUTS
from dynsys.program.signature import Signature
from dynsys.types import Array, ArrayLike, BoolArray

__all__ = [
    "OPERATIONS_LIMIT",
    "AbstractLoopKernel",
    "LoopInertiaMatrix",
    "LoopKernel",
    "crba",
    "estimated_operations",
    "prefer_loops",
]

_BITS = {
    "torque": at.TORQUE_OUT,
    "qdd": at.QDD_OUT,
    "acceleration": at.ACCELERATION_OUT,
    "joint_wrench": at.WRENCH_OUT,
}
_UNUSED = np.empty((0, 0))


class AbstractLoopKernel(AbstractCompiledKernel):
    """Loops with a signature, and a workspace for every thread that is inside.

    Arithmetic is float64 throughout; ``dtype`` is that of the outputs.
    """

    def __init__(
        self, robot: KinematicTree, known: BoolArray, signature: Signature, dtype: str
    ) -> None:
        if dtype not in ("float64", "float32"):
            raise KernelBuildError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
        super().__init__(signature, dtype, "float64", 1)
        self._shapes = [(size,) for _, size in signature.groups]
        self._n_inputs = len(signature.inputs)
        self._flat = flat_robot(robot)
        self._model = tuple(self._flat.model(known))
        self._free: list[tuple[Array, ...]] = []

    @abstractmethod
    def _run_rows(self, inputs: list[FloatArray], outputs: list[FloatArray]) -> bool:
        """Solve all rows in this thread; whether all outputs are finite."""

    @property
    @abstractmethod
    def _forms_matrix(self) -> bool: ...

    def _take_work(self) -> tuple[Array, ...]:
        """A workspace for one thread, to be put back into ``_free`` after use."""
        try:
            return self._free.pop()
        except IndexError:
            return tuple(self._flat.workspace(matrix=self._forms_matrix))

    def fast(self, *arrays: Any) -> bool | None:
        """Inputs, then outputs, used as they are: whether all results are finite, else None.

        Inputs are read before outputs are written: they may overlap.
        """
        if len(arrays) != len(self._shapes):
            return None
        for array, shape in zip(arrays, self._shapes, strict=True):
            if type(array) is not np.ndarray or array.shape != shape:
                return None
            if array.dtype != self.arithmetic or not array.flags.aligned:
                return None
        if not all(array.flags.writeable for array in arrays[self._n_inputs :]):
            return None
        return self._split([array[None] for array in arrays])

    def _fast_rows(self, arrays: Sequence[Any], part: int, parts: int) -> bool | None:
        if not all_usable(arrays, self.signature, self.arithmetic, rows=True, apart=True):
            return None
        n = len(arrays[0])
        rows = slice(n * part // parts, n * (part + 1) // parts)
        return self._split([array[rows] for array in arrays])

    def _split(self, arrays: list[FloatArray]) -> bool:
        return self._run_rows(arrays[: self._n_inputs], arrays[self._n_inputs :])


@final
class LoopKernel(AbstractLoopKernel):
    """Inverse, forward or hybrid dynamics of one robot, O(n_bodies) per state.

    Same inputs, outputs and results as the kernel of
    :func:`dynsys.plan.record.dynamics_program`. With coupled (mimic) joints and an unknown
    qdd the tree's sparsity is gone: the inertia matrix is formed and solved densely, O(nv^3).

    Parameters
    ----------
    robot : the robot.
    known : (nv,) freedoms whose qdd is given; of the others the torque is.
    given : name of the input vector (nv,) that holds them.
    outputs : any of ``torque, qdd, acceleration, joint_wrench``, in the order wanted.
    wrenches : external wrenches (6 n_bodies,), body coordinates, are a further input.
    dtype : "float64" or "float32", that of the outputs; arithmetic is float64.

    Raises
    ------
    ModelError
        if only some freedoms of a joint are known.
    KernelBuildError
        if an output is none of those above.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(200)
    >>> kernel = LoopKernel(robot, np.ones(200, dtype=bool), "qdd", ("torque",))
    >>> (torque,), finite = kernel.one(np.zeros(200), np.zeros(200), np.zeros(200))
    >>> torque.shape, finite
    ((200,), True)
    """

    def __init__(
        self,
        robot: KinematicTree,
        known: ArrayLike,
        given: str,
        outputs: Sequence[str],
        wrenches: bool = False,
        dtype: str = "float64",
    ) -> None:
        mask = np.asarray(known)
        if mask.shape != (robot.nv,) or mask.dtype != np.bool_:
            raise KernelBuildError(f"known: expected {robot.nv} booleans, got {known!r}")
        wrong = [name for name in outputs if name not in _BITS]
        if wrong:
            raise KernelBuildError(f"unknown outputs {wrong}; choose from {DYNAMICS_OUTPUTS}")
        groups = [("q", robot.nq), ("qd", robot.nv), (given, robot.nv)]
        if wrenches:
            groups.append(("f_ext", 6 * robot.n_bodies))
        bodies = 6 * robot.n_bodies
        sizes = {"acceleration": bodies, "joint_wrench": bodies}
        results = tuple((name, sizes.get(name, robot.nv)) for name in outputs)
        super().__init__(robot, mask, Signature(tuple(groups), results), dtype)
        self._want = sum(_BITS[name] for name in outputs)
        self._push = bool(wrenches)
        self._places = [
            list(outputs).index(n) if n in outputs else -1 for n in DYNAMICS_OUTPUTS
        ]
        self._dense = robot.is_coupled and not mask.all()
        all_known = bool(mask.all())
        self._states = states.inverse_states() if all_known else states.forward_states()

    @property
    def _forms_matrix(self) -> bool:
        return self._dense

    def _run_rows(self, inputs: list[FloatArray], outputs: list[FloatArray]) -> bool:
        given = tuple(inputs) if self._push else (*inputs, inputs[0])
        results = tuple([outputs[k] if k >= 0 else _UNUSED for k in self._places])
        work = self._take_work()
        finite = self._states(self._model, work, self._want, self._push, given, results)
        self._free.append(work)
        return bool(finite)


@final
class LoopInertiaMatrix(AbstractLoopKernel):
    """Joint-space inertia matrix: input q (nq,), output H (nv nv,) by rows. O(n depth)."""

    def __init__(self, robot: KinematicTree, dtype: str = "float64") -> None:
        signature = Signature((("q", robot.nq),), (("H", robot.nv**2),))
        super().__init__(robot, np.ones(robot.nv, dtype=bool), signature, dtype)
        self._states = states.inertia_states()

    @property
    def _forms_matrix(self) -> bool:
        return True

    def _run_rows(self, inputs: list[FloatArray], outputs: list[FloatArray]) -> bool:
        work = self._take_work()
        finite = self._states(self._model, work, inputs[0], outputs[0])
        self._free.append(work)
        return bool(finite)


def crba(robot: KinematicTree, q: ArrayLike) -> Array:
    """Joint-space inertia matrix H (nv, nv) at q (nq,) by loops, armature included.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(5)
    >>> bool(np.allclose(crba(robot, robot.neutral()), dynsys.crba(robot, robot.neutral())))
    True
    """
    (H,), _ = LoopInertiaMatrix(robot).one(robot.check_q(q))
    matrix: NDArray[np.float64] = H.reshape(robot.nv, robot.nv)
    return matrix


# ---- when loops are the better choice ----------------------------------------------------
#
# Straight-line code runs 3 to 8 times faster than the loops, even for 200 bodies, but takes
# 0.27 ms per operation to plan and compile: 8 s for the forward dynamics of a chain of 100
# joints with generic frames (29 000 operations), 17 s for one of 200 (65 000). The loops are
# compiled once for all robots.

OPERATIONS_LIMIT = 40_000
"""Operations that straight-line code may have: about ten seconds to plan and compile."""
WIDEST_SPREAD = 1e15
"""Ratio of inertias above which specialised code would take the light ones for rounding."""

_OPERATIONS = {
    "fixed": 100,
    "prismatic": 250,
    "revolute": 300,
    "helical": 350,
    "cylindrical": 350,
    "planar": 400,
    "spherical": 500,
    "free": 500,
}
"""Operations of forward dynamics per joint, generic frames, as counted on trees of one kind."""


def estimated_operations(robot: KinematicTree) -> int:
    """Operations, within a factor of two, of straight-line forward dynamics.

    Examples
    --------
    >>> import dynsys
    >>> estimated_operations(dynsys.synthetic.chain(100))
    30000
    """
    return sum(_OPERATIONS.get(joint.kind, 500) for joint in robot.joints)


def prefer_loops(robot: KinematicTree, limit: int = OPERATIONS_LIMIT) -> bool:
    """True where straight-line code would take too long to compile, or lose light bodies.

    Examples
    --------
    >>> import dynsys
    >>> prefer_loops(dynsys.synthetic.chain(100)), prefer_loops(dynsys.synthetic.chain(300))
    (False, True)
    """
    return estimated_operations(robot) > limit or _inertia_spread(robot) > WIDEST_SPREAD


def _inertia_spread(robot: KinematicTree) -> float:
    """Largest over smallest inertia of bodies that have one: what sums are made of.

    It counts by its moments about the joint, that of a point mass in it by its mass.
    """
    matrices = [np.abs(moments.matrix()) for moments in robot.moments]
    sizes = [float(one[:3, :3].max() or one.max()) for one in matrices]
    nonzero = [size for size in sizes if size > 0]
    return max(nonzero) / min(nonzero) if nonzero else 1.0
