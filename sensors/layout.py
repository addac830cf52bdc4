"""Layout: the sensors of one robot, in order, with their noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, final

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import LayoutError, LayoutWarning, nearest_name
from dynsys.model.constraints import Constraint, FrameConstraint
from dynsys.model.readers.assembly import listing
from dynsys.model.readers.xml_input import PathLike
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import block_digests
from dynsys.plan.fingerprint import Fingerprint, fingerprint_parts, fingerprint_robot
from dynsys.recursive.constraint_rows import closed_configurations
from dynsys.system.equations import EquationBlock
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, float_array
from sensors.constraints import LoopClosure
from sensors.correlations import Correlation, check_correlations, sparse_blocks
from sensors.encoders import EncoderNoise, encoder_deviations, encoder_record
from sensors.files import ENCODERS, file_content, read_entries, save_content
from sensors.force_torque import TOUCHED
from sensors.held import closes, held_by
from sensors.sensor import AbstractSensor, SensorRows
from sensors.sides import Sides, states_zero
from sensors.yaml_input import Item, read_yaml

__all__ = ["Layout", "is_table"]

PACKERS = 16
"""Orders of names whose places in y are kept."""
NUMBERS = frozenset({float, int, np.float64, np.float32, np.int64})
PLAIN = NUMBERS | {np.ndarray}
"""Types that hide nothing, such as a mask."""
SINGLE = 24
"""Bits of the values by which sensors are told apart: parameters count in full anyway."""


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Layout:
    """The sensors of a robot, validated against it.

    Parameters
    ----------
    robot : the robot; places with an external wrench of their own, beside those of its bodies,
        are contacts of the robot (``robot.with_contacts``), and ``contacts`` in layout files.
    sensors : their order is the order of y.
    correlations : covariances between the noise of two different sensors.
    about : free text kept with the layout: ``description``, ``model``, ``source`` ...
    quiet : True says nothing of standard deviations that are assumed.
    position_std, velocity_std : noise of q and qd, which enters the standard deviation of every
        estimate: one number, or numbers by joint (:mod:`sensors.encoders`). None: none.
    touched : frames that are touched, beside those that ``zero_external_wrench_except`` names:
        a force/torque sensor within a body must know its side of them (:mod:`sensors.sides`).

    Attributes
    ----------
    covariances : noise (size, size) of each sensor by itself.
    position_std, velocity_std : standard deviations (nv,), zero where there is no noise.
    written_on : the robot whose frames its file may name: without the contacts of constraints
        that hold beside it (:meth:`with_constraints`).

    Raises
    ------
    LayoutError
        naming the sensor, what is wrong, and the nearest valid name.

    Warns
    -----
    LayoutWarning
        naming the sensors whose standard deviation is assumed to be 1: they give none.

    Examples
    --------
    >>> import dynsys, sensors
    >>> robot = dynsys.synthetic.chain(2)
    >>> layout = sensors.Layout(
    ...     robot,
    ...     [
    ...         sensors.JointTorque("knee", robot.joint_names[1], std=0.5),
    ...         sensors.Accelerometer("tip", robot.body_names[1], std=0.1),
    ...     ],
    ... )
    >>> layout.pack({"knee": 2.0, "tip": [0.0, 0.0, 9.81]})
    array([2.  , 0.  , 0.  , 9.81])
    """

    robot: KinematicTree
    sensors: tuple[AbstractSensor, ...]
    correlations: tuple[tuple[str, str, Array], ...]
    about: Mapping[str, Any]
    covariances: tuple[Array, ...]
    position_std: Array
    velocity_std: Array
    written_on: KinematicTree
    _rows: tuple[SensorRows, ...]
    _sides: Sides
    _doubts: Mapping[str, str]

    def __init__(
        self,
        robot: KinematicTree,
        sensors: Sequence[AbstractSensor],
        correlations: Sequence[Correlation] = (),
        about: Mapping[str, Any] | None = None,
        *,
        where: Callable[[str], str] = lambda name: "",
        quiet: bool = False,
        position_std: EncoderNoise = None,
        velocity_std: EncoderNoise = None,
        touched: Sequence[str] = (),
        written_on: KinematicTree | None = None,
    ) -> None:
        set_field = object.__setattr__
        if not isinstance(robot, KinematicTree) or not isinstance(sensors, Iterable):
            raise LayoutError("a layout is made of a robot and a list of its sensors")
        if not isinstance(written_on, KinematicTree | None):
            raise LayoutError(f"written_on must be a robot, got {written_on!r:.80}")
        set_field(self, "robot", robot)
        set_field(self, "written_on", written_on or robot)
        set_field(self, "sensors", tuple(sensors))
        set_field(self, "about", MappingProxyType(dict(about or {})))
        self._check(where, touched)
        own = dict(zip(self.names, self.covariances, strict=True))
        set_field(self, "correlations", check_correlations(own, correlations, where))
        for name, noise in zip(ENCODERS, (position_std, velocity_std), strict=True):
            deviations = encoder_deviations(robot, noise, name)
            deviations.flags.writeable = False
            set_field(self, name, deviations)
        if self.assumed and not quiet:
            warnings.warn(self._assumption(where), LayoutWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"Layout({self.robot.name!r}, {len(self.sensors)} sensors, {self.size} rows)"

    def __reduce__(self) -> tuple[Callable[..., Layout], tuple[object, ...]]:
        entries = (self.robot, self.sensors, self.correlations, dict(self.about))
        return partial(Layout, **self._kept), entries

    @property
    def _kept(self) -> dict[str, Any]:
        """What a layout made from this one has of it, as arguments."""
        about = {"touched": self._sides.touched, "written_on": self.written_on}
        return {"quiet": True, **about, **self._encoders}

    @property
    def _encoders(self) -> dict[str, Any]:
        """Noise of the encoders by joint, as the arguments of a layout."""
        return {name: encoder_record(self.robot, getattr(self, name)) for name in ENCODERS}

    @property
    def has_encoder_noise(self) -> bool:
        """Whether q or qd have noise."""
        return bool(self.position_std.any() or self.velocity_std.any())

    def with_sensors(
        self,
        sensors: Sequence[AbstractSensor],
        correlations: Sequence[Correlation] | None = None,
    ) -> Layout:
        """Return a layout of other sensors; by default correlations stay where both do.

        All else is kept: robot, noise of the encoders, what the layout is about.
        """
        names = {sensor.name for sensor in sensors}
        if correlations is None:
            correlations = [c for c in self.correlations if c[0] in names and c[1] in names]
        return Layout(self.robot, sensors, correlations, self.about, **self._kept)

    def with_constraints(self, constraints: Sequence[Constraint]) -> Layout:
        """Return the layout where constraints of dynamics hold too, as exact statements.

        Each is a contact of its own, or two that only push each other: :mod:`sensors.held`.
        """
        robot, statements = held_by(self, constraints)
        told = [*self.sensors, *statements]
        return Layout(robot, told, self.correlations, self.about, **self._kept)

    @cached_property
    def loops(self) -> tuple[FrameConstraint, ...]:
        """What must be closed at a configuration for exact loop closures to hold."""
        pairs = zip(self.sensors, self.covariances, strict=True)
        exact = (s for s, noise in pairs if isinstance(s, LoopClosure) and not noise.any())
        return tuple(s.constraint for s in exact if closes(s))

    def configurations(self, count: int, seed: int | np.random.Generator) -> list[Array]:
        """Random q (nq,) at which the layout's loops are closed, where any can be found."""
        rng = np.random.default_rng(seed)
        if self.loops:
            found = closed_configurations(self.robot, self.loops, count, rng)
            return [found[k % len(found)] for k in range(count)]
        return [self.robot.random_configuration(rng) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.sensors)

    def __iter__(self) -> Iterator[AbstractSensor]:
        return iter(self.sensors)

    def __getitem__(self, name: str) -> AbstractSensor:
        return self.sensors[self._index(name)]

    @staticmethod
    def load(path: PathLike, robot: KinematicTree) -> Layout:
        """Read a layout file (YAML or JSON) for a robot.

        Raises
        ------
        LayoutError
            naming file, line, what is wrong, and the nearest valid name.
        """
        return Layout.read(read_yaml(path), robot)

    @staticmethod
    def read(content: Item, robot: KinematicTree) -> Layout:
        """Layout from the content of a layout file, wherever that was written.

        Its robot has the contacts that the file names; see :meth:`touched`.
        """
        found = read_entries(content, robot)
        return Layout(
            found.robot,
            found.sensors,
            found.correlations,
            found.about,
            where=found.where,
            touched=found.touched,
            **found.encoders,
        )

    def save(self, path: PathLike) -> None:
        """Write a layout file that :meth:`load` reads back to the same sensors.

        YAML, or JSON where the name ends in ``.json``.
        """
        save_content(path, self.content())

    def content(self) -> dict[str, Any]:
        """What a layout file holds, as lists and mappings."""
        contacts, encoders = self.robot.contacts, self._encoders
        return file_content(self.about, contacts, self.sensors, self.correlations, encoders)

    # ---- checks --------------------------------------------------------------------------

    def _check(self, where: Callable[[str], str], touched: Sequence[str]) -> None:
        seen: set[str] = set()
        for sensor in self.sensors:
            if not isinstance(sensor, AbstractSensor):
                raise LayoutError(
                    f"a layout holds sensors, got {sensor!r:.80}; put * before a list of them"
                )
            if sensor.name in seen:
                raise LayoutError(
                    f"{where(sensor.name)}two sensors are called {sensor.name!r}; rename one"
                )
            seen.add(sensor.name)
        self._settle(where, touched)
        unknowns = UnknownLayout(self.robot, net_wrench=True)
        rows: list[SensorRows] = []
        covariances: list[Array] = []
        for sensor in self.sensors:
            try:
                rows.append(sensor.on(unknowns))
                covariances.append(sensor.noise(rows[-1]))
            except LayoutError as error:
                raise LayoutError(f"{where(sensor.name)}{error}") from None
        object.__setattr__(self, "_rows", tuple(rows))
        object.__setattr__(self, "covariances", tuple(covariances))

    def _settle(self, where: Callable[[str], str], touched: Sequence[str]) -> None:
        """Find the side of every sensor within a body; keep what is not clear."""
        sides, doubts = Sides.of(self.robot, self.sensors, touched), dict[str, str]()
        found = list(self.sensors)
        for k, sensor in enumerate(found):
            try:
                found[k] = sides.settled(sensor)
            except LayoutError as error:
                doubts[sensor.name] = f"{where(sensor.name)}{error}"
        for name, value in (("sensors", tuple(found)), ("_sides", sides), ("_doubts", doubts)):
            object.__setattr__(self, name, value)

    def settled(self, sensor: AbstractSensor) -> AbstractSensor:
        """Return a sensor that may be added, with the side on which its body is touched.

        Raises
        ------
        LayoutError
            if the side is not known: see :mod:`sensors.sides`.
        """
        return self._sides.settled(sensor)

    def require_sides(self, touched: Collection[int] = ()) -> None:
        """LayoutError names a sensor of which it is not known what it feels.

        ``touched`` are bodies that are touched though the layout states that they are not.
        """
        for doubt in self._doubts.values():
            raise LayoutError(doubt)
        for sensor in self.sensors if touched else ():
            self._sides.require(sensor, touched)

    @cached_property
    def resting(self) -> Mapping[str, int]:
        """Bodies by the statement, that they are untouched, on which a sensor in them rests.

        It is not known on which side of the sensor the body would be touched.
        """
        bodies = {self._sides.rests_on(sensor) for sensor in self.sensors} - {-1}
        pairs = zip(self.sensors, self._rows, strict=True)
        stated = {s.name: r.body for s, r in pairs if states_zero(s)}
        return {name: body for name, body in stated.items() if body in bodies}

    @cached_property
    def assumed(self) -> tuple[str, ...]:
        """Names of the measurements that give no noise: 1 is assumed, in each row's unit."""
        given = ((s, s.std is not None or s.covariance is not None) for s in self.sensors)
        return tuple(s.name for s, noise in given if not noise and s.constant(1) is None)

    def _assumption(self, where: Callable[[str], str]) -> str:
        return (
            f"{where(self.assumed[0])}sensors {listing(self.assumed)} give no std: 1 is assumed"
            " in the unit of each row, on which weights, deviations and p-values rest; give"
            " std, if only 1"
        )

    # ---- names, sizes, places ------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the sensors, in the order of y."""
        return tuple(sensor.name for sensor in self.sensors)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Number of rows of each sensor, by name."""
        sizes = (rows.size for rows in self._rows)
        return MappingProxyType(dict(zip(self.names, sizes, strict=True)))

    @cached_property
    def size(self) -> int:
        """Length of y."""
        return sum(self.sizes.values())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Name of every row of y: ``sensor.component``."""
        return tuple(
            f"{name}.{label}"
            for name, rows in zip(self.names, self._rows, strict=True)
            for label in rows.labels
        )

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Unit of every row of y."""
        return tuple(unit for rows in self._rows for unit in rows.units)

    @cached_property
    def _slices(self) -> dict[str, slice]:
        slices: dict[str, slice] = {}
        start = 0
        for name, size in self.sizes.items():
            slices[name] = slice(start, start + size)
            start += size
        return slices

    def slice(self, name: str) -> slice:
        """Where a sensor sits in y."""
        return self._slices[self.names[self._index(name)]]

    def _index(self, name: str) -> int:
        if name not in self.names:
            hint = nearest_name(str(name), self.names)
            raise LayoutError(f"the layout has no sensor {name!r}{hint}")
        return self.names.index(name)

    # ---- equations and noise -------------------------------------------------------------

    def touched(self, robot: KinematicTree) -> KinematicTree:
        """The robot with the contacts of this layout's robot, which it may lack."""
        if robot is self.robot or not self.robot.contacts:
            return robot
        mine, given = (fingerprint_robot(each).parts for each in (self.robot, robot))
        more = tuple(f"body {contact.name!r}: " for contact in self.robot.contacts)
        bare = {part: digest for part, digest in mine.items() if not part.startswith(more)}
        return self.robot if bare.items() <= given.items() <= mine.items() else robot

    def equations(self, unknowns: UnknownLayout) -> tuple[EquationBlock, ...]:
        """Equations  Y d + b_Y - y = 0, one block per sensor, in the order of y."""
        robot = unknowns.robot
        if robot is not self.robot:
            made_for, given = fingerprint_robot(self.robot), fingerprint_robot(robot)
            if given.digest != made_for.digest:
                raise LayoutError(
                    f"the layout was made for another robot than this {robot.name!r}:"
                    f" {given.since(made_for)}; make a layout for it"
                )
        return tuple(block for sensor in self.sensors for block in sensor.blocks(unknowns))

    def covariance(self) -> csc_array[np.float64]:
        """Covariance (size, size) of y's noise: sparse; a zero diagonal marks exact rows."""
        blocks = [
            (self.slice(name), self.slice(name), block)
            for name, block in zip(self.names, self.covariances, strict=True)
        ]
        for first, second, block in self.correlations:
            blocks.append((self.slice(first), self.slice(second), block))
            blocks.append((self.slice(second), self.slice(first), block.T))
        return sparse_blocks(blocks, self.size)

    @cached_property
    def std(self) -> Array:
        """Standard deviation (size,) of every row."""
        return np.sqrt(self.covariance().diagonal())

    @cached_property
    def exact(self) -> BoolArray:
        """Rows (size,) without noise."""
        return np.asarray(self.std == 0)

    # ---- data ----------------------------------------------------------------------------

    @cached_property
    def constants(self) -> Array:
        """Values (size,) that rows without data have; NaN where data are needed."""
        y = np.full(self.size, np.nan)
        for sensor in self.sensors:
            where = self.slice(sensor.name)
            known = sensor.constant(where.stop - where.start)
            if known is not None:
                y[where] = known
        return y

    def pack(
        self, values: Mapping[str, ArrayLike] | Any, *, missing: ArrayLike | None = None
    ) -> Array:
        """Return y (size,), or (N, size), from readings by sensor name.

        Sensors left out take their known value (constraints: zero). NaN, or a masked entry,
        marks a missing reading, or a constraint that does not hold now.

        Parameters
        ----------
        values : sensor name to (size,) or (N, size); a sensor of one row also takes a number
            or (N,). Or a table (a DataFrame of pandas) of N samples whose columns are named
            as ``labels``, or as the sensors of one row; columns of other names are left out.
            A row of it (a Series) is one sample.
        missing : what sensors without a known value get when left out, e.g. ``numpy.nan``;
            None makes that an error.

        Raises
        ------
        LayoutError
            unknown or missing name, wrong length.
        """
        if missing is None:
            y = self._packed_again(values)
            if y is not None:
                return y
        if is_table(values):
            values = self._columns_of(values)
        for name in values:
            self._index(name)  # refuses names that are none
        given = {name: _reading(name, x, self.sizes[name]) for name, x in values.items()}
        counts = {len(value) for value in given.values() if value.ndim == 2}
        if len(counts) > 1:
            raise LayoutError(f"readings have different numbers of samples: {sorted(counts)}")
        y = np.empty((*counts, self.size))
        y[...] = self.constants
        for sensor in self.sensors:
            where = self.slice(sensor.name)
            if sensor.name in given:
                y[..., where] = given[sensor.name]
            elif sensor.constant(1) is None:
                if missing is None:
                    raise LayoutError(
                        f"no reading of {sensor}; give it, or NaN for each of its"
                        f" {where.stop - where.start} numbers to go without"
                    )
                y[..., where] = missing
        if missing is None and not counts and len(self._packers) < PACKERS:
            self._packers[tuple(values)] = _Packer.of(self, tuple(values))
        return y

    def _columns_of(self, table: Any) -> dict[str, Array]:
        """Readings (N, size) by sensor name from the columns of a table."""
        names = list(map(str, table.columns if hasattr(table, "columns") else table.index))
        columns, found = set(names), {}
        if len(columns) < len(names):
            raise LayoutError("two columns of the table have one name; rename one of them")
        for name in self.names:
            labels = self.labels[self.slice(name)]
            if len(labels) == 1 and name in columns:
                labels = (name,)
            there = [label for label in labels if label in columns]
            if there and len(there) < len(labels):
                lacking = ", ".join(label for label in labels if label not in columns)
                raise LayoutError(f"the table has no column {lacking} beside {there[0]}")
            if there:
                rows = table[[*there]].to_numpy()
                found[name] = _reading(name, rows, len(labels))
        if not found:
            some = ", ".join(sorted(columns)[:6])
            raise LayoutError(
                f"no column of the table is a reading of the layout: it has {some}; readings"
                f" are called {', '.join(self.labels[:3])} ..."
            )
        return found

    @cached_property
    def _packers(self) -> dict[tuple[str, ...], _Packer]:
        """How one sample is packed, by the names it was given with: found once, used often."""
        return {}

    def _packed_again(self, values: Mapping[str, ArrayLike]) -> Array | None:
        """Return y (size,) from names that have been seen before; None if that does not do."""
        if type(values) is not dict:
            return None
        packer = self._packers.get(tuple(values))
        return None if packer is None else packer.packed(tuple(values.values()))

    def unpack(self, y: ArrayLike) -> dict[str, Array]:
        """Readings by sensor name from y (..., size)."""
        array = float_array(y)
        if array.ndim == 0 or array.shape[-1] != self.size:
            raise LayoutError(f"y must have {self.size} numbers, got shape {array.shape}")
        return {name: array[..., self.slice(name)] for name in self.names}

    def fingerprint(self) -> str:
        """SHA-256 (hex), equal exactly if robot, equations and noise are equal."""
        return self.fingerprints().digest

    def fingerprints(self) -> Fingerprint:
        """The same part by part, so that what has changed has a name.

        A sensor is what it says and what it computes: its class may be the user's own, and
        have other rows tomorrow.
        """
        robot, unknowns = self.robot, UnknownLayout(self.robot, net_wrench=True)
        frames, welds = robot.frames.values(), robot.welds.values()
        parts: dict[str, Any] = {
            "robot": fingerprint_robot(robot).digest,
            "frames": [[x.body, x.transform.E, x.transform.r] for x in frames],
            "welds": [[x.body, x.inertia.matrix(), x.children] for x in welds],
            "order of the sensors": self.names,
        }
        blocks = [sensor.blocks(unknowns) for sensor in self.sensors]
        rows = iter(block_digests(robot, chain.from_iterable(blocks), SINGLE))
        for sensor, own, noise in zip(self.sensors, blocks, self.covariances, strict=True):
            # the equations are those of "beyond" where nothing counts
            said = repr(sensor).replace(f"external={TOUCHED!r}", "external='beyond'")
            computed = [next(rows) for _ in own], noise, sensor.constant(len(noise))
            parts[f"sensor {sensor.name!r}"] = [said, *computed]
        if self.correlations:
            parts["correlations"] = self.correlations
        if self.has_encoder_noise:
            parts["noise of q and qd"] = [self.position_std, self.velocity_std]
        return fingerprint_parts("layout", parts)


