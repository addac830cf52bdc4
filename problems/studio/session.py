"""One page's work: sensors, posture, log; its actions, and the view after each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any, TypeAlias, final

from dynsys.errors import DynsysError, RefusedError
from dynsys.types import Array
from problems.problem_file import ProblemFile
from problems.studio import contacts, files, palette, posture, shapes, view
from problems.studio.background import AbstractBackground, BackgroundAnswers, job_of
from problems.studio.files import Folder
from problems.studio.glance import GlanceKeeper
from problems.studio.player import Player
from sensors.layout import Layout
from sensors.sensor import AbstractSensor

__all__ = ["Session"]

Facts: TypeAlias = dict[str, Any]
Fields: TypeAlias = Mapping[str, Any]
MOST_UNDONE = 100


@final
class History:
    """Layouts before and after the one that is shown."""

    def __init__(self) -> None:
        self.before: list[Layout] = []
        self.after: list[Layout] = []

    def leave(self, layout: Layout) -> None:
        """Remember a layout that another one replaces."""
        self.before = [*self.before, layout][-MOST_UNDONE:]
        self.after = []

    def undo(self, layout: Layout) -> Layout:
        """Return the layout before the shown one."""
        if not self.before:
            raise RefusedError("there is nothing to undo")
        self.after.append(layout)
        return self.before.pop()

    def redo(self, layout: Layout) -> Layout:
        """Return the layout that the shown one was undone from."""
        if not self.after:
            raise RefusedError("there is nothing to do again")
        self.before.append(layout)
        return self.after.pop()


@final
class Session:
    """Sensors on a robot in a posture, judged after every action.

    Parameters
    ----------
    name : key of the session, for background jobs.
    problem : what is opened first.
    folder : where layouts are opened and saved.
    background : does what takes longer.
    log : a log to play, or None.
    """

    def __init__(
        self,
        name: str,
        problem: ProblemFile,
        folder: Folder,
        background: AbstractBackground,
        log: Path | None = None,
    ) -> None:
        self.name, self.folder, self.background = name, folder, background
        self.lock = RLock()
        self._player: Player | None = None
        self._seed = self._generation = 0
        self._shows_log = False
        self._answers = BackgroundAnswers(name, background, self.lock)
        self._begin(problem)
        if log is not None:
            self._play(log)

    def _begin(self, problem: ProblemFile) -> None:
        self.problem, self.robot = problem, problem.tree
        self._declared = contacts.declared_frames(problem)
        self._onlooker = GlanceKeeper(self.robot, problem.prior, self._declared)
        self.q: Array = posture.first_posture(self.robot)
        self._history = History()
        self._facts = palette.SensorFacts()
        self._do_close_log({})
        self._take(problem.sensors)
        self._ask_for_looks()

    def _ask_for_looks(self) -> None:
        """Ask for the meshes of the robot; they come once, by an action of their own."""
        pending = self._looks = {"state": "pending"}

        def done(facts: Facts) -> None:
            with self.lock:
                if self._looks is pending:
                    state = "failed" if "failed" in facts else "done"
                    self._looks = {"state": state, **facts}

        job = job_of(self.problem, {"sensors": []}, "looks")
        self.background.submit(f"{self.name}/looks", job, done)

    def close(self) -> None:
        """Let go of the log and of what is being worked out."""
        with self.lock:
            self._answers.give_up()
            self._do_close_log({})

    # ---- actions -------------------------------------------------------------------------

    def act(self, action: str, fields: Fields) -> Facts:
        """Do what a checked message asks; the view that follows from it.

        Raises
        ------
        DynsysError
            if it cannot be done; nothing has changed then.
        """
        do: Callable[[Fields], Facts | None] | None = getattr(self, f"_do_{action}", None)
        with self.lock:
            begin = perf_counter()
            told = do(fields) if do is not None else None
            facts = {**self.view(), **(told or {})}
            if action in ("hello", "open"):
                facts["scene"] = self.scene()
            facts["milliseconds"] = round(1e3 * (perf_counter() - begin), 2)
            return facts

    def _change(self, sensors: list[AbstractSensor]) -> None:
        """Take other sensors; correlations stay where both sensors do."""
        layout = self.layout.with_sensors(sensors)
        # refuses what cannot be judged, before anything changes
        self._onlooker.look(layout, self.q)
        self._history.leave(self.layout)
        self._take(layout)

    def _take(self, layout: Layout) -> None:
        self.layout = layout
        self._generation += 1
        self._answers.begin(self.problem, layout)

    def _replaced(self, name: str, sensor: AbstractSensor) -> list[AbstractSensor]:
        return [sensor if s.name == name else s for s in self.layout.sensors]

    def _do_add(self, fields: Fields) -> Facts:
        sensor = palette.make_sensor(self.layout, fields["kind"], fields["place"])
        self._change([*self.layout.sensors, sensor])
        return {"selected": sensor.name}

    def _do_remove(self, fields: Fields) -> None:
        gone = self.layout[fields["name"]]
        self._change([s for s in self.layout.sensors if s is not gone])

    def _do_move(self, fields: Fields) -> Facts:
        moved = palette.move_sensor(self.layout, fields["name"], fields["body"])
        self._change(self._replaced(fields["name"], moved))
        return {"selected": moved.name}

    def _do_place(self, fields: Fields) -> None:
        placed = palette.place_sensor(self.layout, fields["name"], fields["xyz"], fields["rpy"])
        self._change(self._replaced(fields["name"], placed))

    def _do_noise(self, fields: Fields) -> None:
        sensor = palette.with_std(self.layout, fields["name"], fields["std"])
        self._change(self._replaced(fields["name"], sensor))

    def _do_undo(self, fields: Fields) -> None:
        self._take(self._history.undo(self.layout))

    def _do_redo(self, fields: Fields) -> None:
        self._take(self._history.redo(self.layout))

    def _do_pose(self, fields: Fields) -> None:
        self._stand(posture.from_sliders(self.robot, fields["values"]))

    def _do_posture(self, fields: Fields) -> None:
        if fields["which"] == "random":
            self._seed += 1
            self._stand(self.robot.random_configuration(self._seed))
        elif fields["which"] == "neutral":
            self._stand(self.robot.neutral())
        else:
            self._stand(posture.first_posture(self.robot))

    def _stand(self, q: Array, shows_log: bool = False) -> None:
        """Take a posture."""
        self.q, self._shows_log = self.robot.check_q(q), shows_log

    # ---- background ----------------------------------------------------------------------

    def _do_repair(self, fields: Fields) -> Facts:
        return self._add_records(self._told("repairs", "repair", fields)["sensors"])

    def _do_drop(self, fields: Fields) -> None:
        """Take a posture where, as the verdict says, less is seen than elsewhere."""
        self._stand(self._told("rank_drops", "posture", fields)["q"])

    def _told(self, key: str, word: str, fields: Fields) -> Facts:
        """One of several things of a kind that the verdict has told."""
        found: list[Facts] = self._answers.answer("verdict").get(key, [])
        if fields["number"] >= len(found):
            raise RefusedError(f"there is no such {word} now; wait for the verdict")
        return found[fields["number"]]

    def _do_suggest(self, fields: Fields) -> None:
        self._answers.ask("suggest", goal=fields["goal"], budget=fields["budget"])

    def _do_adopt(self, fields: Fields) -> Facts:
        records = self._answers.answer("suggest").get("sensors")
        if not records:
            raise RefusedError("there is no suggestion to take")
        return self._add_records(records)

    def _add_records(self, records: list[Facts]) -> Facts:
        """Add sensors from records, with the noise that their kind usually has."""
        found = files.sensors_from(records, self.robot)
        added = palette.adopted(self.layout, found)
        self._change([*self.layout.sensors, *added])
        return {"selected": added[-1].name}

    def _do_compile(self, fields: Fields) -> None:
        self._answers.ask("compile", plan=self._answers.plan)

    def _do_search(self, fields: Fields) -> None:
        self._answers.ask("search", seconds=fields["seconds"])

    def _do_stop(self, fields: Fields) -> None:
        """Let the search end with the best it has."""
        self._answers.stop("search")

    def _do_looks(self, fields: Fields) -> Facts:
        return {"shapes": self._looks.get("shapes", [])}

    # ---- files ---------------------------------------------------------------------------

    def _do_files(self, fields: Fields) -> Facts:
        return {"files": files.listing(self.folder)}

    def _do_save(self, fields: Fields) -> Facts:
        frames = contacts.contact_frames(self.layout, self._declared)
        written = files.save(
            replace(
                self.problem,
                layout=contacts.with_group(self.layout.content(), self.layout, frames),
            ),
            self.folder,
            fields["file"],
            fields["overwrite"],
            self._answers.plan,
        )
        names = [path.name for path in written]
        return {"saved": " and ".join(names), "files": files.listing(self.folder)}

    def _do_open(self, fields: Fields) -> Facts:
        self._begin(files.open_problem(self.folder, fields["file"], self.problem))
        return {"opened": fields["file"]}

    # ---- log -----------------------------------------------------------------------------

    def _do_open_log(self, fields: Fields) -> None:
        self._play(self.folder.file(fields["file"], files.LOGS))

    def _play(self, path: Path) -> None:
        player = Player(self.problem.open_log(path), self.problem.differentiation)
        try:
            player.use(self.layout, self.problem.prior)
            q = self.robot.check_q(player.read(0).q[0])
        except DynsysError:
            player.close()
            raise
        self._do_close_log({})
        self._player = player
        self._stand(q, shows_log=True)

    def _do_close_log(self, fields: Fields) -> None:
        if self._player is not None:
            self._player.close()
        self._player, self._shows_log = None, False

    def _do_seek(self, fields: Fields) -> Facts:
        player = self._player
        if player is None:
            raise RefusedError("no log is open")
        player.use(self.layout, self.problem.prior)
        samples = player.read(fields["sample"])
        self._stand(samples.q[0], shows_log=True)
        estimate = player.estimate(samples)
        glance = self._onlooker.look(self.layout, self.q)
        facts = view.estimate_facts(estimate, glance)
        return {"estimate": {**facts, "time": round(float(samples.time[0]), 6)}}

    # ---- views ---------------------------------------------------------------------------

    def scene(self) -> Facts:
        """What stays while the robot does."""
        return {
            **shapes.scene(self.robot),
            "sliders": [slider._asdict() for slider in posture.sliders_of(self.robot)],
            "kinds": [kind._asdict() for kind in palette.offered_kinds()],
            "folder": self.folder.path.name,
            "files": files.listing(self.folder),
        }

    def _log_facts(self) -> Facts | None:
        player = self._player
        if player is None:
            return None
        ready = player.is_ready(self.layout)
        return {
            "name": player.name,
            "samples": player.n_samples,
            "sample": player.sample,
            "seconds": player.seconds,
            "shown": self._shows_log,
            "without_data": list(player.without_data) if ready else [],
        }

    def view(self) -> Facts:
        """All that may have changed."""
        glance = self._onlooker.look(self.layout, self.q)
        return {
            "generation": self._generation,
            "poses": [shapes.pose_numbers(pose) for pose in glance.kinematics.poses],
            "values": [round(x, 5) for x in posture.to_sliders(self.robot, self.q)],
            "sensors": self._facts.of(self.layout),
            "glance": view.glance_facts(self.robot, glance),
            "tasks": self._answers.answers,
            "looks": {key: x for key, x in self._looks.items() if key != "shapes"}
            | {"meshes": len(self._looks.get("shapes", []))},
            "log": self._log_facts(),
            "can_undo": bool(self._history.before),
            "can_redo": bool(self._history.after),
        }
