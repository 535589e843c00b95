"""What only Slurm has: ids that stay, pinned nodes, nodes that die, a slurmctld that forgets, people with scancel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_kit
from executor_contract import heeds, kill_all
from executor_kit import Line, Watched, launch_of, order, py, replica, sh
from slurm_kit import details, shown, wait_until

from support.slurm import SlurmCluster, cluster
from tenure.executors import procs
from tenure.executors.base import Launch, Phase, Report
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import gang, part
from tenure.executors.slurm.executor import SlurmExecutor
from tenure.executors.slurm.node import directory_of

SAY = "trap 'exit 3' TERM; echo ready $SLURM_JOB_ID ${{SLURM_RESTART_COUNT:-0}} > {line}; while :; do sleep 0.1; done"
"""Tells Slurm's id and count of restarts, and stays."""


DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({line!r}, "w").write("ready\\n")
while True: signal.pause()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with_short_patience = "SlurmdTimeout=10"
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=4, conf=with_short_patience)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def own_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """For a test that kills slurmctld: it gives ids again, and drains a node that still knew the old job."""
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=2)


@pytest.fixture
def watched(slurm: SlurmCluster, root: Path) -> Iterator[Watched]:
    with slurm_kit.nodes_as_hosts(slurm):
        watched = Watched(slurm_kit.executor(slurm, root))
        yield watched
        kill_all(watched)
        watched.executor.close()
        slurm_kit.cancel_all(slurm)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()


def leaves(line: Line) -> tuple[str, ...]:
    """As ``SAY``; warned, it ends when ``evict`` lets it."""
    return sh(SAY.format(line=line).replace("'exit 3'", f"'until [ -e {line}.kept ]; do sleep 0.05; done; exit 3'"))


def evict(watched: Watched, slurm: SlurmCluster, number: str, line: Line) -> Report:
    """Warn the first attempt, which is to come back, and have it end when Slurm keeps its id, which is ``number``.

    Afterwards it waits there: its end may be told a moment before.
    """
    watched.executor.stop(order(again=True))
    slurm_kit.wait_kept(slurm, number)
    Path(f"{line}.kept").touch()
    report = watched.ended()
    wait_until(lambda: details(slurm, number)["JobState"] == "PENDING", "it waits under its id")
    return report


def on(*hosts: str, command: tuple[str, ...], gpus: tuple[int, ...] = (), attempt_id: str = "1.1") -> Launch:
    replicas = [replica(command, rank, gpus, host) for rank, host in enumerate(hosts)]
    return launch_of(replicas=replicas, attempt_id=attempt_id)


def test_an_evicted_job_comes_back_with_its_id_elsewhere(
    watched: Watched, slurm: SlurmCluster, root: Path, line: Line
) -> None:
    say = leaves(line)
    watched.executor.start(on(slurm.names[0], slurm.names[1], command=say, gpus=(0, 1)))
    first = sorted([line.hear(), line.hear()])
    assert evict(watched, slurm, first[0].split()[1], line).exit_codes == (3, 3)
    ((number, state, priority, _, _),) = shown(slurm, root)
    assert (state, priority) == ("PENDING", "0")
    assert first == [f"ready {number} 0"] * 2
    watched.executor.start(on(slurm.names[2], command=say, gpus=(4, 5, 6), attempt_id="1.2"))
    assert line.hear() == f"ready {number} 1"
    found = details(slurm, number)
    assert (found["NodeList"], found["Restarts"], found["TresPerNode"]) == (slurm.names[2], "1", "gres:gpu:3")
    watched.executor.stop(order("1.2", grace=0))
    watched.ended("1.2")
    assert [job[1] for job in shown(slurm, root)] == ["FAILED"]
    assert details(slurm, number)["ExitCode"] == "137:0"


def test_a_gang_has_the_chosen_nodes_and_gpus(watched: Watched, slurm: SlurmCluster, root: Path, line: Line) -> None:
    say = sh(f"echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $MASTER_ADDR:$MASTER_PORT > {line}; sleep 1000")
    watched.executor.start(on(slurm.names[3], slurm.names[1], command=say, gpus=(2, 5)))
    watched.running()
    said = sorted([line.hear().split(), line.hear().split()])
    assert [words[:2] for words in said] == [[slurm.names[1], "2,5"], [slurm.names[3], "2,5"]]
    assert said[0][2] == said[1][2]
    ((number, state, _, _, _),) = shown(slurm, root)
    found = details(slurm, number)
    assert (state, found["NumNodes"], found["TresPerNode"]) == ("RUNNING", "2", "gres:gpu:2")
    assert found["NodeList"] == "node[002,004]"


