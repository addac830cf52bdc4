"""Tail of a matrix program: d torque by q, qd and qdd from freedoms side by side.

:mod:`dynsys.program.paired` says what the head gives and what happens to it lane by lane, W
lanes side by side. Then, with what freedoms i and j bring,

    j supports i      q_ij = row_B_i . P_j + row_i . Q_j     qd_ij = row_B_i . S_j + row_i . R_j
                      H_ij = row_i . S_j
    i supports j      q_ij = S_i . by_q_j                    qd_ij = S_i . by_qd_j
                      H_ij = S_i . row_j
    of one joint      the same with own_q for by_q

and zero between other freedoms. Some columns at a time, W of them, stay in registers while all
rows go by. Last come slopes of friction and rotor inertias, on the diagonals of qd and qdd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.llvm.matrix_tails import (
    block_starts,
    broadcast,
    masked,
    tail_function,
)
from dynsys.kernel.llvm.one import write_segment
from dynsys.kernel.llvm.target import host
from dynsys.kernel.llvm.text import Lines, Tables, VectorType, counting_loop, internal_function
from dynsys.kernel.schedule import Place, make_schedule
from dynsys.model.expanded import expanded_parent, own_supports
from dynsys.model.tree import KinematicTree
from dynsys.plan.operations import Operations, program_operations
from dynsys.program.frames import reframe
from dynsys.program.paired import (
    HEAD,
    LOAD,
    MOMENTS,
    PAIRING,
    Lane,
    lane_moments,
    loads_lane,
    paired_size,
    pairing_lane,
)
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = ["PairTail"]

MATRICES = 3
ABOVE, BELOW, OWN = range(3)
"""How the column of an entry stands to its row: supports it, is supported, of one joint."""
KINDS = ((), (ABOVE,), (BELOW,), (ABOVE, BELOW), (ABOVE, BELOW, OWN))
"""What W entries of a row may be together."""
ENTRIES = {
    ABOVE: (
        (("row_B", "P", 3), ("row", "Q", 6)),
        (("row_B", "S", 3), ("row", "R", 6)),
        (("row", "S", 6),),
    ),
    BELOW: ((("S", "by_q", 6),), (("S", "by_qd", 6),), (("S", "row", 6),)),
    OWN: ((("S", "own_q", 6),), (("S", "by_qd", 6),), (("S", "row", 6),)),
}
"""Entries of the three matrices: sums of so many products of what row and column bring."""


@final
class PairTail:
    """q, qd and qdd (3, n, n) by the expanded ``parent`` of n freedoms.

    Parameters
    ----------
    joint : (n,) number of the joint that each freedom belongs to.
    moments : (10, n) of the body behind each freedom, see ``lane_moments``.
    armature : (n,) rotor inertias; ``rubs`` (n,) whether there are slopes of friction.
    wrenches : whether the head has external wrenches.
    """

    def __init__(
        self,
        parent: IntArray,
        joint: Sequence[int],
        moments: Array,
        armature: Array,
        rubs: BoolArray,
        wrenches: bool,
    ) -> None:
        self.parent, self.n, self.moments, self.armature = (
            parent,
            len(parent),
            moments,
            armature,
        )
        n, self._rubs = self.n, np.flatnonzero(rubs).tolist()
        self._lanes = loads_lane(wrenches), pairing_lane()
        self.carried_mass = moments[0].copy()
        for k in reversed(range(n)):
            if parent[k] >= 0:
                self.carried_mass[parent[k]] += self.carried_mass[k]
        self.n_head = paired_size(n, wrenches)
        # where arrays of all lanes begin: of the head, of the memory
        self._head = _starts(HEAD, 0, n)
        self._slopes = self.n_head - n
        self._load = _starts(LOAD, 0, n)
        self._pairing = _starts(PAIRING, sum(LOAD.values()) * n, n)
        self.n_work = (sum(LOAD.values()) + sum(PAIRING.values())) * n
        supports = own_supports(parent)
        self._kind = np.full((n, n), -1)
        for i in range(n):
            for j in supports[i]:
                same = joint[i] == joint[j]
                # alone at its joint: S x* f does no work along S, own_q is as good as by_q
                alone = i == j and joint.count(joint[i]) == 1
                self._kind[i, j] = OWN if same else ABOVE
                self._kind[j, i] = BELOW if alone or not same else OWN

    @staticmethod
    def of(robot: KinematicTree, wrenches: bool) -> PairTail:
        """Tail of a robot whose every moving body is behind a freedom of its own."""
        moments = lane_moments(reframe(robot, regroup="all"))
        if moments is None:
            raise KernelBuildError(
                f"robot {robot.name!r}: a moving body has no joint that moves"
            )
        joint = [i for i, where in enumerate(robot.v_slices()) for _ in _numbers(where)]
        rubs = np.full(robot.nv, robot.joint_friction is not None)
        return PairTail(expanded_parent(robot), joint, moments, robot.armature, rubs, wrenches)

    def operations(self, dtype: str, width: int) -> Operations:
        """Lanes of freedoms, sums along the tree, W entries of a row at a time, diagonals."""
        width = _width(dtype)
        starts = block_starts(self.n, width)
        total = Operations()
        for lane in self._lanes:
            total += program_operations(lane.program) * (len(starts) * width)
        for first in starts:
            for kinds, rows in self._rows(first, width).items():
                total += _entry_operations(kinds) * (len(rows) * width)
        sums = sum(LOAD.values()) * int((self.parent >= 0).sum())
        diagonals = len(self._rubs) + int(np.count_nonzero(self.armature))
        return total + Operations(additions=sums + diagonals)

    def evaluate(self, head: ScalarArray) -> ScalarArray:
        """The matrices (3, n, n) from the numbers of the head, without vectors."""
        n = self.n
        known = {name: head[at : at + HEAD[name] * n] for name, at in self._head.items()}
        arrays = {name: x.reshape(-1, n) for name, x in known.items()}
        arrays |= dict(zip(MOMENTS, np.split(self.moments, [1, 4]), strict=True))
        arrays |= _evaluated(self._lanes[0], arrays)
        for k in reversed(range(n)):
            if self.parent[k] >= 0:
                for name in LOAD:
                    arrays[name][:, self.parent[k]] += arrays[name][:, k]
        x = arrays | _evaluated(self._lanes[1], arrays | {"mass": self.carried_mass[None]})
        S, row, row_B, by_qd = x["S"], x["row"], x["row_B"], x["by_qd"]
        above = [
            row_B.T @ x["P"] + row.T @ x["Q"],
            row_B.T @ S[:3] + row.T @ x["R"],
            row.T @ S,
        ]
        below = [S.T @ x["by_q"], S.T @ by_qd, S.T @ row]
        own = [S.T @ x["own_q"], S.T @ by_qd, S.T @ row]
        out = np.zeros((MATRICES, n, n), dtype=head.dtype)
        for kind, found in ((ABOVE, above), (BELOW, below), (OWN, own)):
            out += np.array(found) * (self._kind == kind)
        rubs = np.isin(np.arange(n), self._rubs)
        out[1] += np.diag(head[self._slopes :] * rubs)
        out[2] += np.diag(self.armature)
        return out

    # ---- machine code --------------------------------------------------------------------

    def text(self, dtype: str, width: int) -> str:
        """Text of ``void @tail(ptr head, ptr work, ptr out)``."""
        width, n = _width(dtype), self.n
        t = VectorType(dtype, width)
        tables, main = Tables("pair_table"), Lines("m")
        numbers = [*self.moments.ravel(), *self.carried_mass, *self.armature]
        constants = ", ".join(
            f"{t.element} {VectorType(dtype, 1).constant(x)}" for x in numbers
        )
        body = f"@pair_constants = internal constant [{len(numbers)} x {t.element}]"
        starts = block_starts(n, width)
        for k in range(2):
            for first in starts:
                main.do(f"call void @pair_lane{k}(ptr %head, ptr %work, i64 {first})")
            if k == 0:
                main.do("call void @pair_sums(ptr %work)")
        for first in starts:
            self._call_pairs(main, tables, t, first)
        self._diagonals(main, t)
        functions = (
            *(self._lane(t, k) for k in range(2)),
            self._sums(t),
            *(self._pairs(t, kinds) for kinds in KINDS),
        )
        return (
            f"{body} [{constants}], align 64\n"
            + tables.text()
            + "".join(functions)
            + tail_function(main)
        )

    def _lane(self, t: VectorType, k: int) -> str:
        """Text of ``@pair_lane<k>(head, work, first)``: a program on W lanes."""
        lane, n = self._lanes[k], self.n
        places: list[tuple[str, int]] = []
        moments = _starts(MOMENTS if k == 0 else {"mass": 1}, 0 if k == 0 else 10 * n, n)
        for name, size in lane.inputs.items():
            base, start = (
                ("%constants", moments[name])
                if name in moments
                else ("%work", self._load[name])
                if name in LOAD
                else ("%head", self._head[name])
            )
            places += [(base, start + i * n) for i in range(size)]
        target = self._load if k == 0 else self._pairing
        outputs = [
            target[name] + i * n for name, size in lane.outputs.items() for i in range(size)
        ]
        lines = Lines("v")
        for name, base in (("head", "%all_head"), ("work", "%all_work")):
            lines.do(f"%{name} = getelementptr {t.element}, ptr {base}, i64 %first")
        lines.do(f"%constants = getelementptr {t.element}, ptr @pair_constants, i64 %first")
        schedule = make_schedule(lane.program, 10**6)
        (stage,) = schedule.stages
        (segment,) = stage.segments
        write_segment(lines, t, schedule, segment, _LaneMemory(t, places, outputs))
        parameters = "ptr %all_head, ptr %all_work, i64 %first"
        return internal_function(f"@pair_lane{k}", parameters, lines)

    def _sums(self, t: VectorType) -> str:
        """Text of ``@pair_sums(work)``: every freedom's load to the one that supports it."""
        one, lines = VectorType(t.dtype, 1), Lines("v")
        lines.do(f"%offset = mul i64 %k, {self.n}")
        lines.do(f"%at = getelementptr {t.element}, ptr %work, i64 %offset")
        total: dict[int, str] = {}
        for k in reversed(range(self.n)):
            address = lines.at(one, "%at", k)
            own = lines.load(one, address)
            if k in total:
                own = lines.let(f"fadd {one} {own}, {total[k]}")
                lines.store(one, own, address)
            above = int(self.parent[k])
            if above >= 0:
                more = total.get(above)
                total[above] = own if more is None else lines.let(f"fadd {one} {more}, {own}")
        loop = counting_loop("", "", lines, sum(LOAD.values()))
        return internal_function("@pair_sums", "ptr %work", loop)

    def _rows(self, first: int, width: int) -> dict[tuple[int, ...], list[int]]:
        """Rows by the kinds of entries that W columns have in them."""
        rows: dict[tuple[int, ...], list[int]] = {}
        for i in range(self.n):
            kinds = set(self._kind[i, first : first + width].tolist()) - {-1}
            key = tuple(sorted(kinds)) if OWN not in kinds else (ABOVE, BELOW, OWN)
            rows.setdefault(key, []).append(i)
        return rows

    def _call_pairs(self, main: Lines, tables: Tables, t: VectorType, first: int) -> None:
        """Calls for W columns: rows that have the same kinds of entries in one."""
        for key, some in self._rows(first, t.width).items():
            lanes = [
                self._kind[i, j] == kind
                for i in some
                for kind in key
                for j in range(first, first + t.width)
            ]
            masks = tables.masks(t, lanes) if key else "null"
            main.do(
                f"call void @{_name(key)}(ptr %head, ptr %work, ptr %out, i64 {first},"
                f" i64 {len(some)}, ptr {tables.integers(some)}, ptr {masks})"
            )

    def _pairs(self, t: VectorType, kinds: tuple[int, ...]) -> str:
        """Text of entries of such kinds: rows from a table, W columns from %first on."""
        n, before, loop = self.n, Lines("b"), Lines("v")
        places = {"S": ("head", self._head["S"])}
        places |= {name: ("work", at) for name, at in self._pairing.items()}
        for name in ("head", "work", "out"):
            before.do(f"%{name}_column = getelementptr {t.element}, ptr %{name}, i64 %first")
        loop.do("%row_at = getelementptr i32, ptr %rows, i64 %k")
        loop.do("%row_32 = load i32, ptr %row_at, align 4")
        loop.do("%row = zext i32 %row_32 to i64")
        for name in ("head", "work"):
            loop.do(f"%{name}_row = getelementptr {t.element}, ptr %{name}, i64 %row")
        loop.do(f"%place = mul i64 %row, {n}")
        loop.do(f"%to = getelementptr {t.element}, ptr %out_column, i64 %place")
        loop.do(f"%mask_place = mul i64 %k, {max(1, len(kinds)) * t.width}")
        loop.do(f"%mask_at = getelementptr i{t.bits}, ptr %masks, i64 %mask_place")
        columns: dict[tuple[str, int], str] = {}
        rows: dict[tuple[str, int], str] = {}

        def column(name: str, k: int) -> str:
            if (name, k) not in columns:
                base, at = places[name]
                columns[name, k] = before.load(t, before.at(t, f"%{base}_column", at + k * n))
            return columns[name, k]

        def row(name: str, k: int) -> str:
            if (name, k) not in rows:
                base, at = places[name]
                rows[name, k] = broadcast(loop, t, loop.at(t, f"%{base}_row", at + k * n))
            return rows[name, k]

        @cache
        def product(*terms: tuple[str, str, int]) -> str:
            total = ""
            for of_row, of_column, size in terms:
                for k in range(size):
                    a, b = row(of_row, k), column(of_column, k)
                    total = (
                        loop.multiply_add(t, a, b, total)
                        if total
                        else loop.let(f"fmul contract {t} {a}, {b}")
                    )
            return total

        for matrix in range(MATRICES):
            value = ""
            for number, kind in enumerate(kinds):
                at = loop.at(VectorType(t.dtype, 1), "%mask_at", number * t.width)
                mask = loop.let(f"load {t.integer}, ptr {at}, align {t.size}")
                part = masked(loop, t, product(*ENTRIES[kind][matrix]), mask)
                value = loop.let(f"fadd {t} {value}, {part}") if value else part
            loop.store(t, value or "zeroinitializer", loop.at(t, "%to", matrix * n * n))
        parameters = (
            "ptr %head, ptr %work, ptr %out, i64 %first, i64 %count, ptr %rows, ptr %masks"
        )
        text = counting_loop(before, "", loop, "%count")
        return internal_function(f"@{_name(kinds)}", parameters, text)

    def _diagonals(self, main: Lines, t: VectorType) -> None:
        """Slopes of friction and rotor inertias."""
        one, n = VectorType(t.dtype, 1), self.n
        added = [(1, i, main.at(one, "%head", self._slopes + i)) for i in self._rubs]
        for i in np.flatnonzero(self.armature).tolist():
            added.append((2, i, main.at(one, "@pair_constants", 11 * n + i)))
        for matrix, i, address in added:
            place = main.at(one, "%out", matrix * n * n + i * (n + 1))
            more = main.load(one, address)
            value = main.let(f"fadd {one} {main.load(one, place)}, {more}")
            main.store(one, value, place)


