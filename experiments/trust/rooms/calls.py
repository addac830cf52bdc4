"""Calls of all rooms with good arguments, for :mod:`experiments.trust.rooms.campaign`.

Numbers of arguments are exact in float32, so that every way to write them is the same numbers.
Functions of CasADi, JAX and PyTorch have the rules and errors of these tools and are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

import dynsys
import problems
import sensors
from dynsys.model.tree import KinematicTree
from dynsys.simulation import ContactPoints, Drives, Simulation, solve_contacts
from dynsys.types import Array
from experiments.trust.rooms.campaign import Call
from problems.detection import Alarm, ContactDetector, MomentumObserver, calibrate_alarm

__all__ = ["CALLS"]

N = 4
"""States of a batch."""
RADII = np.array([0.5, 0.25])


def _short(x: Any) -> Array:
    """Numbers that float32 holds."""
    return np.asarray(np.asarray(x, dtype=np.float32), dtype=np.float64)


@cache
def _arm() -> KinematicTree:
    return dynsys.synthetic.random_tree(4, 11)


@cache
def _plain() -> KinematicTree:
    """Three turning joints: nothing but numbers enters."""
    return dynsys.synthetic.chain(3)


@cache
def _four_bar() -> KinematicTree:
    return dynsys.synthetic.chain(4)


def _state(robot: KinematicTree, n: int = 0, seed: int = 0) -> dict[str, Array]:
    """q, qd and a third vector; of quaternions the neutral ones, which float32 holds."""
    rng = np.random.default_rng(seed)
    q = np.tile(robot.neutral(), (max(n, 1), 1))
    own = np.ones(robot.nq, dtype=bool)
    for where in robot.quaternion_slices:
        own[where] = False
    q[:, own] = _short(rng.uniform(-1, 1, (len(q), int(own.sum()))))
    qd, third = _short(rng.uniform(-1, 1, (2, len(q), robot.nv)))
    found = {"q": q, "qd": qd, "given": third}
    return found if n else {name: x[0] for name, x in found.items()}


def _only(state: Mapping[str, Array], *names: str) -> dict[str, Array]:
    return {name: state[name] for name in names}


Make = Callable[[], Call]
CALLS: dict[str, Make] = {}


def _add(name: str, make: Make) -> None:
    CALLS[name] = make


# ---- verbs -----------------------------------------------------------------------------------


def _verbs() -> None:
    of_q = (
        "crba",
        "centre_of_mass",
        "centre_of_mass_jacobian",
        "centroidal_momentum_matrix",
        "potential_energy",
    )
    of_qd = (
        "centroidal_momentum",
        "centroidal_momentum_bias",
        "coriolis_matrix",
        "kinetic_energy",
        "momentum",
    )
    for n in (0, N):
        batch = " batch" if n else ""
        for name in of_q:
            _add(name + batch, partial(_of_verb, name, ("q",), n))
        for name in of_qd:
            _add(name + batch, partial(_of_verb, name, ("q", "qd"), n))
        for name in ("rnea", "aba"):
            _add(name + batch, partial(_of_verb, name, ("q", "qd", "given", "f_ext"), n))
        _add("jacobian" + batch, partial(_of_verb, "jacobian", ("q",), n, 2))
    _add(
        "inverse_inertia",
        lambda: Call(lambda q: dynsys.inverse_inertia(_arm(), q), _only(_state(_arm()), "q")),
    )
    _add(
        "inverse_inertia_times",
        lambda: Call(
            lambda q, R: dynsys.inverse_inertia_times(_arm(), q, R),
            _only(_state(_arm()), "q") | {"R": _right()},
            any_size=("R",),
        ),
    )
    _add(
        "forward_kinematics",
        lambda: Call(
            lambda q: _pose(dynsys.forward_kinematics(_arm(), q, 2)),
            _only(_state(_arm()), "q"),
        ),
    )
    _add(
        "integrate",
        lambda: Call(
            lambda q, qd: _arm().integrate(q, qd, 0.5), _only(_state(_arm()), "q", "qd")
        ),
    )
    _add(
        "difference",
        lambda: Call(
            lambda q, other: _arm().difference(q, other),
            {"q": _state(_arm())["q"], "other": _state(_arm(), seed=1)["q"]},
        ),
    )


def _of_verb(name: str, arguments: tuple[str, ...], n: int, *more: Any) -> Call:
    """A verb of dynsys, its arguments in order; ``more`` behind them."""
    state = _state(_arm(), n) | {"f_ext": _wrenches(_arm(), n)}

    def run(**given: Any) -> Any:
        return getattr(dynsys, name)(_arm(), *given.values(), *more)

    return Call(run, _only(state, *arguments), optional=("f_ext",))


def _pose(X: Any) -> list[Array]:
    return [X.E, X.r]


def _wrenches(robot: KinematicTree, n: int = 0) -> Array:
    shape = (n, robot.n_bodies, 6) if n else (robot.n_bodies, 6)
    return _short(np.random.default_rng(5).uniform(-1, 1, shape))


def _right() -> Array:
    return _short(np.random.default_rng(6).uniform(-1, 1, (_arm().nv, 2)))


# ---- dynamics: derivatives, products, constraints --------------------------------------------


def _problems() -> dict[str, Any]:
    robot = _arm()
    return {
        "inverse": problems.InverseDynamics(robot),
        "forward": problems.ForwardDynamics(robot),
        "hybrid": problems.HybridDynamics(robot, robot.joint_names[:2]),
    }


@cache
def _problem(kind: str) -> Any:
    return _problems()[kind]


def _matrices(J: Any) -> list[Array]:
    return [J.q, J.qd, J._part(2)]


def _derivatives() -> None:
    nv = _arm().nv
    weight = _short(np.linspace(-1, 1, nv))
    along = _short(np.linspace(-1, 1, 3 * nv))
    for kind in ("inverse", "forward", "hybrid"):
        for n in (0, N):
            batch = "_batch" if n else ""
            rows = (lambda x: np.tile(x, (N, 1))) if n else (lambda x: x)

            def derivatives(kind: str = kind, batch: str = batch, n: int = n) -> Call:
                call = getattr(_problem(kind), f"derivatives{batch}")
                state = _state(_arm(), n) | {"f_ext": _wrenches(_arm(), n)}
                return Call(lambda **x: _matrices(call(**x)), state, optional=("f_ext",))

            def jvp(kind: str = kind, batch: str = batch, n: int = n, rows: Any = rows) -> Call:
                call = getattr(_problem(kind), f"jvp{batch}")
                return Call(call, _state(_arm(), n) | {"direction": rows(along)})

            def vjp(kind: str = kind, batch: str = batch, n: int = n, rows: Any = rows) -> Call:
                call = getattr(_problem(kind), f"vjp{batch}")
                state = _state(_arm(), n) | {"weight": rows(weight)}
                return Call(lambda **x: call(**x).all, state)

            def hvp(kind: str = kind, batch: str = batch, n: int = n, rows: Any = rows) -> Call:
                call = getattr(_problem(kind), f"hvp{batch}")
                state = _state(_arm(), n) | {"weight": rows(weight), "direction": rows(along)}
                return Call(lambda **x: call(**x).all, state)

            for make in (derivatives, jvp, vjp, hvp):
                _add(f"{kind}.{make.__name__}{batch}", make)

    def with_parameters() -> Call:
        names = [f"{_arm().body_names[1]}.mass"]

        def run(value: Any, **x: Any) -> Any:
            return _problem("forward").vjp(**x, parameters={names[0]: value}).all

        state = _state(_arm()) | {"weight": weight, "value": np.array(1.5)}
        return Call(run, state, any_shape=("value",))

    _add("forward.vjp with parameters", with_parameters)


@cache
def _held(kind: str) -> Any:
    robot = _four_bar()
    made = {
        "inverse": problems.InverseDynamics,
        "forward": problems.ForwardDynamics,
    }[kind]
    tip = dynsys.FrameConstraint("tip", robot.body_names[-1], components=("x", "y", "z"))
    return made(robot, constraints=[tip])


def _constraints() -> None:
    for n in (0, N):

        def solve(n: int = n) -> Call:
            def run(target: Any, **x: Any) -> Any:
                problem = _held("forward")
                call = problem.solve_batch if n else problem.solve
                x["torque"] = x.pop("given")
                found = call(**x, gains=(1.0, 2.0), target=target)
                return [found.qdd, found.constraint_wrench["tip"]]

            rows = np.array([0.5, 0.25, -0.5])
            state = _state(_four_bar(), n) | {"f_ext": _wrenches(_four_bar(), n)}
            state |= {"target": np.tile(rows, (N, 1)) if n else rows}
            return Call(run, state, optional=("f_ext", "target"))

        def plain(n: int = n) -> Call:
            def run(given: Any, **x: Any) -> Any:
                problem = _held("forward")
                call = problem.solve_batch if n else problem.solve
                found = call(**x, torque=given)
                return [found.qdd, found.constraint_wrench["tip"]]

            return Call(run, _state(_four_bar(), n))

        def impulse(n: int = n) -> Call:
            def run(q: Any, v: Any) -> Any:
                found = _held("forward").impulse(q, v)
                return [found.v, found.impulse["tip"]]

            state = _state(_four_bar(), n)
            return Call(run, {"q": state["q"], "v": state["qd"]})

        batch = " batch" if n else ""
        _add(f"constrained forward{batch}", plain)
        _add(f"constrained forward, steered{batch}", solve)
        _add(f"constrained impulse{batch}", impulse)

    def restitution() -> Call:
        state = _state(_four_bar())

        def run(value: Any) -> Any:
            return _held("forward").impulse(state["q"], state["qd"], value).v

        return Call(run, {"value": np.array(0.5)}, any_shape=("value",))

    def gains() -> Call:
        state = _state(_four_bar())
        x = {"q": state["q"], "qd": state["qd"], "torque": state["given"]}
        return Call(
            lambda gains: _held("forward").solve(**x, gains=gains).qdd,
            {"gains": np.array([1.0, 2.0])},
            optional=("gains",),
        )

    def close() -> Call:
        return Call(lambda q: _held("forward").close(q), _only(_state(_four_bar()), "q"))

    _add("constrained restitution", restitution)
    _add("constrained gains", gains)
    _add("constrained close", close)


# ---- operational space -----------------------------------------------------------------------


def _operational() -> None:
    def at() -> Call:
        def run(q: Any, qd: Any) -> Any:
            x = dynsys.operational_space(_plain(), q, dynsys.Posture(), qd)
            return [x.Lambda_inv, x.Lambda, x.Jbar, x.N, x.velocity, x.Jdot_qd, x.mu, x.rho]

        return Call(run, _only(_state(_plain()), "q", "qd"))

    def torque(contacts: bool) -> Call:
        robot = dynsys.synthetic.chain(6)
        tip = dynsys.BodyMotion(robot.body_names[-1], coordinates="position")
        held = [dynsys.BodyMotion(robot.body_names[2], coordinates=("linear x",))]
        space = dynsys.OperationalSpace(robot, tip, contacts=held if contacts else ())
        state = _only(_state(robot), "q", "qd") | {"acceleration": np.array([1.0, 0.5, 2.0])}
        state |= {"posture": _short(np.linspace(-1, 1, robot.nv))}
        return Call(space.torque, state, optional=("posture",))

    def floating() -> Call:
        robot = _arm()
        space = dynsys.OperationalSpace(robot, dynsys.CentreOfMass())
        return Call(
            lambda q, qd: [space.at(q, qd).Lambda_inv, space.at(q, qd).beta],
            _only(_state(robot), "q", "qd"),
        )

    def rows() -> Call:
        state = _state(_plain())
        return Call(
            lambda rows: (
                dynsys.operational_space(
                    _plain(), state["q"], dynsys.BodyMotion(2, rows=rows)
                ).Lambda_inv
            ),
            {"rows": np.eye(6)[3:5]},
            optional=("rows",),
        )

    def kernel(batch: bool) -> Call:
        robot = dynsys.synthetic.chain(6)
        tip = dynsys.BodyMotion(robot.body_names[-1], coordinates="position")
        made = dynsys.OperationalSpace(robot, tip).compile(("torque",))
        state = _state(robot, N if batch else 0)
        acceleration = np.array([1.0, 0.5, 2.0])
        posture = _short(np.linspace(-1, 1, robot.nv))
        if batch:
            acceleration, posture = np.tile(acceleration, (N, 1)), np.tile(posture, (N, 1))

        def run(**x: Any) -> Any:
            found, finite = (made.batch if batch else made.one)(*x.values())
            if not finite:
                raise dynsys.StateError("the kernel says that it is not finite")
            return list(found)

        more = {"acceleration": acceleration, "posture": posture}
        return Call(run, _only(state, "q", "qd") | more)

    _add("operational_space", at)
    _add("OperationalSpace.torque", lambda: torque(False))
    _add("OperationalSpace.torque in contact", lambda: torque(True))
    _add("OperationalSpace.at, floating", floating)
    _add("BodyMotion rows", rows)
    _add("operational kernel", lambda: kernel(False))
    _add("operational kernel batch", lambda: kernel(True))


# ---- simulation ------------------------------------------------------------------------------


@cache
def _simulation(drives: bool = False) -> Simulation:
    robot = _arm()
    points = ContactPoints(robot, [robot.body_names[-1]])
    return Simulation(robot, points, drives=Drives(robot, 50.0, 1.0) if drives else None)


def _simulated() -> None:
    start = _state(_arm())

    def run_of(**more: Any) -> Any:
        sim = _simulation()
        state, record = sim.run(sim.start(start["q"], start["qd"]), 3, **more)
        return [state.q, state.v, record.qdd]

    def begin() -> Call:
        def run(q: Any, qd: Any) -> Any:
            sim = _simulation()
            state, record = sim.run(sim.start(q, qd), 3)
            return [state.q, state.v, record.qdd]

        return Call(run, _only(start, "q", "qd"), optional=("qd",))

    def state() -> Call:
        def run(q: Any, v: Any, impulses: Any) -> Any:
            from dynsys.simulation import SimulationState

            given = SimulationState(q, v, 0.0, impulses)
            found, record = _simulation().run(given, 3)
            return [found.q, found.v, record.qdd]

        sim = _simulation()
        good = sim.start(start["q"], start["qd"])
        return Call(run, {"q": good.q, "v": good.v, "impulses": good.impulses})

    def target() -> Call:
        def run(q: Any) -> Any:
            sim = _simulation(True)
            found, record = sim.run(sim.start(start["q"]), 3, lambda time: q)
            return [found.q, record.torque]

        return Call(run, {"q": _state(_arm(), seed=1)["q"]})

    wrench = np.array([1.0, 0.5, 0.25, 1.0, 2.0, 3.0])
    torque = start["given"]
    name = _arm().body_names[-1]
    _add("simulation start", begin)
    _add("simulation state", state)
    _add(
        "simulation torque",
        lambda: Call(lambda torque: run_of(torque=torque), {"torque": torque}, (), ("torque",)),
    )
    _add(
        "simulation controller",
        lambda: Call(lambda torque: run_of(controller=lambda _: torque), {"torque": torque}),
    )
    _add(
        "simulation wrench",
        lambda: Call(lambda wrench: run_of(wrenches={name: wrench}), {"wrench": wrench}),
    )
    _add("simulation target", target)
    _add(
        "solve_contacts",
        lambda: Call(
            lambda A, b, start: solve_contacts(A, b, 0.5, start).x,
            {"A": np.eye(3), "b": np.array([-1.0, 3.0, 0.0]), "start": np.zeros(3)},
            optional=("start",),
        ),
    )
    _add(
        "contact points",
        lambda: Call(
            lambda points, radius: ContactPoints(_arm(), [name] * 2, points, radius).point,
            {"points": np.array([[1.0, 2.0, 3.0], [0.5, 0.0, 1.0]]), "radius": RADII},
            optional=("points",),
            any_shape=("radius",),
        ),
    )
    _add(
        "drives",
        lambda: Call(
            lambda kp, kd: [Drives(_plain(), kp, kd).kp, Drives(_plain(), kp, kd).kd],
            {"kp": np.array([1.0, 2.0, 3.0]), "kd": np.array([0.5, 0.5, 0.25])},
            any_shape=("kp", "kd"),
        ),
    )


# ---- estimation, tables, identification, detection -------------------------------------------


@cache
def _estimation() -> problems.Estimation:
    robot = _plain()
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.05),
            *sensors.all_joint_accelerations(robot, std=0.05),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    return problems.Estimation(robot, layout)


def _readings(n: int = 0) -> dict[str, Array]:
    problem = _estimation()
    state = _state(_plain(), n)
    y = _short(np.random.default_rng(9).uniform(-1, 1, (max(n, 1), problem.layout.size)))
    y[:, ~np.isnan(problem.layout.constants)] = 0.0
    return _only(state, "q", "qd") | {"y": y if n else y[0]}


def _log(n: int = 60) -> dict[str, Array]:
    """A motion that is the robot's own, with noise, at 64 Hz."""
    robot, time = _plain(), np.arange(n) / 64.0
    w = np.array([1.0, 2.0, 3.0])
    phase = np.outer(time, w)
    q, qd, qdd = np.sin(phase), w * np.cos(phase), -(w**2) * np.sin(phase)
    torque = dynsys.rnea(robot, q, qd, qdd)
    noise = 0.05 * np.random.default_rng(1).normal(size=(2, *q.shape))
    readings = np.hstack([torque + noise[0], qdd + noise[1]])
    size = _estimation().layout.size
    y = np.hstack([readings, np.zeros((n, size - readings.shape[1]))])
    return {name: _short(x) for name, x in dict(time=time, q=q, qd=qd, qdd=qdd, y=y).items()}


