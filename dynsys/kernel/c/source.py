"""A program as dependency-free C99: ``void name(const double *q, ..., double *torque)``.

Beside ``name.c`` and ``name.h`` (``name.hpp`` for C++, :mod:`dynsys.kernel.c.cpp`) goes what a
user needs to trust them: a self-test with reference values, a CMake file, a README.

Straight-line code, one statement per operation. No heap, no static data (reentrant), nothing of
libm but sin and cos (and sqrt, one instruction everywhere, if the program has square roots).

Large programs are cut into static functions that are not inlined: compilers are superlinear in
the length of a function. Values needed by a later function go through a scratch array on the
stack of the exported function, see :mod:`dynsys.kernel.c.text`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynsys.errors import KernelBuildError, StateError
from dynsys.kernel.c.cpp import cpp_header
from dynsys.kernel.c.files import MARK, listed_kernels, write_together
from dynsys.kernel.c.text import Argument, Code, CType
from dynsys.program.program import Program
from dynsys.program.signature import Signature

__all__ = ["CType", "c_header", "c_source", "export_c"]

_TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
_MARGIN = 100.0


def export_c(
    folder: str | Path,
    name: str,
    program: Program,
    signature: Signature,
    reference_inputs: ArrayLike,
    *,
    dtype: CType = "float64",
    labels: Mapping[str, Sequence[str]] | None = None,
    description: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Write C99 for a program into a folder, all files or none; returns their paths.

    ``name.h``, ``name.hpp`` (the same for C++), ``name.c``, ``name_selftest.c`` (compares with
    the program evaluated in extended precision at the reference inputs; exit status 0 or 1),
    ``CMakeLists.txt``, ``README.md``.
    Several programs can be exported into one folder, one after the other.

    Parameters
    ----------
    reference_inputs
        (n_states, n_inputs), or one state.
    labels
        Name of every entry of an array, for the header: {"torque": ["shoulder", ...]}.
    description
        One line for the header.
    overwrite
        Also replace files that dynsys has not written.

    Raises
    ------
    KernelBuildError
        If a name cannot be used in C, a constant has no value in this dtype, the reference
        outputs are not finite, or the folder cannot be written or holds others' files.
    StateError
        If the reference inputs have a wrong shape.
    """
    folder, code = Path(folder), Code(program, signature, name, dtype, labels)
    kernels = sorted({*listed_kernels(folder), name})
    texts = {
        f"{name}.h": c_header(code, description),
        f"{name}.hpp": cpp_header(code),
        f"{name}.c": c_source(code),
        f"{name}_selftest.c": selftest_text(code, reference_inputs),
        "CMakeLists.txt": cmake_text(kernels),
        "README.md": readme_text(kernels),
    }
    return write_together(folder, texts, overwrite)


def c_header(code: Code, description: str = "") -> str:
    """Text of ``name.h``: what the function computes from which arrays, and its declaration."""
    name, listed, real = code.name, code.arguments, code.real
    width = max([len(argument.name) for argument in listed], default=0)
    lines = [f"/* {MARK}: do not edit.", " *"]
    if description:
        lines += [f" * {_comment(description)}", " *"]
    for argument in listed:
        way = "out" if argument.is_output else "in "
        lines.append(f" * {way} {argument.name:<{width}}  {argument.size} x {real}")
        lines += [f" *       [{k}] {_comment(text)}" for k, text in enumerate(argument.labels)]
    counts = ", ".join(f"{n} {kind}" for kind, n in code.program.count().items() if n)
    lines += [
        " *",
        " * Arrays must not overlap. No heap, no static data, no locks: reentrant.",
        f" * Stack: {code.n_slots} x {real} of scratch, plus what the compiler spills.",
        f" * Operations: {counts or 'none'}.",
        " */",
    ]
    sizes = [f"#define {name.upper()}_{a.name.upper()}_SIZE {a.size}" for a in listed]
    declaration = _prototype(f"void {name}", listed, real, f"{name}_RESTRICT")
    once = _INCLUDED_ONCE.format(name=name, sizes="\n".join(sizes), declaration=declaration)
    return "\n".join(lines) + "\n" + once


_INCLUDED_ONCE = """\
#ifndef {name}_H
#define {name}_H

{sizes}

#ifdef __cplusplus
#define {name}_RESTRICT
extern "C" {{
#else
#define {name}_RESTRICT restrict
#endif

{declaration};

#ifdef __cplusplus
}}
#endif

#endif
"""


