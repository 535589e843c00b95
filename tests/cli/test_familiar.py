"""Jobs, hosts and history in the columns of squeue, sinfo and sacct."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.server import TestServer
from tenure.api.models import HostView
from tenure.cli import familiar
from tenure.cli.errors import CliError


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (["n1"], "n1"),
        (["n3", "n1", "n2"], "n[1-3]"),
        (["n1", "n2", "n10", "n11", "n12"], "n[1-2,10-12]"),
        (["node001", "node003"], "node[001,003]"),
        (["gpu-a1", "gpu-b1", "login"], "gpu-a1,gpu-b1,login"),
        (["r1n1x", "r1n2x"], "r1n[1-2]x"),
        ([], ""),
    ],
)
def test_hosts_in_ranges(given: list[str], written: str) -> None:
    assert familiar.names(given) == written


def test_states_by_either_name() -> None:
    assert familiar.states(["pd,running", "TIMEOUT"]) == ["queued", "claiming", "running", "timed_out"]
    assert len(familiar.states(["all"])) == 10
    with pytest.raises(CliError, match="state = RUNING: write one of queued"):
        familiar.states(["RUNING"])


@pytest.mark.parametrize(
    ("ms", "short", "full"),
    [(None, "0:00", "00:00:00"), (61_000, "1:01", "00:01:01"), (7_384_000, "2:03:04", "02:03:04"),
     (93_784_000, "1-02:03:04", "1-02:03:04")],
)  # fmt: skip
def test_lengths(ms: int | None, short: str, full: str) -> None:
    assert (familiar.length(ms), familiar.full_length(ms)) == (short, full)


def test_exit_codes_and_reasons() -> None:
    assert [familiar.exit_code(code) for code in (None, 3, -9)] == ["0:0", "3:0", "0:9"]
    assert familiar.reason("waiting_standing") == "Priority"
    assert familiar.reason("waiting_turn") == "WaitingTurn"


def host(name: str, **more: Any) -> HostView:
    given = {"state": "healthy", "since": 0, "by": "", "why": "", "gpus": 8, "free_gpus": 8, "cpus": 64.0, **more}
    return HostView(cluster="h100", name=name, memory_mib=1024, labels={}, attempts=[], **given)


def test_sinfo_groups_hosts_by_what_is_shown() -> None:
    hosts = [host("n1"), host("n2", free_gpus=3), host("n3"), host("n4", state="failed"), host("n5", free_gpus=0)]
    hosts += [host("n6", state="draining", why="fans", by="ada"), host("n7", others_gpus=8, free_gpus=0)]
    line = familiar.columns(familiar.HOSTS, familiar.host_fields(paused=False))
    groups = familiar.host_groups(hosts, familiar.HOSTS)
    assert [line(group).split() for group in (None, *groups)] == [
        "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST".split(),
        "h100 up infinite 2 idle n[1,3]".split(),
        "h100 up infinite 1 mix n2".split(),
        "h100 up infinite 1 down n4".split(),
        "h100 up infinite 2 alloc n[5,7]".split(),
        "h100 up infinite 1 drain n6".split(),
    ]
    assert line(None) == "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"


def test_a_letter_that_means_nothing_here_is_refused_with_those_that_do() -> None:
    with pytest.raises(CliError, match=r"format = %\.5X: .*%A \(JOBID\)"):
        familiar.columns("%i %.5X", familiar.queue_fields(0))
    with pytest.raises(CliError, match=r"format = MaxRSS: .*JobID, JobIDRaw"):
        familiar.history_columns("JobID,MaxRSS", 0)


# ---- against a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    running = TestServer(tmp_path_factory.mktemp("familiar"))
    running.start()
    yield running
    running.end()


def submit(server: TestServer, *more: str) -> int:
    return int(server.cli("submit", "-q", "-b", "lab/language", *more).stdout)


def test_a_queue_as_squeue_has_it(server: TestServer) -> None:
    running = submit(server, "-g", "4", "--replicas", "2", "--name", "train", "--timeout", "2h", "--", "sleep", "1000")
    server.wait_state(running, "running")
    waiting = submit(server, "-g", "4", "--name", "a-long-name", "--", "true")
    try:
        lines = server.cli("squeue").stdout.splitlines()
        assert lines[0] == "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
        first, second = (line.split() for line in lines[1:])
        assert first == [str(waiting), "main", "a-long-n", "admin", "PD", "0:00", "1", "(Resources)"]
        assert second[:5] == [str(running), "main", "train", "admin", "R"]
        assert re.fullmatch("[0-9]:[0-9]{2}", second[5]) and second[6:] == ["2", "n[1-2]"]
        said = server.cli("squeue", "-h", "-t", "R", "-o", "%i|%T|%l|%b|%N|%j").stdout
        assert said == f"{running}|RUNNING|2:00:00|gres:gpu:4|n[1-2]|train\n"
        assert [job["id"] for job in json.loads(server.cli("squeue", "--me", "--json").stdout)] == [waiting, running]
        assert server.cli("squeue", "-h", "-j", str(waiting), "-o", "%r").stdout == "Resources\n"
        said = server.cli("sinfo", "-h").stdout.split()
        assert said == ["main", "up", "infinite", "2", "alloc", "n[1-2]"]
        assert server.cli("sinfo", "-N", "-h").stdout.split()[:2] == ["n1", "1"]
        server.client.drain("main", "n2", "new fans")
        (reason,) = server.cli("sinfo", "-R", "-h").stdout.splitlines()
        assert reason.split()[:3] == ["new", "fans", "admin"] and reason.endswith(" n2")
        server.client.resume_host("main", "n2", "")
    finally:
        server.client.cancel(running)
        server.client.wait(waiting, timeout_s=60)


def test_history_as_sacct_has_it(server: TestServer) -> None:
    failed = submit(server, "-g", "1", "-c", "2", "--mem", "64M", "--name", "bad", "--", "sh", "-c", "exit 3")
    assert server.client.wait(failed, timeout_s=60).state == "failed"
    again = submit(server, "-g", "4", "--name", "again", "--resumable", "--", "sleep", "1000")
    server.wait_state(again, "running")
    server.client.evict(again, "the test wants two runs")
    seq = 0
    while server.client.job(again).restarts < 1 or server.client.job(again).state != "running":
        seq = server.client.changes(seq, 1_000)
    server.client.cancel(again)
    server.client.wait(again, timeout_s=60)
    lines = server.cli("history").stdout.splitlines()
    assert lines[0].split() == ["JobID", "JobName", "Partition", "Account", "AllocTRES", "State", "ExitCode", "Elapsed"]
    assert set(lines[1]) == {"-", " "}
    row = next(line.split() for line in lines if line.split()[0] == str(failed))
    assert row[1:7] == ["bad", "main", "lab/language", "billing=1,cpu=2,gres/gpu=1,mem=64M,node=1", "FAILED", "3:0"]
    assert re.fullmatch("00:00:[0-9]{2}", row[7])
    said = server.cli("sacct", "-nP", "-D", "-j", str(again), "-o", "jobid,state,nodelist").stdout
    assert [line.split("|")[:2] for line in said.splitlines()] == [[str(again), "PREEMPTED"], [str(again), "CANCELLED"]]
    (job,) = json.loads(server.cli("history", "-j", str(failed), "--json").stdout)
    assert [run["exit_codes"] for run in job["runs"]] == [[3]]
    assert server.cli("sacct", "-n", "-P", "-s", "F", "-o", "JobID").stdout.split() == [str(failed)]
    assert server.cli("sacct", "-n", "-u", "nobody").stdout == ""
    assert server.cli("sacct", "-n", "-S", "2999-01-01").stdout == ""
