"""What the processes of an attempt are given: their environment, as documented in ``docs/jobs.md``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.executors import procs
from tenure.executors.base import ArrayPart, Launch, ReplicaLaunch
from tenure.executors.files import AttemptFiles

PER_GPU = "per-gpu"
MASTER_ADDR = "127.0.0.1"
_TORCHRUN_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")

_NOT_INHERITED = (
    # The server's own settings and secrets, and what an outer launcher said about the server itself.
    "TENURE_",
    "PET_",
    "TORCHELASTIC_",
    "SLURM_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    # What a service manager said to the server.
    "NOTIFY_SOCKET",
    "LISTEN_",
    "WATCHDOG_",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_",
    "CREDENTIALS_DIRECTORY",
)


def inherited(server_env: Mapping[str, str]) -> dict[str, str]:
    """The part of the server's environment that jobs get: everything that is not about the server itself.

    A name ending in ``_`` in the list above stands for all that begin with it.
    """
    exact = {name for name in _NOT_INHERITED if not name.endswith("_")}
    prefixes = tuple(name for name in _NOT_INHERITED if name.endswith("_"))
    return {name: value for name, value in server_env.items() if name not in exact and not name.startswith(prefixes)}


def render(
    launch: Launch, directory: Path, server_env: Mapping[str, str], master_addr: str = MASTER_ADDR
) -> dict[str, Any]:
    """The content of ``launch.json``: everything the supervisor needs.

    The user's variables win over inherited ones and over the launcher family (``PET_*``, ``MASTER_*``); the
    ``TENURE_*`` variables and the GPUs win over the user's. The supervisor adds MASTER_PORT and
    TENURE_PROTECTED_UNTIL.
    """
    tag = procs.new_tag()
    common = {
        **inherited(server_env),
        "MASTER_ADDR": master_addr,
        "PET_NNODES": str(len(launch.replicas)),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": launch.attempt_id,
        "PET_SIGNALS_TO_HANDLE": signals_to_handle(launch.warn_signal),
        **launch.env,
        **_ours(launch, AttemptFiles(directory)),
        **procs.tag_environment(tag),
    }
    return {
        "attempt_id": launch.attempt_id,
        "tag": tag,
        "at": procs.boottime_ms(),
        "boot": procs.boot_id(),
        "workdir": launch.workdir or _home(),
        "protected_for": launch.protected_for,
        "env": common,
        "processes": _processes(launch),
    }


def _home() -> str:
    """Where jobs start that do not say; a user without a home, as in containers, has the root."""
    try:
        return str(Path.home())
    except RuntimeError:
        return "/"


def signals_to_handle(warn_signal: str) -> str:
    """What torchrun passes on to its workers."""
    return ",".join(dict.fromkeys((*_TORCHRUN_SIGNALS, warn_signal)))


def _ours(launch: Launch, attempt: AttemptFiles) -> dict[str, str]:
    return {
        "TENURE_JOB_ID": str(launch.job_id),
        "TENURE_JOB_NAME": launch.name,
        "TENURE_USER": launch.user,
        "TENURE_CLUSTER": launch.cluster,
        "TENURE_BUDGET": launch.budget,
        "TENURE_ATTEMPT_ID": launch.attempt_id,
        "TENURE_ATTEMPT": str(launch.number),
        "TENURE_RESTART_COUNT": str(launch.restart_count),
        "TENURE_PROTECTED_FOR": str(launch.protected_for // 1000),
        "TENURE_CHECKPOINT_DIR": str(attempt.directory.parent / "checkpoints"),
        "TENURE_CHECKPOINT": str(attempt.checkpoint),
        "TENURE_WARNING": str(attempt.warning),
        "TENURE_WARN_SIGNAL": launch.warn_signal,
        "TENURE_DONE": str(attempt.done),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **of_array(launch.array),
    }


def of_array(part: ArrayPart | None) -> dict[str, str]:
    if part is None:
        return {}
    values = {
        "ID": part.id,
        "INDEX": part.index,
        "COUNT": part.count,
        "MIN": part.first,
        "MAX": part.last,
        "STEP": part.step,
    }
    return {f"TENURE_ARRAY_{name}": str(value) for name, value in values.items()}


def _processes(launch: Launch) -> list[dict[str, Any]]:
    world = sum(_local_world(replica) for replica in launch.replicas)
    processes, rank = [], 0
    for replica in sorted(launch.replicas, key=lambda one: one.node_rank):
        local_world = _local_world(replica)
        env = _replica_environment(replica, launch.env)
        label = f"replica {replica.replica} of role {replica.role}"
        if launch.launch != PER_GPU:
            processes.append(_entry(replica, label, env))
            continue
        for local_rank in range(local_world):
            ranks = {
                "RANK": rank,
                "WORLD_SIZE": world,
                "LOCAL_RANK": local_rank,
                "LOCAL_WORLD_SIZE": local_world,
                "GROUP_RANK": replica.node_rank,
            }
            more = {name: str(value) for name, value in ranks.items()}
            processes.append(_entry(replica, f"{label}, rank {rank}", {**env, **more}))
            rank += 1
    return processes


def _entry(replica: ReplicaLaunch, label: str, env: dict[str, str]) -> dict[str, Any]:
    return {"node_rank": replica.node_rank, "label": label, "command": list(replica.command), "env": env}


def _replica_environment(replica: ReplicaLaunch, user_env: Mapping[str, str]) -> dict[str, str]:
    launcher = {
        "PET_NODE_RANK": str(replica.node_rank),
        "PET_NPROC_PER_NODE": str(_local_world(replica)),
    }
    return {
        **{name: value for name, value in launcher.items() if name not in user_env},
        "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in replica.gpus),
        "TENURE_ROLE": replica.role,
        "TENURE_REPLICA": str(replica.replica),
        "TENURE_HOST": replica.host,
    }


def _local_world(replica: ReplicaLaunch) -> int:
    """Ranks on this replica: one for each GPU; a replica without GPUs is one rank."""
    return max(1, len(replica.gpus))
