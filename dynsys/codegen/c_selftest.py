"""What goes beside exported C: a self-test with reference values, a CMake file, a README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynsys.codegen.c_code import REAL, CType
from dynsys.codegen.c_files import MARK
from dynsys.codegen.c_names import Argument
from dynsys.errors import KernelBuildError, StateError
from dynsys.program.program import Program

__all__ = ["cmake_text", "readme_text", "reference", "selftest_text"]

_TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
_MARGIN = 100.0


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


def selftest_text(
    program: Program,
    listed: Sequence[Argument],
    name: str,
    inputs: ArrayLike,
    dtype: CType,
) -> str:
    """Text of ``name_selftest.c``.

    Errors are relative to the largest magnitude in an output array over all states. The
    tolerance is 1e-12 (float32: 1e-5), or 100 times the rounding error that the program itself
    has in this dtype, where the problem is so badly conditioned that this is more.
    """
    x, exact, rounded = reference(program, inputs, dtype)
    real, n_states = REAL[dtype], len(x)
    tables, declarations, checks, passed = [], [], [], []
    start = {False: 0, True: 0}
    for k, a in enumerate(listed):
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
        name=name,
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
    listed = "\n".join(f"- `{name}`: see `{name}.h`" for name in kernels)
    return _README.format(mark=MARK, listed=listed, name=kernels[0])


_README = """\
<!-- {mark}: do not edit. -->
# Kernels for one robot, in C99

{listed}

Each function is straight-line code made for one robot: its constants are in the code. The
header lists every array with its size and order. Sizes are also there as macros.

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
