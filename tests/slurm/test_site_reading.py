"""What Slurm prints, read: recorded from a real one, and anything else without a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_kit import recorded

from tenure.slurm import reading
from tenure.slurm.reading import PARENT, Association, SlurmUser, Switch


def test_settings_with_their_units_and_the_controllers_clock() -> None:
    settings = reading.read_settings(recorded("config"))
    assert settings.number("KillWait") == 5
    assert settings.number("minjobage") == 3600
    assert settings.text("SLURM_VERSION") == "22.05.8"
    assert settings.words("JobSubmitPlugins") == ("lua",)
    assert settings.text("SuspendProgram") == ""
    assert settings.number("SuspendTime") is None
    assert settings.text("SlurmUser") == "root(0)"
    assert settings.at == 1796010916
    assert reading.read_settings(recorded("config-cgroup")).cgroup["constraindevices"] == "yes"


def test_nodes_whatever_people_wrote_into_reason_and_comment() -> None:
    nodes = {node.name: node for node in reading.read_nodes(recorded("nodes"))}
    assert list(nodes) == ["node001", "node002", "node003", "node004"]
    first, drained, commented = nodes["node001"], nodes["node003"], nodes["node004"]
    assert (first.gpu_count, first.cpus, first.mem) == (8, 64, 512_000)
    assert first.features == ("h100", "ib")
    assert first.partitions == ("gpu", "cpu")
    assert drained.states == {"IDLE", "DRAIN"}
    assert drained.reason == "GPU 3: Xid=79 seen, rack=r2 looked at"
    assert drained.features == ()
    assert commented.reason == ""
    assert commented.partitions == ("gpu", "other")


def test_partitions_switches_and_people() -> None:
    parts = reading.read_partitions(recorded("partitions"))
    assert [(part.name, part.default) for part in parts] == [("gpu", True), ("cpu", False), ("other", False)]
    assert parts[0].text("PreemptMode") == "OFF"
    assert reading.read_topology(recorded("topology")) == (
        Switch("rack1", 0, ("node001", "node002")),
        Switch("rack2", 0, ("node003", "node004")),
        Switch("spine", 1, ("node001", "node002", "node003", "node004")),
    )
    assert SlurmUser("man", "Operator") in reading.read_users(recorded("users"))
    assert SlurmUser("nobody", "None", ("align", "language", "pretrain")) in reading.read_users(recorded("users"))
    rows = reading.read_associations(recorded("assoc"))
    assert Association("tenure", "vision", "", "", "lab", PARENT) in rows
    assert Association("tenure", "pretrain", "games", "gpu", "", PARENT) in rows
    assert Association("tenure", "language", "", "", "lab", 50) in rows


def test_blocks_of_newer_versions_are_read_as_switches() -> None:
    text = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
    assert reading.read_topology(text) == (Switch("b1", 0, ("n1", "n2")),)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", ()),
        ("gpu:8", (("", 8),)),
        ("gpu", (("", 1),)),
        ("gpu:a100", (("a100", 1),)),
        ("gpu:h100:8(S:0-1),nic:2", (("h100", 8),)),
        ("gpu:a100:4(S:0),gpu:v100:2(S:1)", (("a100", 4), ("v100", 2))),
        ("bandwidth:lustre:no_consume:4G,gpu:1g.10gb:7", (("1g.10gb", 7),)),
        ("shard:32,gpu:no_consume:2", (("", 2),)),
    ],
)
def test_gpus_of_a_node(text: str, gpus: tuple[tuple[str, int], ...]) -> None:
    assert reading.read_gres(text) == gpus


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[01-03,7],x", ["n01", "n02", "n03", "n7", "x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a-[9-10]-ib", ["a-9-ib", "a-10-ib"]),
        ("(null)", []),
        ("n[", []),
        ("n[3-1]", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert reading.expand(text) == names


def test_a_host_list_ends() -> None:
    assert len(reading.expand("n[0-999999999]m[0-999999999]")) == reading.MAX_NAMES
    assert reading.expand("n" + "[0-9]" * 50 + "[") == []


def test_versions() -> None:
    assert reading.version_of("slurm-wlm 22.05.8") == (22, 5)
    assert reading.version_of("slurm 24.11.0-0rc1") == (24, 11)
    assert reading.version_of("slurm") is None


_PARTS = st.sampled_from(
    [
        *("NodeName=", "Gres=gpu:", " Reason=", " Comment=", "PartitionName=", "SwitchName=", "Nodes=n[1-", "a|b|c|"),
        *("=", "|", ",", "[", "]", "(", ")", "-", ":", "+", "0", "999999999", " ", "\n"),
    ]
)


@given(st.lists(st.one_of(_PARTS, st.text(max_size=12)), max_size=30).map("".join))
def test_no_text_makes_a_reader_fail(text: str) -> None:
    reading.read_settings(text)
    reading.read_nodes(text)
    reading.read_partitions(text)
    reading.read_topology(text)
    reading.read_associations(text)
    reading.read_users(text)
    reading.read_gres(text)
    reading.expand(text)
