"""A C++ header beside exported C: named arrays of fixed size in, named arrays out.

    dynsys_kernels::arm::Inputs in;                 // in.q, in.qd, in.qdd: std::array
    auto out = dynsys_kernels::arm::evaluate(in);   // out.torque

No heap, no exceptions, C++11; with C++20 also on ``std::span``, in the order of the C function.
Names of the entries are there as constants (``names::torque[k]``).
"""

from __future__ import annotations

from dynsys.kernel.c.files import MARK
from dynsys.kernel.c.text import Argument, Code

__all__ = ["cpp_header"]


def cpp_header(code: Code) -> str:
    """Text of ``name.hpp``; it includes ``name.h``."""
    listed, real = code.arguments, code.real
    inputs = [a for a in listed if not a.is_output]
    outputs = [a for a in listed if a.is_output]
    passed = [f"in.{a.name}.data()" for a in inputs] + [f"out.{a.name}.data()" for a in outputs]
    spans = [
        f"::std::span<{'' if a.is_output else 'const '}{real}, {a.size}> {a.name}"
        for a in listed
    ]
    return _HEADER.format(
        mark=MARK,
        name=code.name,
        inputs="\n".join(_member(a, real) for a in inputs),
        outputs="\n".join(_member(a, real) for a in outputs),
        passed=_wrapped(passed),
        spans=_wrapped(spans),
        data=_wrapped([f"{a.name}.data()" for a in listed]),
        names="\n".join(_names(a) for a in listed if a.labels) or "/* no names were given */",
    )


def _member(argument: Argument, real: str) -> str:
    return f"    ::std::array<{real}, {argument.size}> {argument.name}{{}};"


def _wrapped(items: list[str]) -> str:
    return "\n        " + ",\n        ".join(items)


def _names(argument: Argument) -> str:
    """A constant array of strings; bytes that C++ may read otherwise are octal."""
    texts = []
    for label in argument.labels:
        letters = [
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}"
            for byte in label.encode("utf-8")
        ]
        texts.append('    "' + "".join(letters) + '"')
    body = ",\n".join(texts)
    return f"constexpr const char *{argument.name}[{len(texts)}] = {{\n{body}\n}};"


_HEADER = """\
/* {mark}: do not edit. C++11 interface of {name}.h, which says what the arrays are. */
#ifndef {name}_HPP
#define {name}_HPP

#include "{name}.h"

#include <array>
#if defined(__cplusplus) && __cplusplus >= 202002L
#include <span>
#endif

namespace dynsys_kernels {{
namespace {name} {{

/** What {name} reads; zeros unless set. */
struct Inputs {{
{inputs}
}};

/** What {name} writes. */
struct Outputs {{
{outputs}
}};

/** Compute into arrays that exist: nothing is allocated, no exception is thrown. */
inline void evaluate(const Inputs &in, Outputs &out) noexcept
{{
    ::{name}({passed});
}}

inline Outputs evaluate(const Inputs &in) noexcept
{{
    Outputs out;
    evaluate(in, out);
    return out;
}}

#if defined(__cplusplus) && __cplusplus >= 202002L
/** On memory of the caller; arrays must not overlap. */
inline void evaluate({spans}) noexcept
{{
    ::{name}({data});
}}
#endif

/** Names of the entries of each array. */
namespace names {{
{names}
}} // namespace names

}} // namespace {name}
}} // namespace dynsys_kernels

#endif
"""
