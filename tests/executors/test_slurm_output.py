"""Which file is shown as the output of a job that its user has submitted: its name is the user's choice."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest

from tenure.executors import procs
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import native
from tenure.executors.slurm.native import Released


def shown(directory: Path, output: Path, uid: int) -> str:
    procs.write_json(directory / native.RELEASED, asdict(Released(0, 0, str(output), str(output), uid)))
    return native.log_path(AttemptFiles(directory), "stdout")


def test_a_file_of_its_users_own_is_shown_and_nobody_elses(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the server")
    assert shown(tmp_path, secret, os.getuid()) == str(secret)
    assert shown(tmp_path, secret, os.getuid() + 1) == ""
    assert shown(tmp_path, secret, -1) == ""  # an attempt from before it was written down


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "missing"])
def test_what_is_no_plain_file_is_not_shown(tmp_path: Path, kind: str) -> None:
    output = tmp_path / "output"
    if kind == "link":
        (tmp_path / "secret").touch()
        output.symlink_to(tmp_path / "secret")
    elif kind == "fifo":
        os.mkfifo(output)
    elif kind == "directory":
        output.mkdir()
    assert shown(tmp_path, output, os.getuid()) == ""


def test_a_job_of_tenures_own_has_its_output_elsewhere(tmp_path: Path) -> None:
    assert native.log_path(AttemptFiles(tmp_path), "stdout") == ""
