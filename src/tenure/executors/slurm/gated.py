"""Who gives commands to Slurm: the newest leader, of one server."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from tenure.executors import procs
from tenure.executors.epoch import EpochGate
from tenure.slurm.commands import Become, Commands


class GatedCommands(Commands):
    """Commands of the newest leader only. ``run`` raises StaleEpoch when there is a newer one."""

    def __init__(
        self, gate: EpochGate, folder: Path | None, environment: Mapping[str, str] | None, timeout_s: float
    ) -> None:
        super().__init__(folder, environment, timeout_s)
        self._gate = gate

    def run(
        self,
        program: str,
        *arguments: str,
        stdin: str = "",
        timeout_s: float | None = None,
        become: Become | None = None,
    ) -> str:
        with self._gate.command():
            return super().run(program, *arguments, stdin=stdin, timeout_s=timeout_s, become=become)


def instance_of(root: Path) -> str:
    """What marks the jobs of this server in Slurm, where another Tenure may be at work as well."""
    path = root / "instance.json"
    content = procs.read_json(path)
    if content is None:
        content = {"instance": secrets.token_hex(4)}
        procs.write_json(path, content)
    return str(content["instance"])
