"""The table of options: complete beside the real sbatch, consistent with the code, and what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from string import ascii_lowercase

import pytest

from tenure.cli.aliases import OPTIONS as ALIASES
from tenure.cli.aliases import own_options
from tenure.scripts import convert, table
from tenure.scripts.table import BY_NAME, BY_SHORT, OPTIONS, Fate, Takes

PAGE = Path(__file__).parents[2] / "docs" / "sbatch.md"


def test_the_page_shows_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert text.endswith("\n\n" + table.document()), "docs/sbatch.md must end with tenure.scripts.table.document()"


def test_every_option_is_there_once_in_order() -> None:
    names = [option.name for option in OPTIONS]
    assert names == sorted(names)
    assert len(BY_NAME) == len(names) + sum(len(option.aliases) for option in OPTIONS)
    assert len(BY_SHORT) == sum(bool(option.short) for option in OPTIONS)
    assert all(option.text and not option.text.endswith(".") for option in OPTIONS)


def test_what_is_honoured_or_mapped_is_done_and_nothing_else() -> None:
    done = set(convert._HANDLERS) | convert.ELSEWHERE
    assert done == {option.name for option in OPTIONS if option.fate in (Fate.HONOURED, Fate.MAPPED)}


def test_texts_name_options_that_exist() -> None:
    ours, _ = own_options()
    for option in OPTIONS:
        for name in re.findall(r"--([a-z][a-z-]+)", option.text):
            assert name in BY_NAME or name in ours or name == "nv", f"{option.name}: --{name}"


def test_words_of_the_command_line_are_options_of_sbatch_too() -> None:
    """So a word means nothing else in a script: only those of other schedulers are not in the table."""
    others = {"walltime", "gpus-per-replica", "memory", "project", "queue"}
    longs = {name[2:] for name in ALIASES if name.startswith("--")}
    assert longs - set(BY_NAME) == others
    assert {name[1:] for name in ALIASES if not name.startswith("--")} <= set(BY_SHORT)


@pytest.fixture(scope="module")
def sbatch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a real sbatch: it prints its help only with a configuration."""
    if shutil.which("sbatch") is None:
        pytest.skip("no sbatch here: apt-get install --no-install-recommends slurm-client")
    conf = tmp_path_factory.mktemp("conf") / "slurm.conf"
    conf.write_text("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n")
    return {**os.environ, "SLURM_CONF": str(conf)}


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ("sbatch", *arguments), env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout + done.stderr


def test_the_help_of_the_real_one_has_no_other_option(sbatch: dict[str, str]) -> None:
    text = run(sbatch, "--help") + run(sbatch, "--usage")
    described = re.findall(r"^ +(?:(-\w), +|(-\w) +)?--([a-z-]+)(\[?=)?", text, re.MULTILINE)
    assert len(described) > 90
    for one, other, name, takes in described:
        assert name in BY_NAME, name
        if one or other:
            assert BY_NAME[name].short == (one or other)[1:], name
        if takes == "[=":
            # --export and --wrap are shown so, and need a value.
            assert BY_NAME[name].takes is Takes.MAYBE or name in ("export", "wrap"), name
    assert not set(re.findall(r"--([a-z][a-z-]+)", text)) - set(BY_NAME)


def test_the_real_one_knows_no_other_option_even_without_describing_it(sbatch: dict[str, str]) -> None:
    """A name that begins several options makes getopt list them all."""
    found: set[str] = set()
    for first in ascii_lowercase:
        said = run(sbatch, f"--{first}")
        found |= set(re.findall(r"'--([a-z-]{2,})'", said))
    assert len(found) > 100
    assert found <= set(BY_NAME)


def test_the_real_one_agrees_on_what_there_is_and_what_takes_a_value(sbatch: dict[str, str]) -> None:
    if " 22.05" not in run(sbatch, "--version"):
        pytest.skip("what is newer is said in relation to 22.05")
    different = []
    for option in OPTIONS:
        said = run(sbatch, f"--{option.name}=x", "--no-such")
        begins_another = any(name.startswith(option.name) and name != option.name for name in BY_NAME)
        if ("unrecognized option '--" + option.name in said) != option.newer and not begins_another:
            different.append(f"{option.name}: newer is {option.newer}, and sbatch says {said}")
        if option.newer or option.name == "requeue":  # newer ones take --requeue=expedite
            continue
        takes = Takes.NOTHING if "doesn't allow an argument" in said else Takes.VALUE
        if takes is Takes.VALUE and "requires an argument" not in run(sbatch, f"--{option.name}"):
            takes = Takes.MAYBE
        if takes is not option.takes:
            different.append(f"{option.name}: takes {takes!r}, not {option.takes!r}")
    assert different == []
