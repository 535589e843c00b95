"""The same scripts given to a real sbatch and to us: both understand the same."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from support.slurm import SlurmCluster, cluster
from tenure.scripts import values
from tenure.scripts.convert import convert, merged
from tenure.scripts.errors import ScriptError
from tenure.scripts.lines import read

MINUTE = 60


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=2)


def submitted(slurm: SlurmCluster, text: str) -> dict[str, str]:
    """A held job as scontrol shows it; nothing when sbatch refuses the script."""
    path = slurm.base / "job.sh"
    path.write_text(text)
    command = ("sbatch", "--parsable", "--hold", "--chdir=/tmp", str(path))
    done = subprocess.run(command, env=slurm.env, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return {}
    shown = slurm.run("scontrol", "-o", "show", "job", done.stdout.strip())
    slurm.run("scancel", done.stdout.strip())
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


HEADERS = [
    "",
    "#SBATCH --nodes=2",
    "#SBATCH -N2 -n4 --time=1:30",
    "#SBATCH --ntasks-per-node=4 -t 2-3:4:5",
    "#SBATCH -N2 --ntasks-per-node=4 -c2 --mem=4GB",
    "#SBATCH -n8 --ntasks-per-node=4 --mem=1500K",
    "#SBATCH -n 3 -N 2 --time 90",
    "#SBATCH -N 2 -n 1",
    "#SBATCH --time\n#SBATCH 10",
    "#SBATCH --time=5 --time=7 # the last one counts",
    "#SBATCH --gres=gpu:4 --time=UNLIMITED",
    "#SBATCH --gpus=8 --gpus-per-node=4",
    "#SBATCH --gpus-per-task=1 -n4 --time=0",
    "#SBATCH --mem-per-cpu=2G -c4",
    "#SBATCH --mincpus=8 --mem=4096",
    "#SBATCH -N1-2 --time=1:90:90",
    "#SBATCH --job-name='a#b' --nice=5 --no-requeue --time-min=1:00:00 --time=2:00:00",
    "#SBATCH -Jfoo#bar --nice",
    "#SBATCH --part=gpu --requeue",
    "true\n#SBATCH -N2 --time=10",
    " #SBATCH -N2\n# SBATCH -n2\n\n#SBATCH --time=3",
]


@pytest.mark.parametrize("header", HEADERS)
def test_both_understand_the_same(slurm: SlurmCluster, header: str) -> None:
    text = f"#!/bin/sh\n{header}\ntrue\n"
    real = submitted(slurm, text)
    script = read(text.encode(), "job.sh", {})
    made = convert(merged(script.sbatch), None)
    given = {one.name: one.value or "" for one in script.sbatch}
    size = made.shape
    assert real, "sbatch refuses it"
    assert size.nodes == int(real["NumNodes"].partition("-")[0])
    assert size.tasks == int(real["NumTasks"])
    limit = values.parse_time(given["time"]) if "time" in given else None
    assert values.format_time(limit) == real["TimeLimit"]
    if "time-min" in given:
        assert values.format_time(values.parse_time(given["time-min"])) == real["TimeMin"]
    if "MinMemoryNode" in real and real["MinMemoryNode"] != "0":
        assert size.memory == values.parse_memory(real["MinMemoryNode"])
    if "MinMemoryCPU" in real:
        assert size.memory == values.parse_memory(real["MinMemoryCPU"]) * int(real["MinCPUsNode"])
    if size.cpus is not None:
        assert size.cpus >= int(real["MinCPUsNode"])
    if gpus := re.search(r"gpu:(\d+)", real.get("TresPerNode", "")):
        assert size.gpus == int(gpus[1])
    assert (made.fields["name"].value if "name" in made.fields else "job.sh") == real["JobName"]
    assert (-made.fields["priority"].value if "priority" in made.fields else 0) == int(real["Nice"])
    if "resumable" in made.fields:
        assert made.fields["resumable"].value == (real["Requeue"] == "1")


REFUSED = [
    "#SBATCH --nosuch=1",
    "#SBATCH --tim=5",
    "#SBATCH nodes=2",
    "#SBATCH --nodes = 2",
    "#SBATCH --nice 5",
    "#SBATCH --export= NONE",
    "#SBATCH --time=1h",
    "#SBATCH --time=:5",
    "#SBATCH --mem=1.5G",
    "#SBATCH --mem=4GiB",
    "#SBATCH --nodes=2-1",
    "#SBATCH --nodes=2x",
    "#SBATCH -n0",
    "#SBATCH -c0",
    '#SBATCH --comment "x',
    "#SBATCH : -N2",
    "#SBATCHX -N2",
    "#SBATCH -- -N2",
    "#SBATCH -t",
    "#SBATCH --hold=yes",
    "#SBATCH --mem=1G --mem-per-cpu=1G",
]


@pytest.mark.parametrize("header", REFUSED)
def test_what_sbatch_refuses_is_refused_here(slurm: SlurmCluster, header: str) -> None:
    text = f"#!/bin/sh\n{header}\ntrue\n"
    assert submitted(slurm, text) == {}
    with pytest.raises(ScriptError):
        convert(merged(read(text.encode(), "job.sh", {}).sbatch), None)
