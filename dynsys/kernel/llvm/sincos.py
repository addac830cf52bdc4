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

from dynsys.kernel.llvm.text import Lines, VectorType
from dynsys.kernel.python_entry import RUNTIME_PLACES

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


def sincos(
    lines: Lines, t: VectorType, xs: list[str], *, fma: bool
) -> list[tuple[str, str, str]]:
    """Append sine and cosine of vectors ``xs``; a list of (sine, cosine, in-range mask).

    The vectors are taken through the steps together, so that they share constants in registers
    and hide each other's latency.
    """
    c = _COEFFICIENTS[t.dtype]
    steps = _Together(lines, t, fma)
    magic, one = t.constant(c.magic), t.constant(1.0)
    shifted = steps.fused(xs, t.constant(_TWO_OVER_PI), magic)
    j = steps.each("fsub {t} {}, {}", shifted, magic)
    r = xs
    for term in c.fused if fma else c.exact:
        r = steps.fused(j, t.constant(-term), r)
    z = steps.each("fmul {t} {}, {}", r, r)
    zz = steps.each("fmul {t} {}, {}", z, z)
    g = steps.polynomial(z, zz, c.g)
    h = steps.polynomial(z, zz, c.h)
    rz = steps.each("fmul {t} {}, {}", r, z)
    sine = steps.fused(rz, g, r)
    top = steps.fused(z, t.constant(-0.5), one)
    cosine = steps.fused(zz, h, top)
    sine, cosine = steps.to_quadrant(shifted, sine, cosine)
    size = steps.each("call {t} @llvm.fabs.{suffix}({t} {})", xs)
    inside = steps.each("fcmp ole {t} {}, {}", size, t.constant(LIMIT[t.dtype]))
    return list(zip(sine, cosine, inside, strict=True))


@final
@dataclass(frozen=True)
class _Together:
    """Writes each step for several vectors in turn; operands are lists or shared constants."""

    lines: Lines
    t: VectorType
    fma: bool

    def each(self, pattern: str, first: list[str], *rest: list[str] | str) -> list[str]:
        """The instruction ``pattern`` for every vector."""
        out = []
        for i, x in enumerate(first):
            others = [o if isinstance(o, str) else o[i] for o in rest]
            text = pattern.format(
                x, *others, t=self.t, i=self.t.integer, mask=self.t.mask, suffix=self.t.suffix
            )
            out.append(self.lines.let(text))
        return out

    def fused(self, a: list[str], b: list[str] | str, c: list[str] | str) -> list[str]:
        """The expression a b + c for every vector."""
        out = []
        for i, x in enumerate(a):
            y, z = (o if isinstance(o, str) else o[i] for o in (b, c))
            out.append(self.lines.fused(self.t, x, y, z, self.fma))
        return out

    def polynomial(self, z: list[str], zz: list[str], c: tuple[float, ...]) -> list[str]:
        """Sum of c_k z^k: pairs c_k + c_k+1 z, then Horner's rule in z^2 (short dependency)."""
        pairs: list[list[str] | str] = []
        for k in range(0, len(c), 2):
            low = self.t.constant(c[k])
            pair = k + 1 < len(c)
            pairs.append(self.fused(z, self.t.constant(c[k + 1]), low) if pair else low)
        value = pairs[-1]
        for lower in reversed(pairs[:-1]):
            value = self.fused(zz, value, lower)
        return value if isinstance(value, list) else [value] * len(z)

    def to_quadrant(
        self, shifted: list[str], sine: list[str], cosine: list[str]
    ) -> tuple[list[str], list[str]]:
        """Sine and cosine of r + j pi/2: bit 0 of j swaps them, bit 1 gives the signs."""
        top, n = self.t.bits - 1, self.t.integer_constant
        j = self.each("bitcast {t} {} to {i}", shifted)
        odd_sign = self.each("shl {i} {}, {}", j, n(top))
        odd = self.each("icmp slt {i} {}, zeroinitializer", odd_sign)
        high = self.each("shl {i} {}, {}", j, n(top - 1))
        sine_sign = self.each("and {i} {}, {}", high, n(-(2**top)))
        cosine_sign = self.each("xor {i} {}, {}", sine_sign, odd_sign)
        return (
            self._signed(odd, cosine, sine, sine_sign),
            self._signed(odd, sine, cosine, cosine_sign),
        )

    def _signed(
        self, choose: list[str], yes: list[str], no: list[str], sign: list[str]
    ) -> list[str]:
        chosen = self.each("select {mask} {}, {t} {}, {t} {}", choose, yes, no)
        bits = self.each("bitcast {t} {} to {i}", chosen)
        flipped = self.each("xor {i} {}, {}", bits, sign)
        return self.each("bitcast {i} {} to {t}", flipped)


def repair_function(dtype: str) -> str:
    """Text of ``@repair(args, out, count, width)``: the C library's values where |x| is large.

    ``args`` holds count packs of ``width`` arguments, ``out`` for every pack the sines, then
    the cosines. ``@runtime`` begins with the addresses of sin and cos, written on loading.
    """
    t = VectorType(dtype, 1)
    widen = "fpext float %x to double" if dtype == "float32" else "fadd double %x, -0.0"
    narrow = "fptrunc double {} to float" if dtype == "float32" else "fadd double {}, -0.0"
    return f"""
@runtime = global [{RUNTIME_PLACES} x ptr] zeroinitializer
@no_dimension = internal constant [2 x i64] [i64 -1, i64 -1]

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
