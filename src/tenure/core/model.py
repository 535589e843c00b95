"""The words of the scheduler as frozen records: what users and operators declare.

Units everywhere in the core: times and durations are integer milliseconds (times since the Unix epoch, UTC);
amounts of GPUs are integer thousandths of a GPU (``GPU`` = 1000); CPUs are thousandths of a CPU; memory is MiB;
shares are parts per million (``SHARE_ONE`` = 1,000,000 is the whole).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

GPU = 1000
SHARE_ONE = 1_000_000
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Word(StrEnum):
    """A word of a closed list. Hashed as the string that it equals, which costs a tenth of what ``Enum`` asks for."""

    __hash__ = str.__hash__


SHORT_RUNTIME = 15 * MINUTE
SHORT_GPUS = 8
"""A short contract (debugging) is charged, for at most this long and on at most so many GPUs."""

SELF = "self"
"""Name of the implicit child of every inner budget: what its other children leave over."""


@dataclass(frozen=True, slots=True)
class Role:
    """Identical replicas of one command. A replica never spans hosts.

    ``gpus`` is whole GPUs per replica, ``cpus`` thousandths of a CPU per replica, ``mem`` MiB per replica. ``apart``:
    no two of its replicas share a host, as the nodes of a Slurm job do not.
    """

    name: str
    replicas: int
    gpus: int
    cpus: int
    mem: int
    command: tuple[str, ...] = ()
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A wish about host labels.

    With a ``value``: every replica on hosts whose label ``key`` has that value. With ``value`` None: all replicas
    on hosts that share one value of ``key`` (one rack, say). Preferred unless ``required``.
    """

    key: str
    value: str | None
    required: bool


@dataclass(frozen=True, slots=True)
class Contract:
    """``min_runtime`` ms of protection (0: unallocated, free and always evictable) and whether it can resume."""

    min_runtime: int
    resumable: bool


@dataclass(frozen=True, slots=True)
class Execution:
    """What the executor needs and the core never reads.

    ``adopted``: what another system calls this job, which it had first (``slurm:CLUSTER:ID@SUBMITTED``); '' for others.
    """

    workdir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    launch: str = "per-replica"
    """``per-replica``: one process per replica; ``per-gpu``: one per GPU, with RANK/WORLD_SIZE/LOCAL_RANK."""
    warn_signal: str = "SIGTERM"
    adopted: str = ""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as submitted, with every default filled in.

    ``budget`` is the path of a budget (``lab/language/pretrain``). ``priority`` orders jobs inside one budget only,
    higher first. ``clusters`` are accepted clusters, in the order of preference. ``timeout`` is the longest that one
    attempt may run, ms, None for no limit. ``grace`` is the wish for the time between warning and kill, ms.
    ``retries``: how many times an attempt that failed by itself is started again.
    """

    name: str
    user: str
    budget: str
    roles: tuple[Role, ...]
    contract: Contract
    clusters: tuple[str, ...]
    priority: int = 0
    labels: tuple[Label, ...] = ()
    timeout: int | None = None
    grace: int = 5 * MINUTE
    retries: int = 0
    execution: Execution = field(default_factory=Execution)

    @property
    def gpus(self) -> int:
        """Whole GPUs over all replicas of all roles."""
        roles = self.roles
        return roles[0].replicas * roles[0].gpus if len(roles) == 1 else sum(r.replicas * r.gpus for r in roles)

    @property
    def charged(self) -> bool:
        return self.contract.min_runtime > 0


def short(min_runtime: int, gpus: int) -> bool:
    """Whether this is a short contract: debugging, which held hosts let in."""
    return 0 < min_runtime <= SHORT_RUNTIME and gpus <= SHORT_GPUS


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as declared. ``cpus`` in thousandths of a CPU, ``mem`` in MiB."""

    name: str
    gpus: int
    cpus: int
    mem: int
    labels: tuple[tuple[str, str], ...] = ()

    def label(self, key: str) -> str | None:
        for name, value in self.labels:
            if name == key:
                return value
        return None


