"""The doctor: on recorded settings with one thing changed, and on real clusters that are set well and badly."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_kit import PLUGIN, levels, site, tenure

from support.slurm import SlurmCluster, cluster
from tenure.slurm import CommandFailed, Commands, Finding, Site, counted, examine, read_site
from tenure.slurm.check_settings import PROMPT
from tenure.slurm.reading import Partition, SlurmUser

ROOT = Path(__file__).resolve().parents[2]
CODES = re.compile(r"`(\w+)`")

GOOD = {"operator", "version", "auth", "clock", "scheduler_type", "batch_sched_delay", "kill_wait", "min_job_age"}


def found(looked_at: Site, code: str) -> Finding:
    """The worst finding with this code."""
    return next(finding for finding in examine(looked_at, ["gpu"]) if finding.code == code)


@pytest.mark.parametrize(
    ("changed", "code", "level"),
    [
        ({"SLURM_VERSION": "20.11.7"}, "version", "must"),
        ({"SLURM_VERSION": "22.05.2"}, "version", "fine"),
        ({"SLURM_VERSION": "24.11.1"}, "version", "cannot tell"),
        ({"SLURM_VERSION": "99.05"}, "version", "cannot tell"),
        ({"SLURM_VERSION": "?"}, "version", "cannot tell"),
        ({"AuthType": "auth/slurm"}, "auth", "cannot tell"),
        ({"SchedulerType": "sched/backfill"}, "scheduler_type", "fine"),  # others are still scheduled by Slurm
        ({"SchedulerParameters": "batch_sched_delay=0,sched_interval=60"}, "sched_interval", "should"),
        ({"SchedulerParameters": "bf_continue"}, "batch_sched_delay", "should"),
        ({"SchedulerParameters": "default_queue_depth=many"}, "default_queue_depth", "should"),
        ({"KillWait": "10 sec"}, "kill_wait", "fine"),
        ({"KillWait": "20 sec"}, "kill_wait", "should"),
        ({"KillWait": "30 sec"}, "kill_wait", "must"),
        ({"MinJobAge": "0 sec"}, "min_job_age", "should"),
        ({"MinJobAge": "59 sec"}, "min_job_age", "must"),
        ({"MinJobAge": "60 sec"}, "min_job_age", "should"),
        ({"MinJobAge": "300 sec"}, "min_job_age", "fine"),
        ({"PreemptType": "preempt/qos"}, "preempt", "must"),
        ({"PreemptType": "preempt/partition_prio"}, "preempt", "fine"),  # PreemptMode=OFF in the partition
        ({"PreemptMode": "GANG,SUSPEND"}, "preempt", "must"),
        ({"SelectType": "select/linear"}, "select_type", "must"),
        ({"GresTypes": "(null)"}, "gres_types", "must"),
        ({"AccountingStorageTRES": "cpu,mem"}, "gpu_accounting", "should"),
        ({"JobSubmitPlugins": "throttle"}, "job_submit", "should"),
        ({"JobSubmitPlugins": "lua"}, "job_submit", "cannot tell"),  # the script is not where we look
        ({"SuspendProgram": "/usr/sbin/sleep-node"}, "suspend", "should"),
        ({"SlurmdTimeout": "0 sec"}, "slurmd_timeout", "should"),
    ],
)
def test_one_setting(changed: dict[str, str], code: str, level: str) -> None:
    assert found(site(**changed), code).level == level


def test_lines_to_write_keep_what_the_site_has() -> None:
    one = found(site(SchedulerParameters="defer,bf_continue,max_rpc_cnt=150,sched_interval=30"), "sched_interval")
    assert one.line == (
        "SchedulerParameters=bf_continue,max_rpc_cnt=150,sched_interval=1,"
        "batch_sched_delay=0,sched_min_interval=0,default_queue_depth=10000"
    )
    assert found(site(JobSubmitPlugins="throttle"), "job_submit").line == "JobSubmitPlugins=throttle,lua"
    assert found(site(GresTypes="nic"), "gres_types").line == "GresTypes=nic,gpu"


def test_devices_are_not_constrained_to_those_that_slurm_chose() -> None:
    assert found(site("config"), "constrain_devices").level == "fine"
    assert found(site("config-cgroup"), "constrain_devices").level == "must"
    assert found(site("config-cgroup"), "proctrack").level == "fine"


@pytest.mark.parametrize(
    ("users", "level"),
    [
        ((SlurmUser("nobody", "Operator"),), "fine"),
        ((SlurmUser("nobody", "None"),), "must"),
        ((), "must"),
        (None, "must"),  # without accounting there are no operators
    ],
)
def test_rights(users: tuple[SlurmUser, ...] | None, level: str) -> None:
    looked_at = site()
    looked_at.user, looked_at.users = "nobody", users
    assert found(looked_at, "operator").level == level
    looked_at.unread["users"] = "sacctmgr timed out"
    if users is None:
        assert found(looked_at, "operator").level == "cannot tell"


def test_machines() -> None:
    looked_at = site()
    first, *others = looked_at.nodes
    assert found(looked_at, "gpus").found == "gpu: 4 x 8 GPUs"
    assert found(looked_at, "shared_nodes").level == "should"  # they are in cpu and other, too
    looked_at.nodes = (replace(first, gpus=(("h100", 8),), states=frozenset({"DOWN"}), version="21.08"), *others)
    assert found(looked_at, "gpus").level == "should"
    assert found(looked_at, "nodes_down").found == "node001"
    assert found(looked_at, "node_versions").level == "should"
    looked_at.nodes = tuple(replace(node, gpus=()) for node in looked_at.nodes)
    assert found(looked_at, "gpus").level == "must"
    for limit, level in (("02:00:00", "should"), ("2-00:00:00", "fine"), ("UNLIMITED", "fine"), ("?", "cannot tell")):
        looked_at.partitions = (Partition("gpu", True, {"maxtime": limit}),)
        assert found(looked_at, "max_time").level == level
    looked_at.clock_off = -4
    assert found(looked_at, "clock").found == "slurmctld's clock is 4 s behind"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("NodeName=n Name=gpu File=/dev/nvidia[0-7]\n", "fine"),
        ("AutoDetect=nvml\n", "fine"),
        ("AutoDetect=off\nName=gpu Count=8\n", "must"),
        ("# Name=gpu File=/dev/nvidia0\n", "must"),
        (None, "cannot tell"),
    ],
)
def test_gres_conf(text: str | None, level: str) -> None:
    looked_at = site()
    if text is not None:
        looked_at.files["gres.conf"] = text
    assert found(looked_at, "gres_file").level == level


def test_the_plugins_own_lists() -> None:
    looked_at = site()
    looked_at.user = "nobody"
    looked_at.files["job_submit.lua"] = PLUGIN.read_text("utf-8")
    assert found(looked_at, "job_submit").level == "fine"
    assert found(looked_at, "plugin_partitions").level == "fine"
    uids = found(looked_at, "plugin_uids")
    assert (uids.level, uids.line) == ("must", "job_submit.lua: local TENURE_UIDS = { 65534 }")
    both = {finding.code: finding for finding in examine(looked_at, ["gpu", "cpu"])}
    assert both["plugin_partitions"].level == "should"
    assert both["plugin_partitions"].line.endswith('{ "gpu", "cpu" }')


_KEYS = sorted(site().settings.values)


@given(
    st.dictionaries(st.sampled_from(_KEYS), st.one_of(st.sampled_from(["0", "5 sec", "a=b,c", "(null)"]), st.text())),
    st.text(),
    st.text(),
)
def test_whatever_is_set_there_is_an_opinion(changed: dict[str, str], gres: str, plugin: str) -> None:
    looked_at = site(**changed)
    looked_at.files = {"gres.conf": gres, "cgroup.conf": gres, "job_submit.lua": f"tenure_submit {plugin}"}
    findings = examine(looked_at)
    assert all(finding.code and finding.wanted and finding.why for finding in findings)
    assert counted(findings).endswith(" fine")


def test_the_page_has_every_code() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src/tenure/slurm").glob("*.py"))
    known = set(re.findall(r'Finding\(\s*"(\w+)"', source)) | {name for name, *_ in PROMPT}
    known |= {f"read_{what}" for what in re.findall(r'_try\(\s*site, "(\w+)"', source)} - {"read_config"}
    page = (ROOT / "docs/slurm-site.md").read_text("utf-8")
    told = {code for line in page.splitlines() if line.startswith("| `") for code in CODES.findall(line.split("|")[1])}
    assert told == known


# ---- on real clusters

SLOW = """SchedulerType=sched/backfill
SchedulerParameters=defer
JobRequeue=0
RequeueExit=7
KillWait=30
MinJobAge=30
MaxJobCount=5000
SlurmdTimeout=300
ReturnToService=0
JobCompType=jobcomp/none"""
GREEDY = """PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=gpu Nodes=ALL Default=YES State=UP PriorityTier=2 OverSubscribe=EXCLUSIVE
PartitionName=free Nodes=ALL State=UP"""
CASES = {
    "as the tests use it": ("", dict.fromkeys(GOOD - {"operator"}, "fine") | {"operator": "should"}, 0),
    "slow and forgetful": (
        SLOW,
        {
            "scheduler_type": "should",
            "batch_sched_delay": "should",
            "sched_interval": "should",
            "sched_min_interval": "fine",
            "default_queue_depth": "should",
            "defer": "should",
            "job_requeue": "should",
            "requeue_exit": "should",
            "kill_wait": "must",
            "min_job_age": "must",
            "max_job_count": "should",
            "slurmd_timeout": "should",
            "return_to_service": "should",
            "accounting": "must",
            "preempt": "fine",
        },
        1,
    ),
    "evicts by itself": (
        GREEDY,
        {"preempt": "must", "over_subscribe": "should", "shared_nodes": "should", "kill_wait": "fine"},
        1,
    ),
}


@pytest.fixture(params=CASES, ids=[name.replace(" ", "-") for name in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SlurmCluster, dict[str, str], int]]:
    conf, expected, code = CASES[request.param]
    for made in cluster(tmp_path, nodes=1, conf=conf):
        yield made, expected, code


def test_real_settings(case: tuple[SlurmCluster, dict[str, str], int]) -> None:
    made, expected, code = case
    before = made.conf_file.read_bytes(), made.run("scontrol", "show", "node", "-o", "node001").partition("CPULoad")[0]
    done = tenure(made, "doctor", "--json", "--partition", "gpu")
    told = levels(done)
    assert {code: told.get(code) for code in expected} == expected
    assert done.returncode == code, done.stderr
    lines = tenure(made, "doctor", "-p", "gpu").stdout.splitlines()
    assert len(lines) == len(json.loads(done.stdout)) + 1  # one each, and the sum
    # Nothing has changed.
    after = made.conf_file.read_bytes(), made.run("scontrol", "show", "node", "-o", "node001").partition("CPULoad")[0]
    assert after == before


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path, nodes=1)


def test_a_slurm_that_does_not_answer_is_not_waited_for(lone: SlurmCluster, tmp_path: Path) -> None:
    commands = Commands(environment=lone.env)
    controller = int((tmp_path / "run" / "slurmctld.pid").read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        with pytest.raises(CommandFailed, match=r"scontrol show config did not end within 0\.5 s"):
            commands.run("scontrol", "show", "config", timeout_s=0.5)
    finally:
        os.kill(controller, signal.SIGCONT)
    with pytest.raises(CommandFailed, match="invalid entity"):
        commands.run("scontrol", "show", "nonsense")
    assert read_site(commands).cluster == "tenure"


def test_bare_count_nobody_and_no_slurm(lone: SlurmCluster, tmp_path: Path) -> None:
    assert levels(tenure(lone, "doctor", "--json", "--user", "nobody"))["operator"] == "must"
    assert tenure(lone, "doctor", "--partition", "gqu").stderr.startswith("error: partition = gqu: ")
    nothing = tenure(lone, "doctor", "--json", path=str(tmp_path))
    assert (levels(nothing), nothing.returncode) == ({"reachable": "must"}, 1)
    assert tenure(lone, "import", path=str(tmp_path)).returncode == 3

    (tmp_path / "etc" / "gres.conf").write_text("AutoDetect=off\nName=gpu Count=4\n")
    os.kill(int((tmp_path / "run" / "slurmd.node001.pid").read_text()), signal.SIGKILL)
    lone.start_node("node001")
    deadline = time.monotonic() + 60
    while "gres/gpu" not in lone.run("scontrol", "show", "node", "-o", "node001"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shutil.move(tmp_path / "etc" / "gres.conf", tmp_path / "gres.conf")  # it is on another machine
    one = found(read_site(Commands(environment=lone.env)), "gres_file")
    assert one.level == "must"
    assert "node001" in one.found
