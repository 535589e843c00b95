"""Partitions, hosts and accounts become a configuration that passes the check, and what cannot be carried is listed."""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_kit import PLUGIN, as_user, site, tenure

from support.slurm import SlurmCluster, cluster
from support.slurmdb import AccountedCluster, accounted
from tenure.config import Config, load, parse
from tenure.core.model import SHARE_ONE, Budget, Host
from tenure.slurm import NothingToCarry, Site, carry_over
from tenure.slurm.reading import PARENT, Association, Node, Partition, SlurmUser, Switch
from tenure.slurm.shares import budget_name, budgets_of


def account(name: str, parent: str, share: int = 1) -> Association:
    return Association("tenure", name, "", "", parent, share)


def person(name: str, of: str, share: int = 1, partition: str = "") -> Association:
    return Association("tenure", of, name, partition, "", share)


def budgets(*rows: Association, users: tuple[SlurmUser, ...] = ()) -> tuple[dict[str, Budget], list[str]]:
    made, notes = budgets_of((account("root", ""), *rows), users, "lab")
    return {budget.path: budget for budget in made}, notes


def test_shares_are_parts_among_siblings_and_add_up() -> None:
    made, notes = budgets(account("a", "root", 1), account("b", "root", 1), account("c", "root", 1))
    assert [made[f"lab/{name}"].share for name in "abc"] == [333_334, 333_333, 333_333]
    assert sum("has no people" in note for note in notes) == 3


def test_people_beside_sub_accounts_have_their_part_in_self() -> None:
    made, _ = budgets(
        account("a", "root"), account("b", "a", 6), person("ada", "a", 2), person("alan", "a", 2), person("x", "b")
    )
    assert made["lab/a"].members == ("ada", "alan")
    assert made["lab/a/b"].share == 600_000  # 6 of 6 + 2 + 2
    assert made["lab/a/b"].members == ("x",)


def test_the_default_association_of_root_counts_nothing() -> None:
    made, _ = budgets(person("root", "root"), account("a", "root", 1))
    assert made["lab/a"].share == SHARE_ONE
    assert made["lab"].members == ()


def test_an_account_with_parent_hands_its_children_up() -> None:
    made, _ = budgets(
        account("solid", "root", 50),
        account("thin", "root", PARENT),
        account("below", "thin", 3),
        person("ada", "thin", 1),
        person("alan", "thin", PARENT),
    )
    # As if below (3) and ada (1) stood beside solid (50).
    assert made["lab/solid"].share == round(50 / 54 * SHARE_ONE)
    assert made["lab/thin"].share * made["lab/thin/below"].share == pytest.approx(3 / 54 * SHARE_ONE**2, rel=1e-4)
    assert made["lab/thin"].members == ("ada", "alan")


def test_nothing_to_share_out_is_said() -> None:
    made, notes = budgets(account("a", "root", 0), account("b", "root", 0), person("x", "a"), person("y", "b"))
    assert [made["lab/a"].share, made["lab/b"].share] == [0, 0]
    assert sum("charged jobs will be refused" in note for note in notes) == 2


def test_one_member_for_all_associations_of_a_person() -> None:
    made, notes = budgets(account("a", "root"), person("ada", "a", 3, "gpu"), person("ada", "a", 3, "cpu"))
    assert made["lab/a"].members == ("ada",)
    assert notes == []


def test_managers_are_named_at_the_top_of_what_they_coordinate() -> None:
    rows = (account("a", "root"), account("b", "a"), person("x", "b"))
    made, _ = budgets(*rows, users=(SlurmUser("grace", "None", ("a", "b")), SlurmUser("alan", "None", ("b",))))
    assert (made["lab/a"].managers, made["lab/a/b"].managers) == (("grace",), ("alan",))