def _name(kinds: tuple[int, ...]) -> str:
    return "pairs_" + "".join(("above", "below", "own")[k] for k in kinds)


def _numbers(where: slice) -> range:
    return range(where.start, where.stop)


def _width(dtype: str) -> int:
    """Columns that stay in registers: the wider, the better."""
    return host().width(dtype)


def _entry_operations(kinds: tuple[int, ...]) -> Operations:
    """Of the entries of three matrices that may be of several kinds: each product once."""
    total = Operations()
    for matrix in range(MATRICES if kinds else 0):
        products = {ENTRIES[kind][matrix] for kind in kinds}
        for terms in products:
            size = sum(count for *_, count in terms)
            total += Operations(size, size - 1)
        total += Operations(additions=len(kinds) - 1)
    return total


def _starts(sizes: Mapping[str, int], start: int, n: int) -> dict[str, int]:
    """Where the array (size, n) of every name begins."""
    found = {}
    for name, size in sizes.items():
        found[name] = start
        start += size * n
    return found


def _evaluated(lane: Lane, arrays: dict[str, ScalarArray]) -> dict[str, ScalarArray]:
    """Outputs (size, n) by name of a lane's program on all lanes."""
    given = np.concatenate([arrays[name] for name in lane.inputs])
    found = lane.program.evaluate(given.T).T
    cuts = np.cumsum([*lane.outputs.values()])[:-1]
    return dict(zip(lane.outputs, np.split(found, cuts), strict=True))


@final
class _LaneMemory:
    """Inputs and outputs of a lane's program: arrays of all lanes."""

    def __init__(
        self, t: VectorType, places: Sequence[tuple[str, int]], outputs: Sequence[int]
    ) -> None:
        self._t, self._places, self._outputs = t, places, outputs

    def load(self, lines: Lines, kind: str, number: int) -> str:
        """W lanes of an input."""
        base, at = self._places[number]
        return lines.load(self._t, lines.at(self._t, base, at))

    def store(self, lines: Lines, value: str, place: Place) -> None:
        """Write W lanes of an output."""
        lines.store(self._t, value, lines.at(self._t, "%work", self._outputs[place[1]]))