def test_it_comes_back_with_its_id_at_once_on_the_same_node(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    """A node takes no job in the second in which it ended there: Slurm would end it, and its id be lost.

    So each run ends early in a second. Slurm looks for what it can start once a second, mostly later in it.
    """
    numbers = set()
    for attempt in range(1, 4):
        kept, name = Path(f"{line}.kept{attempt}"), f"1.{attempt}"
        ends = f"'until [ -e {kept} ]; do sleep 0.02; done; exit 3'"
        say = sh(SAY.format(line=line).replace("'exit 3'", ends))
        watched.executor.start(on(slurm.names[0], command=say, attempt_id=name))
        numbers.add(line.hear().split()[1])
        watched.executor.stop(order(name, again=True))
        slurm_kit.wait_kept(slurm, max(numbers, key=int))
        time.sleep(2 - time.time() % 1)  # Slurm ends no job within a second of its start
        kept.touch()
        watched.ended(name)
    assert len(numbers) == 1, numbers


def test_a_gang_that_is_not_alike_everywhere_is_several_slurm_jobs(
    watched: Watched, slurm: SlurmCluster, root: Path, line: Line
) -> None:
    ready = sh(f"echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $RANK/$WORLD_SIZE > {line}; sleep 1000")
    replicas = [
        replica(ready, 0, (0, 1), slurm.names[0]),
        replica(ready, 1, (3,), slurm.names[1]),
        replica(ready, 2, (6, 7), slurm.names[2]),
    ]
    watched.executor.start(launch_of(replicas=replicas, launch="per-gpu"))
    watched.running()
    heard = sorted(line.hear().split() for _ in range(5))
    assert [words[0] for words in heard] == [slurm.names[0]] * 2 + [slurm.names[1]] + [slurm.names[2]] * 2
    assert sorted(words[2] for words in heard) == ["0/5", "1/5", "2/5", "3/5", "4/5"]
    assert sorted(job[3] for job in shown(slurm, root)) == [slurm.names[1], "node[001,003]"]
    watched.executor.stop(order(grace=0))
    assert watched.ended().exit_codes == (-9, -9, -9)


def test_a_failure_on_one_node_ends_the_others(
    watched: Watched, slurm: SlurmCluster, line: Line, tmp_path: Path
) -> None:
    back = Line(tmp_path / "back")
    replicas = [
        replica(heeds(line, code=7), 0, (), slurm.names[0]),
        replica(sh(f"read word < {back}; exit 3"), 1, (), slurm.names[1]),
        replica(heeds(line, code=9), 2, (0,), slurm.names[2]),
    ]
    watched.executor.start(launch_of(replicas=replicas))
    watched.running()
    assert [line.hear(), line.hear()] == ["ready", "ready"]
    back.say("go")
    report = watched.ended()
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (7, 3, 9))
    assert report.message == "replica 1 of role main exited with 3"
    assert "replica 1 of role main exited with 3; the other replicas are stopped" in watched.log(2, "stderr")
    back.close()


def test_who_leaves_early_does_not_cut_the_grace_of_the_others(
    watched: Watched, slurm: SlurmCluster, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "GANG_GRACE_MS", 0)
    monkeypatch.setattr(part, "OVERDUE_MS", 0)
    line, back = Line(tmp_path / "line"), Line(tmp_path / "back")
    saves = sh(f"trap 'echo warned > {line}; read word < {back}; exit 9' TERM; echo ready > {line}; "
               "while :; do sleep 0.05; done")  # fmt: skip
    replicas = [replica(heeds(line, code=3), 0, (), slurm.names[0]), replica(saves, 1, (), slurm.names[1])]
    watched.executor.start(launch_of(replicas=replicas))
    assert [line.hear(), line.hear()] == ["ready", "ready"]
    watched.executor.stop(order())
    assert line.hear() == "warned"
    executor = watched.executor
    assert isinstance(executor, SlurmExecutor)
    run = executor._known["1.1"]
    assert run.gang is not None
    wait_until(lambda: run.gang.ended([slurm.names[0]]), "the first has ended")
    for _ in range(3):  # looks at what is to be done now
        seen = executor._look
        wait_until(lambda seen=seen: executor._look is not seen, "another look")
    back.say("saved")
    assert watched.ended().exit_codes == (3, 9)
    assert [job[1] for job in shown(slurm, root)] == ["FAILED"]  # not CANCELLED: nobody had Slurm kill it
    line.close()
    back.close()


