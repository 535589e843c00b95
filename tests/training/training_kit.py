"""Programs that use ``tenure.training``, alone and under a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import tenure

SOURCE = Path(tenure.__file__).parent.parent


def job_env(directory: Path, **more: str) -> dict[str, str]:
    """The variables of a job whose files are in ``directory``."""
    return {
        "TENURE_JOB_ID": "1",
        "TENURE_CHECKPOINT_DIR": str(directory / "checkpoints"),
        "TENURE_CHECKPOINT": str(directory / "checkpoint"),
        "TENURE_WARNING": str(directory / "warning"),
        "TENURE_WARN_SIGNAL": "SIGTERM",
        "TENURE_DONE": str(directory / "done"),
        **more,
    }


def program(text: str, env: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program with ``env`` and little else. Its stdin is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
