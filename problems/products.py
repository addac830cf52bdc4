"""Products with the derivatives of dynamics; no matrix is formed, each costs a few solves.

    problem.jvp(q, qd, given, direction)           J v: the answer's change along a direction
    problem.vjp(q, qd, given, weight)              J^T w: gradient of  w . answer
    problem.hvp(q, qd, given, weight, direction)   the change of that gradient along a direction

J are the matrices of ``problem.derivatives`` side by side: by q, qd and what is given, then by
external wrenches (n_bodies, 6) where ``f_ext`` is not None, then by the parameters of the robot
that ``parameters`` names. The answer, weight (nv,) and the tangent of q are those of
:mod:`problems.derivatives`. A direction is one vector of all variables in this order, or a
mapping of some of them by name; the others then stay. Gradients have the same order, and parts
by name (:class:`Gradient`).

hvp is how vjp changes from q to ``robot.integrate(q, v, 1)`` for small v; where q and v have
the same length it is the product of the symmetric Hessian of w . answer with v. The freedoms
of quaternion and planar joints do not commute, and there the order of both derivatives counts.

Machine code: ``problem.compile(outputs=["vjp"])`` is called with q, qd, what is given, [f_ext],
[parameters], [weight], [direction], as the product needs them (:mod:`dynsys.plan.products`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

import numpy as np

from dynsys.errors import SingularSystemError, StateError
from dynsys.kernel.build import dynamics_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.model.varying import varying_parameters
from dynsys.recursive.inputs import state_rows, wrench_rows
from dynsys.recursive.kinematics import WrenchInput, external_wrenches
from dynsys.types import Array, ArrayLike, float_array
from problems.inputs import apart_from, check_out

if TYPE_CHECKING:
    from problems.problem import AbstractDynamics

__all__ = ["DirectionInput", "Gradient", "ParameterInput", "ProductsOfDynamics"]

ParameterInput: TypeAlias = "Sequence[str] | Mapping[str, ArrayLike]"
"""Parameters of the robot by name, at the values they have in it or at those given."""


@final
class Gradient:
    """One number for each variable, in ``all``; parts by name. Leading axis N for a batch.

    ``q``, ``qd``, the name of what was given (``qdd``, ``torque`` or ``known``): (nv,) each;
    ``f_ext`` (n_bodies, 6) and ``parameters`` where they are variables.
    """

    __slots__ = ("_sizes", "all")

    def __init__(self, found: Array, sizes: Mapping[str, int]) -> None:
        self.all, self._sizes = found, sizes

    def _part(self, name: str) -> Array:
        if name not in self._sizes:
            raise AttributeError(f"this gradient is by {', '.join(self._sizes)}; not {name}")
        start = 0
        for other, size in self._sizes.items():
            if other == name:
                break
            start += size
        return self.all[..., start : start + self._sizes[name]]

    @property
    def q(self) -> Array:
        """By position: along v in ``robot.integrate(q, v, 1)``."""
        return self._part("q")

    @property
    def qd(self) -> Array:
        """By velocity."""
        return self._part("qd")

    @property
    def qdd(self) -> Array:
        """By what inverse dynamics is given."""
        return self._part("qdd")

    @property
    def torque(self) -> Array:
        """By what forward dynamics is given."""
        return self._part("torque")

    @property
    def known(self) -> Array:
        """By what hybrid dynamics is given."""
        return self._part("known")

    @property
    def f_ext(self) -> Array:
        """By external wrenches (n_bodies, 6), in the coordinates of the bodies."""
        part = self._part("f_ext")
        return part.reshape(*part.shape[:-1], -1, 6)

    @property
    def parameters(self) -> Array:
        """By the parameters that were named, in this order."""
        return self._part("parameters")

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} ({size})" for name, size in self._sizes.items())
        return f"Gradient({parts})"


DirectionInput: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | Gradient"


class ProductsOfDynamics:
    """What problems of dynamics offer beyond matrices of derivatives: products with them."""

    def jvp(
        self,
        q: Any,
        qd: Any,
        given: Any,
        direction: Any,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        out: Any = None,
    ) -> Array:
        """Change (nv,) of the answer along a direction: see :mod:`problems.products`.

        Parameters
        ----------
        q, qd, given, f_ext : those of :meth:`solve`.
        direction : vector of all variables, or a mapping of some of them by name.
        parameters : names of parameters of the robot that are variables too, or a mapping from
            names to values that stand in place of the robot's.
        out : where to write the result (nv,).

        Examples
        --------
        >>> import dynsys, problems
        >>> robot = dynsys.synthetic.chain(3)
        >>> inverse, state = problems.InverseDynamics(robot), ([1, 2, 3], [0, 0, 0], [4, 5, 6])
        >>> change = inverse.jvp(*state, {"qdd": [1, 0, 0]})
        >>> bool(np.allclose(change, dynsys.crba(robot, [1, 2, 3])[:, 0]))
        True
        """
        if f_ext is None and not len(parameters):
            found = np.empty(self._product("jvp").n_outputs) if out is None else out
            if self._product("jvp").fast(q, qd, given, direction, found):
                return cast("Array", found)
        state = (q, qd, given)
        return self._one("jvp", state, None, direction, f_ext, parameters, out)[0]

    def vjp(
        self,
        q: Any,
        qd: Any,
        given: Any,
        weight: Any,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        out: Any = None,
    ) -> Gradient:
        """Gradient of weight . answer by every variable: see :mod:`problems.products`.

        ``weight`` (nv,); the other parameters are those of :meth:`jvp`, ``out`` is as long as
        all variables together.

        Examples
        --------
        >>> import dynsys, problems
        >>> robot = dynsys.synthetic.chain(3)
        >>> forward, state = problems.ForwardDynamics(robot), ([1, 2, 3], [0, 0, 0], [4, 5, 6])
        >>> gradient = forward.vjp(*state, [1, 0, 0])
        >>> bool(np.allclose(gradient.q, forward.derivatives(*state).q[0]))
        True
        >>> forward.vjp(*state, [1, 0, 0], parameters=["link_3.mass"])
        Gradient(q (3), qd (3), torque (3), parameters (1))
        """
        if f_ext is None and not len(parameters):
            product = self._product("vjp")
            found = np.empty(product.n_outputs) if out is None else out
            if product.fast(q, qd, given, weight, found):
                return Gradient(found, product.sizes)
        state = (q, qd, given)
        return Gradient(*self._one("vjp", state, weight, None, f_ext, parameters, out))

    def hvp(
        self,
        q: Any,
        qd: Any,
        given: Any,
        weight: Any,
        direction: Any,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        out: Any = None,
    ) -> Gradient:
        """Change of :meth:`vjp` along a direction, second order: see :mod:`problems.products`.

        Parameters are those of :meth:`jvp` and :meth:`vjp`.

        Examples
        --------
        >>> import dynsys, problems
        >>> robot = dynsys.synthetic.chain(3)
        >>> inverse, state = problems.InverseDynamics(robot), ([1, 2, 3], [0, 0, 0], [4, 5, 6])
        >>> inverse.hvp(*state, [1, 1, 1], {"qdd": [1, 0, 0]}).qdd.tolist()  # linear in qdd
        [0.0, 0.0, 0.0]
        """
        if f_ext is None and not len(parameters):
            product = self._product("hvp")
            found = np.empty(product.n_outputs) if out is None else out
            if product.fast(q, qd, given, weight, direction, found):
                return Gradient(found, product.sizes)
        state = (q, qd, given)
        return Gradient(*self._one("hvp", state, weight, direction, f_ext, parameters, out))

    def jvp_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        direction: Any,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        threads: int = 1,
        out: Any = None,
    ) -> Array:
        """:meth:`jvp` at N states and directions, a row each: (N, nv).

        ``f_ext``, values of ``parameters`` and parts of a direction hold for all states or have
        a leading axis N.
        """
        state = (q, qd, given)
        asked = (f_ext, parameters, threads, out)
        return self._rows("jvp", state, None, direction, *asked)[0]

    def vjp_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        weight: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        threads: int = 1,
        out: Any = None,
    ) -> Gradient:
        """:meth:`vjp` at N states and weights, a row each; parts of the answer have axis N."""
        asked = (f_ext, parameters, threads, out)
        return Gradient(*self._rows("vjp", (q, qd, given), weight, None, *asked))

    def hvp_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        weight: ArrayLike,
        direction: Any,
        f_ext: WrenchInput = None,
        *,
        parameters: ParameterInput = (),
        threads: int = 1,
        out: Any = None,
    ) -> Gradient:
        """:meth:`hvp` at N states, weights and directions, a row each."""
        asked = (f_ext, parameters, threads, out)
        return Gradient(*self._rows("hvp", (q, qd, given), weight, direction, *asked))

    # ---- kernels, and the careful way ----------------------------------------------------

    @cached_property
    def _products(self) -> dict[tuple[str, bool, tuple[str, ...]], _Product]:
        """What was compiled, by output, wrenches and parameters."""
        return {}

    def _product(
        self, name: str, wrenches: bool = False, parameters: tuple[str, ...] = ()
    ) -> _Product:
        key = name, wrenches, parameters
        found = self._products.get(key)
        if found is None:
            me = cast("AbstractDynamics", self)
            me._refuse_constraints()
            spec = me._spec((name,), wrenches, None, parameters)
            found = _Product(dynamics_kernel(spec, backend=me._executes), spec.variables)
            self._products[key] = found
        return found

    def _one(
        self,
        name: str,
        state: Sequence[Any],
        weight: Any,
        direction: Any,
        f_ext: WrenchInput,
        parameters: ParameterInput,
        out: Any,
    ) -> tuple[Array, Mapping[str, int]]:
        """One state with all checks."""
        me = cast("AbstractDynamics", self)
        robot = me.robot
        q, qd, given = state
        checked = [robot.check_q(q), robot.check_v(qd, "qd"), robot.check_v(given, me.given)]
        wrenches = external_wrenches(robot, f_ext)
        product, values = self._asked(name, wrenches is not None, parameters, None)
        inputs = [*checked, *([] if wrenches is None else [wrenches.ravel()]), *values]
        if weight is not None:
            inputs.append(robot.check_v(weight, "weight"))
        if direction is not None:
            inputs.append(_direction(direction, product.sizes, None))
        target = None if out is None else (check_out(out, (product.n_outputs,)),)
        (found,), finite = product.kernel.one(*_apart(inputs, out), out=target)
        if not finite:
            self._refuse(name, "")
        return found, product.sizes

    def _rows(
        self,
        name: str,
        state: Sequence[Any],
        weight: Any,
        direction: Any,
        f_ext: WrenchInput,
        parameters: ParameterInput,
        threads: int,
        out: Any,
    ) -> tuple[Array, Mapping[str, int]]:
        me = cast("AbstractDynamics", self)
        robot = me.robot
        named = [*zip(("q", "qd", me.given), state, strict=True)]
        if weight is not None:
            named.append(("weight", weight))
        states = state_rows(robot, named)
        n = len(states[0])
        wrenches = wrench_rows(robot, f_ext, n)
        product, values = self._asked(name, wrenches is not None, parameters, n)
        inputs = [*states[:3], *([] if wrenches is None else [wrenches.reshape(n, -1)])]
        inputs += [*values, *states[3:]]
        if direction is not None:
            inputs.append(_direction(direction, product.sizes, n))
        target = None if out is None else (check_out(out, (n, product.n_outputs)),)
        given = _apart(inputs, out)
        (found,), finite = product.kernel.batch(*given, out=target, threads=threads)
        if not finite:
            bad = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
            for x, (what, _) in zip(inputs, product.kernel.signature.inputs, strict=True):
                if not np.isfinite(x[bad]).all():
                    raise StateError(f"state {bad}: {what} has a value that is not finite")
            robot.check_q(states[0][bad])
            self._refuse(name, f"state {bad}: ")
        return found, product.sizes

    def _asked(
        self, name: str, wrenches: bool, parameters: ParameterInput, n: int | None
    ) -> tuple[_Product, list[Array]]:
        """The product with these variables, and the values (or N rows of them) of parameters.

        ModelError names a parameter that the robot does not have.
        """
        robot = cast("AbstractDynamics", self).robot
        places = varying_parameters(
            robot, parameters if isinstance(parameters, str) else tuple(parameters)
        )
        names = tuple(parameters)
        product = self._product(name, wrenches, names)
        if not names:
            return product, []
        own = {name: at.value(robot.bodies) for name, at in zip(names, places, strict=True)}
        given = parameters if isinstance(parameters, Mapping) else own
        columns = [_numbers(f"parameter {x!r}", given[x], (), n) for x in names]
        return product, [np.stack(columns, axis=-1)]

    def _refuse(self, name: str, where: str) -> None:
        me = cast("AbstractDynamics", self)
        raise SingularSystemError(
            f"{where}robot {me.robot.name!r}: {name} is too large for numbers, or qdd is barely"
            " determined at this state; problem.derivatives solves with pivoting"
        )


@final
class _Product:
    """A kernel of one product, the machine code of one state, the variables with sizes."""

    __slots__ = ("fast", "kernel", "n_outputs", "sizes")

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int]) -> None:
        self.kernel, self.fast, self.sizes = kernel, kernel.fast, sizes
        self.n_outputs = kernel.signature.n_outputs


def _direction(direction: Any, sizes: Mapping[str, int], n: int | None) -> Array:
    """All variables of a direction as one vector, or N rows of them."""
    if isinstance(direction, Gradient):
        direction = direction.all
    if not isinstance(direction, Mapping):
        total = sum(sizes.values())
        return _numbers(f"direction of {', '.join(sizes)}", direction, (total,), n)
    for name in direction:
        if name not in sizes:
            raise StateError(f"direction: variables are {', '.join(sizes)}; not {name!r}")
    parts = []
    for name, size in sizes.items():
        shape = (size // 6, 6) if name == "f_ext" else (size,)
        given = direction.get(name, np.zeros(shape))
        part = _numbers(f"direction of {name}", given, shape, n)
        parts.append(part.reshape(*part.shape[: part.ndim - len(shape)], size))
    return np.concatenate(parts, axis=-1)


def _numbers(what: str, value: Any, shape: tuple[int, ...], n: int | None) -> Array:
    """Finite numbers of a shape, of one state; or of n, each its own or all the same."""
    try:
        array = float_array(value)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
    full = shape if n is None else (n, *shape)
    if array.shape not in (shape, full):
        raise StateError(f"{what} must have shape {full}, got {array.shape}")
    if not np.isfinite(array).all():
        raise StateError(f"{what} has a value that is not finite")
    return array if array.shape == full else np.broadcast_to(array, full)


def _apart(inputs: list[Array], out: Any) -> list[Array]:
    return inputs if out is None else list(apart_from(inputs, (out,)))
