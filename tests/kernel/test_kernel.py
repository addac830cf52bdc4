"""Kernels called with NumPy arrays: shapes, strides, dtypes, threads, errors, lifetimes."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dynsys import KernelBuildError, StateError
from dynsys.kernel import threads as row_threads
from dynsys.kernel.build import build_kernel
from dynsys.kernel.kernel import Kernel, MachineKernel
from dynsys.kernel.llvm.computation import compile_computation
from dynsys.kernel.llvm.target import host
from dynsys.kernel.python_entry import portable_call, portable_rows, share
from dynsys.kernel.threads import SharedRows
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from tests.processes import LIMIT

NQ, NV = 7, 3
SIGNATURE = Signature((("q", NQ), ("qd", NV)), (("torque", NV), ("energy", 1)))


def small_program() -> Program:
    g = Graph()
    x = g.inputs(NQ + NV)
    q, qd = x[:NQ], x[NQ:]
    torque = [np.sin(q[k]) * qd[k] + q[k + 3] / (qd[k] * qd[k] + 1.0) for k in range(NV)]
    return g.program([*torque, qd @ qd / q[6]])


@pytest.fixture(scope="module")
def program() -> Program:
    return small_program()


@pytest.fixture(scope="module")
def kernel(program: Program) -> Kernel:
    return build_kernel(program, SIGNATURE)


@pytest.mark.finding("Y-47")
def test_kernels_are_their_own_copies_and_say_how_to_travel(kernel: Kernel) -> None:
    """ctypes refused with a ValueError, and halves of copies complained when they were gone."""
    for same in (copy.copy(kernel), copy.deepcopy(kernel), copy.deepcopy([kernel])[0]):
        assert same is kernel
    with pytest.raises(KernelBuildError, match="send the problem, and compile it there"):
        pickle.dumps(kernel)


def states(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.uniform(0.5, 2, (n, NQ)), rng.normal(size=(n, NV))


def expect(program: Program, q: np.ndarray, qd: np.ndarray) -> list[np.ndarray]:
    out = program.evaluate(np.concatenate([q, qd], axis=-1).astype(np.float64))
    return [out[..., :NV], out[..., NV:]]


def check(got: tuple[np.ndarray, ...], expected: list[np.ndarray], rtol: float = 1e-13) -> None:
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("n", [*range(10), 31, 32, 33, 100, 259])
def test_every_number_of_states(kernel: Kernel, program: Program, n: int) -> None:
    q, qd = states(n)
    guarded = [np.full((n + 2, size), 7.5) for size in (NV, 1)]
    got, finite = kernel.batch(q, qd, out=[g[1:-1] for g in guarded])
    assert finite
    check(got, expect(program, q, qd))
    for g in guarded:  # nothing is written before or behind
        assert np.all(g[[0, -1]] == 7.5)


def test_one_state(kernel: Kernel, program: Program) -> None:
    q, qd = (x[0] for x in states(1))
    got, finite = kernel.one(q, qd)
    assert finite is True
    check(got, expect(program, q, qd))
    out = (np.empty(NV), np.empty(1))
    again, _ = kernel.one(q, qd, out=out)
    assert again[0] is out[0]
    check(out, expect(program, q, qd))


def test_what_the_fast_path_refuses_is_converted(kernel: Kernel, program: Program) -> None:
    q, qd = (x[0] for x in states(1))
    expected = expect(program, q, qd)
    subclass = q.view(np.recarray)
    spread = np.zeros(2 * NQ)
    spread[::2] = q
    out = (np.empty(NV), np.empty(1))
    assert kernel.fast(q, qd, *out) is True
    refused = [
        list(q),
        tuple(q),
        q.astype(">f8"),
        q.astype(np.longdouble),
        spread[::2],
        q[::-1].copy()[::-1],
        np.frombuffer(b"\0" + q.tobytes(), np.uint8)[1:].view(np.float64),
    ]
    for value in refused:
        check(kernel.one(value, qd)[0], expected)
    assert kernel.fast(subclass, qd, *out) is None
    for bad in (1.0, None, "q", np.float64(1), np.array(1.0), object(), q[:-1], q[None]):
        assert kernel.fast(bad, qd, *out) is None
    assert kernel.fast() is None
    assert kernel.fast(q, qd, *out, out[0]) is None


def test_other_interpreters_reach_the_same_code(kernel: Kernel, program: Program) -> None:
    call = portable_call(SIGNATURE, "float64", kernel.address)
    rows = portable_rows(SIGNATURE, "float64", kernel.batch_address)
    q, qd = states(100)
    out = (np.empty((100, NV)), np.empty((100, 1)))
    assert rows(share(0, 2), q, qd, *out) is True
    assert rows(share(1, 2), q, qd, *out) is True
    check(out, expect(program, q, qd))
    single = tuple(x[0].copy() for x in out)
    assert call(q[3], qd[3], *single) is True
    check(single, expect(program, q[3], qd[3]))
    assert call(np.full(NQ, np.inf), qd[3], *single) is False
    for bad in (q[0].tolist(), q[0, ::-1], q, single[0]):
        assert call(bad, qd[0], *single) is None
    for bad in (q[:50], q[::-1], np.broadcast_to(q[0], q.shape), q.astype(np.float32)):
        assert rows(share(0, 1), bad, qd, *out) is None


def test_unpickled_arrays_take_the_fast_path(kernel: Kernel) -> None:
    q, qd = (pickle.loads(pickle.dumps(x[0].copy())) for x in states(1))
    assert kernel.fast(q, qd, np.empty(NV), np.empty(1)) is True


def test_outputs_may_overlap_inputs_and_have_any_layout(
    kernel: Kernel, program: Program
) -> None:
    q, qd = (x[0].copy() for x in states(1))
    expected = expect(program, q, qd)
    check(kernel.one(q, qd, out=(qd, np.empty(1)))[0], expected)
    _, qd = (x[0].copy() for x in states(1))
    spread = np.zeros((NV, 2))
    check(kernel.one(q, qd, out=(spread[:, 1], np.empty(1, np.float32)))[0], expected, 1e-6)
    assert not spread[:, 0].any()
    many_q, many_qd = states(20)
    expected = expect(program, many_q, many_qd)
    check(kernel.batch(many_q, many_qd, out=(many_qd, np.empty((20, 1))))[0], expected)
    _, many_qd = states(20)
    out = (np.empty((20, NV), order="F"), np.empty((20, 1)))
    check(kernel.batch(many_q, many_qd, out=out)[0], expected)


def test_rows_of_any_stride(kernel: Kernel, program: Program) -> None:
    both = np.concatenate(states(37), axis=1)
    q, qd = both[:, :NQ], both[:, NQ:]
    expected = expect(program, q, qd)
    check(kernel.batch(q, qd)[0], expected)
    check(kernel.batch(q[::2], qd[::2])[0], [e[::2] for e in expected])
    check(kernel.batch(q[::-1], qd[::-1])[0], [e[::-1] for e in expected])
    check(kernel.batch(np.asfortranarray(q), qd)[0], expected)
    check(kernel.batch(q.tolist(), qd.astype(">f8"))[0], expected)
    same = np.broadcast_to(q[0], (37, NQ))
    check(kernel.batch(same, qd)[0], expect(program, same, qd))
    table = np.zeros((37, 10))
    check(kernel.batch(q, qd, out=(table[:, 2:5], table[:, 7:8]))[0], expected)
    assert not table[:, [0, 1, 5, 6, 8, 9]].any()


def test_single_precision(program: Program) -> None:
    kernel = build_kernel(program, SIGNATURE, dtype="float32")
    q, qd = states(21)
    got, _ = kernel.batch(q.astype(np.float32), qd.astype(np.float32))
    assert got[0].dtype == np.float32
    check(got, expect(program, q, qd), rtol=1e-5)
    check(kernel.batch(q, qd)[0], expect(program, q, qd), rtol=1e-5)
    check(kernel.one(q[3], qd[3])[0], expect(program, q[3], qd[3]), rtol=1e-5)


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share every batch, however small."""
    monkeypatch.setattr(row_threads, "WORTH_SHARING", 0.0)
    monkeypatch.setattr(row_threads, "processors", lambda: 3)


