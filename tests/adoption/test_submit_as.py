"""``submit_as``: jobs that come in by the API run in Slurm as the people who submitted them; on a real Slurm."""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adoption_kit
import pytest
from adoption_kit import SOMEBODY, Lab, becoming

from support.slurm import SlurmCluster
from tenure import faults
from tenure.client import Client

UID = pwd.getpwnam(SOMEBODY).pw_uid


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from adoption_kit.slurm(tmp_path_factory.mktemp("submitas"))


class People:
    """Users of one server, by name, and where the output of their jobs is."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.out = lab.slurm.base / "out" / lab.directory.name
        self.out.mkdir()
        self.out.chmod(0o1777)
        self._clients: dict[str, Client] = {}

    def client(self, user: str) -> Client:
        if user not in self._clients:
            token = self.lab.server.cli("users", "add", user).stdout.strip()
            self._clients[user] = Client(self.lab.server.url, token, patience_s=20)
        return self._clients[user]

    def submit(self, script: str, user: str = SOMEBODY, **more: Any) -> int:
        request = {
            "budget": "lab/language",
            "gpus": 1,
            "min_runtime_ms": 60_000,
            "workdir": str(self.out),
            "command": ["/bin/sh", "-c", script],
            **more,
        }
        return self.client(user).submit(request).job.id

    def output(self, job: int) -> str:
        """What it has printed. The test's Slurm binds no CPUs, which srun says on sites that have switched it off."""
        lines = self.lab.server.cli("logs", str(job)).stdout.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("srun: "))

    def given(self, job: int) -> list[str]:
        """Slurm's ids of what was submitted for this job."""
        nonce = json.loads((self.lab.directory / "shared" / str(job) / "given.json").read_text())["nonce"]
        found = self.lab.slurm.run("squeue", "-h", "-t", "all", "-o", "%i|%k").splitlines()
        return [line.partition("|")[0] for line in found if line.endswith(f"|tenure-given:{job}:{nonce}")]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def made(slurm: SlurmCluster, tmp_path: Path, words: tuple[str, ...] = ()) -> Lab:
    return Lab(slurm, tmp_path, f"submit_as = {json.dumps(words or becoming('{user}'))}")


@contextmanager
def working(lab: Lab) -> Iterator[People]:
    lab.server.start()
    people = People(lab)
    try:
        yield people
    finally:
        people.close()
        lab.server.end()
        lab.clear()


@pytest.fixture
def people(slurm: SlurmCluster, tmp_path: Path) -> Iterator[People]:
    with working(made(slurm, tmp_path)) as found:
        yield found


def test_a_job_runs_as_its_user(people: People) -> None:
    lab, nasty = people.lab, 'it\'s $(id) `id` "x"\n#SBATCH --exclusive\n\\n; é'
    script = (
        'id -un; pwd; printf "%s\\n" "$NASTY" "$SLURM_CONF" "$CUDA_VISIBLE_DEVICES"; env | grep ^TENURE_ | sort; exit 3'
    )
    job = people.submit(script, gpus=2, env={"NASTY": nasty, "SLURM_CONF": "mine"}, name="-it's mine")
    ended = lab.server.client.wait(job, timeout_s=60)
    assert (ended.state, ended.exit_code, ended.user) == ("failed", 3, SOMEBODY)
    said = people.output(job)
    assert said.startswith(f"{SOMEBODY}\n{people.out}\n{nasty}\nmine\n0,1\nTENURE_BUDGET=lab/language\n"), said
    (attempt,) = lab.attempts(job)
    for line in (
        f"TENURE_JOB_ID={job}",
        "TENURE_JOB_NAME=-it's mine",
        f"TENURE_USER={SOMEBODY}",
        "TENURE_RESTART_COUNT=0",
        f"TENURE_HOST={attempt['hosts'][0]}",
        "TENURE_REPLICA=0",
    ):
        assert line in said.splitlines()
    assert "CHECKPOINT" not in said
    assert (people.out / f"tenure-{job}.out").stat().st_uid == UID
    (number,) = people.given(job)
    row, shown = lab.row(number), lab.shown(number)
    assert row is not None
    assert (row.user, row.uid, row.state, shown["ExitCode"]) == (SOMEBODY, UID, "FAILED", "3:0")
    assert f" job={job} " in row.mark


