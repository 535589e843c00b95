"""A real Slurm cluster for tests: slurmctld, a slurmd for each node and munge, on loopback, below one directory.

Everything stays in that directory and ends with the cluster. The GPUs are character devices, the jobs real processes.
Needs root (device nodes) and Debian's ``slurmctld``, ``slurmd``, ``slurm-client`` and ``munge``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_ports

HOW = "apt-get install --no-install-recommends slurmctld slurmd slurm-client munge"
PATIENCE_S = 120
"""How long is waited for what must come. Nothing depends on it when all is well."""
_DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
_CONF = """ClusterName=tenure
SlurmctldHost=localhost(127.0.0.1)
SlurmctldAddr=127.0.0.1
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={base}/run/munge/socket
CredType=cred/munge
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool/%n
SlurmctldPidFile={base}/run/slurmctld.pid
SlurmdPidFile={base}/run/slurmd.%n.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,default_queue_depth=10000,max_sched_time=2
PriorityType=priority/basic
PreemptType=preempt/none
JobRequeue=1
MaxJobCount=50000
MinJobAge=3600
KillWait=5
CompleteWait=0
InactiveLimit=0
SlurmdTimeout=60
SlurmctldTimeout=30
BatchStartTimeout=30
MessageTimeout=30
ReturnToService=1
TreeWidth=65533
JobCompType=jobcomp/filetxt
JobCompLoc={base}/log/jobcomp.txt
AccountingStorageType=accounting_storage/none
{more}
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} Boards=1 \
SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={mem} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES DefaultTime=UNLIMITED MaxTime=UNLIMITED OverSubscribe=NO State=UP
"""


def missing() -> str:
    """Why no cluster can be brought up here, or ''."""
    if os.geteuid() != 0:
        return "Slurm is brought up by root only"
    lacking = [name for name in ("slurmctld", "slurmd", "munged", "sbatch", "scontrol") if _program(name) is None]
    return f"no {', '.join(lacking)}: {HOW}" if lacking else ""


def _program(name: str) -> str | None:
    """Debian's emulator takes over the plain names: the real daemons have -wlm in theirs."""
    for found in (f"/usr/sbin/{name}-wlm", f"/usr/sbin/{name}"):
        if os.access(found, os.X_OK):
            return found
    return shutil.which(name)


