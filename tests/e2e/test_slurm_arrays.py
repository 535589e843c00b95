"""Arrays and dependencies where Slurm runs the jobs: each job of an array is a job in Slurm by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import TestServer
from support.slurm import SlurmCluster, cluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=1)


@pytest.fixture
def server(slurm: SlurmCluster, tmp_path: Path) -> Iterator[TestServer]:
    server = TestServer(tmp_path, extra_env={"SLURM_CONF": str(slurm.conf_file)})
    text = server.config.read_text().replace('slow_tick = "5s"', 'slow_tick = "5s"\nexecutor = "slurm"')
    text = text.replace("[policy]", '[slurm]\npartition = "gpu"\nroot = "shared"\n\n[policy]', 1)
    server.config.write_text(text.replace("n[1-2]", "node001"))
    server.start()
    yield server
    server.end()


def test_a_pipeline_of_batch_scripts(server: TestServer, slurm: SlurmCluster) -> None:
    (server.directory / "train.sh").write_text(
        "#!/bin/bash\n#SBATCH --array=1-5:2%2 --output=o-%A_%a\n"
        "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_STEP\n"
        "echo in slurm $SLURM_JOB_ID\n"
    )
    first = server.cli("sbatch", "--parsable", "-A", "language", "train.sh").stdout.strip()
    then = server.cli(
        "sbatch", "--parsable", "-A", "language", f"--dependency=afterok:{first}", "--wrap", f"cat o-{first}_*"
    ).stdout.strip()
    server.cli("wait", first, then)
    lines = server.cli("logs", then).stdout.splitlines()
    assert lines[::2] == [f"{first} {index} 3 2" for index in (1, 3, 5)]
    ids = {line.split()[-1] for line in lines[1::2]}
    assert len(ids) == 3, "three jobs in Slurm"
