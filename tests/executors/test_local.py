"""The executor of local processes keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest
from executor_contract import ExecutorContract, ExecutorMaker

from tenure.executors.local import LocalExecutor


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def new_executor(self, tmp_path: Path) -> ExecutorMaker:
        return lambda: LocalExecutor(tmp_path / "runs")
