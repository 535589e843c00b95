"""What every executor must do. A subclass provides ``new_executor`` and runs all of it against its own kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from executor_kit import HOSTS, HOUR_MS, Line, Watched, launch_of, order, py, replica, sh

from tenure.executors.base import Executor, Health, HostWish, Phase, StaleEpoch

ExecutorMaker = Callable[[], Executor]

HEEDS = """
import os, signal, sys
def heed(number, frame):
    print("heard", signal.Signals(number).name, flush=True)
    sys.exit(int({code}))
signal.signal(signal.{name}, heed)
with open({line!r}, "w") as line: line.write("ready\\n")
while True: signal.pause()
"""
"""Exits with ``code`` when it hears the signal ``name``."""


READS_ITS_WARNING = """
import os, signal, sys
def heed(number, frame):
    print(open(os.environ["TENURE_WARNING"]).read(), flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, heed)
print(os.path.exists(os.environ["TENURE_WARNING"]), os.environ["TENURE_WARN_SIGNAL"], flush=True)
with open({line!r}, "w") as line: line.write("ready\\n")
while True: signal.pause()
"""


def heeds(line: Line, code: int = 143, name: str = "SIGTERM") -> tuple[str, ...]:
    return py(HEEDS.format(code=code, name=name, line=str(line)))


def deaf(line: Line) -> tuple[str, ...]:
    """Hears the warning, says so, and goes on."""
    return sh(f"trap 'echo warned > {line}' TERM; echo ready > {line}; while :; do sleep 1000 & wait; done")


class ExecutorContract:
    @pytest.fixture
    def new_executor(self, tmp_path: Path) -> ExecutorMaker:
        """Makes executors that share one state, as a server before and after its restart."""
        raise NotImplementedError

    @pytest.fixture
    def watched(self, new_executor: ExecutorMaker) -> Iterator[Watched]:
        watched = Watched(new_executor())
        yield watched
        kill_all(watched)

    @pytest.fixture
    def line(self, tmp_path: Path) -> Iterator[Line]:
        line = Line(tmp_path / "line")
        yield line
        line.close()

    @pytest.fixture
    def back(self, tmp_path: Path) -> Iterator[Line]:
        """From the test to a job: ``read word < PATH``."""
        line = Line(tmp_path / "back")
        yield line
        line.close()

    # Starts and ends

    def test_a_gang_runs_and_its_exit_codes_are_in_order(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("exit 0"), sh("exit 0"), sh("exit 0")))
        report = watched.ended()
        assert (report.phase, report.exit_codes, report.done) == (Phase.EXITED, (0, 0, 0), False)
        assert report.checkpoint_age_ms is None

    def test_it_is_running_when_all_replicas_are_up(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(heeds(line), heeds(line)))
        assert watched.running().age_ms >= 0
        assert [line.hear(), line.hear()] == ["ready", "ready"]

    def test_output_goes_to_a_file_per_replica_and_stream(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("echo one; echo two >&2"), sh("echo three")))
        watched.ended()
        assert (watched.log(0), watched.log(0, "stderr")) == ("one\n", "two\n")
        assert (watched.log(1), watched.log(1, "stderr")) == ("three\n", "")

    def test_a_failed_replica_ends_the_gang(self, watched: Watched, line: Line, back: Line) -> None:
        go = f"read word < {back}; exit 3"
        watched.executor.start(launch_of(heeds(line, code=7), sh(go), heeds(line, code=9)))
        watched.running()
        assert [line.hear(), line.hear()] == ["ready", "ready"]
        back.say("go")
        report = watched.ended()
        assert (report.phase, report.exit_codes) == (Phase.EXITED, (7, 3, 9))
        assert "replica 1 of role main exited with 3" in report.message

    def test_an_end_by_a_signal_is_negative(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("kill -9 $$")))
        assert watched.ended().exit_codes == (-9,)

    def test_a_command_that_is_not_there_never_starts(self, watched: Watched, tmp_path: Path) -> None:
        watched.executor.start(launch_of(sh("sleep 1000"), ("no-such-program", "--flag"), workdir=tmp_path))
        report = watched.ended()
        assert (report.phase, report.exit_codes) == (Phase.NOT_STARTED, ())
        assert "'no-such-program'" in report.message
        assert str(tmp_path) in report.message
        assert "No such file or directory" in report.message

    def test_a_working_directory_that_is_not_there_is_named(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("exit 0"), workdir="/no/such/place"))
        report = watched.ended()
        assert report.phase is Phase.NOT_STARTED
        assert "/no/such/place" in report.message

    def test_the_working_directory_is_the_wanted_one(self, watched: Watched, tmp_path: Path) -> None:
        watched.executor.start(launch_of(sh("pwd -P"), workdir=tmp_path))
        watched.ended()
        assert watched.log().strip() == str(tmp_path.resolve())

    def test_starting_twice_is_starting_once(self, watched: Watched, tmp_path: Path) -> None:
        launch = launch_of(sh("echo ran >> count"), workdir=tmp_path)
        watched.executor.start(launch)
        watched.executor.start(launch)
        watched.ended()
        watched.executor.start(launch)
        assert (tmp_path / "count").read_text() == "ran\n"

    def test_a_start_after_it_was_forgotten_reports_the_end_again(self, watched: Watched, tmp_path: Path) -> None:
        """A leader whose database was put back from a backup still waits for an end that others have recorded."""
        launch = launch_of(sh("echo ran >> count; exit 3"), workdir=tmp_path)
        watched.executor.start(launch)
        watched.ended()
        watched.executor.forget("1.1")
        assert watched.report() is None
        watched.executor.start(launch)
        report = watched.ended()
        assert (report.phase, report.exit_codes) == (Phase.EXITED, (3,))
        assert (tmp_path / "count").read_text() == "ran\n"
        watched.executor.forget("1.1")
        assert watched.report() is None

    # Hosts

    def test_what_is_kept_out_is_no_reason_of_somebody_else(self, watched: Watched) -> None:
        """Said twice and taken back: a drain of Tenure's own never comes back as one of another system."""
        out, back = (
            HostWish("main", HOSTS[0], out=True, by="ada", why="fans", since=1),
            HostWish("main", HOSTS[0], False),
        )
        for wishes in ([out], [out], [], [back], [back]):
            watched.executor.keep_out(wishes)
            assert {one.health for one in watched.executor.conditions()} <= {Health.FIT}
        watched.executor.start(launch_of(sh("exit 0")))
        assert watched.ended().exit_codes == (0,)
        assert not any((one.gpus, one.cpus, one.mem) != (0, 0, 0) for one in watched.executor.conditions())

    # Environment

    def test_a_job_sees_what_it_is(self, watched: Watched) -> None:
        replicas = [
            replica(sh("env"), rank=0, gpus=(2, 5), host=HOSTS[0]),
            replica(sh("env"), rank=1, gpus=(), host=HOSTS[1]),
        ]
        launch = launch_of(replicas=replicas, attempt_id="7.3", env={"MINE": "a b"}, protected_for=HOUR_MS)
        watched.executor.start(launch)
        watched.ended("7.3")
        first, second = (variables(watched.log(rank, attempt_id="7.3")) for rank in (0, 1))
        common = {
            "MINE": "a b",
            "TENURE_JOB_ID": "7",
            "TENURE_ATTEMPT_ID": "7.3",
            "TENURE_ATTEMPT": "3",
            "TENURE_RESTART_COUNT": "2",
            "TENURE_ROLE": "main",
            "TENURE_BUDGET": "lab/language/pretrain",
            "TENURE_PROTECTED_FOR": "3600",
            "PET_NNODES": "2",
        }
        for name, value in common.items():
            assert (first[name], second[name]) == (value, value), name
        assert (first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]) == ("2,5", "")
        assert (first["TENURE_HOST"], second["TENURE_HOST"]) == (HOSTS[0], HOSTS[1])
        assert (first["TENURE_REPLICA"], second["TENURE_REPLICA"]) == ("0", "1")
        assert (first["PET_NODE_RANK"], second["PET_NODE_RANK"]) == ("0", "1")
        assert (first["PET_NPROC_PER_NODE"], second["PET_NPROC_PER_NODE"]) == ("2", "1")
        assert first["MASTER_PORT"] == second["MASTER_PORT"] == first["PET_MASTER_PORT"]
        assert first["PET_RDZV_ENDPOINT"] == f"{first['MASTER_ADDR']}:{first['MASTER_PORT']}"
        assert first["TENURE_PROTECTED_UNTIL"].endswith("Z")
        assert Path(first["TENURE_CHECKPOINT_DIR"]).is_dir()
        assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & (set(first) | set(second))

    def test_per_gpu_launch_starts_a_rank_on_every_gpu(self, watched: Watched) -> None:
        say = sh("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $CUDA_VISIBLE_DEVICES")
        replicas = [replica(say, rank=0, gpus=(0, 1)), replica(say, rank=1, gpus=(4,))]
        watched.executor.start(launch_of(replicas=replicas, launch="per-gpu"))
        assert watched.ended().exit_codes == (0, 0)
        assert sorted(watched.log(0).splitlines()) == ["0/3 0/2 0,1", "1/3 1/2 0,1"]
        assert watched.log(1) == "2/3 0/1 4\n"

    def test_checkpoints_outlive_the_attempt(self, watched: Watched) -> None:
        write = sh('test $TENURE_ATTEMPT = 1 && echo 41 > "$TENURE_CHECKPOINT_DIR/x"; cat "$TENURE_CHECKPOINT_DIR/x"')
        for attempt_id in ("4.1", "4.2"):
            watched.executor.start(launch_of(write, attempt_id=attempt_id))
            watched.ended(attempt_id)
        assert watched.log(attempt_id="4.2") == "41\n"

    def test_markers_are_seen(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh('touch "$TENURE_CHECKPOINT" "$TENURE_DONE"; exit 1')))
        report = watched.ended()
        assert (report.done, report.exit_codes) == (True, (1,))
        assert report.checkpoint_age_ms is not None

    # Stops

    @pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
    def test_the_warning_is_the_signal_of_the_jobs_choice(self, watched: Watched, line: Line, name: str) -> None:
        watched.executor.start(launch_of(heeds(line, code=5, name=name), heeds(line, code=6, name=name)))
        assert [line.hear(), line.hear()] == ["ready", "ready"]
        watched.executor.stop(order(warn_signal=name, why="evicted for job 9"))
        report = watched.ended()
        assert (report.phase, report.exit_codes) == (Phase.EXITED, (5, 6))
        assert watched.log(1) == f"heard {name}\n"
        assert "evicted for job 9" in watched.log(1, "stderr")

    def test_the_warning_is_a_file_as_well_and_there_before_the_signal(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(py(READS_ITS_WARNING.format(line=str(line)))))
        assert line.hear() == "ready"
        why = "Evicted for job 9 (4 GPUs): it ran unallocated, and charged jobs come first."
        watched.executor.stop(order(why=f"evicted_unallocated: {why}"))
        assert watched.ended().exit_codes == (5,)
        before, told = watched.log().splitlines()
        assert before == "False SIGTERM"
        warning = json.loads(told)
        assert (warning["reason"], warning["why"], warning["signal"]) == ("evicted_unallocated", why, "SIGTERM")
        assert 0 < warning["grace"] <= HOUR_MS
        assert warning["kill_at"] == warning["at"] + warning["grace"]
        assert why in watched.log(0, "stderr")

    def test_the_warning_file_says_when_less_time_is_left(self, watched: Watched, line: Line) -> None:
        """Seen by a process that no signal was sent to: a child of one that is deaf."""
        reads = f'until grep -s reason "$TENURE_WARNING" >/dev/null; do sleep 0.05; done; cat "$TENURE_WARNING" >{line}'
        again = f'while grep -q patience "$TENURE_WARNING"; do sleep 0.05; done; cat "$TENURE_WARNING" >{line}'
        script = f"trap '' TERM; echo ready >{line}; ({reads}; echo >{line}; {again}; echo >{line}) & wait"
        watched.executor.start(launch_of(sh(script)))
        assert line.hear() == "ready"
        watched.executor.stop(order(grace=2 * HOUR_MS, why="cancelled: with patience"))
        first = json.loads(line.hear())
        watched.executor.stop(order(grace=HOUR_MS, why="cancelled: at once"))
        second = json.loads(line.hear())
        assert (first["reason"], first["why"], second["why"]) == ("cancelled", "with patience", "at once")
        assert second["kill_at"] < first["kill_at"]
        assert watched.ended().exit_codes == (0,)

    def test_what_ignores_the_warning_is_killed_after_the_grace(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(deaf(line)))
        assert line.hear() == "ready"
        watched.executor.stop(order(grace=2000))
        assert line.hear() == "warned"
        assert watched.ended().exit_codes == (-9,)

    def test_a_grace_of_nothing_kills_without_a_warning(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(heeds(line, code=5)))
        assert line.hear() == "ready"
        watched.executor.stop(order(grace=0))
        assert watched.ended().exit_codes == (-9,)
        assert watched.log() == ""

    def test_a_second_order_shortens(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(deaf(line)))
        assert line.hear() == "ready"
        watched.executor.stop(order(grace=HOUR_MS))
        assert line.hear() == "warned"
        watched.executor.stop(order(grace=0))
        assert watched.ended().exit_codes == (-9,)

    def test_a_second_order_never_lengthens(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(deaf(line)))
        assert line.hear() == "ready"
        watched.executor.stop(order(grace=500))
        watched.executor.stop(order(grace=HOUR_MS))
        assert watched.ended().exit_codes == (-9,)

    def test_an_attempt_stopped_before_its_start_never_runs(self, watched: Watched, tmp_path: Path) -> None:
        watched.executor.stop(order())
        assert watched.ended().phase is Phase.NOT_STARTED
        watched.executor.start(launch_of(sh("echo ran > ran"), workdir=tmp_path))
        assert watched.ended().phase is Phase.NOT_STARTED
        watched.executor.forget("1.1")
        watched.executor.start(launch_of(sh("echo ran > ran"), workdir=tmp_path))
        assert watched.ended().phase is Phase.NOT_STARTED
        assert not (tmp_path / "ran").exists()

    def test_a_stop_right_after_the_start_ends_it(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("sleep 1000")))
        watched.executor.stop(order(grace=0))
        assert watched.ended().phase in {Phase.NOT_STARTED, Phase.EXITED}

    def test_a_stop_after_the_end_changes_nothing(self, watched: Watched) -> None:
        watched.executor.start(launch_of(sh("exit 4")))
        before = watched.ended()
        watched.executor.stop(order(grace=0))
        after = watched.ended()
        assert (after.phase, after.exit_codes) == (before.phase, before.exit_codes)

    # Servers that come and go

    def test_a_newer_leader_shuts_out_the_older(self, new_executor: ExecutorMaker, tmp_path: Path) -> None:
        old, new = Watched(new_executor(), epoch=4), Watched(new_executor(), epoch=5)
        with pytest.raises(StaleEpoch):
            old.executor.start(launch_of(sh("echo ran > ran"), workdir=tmp_path))
        with pytest.raises(StaleEpoch):
            old.executor.stop(order())
        with pytest.raises(StaleEpoch):
            new_executor().open(4, lambda: None)
        assert new.report() is None
        assert not (tmp_path / "ran").exists()
        old.executor.close()
        new.executor.close()

    def test_a_running_attempt_is_adopted(self, new_executor: ExecutorMaker, back: Line) -> None:
        before = Watched(new_executor(), epoch=1)
        before.executor.start(launch_of(sh(f"read word < {back}; exit 6")))
        before.running()
        before.executor.close()
        after = Watched(new_executor(), epoch=2)
        assert after.running().phase is Phase.RUNNING
        back.say("go")
        assert after.ended().exit_codes == (6,)
        kill_all(after)

    def test_an_adopted_attempt_can_be_stopped(self, new_executor: ExecutorMaker, line: Line) -> None:
        before = Watched(new_executor(), epoch=1)
        before.executor.start(launch_of(heeds(line, code=8)))
        assert line.hear() == "ready"
        before.executor.close()
        after = Watched(new_executor(), epoch=2)
        after.executor.stop(order())
        assert after.ended().exit_codes == (8,)
        kill_all(after)

    def test_forgetting_keeps_the_logs(self, new_executor: ExecutorMaker) -> None:
        watched = Watched(new_executor(), epoch=1)
        watched.executor.start(launch_of(sh("echo kept")))
        watched.ended()
        watched.executor.forget("1.1")
        watched.executor.forget("1.1")
        assert watched.report() is None
        assert watched.log() == "kept\n"
        watched.executor.close()
        again = Watched(new_executor(), epoch=2)
        assert again.report() is None
        again.executor.close()

    def test_what_has_not_ended_is_not_forgotten(self, watched: Watched, line: Line) -> None:
        watched.executor.start(launch_of(heeds(line, code=2)))
        assert line.hear() == "ready"
        watched.executor.forget("1.1")
        watched.executor.stop(order())
        assert watched.ended().exit_codes == (2,)


def kill_all(watched: Watched) -> None:
    """The end of a test: nothing that it started goes on."""
    for report in watched.executor.poll():
        watched.executor.stop(order(report.attempt_id, grace=0))
        watched.ended(report.attempt_id)
    watched.executor.close()


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
