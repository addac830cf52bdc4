"""Problems as functions of PyTorch: autograd both ways, batches, ``torch.func``.

Tensors on the CPU and NumPy arrays share memory: kernels read them in place and write new
ones. One state goes to ``kernel.one``, leading axes and what ``torch.func.vmap`` makes of them
to ``kernel.batch``. The backward pass computes J, for the inputs that need it, by its kernel
and J^T times the gradient by PyTorch; second derivatives come from the Hessian of each answer.
Products of small matrices are written out: PyTorch's own of a batch take some hundred times
longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynsys.errors import StateError
from dynsys.interop.functions import (
    DType,
    PlainFunction,
    imported,
    lower_triangle,
)
from dynsys.interop.questions import DynamicsProblem, EstimationProblem
from dynsys.kernel.kernel import Kernel

__all__ = ["torch_function"]


def torch_function(
    problem: DynamicsProblem | EstimationProblem,
    *,
    answer: str = "",
    wrenches: bool = False,
    parameters: Sequence[str] = (),
    dtype: DType = "float64",
) -> Callable[..., Any]:
    """answer = f(q, qd, given or y, [f_ext], [parameters]) for PyTorch, on the CPU.

    ``backward``, ``torch.autograd.functional``, forward-mode derivatives and ``torch.func``
    (``vmap``, ``grad``, ``jacrev``, ``jacfwd``, ``hessian``) work; third derivatives raise an
    error. Answers are NaN where the problem has no finite one.

    Parameters
    ----------
    problem : inverse, forward or hybrid dynamics; the answer (..., nv) is torque, qdd, or in
        hybrid dynamics torque of the freedoms whose qdd is given and qdd of the others. Or an
        estimation, whose inputs are q, qd and all readings y.
    answer : the quantity of an estimation that is answered, ``torque`` by default.
    wrenches : True makes external wrenches (..., 6 n_bodies) a further input.
    parameters : names of parameters of the robot whose values (..., n) are the last input.
    dtype : of the computation and the answer. Tensors of float32 are taken as float64 where
        that is asked for, never the other way.

    Returns
    -------
    f : takes tensors whose leading axes broadcast against each other. Derivatives by q (nq,)
        are plain ones; quaternions of any length count as what they are normalised, see
        :mod:`dynsys.interop.functions`.
    """
    torch = imported("torch")
    f = PlainFunction(
        problem, answer=answer, wrenches=wrenches, parameters=parameters, dtype=dtype
    )
    number = getattr(torch, dtype)

    Function: Any = torch.autograd.Function

    def in_front(info: Any, places: Any, inputs: Any) -> list[Any]:
        """Inputs with the axis of a vmap in front of the others."""
        return [
            x.expand(info.batch_size, *x.shape) if place is None else x.movedim(place, 0)
            for x, place in zip(inputs, places, strict=True)
        ]

    class Curvature(Function):  # type: ignore[misc]
        """Second derivatives (..., answers, n, n) by all inputs: a Hessian for each answer."""

        @staticmethod
        def forward(*inputs: Any) -> Any:
            shape = (*inputs[0].shape[:-1], f.size)
            rows = [x.unsqueeze(-2).expand(*shape, x.shape[-1]) for x in inputs]
            unit = torch.eye(f.size, dtype=number).expand(*shape, f.size)
            (lower,) = _run(torch, f.hessian, [*rows, unit])
            return lower[..., torch.from_numpy(lower_triangle(f.width(tuple(f.inputs))))]

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            raise StateError(f"third derivatives of {f.answer} are not there")

        jvp = backward

        @staticmethod
        def vmap(info: Any, places: Any, *inputs: Any) -> Any:
            return Curvature.apply(*in_front(info, places, inputs)), 0

    class Derivatives(Function):  # type: ignore[misc]
        """J (..., answers, columns) by some inputs."""

        @staticmethod
        def forward(by: tuple[str, ...], *inputs: Any) -> Any:
            _, J = _run(torch, f.jacobian(by), inputs)
            return J.reshape(*J.shape[:-1], f.size, f.width(by))

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.by, *saved = inputs
            context.save_for_backward(*saved)
            context.save_for_forward(*saved)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            K = Curvature.apply(*context.saved_tensors)[..., f.columns(context.by), :]
            pulled = (K * gradient.unsqueeze(-1)).sum((-3, -2))
            return None, *pulled.split(list(f.inputs.values()), -1)

        @staticmethod
        def jvp(context: Any, _: Any, *directions: Any) -> Any:
            moved = [x for x, t in zip(f.inputs, directions, strict=True) if t is not None]
            K = Curvature.apply(*context.saved_tensors)[..., f.columns(context.by), :]
            t = torch.cat([t for t in directions if t is not None], -1)
            return (K[..., f.columns(moved)] * t[..., None, None, :]).sum(-1)

        @staticmethod
        def vmap(info: Any, places: Any, by: tuple[str, ...], *inputs: Any) -> Any:
            return Derivatives.apply(by, *in_front(info, places[1:], inputs)), 0

    class Answer(Function):  # type: ignore[misc]
        @staticmethod
        def forward(*inputs: Any) -> Any:
            return _run(torch, f.value, inputs)[0]

        @staticmethod
        def setup_context(context: Any, inputs: Any, output: Any) -> None:
            context.save_for_backward(*inputs)
            context.save_for_forward(*inputs)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            by = [x for x, yes in zip(f.inputs, context.needs_input_grad, strict=True) if yes]
            J = Derivatives.apply(tuple(by), *context.saved_tensors)
            pulled = (gradient.unsqueeze(-1) * J).sum(-2)
            parts = dict(zip(by, pulled.split([f.inputs[x] for x in by], -1), strict=True))
            return tuple(parts.get(x) for x in f.inputs)

        @staticmethod
        def jvp(context: Any, *directions: Any) -> Any:
            moved = {
                name: direction
                for name, direction in zip(f.inputs, directions, strict=True)
                if direction is not None
            }
            J = Derivatives.apply(tuple(moved), *context.saved_tensors)
            return (J * torch.cat(list(moved.values()), -1).unsqueeze(-2)).sum(-1)

        @staticmethod
        def vmap(info: Any, places: Any, *inputs: Any) -> Any:
            return Answer.apply(*in_front(info, places, inputs)), 0

    def function(*inputs: Any) -> Any:
        f.check_count(inputs)
        tensors = [torch.as_tensor(x) for x in inputs]
        for name, x in zip(f.inputs, tensors, strict=True):
            if x.device.type != "cpu":
                raise StateError(f"{name} is on {x.device}; kernels run on the CPU: x.cpu()")
        shape = f.common_shape([x.shape for x in tensors], [x.dtype for x in tensors])
        return Answer.apply(
            *(
                torch.broadcast_to(x.to(number), (*shape, size))
                for x, size in zip(tensors, f.inputs.values(), strict=True)
            )
        )

    function.__name__ = f.answer
    function.__doc__ = f.described()
    return function


def _run(torch: Any, kernel: Kernel, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of a kernel as new tensors, with the leading axes that all inputs share."""
    shape = inputs[0].shape[:-1]
    arrays = [x.detach().contiguous().numpy() for x in inputs]
    if not shape:
        found, _ = kernel.one(*arrays)
    else:
        rows = [x.reshape(shape.numel(), x.shape[-1]) for x in arrays]
        found = kernel.batch(*rows)[0] if shape.numel() else kernel.empty_rows(0)
    return [torch.from_numpy(x.reshape(*shape, x.shape[-1])) for x in found]