def c_source(code: Code) -> str:
    """Text of ``name.c``; it includes ``name.h``."""
    name, listed, real, parts = code.name, code.arguments, code.real, code.parts()
    scratch = Argument(code.scratch, code.n_slots, True)
    lines = [f"/* {MARK}: do not edit. */", f'#include "{name}.h"']
    if code.needs_math:
        lines += ["", "#include <math.h>"]
    lines.append("")
    used: set[str] = set()
    main: list[str] = []
    if len(parts) == 1:
        used, main = parts[0].used, parts[0].lines
    else:
        lines += _NOT_INLINED.format(name=name).splitlines()
        for k, part in enumerate(parts):
            needed = [a for a in (*listed, scratch) if a.name in part.used]
            head = _prototype(f"static {name}_NOINLINE void {name}_part{k}", needed, real)
            lines += [head, "{", *part.lines, "}", ""]
            main.append(f"    {name}_part{k}({', '.join(a.name for a in needed)});")
            used |= part.used
    lines += [_prototype(f"void {name}", listed, real), "{"]
    if len(parts) > 1 and code.n_slots:
        lines.append(f"    {real} {code.scratch}[{code.n_slots}];")
    lines += [f"    (void){a.name};" for a in listed if a.name not in used]
    return "\n".join([*lines, *main, "}"]) + "\n"


_NOT_INLINED = """\
#if defined(__GNUC__)
#define {name}_NOINLINE __attribute__((noinline))
#else
#define {name}_NOINLINE
#endif

"""


def _prototype(
    head: str, listed: Sequence[Argument], real: str, restrict: str = "restrict"
) -> str:
    texts = [
        f"{'' if a.is_output else 'const '}{real} *{restrict} {a.name}" for a in listed
    ] or ["void"]
    return f"{head}(\n    " + ",\n    ".join(texts) + ")"


def _comment(text: str) -> str:
    """Text that cannot end a comment, open one, or form a trigraph."""
    quoted = json.dumps(text)
    for a, b in (("*/", "*|"), ("/*", "|*"), ("??", "? ?")):
        quoted = quoted.replace(a, b)
    return quoted.replace("??", "? ?")


# ---- self-test, CMake file, README -----------------------------------------------------------


