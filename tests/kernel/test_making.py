"""Objects made by machine code are those that the class makes in Python."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from dynsys.kernel.build import build_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.making import maker, portable_maker
from dynsys.program.graph import Graph
from dynsys.program.signature import Signature


class Answer:
    __slots__ = ("numbers", "words")

    def __init__(self, numbers: np.ndarray, words: object) -> None:
        self.numbers, self.words = numbers, words


class Backwards:
    __slots__ = ("words", "numbers")  # noqa: RUF023


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    g = Graph()
    x = g.inputs(5)
    program = g.program([x[0] / x[3], x[1] * x[4], x[2]])
    return build_kernel(program, Signature((("a", 3), ("b", 2)), (("answer", 3),)))


@pytest.mark.parametrize("make", [maker, portable_maker])
def test_made_or_handed_on(kernel: Kernel, make: Any) -> None:
    a, b, about = np.arange(1.0, 4.0), np.array([2.0, 5.0]), ("words", 7)
    other = make(kernel, Answer, about, lambda *args, **named: (args, named))
    answer = other(a, b)
    assert type(answer) is Answer and answer.words is about
    np.testing.assert_array_equal(answer.numbers, [0.5, 10.0, 3.0])
    assert answer.numbers.flags.owndata and answer.numbers.flags.writeable
    assert other(a, b).numbers is not answer.numbers
    zero = np.array([0.0, 5.0])
    for args, named in (
        ((), {}),
        ((a,), {}),
        ((a, b, b), {}),
        ((a, [2.0, 5.0]), {}),
        ((a, zero), {}),  # computed, and not finite
        ((a, b), {"out": a}),
        ((a,), {"b": b}),
    ):
        assert other(*args, **named) == (args, named)


def test_errors_come_through(kernel: Kernel) -> None:
    def refuse(*args: object) -> Answer:
        raise ValueError(f"{len(args)} arguments")

    with pytest.raises(ValueError, match="1 arguments"):
        maker(kernel, Answer, None, refuse)(np.ones(3))
    for kind in (Backwards, dict, Exception):
        with pytest.raises(TypeError, match="two slots"):
            maker(kernel, kind, None, refuse)


def test_nothing_is_lost_or_dropped_too_early(kernel: Kernel) -> None:
    a, b, about = np.ones(3), np.ones(2), object()
    made = maker(kernel, Answer, about, lambda *args: None)
    watched = (a, b, about, kernel.dtype, Answer, None, True)
    for _ in range(100):
        made(a, b), made(a, 3.0), made(a, b * 0.0)
    gc.collect()
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(1000):
        made(a, b), made(a, 3.0), made(a, b * 0.0)
    gc.collect()
    after = [sys.getrefcount(x) for x in watched]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100
    answer = made(a, b)
    del made
    gc.collect()
    assert gc.is_tracked(answer) and answer.words is about and answer.numbers.sum() == 3.0
