"""LLVM text that tells whether numbers are finite: 0 * x is NaN exactly if x is not."""

from __future__ import annotations

from dynsys.codegen.llvm_text import VectorType

__all__ = ["FEWEST", "finite_function"]

FEWEST = 16
"""Numbers that ``@finite`` looks at together, and needs at least."""


def finite_function(dtype: str) -> str:
    """Text of ``i1 @finite(numbers, count)`` for at least FEWEST numbers side by side."""
    t = VectorType(dtype, FEWEST // 4)
    quarters = range(4)

    def each(text: str) -> str:
        return "\n".join("  " + text.format(i=i, step=i * t.width) for i in quarters)

    return f"""
define internal i1 @finite(ptr %numbers, i64 %count) noinline {{
start:
  %last = sub i64 %count, {FEWEST}
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
{each(f"%s{{i}} = phi {t} [ zeroinitializer, %start ], [ %n{{i}}, %loop ]")}
  %at = getelementptr {t.element}, ptr %numbers, i64 %k
{each(f"%a{{i}} = getelementptr {t.element}, ptr %at, i64 {{step}}")}
{each(f"%x{{i}} = load {t}, ptr %a{{i}}, align {t.size}")}
{each(f"%z{{i}} = fmul contract {t} %x{{i}}, zeroinitializer")}
{each(f"%n{{i}} = fadd contract {t} %s{{i}}, %z{{i}}")}
  %far = add i64 %k, {FEWEST}
  %beyond = icmp sgt i64 %far, %last
  %next = select i1 %beyond, i64 %last, i64 %far
  %more = icmp slt i64 %k, %last
  br i1 %more, label %loop, label %done
done:
  %a = fadd {t} %n0, %n1
  %b = fadd {t} %n2, %n3
  %ordered = fcmp ord {t} %a, %b
  %bits = bitcast {t.mask} %ordered to i{t.width}
  %all = icmp eq i{t.width} %bits, -1
  ret i1 %all
}}
"""