def reference(
    program: Program, inputs: ArrayLike, dtype: CType
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Inputs (n_states, n_inputs) in the dtype, outputs in extended precision, outputs in it.

    Raises
    ------
    StateError
        If the inputs have a wrong shape or are not finite.
    KernelBuildError
        If an output is not finite.
    """
    x = np.atleast_2d(np.asarray(inputs)).astype(np.dtype(dtype))
    if x.ndim != 2 or x.shape[1] != program.n_inputs or not len(x):
        raise StateError(
            f"reference inputs have shape {np.shape(inputs)}; expected "
            f"(n_states, {program.n_inputs}) with at least one state"
        )
    if not np.isfinite(x).all():
        raise StateError("reference inputs have entries that are infinite or not a number")
    with np.errstate(all="ignore"):
        exact, rounded = program.evaluate(x.astype(np.longdouble)), program.evaluate(x)
    if not (np.isfinite(exact).all() and np.isfinite(rounded).all()):
        raise KernelBuildError("an output is not finite at a reference state; choose others")
    return x, exact, rounded


def selftest_text(code: Code, inputs: ArrayLike) -> str:
    """Text of ``name_selftest.c``.

    Errors are relative to the largest magnitude in an output array over all states. The
    tolerance is 1e-12 (float32: 1e-5), or 100 times the rounding error that the program itself
    has in this dtype, where the problem is so badly conditioned that this is more.
    """
    dtype, real = code.dtype, code.real
    x, exact, rounded = reference(code.program, inputs, dtype)
    n_states = len(x)
    tables, declarations, checks, passed = [], [], [], []
    start = {False: 0, True: 0}
    for k, a in enumerate(code.arguments):
        part = slice(start[a.is_output], start[a.is_output] + a.size)
        start[a.is_output] += a.size
        if not a.is_output:
            tables.append(_table(f"in{k}", real, x[:, part], dtype))
            passed.append(f"in{k} + {a.size} * s")
            continue
        want = exact[:, part]
        scale = float(np.abs(want).max(initial=0)) or 1.0
        own_error = float(np.abs(rounded[:, part] - want).max(initial=0)) / scale
        tolerance = max(_TOLERANCE[dtype], _MARGIN * own_error)
        tables.append(_table(f"want{k}", "double", want, "float64"))
        declarations.append(f"    static {real} got{k}[{max(1, n_states * a.size)}];")
        passed.append(f"got{k} + {a.size} * s")
        checks.append(
            f'    failed |= check("{a.name}", got{k}, want{k}, {n_states * a.size}, '
            f"{scale.hex()}, {tolerance:.3g});"
        )
    return _SELFTEST.format(
        mark=MARK,
        name=code.name,
        real=real,
        tables="\n".join(tables),
        declarations="\n".join(declarations),
        n_states=n_states,
        passed=", ".join(passed),
        checks="\n".join(checks),
    )


def _table(name: str, real: str, values: NDArray[Any], dtype: CType) -> str:
    """Definition of a constant array; C has no empty arrays, so an empty one holds a zero."""
    suffix = "f" if real == "float" else ""
    numbers = values.astype(np.dtype(dtype)).ravel().tolist() or [0.0]
    rows = [f"    {float(x).hex()}{suffix}" for x in numbers]
    return f"static const {real} {name}[{len(rows)}] = {{\n" + ",\n".join(rows) + "\n};\n"


_SELFTEST = """\
/* {mark}: do not edit.
 * Compares {name} with reference values that were computed in extended precision.
 * Exit status 0: agrees, 1: does not.
 */
#include <stdio.h>

#include "{name}.h"

{tables}
/* Largest error relative to the scale; 1 if it is above the tolerance (or not a number). */
static int check(
    const char *array,
    const {real} *got,
    const double *want,
    int count,
    double scale,
    double tolerance)
{{
    double worst = 0.0;
    int failed = 0;
    int k;
    for (k = 0; k < count; k++) {{
        const double difference = ((double)got[k] - want[k]) / scale;
        const double error = difference < 0.0 ? -difference : difference;
        if (!(error <= tolerance)) {{
            failed = 1;
        }}
        if (worst == worst && !(error <= worst)) {{
            worst = error;
        }}
    }}
    printf("%s %s: largest relative error %.3g, tolerance %.3g\\n",
           failed ? "FAILED" : "ok", array, worst, tolerance);
    return failed;
}}

int main(void)
{{
{declarations}
    int failed = 0;
    int s;
    for (s = 0; s < {n_states}; s++) {{
        {name}({passed});
    }}
{checks}
    return failed;
}}
"""


def cmake_text(kernels: Sequence[str]) -> str:
    """Text of CMakeLists.txt: a static library and a test for each kernel of the folder."""
    return _CMAKE.format(mark=MARK, kernels=" ".join(kernels))


_CMAKE = """\
# {mark}: do not edit.
cmake_minimum_required(VERSION 3.10)
project(dynsys_kernels C)

option(DYNSYS_NATIVE "Use all instructions of this machine, fused multiply-add included" OFF)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

enable_testing()
set(DYNSYS_KERNELS {kernels})
foreach(kernel IN LISTS DYNSYS_KERNELS)
  add_library(${{kernel}} STATIC ${{kernel}}.c)
  target_include_directories(${{kernel}} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
  if(UNIX)
    target_link_libraries(${{kernel}} PUBLIC m)
  endif()
  if(DYNSYS_NATIVE)
    target_compile_options(${{kernel}} PRIVATE -march=native -ffp-contract=fast)
  endif()
  add_executable(${{kernel}}_selftest ${{kernel}}_selftest.c)
  target_link_libraries(${{kernel}}_selftest PRIVATE ${{kernel}})
  add_test(NAME ${{kernel}}_selftest COMMAND ${{kernel}}_selftest)
endforeach()
"""


def readme_text(kernels: Sequence[str]) -> str:
    """Text of README.md: how to build, call and check the kernels of the folder."""
    listed = "\n".join(f"- `{name}`: see `{name}.h`; in C++ `{name}.hpp`" for name in kernels)
    return _README.format(mark=MARK, listed=listed, name=kernels[0])


_README = """\
<!-- {mark}: do not edit. -->
# Kernels for one robot, in C99

{listed}

Each function is straight-line code made for one robot: its constants are in the code. The
header lists every array with its size and order. Sizes are also there as macros.

- In C++ `dynsys_kernels::{name}::evaluate(in)` takes and returns arrays by name (C++11), or
  works on spans (C++20); it calls the C function and does nothing else.
- No heap, no static data, no locks, no loops: reentrant, and the same statements run in every
  state. The header says how much stack is used.
- Of the mathematical library only `sin` and `cos` are called (`sqrt` where the header counts
  square roots).
- Pointers are `restrict`: arrays must not overlap. Inputs are not checked. Quaternions must be
  of unit length.
- Where the readings of an estimator leave something open, or a pivot fails, the first number of
  the first output is NaN: use none of the outputs then.

## Build and check

    cmake -S . -B build && cmake --build build && ctest --test-dir build --output-on-failure

or, without CMake:

    cc -std=c99 -O2 -Wall -Wextra -Werror {name}.c {name}_selftest.c -lm -o {name}_selftest
    ./{name}_selftest

The self-test compares with values computed in extended precision, prints the largest relative
error and ends with status 0 or 1. Run it once on the target, with the flags of the product.

## Flags

`-O2` is enough. With `-std=c99` gcc does not fuse multiplications and additions;
`-march=native -ffp-contract=fast` (CMake: `-DDYNSYS_NATIVE=ON`) does, which is faster and
changes the last bits of results. Use `-ffp-contract=off` where results must be the same bits
on different machines. `-ffast-math` is not needed and not supported.
"""