class HostState(Word):
    HEALTHY = "healthy"
    DRAINING = "draining"
    REPAIRING = "repairing"
    VERIFYING = "verifying"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hosts of one GPU type, scheduled together, and the bounds it sets on contracts. Durations in ms."""

    name: str
    hosts: tuple[Host, ...]
    min_runtime_floor: int = 5 * MINUTE
    min_runtime_max: int = 8 * HOUR
    default_min_runtime: int = 15 * MINUTE
    default_resumable: bool = False
    max_grace: int = 5 * MINUTE
    unallocated_grace: int = 10 * SECOND
    kill_timeout: int = 30 * SECOND
    """After the grace and the kill: when GPUs are still not released, their host drains as faulty."""
    start_timeout: int = 15 * MINUTE
    gang_label: str = ""
    """Label that the replicas of a gang preferably share a value of ("rack"), where its job asks for no label."""

    @property
    def gpus(self) -> int:
        """Whole GPUs of all hosts, in any state."""
        return sum(host.gpus for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a lab may tune. Durations in ms."""

    lookback: int = 7 * DAY
    recent: int = DAY
    """The last-day window of rule 5."""
    entitlement_floor: int = 8 * HOUR
    """Rule 4: entitlement is at least this long a time of today's allocation."""
    preemption_margin: int = HOUR
    """Rule 7: J's amount x this, added to J's side and taken from the victim's."""
    unallocated_turn: int = HOUR
    """Rule 6: what a started unallocated attempt counts at once, and how long its peers leave it alone."""
    evictions_per_minute: int = 60
    packing: bool = False
    """Whether parts of hosts go beside others whose protection ends as late, so that whole hosts come free together."""
    reserved_percent: int = 0
    """Rule 10: reservations are made until this percentage of a cluster's healthy GPUs is held; 0: none."""
    reserve_from: int = 0
    """The smallest job that gets a reservation, in GPUs; 0: a sixteenth of the cluster, and at least 8."""
    reserve_ahead: int = 9 * HOUR
    """How far ahead hosts are held: beyond this nobody knows enough."""
    reserve_margin_percent: int = 100
    """How much of rule 7's margin a job must be ahead of those whose hosts it wants to hold."""
    look_every: int = 5 * MINUTE
    """How often a pass looks for jobs in turn that need a reservation, and what headroom is needed."""
    headroom_percent: int = 3
    """At most this percentage of a cluster's healthy GPUs, in whole hosts, is kept for short contracts; 0: none."""
    moves_per_hour: int = 0
    """How many exposed, resumable attempts may be moved for waiting gangs in an hour, in each cluster; 0: none."""
    backoff_first: int = 10 * SECOND
    backoff_max: int = 30 * MINUTE


@dataclass(frozen=True, slots=True)
class Budget:
    """A declared node of the tree. ``share`` is a fraction of the parent in parts per million.

    ``path`` is ``organisation/program/project``; the root has share ``SHARE_ONE``. ``cluster_shares`` replaces
    ``share`` on the named clusters. ``members``: who may charge jobs here and below, empty for everybody.
    ``moved_from``: the path this budget had before a move; its jobs follow, its past stays where it was charged.
    """

    path: str
    share: int
    cluster_shares: tuple[tuple[str, int], ...] = ()
    managers: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    moved_from: str | None = None

    def share_on(self, cluster: str) -> int:
        for name, share in self.cluster_shares:
            if name == cluster:
                return share
        return self.share


@dataclass(frozen=True, slots=True)
class Grant:
    """GPU-hours for one budget over a period: a share change for that time, taken from named siblings.

    ``amount`` in GPU-hours on ``cluster``, spread evenly over [start, end); the siblings in ``taken_from`` give in
    proportion to their shares.
    """

    to: str
    taken_from: tuple[str, ...]
    amount: int
    cluster: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Slots:
    """What one replica holds: GPUs of one host by index, CPUs in thousandths, memory in MiB."""

    role: int
    replica: int
    host: str
    gpus: tuple[int, ...]
    cpus: int
    mem: int


@dataclass(frozen=True, slots=True)
class Array:
    """Jobs that differ in their index only, submitted together. ``throttle``: so many of them at a time; 0: all.

    ``indices`` rise; there is at least one. The array's id is that of its first job, and the others follow.
    """

    indices: tuple[int, ...]
    throttle: int = 0
    step: int = 1
    """As it was written, for jobs that ask: the distance of one index to the next where there is just one."""


@dataclass(frozen=True, slots=True)
class After:
    """Wait for the end of a job, or with ``whole`` of all jobs of the array that begins with it.

    ``ok``: it has to succeed. An end is for good: a job that is requeued has not ended.
    """

    job_id: int
    whole: bool
    ok: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """What a submission waits for in vain: ``job`` (``12``, or ``12_3`` in an array) ended as ``state`` before it."""

    job: str
    state: str
