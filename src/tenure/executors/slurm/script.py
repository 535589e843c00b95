"""The batch script of a job, as text. It is submitted once and serves all attempts of the job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_SRUN = (
    'srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpu-bind=none'
    " --kill-on-bad-exit=0 --wait=0 --quiet"
)
"""One task on each of several nodes, with all that the job has there. None ends the others: that is left to Tenure."""


def render(job: int, node_command: Sequence[str]) -> str:
    """``node_command`` finds out itself what is to run on its node, if anything.

    What the job's own processes print goes to files of their own: Slurm's output has only its own messages.
    """
    command = shlex.join(node_command)
    return (
        "#!/bin/sh\n"
        f"# Job {job} of Tenure, which decides when and where it runs. Released by anybody else it does nothing.\n"
        # On a single node this script is where it belongs already, and a step would only take time.
        f'[ "$SLURM_JOB_NUM_NODES" = 1 ] && exec {command}\n'
        f"exec {_SRUN} {command}\n"
    )