class SlurmCluster:
    """``nodes`` are named node001 and so on, from ``first`` on.

    ``conf``: more lines of slurm.conf; their keys replace the ones above. ``anybodys``: jobs are not root's alone.
    """

    def __init__(
        self,
        base: Path,
        nodes: int = 4,
        gpus: int = 8,
        cpus: int = 64,
        conf: str = "",
        first: int = 1,
        *,
        anybodys: bool = False,
    ) -> None:
        self.base = base.resolve()
        self.names = [f"node{i:03d}" for i in range(first, first + nodes)]
        self.gpus, self.cpus, self.mem = gpus, cpus, 512_000
        self.conf_file = self.base / "etc" / "slurm.conf"
        self._more = conf
        self._open = anybodys

    @property
    def env(self) -> dict[str, str]:
        """For the clients: sbatch, squeue, scontrol, ..."""
        return {**os.environ, "SLURM_CONF": str(self.conf_file)}

    def run(self, *command: str, check: bool = True) -> str:
        """Output of a client. Raises CalledProcessError."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        if check and done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout

    # ---- up and down

    def up(self) -> None:
        for name in ("sbin", "etc", "state", "spool", "log", "run/munge", "dev"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        for part in (self.base, *(self.base / name for name in ("run", "run/munge"))):
            part.chmod(0o755)
        for name in _DAEMONS:  # argv[0] must be exactly this, or Slurm drops the GPUs without a word
            (self.base / "sbin" / name).symlink_to(_slurmd_program(name))
        self._configure()
        self._start_munge()
        self.start_controller()
        for name in self.names:
            self.start_node(name)
        self._wait(lambda: len(self.idle()) == len(self.names), "all nodes are idle")

    def down(self) -> None:
        """End every process that belongs to it, and nothing else."""
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run(("scancel", "--state=RUNNING"), env=self.env, timeout=10, check=False, capture_output=True)
        deadline = time.monotonic() + PATIENCE_S
        while ours := list(self._ours()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"left behind: {ours}")
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def start_controller(self) -> None:
        self._daemon("slurmctld", "-f", str(self.conf_file))

    def start_node(self, name: str) -> None:
        (self.base / "spool" / name).mkdir(exist_ok=True)
        stepd = str(self.base / "sbin" / "slurmstepd")
        self._daemon("slurmd", "-f", str(self.conf_file), "-N", name, "-d", stepd, before=self._opened())

    def _opened(self) -> tuple[str, ...]:
        """Words before a node's daemon. Its jobs may be anybody's, and pytest's directories are their owner's alone:

        it sees others in their place, empty and open but for the cluster's own.
        """
        if not self._open:
            return ()
        closed = [path for path in reversed(self.base.parents) if not path.stat().st_mode & 0o001]
        if not closed:
            return ()
        mounts = (
            'mount --bind "$2" /mnt && mount -t tmpfs -o mode=755 tmpfs "$1" && mkdir -p "$2" && mount --move /mnt "$2"'
        )
        script = f'{mounts} && shift 2 && exec "$@"'
        return ("unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", str(closed[0]), str(self.base))

    def save(self, job: str) -> None:
        """Wait until slurmctld has written down that ``job`` is as it is now: it does so every few seconds."""
        mark, file = f"saved {time.time_ns()}", self.base / "state" / "job_state"
        self.run("scontrol", "update", f"JobId={job}", f"AdminComment={mark}")
        self._wait(lambda: mark.encode() in _read(str(file)), "slurmctld saves its state")

    def kill_controller(self) -> None:
        """As a power cut would: its last seconds are lost, but for what was ``save``d."""
        os.kill(int((self.base / "run" / "slurmctld.pid").read_text()), signal.SIGKILL)

    def crash_node(self, name: str) -> None:
        """The host is gone: its slurmd, its steps and every process of its jobs."""
        pid_file = self.base / "run" / f"slurmd.{name}.pid"
        pids = {int(pid_file.read_text())}
        log = str(self.base / "log" / f"slurmd.{name}.log")
        for pid in self._ours():
            if f"SLURMD_NODENAME={name}".encode() in _environment(pid) or log in _open_files(pid):
                pids.add(pid)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pid_file.unlink()

    def idle(self) -> list[str]:
        """Nodes that answer, whatever runs on them."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %t", check=False).splitlines()
        return sorted({line.split()[0] for line in lines if line.split()[1] in ("idle", "alloc", "mix")})

    def _wait(self, done: object, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():  # type: ignore[operator]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not after {PATIENCE_S} s; see {self.base / 'log'}")
            time.sleep(0.1)

    def _configure(self) -> None:
        port = free_ports(len(self.names) + 1)
        text = _CONF.format(
            base=self.base,
            port=port,
            first=port + 1,
            last=port + len(self.names),
            nodes=f"node[{self.names[0][4:]}-{self.names[-1][4:]}]",
            cpus=self.cpus,
            mem=self.mem,
            gpus=self.gpus,
            more="",
        )
        mine = {line.partition("=")[0].lower() for line in self._more.splitlines()}
        kept = [line for line in text.splitlines() if line.partition("=")[0].lower() not in mine]
        at = next(i for i, line in enumerate(kept) if line.startswith("NodeName="))
        self.conf_file.write_text("\n".join((*kept[:at], *self._more.splitlines(), *kept[at:])) + "\n")
        (self.base / "etc" / "cgroup.conf").write_text("# not used\n")
        for gpu in range(self.gpus):  # any character device will do: these are like /dev/null
            os.mknod(self.base / "dev" / f"nvidia{gpu}", 0o666 | 0o020000, os.makedev(1, 3))
        devices = f"{self.base}/dev/nvidia[0-{self.gpus - 1}]" if self.gpus > 1 else f"{self.base}/dev/nvidia0"
        nodes = f"node[{self.names[0][4:]}-{self.names[-1][4:]}]"
        (self.base / "etc" / "gres.conf").write_text(f"AutoDetect=off\nNodeName={nodes} Name=gpu File={devices}\n")
        (self.base / "log" / "jobcomp.txt").touch()

    def _start_munge(self) -> None:
        key = self.base / "etc" / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        log = self.base / "mungelog"
        log.mkdir(mode=0o700, exist_ok=True)
        run = self.base / "run" / "munge"
        subprocess.run(
            (
                *("munged", f"--key-file={key}", f"--socket={run / 'socket'}", "--force"),
                *(f"--pid-file={run / 'munged.pid'}", f"--log-file={log / 'munged.log'}"),
                *(f"--seed-file={log / 'seed'}", "--num-threads=4"),
            ),
            check=True,
            capture_output=True,
        )

    def _daemon(self, name: str, *arguments: str, before: tuple[str, ...] = ()) -> None:
        words = (*before, str(self.base / "sbin" / name), *arguments)
        with (self.base / "log" / f"{name}.stderr").open("ab") as errors:
            subprocess.run(words, check=True, stderr=errors, env=self.env)

    def _ours(self) -> Iterator[int]:
        """Daemons and steps that name this directory, and what they have started: slurmd says so in its environment."""
        needle = str(self.base).encode()
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                pid = int(entry.name)
                command = _read(f"/proc/{pid}/cmdline")
                started = b"SLURM_CONF=" + str(self.conf_file).encode()
                job = started in _environment(pid) and b"SLURMD_NODENAME=" in _environment(pid)
                daemon = _read(f"/proc/{pid}/comm").strip() in (b"slurmctld", b"slurmd", b"munged")
                step = _read(f"/proc/{pid}/comm").startswith(b"slurmstepd") and str(self.base) in _open_files(pid)
                if job or step or (daemon and needle in command):
                    yield pid


def _slurmd_program(name: str) -> str:
    found = _program(name)
    if found is None:
        raise FileNotFoundError(f"no {name}: {HOW}")
    return found


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _environment(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ")


def _open_files(pid: int) -> str:
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(str(Path(entry.path).readlink()))
    return "\n".join(found)


def cluster(
    base: Path, nodes: int = 4, conf: str = "", first: int = 1, *, anybodys: bool = False
) -> Iterator[SlurmCluster]:
    """For fixtures: a cluster that is up, and down afterwards; skips where Slurm is not installed, but not in CI."""
    why = missing()
    if why:
        (pytest.fail if os.environ.get("CI") and os.geteuid() == 0 else pytest.skip)(why)
    made = SlurmCluster(base, nodes, conf=conf, first=first, anybodys=anybodys)
    try:
        made.up()
        yield made
    finally:
        made.down()
