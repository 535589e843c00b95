"""A Slurm cluster with accounting for tests: slurmdbd and MariaDB of its own beside it, on loopback.

Needs Debian's ``slurmdbd``, ``slurm-wlm-mysql-plugin``, ``mariadb-server-core`` and ``mariadb-client-core`` as well:
packages without services, so that nothing of the system's is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_ports
from support.slurm import PATIENCE_S, SlurmCluster, missing

HOW = "apt-get install --no-install-recommends slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core"
_SLURMDBD = """AuthType=auth/munge
AuthInfo=socket={base}/run/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
CommunicationParameters=NoInAddrAny
SlurmUser=root
PidFile={base}/run/slurmdbd.pid
LogFile={base}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""
_USER = "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; GRANT ALL ON slurm.* TO slurm@'127.0.0.1'"


def accounting_missing() -> str:
    """Why there can be no accounting here, or ''."""
    lacking = [name for name in ("slurmdbd", "mariadbd", "mariadb", "mariadb-install-db") if shutil.which(name) is None]
    return f"no {', '.join(lacking)}: {HOW}" if lacking else ""


class AccountedCluster(SlurmCluster):
    """As SlurmCluster, with ``sacctmgr`` and all that goes with it."""

    def __init__(
        self, base: Path, nodes: int = 4, gpus: int = 8, cpus: int = 64, conf: str = "", *, anybodys: bool = False
    ) -> None:
        self._database = free_ports(2)
        self._port = self._database + 1
        lines = (
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self._port}",
            f"AccountingStoragePass={base.resolve()}/run/munge/socket",
            "AccountingStorageTRES=gres/gpu",
        )
        super().__init__(base, nodes, gpus, cpus, "\n".join([*lines, *([conf] if conf else [])]), anybodys=anybodys)
        self._started: list[subprocess.Popen[bytes]] = []

    def start_controller(self) -> None:
        """slurmctld registers with the database when it starts, so that comes first."""
        if not self._started:
            self._start_database()
            self._start_slurmdbd()
            self.run("sacctmgr", "-i", "add", "cluster", "tenure")
        super().start_controller()

    def down(self) -> None:
        super().down()
        for process in reversed(self._started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def _start_database(self) -> None:
        data = self.base / "mariadb"
        making = ("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db")
        more = ("--auth-root-authentication-method=normal", "--skip-name-resolve")
        made = subprocess.run((*making, *more), check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        assert made.returncode == 0, made.stdout + made.stderr
        # Paths of sockets are short.
        sock = self.base / "run" / "db"
        self._spawn(
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={sock}"),
            *("--bind-address=127.0.0.1", f"--port={self._database}", "--skip-name-resolve"),
            *("--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={data}/pid"),
        )
        self._wait(lambda: _listens(self._database), "MariaDB listens")
        asking = ("mariadb", "--no-defaults", f"--socket={sock}", "--user=root", "-e", _USER)
        subprocess.run(asking, check=True, capture_output=True, timeout=PATIENCE_S)

    def _start_slurmdbd(self) -> None:
        file = self.base / "etc" / "slurmdbd.conf"
        file.write_text(_SLURMDBD.format(base=self.base, port=self._port, database=self._database))
        file.chmod(0o600)
        # slurmdbd reads the slurmdbd.conf that lies beside slurm.conf.
        self._spawn("slurmdbd", "-D")
        self._wait(lambda: _listens(self._port), "slurmdbd listens")

    def _spawn(self, *command: str) -> None:
        with (self.base / "log" / f"{command[0]}.out").open("ab") as out:
            self._started.append(
                subprocess.Popen(command, env=self.env, stdout=out, stderr=out, start_new_session=True)
            )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def accounted(base: Path, nodes: int = 4, conf: str = "", *, anybodys: bool = False) -> Iterator[AccountedCluster]:
    """For fixtures, as ``support.slurm.cluster``."""
    why = missing() or accounting_missing()
    if why:
        (pytest.fail if os.environ.get("CI") and os.geteuid() == 0 else pytest.skip)(why)
    made = AccountedCluster(base, nodes, conf=conf, anybodys=anybodys)
    try:
        made.up()
        yield made
    finally:
        made.down()
