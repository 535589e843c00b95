"""Whole scripts and command lines as requests: what each value is, where it came from, or why it is refused."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.api.requests import JobRequest
from tenure.cli.aliases import own_options, translate
from tenure.cli.batch import Prepared, prepare
from tenure.cli.errors import CliError
from tenure.cli.options import JobOptions
from tenure.scripts import launch
from tenure.scripts.convert import convert, merged
from tenure.scripts.errors import Given, Place, ScriptError
from tenure.scripts.table import OPTIONS, Fate, Takes


class Lab:
    """A site with a few budgets and labels."""

    def budgets(self) -> Sequence[str]:
        return ["lab", "lab/language", "lab/vision", "lab/vision/video", "lab/speech/video"]

    def labels(self) -> Sequence[tuple[str, str]]:
        return [("rack", "r1"), ("rack", "r2"), ("gpu", "A100"), ("switch", "s1"), ("zone", "s1")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("TENURE_", "SLURM_", "SBATCH_")):
            monkeypatch.delenv(name)
    return tmp_path


def options(line: str) -> JobOptions:
    """A command line as typer would hand it over."""
    words = translate(shlex.split(f"submit {line}"))[1:]
    _, flags = own_options()
    values: dict[str, Any] = {}
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        name, equals, value = words.pop(0).partition("=")
        field = {"-b": "budget", "-m": "min_runtime", "-g": "gpus"}.get(name, name.lstrip("-").replace("-", "_"))
        if name in ("--script", *flags):
            values[field.removeprefix("no_")] = not field.startswith("no_")
            continue
        value = value if equals else words.pop(0)
        if field in ("sbatch", "env", "require", "prefer", "cluster", "after_ok", "after_any"):
            values.setdefault(field, []).append(value)
        else:
            values[field] = value
    return JobOptions(words=words, **values)


def submitted(body: str, line: str = "", after: str = "") -> Prepared:
    Path("job.sh").write_text(f"#!/bin/bash\n{body}\n")
    made = prepare(options(f"{line} job.sh {after}"), Lab())
    JobRequest.model_validate({"budget": "lab", **made.body})
    return made


SIZES = ("replicas", "gpus", "cpus", "memory")


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("", {}),
        ("#SBATCH --gres=gpu:8", {"gpus": 8}),
        ("#SBATCH --gres=gpu", {"gpus": 1}),
        ("#SBATCH --gpus=8", {"gpus": 8}),
        ("#SBATCH --gpus=8 -N2", {"replicas": 2, "gpus": 4}),
        ("#SBATCH --gpus-per-node=4 -N2", {"replicas": 2, "gpus": 4}),
        ("#SBATCH --gpus=8 --gpus-per-node=4", {"replicas": 2, "gpus": 4}),
        ("#SBATCH --gpus-per-task=1 -n8", {"gpus": 8}),
        ("#SBATCH --gpus-per-task=1 -n8 -N2", {"replicas": 2, "gpus": 4}),
        ("#SBATCH --gpus=8 --gpus-per-task=2", {"gpus": 8}),
        ("#SBATCH --ntasks=4 --gpus-per-node=2 --nodes=2 --gpus-per-task=1", {"replicas": 2, "gpus": 2}),
        ("#SBATCH -n8 --ntasks-per-node=4", {"replicas": 2}),
        ("#SBATCH -N2 --ntasks-per-node=4 -c2", {"replicas": 2, "cpus": 8}),
        ("#SBATCH -n3 -N2 -c2", {"replicas": 2, "cpus": 4}),
        ("#SBATCH -N4 -n2", {"replicas": 2}),
        ("#SBATCH -N2-4", {"replicas": 2}),
        ("#SBATCH -c12 --mem=64G --gres=gpu:2", {"gpus": 2, "cpus": 12, "memory": "64G"}),
        ("#SBATCH --cpus-per-gpu=6 --mem-per-gpu=100G --gpus=4", {"gpus": 4, "cpus": 24, "memory": "400G"}),
        ("#SBATCH -c4 --mem-per-cpu=2000", {"cpus": 4, "memory": "8000M"}),
        ("#SBATCH -n4 --mem-per-cpu=2G", {"memory": "8G"}),
        ("#SBATCH --mincpus=8 -c2", {"cpus": 8}),
        ("#SBATCH --mem=0", {}),
    ],
)
def test_sizes(body: str, sizes: dict[str, Any]) -> None:
    made = submitted(body)
    assert {name: made.body[name] for name in SIZES if name in made.body} == sizes
    assert all("job.sh line 2" in made.origins[name] for name in sizes)


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ("#SBATCH --time=2:00:00", "timeout", "2h"),
        ("#SBATCH -t 90", "timeout", "1h30m"),
        ("#SBATCH --time=1-12", "timeout", "1d12h"),
        ("#SBATCH --time-min=2:00:00", "min_runtime", "2h"),
        ("#SBATCH --requeue", "resumable", True),
        ("#SBATCH --requeue --no-requeue", "resumable", False),
        ("#SBATCH -A lab/language", "budget", "lab/language"),
        ("#SBATCH -A language", "budget", "lab/language"),
        ("#SBATCH -p a,b", "clusters", ["a", "b"]),
        ("#SBATCH -J 'a b'", "name", "a b"),
        ("", "name", "job.sh"),
        ("#SBATCH --nice", "priority", -100),
        ("#SBATCH --nice=-5", "priority", 5),
        ("#SBATCH --priority=7", "priority", 7),
        ("#SBATCH --hold", "hold", True),
        ("#SBATCH --signal=B:USR1@240", "warn_signal", "SIGUSR1"),
        ("#SBATCH --signal=B:USR1@240", "grace", "240s"),
        ("#SBATCH -C r1", "labels", [{"key": "rack", "value": "r1", "required": True}]),
        ("#SBATCH --prefer=rack=r2", "labels", [{"key": "rack", "value": "r2", "required": False}]),
        ("#SBATCH --gres=gpu:a100:4", "labels", [{"key": "gpu", "value": "A100", "required": True}]),
    ],
)
def test_fields(body: str, field: str, value: Any) -> None:
    assert submitted(body).body[field] == value


def test_constraints_of_all_places_add_up(here: Path) -> None:
    made = submitted("#SBATCH -C r1&a100\n#TENURE --require zone", "--prefer switch=s1")
    assert [(one["key"], one["value"], one["required"]) for one in made.body["labels"]] == [
        ("rack", "r1", True),
        ("gpu", "A100", True),
        ("zone", None, True),
        ("switch", "s1", False),
    ]


def test_the_command_line_wins_over_our_lines_and_they_over_those_of_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "#SBATCH --time=60 -A vision --gres=gpu:4 --nice=5\n#TENURE --timeout=3h --gpus=2 --no-resumable"
    made = submitted(body)
    assert (made.body["timeout"], made.body["gpus"], made.body["budget"]) == ("3h", 2, "lab/vision")
    assert made.origins["timeout"] == "--timeout=3h (job.sh line 3)"
    assert made.origins["budget"] == "--account=vision (job.sh line 2)"
    assert submitted(body, "--time 4:00:00").body["timeout"] == "4h"
    assert submitted(body, "--time 90m").body["timeout"] == "1h30m"
    assert submitted(body, "--timeout 5h").origins["timeout"] == "command line"
    assert submitted(body, "--gres=gpu:8").body["gpus"] == 8
    assert submitted(body, "--gpus 1").body["gpus"] == 1
    assert submitted(body, "--resumable --budget lab").body["resumable"] is True
    monkeypatch.setenv("TENURE_BUDGET", "lab/speech")
    assert submitted(body).body["budget"] == "lab/vision"
    assert submitted("").body["budget"] == "lab/speech"


def test_one_line_without_a_line_in_the_script() -> None:
    made = submitted("hostname", "-N 2 --gpus 8 --time 2:00:00")
    assert (made.body["replicas"], made.body["gpus"], made.body["timeout"]) == (2, 8, "2h")
    assert made.origins["replicas"] == "--nodes=2 (command line)"


def test_one_name_of_memory_on_the_command_line_replaces_another_in_the_script() -> None:
    made = submitted("#SBATCH --mem-per-cpu=4G -c4 --gpus-per-node=2", "--gres=gpu:4 --mem-per-gpu=8G")
    assert (made.body["gpus"], made.body["memory"]) == (4, "32G")


def test_an_account_nobody_has_to_know_when_the_budget_is_said_otherwise() -> None:
    assert submitted("#SBATCH -A nowhere", "-b lab").body["budget"] == "lab"
    assert submitted("#SBATCH -A nowhere\n#TENURE --budget=lab/vision").body["budget"] == "lab/vision"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("#SBATCH --time=2h", "job.sh line 2: --time = 2h: write minutes, minutes:seconds"),
        ("#SBATCH --mem=4GiB", "job.sh line 2: --mem = 4GiB: write a whole number with K, M, G or T"),
        ("#SBATCH -n0", "job.sh line 2: --ntasks = 0: write a whole number of at least 1"),
        ("#SBATCH -N2-1", "--nodes = 2-1: write at least 1 node"),
        ("#SBATCH --gpus=9 -N2", "--gpus = 9: it is no multiple of the 2 nodes"),
        ("#SBATCH --gpus=9 --gpus-per-node=4", "--gpus = 9: it is no multiple of the 4 GPUs of a node"),
        ("#SBATCH --gpus=0", "--gpus = 0: a job has at least one GPU here"),
        ("#SBATCH --gres=none", "--gres = none: a job has at least one GPU here"),
        (
            "#SBATCH --gres=gpu:4 --gpus-per-task=1 -n2",
            "that is 2 GPUs a node with 1 nodes and 2 tasks, and --gres says 4",
        ),
        ("#SBATCH --gres=gpu:4 --gpus-per-node=4", "there is --gpus-per-node as well (job.sh line 2): say one of them"),
        ("#SBATCH --mem=4G --mem-per-cpu=1G", "there is --mem as well"),
        ("#SBATCH -c2 --cpus-per-gpu=2 --gpus=1", "there is --cpus-per-task as well"),
        ("#SBATCH --mem-per-gpu=4G", "--mem-per-gpu = 4G: say how many GPUs"),
        ("#SBATCH --cpus-per-gpu=4", "--cpus-per-gpu = 4: say how many GPUs"),
        ("#SBATCH -n9 -N2 --ntasks-per-node=4", "2 nodes with 4 tasks each hold 8: say fewer, or more nodes"),
        ("#SBATCH --gpus=a100:4 --gpus-per-node=h100:4", "one job has one type of GPU, not h100 and a100"),
        ("#SBATCH --gres=disk:1", "GPUs are the only resource that is counted"),
        ("#SBATCH --array=3-1", "job.sh line 2: --array = 3-1: '3-1': write indices like 0-15, 0,6,16-32"),
        ("#SBATCH -a 0-10000", "that is 10001 jobs, and an array has at most 10000"),
        ("#SBATCH -d afterok:", "--dependency = afterok:: write afterok:JOB or afterany:JOB"),
        ("#SBATCH -d 3", "--dependency = 3: write afterok:JOB"),
        ("#SBATCH -d afterok:3?afterok:4", "write , instead of ?"),
        ("#SBATCH -d after:3", "the start of a job cannot be waited for"),
        ("#SBATCH -d afterok:3,singleton", "names of jobs mean nothing here"),
        ("#SBATCH -d afternotok:3", "a failure cannot be waited for"),
        ("#SBATCH -d aftercorr:3", "jobs of an array wait for all of another one"),
        ("#SBATCH -d afterany:3+5", "a delay after the end cannot be had"),
        ("#SBATCH --wait", "job.sh line 2: --wait: use `tenure run`"),
        ("#SBATCH -A video", "several budgets are called so: write lab/vision/video or lab/speech/video"),
        ("#SBATCH -A langauge", "no budget is called so; did you mean lab/language?"),
        ("#SBATCH -A x", "no budget is called so; `tenure budgets` lists them"),
        ("#SBATCH -C h100", "no host has the value h100; there are gpu=A100 or rack=r1"),
        ("#SBATCH -C s1", "several labels have the value s1; there are switch=s1 or zone=s1"),
        ("#SBATCH -C 'r1|r2'", "only features that a host must have all of"),
        ("#SBATCH -C rack=", "write KEY=VALUE"),
        ("#SBATCH --signal=KILL", "--signal = KILL: write SIGNAL or SIGNAL@SECONDS"),
        ("#SBATCH --priority=TOP", "--priority = TOP: write a whole number from 0"),
        ("#SBATCH --nice=many", "--nice = many: write a whole number"),
        ("#SBATCH --time-min=0", "--time-min = 0: write the shortest run that makes progress"),
        ("#SBATCH -J ''", "--job-name = '': write a name"),
        ("#SBATCH -o %q", "--output = %q: there is no pattern %q"),
        ("#SBATCH --open-mode=x", "--open-mode = x: write append or truncate"),
        ("#SBATCH --export=A,,B", "--export = A,,B: write ALL, NONE"),
        ("#SBATCH -N2\nsrun hostname", "job.sh line 3: srun: it would start tasks on 2 hosts"),
        ("#SBATCH -N2\n  x=$(A=1 mpirun hostname)", "job.sh line 3: mpirun: it would start tasks on 2 hosts"),
    ],
)
def test_what_is_refused_and_what_to_do(body: str, says: str) -> None:
    with pytest.raises(CliError) as caught:
        submitted(body)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.fate is Fate.REFUSED], ids=lambda one: one.name
)
def test_every_refused_option_is_refused_with_its_text(option: Any) -> None:
    value = "x" if option.takes is Takes.VALUE else None
    with pytest.raises(ScriptError) as caught:
        convert({option.name: Given(option.name, value, Place("job.sh", 7))}, Lab())
    assert str(caught.value).startswith(f"job.sh line 7: --{option.name}") and option.text in str(caught.value)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.fate is Fate.IGNORED], ids=lambda one: one.name
)
def test_every_ignored_option_is_told(option: Any) -> None:
    value = None if option.takes is Takes.NOTHING else "x"
    made = convert({option.name: Given(option.name, value, Place("job.sh", 7))}, Lab())
    assert made.fields == {}
    if option.name == "qos":
        assert made.differs == ["qos"]
    else:
        text = f"--{option.name}{'=x' if value else ''}"
        assert made.notes == [f"{text} (job.sh line 7): no effect here: {option.text}"]


def test_what_is_told_beside_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "5")
    made = submitted("#SBATCH -N2-3 --signal=USR1 --qos=high --nice --test-only --parsable\ntorchrun x\n#SBATCH -n4")
    assert [note.partition(": ")[0] for note in made.notes] == [
        "--signal=USR1 (job.sh line 2)",
        "--nodes=2-3 (job.sh line 2)",
        "job.sh line 4",
        "the script runs on each of its 2 hosts at once, with SLURM_NODEID, MASTER_ADDR and the like",
        "SBATCH_TIMELIMIT",
    ]
    assert made.differs == ["qos", "nice"] and made.quiet and made.dry_run
    assert submitted("true", "--gpus 1", after="--lr 1 --plan --dry-run").notes[:1] == [
        "--plan, --dry-run: given to the script; for Tenure write it before the script"
    ]


def test_the_script_is_sent_with_its_arguments(here: Path) -> None:
    made = submitted("#SBATCH --chdir=sub -o %j.out --open-mode=append\necho ü", after="a 'b c' --nodes=3")
    assert launch.shown(made.body["command"]) == ["job.sh", "a", "b c", "--nodes=3"]
    assert made.body["env"]["TENURE_SCRIPT"] == Path("job.sh").read_text()
    assert {"out=%j.out", "mode=append", "each=1", f"SLURM_SUBMIT_DIR={here}"} <= set(made.body["command"])
    assert made.body["workdir"] == str(here / "sub")


@pytest.mark.parametrize(
    ("body", "line", "there", "absent"),
    [
        (
            "#SBATCH -n4 -N2 --mem=2G -c2",
            "",
            {"SLURM_JOB_CPUS_PER_NODE=4(x2)", "SLURM_MEM_PER_NODE=2048"},
            "SLURM_GPUS",
        ),
        ("#SBATCH -n4 -c2", "", {"SLURM_NTASKS=4", "SLURM_CPUS_PER_TASK=2", "SLURM_TASKS_PER_NODE=4"}, "SLURM_MEM"),
        ("#SBATCH -n4 -N2", "", {"SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=2(x2)"}, "each="),
        ("#SBATCH -n3 -N2", "", {"SLURM_NTASKS=3"}, "SLURM_TASKS_PER_NODE="),
        ("#SBATCH -N2", "", {"SLURM_TASKS_PER_NODE=1(x2)", "each=1"}, "SLURM_NTASKS="),
        ("#SBATCH -n4 --mem=2G", "--replicas 3", {"each=1"}, "SLURM_NTASKS="),
        ("#SBATCH --gpus-per-task=1 -n4", "--gpus 8", {"each=1"}, "SLURM_GPUS_PER_TASK="),
    ],
)
def test_variables_say_only_what_is_true(body: str, line: str, there: set[str], absent: str) -> None:
    words = submitted(body, line).body["command"]
    words = words[: words.index("--")]
    assert there <= set(words) and not any(word.startswith(absent) for word in words)


def test_srun_comes_with_scripts_that_call_it_on_one_host() -> None:
    assert "TENURE_SRUN" in submitted("#SBATCH -n4\nsrun hostname").body["env"]
    assert "TENURE_SRUN" not in submitted("#SBATCH -n4\n# srun hostname\necho srun").body["env"]
    Path("other.sh").write_text("#!/bin/sh\nsrun hostname\n")
    with pytest.raises(
        CliError, match=r"other\.sh line 2: srun: without Slurm below there is a srun for scripts of bash"
    ):
        prepare(options("other.sh"), Lab())


@pytest.mark.parametrize(
    ("body", "line", "env"),
    [
        ("", "", {"PATH": "/bin", "LANG": "C"}),
        ("#SBATCH --export=NONE", "", {}),
        ("#SBATCH --export=OWN,A=1,MISSING", "", {"OWN": "x\ny", "A": "1"}),
        ("#SBATCH --export=ALL", "", {"PATH": "/bin", "LANG": "C", "OWN": "x\ny"}),
        (
            "#SBATCH --export=ALL,OWN=z\n#TENURE --env A=2",
            "--env A=3",
            {"PATH": "/bin", "LANG": "C", "OWN": "z", "A": "3"},
        ),
        ("#TENURE --clean-env --env=A=2", "", {"A": "2"}),
    ],
)
def test_environments(body: str, line: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name != "PYTEST_CURRENT_TEST":
            monkeypatch.delenv(name)
    mine = {"PATH": "/bin", "LANG": "C", "OWN": "x\ny", "SLURM_JOB_ID": "7", "TENURE_TOKEN": "secret", "RANK": "3"}
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    made = submitted(body, line).body["env"]
    del made["TENURE_SCRIPT"]
    made.pop("PYTEST_CURRENT_TEST", None)
    assert made == env


@pytest.mark.parametrize(
    ("body", "line", "fields"),
    [
        ("#SBATCH --array=0-7%2", "", {"array": "0-7%2"}),
        ("#SBATCH --array=0-7%2", "-a 1-3", {"array": "1-3"}),
        ("#SBATCH --array=0-7%2", "--array 1-3:2", {"array": "1-3:2"}),
        ("#TENURE --array=4,6", "", {"array": "4,6"}),
        ("#SBATCH -d afterok:3:4_1,afterany:5", "", {"after_ok": ["3", "4_1"], "after_any": ["5"]}),
        ("#SBATCH --dependency=afterok:3_*", "", {"after_ok": ["3"]}),
        ("#SBATCH -d afterok:3", "--dependency afterok:9", {"after_ok": ["9"]}),
        ("#SBATCH -d afterok:3", "--after-ok 7,8_1 --after-any 9", {"after_ok": ["7", "8_1"], "after_any": ["9"]}),
        ("#TENURE --after-ok=1 --after-ok=2,3", "", {"after_ok": ["1", "2", "3"]}),
    ],
)
def test_arrays_and_what_is_waited_for(body: str, line: str, fields: dict[str, Any]) -> None:
    made = submitted(body, line).body
    assert {name: made[name] for name in ("array", "after_ok", "after_any") if name in made} == fields


def test_a_command_takes_dependencies_of_sbatch() -> None:
    made = prepare(options("-d afterok:3,afterany:4 --array 0-3 true"), Lab())
    assert (made.body["after_ok"], made.body["after_any"], made.body["array"]) == (["3"], ["4"], "0-3")
    assert made.origins["after_ok"] == "--dependency=afterok:3,afterany:4 (command line)"


def test_wrap_is_a_script_of_sh() -> None:
    made = prepare(options("--gpus 2 --time 5 --wrap 'echo $HOME; true'"), Lab())
    assert made.body["env"]["TENURE_SCRIPT"] == "#!/bin/sh\necho $HOME; true\n"
    assert (made.body["name"], made.body["gpus"], made.body["timeout"]) == ("wrap", 2, "5m")
    with pytest.raises(CliError, match="wrap = true: it is the whole script; take job out"):
        prepare(options("--wrap true job"), Lab())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "--output x true",
            "--output = x: it is for batch scripts, and this is a command: `tenure logs` has its output",
        ),
        ("--ntasks-per-node 4 true", "write --replicas, and --launch per-gpu"),
        ("-d singleton true", "--dependency = singleton: names of jobs mean nothing here"),
        ("--gres=disk:1 true", "GPUs are the only resource"),
    ],
)
def test_options_of_sbatch_before_a_command(line: str, says: str) -> None:
    with pytest.raises(CliError) as caught:
        prepare(options(line), Lab())
    assert says in str(caught.value)


def test_a_command_keeps_its_words_and_takes_others_of_sbatch() -> None:
    made = prepare(options("-N 2 -G 4 --nice=5 true -N 3"), Lab())
    assert made.body["command"] == ["true", "-N", "3"]
    assert (made.body["replicas"], made.body["gpus"], made.body["priority"]) == (2, 4, -5)
    assert made.origins["priority"] == "--nice=5 (command line)"


def test_origins_of_job_files_and_commands(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_BUDGET", "lab/speech")
    (here / "job.toml").write_text('command = ["true"]\npriority = 3\ngpus = 2\n')
    made = prepare(options("--gpus 4 job.toml"), Lab())
    assert {name: made.origins[name] for name in ("budget", "gpus", "priority")} == {
        "budget": "TENURE_BUDGET",
        "gpus": "command line",
        "priority": "job.toml",
    }
    assert made.differs == [] and made.body["budget"] == "lab/speech"
    assert prepare(options("--budget lab --priority 1 true"), None).origins == {
        "budget": "command line",
        "priority": "command line",
    }


def test_after_two_dashes_stands_a_command(here: Path) -> None:
    script = here / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert prepare(options("./run.sh"), Lab()).body["env"]["TENURE_SCRIPT"] == "#!/bin/sh\n"
    assert options("-- ./run.sh").script is False


NAMES = st.sampled_from([option.name for option in OPTIONS if option.fate is not Fate.REFUSED])
VALUES = st.one_of(st.none(), st.text(), st.sampled_from(["1", "2", "4G", "gpu:2", "a", "2:00", "lab", "r1"]))


@given(st.lists(st.tuples(NAMES, VALUES)))
def test_any_options_become_fields_or_an_error_with_a_place(given: list[tuple[str, str | None]]) -> None:
    place = Place("job.sh", 3)
    try:
        made = convert(merged(Given(name, value, place) for name, value in given), Lab())
    except ScriptError as error:
        assert error.place == place and error.fix
    else:
        assert all(one.origin for one in made.fields.values())
