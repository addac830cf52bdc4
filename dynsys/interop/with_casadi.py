"""Problems as functions of CasADi, with Jacobian, gradient and exact Hessian, for its solvers.

CasADi asks a function f for other functions by their names:

    jac_f        derivatives of the answer by every input, sparse (branch-induced)
    adj1_f       J^T w, the gradient of w . answer
    jac_adj1_f   its derivatives: the Hessian of w . answer, and J^T

Each is a kernel, or two, and a list of which numbers of theirs are the nonzeros of its outputs.
Where a C compiler is at hand they are functions of CasADi's C interface in a small library that
jumps into the machine code of the kernels (:func:`_library_text`); a call then costs what a
call in C costs. Without a compiler they are callbacks, some microseconds of Python each.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.interop.functions import (
    PlainFunction,
    imported,
    kept_for_ever,
    lower_triangle,
)
from dynsys.interop.questions import DynamicsProblem, EstimationProblem
from dynsys.kernel.kernel import Kernel, as_machine_code
from dynsys.types import BoolArray, IntArray

__all__ = ["casadi_function"]

Through: TypeAlias = Literal["auto", "library", "callback"]
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = {"enable_forward": False}
"""Products with J are formed by J itself."""


def casadi_function(
    problem: DynamicsProblem | EstimationProblem,
    *,
    answer: str = "",
    wrenches: bool = False,
    parameters: Sequence[str] = (),
    hessian: bool = True,
    name: str = "",
    through: Through = "auto",
) -> Any:
    """answer = f(q, qd, given or y, [f_ext], [parameters]) as a ``casadi.Function``.

    It has exact first and second derivatives and can stand in any expression of CasADi, in
    ``nlpsol`` with IPOPT and its exact Hessian among others. Answers are NaN where the problem
    has no finite one.

    Parameters
    ----------
    problem : inverse, forward or hybrid dynamics; the answer (nv,) is torque, qdd, or in
        hybrid dynamics torque of the freedoms whose qdd is given and qdd of the others. Or an
        estimation, whose inputs are q, qd and all readings y.
    answer : the quantity of an estimation that is answered, ``torque`` by default.
    wrenches : True makes external wrenches (6 n_bodies,) a further input.
    parameters : names of parameters of the robot whose values (n,) are the last input.
    hessian : False leaves out second derivatives, whose code takes a minute to compile for
        forward dynamics of a humanoid; IPOPT then needs
        ``{"ipopt.hessian_approximation": "limited-memory"}``.
    name : of the function; by default ``torque``, ``qdd`` ..., as it answers.
    through : ``library``, for which a C compiler must be there; ``callback``; ``auto`` is the
        first if it can be, else the second.

    Returns
    -------
    f : takes columns. Derivatives by q (nq,) are plain ones; quaternions of any length count
        as what they are normalised, see :mod:`dynsys.interop.functions`. Its machine code
        stays in memory for good.

    Raises
    ------
    KernelBuildError
        if the name cannot be used in C, or a library is asked for and cannot be made.

    Examples
    --------
    >>> import dynsys, problems, casadi
    >>> robot = dynsys.synthetic.chain(3)
    >>> f = casadi_function(problems.InverseDynamics(robot))
    >>> x = casadi.MX.sym("x", 3)
    >>> H = casadi.Function("H", [x], [casadi.jacobian(f([1, 1, 1], 0, x), x)])
    >>> bool(np.allclose(H([0, 0, 0]).full(), dynsys.crba(robot, [1, 1, 1])))
    True
    """
    casadi = imported("casadi")
    f = PlainFunction(problem, answer=answer, wrenches=wrenches, parameters=parameters)
    nodes = _family(f, name or f.answer, hessian)
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if through not in ("auto", "library", "callback"):
        raise KernelBuildError(f"through must be auto, library or callback, got {through!r}")
    if through == "library" and compiler is None:
        raise KernelBuildError(
            f"no C compiler ({', '.join(COMPILERS)}) is there; through='callback' needs none"
        )
    kept_for_ever([kernel for node in nodes.values() for kernel in node.kernels])
    if compiler is None or through == "callback":
        found = _callback(casadi, nodes, name or f.answer)
        kept_for_ever(found)
        return found
    return _external(casadi, nodes, name or f.answer, compiler)


# ---- f and what is derived from it -----------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """An output: nonzeros (pattern) and where in the kernels' outputs they are, by column."""

    name: str
    pattern: BoolArray
    places: IntArray

    @staticmethod
    def of(name: str, places: IntArray, pattern: BoolArray) -> _Block:
        """From places of all entries of a matrix."""
        return _Block(name, pattern, places.T[pattern.T])


