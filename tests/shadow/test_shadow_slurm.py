"""Beside a real Slurm that schedules for itself: nothing is done to it, nothing is missed, and the report is of what
was.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import tenure
from support.slurm import PATIENCE_S, SlurmCluster, cluster
from support.slurmdb import AccountedCluster, accounted
from tenure.shadow.journal import FILE, Record, read_record

_T = TypeVar("_T")
_SOURCES = str(Path(tenure.__file__).resolve().parents[1])
_COMMANDS = ("squeue", "sinfo", "sacct", "sshare", "scontrol", "sacctmgr")
_OTHERS = ("sbatch", "srun", "salloc", "scancel", "sattach", "sbcast", "strigger", "sreport", "sprio", "sdiag")
_LOGGED = """#!/bin/sh
echo "{name} $*" >> {log}
case "{name}" in
    squeue|sinfo|sacct|sshare) ;;
    scontrol) [ "$1" = show ] || {{ echo "{name} $*" >> {refused}; exit 99; }} ;;
    sacctmgr) [ "$1 $2 $3" = "-n -P show" ] || {{ echo "{name} $*" >> {refused}; exit 99; }} ;;
    *) echo "{name} $*" >> {refused}; exit 99 ;;
esac
exec {real} "$@"
"""


class Shadow:
    """``tenure slurm ...`` beside a cluster, with commands that only show and write down how they were called."""

    def __init__(self, slurm: SlurmCluster, base: Path) -> None:
        self.slurm = slurm
        self.folder = base / "record"
        self.commands = base / "commands"
        self.log, self.refused = base / "log", base / "refused"
        self.commands.mkdir()
        for name in (*_COMMANDS, *_OTHERS):
            real = shutil.which(name) or "/bin/false"
            wrapper = self.commands / name
            wrapper.write_text(_LOGGED.format(name=name, log=self.log, refused=self.refused, real=real))
            wrapper.chmod(0o755)
        self.env = {**slurm.env, "PYTHONPATH": _SOURCES, "PATH": str(self.commands)}

    def words(self, *words: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "tenure", "slurm", *words)

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.words(*words), env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == code, done.stderr
        return done

    def watch(self, *words: str) -> subprocess.Popen[str]:
        command = self.words("shadow", str(self.folder), "--every", "1s", "--json", *words)
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def record(self) -> Record:
        return read_record(self.folder)


def until(what: Callable[[], _T | None], about: str) -> _T:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{about}: not after {PATIENCE_S} s")


def sbatch(slurm: SlurmCluster, *words: str) -> str:
    """With ``--uid`` somebody else's: it runs, and fails, since only root can read scripts below pytest's folders."""
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *words).strip()


def allocated(slurm: SlurmCluster, user: str, *words: str) -> str:
    """A job of somebody else's on GPUs that are free, without a script: it runs until it is cancelled.

    ``salloc`` itself, once it is theirs, cannot reach munge below pytest's folders, and would ask for ever.
    """
    command = ("salloc", "--no-shell", "--immediate", f"--uid={user}", f"--job-name={user}", *words)
    process = subprocess.Popen(command, env=slurm.env, stderr=subprocess.DEVNULL)
    try:
        return until(lambda: slurm.run("squeue", "-h", "-t", "R", "-n", user, "-o", "%i").strip(), f"{user}'s job")
    finally:
        process.kill()
        process.wait()


def state(slurm: SlurmCluster, job: str) -> str:
    return slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountedCluster]:
    base = tmp_path_factory.mktemp("slurm")
    conf = "SchedulerType=sched/backfill\nPriorityType=priority/multifactor"
    for made in accounted(base, nodes=2, conf=conf):
        for name, users in (("language", "daemon"), ("vision", "games,root")):
            made.run("sacctmgr", "-i", "add", "account", name)
            made.run("sacctmgr", "-i", "add", "user", users, f"account={name}")
        yield made


def test_beside_a_real_slurm(site: AccountedCluster, tmp_path: Path) -> None:
    """Language's free job has all GPUs, vision's has to wait for it; a third one runs while nobody watches."""
    shadow = Shadow(site, tmp_path)
    before = sbatch(site, "--account=vision", "--gres=gpu:1", "--wrap", "true")
    until(lambda: state(site, before) == "COMPLETED", "a job of the past")
    large = allocated(site, "daemon", "--account=language", "-N2", "--gpus-per-node=8", "--comment=min_runtime=0")
    began = time.time()
    until(lambda: time.time() > began + 2, "another second in Slurm's records")
    asked = ("--account=vision", "--gres=gpu:2", "--time-min=10", "--time=30")
    small = sbatch(site, "--uid=games", *asked, "--wrap", "true")
    tasks = sbatch(site, "--account=vision", "--gres=gpu:8", "--array=1-3%1", "--wrap", "true")

    watch = shadow.watch("--since", "1h")
    decided = _would_start(watch, small)
    assert {(one["what"], one["job"]) for one in decided["would"]} >= {("start", small), ("evict", large)}
    assert [one["budget"] for one in decided["would"] if one["job"] == small] == ["root/vision"]
    # Nothing while Slurm has not looked at it yet.
    assert next(one["slurm"] for one in decided["would"] if one["job"] == small) in ("", "Resources", "Priority")
    watch.kill()
    watch.communicate()
    assert state(site, large) == "RUNNING"  # whatever Tenure would have done
    assert state(site, small) == "PENDING"

    site.run("scancel", large)
    until(lambda: state(site, small) == "FAILED", "the small job")
    until(lambda: state(site, f"{tasks}_3") == "COMPLETED", "the tasks")
    watch = shadow.watch()
    wanted = {before, large, small, *(f"{tasks}_{task}" for task in (1, 2, 3))}
    until(lambda: wanted <= _over(shadow), "all ends are known")
    watch.send_signal(signal.SIGINT)
    _, said = watch.communicate(timeout=PATIENCE_S)
    assert watch.returncode == 0, said
    assert "recorded 6 jobs" in said
    _compare(site, shadow, wanted)
    _report(shadow, tmp_path / "report", large, small)
    assert not shadow.refused.exists()
    assert {line.split()[0] for line in shadow.log.read_text().splitlines()} <= set(_COMMANDS)


def _would_start(watch: subprocess.Popen[str], job: str) -> dict[str, Any]:
    assert watch.stdout is not None
    for line in watch.stdout:
        found: dict[str, Any] = json.loads(line)
        if any(one["what"] == "start" and one["job"] == job for one in found["would"]):
            return found
    raise AssertionError(watch.stderr.read() if watch.stderr is not None else "")


def _over(shadow: Shadow) -> set[str]:
    return {life.key for life in shadow.record().lives.all if life.over}


def _compare(site: AccountedCluster, shadow: Shadow, wanted: set[str]) -> None:
    """What was recorded is what accounting says, to the second, when it has heard of all."""
    found = {
        (life.key, str(run.started), str(run.ended), run.hosts)
        for life in shadow.record().lives.all
        for run in life.runs
    }
    assert {row[0] for row in found} == wanted
    until(lambda: _told(site) == found, "accounting says the same")


def _told(site: AccountedCluster) -> set[tuple[str, ...]]:
    env = {**site.env, "SLURM_TIME_FORMAT": "%s"}
    command = ("sacct", "-a", "-X", "-D", "-n", "-P", "--format=JobID,Start,End,NodeList")
    text = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    return {tuple(line.split("|")) for line in text.splitlines()}


def _report(shadow: Shadow, out: Path, large: str, small: str) -> None:
    found = json.loads(shadow.run("report", str(shadow.folder), "--json", "--out", str(out)).stdout)
    assert found["late"]["late"] == 0
    assert found["all"]["slurm"]["never_started"] == 0
    (eviction,) = found["evictions"]["each"]
    assert (eviction["job"], eviction["because"]) == (large, "evicted_unallocated")
    people = {row["user"]: row for row in found["people"]}
    assert people.keys() == {"daemon", "games", "root"}
    assert found["refused"] == []
    assert json.loads((out / "report.json").read_text()) == found
    for name in ("report.md", "comparison.html", "slurm/report.html", "tenure/report.html", "tenure/jobs.csv"):
        assert (out / name).stat().st_size
    text = shadow.run("report", str(shadow.folder)).stdout
    assert text.splitlines()[0] == found["said"][0]
    assert "root/vision" in text
    assert "something is there" in shadow.run("report", str(shadow.folder), "--out", str(out), code=2).stderr


def test_what_cannot_be_watched(site: AccountedCluster, tmp_path: Path) -> None:
    shadow = Shadow(site, tmp_path)
    words = ("shadow", str(shadow.folder))
    assert "no such partition; there are: gpu" in shadow.run(*words, "-p", "cpu", code=2).stderr
    assert "at least 1s" in shadow.run(*words, "--every", "10ms", code=2).stderr
    assert "min-runtime = soon" in shadow.run(*words, "--min-runtime", "soon", code=2).stderr
    assert not shadow.folder.exists()
    assert "nothing was recorded there" in shadow.run("report", str(shadow.folder), code=2).stderr
    shadow.run(*words, "--for", "0s")
    assert "the record reaches from" in shadow.run("report", str(shadow.folder), "--from", "3d", code=2).stderr
    shadow.env = {**shadow.env, "SLURM_CONF": str(tmp_path / "none.conf")}
    shadow.run(*words, code=3)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path / "slurm", nodes=1)


def test_without_accounting(plain: SlurmCluster, tmp_path: Path) -> None:
    """No accounts and no sacct: all is one budget, and GPUs are read from what was asked for."""
    shadow = Shadow(plain, tmp_path)
    assert "no accounting" in shadow.run("shadow", str(shadow.folder), "--since", "1d", code=2).stderr
    job = sbatch(plain, "--gres=gpu:3", "--wrap", "sleep 600")
    until(lambda: state(plain, job) == "RUNNING", "the job")
    watch = shadow.watch("--partition", "gpu")
    until(lambda: (shadow.folder / FILE).exists() and _running(shadow) == {(job, 3)}, "the job is seen")
    plain.save(job)
    plain.kill_controller()
    assert watch.stderr is not None
    assert any("trying again" in line for line in watch.stderr)
    plain.start_controller()
    assert any("Slurm answers again" in line for line in watch.stderr)
    plain.run("scancel", job)
    until(lambda: job in _over(shadow), "its end is seen")
    watch.send_signal(signal.SIGTERM)
    watch.communicate(timeout=PATIENCE_S)
    found = json.loads(shadow.run("report", str(shadow.folder), "--json").stdout)
    assert [row["budget"] for row in found["budgets"]] == ["root"]
    assert not shadow.refused.exists()


def _running(shadow: Shadow) -> set[tuple[str, int]]:
    lines = (shadow.folder / FILE).read_text().splitlines()
    if not any('"look"' in line for line in lines):
        return set()
    return {(life.key, life.last.gpus) for life in shadow.record().lives.all if life.running is not None}