@final
@dataclass(frozen=True, eq=False)
class _Packer:
    """Where the values of one order of names go: single numbers at once, vectors at once.

    Attributes
    ----------
    template : y (size,) where nothing is given.
    one, many : pick the values of sensors of one row, and of the others.
    one_at, many_at : their places in y; ``lengths`` of the others.
    """

    template: Array
    one: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    one_at: IntArray
    many: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    many_at: IntArray
    lengths: list[int]

    @staticmethod
    def of(layout: Layout, names: tuple[str, ...]) -> _Packer:
        """Packer of readings that come in this order."""
        rows = np.arange(layout.size)
        where = [rows[layout.slice(name)] for name in names]
        one = [k for k, at in enumerate(where) if len(at) == 1]
        many = [k for k, at in enumerate(where) if len(at) != 1]
        none = [np.zeros(0, dtype=np.intp)]
        return _Packer(
            layout.constants,
            _chosen(one),
            np.concatenate([*none, *(where[k] for k in one)]),
            _chosen(many),
            np.concatenate([*none, *(where[k] for k in many)]),
            [len(where[k]) for k in many],
        )

    def packed(self, values: tuple[Any, ...]) -> Array | None:
        """Return y (size,); None if some value is no plain number or vector of its length."""
        y, one, many = self.template.copy(), self.one(values), self.many(values)
        try:
            if NUMBERS.issuperset(map(type, one)):
                y[self.one_at] = np.fromiter(one, np.float64, len(one))
            else:
                numbers = np.array(one)
                is_plain = numbers.dtype.kind in "fiub" and numbers.ndim <= 2
                if not PLAIN.issuperset(map(type, one)) or not is_plain:
                    return None
                if numbers.size != len(one):
                    return None
                y[self.one_at] = numbers.ravel()
            if many:
                flat = np.concatenate(many)
                if (
                    not PLAIN.issuperset(map(type, many))
                    or list(map(len, many)) != self.lengths
                ):
                    return None
                if flat.dtype.kind not in "fiub" or flat.ndim != 1:
                    return None
                y[self.many_at] = flat
        except (TypeError, ValueError):
            return None
        return y


def _chosen(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What picks these places out of a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple(values[k] for k in places)


def is_table(values: object) -> bool:
    """Tell whether these are readings with names: a DataFrame of pandas, or a row of one."""
    names = getattr(values, "columns", getattr(values, "index", ()))
    return hasattr(values, "to_numpy") and any(isinstance(name, str) for name in names)


def _reading(name: str, value: ArrayLike, size: int) -> Array:
    try:
        out = float_array(value)
    except (TypeError, ValueError) as error:
        raise LayoutError(f"reading of sensor {name!r} is not numeric: {error}") from None
    if size == 1 and (out.ndim == 0 or (out.ndim == 1 and len(out) != 1)):
        out = out[..., None]
    if out.ndim not in (1, 2) or out.shape[-1] != size:
        raise LayoutError(
            f"reading of sensor {name!r} must have {size} numbers (per sample), got shape"
            f" {np.shape(value)}"
        )
    return out