@final
@dataclass(frozen=True, eq=False)
class _Node:
    """A function: inputs with lengths and whether they are read, kernels, outputs."""

    inputs: tuple[tuple[str, int, bool], ...]
    kernels: tuple[Kernel, ...]
    outputs: tuple[_Block, ...]

    @property
    def reads(self) -> list[list[int]]:
        """Which inputs each kernel takes."""
        names = [name for name, _, _ in self.inputs]
        weight = next((x for x in names if x.startswith("adj_")), "")
        return [
            [names.index(weight if x == "weight" else x) for x, _ in kernel.signature.inputs]
            for kernel in self.kernels
        ]

    @property
    def scratch(self) -> int:
        """Numbers that all kernels write."""
        return sum(kernel.signature.n_outputs for kernel in self.kernels)


def _nonzero(kernel: Kernel) -> BoolArray:
    assert kernel.nonzero is not None  # known of every program
    return kernel.nonzero


def _family(f: PlainFunction, name: str, hessian: bool) -> dict[str, _Node]:
    """The functions f, jac_f, adj1_f and, with the Hessian, jac_adj1_f by name."""
    names, n, m = tuple(f.inputs), f.width(tuple(f.inputs)), f.size
    ends = np.cumsum([0, *f.inputs.values()])
    part = {x: slice(a, b) for x, a, b in zip(names, ends[:-1], ends[1:], strict=True)}
    plain = tuple((x, size, True) for x, size in f.inputs.items())
    given = (*plain, (f"out_{f.answer}", m, False))
    weighted = (*given, (f"adj_{f.answer}", m, True))
    known = (*weighted, *((f"out_adj_{x}", size, False) for x, size in f.inputs.items()))

    def column(title: str, start: int, size: int) -> _Block:
        return _Block(title, np.ones((size, 1), dtype=bool), np.arange(start, start + size))

    J = f.jacobian(names)
    J_places = m + np.arange(m * n).reshape(m, n)
    J_pattern = _nonzero(J)[m:].reshape(m, n)
    jacobian = [
        _Block.of(f"jac_{f.answer}_{x}", J_places[:, part[x]], J_pattern[:, part[x]])
        for x in names
    ]
    gradient = [column(f"adj_{x}", part[x].start, f.inputs[x]) for x in names]
    nodes = {
        name: _Node(plain, (f.value,), (column(f.answer, 0, m),)),
        f"jac_{name}": _Node(given, (J,), tuple(jacobian)),
        f"adj1_{name}": _Node(weighted, (f.gradient,), tuple(gradient)),
    }
    if not hessian:
        return nodes
    # second derivatives: H, by what f answers (nothing), by the weight (J^T)
    H_places = lower_triangle(n)
    H_pattern, J_behind = (
        _nonzero(f.hessian)[H_places],
        J_places + f.hessian.signature.n_outputs,
    )
    second: list[_Block] = []
    for x in names:
        rows = part[x]
        for y in names:
            at = rows, part[y]
            second.append(_Block.of(f"jac_adj_{x}_{y}", H_places[at], H_pattern[at]))
        nothing = np.zeros((f.inputs[x], m), dtype=bool)
        second.append(_Block.of(f"jac_adj_{x}_out_{f.answer}", J_places.T[rows], nothing))
        second.append(
            _Block.of(f"jac_adj_{x}_adj_{f.answer}", J_behind.T[rows], J_pattern.T[rows])
        )
    return nodes | {f"jac_adj1_{name}": _Node(known, (f.hessian, J), tuple(second))}


