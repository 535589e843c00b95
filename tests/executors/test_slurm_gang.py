"""What the nodes of an attempt have written, as the server reads it."""

from __future__ import annotations

import os
from pathlib import Path

from executor_kit import launch_of, sh

from tenure.executors import files
from tenure.executors.files import AttemptFiles
from tenure.executors.slurm import plan
from tenure.executors.slurm.gang import Gang


def test_an_end_is_seen_that_was_written_in_the_tick_in_which_it_was_seen_to_run(tmp_path: Path) -> None:
    """File systems stamp files by a clock that ticks every few milliseconds; what runs ``true`` takes less."""
    attempt = AttemptFiles(tmp_path / "1" / "1")
    gang = Gang(attempt, plan.plan_of(launch_of(sh("true"))))
    (node,) = gang.nodes.values()
    node.directory.mkdir(parents=True)
    node.write_status(files.RUNNING)
    tick = node.status.stat().st_mtime_ns
    gang.read()
    assert gang.up and not gang.ended()
    node.write_status(files.EXITED, exit_codes=(0,))
    os.utime(node.status, ns=(tick, tick))
    gang.read()
    assert gang.ended()
