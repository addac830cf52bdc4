"""The recursion with open parameters against dense solves, on any tree with any rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import dynsys
from dynsys import KinematicTree, PlanMismatchError
from dynsys.errors import NoOrderError
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.methods import RecursionOrder
from dynsys.plan.operations import program_operations
from dynsys.plan.recursion import recursion_estimator, recursion_program
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import known
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors import published
from tests.plan.saddle_layouts import linear
from tests.strategies import seeds, trees

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def square_layout(
    robot: KinematicTree, rng: np.random.Generator, n_open: int
) -> list[EquationBlock]:
    """Readings of all accelerations and external wrenches, some of them replaced by others.

    Wrenches are read entry by entry, in a turned frame, or as six at once; what replaces them
    are rows on any unknown, among them some that depend on the state.
    """
    unknowns = UnknownLayout(robot, net_wrench=True)
    blocks: list[EquationBlock] = []
    for i in range(robot.n_bodies):
        style = rng.choice(["entries", "frame", "block"])
        if style == "block":
            blocks.append(known(unknowns, "external_wrench", i))
        elif style == "frame":
            C = rng.normal(size=(6, 6))
            blocks.append(linear(unknowns, f"frame{i}", "external_wrench", i, C))
        else:
            for k in range(6):
                row = np.eye(6)[k : k + 1] * rng.choice([1.0, -2.0])
                blocks.append(linear(unknowns, f"x{i}{k}", "external_wrench", i, row))
        if i in unknowns.driven:
            blocks.append(known(unknowns, "qdd", i))
    dropped = 0
    for at in rng.permutation(len(blocks)):
        if dropped + blocks[at].size <= n_open:
            dropped += blocks[at].size
            for k in range(blocks[at].size):
                blocks.append(random_row(robot, unknowns, f"row{at}_{k}", rng))
            blocks[at] = linear(unknowns, f"gone{at}", "external_wrench", 0, np.zeros((0, 6)))
    kept = [block for block in blocks if block.size]
    gyro = EquationBlock("gyro", "gyro", 0, 3, (), lambda kin: kin.velocity[0][:3], True)
    return [kept[k] for k in rng.permutation(len(kept))] + [gyro]


def random_row(
    robot: KinematicTree, unknowns: UnknownLayout, name: str, rng: np.random.Generator
) -> EquationBlock:
    i = int(rng.integers(robot.n_bodies))
    kind = str(
        rng.choice(
            ["acceleration", "net_wrench", "joint_wrench", "joint_wrench", "torque", "turned"]
        )
    )
    if kind == "torque" and i not in unknowns.driven:
        kind = "joint_wrench"
    if kind != "turned":
        size = unknowns.block(kind, i).size  # type: ignore[arg-type]
        return linear(unknowns, name, kind, i, rng.normal(size=(1, size)))
    C = rng.normal(size=(1, 6))

    def value(kin: Kinematics) -> ScalarArray:
        return C @ kin.X_up[i].T

    terms = (
        Term(unknowns.block("joint_wrench", i), np.ones((1, 6), dtype=bool), value),
        Term.constant(unknowns.block("acceleration", i), C),
    )
    return EquationBlock(name, "turned", i, 1, terms, lambda kin: kin.velocity[i][:1], True)


def square_spec(
    robot: KinematicTree, blocks: list[EquationBlock], outputs: tuple[str, ...] = ESTIMATES
) -> EstimatorSpec:
    size = sum(block.size for block in blocks)
    return EstimatorSpec(robot, tuple(blocks), np.eye(size), outputs)


def dense(spec: EstimatorSpec, q: Array, qd: Array, y: Array) -> tuple[Array, float]:
    """Unknowns by a dense solve of all rows that have unknowns, and the condition number."""
    D, b = spec.system.assemble(q, qd, y)
    full = D.toarray()
    told = np.abs(full).any(axis=1)
    full = full[told] / np.abs(full[told]).max(axis=1, keepdims=True)
    size = np.abs(D.toarray()[told]).max(axis=1)
    return np.linalg.solve(full, -b[told] / size), float(np.linalg.cond(full))


@QUICK
@given(trees(max_bodies=5, coupled=True), seeds)
def test_square_layouts_on_any_tree(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs = ESTIMATES if rng.random() < 0.5 else ESTIMATES[:3]  # then masses are regrouped
    spec = square_spec(robot, square_layout(robot, rng, int(rng.integers(0, 8))), outputs)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    y = rng.normal(size=spec.n_rows)
    try:
        d, condition = dense(spec, q, qd, y)
    except np.linalg.LinAlgError:
        assume(False)
    assume(condition < 1e6)
    found = recursion_estimator(spec)
    values = found.program.evaluate(np.concatenate([q, qd, y]))
    assume(np.isfinite(values[0]))  # a watched pivot
    want = np.concatenate([d[spec.columns(name)] for name in spec.outputs])
    scale = max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(values, want, rtol=0, atol=1e-9 * scale)
    again = recursion_program(spec, found.order)
    assert program_operations(again) == program_operations(found.program)
    assert RecursionOrder.decoded(found.order.encoded()) == found.order


def load_cells(n: int, outputs: tuple[str, ...] = ("torque",)) -> EstimatorSpec:
    """Load cells at both ends of a chain: two accelerations at each end and a torsion open."""
    robot = dynsys.synthetic.auto_tree(n, 1.0, 1.5, 1.0)
    equations = published.sie_friction(robot).equations(UnknownLayout(robot, net_wrench=True))
    size = sum(block.size for block in equations)
    return EstimatorSpec(robot, tuple(equations), np.eye(size), outputs)


@pytest.mark.parametrize(("n", "most"), [(8, 1861), (10, 2419)])
def test_load_cells_cost_less_than_any_elimination_of_all_unknowns(n: int, most: int) -> None:
    found = recursion_estimator(load_cells(n))
    assert program_operations(found.program).total <= most  # 1880, 2448 known, guards included
    assert len(found.pivots) == 5
    everything = recursion_program(load_cells(n, ESTIMATES), found.order)  # any question
    assert program_operations(everything).total > program_operations(found.program).total


def wrist(n_beyond: int) -> EstimatorSpec:
    """The textbook arm: wrist sensor, joint accelerations, unknown wrench at the tool."""
    robot = dynsys.synthetic.chain(6)
    unknowns = UnknownLayout(robot)
    tool = robot.n_bodies - 1
    blocks = [known(unknowns, "external_wrench", i) for i in range(tool)]
    blocks += [known(unknowns, "qdd", i) for i in range(robot.n_bodies)]
    blocks.append(known(unknowns, "joint_wrench", tool - n_beyond))
    return square_spec(robot, blocks)


@pytest.mark.parametrize("n_beyond", [0, 1, 3])
def test_a_wrench_is_asked_for_where_its_sensor_is(n_beyond: int) -> None:
    spec = wrist(n_beyond)
    found = recursion_estimator(spec)
    assert found.pivots == ()  # constants only: no division, nothing to watch
    assert program_operations(found.program).divisions == 0
    assert bool(found.order.anchors) == bool(n_beyond)
    rng = np.random.default_rng(n_beyond)
    q, qd, y = (rng.normal(size=k) for k in (spec.robot.nq, spec.robot.nv, spec.n_rows))
    values = found.program.evaluate(np.concatenate([q, qd, y]))
    d, _ = dense(spec, q, qd, y)
    want = np.concatenate([d[spec.columns(name)] for name in spec.outputs])
    np.testing.assert_allclose(values, want, rtol=0, atol=1e-10 * np.abs(want).max())


def test_a_pivot_near_zero_gives_no_answer() -> None:
    spec = load_cells(4)
    program = recursion_estimator(spec).program
    q = np.zeros(4)  # all in one plane: the torsion is not seen
    with np.errstate(all="ignore"):
        values = program.evaluate(np.concatenate([q, np.ones(4), np.ones(spec.n_rows)]))
    assert np.isnan(values[0])


def test_orders_are_executed_or_refused() -> None:
    spec = load_cells(6)
    order = recursion_estimator(spec).order
    before = program_operations(recursion_program(spec, order))
    late = replace(order, pivots=(*order.pivots[1:], order.pivots[0]))
    assert program_operations(recursion_program(spec, late)).total > before.total
    in_place = replace(order, regrouped=False)
    assert program_operations(recursion_program(spec, in_place)).total > before.total
    kept = replace(order, substituted=order.substituted[:-1])
    (reading, unknown), *others = order.substituted
    for wrong, message in (
        (kept, "need 6"),
        (replace(order, pivots=order.pivots[:-1]), "need 5"),
        (
            replace(order, pivots=(("nobody", "x"), *order.pivots[1:])),
            "no open reading 'nobody'",
        ),
        (replace(order, substituted=((reading, "qdd(link_1)[0]"), *others)), "has not its"),
        (replace(order, substituted=(("link_1/wrench[0]", unknown),)), "no exact"),
        (replace(order, substituted=order.substituted[::-1]), "do not stand in their order"),
        (replace(order, anchors=(("link_6", "link_1"),)), "not open"),
    ):
        with pytest.raises(PlanMismatchError, match=message):
            recursion_program(spec, wrong)
    with pytest.raises(ValueError, match="twice"):
        replace(order, pivots=(order.pivots[0], *order.pivots))


def test_what_is_not_determined_is_refused() -> None:
    spec = wrist(0)
    with pytest.raises(NoOrderError, match="as many readings"):
        recursion_estimator(square_spec(spec.robot, list(spec.equations[:-1])))
