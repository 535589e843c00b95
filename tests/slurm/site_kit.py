"""What a real Slurm 22.05 printed, and sites made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.slurm import SlurmCluster
from tenure.slurm import reading
from tenure.slurm.site import Site

RECORDED = Path(__file__).with_name("recorded")
SOURCES = str(Path(reading.__file__).resolve().parents[2])
PLUGIN = Path(__file__).resolve().parents[2] / "packaging" / "slurm" / "job_submit.lua"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text("utf-8")


def site(config: str = "config", **changed: str) -> Site:
    """The recorded site; ``changed`` settings replace its own."""
    settings = reading.read_settings(recorded(config))
    values = {**settings.values, **{key.lower(): value for key, value in changed.items()}}
    return Site(
        user="slurm",
        settings=reading.Settings(values, settings.cgroup, settings.at),
        nodes=reading.read_nodes(recorded("nodes")),
        partitions=reading.read_partitions(recorded("partitions")),
        switches=reading.read_topology(recorded("topology")),
        associations=reading.read_associations(recorded("assoc")),
        users=reading.read_users(recorded("users")),
        clock_off=0,
    )


def as_user(cluster: SlurmCluster, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of somebody who is not root."""
    env = {**cluster.env, "PYTHONPATH": SOURCES}
    command = (*becoming(user), *words)
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=60, check=False)


def becoming(user: str) -> tuple[str, ...]:
    """Words before a command. The user may look into pytest's directories, which are their owner's alone."""
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ("setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *caps)


def tenure(cluster: SlurmCluster, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """``tenure slurm ...`` beside a cluster."""
    env = {**cluster.env, "PYTHONPATH": SOURCES, **({"PATH": path} if path is not None else {})}
    command = (sys.executable, "-m", "tenure", "slurm", *words)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def levels(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Level of each code of ``doctor --json``; of several findings with one code the worst, which comes first."""
    found: dict[str, str] = {}
    for finding in json.loads(done.stdout):
        found.setdefault(finding["code"], finding["level"])
    return found