def test_an_evicted_job_comes_back_under_its_id_with_its_own_grace(people: People) -> None:
    lab = people.lab
    script = "trap 'echo warned; exit 9' USR1; echo run $TENURE_RESTART_COUNT $$; while :; do sleep 0.2; done"
    job = people.submit(script, resumable=True, warn_signal="SIGUSR1", grace_ms=20_000)
    lab.wait_state(job, "running")
    lab.wait(lambda: "run 0" in people.output(job), "it has begun")
    pid = int(people.output(job).split()[2])
    assert Path(f"/proc/{pid}").stat().st_uid == UID
    lab.server.client.evict(job, "the test wants to see it again")
    lab.wait(lambda: lab.server.client.job(job).restarts == 1, "it queues again")
    lab.wait_state(job, "running")
    lab.wait(lambda: "run 1" in people.output(job), lambda: people.output(job))
    # The shell's sleep is warned, too, of which the shell may say something.
    said = [word for word in people.output(job).split() if word in ("run", "warned")]
    assert said == ["run", "warned", "run"]
    (number,) = people.given(job)
    row = lab.row(number)
    assert row is not None
    assert (row.state, row.restarts) == ("RUNNING", 1)
    # It is an administrator's hold, and Tenure's start: its user may cancel it, and that is all.
    lab.as_user(SOMEBODY, "scancel", number)
    ended = lab.server.client.wait(job, timeout_s=60)
    assert ended.state == "cancelled"
    assert not Path(f"/proc/{pid}").exists()


def test_cancelled_here_or_there(people: People) -> None:
    lab = people.lab
    runs = people.submit("sleep 1000")
    lab.wait_state(runs, "running")
    lab.server.client.cancel(runs)
    assert lab.server.client.wait(runs, timeout_s=60).state == "cancelled"
    (number,) = people.given(runs)
    lab.wait(lambda: (row := lab.row(number)) is not None and row.over, "over in Slurm, too")
    # One that was evicted waits there, under its id.
    for by_user in (True, False):
        job = people.submit("sleep 1000", resumable=True)
        lab.wait_state(job, "running")
        for host in lab.slurm.names:
            lab.server.client.drain("main", host, "the test wants nothing to start")
        lab.server.client.evict(job, "the test wants to see it wait")
        lab.wait_state(job, "queued")
        (number,) = people.given(job)
        lab.wait(lambda number=number: (row := lab.row(number)) is not None and row.pending and row.held, "it waits")
        if by_user:
            lab.as_user(SOMEBODY, "scancel", number)
        else:
            lab.server.client.cancel(job)
        assert lab.server.client.wait(job, timeout_s=60).state == "cancelled"
        lab.wait(lambda number=number: lab.state(number) == "CANCELLED", lambda number=number: lab.state(number))
        for host in lab.slurm.names:
            lab.server.client.resume_host("main", host)


def test_gangs(people: People) -> None:
    lab = people.lab
    script = "echo $TENURE_REPLICA $PET_NODE_RANK/$PET_NNODES $TENURE_HOST $CUDA_VISIBLE_DEVICES $RANK:$LOCAL_RANK"
    job = people.submit(script, gpus=8, replicas=2)
    assert lab.server.client.wait(job, timeout_s=60).state == "succeeded"
    first, second = lab.slurm.names
    every = "0,1,2,3,4,5,6,7"
    assert sorted(people.output(job).splitlines()) == [f"0 0/2 {first} {every} :", f"1 1/2 {second} {every} :"]
    small = people.submit(script, gpus=2, replicas=2)
    assert lab.server.client.wait(small, timeout_s=60).state == "succeeded"
    lines = [line.split() for line in sorted(people.output(small).splitlines())]
    assert [(line[0], line[1], line[3]) for line in lines] == [("0", "0/2", "0,1"), ("1", "1/2", "2,3")]
    ranks = people.submit(script, gpus=2, replicas=2, launch="per-gpu")
    assert lab.server.client.wait(ranks, timeout_s=60).state == "succeeded"
    lines = [line.split() for line in sorted(people.output(ranks).splitlines(), key=lambda line: line.split()[-1])]
    assert [(line[0], line[4]) for line in lines] == [("0", "0:0"), ("0", "1:1"), ("1", "2:0"), ("1", "3:1")]
    assert [line[3] for line in lines] == ["0,1", "0,1", "2,3", "2,3"]


