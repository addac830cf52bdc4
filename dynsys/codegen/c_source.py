"""A program as dependency-free C99: ``void name(const double *q, ..., double *torque)``.

Straight-line code, one statement per operation. No heap, no static data (reentrant), nothing of
libm but sin and cos (and sqrt, one instruction everywhere, if the program has square roots).

Large programs are cut into static functions that are not inlined: compilers are superlinear in
the length of a function. Values needed by a later function go through a scratch array on the
stack of the exported function, see :mod:`dynsys.codegen.c_code`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from dynsys.codegen.c_code import REAL, Code, CType
from dynsys.codegen.c_files import MARK, listed_kernels, write_together
from dynsys.codegen.c_names import Argument, ArraySignature, arguments, check_name
from dynsys.codegen.c_selftest import cmake_text, readme_text, selftest_text
from dynsys.program.program import Program

__all__ = ["CType", "c_header", "c_source", "export_c"]


def export_c(
    folder: str | Path,
    name: str,
    program: Program,
    signature: ArraySignature,
    reference_inputs: ArrayLike,
    *,
    dtype: CType = "float64",
    labels: Mapping[str, Sequence[str]] | None = None,
    description: str = "",
    overwrite: bool = False,
) -> list[Path]:
    """Write C99 for a program into a folder, all files or none; returns their paths.

    ``name.h``, ``name.c``, ``name_selftest.c`` (compares with the program evaluated in extended
    precision at the reference inputs; exit status 0 or 1), ``CMakeLists.txt``, ``README.md``.
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
    header = c_header(
        program, signature, name, dtype=dtype, labels=labels, description=description
    )
    folder = Path(folder)
    kernels = sorted({*listed_kernels(folder), name})
    texts = {
        f"{name}.h": header,
        f"{name}.c": c_source(program, signature, name, dtype=dtype),
        f"{name}_selftest.c": selftest_text(
            program, arguments(signature, name), name, reference_inputs, dtype
        ),
        "CMakeLists.txt": cmake_text(kernels),
        "README.md": readme_text(kernels),
    }
    return write_together(folder, texts, overwrite)


def c_header(
    program: Program,
    signature: ArraySignature,
    name: str,
    *,
    dtype: CType = "float64",
    labels: Mapping[str, Sequence[str]] | None = None,
    description: str = "",
) -> str:
    """Text of ``name.h``: what the function computes from which arrays, and its declaration."""
    check_name(name)
    listed = arguments(signature, name, labels)
    code = Code(program, listed, dtype)
    real = REAL[dtype]
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
    guarded = _GUARDED.format(name=name, sizes="\n".join(sizes), declaration=declaration)
    return "\n".join(lines) + "\n" + guarded


_GUARDED = """\
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


def c_source(
    program: Program, signature: ArraySignature, name: str, *, dtype: CType = "float64"
) -> str:
    """Text of ``name.c``; it includes ``name.h``.

    Raises
    ------
    KernelBuildError
        See :func:`export_c`.
    """
    check_name(name)
    listed = arguments(signature, name)
    code = Code(program, listed, dtype)
    parts = code.parts()
    real, scratch = REAL[dtype], Argument(code.scratch, code.n_slots, True)
    lines = [f"/* {MARK}: do not edit. */", f'#include "{name}.h"']
    if code.needs_math:
        lines += ["", "#include <math.h>"]
    lines.append("")
    used: set[str] = set()
    body: list[str] = []
    if len(parts) == 1:
        used, body = parts[0].used, parts[0].lines
    else:
        lines += _NOT_INLINED.format(name=name).splitlines()
        for k, part in enumerate(parts):
            needed = [a for a in (*listed, scratch) if a.name in part.used]
            head = _prototype(f"static {name}_NOINLINE void {name}_part{k}", needed, real)
            lines += [head, "{", *part.lines, "}", ""]
            body.append(f"    {name}_part{k}({', '.join(a.name for a in needed)});")
            used |= part.used
    lines += [_prototype(f"void {name}", listed, real), "{"]
    if len(parts) > 1 and code.n_slots:
        lines.append(f"    {real} {code.scratch}[{code.n_slots}];")
    lines += [f"    (void){a.name};" for a in listed if a.name not in used]
    return "\n".join([*lines, *body, "}"]) + "\n"


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