def test_names_that_need_another() -> None:
    assert [budget_name(name) for name in ("Video.2", "self", "share", "_x", "")] == [
        *("video-2", "self-account", "share-account", "x", "account")
    ]
    made, notes = budgets(account("a.b", "root"), account("a-b", "root"))
    assert set(made) == {"lab", "lab/a-b", "lab/a-b-2"}
    assert any(note.startswith("account a.b: is called a-b here") for note in notes)


def test_deep_trees_lost_parents_and_rings() -> None:
    chain = [account(f"d{i}", f"d{i - 1}" if i else "root") for i in range(12)]
    made, notes = budgets(*chain, person("deep", "d11"), account("ring", "gnir"), account("gnir", "ring"))
    deepest = max(made, key=len)
    assert deepest.count("/") == 7
    assert made[deepest].members == ("deep",)
    assert any("at most 8 levels" in note for note in notes)
    assert any("ring" in note and "not below root" in note for note in notes)
    made, notes = budgets(account("a", "nowhere"))
    assert made["lab/a"].share == SHARE_ONE
    assert any("its parent nowhere is not shown" in note for note in notes)


# ---- clusters, from the recorded site


def checked(looked_at: Site, *partitions: str) -> Config:
    carried = carry_over(looked_at, partitions)
    files = carried.files()
    config = parse(files["tenure.toml"], files["budgets.toml"])
    assert (config.clusters, config.budgets) == (carried.config.clusters, carried.config.budgets)
    return config


def test_a_host_goes_into_one_cluster_and_the_rest_is_said() -> None:
    config = checked(site(), "other", "gpu")
    assert {made.name: [host.name for host in made.hosts] for made in config.clusters} == {
        "other": ["node003", "node004"],
        "gpu": ["node001", "node002"],
    }
    notes = carry_over(site(), ("other", "gpu")).notes
    assert "partition gpu: left out, since they are in other, too, and in that cluster only: node[003-004]" in notes
    assert "partition other: down or drained now: node003" in notes


def test_features_switches_and_gpu_types_become_labels() -> None:
    looked_at = site()
    looked_at.nodes = (replace(looked_at.nodes[0], gpus=(("h100", 8),)), *looked_at.nodes[1:])
    made = checked(looked_at, "gpu").clusters[0]
    labels = (("gpu", "h100"), ("h100", "yes"), ("ib", "yes"), ("rack", "rack1"), ("zone", "spine"))
    assert made.hosts[0] == Host("node001", 8, 64_000, 512_000, labels)
    assert made.gang_label == "rack"
    looked_at.switches = (Switch("r", 0, ("node001",)),)
    assert checked(looked_at, "gpu").clusters[0].gang_label == ""


def test_limits_of_a_partition_and_odd_hosts_are_listed() -> None:
    looked_at = site()
    odd = Node("a b", (("", 8),), 64, 1000, (), ("GPU.x",))
    good = Node("fine", (("a", 4), ("b", 4)), 64, 1000, ("what ever",), ("GPU.x",))
    bare = Node("bare", (), 64, 1000, (), ("GPU.x",))
    looked_at.nodes = (odd, good, bare)
    values = {"partitionname": "GPU.x", "maxtime": "2-00:00:00", "allowgroups": "staff", "minnodes": "0"}
    looked_at.partitions = (Partition("GPU.x", True, values),)
    assert [made.name for made in checked(looked_at).clusters] == ["gpu-x"]
    notes = carry_over(looked_at).cluster_notes
    assert "partition GPU.x: maxtime=2-00:00:00, allowgroups=staff" in notes
    assert "partition GPU.x: left out, since they have no GPUs: bare" in notes
    assert "partition GPU.x: the cluster is called gpu-x" in notes
    assert any(note.startswith("host a b: left out") for note in notes)
    assert any("GPUs of several types (a, b)" in note for note in notes)
    assert "host fine: feature what ever cannot be a label" in notes


def test_nothing_to_carry() -> None:
    with pytest.raises(NothingToCarry, match="partition = nix: Slurm has no such partition; there are: gpu, cpu"):
        carry_over(site(), ("nix",))
    with pytest.raises(NothingToCarry, match=r"Gres=gpu:N"):
        carry_over(Site())


