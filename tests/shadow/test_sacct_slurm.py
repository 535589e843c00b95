"""Through the command line, of a real Slurm with an association tree: live, and from the files that it can make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_shadow_slurm import _SOURCES, PATIENCE_S, sbatch, state, until

from support.slurmdb import AccountedCluster, accounted
from tenure.shadow.sacct.live import HOW
from tenure.shadow.sacct.run import MODEL, OURS, WAS

_PATIENCE_S = 240


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccountedCluster]:
    conf = (
        "SchedulerType=sched/backfill\nPriorityType=priority/multifactor\nPriorityDecayHalfLife=3-0\n"
        "PriorityWeightAge=7\nPriorityWeightFairshare=70000"
    )
    for made in accounted(tmp_path_factory.mktemp("slurm"), nodes=2, conf=conf):
        for name, parent, share, users in (
            ("science", "root", 10, ""), ("language", "science", 60, "root"), ("vision", "science", 40, "root,games"),
        ):  # fmt: skip
            made.run("sacctmgr", "-i", "add", "account", name, f"parent={parent}", f"fairshare={share}")
            if users:
                made.run("sacctmgr", "-i", "add", "user", users, f"account={name}")
        yield made


def simulate(site: AccountedCluster, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tenure", "simulate", *map(str, words)]
    env = {**site.env, "PYTHONPATH": _SOURCES, "NO_COLOR": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
    return done


def worked(site: AccountedCluster) -> dict[str, str]:
    """Some jobs: one has everything, others wait for it, one is cancelled while it waits, and one waits in the end."""
    large = sbatch(site, "--account=language", "-N2", "--gpus-per-node=8", "--wrap", "sleep 600")
    until(lambda: state(site, large) == "RUNNING", "the large job")
    tasks = sbatch(site, "--account=vision", "--gres=gpu:2", "--time=30", "--array=1-3", "--wrap", "true")
    gone = sbatch(site, "--account=vision", "--gres=gpu:1", "--wrap", "true")
    plain = sbatch(site, "--account=language", "--wrap", "true")
    began = time.time()
    until(lambda: time.time() > began + 2, "another second in Slurm's records")
    site.run("scancel", gone)
    site.run("scancel", large)
    until(lambda: all(state(site, f"{tasks}_{n}") == "COMPLETED" for n in (1, 2, 3)), "the tasks")
    again = sbatch(site, "--account=language", "-N2", "--gpus-per-node=8", "--wrap", "sleep 600")
    until(lambda: state(site, again) == "RUNNING", "the second large job")
    waits = sbatch(site, "--account=vision", "--gres=gpu:8", "--wrap", "true")
    until(lambda: {waits, gone} <= told(site), "accounting knows of all")
    return {"large": large, "tasks": tasks, "gone": gone, "plain": plain, "waits": waits}


def told(site: AccountedCluster) -> set[str]:
    return {line.partition("|")[0] for line in site.run("sacct", "-a", "-X", "-n", "-P", "--format=JobID").splitlines()}


def of(found: dict[str, Any], path: str) -> dict[str, Any]:
    (row,) = [one for one in found["budgets"] if one["budget"] == path]
    return dict(row["figures"])


def test_live_and_by_files(site: AccountedCluster, tmp_path: Path) -> None:
    jobs = worked(site)
    live = json.loads(simulate(site, "--from-sacct", "--since", "1h", "--warmup", "0s", "--json").stdout)
    assert live["sides"] == [WAS, OURS, MODEL]
    assert {one["budget"] for one in live["budgets"]} == {
        "root", "root/science", "root/science/language", "root/science/vision"
    }  # fmt: skip
    assert live["gpus"] == 16
    figures = of(live, "root/science/vision")
    assert (figures[WAS]["jobs"], figures[WAS]["finished"], figures[WAS]["never_started"]) == (5, 3, 2)
    assert of(live, "root/science/language")[WAS]["charged_gpu_hours"] > 0
    assert live["rows"]["left_out"]["no GPUs"] == 1
    assert any("half_life 3d" in note and "weight_fairshare 70000" in note for note in live["notes"])
    assert any("Of 1 job that still waited at the end" in note for note in live["notes"])
    by_file(site, tmp_path, jobs)


def by_file(site: AccountedCluster, tmp_path: Path, jobs: dict[str, str]) -> None:
    """The very commands that are told to people make the files."""
    today = time.strftime("%Y-%m-%d", time.localtime(time.time() - 86_400))
    later = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86_400))
    script = HOW.replace("2026-09-01", today).replace("2026-10-01", later)
    done = subprocess.run(
        ("/bin/sh", "-ec", script), env={**site.env, "TZ": "UTC"}, cwd=tmp_path, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = ["--associations", tmp_path / "associations.txt", "--slurm-config", tmp_path / "config.txt"]
    files += ["--nodes", tmp_path / "nodes.txt", "--warmup", "0s", "--since", "1h", "--out", tmp_path / "out"]
    text = simulate(site, "from-sacct", tmp_path / "report.txt", *files).stdout
    assert "Tenure against as it was" in text
    assert "root/science/vision" in text
    found = json.loads((tmp_path / "out" / "sides.json").read_text())
    assert found["gpus"] == 16
    assert of(found, "root/science/vision")[WAS]["finished"] == 3
    for name in ("sides.html", "sides.md", "comparison.html", "as-it-was-seed0/report.html", "tenure-seed0/jobs.csv"):
        assert (tmp_path / "out" / name).stat().st_size
    assert jobs["tasks"] in (tmp_path / "report.txt").read_text()


def test_without_a_slurm_it_says_how_to_make_the_files(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": _SOURCES, "PATH": str(tmp_path)}
    command = (sys.executable, "-m", "tenure", "simulate", "--from-sacct")
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 3
    for line in (*HOW.splitlines(), "tenure simulate --from-sacct report.txt --associations associations.txt"):
        assert line.rstrip("\\ ") in done.stderr