# ---- through a library -----------------------------------------------------------------------


def _external(casadi: Any, nodes: Mapping[str, _Node], name: str, compiler: str) -> Any:
    """Compile the library, load it, forget its file."""
    with tempfile.TemporaryDirectory(prefix="dynsys-casadi-") as folder:
        source, library = Path(folder, "f.c"), Path(folder, "f.so")
        source.write_text("".join(_library_text(nodes)), encoding="ascii")
        flags = ("-std=c99", "-O1", "-shared", "-fPIC", "-o")
        command = [compiler, *flags, str(library), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise KernelBuildError(
                f"{compiler} could not make a library for CasADi (is {name!r} a name in C?):"
                f" {done.stderr.strip()[:500]}"
            )
        return casadi.external(name, str(library), OPTIONS)


def _library_text(nodes: Mapping[str, _Node]) -> Iterator[str]:
    """C source: for each function what CasADi asks of it, and a jump into its kernels.

    An input that CasADi leaves out is zero, an output that it leaves out is not wanted.
    """
    most = max(size for node in nodes.values() for _, size, _ in node.inputs)
    yield "typedef long long casadi_int;\n"
    yield f"static const double zeros[{max(1, most)}];\n"
    for name, node in nodes.items():
        yield _shapes_text(name, node)
        given = "".join(
            f"  const double* in{k} = arg[{k}] ? arg[{k}] : zeros;\n"
            for k, (_, _, is_read) in enumerate(node.inputs)
            if is_read
        )
        calls, start = "", 0
        for kernel, reads in zip(node.kernels, node.reads, strict=True):
            passed = [f"in{k}" for k in reads]
            for _, size in kernel.signature.outputs:
                passed.append(f"w + {start}")
                start += size
            types = ["const double*"] * len(reads)
            types += ["double*"] * (len(passed) - len(reads))
            kind = f"void (*)({', '.join(types)})"
            address = as_machine_code(kernel, "a function of CasADi").address
            calls += f"  (({kind}){address}ULL)({', '.join(passed)});\n"
        gathered = "".join(
            f"  if (res[{k}]) for (k = 0; k < {len(block.places)}; ++k)"
            f" res[{k}][k] = w[{name}_places{k}[k]];\n"
            for k, block in enumerate(node.outputs)
            if len(block.places)
        )
        yield (
            f"int {name}(const double** arg, double** res, casadi_int* iw, double* w,"
            f" int mem) {{\n  int k;\n{given}{calls}{gathered}"
            "  (void)k; (void)iw; (void)mem;\n  return 0;\n}\n"
        )


def _shapes_text(name: str, node: _Node) -> str:
    """Tables of names, sparsities and places, and the functions that give them."""
    patterns = [np.full((size, 1), is_read) for _, size, is_read in node.inputs]
    patterns += [block.pattern for block in node.outputs]
    text = ""
    for k, pattern in enumerate(patterns):
        text += f"static const casadi_int {name}_s{k}[] = {{{_sparsity(pattern)}}};\n"
    for k, block in enumerate(node.outputs):
        if len(block.places):
            places = ", ".join(map(str, block.places))
            text += f"static const int {name}_places{k}[] = {{{places}}};\n"
    n, m = len(node.inputs), len(node.outputs)
    sides = {
        "in": ([x for x, _, _ in node.inputs], 0),
        "out": ([block.name for block in node.outputs], n),
    }
    for side, (names, first) in sides.items():
        listed = ", ".join(f'"{x}"' for x in names)
        tables = ", ".join(f"{name}_s{first + k}" for k in range(len(names)))
        text += f"""\
casadi_int {name}_n_{side}(void) {{ return {len(names)}; }}
const char* {name}_name_{side}(casadi_int i) {{
  static const char* const names[] = {{{listed}}};
  return i < {len(names)} ? names[i] : 0;
}}
const casadi_int* {name}_sparsity_{side}(casadi_int i) {{
  static const casadi_int* const tables[] = {{{tables}}};
  return i < {len(names)} ? tables[i] : 0;
}}
"""
    return (
        text
        + f"""\
int {name}_work(casadi_int* n_arg, casadi_int* n_res, casadi_int* n_iw, casadi_int* n_w) {{
  *n_arg = {n}; *n_res = {m}; *n_iw = 0; *n_w = {node.scratch};
  return 0;
}}
"""
    )


def _sparsity(pattern: BoolArray) -> str:
    """Rows, columns, starts of columns, then the row of every nonzero."""
    starts = np.cumsum([0, *pattern.sum(axis=0)])
    rows = np.nonzero(pattern.T)[1]
    return ", ".join(map(str, (*pattern.shape, *starts, *rows)))


# ---- through callbacks -----------------------------------------------------------------------


def _callback(casadi: Any, nodes: Mapping[str, _Node], name: str) -> Any:
    """The same functions as callbacks, which CasADi asks for each other."""

    def sparsity(pattern: BoolArray) -> Any:
        rows, columns = np.nonzero(pattern)
        return casadi.Sparsity.triplet(*pattern.shape, rows.tolist(), columns.tolist())

    class Callback(casadi.Callback):  # type: ignore[misc]
        def __init__(self, name: str, options: Mapping[str, Any]) -> None:
            casadi.Callback.__init__(self)
            self._name, self._node = name, nodes[name]
            self._derived: dict[str, Any] = {}  # CasADi does not keep them
            self.construct(name, {**OPTIONS, **options})

        def get_n_in(self) -> int:
            return len(self._node.inputs)

        def get_n_out(self) -> int:
            return len(self._node.outputs)

        def get_name_in(self, k: int) -> str:
            return self._node.inputs[k][0]

        def get_name_out(self, k: int) -> str:
            return self._node.outputs[k].name

        def get_sparsity_in(self, k: int) -> Any:
            _, size, is_read = self._node.inputs[k]
            return sparsity(np.full((size, 1), is_read))

        def get_sparsity_out(self, k: int) -> Any:
            return sparsity(self._node.outputs[k].pattern)

        def has_eval_buffer(self) -> bool:
            return True

        def eval_buffer(self, given: Sequence[Any], wanted: Sequence[Any]) -> int:
            node = self._node
            arrays = [
                np.zeros(size) if x is None else np.frombuffer(x)
                for x, (_, size, _) in zip(given, node.inputs, strict=True)
            ]
            written: list[Any] = []
            for kernel, reads in zip(node.kernels, node.reads, strict=True):
                written += kernel.one(*(arrays[k] for k in reads))[0]
            numbers = np.concatenate(written)
            for block, result in zip(node.outputs, wanted, strict=True):
                if result is not None:
                    np.frombuffer(result)[:] = numbers[block.places]
            return 0

        def has_jac_sparsity(self, output: int, given: int) -> bool:
            return self.has_jacobian()

        def get_jac_sparsity(self, output: int, given: int, symmetric: bool) -> Any:
            blocks = nodes[f"jac_{self._name}"].outputs
            return sparsity(blocks[output * len(self._node.inputs) + given].pattern)

        def _derivative(self, name: str, options: Mapping[str, Any]) -> Any:
            self._derived[name] = found = Callback(name, options)
            return found

        def has_jacobian(self) -> bool:
            return f"jac_{self._name}" in nodes

        def get_jacobian(self, name: str, inputs: Any, outputs: Any, options: Any) -> Any:
            return self._derivative(name, options)

        def has_reverse(self, count: int) -> bool:
            return count == 1 and f"adj1_{self._name}" in nodes

        def get_reverse(
            self, count: int, name: str, inputs: Any, outputs: Any, options: Any
        ) -> Any:
            return self._derivative(name, options)

    return Callback(name, {})