_NAMES = st.one_of(st.sampled_from(["root", "a", "b", "A.b", "self", "share"]), st.text(max_size=8))
_SHARES = st.one_of(st.just(PARENT), st.integers(0, 5), st.integers(0, 2**31))
_ROWS = st.builds(Association, st.just(""), _NAMES, st.one_of(st.just(""), _NAMES), st.just(""), _NAMES, _SHARES)
_NODES = st.builds(
    Node,
    name=st.one_of(st.sampled_from(["n1", "n2", "n3"]), st.text(max_size=5)),
    gpus=st.lists(st.tuples(st.text(max_size=5), st.integers(0, 1100)), max_size=2).map(tuple),
    cpus=st.integers(0, 5000),
    mem=st.integers(0, 2**40),
    features=st.lists(st.text(max_size=6), max_size=3).map(tuple),
    partitions=st.lists(st.sampled_from(["p", "Q"]), max_size=2, unique=True).map(tuple),
)


@given(st.lists(_ROWS, max_size=12), st.lists(_NODES, max_size=6), st.lists(st.builds(SlurmUser, _NAMES, _NAMES)))
def test_whatever_slurm_has_the_result_passes_the_check(
    rows: list[Association], nodes: list[Node], users: list[SlurmUser]
) -> None:
    looked_at = Site(nodes=tuple(nodes), associations=tuple(rows), users=tuple(users))
    looked_at.partitions = tuple(Partition(name, False, {"qos": "a\x00\nb"}) for name in ("p", "Q"))
    try:
        carried = carry_over(looked_at)
    except NothingToCarry as error:
        assert "there is no cluster to write" in str(error)
        return
    json.dumps(carried.plain())


# ---- real ones


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SlurmCluster]:
    (tmp_path / "etc").mkdir()
    switches = "SwitchName=r1 Nodes=node[001-002]\nSwitchName=r2 Nodes=node003\nSwitchName=top Switches=r[1-2]\n"
    (tmp_path / "etc" / "topology.conf").write_text(switches)
    conf = """TopologyPlugin=topology/tree
PartitionName=long Nodes=node[001-002] Default=YES State=UP MaxTime=7-0
PartitionName=debug Nodes=node[002-003] State=UP"""
    yield from cluster(tmp_path, nodes=3, conf=conf)


def test_a_real_cluster_becomes_files(plain: SlurmCluster, tmp_path: Path) -> None:
    plain.run("scontrol", "update", "nodename=node003", "AvailableFeatures=h100", "ActiveFeatures=h100")
    out = tmp_path / "site"
    done = tenure(plain, "import", "--out", str(out), "--organisation", "Our Lab")
    assert done.returncode == 0, done.stderr
    config = load(out / "tenure.toml")
    long, debug = config.clusters
    assert long.hosts == tuple(
        Host(name, 8, 64_000, 512_000, (("rack", "r1"), ("zone", "top"))) for name in ("node001", "node002")
    )
    assert debug.hosts == (Host("node003", 8, 64_000, 512_000, (("h100", "yes"), ("rack", "r2"), ("zone", "top"))),)
    assert [budget.path for budget in config.budgets] == ["our-lab"]
    notes = [line.removeprefix("not carried over: ") for line in done.stderr.splitlines()]
    assert "partition long: maxtime=7-00:00:00" in notes
    assert "partition debug: left out, since they are in long, too, and in that cluster only: node002" in notes
    assert "accounts, people and fair shares: there is no slurmdbd; write budgets yourself" in notes

    # What is there stays, unless it is to go.
    (out / "budgets.toml").write_text("[mine]\n")
    refused = tenure(plain, "import", "--out", str(out))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--force" in refused.stderr
    assert (out / "budgets.toml").read_text() == "[mine]\n"
    assert tenure(plain, "import", "--out", str(out), "--force").returncode == 0
    assert load(out / "tenure.toml").budgets[0].path == "root"

    found = json.loads(tenure(plain, "import", "--json", "-p", "debug").stdout)
    assert [made["partition"] for made in found["clusters"]] == ["debug"]
    assert [host["name"] for host in found["clusters"][0]["hosts"]] == ["node002", "node003"]
    parse(found["files"]["tenure.toml"], found["files"]["budgets.toml"])
    shown = tenure(plain, "import", "-p", "debug").stdout
    assert shown.startswith("# ---- tenure.toml\n")
    assert found["files"]["budgets.toml"] in shown