def test_a_retry_is_another_job_in_slurm_that_counts_on(people: People) -> None:
    lab = people.lab
    job = people.submit("echo try $TENURE_RESTART_COUNT; exit $((1 - TENURE_RESTART_COUNT))", retries=1)
    assert lab.server.client.wait(job, timeout_s=90).state == "succeeded"
    assert people.output(job) == "try 0\ntry 1\n"
    (number,) = people.given(job)
    row = lab.row(number)
    assert row is not None
    # Slurm takes back no job that ended by itself and was not to be requeued.
    assert (row.state, row.restarts) == ("COMPLETED", 0)


def test_what_cannot_be_is_said(people: People) -> None:
    lab = people.lab
    for user, said in (("no-such-person", "knows no such user"), ("no.body", "a name like ada")):
        job = people.submit("true", user=user)
        ended = lab.server.client.wait(job, timeout_s=60)
        (attempt,) = lab.attempts(job)
        assert ended.state == "failed"
        message = attempt["reason"]["text"]
        assert user in message
        assert said in message
        assert "submit_as" in message
    job = people.submit("true", workdir="/proc")
    assert lab.server.client.wait(job, timeout_s=60).state == "failed"
    assert people.output(job) == ""
    roles = [{"name": name, "gpus": 1, "command": ["true"]} for name in ("a", "b")]
    job = people.client(SOMEBODY).submit({"budget": "lab/language", "min_runtime_ms": 60_000, "roles": roles}).job.id
    assert lab.server.client.wait(job, timeout_s=60).state == "failed"
    assert "one role" in lab.attempts(job)[0]["reason"]["text"]


def test_what_sbatch_refuses_is_said(slurm: SlurmCluster, tmp_path: Path) -> None:
    words = ("sh", "-c", "echo sbatch: error: not today, $0 >&2; exit 1", "{user}")
    with working(made(slurm, tmp_path, words)) as people:
        job = people.submit("true")
        assert people.lab.server.client.wait(job, timeout_s=60).state == "failed"
        assert f"not today, {SOMEBODY}" in people.lab.attempts(job)[0]["reason"]["text"]
        assert people.given(job) == []


def test_the_servers_own_user_runs_as_ever(people: People) -> None:
    lab = people.lab
    job = people.submit("sleep 1000", user="root", workdir="/")

    def seen() -> list[str]:
        lines = lab.slurm.run("squeue", "-h", "-t", "all", "-u", "root", "-o", "%u %k").splitlines()
        return [line for line in lines if line.startswith(f"root tenure:main:{job}.0:")]

    lab.wait(lambda: bool(seen()), "it is a job of the server's own")
    assert not (lab.directory / "shared" / str(job) / "given.json").exists()


def test_a_comment_that_pretends_is_not_believed(people: People) -> None:
    lab = people.lab
    fake = lab.sbatch("-A", "language", "-G", "1", "--comment=tenure-given:1:0123456789abcdef")
    job = people.submit("id -un")
    assert lab.server.client.wait(job, timeout_s=60).state == "succeeded"
    row = lab.row(fake)
    assert row is not None
    assert (row.pending, row.held) == (True, True)
    assert " job=" not in row.mark


@pytest.mark.parametrize("fault", [*faults.SUBMIT_AS_POINTS, "native.recorded", "native.released", "native.killed"])
def test_a_server_killed_anywhere_goes_on(slurm: SlurmCluster, tmp_path: Path, fault: str) -> None:
    lab = made(slurm, tmp_path)
    server = lab.server
    server.environment["TENURE_FAULT"] = fault
    with working(lab) as people:
        deaf = "trap '' TERM; " if fault == "native.killed" else ""
        log = people.out / "log"
        script = f"{deaf}echo ran $TENURE_RESTART_COUNT >> {log}; while :; do sleep 0.2; done"
        job = people.submit(script, resumable=True, grace_ms=1000)
        if fault == "native.killed":
            lab.wait_state(job, "running")
            lab.wait(log.exists, "it has begun")
            lab.evict(job)
        server.process.wait(60)
        del server.environment["TENURE_FAULT"]
        server.start()
        restarts = 1 if fault == "native.killed" else 0
        lab.wait(lambda: server.client.job(job).restarts == restarts, "it was evicted once, or not at all")
        lab.wait_state(job, "running")
        lines = [f"ran {i}" for i in range(restarts + 1)]
        lab.wait(lambda: log.exists() and log.read_text().splitlines() == lines, lambda: str(lab.attempts(job)))
        (number,) = people.given(job)
        row = lab.row(number)
        assert row is not None
        assert (row.state, row.restarts, row.uid) == ("RUNNING", restarts, UID)
        assert len(list(server.client.jobs())) == 1
