"""LLVM text of sine and cosine of a vector, without branches.

Argument reduction (Cody-Waite): j = round(2 x / pi), r = x - j pi/2 in two fused or three exact
steps, |r| <= pi/4. Then with z = r^2

    sin r = r + r z g(z),    cos r = 1 - z/2 + z^2 h(z),

g and h interpolated at Chebyshev nodes of [0, (pi/4)^2] in 60-digit arithmetic, and the
quadrant j mod 4 swaps and signs them. Absolute error below 2.3e-16 (float64) and 1.2e-7
(float32) for |x| <= :data:`LIMIT`. Larger arguments are recomputed by the C library
(:func:`repair_function`); NaN stays NaN and infinities become NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.codegen.llvm_text import Lines, VectorType

__all__ = ["LIMIT", "repair_function", "sincos"]

LIMIT = {"float64": 1e5, "float32": 2e3}
"""Largest |x| that the branch-free code handles itself."""


@final
@dataclass(frozen=True)
class _Coefficients:
    g: tuple[float, ...]  # ascending powers of z
    h: tuple[float, ...]
    fused: tuple[float, ...]  # pi/2 as a sum of full-precision terms
    exact: tuple[float, ...]  # pi/2 as a sum of terms short enough that j * term is exact
    magic: float  # adding it rounds to an integer and leaves that integer in the low bits


_COEFFICIENTS = {
    "float64": _Coefficients(
        (
            -0.16666666666666666,
            0.008333333333330946,
            -0.0001984126983675497,
            2.755731610068303e-06,
            -2.5051131455427946e-08,
            1.591810123027412e-10,
        ),
        (
            0.041666666666666664,
            -0.0013888888888887395,
            2.4801587298763433e-05,
            -2.7557317270560326e-07,
            2.0876146024689747e-09,
            -1.1382614868556325e-11,
        ),
        (1.5707963267948966, 6.123233995736766e-17),
        (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
        1.5 * 2.0**52,
    ),
    "float32": _Coefficients(
        (-0.16666664661114838, 0.008332748037517147, -0.00019587840521305324),
        (0.04166666465830042, -0.0013888302802309161, 2.454789161981386e-05),
        (1.5707963705062866, -4.371138828673793e-08),
        (1.5703125, 0.0004837512969970703, 7.549790126404332e-08),
        1.5 * 2.0**23,
    ),
}
_TWO_OVER_PI = 0.6366197723675814


def sincos(lines: Lines, t: VectorType, x: str, *, fma: bool) -> tuple[str, str, str]:
    """Append sine and cosine of the vector ``x``; returns (sine, cosine, in-range mask)."""
    c = _COEFFICIENTS[t.dtype]
    shifted = lines.fused(t, x, t.constant(_TWO_OVER_PI), t.constant(c.magic), fma)
    j = lines.let(f"fsub {t} {shifted}, {t.constant(c.magic)}")
    minus_j = lines.let(f"fneg {t} {j}")
    r = x
    for term in c.fused if fma else c.exact:
        r = lines.fused(t, minus_j, t.constant(term), r, fma)
    z = lines.let(f"fmul {t} {r}, {r}")
    rz = lines.let(f"fmul {t} {r}, {z}")
    sine = lines.fused(t, rz, _horner(lines, t, z, c.g, fma), r, fma)
    zz = lines.let(f"fmul {t} {z}, {z}")
    top = lines.fused(t, z, t.constant(-0.5), t.constant(1.0), fma)
    cosine = lines.fused(t, zz, _horner(lines, t, z, c.h, fma), top, fma)
    quadrant = lines.let(f"bitcast {t} {shifted} to {t.integer}")
    swapped_sine, swapped_cosine = _swap(lines, t, quadrant, sine, cosine)
    size = lines.let(f"call {t} @llvm.fabs.{t.suffix}({t} {x})")
    inside = lines.let(f"fcmp ole {t} {size}, {t.constant(LIMIT[t.dtype])}")
    return swapped_sine, swapped_cosine, inside


def _horner(lines: Lines, t: VectorType, z: str, c: tuple[float, ...], fma: bool) -> str:
    value = t.constant(c[-1])
    for coefficient in reversed(c[:-1]):
        value = lines.fused(t, value, z, t.constant(coefficient), fma)
    return value


def _swap(
    lines: Lines, t: VectorType, quadrant: str, sine: str, cosine: str
) -> tuple[str, str]:
    """Sine and cosine of r + quadrant pi/2: bit 0 swaps them, bit 1 gives the signs."""
    i, top = t.integer, t.bits - 1
    odd_sign = lines.let(f"shl {i} {quadrant}, {t.integer_constant(top)}")
    odd = lines.let(f"icmp slt {i} {odd_sign}, zeroinitializer")
    high = lines.let(f"shl {i} {quadrant}, {t.integer_constant(top - 1)}")
    sign_s = lines.let(f"and {i} {high}, {t.integer_constant(-(2**top))}")
    sign_c = lines.let(f"xor {i} {sign_s}, {odd_sign}")
    out = []
    for yes, no, sign in ((cosine, sine, sign_s), (sine, cosine, sign_c)):
        chosen = lines.let(f"select {t.mask} {odd}, {t} {yes}, {t} {no}")
        bits = lines.let(f"bitcast {t} {chosen} to {i}")
        signed = lines.let(f"xor {i} {bits}, {sign}")
        out.append(lines.let(f"bitcast {i} {signed} to {t}"))
    return out[0], out[1]


def repair_function(dtype: str) -> str:
    """Text of ``@repair(args, out, count, width)``: the C library's values where |x| is large.

    ``args`` holds count packs of ``width`` arguments, ``out`` for every pack the sines, then
    the cosines. ``@runtime`` begins with the addresses of sin and cos, written when the code is loaded.
    """
    t = VectorType(dtype, 1)
    widen = "fpext float %x to double" if dtype == "float32" else "fadd double %x, -0.0"
    narrow = "fptrunc double {} to float" if dtype == "float32" else "fadd double {}, -0.0"
    return f"""
@runtime = global [8 x ptr] zeroinitializer
@no_dimension = internal constant i64 -1

define internal void @repair(ptr %args, ptr %out, i64 %count, i64 %width) noinline {{
start:
  %total = mul i64 %count, %width
  br label %head
head:
  %e = phi i64 [ 0, %start ], [ %next, %latch ]
  %more = icmp ult i64 %e, %total
  br i1 %more, label %look, label %done
look:
  %from = getelementptr {t}, ptr %args, i64 %e
  %x = load {t}, ptr %from
  %size = call {t} @llvm.fabs.{t.suffix}({t} %x)
  %fine = fcmp ole {t} %size, {t.constant(LIMIT[dtype])}
  br i1 %fine, label %latch, label %fix
fix:
  %wide = {widen}
  %sin = load ptr, ptr @runtime
  %cos_at = getelementptr ptr, ptr @runtime, i64 1
  %cos = load ptr, ptr %cos_at
  %s = call double %sin(double %wide)
  %c = call double %cos(double %wide)
  %sn = {narrow.format("%s")}
  %cn = {narrow.format("%c")}
  %pack = udiv i64 %e, %width
  %skip = mul i64 %pack, %width
  %s_index = add i64 %e, %skip
  %c_index = add i64 %s_index, %width
  %s_at = getelementptr {t}, ptr %out, i64 %s_index
  %c_at = getelementptr {t}, ptr %out, i64 %c_index
  store {t} %sn, ptr %s_at
  store {t} %cn, ptr %c_at
  br label %latch
latch:
  %next = add i64 %e, 1
  br label %head
done:
  ret void
}}
"""
