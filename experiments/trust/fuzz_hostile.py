"""Files made to hurt: bombs, special files, absurd sizes, paths that lead out of the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from experiments.trust.fuzz_files import LAYOUT, MJCF, URDF, problem_text
from experiments.trust.fuzz_hostile_logs import LOG_CASES, Maker, written
from experiments.trust.fuzz_targets import TARGETS

__all__ = ["hostile"]

# ---- not a file ----------------------------------------------------------------------------


def _special(ending: str) -> dict[str, Maker]:
    """Everything that may stand where a file is expected."""

    def missing(folder: Path) -> Path:
        return folder / f"none{ending}"

    def directory(folder: Path) -> Path:
        path = folder / f"case{ending}"
        path.mkdir()
        return path

    def fifo(folder: Path) -> Path:
        path = folder / f"case{ending}"
        os.mkfifo(path)
        return path

    def link(to: str) -> Maker:
        def make(folder: Path) -> Path:
            path = folder / f"case{ending}"
            path.symlink_to(to)
            return path

        return make

    def sparse(folder: Path) -> Path:
        path = folder / f"case{ending}"
        with path.open("wb") as stream:
            stream.truncate(3 * 2**30)
        return path

    def long_name(folder: Path) -> Path:
        return folder / ("x" * 5000 + ending)

    return {
        "missing": missing,
        "directory": directory,
        "fifo": fifo,
        "link to itself": link(f"case{ending}"),
        "link to /dev/zero": link("/dev/zero"),
        "three gigabytes of zeros": sparse,
        "name of 5000 letters": long_name,
        "name with a null": lambda folder: Path(f"{folder}/a\0b{ending}"),
        "empty": written(ending, b""),
        "zeros": written(ending, bytes(5000)),
        "not UTF-8": written(ending, b"\xff\xfe\xc3\x28" * 100),
        "one line of 50 MB": written(ending, lambda: b"x" * (50 * 2**20)),
    }


# ---- texts ---------------------------------------------------------------------------------

ENTITIES = b"<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
    f"<!ENTITY {chr(98 + k)} '{f'&{chr(97 + k)};' * 10}'>".encode() for k in range(9)
)
FETCH = b'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="&x;"/>'
ALIASES = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{', '.join([f'*{chr(97 + k)}'] * 9)}]\n".encode()
    for k in range(9)
)


def _chain_urdf(n: int) -> bytes:
    links = "".join(f'<link name="l{k}"/>' for k in range(n + 1))
    joints = "".join(
        f'<joint name="j{k}" type="fixed"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(n)
    )
    return f'<robot name="r">{links}{joints}</robot>'.encode()


def _ring_urdf() -> bytes:
    return _chain_urdf(2).replace(
        b"</robot>",
        b'<joint name="x" type="fixed"><parent link="l2"/><child link="l0"/></joint></robot>',
    )


def _mimic_ring() -> bytes:
    return URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1 0"/><mimic joint="elbow"/>')


def _urdf_cases() -> dict[str, Maker]:
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "entities that expand": ENTITIES + b"]><robot name='&j;'/>",
        "entity that fetches a file": FETCH,
        "nested 100000 deep": lambda: b"<robot name='r'>" + b"<a>" * 100_000,
        "two million elements": lambda: b"<robot name='r'>" + b"<a/>" * 2_000_000 + b"</robot>",
        "name of 40 MB": lambda: b"<robot name='" + b"x" * (40 * 2**20) + b"'><link/></robot>",
        "chain of 20000 fixed joints": lambda: _chain_urdf(20_000),
        "chain of 3000 joints": lambda: _chain_urdf(3000).replace(b"fixed", b"revolute"),
        "ring of links": _ring_urdf(),
        "ring of mimics": _mimic_ring(),
        "mimics itself": URDF.replace(b'<mimic joint="shoulder"', b'<mimic joint="elbow"'),
        "mass 1e308": URDF.replace(b'value="2.0"', b'value="1e308"'),
        "mass nan": URDF.replace(b'value="2.0"', b'value="nan"'),
        "inertia 1e-320": URDF.replace(b"0.02", b"1e-320"),
        "axis 1e-320": URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1e-320 0"/>'),
        "axis 1e300": URDF.replace(b'<axis xyz="0 1 0"/>', b'<axis xyz="0 1e300 1e300"/>'),
        "angle 1e300": URDF.replace(b"rpy='0 0.1 0'", b"rpy='1e300 0 0'"),
        "same name": URDF.replace(b'"lower"', b'"upper"'),
        "UTF-16": URDF.decode().replace("utf-8", "utf-16").encode("utf-16"),
        "UTF-7": URDF.replace(b"utf-8", b"utf-7"),
        "mesh outside": URDF.replace(
            b'<link name="base"/>',
            b'<link name="base"><visual><geometry><mesh filename="package://../../etc/passwd"/>'
            b"</geometry></visual></link>",
        ),
    }
    return {name: written(".urdf", content) for name, content in texts.items()}


def _mjcf_with(element: str) -> bytes:
    return MJCF.replace(b"<worldbody>", element.encode() + b"<worldbody>")


def _mjcf_cases() -> dict[str, Maker]:
    mesh = '<asset><mesh name="m" file="{}"/></asset>'
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "include of /etc/passwd": _mjcf_with('<include file="/etc/passwd"/>'),
        "include of itself": _mjcf_with('<include file="case.xml"/>'),
        "include outside": _mjcf_with('<include file="../../x.xml"/>'),
        "mesh /dev/zero": _mjcf_with(mesh.format("/dev/zero")),
        "mesh outside": _mjcf_with(mesh.format("../../../../etc/passwd.stl")),
        "entities that expand": ENTITIES + b"]><mujoco model='&j;'/>",
        "nested bodies": lambda: (
            b"<mujoco><worldbody>"
            + b"<body><joint/>" * 150
            + b"</body>" * 150
            + b"</worldbody></mujoco>"
        ),
        "memory of a terabyte": _mjcf_with('<size memory="1T"/>'),
        "stack of a terabyte": _mjcf_with('<size njmax="2000000000" nconmax="2000000000"/>'),
        "replicate a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<replicate count="1000000000"><site pos="0 0 0.4"/></replicate>',
        ),
        "composite of a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<composite type="cable" count="1000000000 1 1" size="1"><joint kind="main"/>'
            b'<geom type="capsule" size="0.1"/></composite>',
        ),
        "flexcomp of a billion": MJCF.replace(
            b'<site name="tip" pos="0 0 0.4"/>',
            b'<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1"/>',
        ),
        "texture of a terabyte": _mjcf_with(
            '<asset><texture name="t" type="2d" builtin="flat" width="1000000"'
            ' height="1000000"/></asset>'
        ),
        "height field of a terabyte": _mjcf_with(
            '<asset><hfield name="h" nrow="1000000" ncol="1000000" size="1 1 1 1"/></asset>'
        ),
        "keyframes": _mjcf_with('<size nkey="2000000000"/>'),
        "user data": _mjcf_with('<size nuserdata="2000000000" nuser_body="2000000000"/>'),
        "plugin": _mjcf_with(
            '<extension><plugin plugin="mujoco.elasticity.cable"/></extension>'
        ),
        "mass nan": MJCF.replace(b'mass="2"', b'mass="nan"'),
        "mass 1e308": MJCF.replace(b'mass="2"', b'mass="1e308"'),
    }
    return {name: written(".xml", content) for name, content in texts.items()}


def _layout_cases() -> dict[str, Maker]:
    texts: dict[str, bytes | Callable[[], bytes]] = {
        "aliases that expand": ALIASES,
        "code": b"!!python/object/apply:os.system ['touch hacked']",
        "code in a sensor": LAYOUT.replace(b"three links", b"!!python/name:os.system"),
        "nested 100000 deep": b"[" * 100_000,
        "nested mappings": b"{a: " * 100_000,
        "nested by indent": "".join(f"{' ' * k}a:\n" for k in range(3000)).encode(),
        "a number of 100000 digits": LAYOUT.replace(b"0.05", b"9" * 100_000),
        "a number of 10^400": LAYOUT.replace(b"0.05", b"1" + b"0" * 400),
        "base 60": LAYOUT.replace(b"0.05", b"1" + b":59" * 20_000),
        "date": LAYOUT.replace(b"three links", b"2001-99-99"),
        "timestamp": LAYOUT.replace(b"three links", b"2001-01-01 99:99:99"),
        "bad integer": LAYOUT.replace(b"0.05", b"0x"),
        "underscores": LAYOUT.replace(b"0.05", b"_1_"),
        "octal": LAYOUT.replace(b"0.05", b"0b__"),
        "inf": LAYOUT.replace(b"0.05", b".inf"),
        "nan": LAYOUT.replace(b"0.05", b".nan"),
        "std 1e300": LAYOUT.replace(b"0.05", b"1.0e+300"),
        "std 1e-320": LAYOUT.replace(b"0.05", b"1.0e-320"),
        "merge key": b"<<: {a: 1}\n" + LAYOUT,
        "unhashable key": b"? [a]\n: 1\n" + LAYOUT,
        "unhashable name": LAYOUT.replace(b"[hand_imu, tau1]", b"[[hand_imu], tau1]"),
        "unhashable kind": LAYOUT.replace(b"kind: imu", b"kind: [imu]"),
        "name with escape": LAYOUT.replace(b"hand_imu", b'"\\e[31m"'),
        "lone surrogate": LAYOUT.replace(b"three links", b'"\\ud800"'),
        "huge component": LAYOUT.replace(
            b"joint: link_1", b"joint: link_1, component: 99999999999"
        ),
        "10^5 sensors of one name": b"sensors: [" + b"all_joint_torques, " * 30_000 + b"]",
        "half a million keys": lambda: (
            b"about: {" + b"".join(f"k{k}: 1, ".encode() for k in range(300_000)) + b"}"
        ),
        "two documents": LAYOUT + b"---\n" + LAYOUT,
    }
    return {name: written(".yaml", content) for name, content in texts.items()}


def _problem_cases() -> dict[str, Maker]:
    good = problem_text()

    def on(robot: str) -> bytes:
        return good.replace(b"synthetic:chain:3", robot.encode())

    texts: dict[str, bytes] = {
        "chain of a billion": on("synthetic:chain:1000000000"),
        "tree of depth 60": on("synthetic:balanced_tree:60"),
        "grid of a billion": on("synthetic:spanning_grid:1000000000"),
        "auto_tree": on("synthetic:auto_tree:1000000000:1e300"),
        "random tree": on("synthetic:random_tree:99999999"),
        "negative": on("synthetic:chain:-5"),
        "not a number": on("synthetic:chain:nan"),
        "infinite": on("synthetic:chain:inf"),
        "text": on("synthetic:chain:a"),
        "unknown": on("synthetic:__class__"),
        "private": on("synthetic:np"),
        "robot is a FIFO": on("/dev/stdin"),
        "robot /dev/zero": on("/dev/zero"),
        "example outside": on("example:../../../etc/passwd"),
        "catalogue outside": good.replace(b"outputs:", b"x:").split(b"layout:")[0]
        + b"layout: 'catalogue:../../../etc/passwd'\n",
        "layout /dev/zero": good.split(b"layout:")[0] + b"layout: /dev/zero\n",
        "layout itself": good.split(b"layout:")[0] + b"layout: case.yaml\n",
        "window of a billion": good.replace(b"window: 21", b"window: 1000000001"),
        "order of a billion": good.replace(b"order: 3", b"order: 1000000000"),
        "prior nan": good.replace(b"external_wrench: 100", b"external_wrench: .nan"),
        "prior text": good.replace(b"external_wrench: 100", b"external_wrench: abc"),
        "prior list": good.replace(b"external_wrench: 100", b"external_wrench: [1, 2]"),
        "prior mapping": good.replace(b"external_wrench: 100", b"external_wrench: {1: {2: 3}}"),
        "prior std is text": good.split(b"prior:")[0] + b"prior: {std: abc}\n",
        "prior mean is a list": good.split(b"prior:")[0]
        + b"prior: {std: {qdd: 1}, mean: [1]}\n",
        "prior std of a huge number": good.replace(
            b"external_wrench: 100", b"qdd: 1" + b"0" * 400
        ),
        "base is a list": good.replace(b"base: fixed", b"base: [fixed]"),
    }
    return {name: written(".yaml", content) for name, content in texts.items()}


_MORE: dict[str, Callable[[], dict[str, Maker]]] = {
    "urdf": _urdf_cases,
    "mjcf": _mjcf_cases,
    "layout": _layout_cases,
    "problem": _problem_cases,
    **LOG_CASES,
}


def hostile(area: str) -> dict[str, Maker]:
    """Hostile files of an area by name: each writes itself into a folder."""
    special = {} if area in ("cache", "db3") else _special(TARGETS[area].ending)
    return special | (_MORE[area]() if area in _MORE else {})