def test_a_node_that_crashes_loses_the_attempt(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    say = sh(SAY.format(line=line))
    watched.executor.start(on(slurm.names[0], slurm.names[1], command=say))
    watched.running()
    heard = {line.hear(), line.hear()}
    assert len(heard) == 1
    slurm.crash_node(slurm.names[1])
    try:
        report = watched.ended()
    finally:
        slurm.start_node(slurm.names[1])
    assert report.phase is Phase.LOST
    assert slurm.names[1] in report.message
    wait_until(lambda: slurm.names[1] in slurm.idle(), "the node is back")
    watched.executor.start(on(slurm.names[0], slurm.names[1], command=say, attempt_id="1.2"))
    watched.running("1.2")
    assert {line.hear(), line.hear()} != heard


def test_slurmctld_killed_and_started_again(own_slurm: SlurmCluster, root: Path, tmp_path: Path) -> None:
    slurm, line, back = own_slurm, Line(tmp_path / "line"), Line(tmp_path / "back")
    watched = Watched(slurm_kit.executor(slurm, root))
    talks = sh(f"echo ready > {line}; read word < {back}; exit 5")
    watched.executor.start(on(slurm.names[0], command=talks))
    assert line.hear() == "ready"
    slurm.kill_controller()
    watched.executor.start(on(slurm.names[1], command=sh(f"echo ran >> {tmp_path}/count"), attempt_id="2.1"))
    back.say("go")  # while nobody can ask Slurm
    node = AttemptFiles(directory_of(root / "1" / "1", slurm.names[0]))
    wait_until(lambda: (status := node.read_status()) is not None and status.final, "it has ended")
    slurm.start_controller()  # which may have lost the job, and would have it killed
    assert watched.ended("2.1").exit_codes == (0,)
    assert watched.ended("1.1").exit_codes == (5,)
    assert (tmp_path / "count").read_text() == "ran\n"
    kill_all(watched)
    line.close()
    back.close()


def test_a_job_that_slurmctld_has_forgotten_is_submitted_again(
    watched: Watched, slurm: SlurmCluster, root: Path, tmp_path: Path, line: Line
) -> None:
    """Evicted and held in Slurm when somebody cancels it there: the next attempt gets a new job."""
    say = leaves(line)
    watched.executor.start(on(slurm.names[0], command=say))
    number = line.hear().split()[1]
    evict(watched, slurm, number, line)
    slurm.run("scancel", number)
    watched.executor.start(on(slurm.names[0], command=say, attempt_id="1.2"))
    assert line.hear().startswith("ready ")
    watched.running("1.2")


def test_scancel_by_a_person(watched: Watched, slurm: SlurmCluster, root: Path, line: Line) -> None:
    watched.executor.start(on(slurm.names[0], slurm.names[1], command=sh(SAY.format(line=line))))
    number = line.hear().split()[1]
    line.hear()
    slurm.run("scancel", number)
    report = watched.ended()
    # All processes hear Slurm's SIGTERM, so this is an end like any other.
    assert (report.phase, report.exit_codes) == (Phase.EXITED, (3, 3))
    assert "Slurm: CANCELLED" in report.message


def test_scancel_of_what_does_not_listen(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    deaf = py(DEAF.format(line=str(line)))
    watched.executor.start(on(slurm.names[0], command=deaf))
    assert line.hear() == "ready"
    watched.running()
    slurm.run("scancel", "--state=RUNNING")
    report = watched.ended()
    # Slurm kills the job and its supervisor at once: there may be a moment in which the supervisor sees the end.
    assert (report.phase, report.exit_codes) in ((Phase.LOST, ()), (Phase.EXITED, (-9,)))
    assert "CANCELLED" in report.message


@pytest.mark.parametrize("offset_ms", [20_000, -20_000])
def test_clocks_that_differ(
    watched: Watched, slurm: SlurmCluster, line: Line, monkeypatch: pytest.MonkeyPatch, offset_ms: int
) -> None:
    """This host's goes ahead of Slurm's and the nodes', or behind: how long ago something was is told right."""
    real = procs.wall_ms
    monkeypatch.setattr(procs, "wall_ms", lambda: real() + offset_ms)
    watched.executor.start(on(slurm.names[0], command=heeds(line, code=4)))
    assert line.hear() == "ready"
    watched.running()
    watched.executor.stop(order())
    stopped = time.monotonic()
    report = watched.ended()
    assert report.exit_codes == (4,)
    assert report.age_ms <= (time.monotonic() - stopped) * 1000


def test_a_release_by_a_person_runs_nothing(watched: Watched, slurm: SlurmCluster, root: Path, tmp_path: Path) -> None:
    line = Line(tmp_path / "said")
    shell, option, script = leaves(line)
    watched.executor.start(on(slurm.names[0], command=(shell, option, f"echo ran >> {tmp_path}/count; {script}")))
    number = line.hear().split()[1]
    evict(watched, slurm, number, line)
    # Nobody holds it again: its script finds nothing to run.
    watched.executor.close()
    slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now", f"ReqNodeList={slurm.names[2]}")
    slurm.run("scontrol", "release", number)
    wait_until(lambda: details(slurm, number)["JobState"] == "COMPLETED", "the released job is over")
    assert (tmp_path / "count").read_text() == "ran\n"
    watched.executor.open(2, lambda: None)
    line.close()


def test_a_released_job_is_held_again(watched: Watched, slurm: SlurmCluster, root: Path, line: Line) -> None:
    watched.executor.start(on(slurm.names[0], command=leaves(line)))
    number = line.hear().split()[1]
    evict(watched, slurm, number, line)
    slurm.run("scontrol", "release", number)  # it still has two minutes to wait
    wait_until(lambda: details(slurm, number)["Priority"] == "0", "held again")
    assert details(slurm, number)["JobState"] == "PENDING"


def test_a_supervisor_hangs_and_slurm_ends_it(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    # One process: a shell would tell of its child's end by 143 when Slurm's signal reaches that first.
    pid_of_supervisor = sh(f"echo $PPID > {line}; exec sleep 1000")
    watched.executor.start(on(slurm.names[0], command=pid_of_supervisor))
    pid = int(line.hear())
    watched.running()
    slurm_kit.stop_process(pid)
    watched.executor.stop(order(grace=0))
    # Slurm wakes up what it ends, so the supervisor still says how.
    report = watched.ended()
    assert report.phase is Phase.EXITED
    assert report.exit_codes in {(-9,), (-15,)}


def test_what_is_kept_for_an_ended_job_is_let_go(watched: Watched, slurm: SlurmCluster, root: Path, line: Line) -> None:
    watched.executor.start(on(slurm.names[0], command=leaves(line)))
    number = line.hear().split()[1]
    evict(watched, slurm, number, line)
    watched.executor.forget("1.1")
    watched.executor.tidy(lambda job: job == 1)
    assert details(slurm, number)["JobState"] == "PENDING"

    def gone() -> bool:
        watched.executor.tidy(lambda job: False)  # the engine says so again and again
        return details(slurm, number)["JobState"] == "CANCELLED"

    wait_until(gone, "it is gone")


@pytest.mark.parametrize("command", ["sbatch", "scontrol", "squeue"])
@pytest.mark.parametrize("fault", ["fails", "does it, then fails"])
def test_a_command_that_fails_is_tried_again(
    slurm: SlurmCluster, root: Path, tmp_path: Path, command: str, fault: str
) -> None:
    commands = slurm_kit.faulty_commands(tmp_path / "bin", command, after=fault != "fails")
    watched = Watched(slurm_kit.executor(slurm, root, commands))
    launch = on(slurm.names[0], slurm.names[1], command=sh(f"echo ran >> {tmp_path}/count.$TENURE_REPLICA"))
    watched.executor.start(launch)
    assert watched.ended().exit_codes == (0, 0)
    assert (tmp_path / "bin" / "failed").exists()
    assert [(tmp_path / f"count.{rank}").read_text() for rank in (0, 1)] == ["ran\n", "ran\n"]
    kill_all(watched)
    wait_until(lambda: not [job for job in shown(slurm, root) if job[1] == "PENDING"], "no second job is left")


def test_a_node_that_slurm_does_not_know(watched: Watched) -> None:
    watched.executor.start(on("nowhere", command=sh("exit 0")))
    report = watched.ended()
    assert report.phase is Phase.NOT_STARTED
    assert "Invalid node name" in report.message


def test_a_part_that_slurm_refuses_ends_the_gang(watched: Watched, slurm: SlurmCluster, line: Line) -> None:
    replicas = [replica(heeds(line), 0, (0,), slurm.names[0]), replica(heeds(line), 1, (), "nowhere")]
    watched.executor.start(launch_of(replicas=replicas))
    report = watched.ended()
    assert report.phase is Phase.NOT_STARTED
    assert "Invalid node name" in report.message


def test_nodes_are_found(slurm: SlurmCluster, root: Path) -> None:
    hosts = slurm_kit.executor(slurm, root).discover()
    assert [host.name for host in hosts] == slurm.names
    assert {(host.gpus, host.cpus, host.mem) for host in hosts} == {(slurm.gpus, slurm.cpus * 1000, slurm.mem)}


def test_two_servers_do_not_touch_each_others_jobs(
    watched: Watched, slurm: SlurmCluster, tmp_path: Path, line: Line
) -> None:
    watched.executor.start(on(slurm.names[0], command=sh(SAY.format(line=line))))
    line.hear()
    other = Watched(slurm_kit.executor(slurm, tmp_path / "other"))
    other.executor.start(on(slurm.names[1], command=sh("exit 4")))
    assert other.ended().exit_codes == (4,)
    other.executor.close()
    assert watched.running().phase is Phase.RUNNING
