"""What runs on each node of a Slurm job: the supervisor of that node's replicas, if an attempt is to run now.

Standard library only, like the supervisor. The script of a job outlives its attempts, and anybody who may release
the job in Slurm may start it: so ``go.json``, written by the executor, says which attempt is to run, and on how many
nodes. What has begun before does not begin again.
"""

from __future__ import annotations

import os
from pathlib import Path

from tenure.executors import procs, supervisor
from tenure.executors.files import EXITED, AttemptFiles

GO = "go.json"
_HANDED_ON = (
    "SLURM_CLUSTER_NAME",
    "SLURM_CONF",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_RESTART_COUNT",
    "SLURMD_NODENAME",
)
"""Of Slurm's variables jobs get these. The others describe the one task on each node, which is not the job's."""


def directory_of(attempt: Path, host: str) -> Path:
    """Where the supervisor of one host of an attempt has its files."""
    return attempt / "nodes" / host


def main(job_directory: str) -> int:
    """Returns the exit code for Slurm's own records: of the first replica that failed here, else 0."""
    go = procs.read_json(Path(job_directory) / GO)
    host = os.environ["SLURMD_NODENAME"]
    part: list[str] = next((hosts for hosts in go["parts"] if host in hosts), []) if go is not None else []
    if go is None or os.environ.get("SLURM_JOB_NUM_NODES") != str(len(part)):
        return 0
    attempt = AttemptFiles(Path(job_directory) / str(go["number"]))
    files = AttemptFiles(directory_of(attempt.directory, host))
    if attempt.status.exists() or files.status.exists() or not files.launch.exists():
        return 0
    supervisor.main(str(files.directory), handed_on())
    status = files.read_status()
    codes = status.exit_codes if status is not None and status.phase == EXITED else ()
    return next((code if code > 0 else 128 - code for code in codes if code), 0) & 255


def handed_on() -> dict[str, str]:
    return {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