ACCOUNTS = """account lab parent=root fairshare=1
account language parent=lab fairshare=50
account pretrain parent=language fairshare=70
account align parent=language fairshare=30
account vision parent=lab fairshare=parent
account video parent=vision fairshare=3
user nobody account=pretrain fairshare=2
user games account=pretrain fairshare=parent
user www-data account=vision fairshare=1
user man account=align,video adminlevel=operator
coordinator account=language name=nobody"""


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[AccountedCluster]:
    (tmp_path / "etc").mkdir()
    uid = pwd.getpwnam("man").pw_uid
    script = PLUGIN.read_text("utf-8").replace("TENURE_UIDS = {}", f"TENURE_UIDS = {{ {uid} }}")
    (tmp_path / "etc" / "job_submit.lua").write_text(script)
    yield from accounted(tmp_path, nodes=1, conf="PriorityType=priority/multifactor\nJobSubmitPlugins=lua")


@pytest.mark.slow
def test_a_real_association_tree_becomes_the_shares_that_slurm_gives(counted: AccountedCluster) -> None:
    for line in ACCOUNTS.splitlines():
        counted.run("sacctmgr", "-i", "add", *line.split())
    found = json.loads(tenure(counted, "import", "--json").stdout)
    made = {budget["path"]: budget for budget in found["budgets"]}
    assert made["root/lab/language/pretrain"]["members"] == ["games", "nobody"]
    assert made["root/lab/language"]["managers"] == ["nobody"]
    assert made["root/lab/language/align"]["members"] == made["root/lab/vision/video"]["members"] == ["man"]

    # Slurm's own figures: a part of the siblings, where those of vision count among its parent's.
    shown = counted.run("sshare", "-a", "-l", "-n", "-P", "--format=Account,User,NormShares")
    rows = [line.strip().split("|") for line in shown.splitlines()]
    norm = {name.strip(): float(value) for name, user, value in rows if value and not user}
    for path in ("root/lab/language", "root/lab/language/pretrain", "root/lab/language/align"):
        assert made[path]["share"] == pytest.approx(norm[path.rpartition("/")[2]], abs=2e-6), path
    vision = made["root/lab/vision"]["share"]
    assert vision * made["root/lab/vision/video"]["share"] == pytest.approx(norm["video"], abs=2e-6)

    told = {one["code"]: one for one in json.loads(tenure(counted, "doctor", "--json", "--user", "man").stdout)}
    assert (told["operator"]["level"], told["accounting"]["level"]) == ("fine", "fine")
    assert told["gpu_accounting"]["level"] == "fine"
    assert told["plugin_uids"]["level"] == "fine"
    told = {one["code"]: one for one in json.loads(tenure(counted, "doctor", "--json", "--user", "games").stdout)}
    assert told["operator"]["line"] == "sacctmgr modify user games set adminlevel=operator"

    # Under an operator's name Tenure may release what the plugin holds; the job's user may not.
    words = ("sbatch", "--parsable", "--account=pretrain", "--output=/dev/null", "--wrap=true")
    job = as_user(counted, "games", *words).stdout.strip()
    assert as_user(counted, "games", "scontrol", "release", job).returncode != 0
    listing = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%a %u %t %r")
    assert counted.run(*listing).split() == ["pretrain", "games", "PD", "JobHeldUser"]
    assert as_user(counted, "man", "scontrol", "release", job).returncode == 0
    assert counted.run(*listing).split()[3] != "JobHeldUser"
