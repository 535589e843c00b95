"""The Slurm executor keeps the contract, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_kit
from executor_contract import ExecutorContract, ExecutorMaker

from support.slurm import SlurmCluster, cluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    yield from cluster(tmp_path_factory.mktemp("slurm"), nodes=16)


class TestSlurmExecutor(ExecutorContract):
    @pytest.fixture
    def new_executor(self, tmp_path: Path, slurm: SlurmCluster) -> Iterator[ExecutorMaker]:
        with slurm_kit.nodes_as_hosts(slurm):
            yield lambda: slurm_kit.executor(slurm, tmp_path / "runs")
