"""GPUs through NVML, against a library built for the test; each question is asked by a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.fake_nvml import build_fake_nvml

ASK = """
import dataclasses, json, sys
from pathlib import Path
from tenure.executors import nvml
from tenure.executors.local import LocalExecutor
(host,) = LocalExecutor(Path(sys.argv[1])).discover()
print(json.dumps({
    "gpus": [dataclasses.asdict(gpu) for gpu in nvml.discover_gpus()],
    "activity": nvml.read_activity(),
    "host": [host.gpus, host.gpu_names],
}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fake_nvml(tmp_path_factory.mktemp("nvml")).parent


def ask(root: Path, library: Path, **settings: str) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": str(library), **settings}
    run = subprocess.run(
        [sys.executable, "-c", ASK, str(root)], env=env, check=True, capture_output=True, text=True, timeout=120
    )
    found = json.loads(run.stdout)
    assert isinstance(found, dict)
    return found


def test_gpus_are_found_with_name_uuid_and_memory(tmp_path: Path, library: Path) -> None:
    found = ask(tmp_path, library, FAKE_NVML_COUNT="8")
    assert [gpu["index"] for gpu in found["gpus"]] == list(range(8))
    assert found["gpus"][3] == {
        "index": 3,
        "name": "Fake GPU 3",
        "uuid": "GPU-00000000-0000-0000-0000-000000000003",
        "mem": 80 * 1024,
        "fault": "",
    }
    assert found["activity"] == [10, 20, 30, 40, 50, 60, 70, 80]
    assert found["host"] == [8, [f"Fake GPU {index}" for index in range(8)]]


def test_nvml_is_shut_down_as_often_as_it_is_initialised(tmp_path: Path, library: Path) -> None:
    log = tmp_path / "log"
    ask(tmp_path, library, FAKE_NVML_LOG=str(log))
    assert log.read_text().splitlines() == ["init", "shutdown"] * 3


def test_a_lost_gpu_keeps_its_place(tmp_path: Path, library: Path) -> None:
    found = ask(tmp_path, library, FAKE_NVML_COUNT="3", FAKE_NVML_LOST="1")
    assert [gpu["name"] for gpu in found["gpus"]] == ["Fake GPU 0", "", "Fake GPU 2"]
    assert "lost" in found["gpus"][1]["fault"].lower()
    assert found["activity"] == [10, None, 30]
    assert found["host"][1][1].startswith("unavailable (")


@pytest.mark.parametrize("settings", [{"FAKE_NVML_INIT": "9"}, {"FAKE_NVML_COUNT": "0"}])
def test_without_a_driver_or_a_gpu_there_are_none(tmp_path: Path, library: Path, settings: dict[str, str]) -> None:
    assert ask(tmp_path, library, **settings) == {"gpus": [], "activity": [], "host": [0, []]}


def test_without_the_library_there_are_no_gpus(tmp_path: Path) -> None:
    # A file that is no library hides a real one that this machine may have.
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert ask(tmp_path, tmp_path) == {"gpus": [], "activity": [], "host": [0, []]}
