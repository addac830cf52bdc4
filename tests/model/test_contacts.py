"""Contacts: bodies without mass that hand a wrench of their own on to what they touch."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import Contact, KinematicTree, ModelError, synthetic
from dynsys.model.contacts import link_of, welds_before
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy
from dynsys.model.tree import Frame, Weld
from tests.oracles import inverse_dynamics

SIDE = Transform(rotation_from_rpy(np.array([0.3, 0.1, -0.7])), np.array([0.2, 0.0, -0.1]))
XYZ, RPY = (0.1, -0.2, 0.3), (0.4, -0.5, 1.2)


def robot(seed: int = 2) -> KinematicTree:
    """A tree with frames, one of them the link beyond two fixed joints in a row."""
    tree = synthetic.random_tree(6, seed)
    below = Transform(np.eye(3), np.array([0.0, 0.1, 0.0]))
    part = Inertia(0.1, np.zeros(3), 0.001 * np.eye(3))
    cell = Weld("cell_joint", "cell", 2, SIDE, Transform.identity(), part, (), "link_2")
    plate = Weld("plate_joint", "plate", 2, SIDE.then(below), SIDE, part, (), "cell")
    frames = {"cell": Frame(2, SIDE), "plate": Frame(2, SIDE.then(below))}
    frames |= {"tool": Frame(4, SIDE), "mark": Frame(2, below), "wall": Frame(-1, SIDE)}
    welds = {w.joint: w for w in (cell, plate)} | {w.link: w for w in (cell, plate)}
    return KinematicTree("tree", tree.bodies, frames, welds=welds)


@pytest.mark.parametrize("seed", range(4))
def test_a_carrier_feels_the_sum(seed: int) -> None:
    tree, rng = robot(seed), np.random.default_rng(seed)
    touched = tree.with_contacts(["tool", Contact("edge", 4, XYZ, RPY)])
    assert (touched.nq, touched.nv, touched.total_mass) == (tree.nq, tree.nv, tree.total_mass)
    q, (qd, qdd) = tree.random_configuration(rng), rng.normal(size=(2, tree.nv))
    own, tool, edge = rng.normal(size=(3, 6))
    at = {name: touched.bodies[touched.body_index(name)].placement for name in ("tool", "edge")}
    total = np.zeros((tree.n_bodies, 6))
    total[4] = own + at["tool"].force_back(tool) + at["edge"].force_back(edge)
    expected = inverse_dynamics(tree, q, qd, qdd, total)
    pushed = {tree.body_names[4]: own, "tool": tool, "edge": edge}
    found = dynsys.rnea(touched, q, qd, qdd, pushed)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(dynsys.aba(touched, q, qd, found, pushed), qdd, atol=1e-8)


def test_contacts_are_found_again_on_their_links() -> None:
    tree = robot()
    wanted = [Contact("plate"), Contact("heel", "cell", XYZ, RPY), Contact("side", 2, XYZ)]
    wanted += [Contact("ground", -1, XYZ)]
    touched = tree.with_contacts(wanted)
    assert not tree.contacts and [c.name for c in touched.contacts] == [c.name for c in wanted]
    again = tree.with_contacts(touched.contacts)
    for one, two in zip(touched.bodies[6:], again.bodies[6:], strict=True):
        assert one.parent == two.parent
        np.testing.assert_allclose(one.placement.matrix(), two.placement.matrix(), atol=1e-14)
    assert touched.contacts[0] == Contact("plate")
    beyond = {name: [touched.body_names[j] for j in w.children]
              for name, w in touched.welds.items()}  # fmt: skip
    assert beyond["plate"] == beyond["plate_joint"] == ["plate"]
    assert beyond["cell"] == ["plate", "heel"]
    assert {n: w.children for n, w in again.welds.items()} == {
        n: w.children for n, w in touched.welds.items()
    }
    assert touched.with_contacts(touched.contacts) is touched
    assert touched.with_contacts(wanted) is touched
    assert pickle.loads(pickle.dumps(touched)).contacts == touched.contacts


@pytest.mark.parametrize(
    ("contact", "message"),
    [
        (Contact("heel", "nowhere"), "no body or frame 'nowhere'"),
        ("nowhere", "no body or frame 'nowhere'"),
        (Contact("cell", 2), "'cell' is not where the frame of this name is"),
        (3, "is a name or a Contact"),
        (Contact("heel", "mark"), r"'mark' is on one of the links .*'cell', 'plate'\].*which"),
        (Contact("heel", 2, (0.0, 1.0)), "three finite numbers"),
        (Contact("heel", 2, (0.0, 1.0, np.nan)), "three finite numbers"),
    ],
)
def test_contacts_that_cannot_be(contact: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        robot().with_contacts([contact])  # type: ignore[list-item]


def test_a_body_has_a_wrench_of_its_own() -> None:
    tree = robot()
    with pytest.raises(ModelError, match=r"has a body of this name.*another name"):
        tree.with_contacts([tree.body_names[3]])


# ---- links of frames -------------------------------------------------------------------------

HAND = """<mujoco><worldbody><body name="wrist" pos="0 0 1"><joint name="turn" axis="0 1 0"/>
  <geom size="0.05" mass="1"/><site name="back" pos="0 0 0.1"/>
  <body name="palm" pos="0.2 0 0" euler="10 20 30"><geom size="0.04" mass="0.5"/>
    <site name="grip" pos="0 0.05 0.1"/><site name="s_palm"/>
    <body name="finger" pos="0.1 0 0"><geom size="0.02" mass="0.2"/>
      <joint name="curl" axis="0 0 1"/>
      <site name="tip" pos="0.05 0 0"/><site name="s_finger"/></body></body></body></worldbody>
  <sensor><force name="palm_f" site="s_palm"/><torque name="palm_t" site="s_palm"/>
  <force name="finger_f" site="s_finger"/><torque name="finger_t" site="s_finger"/></sensor>
</mujoco>"""
CURL = '<joint name="curl" axis="0 0 1"/>'
ON = {"back": "wrist", "grip": "palm", "tip": "finger"}
FELT = {"back": (), "grip": ("palm",), "tip": ("palm", "finger")}


def hand(folder: Path, text: str, lock: dict[str, float]) -> KinematicTree:
    pytest.importorskip("mujoco")
    path = folder / "hand.xml"
    path.write_text(text)
    return dynsys.load(path, lock=lock)


@pytest.mark.finding("W-3")
def test_sites_are_on_the_body_that_holds_them(tmp_path: Path) -> None:
    tree = hand(tmp_path, HAND, {"curl": 0.3})
    assert {site: link_of(tree, site) for site in ON} == ON
    assert {site: welds_before(tree, site) for site in ON} == {
        site: frozenset(links) for site, links in FELT.items()
    }
    touched = tree.with_contacts(["back", "grip", "tip"])
    assert {c.name: c.frame for c in touched.contacts} == ON
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = dynsys.load(tree.to_urdf(tmp_path / "hand.urdf"))
    assert {s: welds_before(again, s) - {s} for s in ON} == {s: {*FELT[s]} for s in ON}
