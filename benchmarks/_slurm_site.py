"""A real Slurm cluster and a Tenure server on it, below one directory, for the benchmarks of the Slurm executor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # where the clusters of the tests are made

from support.server import TestServer
from support.slurm import SlurmCluster, free_ports, missing

BUDGETS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
_SHARES = (0.3, 0.25, 0.15, 0.15, 0.1, 0.05)

_TENURE_TOML = """budgets = "budgets.toml"

[server]
port = {port}
data_dir = ".tenure"
slow_tick = "5s"
executor = "slurm"

[slurm]
partition = "gpu"
root = "{root}"

[policy]
{policy}

[clusters.main]
min_runtime_floor = "1s"
min_runtime_max = "10m"
default_min_runtime = "5s"
max_grace = "3s"
unallocated_grace = "1s"
kill_timeout = "30s"
every_host = {{ gpus = {gpus}, cpus = {cpus}, memory = "400G" }}
hosts = [{{ name = "{hosts}" }}]
"""


def configure(server: TestServer, cluster: SlurmCluster, policy: str) -> None:
    """Write the configuration of a server on all nodes of ``cluster``, with six budgets."""
    first, last = cluster.names[0][4:], cluster.names[-1][4:]
    server.config.write_text(
        _TENURE_TOML.format(
            port=free_ports(1),  # the same after a restart, for those who are asking
            root=server.directory / "shared",
            policy=policy,
            gpus=cluster.gpus,
            cpus=cluster.cpus,
            hosts=f"node[{first}-{last}]",
        )
    )
    lines = ["[lab]", ""]
    for name, share in zip(BUDGETS, _SHARES, strict=True):
        lines += [f"[lab.{name}]", f"share = {share}", ""]
    (server.directory / "budgets.toml").write_text("\n".join(lines))


@contextmanager
def site(
    base: Path, nodes: int, policy: str = "", conf: Sequence[str] = ()
) -> Iterator[tuple[SlurmCluster, TestServer]]:
    """Both up and running; both ended afterwards, whatever happened. Exits where there is no Slurm."""
    if why := missing():
        sys.exit(f"no Slurm cluster can be brought up here: {why}")
    cluster = SlurmCluster(base / "slurm", nodes, conf="\n".join(conf))
    directory = base / "tenure"
    directory.mkdir(parents=True)
    server = TestServer(directory, extra_env={"SLURM_CONF": str(cluster.conf_file)})
    try:
        cluster.up()
        configure(server, cluster, policy)
        server.start()
        yield cluster, server
    finally:
        process = getattr(server, "process", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        cluster.down()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / int(subprocess.run(["getconf", "CLK_TCK"], capture_output=True, text=True, check=True).stdout)
