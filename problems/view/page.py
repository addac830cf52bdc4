"""The page of ``dynsys view``: robot, time slider, a torque with its band, words.

viser serves it, on loopback by default; every browser that connects sees the same time.
"""

from __future__ import annotations

import math
import re
from contextlib import redirect_stdout
from io import StringIO
from time import perf_counter, sleep
from typing import Any, final

import numpy as np

from dynsys.distribution import install
from dynsys.errors import LogError, RefusedError
from dynsys.types import Array
from problems.labels import joint_columns, own_joints
from problems.problem_file import ProblemFile
from problems.view.playback import Playback
from problems.view.scene import RobotScene

__all__ = ["ViewPage", "require_viser"]

PICTURES = 30.0
"""Per second while it plays."""
WIDE = 400
"""Pixels of the column beside the picture."""


def require_viser() -> Any:
    """The package viser; LogError says what to install."""
    try:
        import viser
    except ModuleNotFoundError:
        raise LogError(
            f"the view needs the Python package viser; run: {install('view')}"
        ) from None
    return viser


@final
class ViewPage:
    """Serves the page; ``play`` moves its time until told to stop.

    Parameters
    ----------
    playback : estimates along a log; None: sliders for the joints instead of time.

    Raises
    ------
    LogError
        if viser is not installed.
    RefusedError
        if the port cannot be had.
    """

    def __init__(
        self,
        problem: ProblemFile,
        playback: Playback | None,
        host: str = "127.0.0.1",
        port: int = 8090,
        meshes: bool = True,
        dark: bool = False,
    ) -> None:
        viser = require_viser()
        try:
            with redirect_stdout(StringIO()):  # it greets; stdout is the command's own
                self._server = viser.ViserServer(host=host, port=port, verbose=False)
        except (OSError, RuntimeError) as error:
            raise RefusedError(f"{host}:{port}: {error}") from None
        self.host, self.port = host, int(self._server.get_port())
        self._problem, self._robot = problem, problem.tree
        frames = playback.frames if playback is not None else ()
        gui = self._server.gui
        gui.configure_theme(dark_mode=dark, show_share_button=False)
        self.scene = RobotScene(self._server, problem, frames, meshes)
        self._playback = playback
        sensors = sum(s.constant(1) is None for s in problem.sensors)
        gui.add_markdown(f"**{_plain(self._robot.name)}**, {sensors} sensors")
        # a column beside the picture; in narrow windows below the few first controls, folded
        column = gui.add_panel()
        column.dock_right()
        column.set_width(WIDE)
        if playback is None:
            self._add_glass(False)
            with column.add_tab("joints"):
                self._add_joints()
        else:
            self._add_time(playback)
            with column.add_tab("estimate"):
                self._add_estimate(viser, playback)

    @property
    def address(self) -> str:
        """What a browser opens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def close(self) -> None:
        """End the server."""
        with redirect_stdout(StringIO()):
            self._server.stop()

    def _add_glass(self, on: bool) -> None:
        glass = self._server.gui.add_checkbox("see through", initial_value=on)
        glass.on_update(lambda _: self.scene.see_through(bool(glass.value)))
        self.scene.see_through(on)

    def _aim(self, q: Array) -> None:
        """Stand the robot on the ground and look at its middle, from above and aside."""
        size, camera = self.scene.size, self._server.initial_camera
        x, y, z = self.scene.stand_on_ground(q)
        camera.look_at = (x, y, z)
        camera.position = (x + 1.7 * size, y + size, z + 0.4 * size)

    # ---- without a log -------------------------------------------------------------------

    def _add_joints(self) -> None:
        robot, q = self._robot, self._robot.neutral()
        low, high = robot.position_limits

        def slide(place: int, event: Any) -> None:
            q[place] = event.target.value
            self.scene.show(q)

        for i in own_joints(robot):
            if robot.joints[i].nq != 1:
                continue
            place = robot.q_slices()[i].start
            ends = [
                x if math.isfinite(x) else sign * math.pi
                for x, sign in ((float(low[place]), -1), (float(high[place]), 1))
            ]
            start = min(max(float(q[place]), ends[0]), ends[1])
            q[place] = start
            slider = self._server.gui.add_slider(
                robot.joint_names[i], ends[0], ends[1], 0.01, start
            )
            slider.on_update(lambda event, place=place: slide(place, event))
        self._aim(q)
        self.scene.show(q)

    # ---- with a log ----------------------------------------------------------------------

    def _add_time(self, playback: Playback) -> None:
        gui, length = self._server.gui, float(playback.time[-1])
        self._scale = self.scene.arrow_scale(playback.force)
        step = max(length / 1000, 1e-3)
        self._slider = gui.add_slider("time [s]", 0.0, max(length, step), step, 0.0)
        self._playing = gui.add_checkbox("play", initial_value=False)
        self._slider.on_update(lambda _: self.show(float(self._slider.value)))
        self._aim(playback.q[0])

    def _add_estimate(self, viser: Any, playback: Playback) -> None:
        gui = self._server.gui
        self._said = gui.add_markdown("")
        self._add_torque(viser, playback)
        self._speed = gui.add_dropdown("speed", ("0.1", "0.5", "1", "2"), initial_value="1")
        self._add_glass(bool(playback.frames))
        self.show(0.0)

    def show(self, time: float) -> None:
        """Show the sample at a time, s after the first."""
        playback = self._playback
        assert playback is not None
        k = playback.at(time)
        self.scene.show(playback.q[k], playback.force[k], playback.force_std[k], self._scale)
        self._said.content = self._words(playback, k)

    def _words(self, playback: Playback, k: int) -> str:
        p = float(playback.p_value[k])
        verdict = "nothing checks this sample"
        if math.isfinite(p):
            verdict = f"p-value {p:.2g}: " + ("**contradicts**" if p < 0.01 else "agrees")
        lines = [f"sample at {playback.time[k]:.3f} s, {verdict}", ""]
        if playback.frames:
            lines += ["| contact | force [N] | deviation [N] |", "|---|--:|--:|"]
            for i, name in enumerate(playback.frames):
                force, std = playback.force[k, i], playback.force_std[k, i]
                size = float(np.linalg.norm(force))
                numbers = _number(size), _number(_along(force, std))
                lines.append(f"| {' | '.join((_plain(name), *numbers))} |")
        return "\n".join(lines)

    def _add_torque(self, viser: Any, playback: Playback) -> None:
        """A torque over time with the band of two deviations, chosen by its joint."""
        gui = self._server.gui
        names = [c.removeprefix("torque.") for c in joint_columns(self._robot, "torque")]
        spread = np.nanmax(np.abs(np.nan_to_num(playback.torque)), axis=0)
        first = names[int(np.argmax(spread))]
        choice = gui.add_dropdown("torque of", tuple(names), initial_value=first)
        uplot = viser.uplot
        plot = gui.add_uplot(
            data=self._band(playback, names.index(first)),
            series=(
                uplot.Series(label="s"),
                uplot.Series(label="N m", stroke="#1f6feb", width=2),
                uplot.Series(label="- 2 std", stroke="#9db9e8", width=1),
                uplot.Series(label="+ 2 std", stroke="#9db9e8", width=1),
            ),
            bands=(uplot.Band(series=(3, 2), fill="rgba(31,111,235,0.15)"),),
            scales={"x": uplot.Scale(time=False, auto=True)},
            aspect=1.6,
        )

        def choose(_: Any) -> None:
            plot.data = self._band(playback, names.index(choice.value))

        choice.on_update(choose)

    @staticmethod
    def _band(playback: Playback, k: int) -> tuple[Array, ...]:
        torque, std = playback.torque[:, k], playback.torque_std[:, k]
        return playback.time, torque, torque - 2 * std, torque + 2 * std

    def play(self, is_over: Any = lambda: False) -> None:
        """Advance the time while "play" is ticked, from the end back to the start."""
        while not is_over():
            begin = perf_counter()
            sleep(1.0 / PICTURES)
            if self._playback is None or not self._playing.value:
                continue
            passed = (perf_counter() - begin) * float(self._speed.value)
            time = float(self._slider.value) + passed
            self._slider.value = 0.0 if time > float(self._playback.time[-1]) else time


def _along(force: Array, std: Array) -> float:
    """Deviation of the size of a force, its components taken as independent."""
    size = float(np.linalg.norm(force))
    return float(np.sqrt(((force / size * std) ** 2).sum())) if size > 0 else float("nan")


_MARKS = re.compile(r"[!-/:-@\[-`{-~]")


def _plain(name: str) -> str:
    """Markdown that shows a name as it is: viser would take HTML in it for its own page's."""
    return _MARKS.sub(r"\\\g<0>", " ".join(name.split()))


def _number(x: float) -> str:
    return f"{x:.3g}" if math.isfinite(x) else "not determined"