def _values(e: Any) -> list[Array]:
    return [e.torque.array, e.std.torque.array, e.chi_square, e.residual]


def _estimated() -> None:
    def solve(n: int) -> Call:
        problem = _estimation()
        call = problem.solve_batch if n else problem.solve
        return Call(
            lambda **x: _values(call(**x)), _readings(n), missing=("y",), optional=("y",)
        )

    def derivatives() -> Call:
        def run(**x: Any) -> Any:
            J = _estimation().derivatives(**x)
            return [J.torque.q, J.torque.qd, J.torque.y]

        return Call(run, _readings(), missing=("y",))

    def table(how: str) -> Call:
        given = _readings(N)
        e = _estimation().solve_batch(given["q"], given["qd"], given["y"])

        def run(time: Any) -> Any:
            made = getattr(e, how)("torque", "std.torque", time=time)
            if how == "to_pandas":
                return [made.to_numpy(), made.index.to_numpy()]
            along = "state" if time is None else "time"
            return [made[name].to_numpy() for name in (*made.data_vars, along)]

        return Call(run, {"time": np.array([0.0, 1.0, 2.0, 3.5])}, optional=("time",))

    def predict() -> Call:
        name = _estimation().layout.names[0]
        return Call(
            lambda **x: problems.predict(_estimation(), name, **x).value,
            _readings(N),
            missing=("y",),
        )

    def calibrate() -> Call:
        log = _log()
        names = list(_estimation().layout.names[:1])
        return Call(
            lambda **x: problems.calibrate_offsets(_estimation(), **x, sensors=names).offset,
            _only(log, "q", "qd", "y"),
            missing=("y",),
        )

    def noise() -> Call:
        def run(time: Any, **x: Any) -> Any:
            return problems.estimate_noise(_estimation(), **x, time=time).chi_square

        return Call(run, _only(_log(), "q", "qd", "y", "time"), ("y",), ("time",))

    def align() -> Call:
        log, name = _log(200), _estimation().layout.names[0]

        def run(**x: Any) -> Any:
            made = problems.align_sensor(_estimation(), name, **x, turn=False, delay=False)
            return made.offset

        return Call(run, _only(log, "time", "q", "qd", "y"), missing=("y",))

    def correct() -> Call:
        log, name = _log(), _estimation().layout.names[0]
        made = problems.calibrate_offsets(
            _estimation(), log["q"], log["qd"], log["y"], sensors=[name]
        )
        return Call(
            lambda y: made.correct({name: y}),
            {"y": log["y"][:, 0]},
            missing=("y",),
            any_shape=("y",),
            any_number=("y",),
        )

    _add("align_sensor", align)
    _add("calibration correct", correct)
    _add("estimation", lambda: solve(0))
    _add("estimation batch", lambda: solve(N))
    _add("estimation derivatives", derivatives)
    _add("to_pandas", lambda: table("to_pandas"))
    _add("to_xarray", lambda: table("to_xarray"))
    _add("predict", predict)
    _add("calibrate_offsets", calibrate)
    _add("estimate_noise", noise)


