"""What is said to Slurm and what it says, as text. No Slurm is needed for this."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from executor_kit import launch_of, replica, sh

from tenure.executors.slurm import marks, script
from tenure.executors.slurm.handling import output
from tenure.executors.slurm.plan import Part, plan_of
from tenure.executors.slurm.reading import by_part, comment, own_jobs, parse_nodes
from tenure.executors.slurm.rows import Row
from tenure.slurm.commands import CommandFailed, Commands


def test_the_script_starts_one_task_on_each_node() -> None:
    text = script.render(12, ["/usr/bin/python3", "-c", "print('it''s; rm -rf $HOME')", "/shared/runs/12"])
    first, _, alone, last = text.splitlines()
    assert first == "#!/bin/sh"
    command = ["/usr/bin/python3", "-c", "print('it''s; rm -rf $HOME')", "/shared/runs/12"]
    assert shlex.split(alone) == ["[", "$SLURM_JOB_NUM_NODES", "=", "1", "]", "&&", "exec", *command]
    words = shlex.split(last)
    assert words[:2] == ["exec", "srun"]
    assert words[2:5] == ["--nodes=$SLURM_JOB_NUM_NODES", "--ntasks=$SLURM_JOB_NUM_NODES", "--ntasks-per-node=1"]
    assert words[-4:] == command


def row(number: int, state: str, comment: str, **more: Any) -> Row:
    usual = {
        "number": number,
        "array": "",
        "held": False,
        "uid": 7,
        "user": "tenure",
        "account": "",
        "submitted": 1,
        "start": 0,
    }
    usual |= {"eligible": 0, "ended": 0, "reason": "None", "restarts": 0, "exit": 0, "nodes": "", "dependency": ""}
    return Row(id=str(number), state=state, comment=comment, **{**usual, "batch": True, "mark": "", **more})


def test_our_jobs_are_told_by_their_comments() -> None:
    rows = [
        row(7, "RUNNING", comment("main", 3, 0, 8, 64, "c0ffee00")),
        row(8, "PENDING", comment("main", 4, 0, 2, 1, "c0ffee00"), held=True),
        row(9, "COMPLETED", comment("main", 4, 1, 0, 1, "c0ffee00"), ended=1796011142),
        row(10, "RUNNING", comment("main", 5, 0, 8, 64, "ffffffff")),
        row(11, "RUNNING", "a comment with | in it"),
        row(12, "RUNNING", ""),
        row(13, "RUNNING", comment("main", 3, 0, 8, 64, "c0ffee00"), uid=1000),
    ]
    found = own_jobs(rows, "c0ffee00", 7)
    assert sorted(found) == [3, 4]
    (running,) = found[3]
    assert (running.id, running.gpus, running.cpus, running.live, running.held) == (7, 8, 64, True, False)
    waiting, ended = found[4]
    assert (waiting.pending, waiting.held, waiting.over, waiting.ended) == (True, True, False, 0)
    assert (ended.part, ended.over, ended.ended) == (1, True, 1796011142)


def test_of_two_with_one_comment_the_one_at_work_counts() -> None:
    rows = [
        row(number, state, comment("main", 1, 0, 1, 1, "ab"), held=priority == 0)
        for number, state, priority in ((5, "PENDING", 0), (4, "RUNNING", 9), (6, "COMPLETED", 9), (7, "PENDING", 0))
    ]
    candidates = own_jobs(rows, "ab", 7)[1]
    assert by_part(candidates)[0].id == 4
    assert by_part([one for one in candidates if not one.live])[0].id == 7


def test_a_mark_says_whose_job_it_is_and_why_it_waits() -> None:
    plugin = "tenure:1 requeue=yes hold=user nice=-3 signal=B:USR1@90"
    mark = marks.read(plugin)
    assert mark is not None
    assert (mark.said["requeue"], mark.said["signal"], mark.number("nice"), mark.job) == ("yes", "B:USR1@90", -3, 0)
    adopted = replace(mark, job=12, server="ab12")
    assert marks.write(adopted) == f"{plugin} job=12 server=ab12"
    assert marks.read(marks.write(adopted)) == adopted
    refused = replace(mark, refused=marks.shown("budget = x:\nthere is no job=99 server=cd\x1b[0m"))
    assert marks.write(refused).endswith(" refused: budget = x: there is no job=99 server=cd [0m")
    assert marks.read(marks.write(refused)) == refused
    assert marks.read("somebody's note") is None


def test_patterns_of_an_output_file_are_filled_in() -> None:
    said = {
        "JobID": "17",
        "ArrayJobID": "12",
        "ArrayTaskID": "3",
        "Name": "x",
        "UserName": "ann",
        "WorkDir": "/data/ann",
    }
    assert output({**said, "STDOUT": "out/%x-%A_%a-%j-%N-%u-100%%.txt"}, "STDOUT", "n1.lab") == (
        "/data/ann/out/x-12_3-17-n1-ann-100%.txt"
    )
    assert output({**said, "STDOUT": "/tmp/%5j"}, "STDOUT", "n1") == "/tmp/00017"
    assert output({**said, "STDOUT": "N/A"}, "STDOUT", "n1") == ""


def test_nodes_and_their_gpus() -> None:
    text = "\n".join(
        [
            "a1|64|512000|10.0.0.1|gpu:8",
            "a2|128|1024000|a2.cluster|gpu:a100:4(S:0-1),gpu:h100:2(S:1)",
            "a3|16|32000|a3|(null)",
            "a4|16|32000|a4|gpu:0,shard:64",
        ]
    )
    found = parse_nodes(text)
    assert {name: node.host.gpus for name, node in found.items()} == {"a1": 8, "a2": 6, "a3": 0, "a4": 0}
    assert found["a2"].host.gpu_names == ("a100",) * 4 + ("h100",) * 2
    assert (found["a2"].host.cpus, found["a2"].host.mem, found["a2"].address) == (128_000, 1_024_000, "a2.cluster")


def test_nodes_that_are_asked_for_alike_are_one_part() -> None:
    sizes = [((0, 1), "a"), ((0,), "b"), ((4, 5), "c"), ((1,), "b"), ((7,), "d")]
    replicas = [replica(sh("exit 0"), rank, gpus, host) for rank, (gpus, host) in enumerate(sizes)]
    plan = plan_of(launch_of(replicas=replicas))
    assert plan.hosts == ("a", "b", "c", "d")
    assert plan.ranks == {"a": (0,), "b": (1, 3), "c": (2,), "d": (4,)}
    assert plan.parts == (Part(("b",), 2, 2, 128), Part(("a", "c"), 2, 1, 64), Part(("d",), 1, 1, 64))


def test_a_command_that_fails_is_named_with_its_code_and_words(tmp_path: Path) -> None:
    def command(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    command("sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid node name specified' >&2; exit 1")
    command("squeue", "exec sleep 1000")
    command("sinfo", 'printf "%s:%s" "$SQUEUE_FORMAT" "$SLURM_TIME_FORMAT"')
    commands = Commands(tmp_path, {"PATH": "/usr/bin:/bin", "SQUEUE_FORMAT": "%i"})
    with pytest.raises(CommandFailed, match=r"^sbatch --hold ended with 1: .*Invalid node name specified$") as failed:
        commands.run("sbatch", "--hold")
    assert failed.value.hopeless
    with pytest.raises(CommandFailed, match=r"squeue did not end within 0\.1 s"):
        commands.run("squeue", timeout_s=0.1)
    with pytest.raises(CommandFailed, match="scontrol cannot be run: No such file or directory"):
        commands.run("scontrol")
    assert commands.run("sinfo") == ":%s"