@pytest.mark.parametrize("n", [1, 256, 257, 5000])
def test_threads_change_nothing(kernel: Kernel, n: int, shares: None) -> None:
    q, qd = states(n)
    alone, _ = kernel.batch(q, qd)
    for threads in (2, 3, 16):
        together, finite = kernel.batch(q, qd, threads=threads)
        assert finite
        strided, _ = kernel.batch(q[::-1], qd[::-1], threads=threads)
        for a, b, c in zip(alone, together, strided, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a[::-1], c)


def test_threads_share_long_batches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the seconds of a row are known; until then the first part is done to learn them."""
    monkeypatch.setattr(row_threads, "processors", lambda: 2)
    calls: list[tuple[int, int, int]] = []
    caller, begun, helped = threading.get_ident(), threading.Event(), threading.Event()

    def own_parts() -> int:
        return sum(thread == caller for *_, thread in calls)

    def now() -> float:
        """Time passes with the parts that the caller does, and with nothing else."""
        return own_parts() * (0.005 if long else 0.0)

    def work(part: int, parts: int) -> bool:
        calls.append((part, parts, threading.get_ident()))
        if threading.get_ident() != caller:
            helped.set()
            begun.wait(60)  # each thread gets a part, however late it wakes up
        elif own_parts() == (1 if turn else 2):  # the first that may be shared
            begun.set()
            helped.wait(60 if long else 0.05)
        return True

    monkeypatch.setattr(row_threads, "perf_counter", now)
    for long in (True, False):
        shared = SharedRows(fewest=1)
        for turn in range(2):
            calls.clear()
            begun.clear()
            helped.clear()
            assert shared.run(work, 100, 2) is True
            if long or turn == 0:
                assert sorted(part for part, *_ in calls) == list(range(8))
                assert len({thread for *_, thread in calls}) == (2 if long else 1)
            else:
                assert [call[:2] for call in calls] == [(0, 1)]


def test_a_part_that_cannot_be_done_is_told(shares: None) -> None:
    for answers in ([True, None, False], [True, False, True], [True, True, True]):
        shared = SharedRows(fewest=1)
        expected = None if None in answers else all(answers)
        assert shared.run(lambda part, _, answers=answers: answers[part], 3, 2) is expected


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_many_callers_share_the_threads(kernel: Kernel, pause: float, shares: None) -> None:
    """Threads are found idle and busy, by several callers at once."""
    arguments = [states(n) for n in (300, 513, 2000, 5000)]
    expected = [kernel.batch(*pair)[0] for pair in arguments]

    def call(k: int) -> bool:
        right = True
        for turn in range(5 if pause else 200):
            time.sleep(pause)
            which = (k + turn) % len(arguments)
            got, finite = kernel.batch(*arguments[which], threads=2)
            same = map(np.array_equal, got, expected[which])
            right = right and finite and all(same)
        return right

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(6)))


@pytest.mark.finding("K-7")
def test_a_batch_is_done_where_no_thread_can_be_started(
    program: Program, monkeypatch: pytest.MonkeyPatch, shares: None
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    row_threads._pool.cache_clear()
    kernel = build_kernel(program, SIGNATURE)
    q, qd = states(1000)
    check(kernel.batch(q, qd, threads=2)[0], expect(program, q, qd))


@pytest.mark.slow
def test_a_process_ends_while_threads_wait() -> None:
    program = """