@cache
def _identification() -> problems.Identification:
    robot = _plain()
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.05))
    return problems.Identification(robot, layout)


def _identified() -> None:
    def fit() -> Call:
        log = _log()
        good = _only(log, "q", "qd", "qdd") | {"y": log["y"][:, :3]}

        def run(**x: Any) -> Any:
            made = _identification().fit(**x)
            return [list(made.values.values()), list(made.std.values())]

        return Call(run, good, missing=("y",))

    def regressor(n: int) -> Call:
        state = _state(_plain(), n)
        good = _only(state, "q", "qd") | {"qdd": state["given"]}
        made = _identification()
        return Call(made.regressor_batch if n else made.regressor, good)

    def seen() -> Call:
        def run(**x: Any) -> Any:
            return [_identification().verdict(**x).rank]

        return Call(run, _only(_log(), "q", "qd", "qdd"))

    _add("identification fit", fit)
    _add("identification regressor", lambda: regressor(0))
    _add("identification regressor batch", lambda: regressor(N))
    _add("identification verdict", seen)


def _detected() -> None:
    def momentum() -> Call:
        log = _log()
        good = _only(log, "time", "q", "qd") | {"torque": log["y"][:, :3]}
        return Call(MomentumObserver(_plain()).run, good)

    def alarm() -> Call:
        rng = np.random.default_rng(0)
        good = {
            "time": np.arange(2000) / 128.0,
            "statistic": _short(rng.chisquare(3, size=2000)),
        }
        return Call(
            lambda **x: calibrate_alarm(**x, per_hour=60.0).threshold, good, ("statistic",)
        )

    def events() -> Call:
        detector = ContactDetector(_estimation(), Alarm(10.0, 1.0, 0.1, 1.0, 0.0))

        def run(**x: Any) -> Any:
            return [[c.start, c.end, c.peak] for c in detector.events(**x)]

        log = _log()
        log["y"][20:30, 0] += 4.0
        return Call(run, _only(log, "time", "q", "qd", "y"), missing=("y",))

    def statistic() -> Call:
        detector = ContactDetector(_estimation(), Alarm(10.0, 1.0, 0.1, 1.0, 0.0))
        return Call(
            lambda **x: detector.statistic(**x), _readings(), missing=("y",), any_number=("y",)
        )

    _add("momentum observer", momentum)
    _add("calibrate_alarm", alarm)
    _add("contact events", events)
    _add("contact statistic", statistic)


for _group in (
    _verbs,
    _derivatives,
    _constraints,
    _operational,
    _simulated,
    _estimated,
    _identified,
    _detected,
):
    _group()
