"""Real torchrun on CPUs: two replicas find each other through the environment alone."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from executor_contract import kill_all
from executor_kit import Line, Watched, launch_of, order, replica

from tenure.executors.local import LocalExecutor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed (pip install 'tenure[torch]'): real torchrun was NOT tried",
    ),
]

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item():.0f}", flush=True)
dist.destroy_process_group()
"""

CHECKPOINTS = """
import os, signal, sys, torch.distributed as dist
dist.init_process_group("gloo")
def save(number, frame):
    open(os.path.join(os.environ["TENURE_CHECKPOINT_DIR"], f"rank{dist.get_rank()}"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
with open(sys.argv[1], "w") as line: line.write("ready\\n")
while True: signal.pause()
"""


@pytest.mark.parametrize("backend", [(), ("--rdzv-backend=c10d",)])
def test_an_all_reduce_over_two_replicas_of_two_workers(tmp_path: Path, backend: tuple[str, ...]) -> None:
    script = tmp_path / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    replicas = [replica((*TORCHRUN, *backend, str(script)), rank, (2 * rank, 2 * rank + 1)) for rank in (0, 1)]
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    watched.executor.start(launch_of(replicas=replicas, env={"OMP_NUM_THREADS": "1"}))
    report = watched.ended()
    assert report.exit_codes == (0, 0), watched.log(0, "stderr")
    said = (watched.log(0) + watched.log(1)).splitlines()
    assert sorted(said) == [f"rank {rank} of 4: 10" for rank in range(4)]
    kill_all(watched)


def test_per_gpu_ranks_without_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    replicas = [replica((sys.executable, str(script)), rank, (rank,)) for rank in (0, 1)]
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    watched.executor.start(launch_of(replicas=replicas, launch="per-gpu", env={"OMP_NUM_THREADS": "1"}))
    report = watched.ended()
    assert report.exit_codes == (0, 0), watched.log(0, "stderr")
    assert watched.log(0) + watched.log(1) == "rank 0 of 2: 3\nrank 1 of 2: 3\n"
    kill_all(watched)


def test_workers_save_when_torchrun_is_warned(tmp_path: Path) -> None:
    script, line = tmp_path / "train.py", Line(tmp_path / "line")
    script.write_text(CHECKPOINTS)
    replicas = [replica((*TORCHRUN, str(script), str(line)), rank, (rank,)) for rank in (0, 1)]
    watched = Watched(LocalExecutor(tmp_path / "runs"))
    launch = launch_of(replicas=replicas, env={"OMP_NUM_THREADS": "1"})
    watched.executor.start(replace(launch, warn_signal="SIGUSR1"))
    assert [line.hear(), line.hear()] == ["ready", "ready"]
    watched.executor.stop(order(warn_signal="SIGUSR1"))
    watched.ended()
    saved = sorted(path.name for path in (tmp_path / "runs" / "1" / "checkpoints").iterdir())
    assert saved == ["rank0", "rank1"]
    kill_all(watched)
    line.close()