import numpy as np
from dynsys import synthetic
from problems import InverseDynamics
kernel = InverseDynamics(synthetic.chain(3)).compile()
kernel.batch(*np.zeros((3, 200_000, 3)), threads=2)
"""
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_work_after_fork(kernel: Kernel, shares: None) -> None:
    q, qd = states(1000)
    expected, _ = kernel.batch(q, qd, threads=2)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(round(LIMIT))
        got, _ = kernel.batch(q, qd, threads=2)
        os._exit(0 if np.array_equal(got[0], expected[0]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_says_whether_all_is_finite(kernel: Kernel, shares: None) -> None:
    q, qd = states(200)
    for row in (0, 35, 199):
        for value in (0.0, np.nan):
            bad = q.copy()
            bad[row, 6] = value
            for threads in (1, 2):
                assert kernel.batch(bad, qd, threads=threads)[1] is False
            assert kernel.one(bad[row], qd[row])[1] is False
            assert kernel.one(bad[row].tolist(), qd[row])[1] is False


@pytest.mark.parametrize(
    ("q", "qd", "message"),
    [
        (np.zeros(NQ), np.zeros(NV + 1), "qd: expected 3"),
        (np.zeros(NQ - 1), np.zeros(NV), "q: expected 7"),
        (np.zeros((1, NQ)), np.zeros(NV), "q: expected 7"),
        (np.zeros(NQ), 0.0, "qd: expected 3"),
        (np.zeros(NQ, complex), np.zeros(NV), "q: expected an array of real"),
        (["a"] * NQ, np.zeros(NV), "q: expected an array of real"),
        ([[1, 2], [3]], np.zeros(NV), "q: expected an array of real"),
    ],
)
def test_wrong_arguments_of_one(kernel: Kernel, q: object, qd: object, message: str) -> None:
    with pytest.raises(StateError, match=message):
        kernel.one(q, qd)  # type: ignore[arg-type]


def test_wrong_arguments(kernel: Kernel) -> None:
    q, qd = states(4)
    with pytest.raises(StateError, match=r"qd: expected shape \(N, 3\)"):
        kernel.batch(q, q)
    with pytest.raises(StateError, match="as many rows"):
        kernel.batch(q, qd[:3])
    with pytest.raises(StateError, match="q: expected shape"):
        kernel.batch(q[0], qd)
    with pytest.raises(StateError, match="2 arguments"):
        kernel.batch(q)
    with pytest.raises(StateError, match="2 arguments"):
        kernel.one(q[0])
    with pytest.raises(StateError, match="2 arguments"):
        kernel.batch()
    with pytest.raises(StateError, match="torque"):
        kernel.batch(q, qd, out=(np.empty((3, NV)), np.empty((4, 1))))
    with pytest.raises(StateError, match="2 arrays"):
        kernel.one(q[0], qd[0], out=(np.empty(NV),))
    frozen = np.empty(NV)
    frozen.flags.writeable = False
    with pytest.raises(StateError, match="read-only"):
        kernel.one(q[0], qd[0], out=(frozen, np.empty(1)))


def test_code_lives_as_long_as_its_function(program: Program) -> None:
    fast = build_kernel(program, SIGNATURE).fast
    gc.collect()
    q, qd = (x[0].copy() for x in states(1))
    out = (np.empty(NV), np.empty(1))
    assert fast(q, qd, *out) is True
    check(out, expect(program, q, qd))


def test_calls_leave_reference_counts_alone(kernel: Kernel) -> None:
    q, qd = (x[0].copy() for x in states(1))
    out = (np.empty(NV), np.empty(1))
    counted = (q, qd, *out, None, True)
    before = [sys.getrefcount(x) for x in counted]
    for _ in range(1000):
        kernel.fast(q, qd, *out)
        kernel.fast(q)
    after = [sys.getrefcount(x) for x in counted]
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True))


def test_stored_object_code(program: Program) -> None:
    code = compile_computation(program, SIGNATURE, "float64", host())
    kernel = MachineKernel(code, SIGNATURE)
    q, qd = states(5)
    check(kernel.batch(q, qd)[0], expect(program, q, qd))
    with pytest.raises(KernelBuildError, match="loaded"):
        MachineKernel(code[:16] + b"nonsense" * 100, SIGNATURE)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_of_long_outputs_are_written(dtype: str) -> None:
    """Blocks of zeros, blocks with some, an end that fills no block; any number of rows."""
    graph = Graph()
    x = graph.inputs(3)
    outputs = [x[k % 3] * (k + 1.0) if k % 50 < 7 or k > 301 else 0.0 for k in range(307)]
    program = graph.program(outputs)
    kernel = build_kernel(program, Signature((("x", 3),), (("y", 307),)), dtype=dtype)
    X = np.random.default_rng(0).normal(size=(83, 3)).astype(dtype)
    expected = program.evaluate(X)
    for n in (1, 5, 8, 16, 23, 64, 83):
        y = np.full((n + 1, 307), 7, dtype=dtype)
        assert kernel.batch(X[:n], out=(y[:n],))[1]
        np.testing.assert_allclose(y[:n], expected[:n], rtol=1e-6 if dtype == "float32" else 0)
        assert (y[n] == 7).all()
        bad = X[:n].copy()
        bad[n // 2, 1] = np.nan
        assert not kernel.batch(bad)[1]
