"""Command lines: other schedulers' words, options as requests, exit codes, and a quick start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.text import Text

from tenure.api.models import JobView
from tenure.cli.aliases import translate
from tenure.cli.app import app
from tenure.cli.errors import CliError
from tenure.cli.follow import exit_code
from tenure.cli.options import PASSED, JobOptions


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("squeue --me", "ls --slurm --me"),
        (
            "squeue -u ann -tPD,R -p main -h --format=%i",
            "ls --slurm --user ann --state PD,R --cluster main --no-header --format %i",
        ),
        ("squeue -j 3,4 -a", "ls --slurm --job 3,4"),
        ("squeue --bogus -t", "ls --slurm --bogus --state"),
        ("sinfo -N -p main", "hosts --slurm --by-host --cluster main"),
        ("sinfo -R -h", "hosts --slurm --out-of-service --no-header"),
        (
            "sacct -X -S 2026-10-01 -o jobid,state -P -n",
            "history --since 2026-10-01 --format jobid,state --parsable --no-header",
        ),
        ("sacct -j 12 -D -a --json", "history --job 12 --runs --everybody --json"),
        ("ps", "ls"),
        ("kill 3", "cancel 3"),
        ("scancel 3 4", "cancel 3 4"),
        ("sinfo", "hosts --slurm"),
        ("--url http://x squeue", "--url http://x ls --slurm"),
        ("sbatch -N2 --gres=gpu:a100:8 -t 2h run.sh", "submit --replicas 2 --gpus 8 --timeout 2h run.sh"),
        ("srun -n 4 -G 1 -A lab true", "run --replicas 4 --gpus 1 --budget lab true"),
        ("submit --time=1-00:00:00 -J x true -N 3", "submit --timeout 1-00:00:00 --name x true -N 3"),
        ("submit --gres gpu true", "submit --gpus 1 true"),
        ("submit --gres=disk:1 true", "submit --sbatch gres=disk:1 true"),
        ("sbatch --parsable --nice=5 --exclusive true", "submit --quiet --sbatch nice=5 --sbatch exclusive true"),
        (
            "sbatch -N2 --gpus 8 -t 5 --wrap hostname",
            "submit --sbatch nodes=2 --gpus 8 --sbatch time=5 --wrap hostname",
        ),
        ("sbatch -J x", "submit --sbatch job-name=x --script -"),
        ("submit -J x -", "submit --sbatch job-name=x --script -"),
        ("sbatch --help", "submit --help"),
        ("sbatch -q high -e err -g 2 true", "submit --sbatch qos=high --sbatch error=err -g 2 true"),
        ("submit -q -e A=1 true", "submit -q -e A=1 true"),
        ("submit --requeue --hold -q -- ls -t 3", "submit --resumable --hold -q -- ls -t 3"),
        ("submit --gpus", "submit --gpus"),
        ("show 3 -t", "show 3 -t"),
        ("", ""),
    ],
)
def test_words_of_other_schedulers(given: str, meant: str) -> None:
    assert translate(given.split()) == meant.split()


def request(**options: Any) -> dict[str, Any]:
    return JobOptions(words=["true"], **options).request()


def test_options_become_the_request_that_the_server_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in PASSED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/bin")
    body = request(
        budget="lab",
        gpus="8",
        replicas="2",
        mem="64G",
        min_runtime="2h",
        resumable=True,
        cluster=["a,b", "c"],
        require=["rack=r1"],
        prefer=["zone"],
        env=["A=1=2", "PATH"],
        warn_signal="usr1",
        priority="-5",
    )
    assert body == {
        "command": ["true"],
        "budget": "lab",
        "gpus": 8,
        "replicas": 2,
        "memory": "64G",
        "min_runtime": "2h",
        "resumable": True,
        "clusters": ["a", "b", "c"],
        "labels": [{"key": "rack", "value": "r1", "required": True}, {"key": "zone", "value": None, "required": False}],
        "env": {"PATH": "/bin", "A": "1=2"},
        "warn_signal": "SIGUSR1",
        "priority": -5,
        "workdir": str(tmp_path),
    }


def test_what_is_no_number_goes_to_the_server_as_it_is() -> None:
    assert request(gpus="0.5")["gpus"] == "0.5" and request(gpus="eight")["gpus"] == "eight"


def test_variables_of_the_shell_are_passed_unless_they_are_not_wanted() -> None:
    assert request()["env"]["PATH"] == os.environ["PATH"]
    assert request(clean_env=True)["env"] == {}
    with pytest.raises(CliError, match="it is not set here"):
        request(env=["NO_SUCH_VARIABLE_HERE"])


def test_a_job_file_may_have_several_roles_and_options_go_over_it(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        'budget = "lab"\nworkdir = "code"\nmin_runtime = "2h"\npriority = 1\nlimit = 2026-10-09\n[env]\nA = "1"\n'
        '[[roles]]\nname = "a"\ngpus = 8\ncommand = ["true"]\n[[roles]]\nname = "b"\ncommand = ["false"]\n'
    )
    body = JobOptions(words=[str(path)], priority="5", clean_env=True, env=["B=2"]).request()
    assert [role["name"] for role in body["roles"]] == ["a", "b"] and "command" not in body
    assert body["workdir"] == str(tmp_path / "code") and body["priority"] == 5 and body["min_runtime"] == "2h"
    assert body["env"] == {"A": "1", "B": "2"} and body["limit"] == "2026-10-09"
    path.write_text("[")
    with pytest.raises(CliError, match=r"job\.toml: not TOML"):
        JobOptions(words=[str(path)]).request()


def test_a_script_of_this_directory_is_found_and_must_be_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(CliError, match=r"bash train\.sh"):
        JobOptions(words=["train.sh"]).request()
    script.chmod(0o755)
    assert JobOptions(words=["train.sh", "-x"]).request()["command"] == [str(script), "-x"]


@pytest.mark.parametrize("label", ["=r1", "rack="])
def test_labels_without_key_or_value(label: str) -> None:
    with pytest.raises(CliError, match="KEY=VALUE"):
        request(require=[label])


def job(state: str, code: int | None) -> JobView:
    return JobView.model_construct(state=state, exit_code=code)


@pytest.mark.parametrize(
    ("state", "code", "of_wait", "of_run"),
    [
        ("succeeded", 0, 0, 0),
        ("failed", 7, 1, 7),
        ("failed", -9, 1, 137),
        ("failed", 256, 1, 1),
        ("failed", None, 1, 1),
        ("cancelled", -15, 5, 5),
        ("preempted", None, 5, 5),
        ("timed_out", None, 5, 5),
    ],
)
def test_exit_codes(state: str, code: int | None, of_wait: int, of_run: int) -> None:
    assert exit_code(job(state, code)) == of_wait
    assert exit_code(job(state, code), own=True) == of_run


def test_the_version_needs_nothing_that_is_slow_to_import() -> None:
    code = (
        "import sys; sys.argv = ['tenure', '--version']\n"
        "from tenure.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "slow = {'typer', 'rich', 'pydantic', 'httpx', 'fastapi', 'sqlalchemy'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tenure ")


def test_reading_the_command_line_imports_neither_client_nor_server() -> None:
    code = (
        "import sys\nfrom tenure.cli.main import run\nassert run(['--help']) == 0\n"
        "slow = {'pydantic', 'httpx', 'fastapi', 'sqlalchemy', 'textual'} & set(sys.modules)\nassert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_has_a_help_text_and_is_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert command.callback.__doc__, name
        assert f"tenure {name}" in text, f"docs/cli.md does not have {name}"
    for group in app.registered_groups:
        assert f"tenure {group.name}" in text


def _options(command: Any, words: tuple[str, ...] = ()) -> Any:
    yield from ((words, parameter) for parameter in command.params)
    for name, child in getattr(command, "commands", {}).items():
        yield from _options(child, (*words, name))


def test_no_help_loses_what_it_says_in_brackets() -> None:
    """rich takes [default] for markup and swallows it, unless it is written \\[default]."""
    for words, parameter in _options(typer.main.get_command(app)):
        said = getattr(parameter, "help", None) or ""
        shown = Text.from_markup(said).plain
        assert shown == said.replace("\\[", "["), f"tenure {' '.join(words)}: {parameter.name}"
