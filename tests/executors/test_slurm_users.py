"""Jobs that the executor submits as their users, on a real Slurm without the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_kit import Line, Watched, launch_of, order, replica, sh
from slurm_kit import wait_until

from support.slurm import SlurmCluster, cluster
from tenure.executors.base import Launch, Phase
from tenure.executors.slurm.executor import SlurmExecutor

USER = "nobody"
CAPS = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
WORDS = ("setpriv", "--reuid={user}", "--regid=nogroup", "--clear-groups", *CAPS)
LOSES_ANSWERS = (
    "sh",
    "-c",
    f'setpriv --reuid=$0 {" ".join(WORDS[2:])} "$@" >/dev/null; echo broken >&2; exit 1',
    "{user}",
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    for made in cluster(tmp_path_factory.mktemp("slurmusers"), nodes=1, conf="KillWait=2\n", anybodys=True):
        (made.base / "out").mkdir()
        (made.base / "out").chmod(0o1777)
        yield made


def launch(slurm: SlurmCluster, script: str, attempt: str = "1.1", **env: str) -> Launch:
    one = replica(sh(script), gpus=(0,), host=slurm.names[0])
    return replace(launch_of(replicas=[one], attempt_id=attempt, workdir=slurm.base / "out", env=env), user=USER)


def jobs(slurm: SlurmCluster, root: Path) -> list[list[str]]:
    """Id, state and user of what is this server's."""
    instance = (root / "instance.json").read_text().split('"')[3]
    lines = slurm.run("squeue", "-h", "-t", "all", "-O", "JobID:|,State:|,UserName:|,admin_comment:|x").splitlines()
    return [line.split("|")[:3] for line in lines if f"server={instance}" in line]


@pytest.fixture
def line(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Line]:
    made = Line(slurm.base / "out" / tmp_path.name)
    made.path.chmod(0o666)
    yield made
    made.close()


def test_another_script_is_another_job(slurm: SlurmCluster, tmp_path: Path, line: Line) -> None:
    root = tmp_path / "runs"
    watched = Watched(SlurmExecutor(root, "gpu", None, slurm.env, WORDS))
    script = f"echo $WHAT $(id -un) > {line}; while :; do sleep 0.1; done"
    watched.executor.start(launch(slurm, script, WHAT="first"))
    assert line.hear() == f"first {USER}"
    watched.executor.stop(order(grace=1000, again=True))
    assert watched.ended().phase is Phase.EXITED
    ((number, _, _),) = jobs(slurm, root)
    wait_until(lambda: jobs(slurm, root) == [[number, "PENDING", USER]], "it waits under its id")
    watched.executor.start(launch(slurm, script, "1.2", WHAT="second"))
    assert line.hear() == f"second {USER}"
    assert [one for one in jobs(slurm, root) if one[0] == number] == [[number, "CANCELLED", USER]]
    assert [state for _, state, _ in jobs(slurm, root)].count("RUNNING") == 1
    watched.executor.stop(order("1.2", grace=0))
    watched.ended("1.2")
    watched.executor.close()


def test_an_answer_that_is_lost(slurm: SlurmCluster, tmp_path: Path, line: Line) -> None:
    root = tmp_path / "runs"
    watched = Watched(SlurmExecutor(root, "gpu", None, slurm.env, LOSES_ANSWERS))
    watched.executor.start(launch(slurm, f"echo here > {line}; exit 4"))
    assert line.hear() == "here"
    report = watched.ended()
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (4,))
    assert [state for _, state, _ in jobs(slurm, root)] == ["FAILED"]
    watched.executor.close()


def test_what_is_left_of_ended_jobs_goes(slurm: SlurmCluster, tmp_path: Path, line: Line) -> None:
    root = tmp_path / "runs"
    watched = Watched(SlurmExecutor(root, "gpu", None, slurm.env, WORDS))
    watched.executor.start(launch(slurm, f"echo here > {line}; while :; do sleep 0.1; done"))
    assert line.hear() == "here"
    watched.executor.stop(order(grace=1000, again=True))
    watched.ended()
    watched.executor.forget("1.1")
    wait_until(lambda: [state for _, state, _ in jobs(slurm, root)] == ["PENDING"], "it waits")

    def gone() -> bool:
        watched.executor.tidy(lambda job: False)
        return [state for _, state, _ in jobs(slurm, root)] == ["CANCELLED"]

    wait_until(gone, "it is over in Slurm, too")
    watched.executor.close()
