"""URDF reader: every failure is named, files of unknown origin do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynsys import ModelError, load
from dynsys.model.readers import xml_input
from tests.model.urdf_text import UNIT, joint, link, quiet, write

# ---- failure modes ---------------------------------------------------------------------------

BASE_A = link("base") + link("a")


def hinge(extra: str) -> str:
    return BASE_A + joint("j", "base", "a", extra=extra)


def heavy(mass: str) -> str:
    return link("base", f'<inertial><mass value="{mass}"/>{UNIT}</inertial>')


BROKEN = {
    "unknown type": (BASE_A + joint("j", "base", "a", "revolut"), "unknown joint type.*mean"),
    "no type": (BASE_A + '<joint name="j"/>', "'type' is missing"),
    "no parent": (
        BASE_A + '<joint name="j" type="fixed"><child link="a"/></joint>',
        "<parent> is missing",
    ),
    "no child": (
        BASE_A + '<joint name="j" type="fixed"><parent link="base"/></joint>',
        "<child> is missing",
    ),
    "unknown link": (BASE_A + joint("j", "bas", "a"), "parent link 'bas'.*did you mean 'base'"),
    "loop": (
        BASE_A + joint("j", "base", "a") + joint("k", "base", "a"),
        "'a' is already the child of joint 'j': a loop",
    ),
    "ring": (BASE_A + joint("j", "base", "a") + joint("k", "a", "base"), "a loop"),
    "detached ring": (
        BASE_A + link("b") + joint("j", "b", "a") + joint("k", "a", "b"),
        "links a, b form a loop",
    ),
    "two roots": (BASE_A, "2 root links"),
    "two links of one name": (link("a") + link("a"), "link name is used twice"),
    "two joints of one name": (
        BASE_A + link("b") + joint("j", "base", "a") + joint("j", "a", "b"),
        "joint name is used twice",
    ),
    "no name": ("<link/>", "'name' is missing"),
    "no link": ("", "the robot has no link"),
    "no joint": (link("base"), "no moving body"),
    "negative mass": (heavy("-1"), "negative mass -1 kg"),
    "mass is text": (heavy("1,5"), "value='1,5' is not a number"),
    "mass is nan": (heavy("nan"), "must be a finite number"),
    "no mass": (link("base", f"<inertial>{UNIT}</inertial>"), "<mass> is missing"),
    "short origin": (hinge('<origin xyz="0 0"/>'), "must hold 3 numbers"),
    "infinite origin": (hinge('<origin xyz="0 0 inf"/>'), "must be finite"),
    "zero axis": (hinge('<axis xyz="0 0 0"/>'), "axis of joint 'j' has no direction"),
    "negative damping": (hinge('<dynamics damping="-1"/>'), "damping must not be negative"),
    "two origins": (hinge("<origin/><origin/>"), "second <origin>"),
    "xacro": (BASE_A + joint("j", "base", "a") + "<xacro:arm/>", "xacro macros"),
    "xacro in a link": (
        link("base", '<xacro:sphere mass="1"/>') + link("a") + joint("j", "base", "a"),
        "line 1, <link name='base'>: it still holds a xacro macro",
    ),
    "xacro in a mass": (
        heavy("${m}"),
        "line 1, <mass>: value='\\${m}' is an expression of xacro",
    ),
    "xacro in a parent": (
        BASE_A + joint("j", "$(arg base)", "a"),
        "<parent>: link='\\$\\(arg base\\)' is an expression of xacro",
    ),
    "turned twice": (hinge('<origin rpy="0 0 0" quat_xyzw="0 0 0 1"/>'), "not both"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_by_name(tmp_path: Path, case: str) -> None:
    content, reason = BROKEN[case]
    with pytest.raises(ModelError, match=reason) as caught:
        quiet(write(tmp_path, content))
    assert "r.urdf" in str(caught.value)


def test_missing_file_folder_and_bad_xml(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path / "none.urdf")
    with pytest.raises(ModelError, match="not a regular file"):
        load(tmp_path)
    broken = tmp_path / "broken.urdf"
    broken.write_text("<robot><link></robot>")
    with pytest.raises(ModelError, match="not well-formed"):
        load(broken)
    broken.write_bytes(b'<?xml version="1.0" encoding="no-such"?><robot/>')
    with pytest.raises(ModelError, match=r"broken\.urdf"):
        load(broken)
    broken.write_text("<sdf/>")
    with pytest.raises(ModelError, match="<sdf> is neither URDF"):
        load(broken)


def test_unknown_options(tmp_path: Path) -> None:
    path = write(tmp_path, link("base"))
    with pytest.raises(ModelError, match="mimic must be one of"):
        quiet(path, mimic="coupled")
    with pytest.raises(ModelError, match="inertia must be one of"):
        quiet(path, inertia="ignore")


# ---- files of unknown origin -----------------------------------------------------------------


def test_entities_are_refused_before_they_expand(tmp_path: Path) -> None:
    tenfold = [f"&l{i};" * 10 for i in range(9)]
    levels = "".join(f'<!ENTITY l{i + 1} "{text}">' for i, text in enumerate(tenfold))
    bomb = tmp_path / "bomb.urdf"
    bomb.write_text(f'<!DOCTYPE robot [<!ENTITY l0 "lol">{levels}]><robot name="&l9;"/>')
    with pytest.raises(ModelError, match="line 1: document type and entity"):
        load(bomb)


def test_external_entities_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = tmp_path / "external.urdf"
    path.write_text(
        f'<!DOCTYPE robot [<!ENTITY x SYSTEM "{secret.as_uri()}">]><robot name="r">&x;</robot>'
    )
    with pytest.raises(ModelError, match="refused") as caught:
        load(path)
    assert "secret" not in str(caught.value)


def test_large_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, link("base"), " " * 1000)
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        load(path, max_bytes=100)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nested deeper"):
        load(write(tmp_path, "<a>" * 5000, "</a>" * 5000))


def test_too_many_elements_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_input, "MAX_ELEMENTS", 100)
    with pytest.raises(ModelError, match="more than 100 elements"):
        load(write(tmp_path, "<a/>" * 200))


def test_a_chain_of_thousands_of_links_is_read(tmp_path: Path) -> None:
    count = 1500
    path = write(
        tmp_path,
        *(link(f"l{i}") for i in range(count + 1)),
        *(joint(f"j{i}", f"l{i}", f"l{i + 1}", "fixed", "") for i in range(count)),
        link("end"),
        joint("j", f"l{count}", "end"),
    )
    assert quiet(path).frame("l1234").body == -1
