"""A configuration as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tenure.core.model import DAY, MINUTE, SECOND, Budget, Cluster, Grant, Policy

LOOK_AT_LEAST = 10 * SECOND
"""The shortest ``look_every``: a look costs more than another pass."""
COUNTS = frozenset(
    {
        "port",
        "evictions_per_minute",
        "reserved_percent",
        "reserve_from",
        "reserve_margin_percent",
        "headroom_percent",
        "moves_per_hour",
    }
)
"""Settings that are numbers; all others are durations, text, or true or false."""


@dataclass(frozen=True, slots=True)
class Server:
    """How the server runs. Durations in ms.

    ``data_dir`` holds database, logs and sockets. ``database`` is an SQLAlchemy URL, '' for SQLite in
    ``data_dir``. ``retention``: how long history is kept in full. ``slow_tick``: how often the loop runs when
    nothing happens. ``estimates``: how often it is estimated when what waits will start; 0: never.
    """

    listen: str = "127.0.0.1"
    port: int = 7788
    data_dir: Path = Path(".tenure")
    database: str = ""
    retention: int = 90 * DAY
    slow_tick: int = 30 * SECOND
    estimates: int = 5 * MINUTE
    executor: str = "local"

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.data_dir / 'tenure.db'}"


@dataclass(frozen=True, slots=True)
class Slurm:
    """How Slurm is used by the executor of that name.

    ``partition``: '' is Slurm's default. ``root``: where attempts have their files, seen by all nodes; None: ``runs``
    in the server's ``data_dir``. ``commands``: the folder of Slurm's commands; None: found on PATH. ``conf``: the
    slurm.conf that they read; None: theirs by default, or what SLURM_CONF says. ``accounts``: which budget an account
    of Slurm is charged to, where its name does not say. ``submit_as``: words before ``sbatch`` that make it run as the
    user ``{user}``; empty: jobs run as the server's user.
    """

    partition: str = ""
    root: Path | None = None
    commands: Path | None = None
    conf: Path | None = None
    accounts: tuple[tuple[str, str], ...] = ()
    submit_as: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Smtp:
    """The mail server that notices go through. ``host`` '': there is none, and nobody is told by e-mail.

    ``tls``: ``starttls``, ``tls`` from the first byte, or ``none``. ``user`` '': no log-in. ``sender``: the address
    that mail comes from.
    """

    host: str = ""
    port: int = 587
    tls: str = "starttls"
    user: str = ""
    password_file: Path | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """How people are told what becomes of their jobs. Durations in ms.

    ``default_domain``: whoever has said nothing is told the least at user@domain; '': nothing. ``link``: an address
    with ``{job}`` in it that each notice points to. ``secret_file``: the key for signatures; None: ``notice.key`` in
    the server's ``data_dir``. ``webhook_hosts``: hosts that may be anywhere and be spoken to without TLS.
    ``mail_domains``: where addresses may be; empty: anywhere. ``timeout``: what one delivery may take. ``retry_first``:
    the first pause before it is tried again. ``give_up_after``: counted from the first try.
    """

    smtp: Smtp = Smtp()
    default_domain: str = ""
    link: str = ""
    secret_file: Path | None = None
    webhook_hosts: tuple[str, ...] = ()
    mail_domains: tuple[str, ...] = ()
    timeout: int = 10 * SECOND
    retry_first: int = 10 * SECOND
    give_up_after: int = DAY


@dataclass(frozen=True, slots=True)
class Discover:
    """A place in ``cluster`` for the hosts that the executor finds. ``cpus`` and ``mem`` 0: as found."""

    cluster: str
    cpus: int = 0
    mem: int = 0
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """All that the two files say.

    Until ``resolve``, a host whose ``cpus`` or ``mem`` is left to the machine has 0 there, and ``discover`` names
    clusters whose hosts are still to be found.
    """

    server: Server
    clusters: tuple[Cluster, ...]
    policy: Policy
    budgets: tuple[Budget, ...]
    grants: tuple[Grant, ...] = ()
    discover: tuple[Discover, ...] = ()
    slurm: Slurm = Slurm()
    notice: Notice = Notice()
    slurm_of: tuple[tuple[str, Slurm], ...] = ()
    """Clusters with a Slurm, or a partition, of their own: what is not said there is as in ``slurm``."""

    def slurm_for(self, cluster: str) -> Slurm:
        """How Slurm is used for a cluster of ``slurm_of``, with ``root`` filled in. Raises KeyError for another one."""
        own = dict(self.slurm_of)[cluster]
        return Slurm(
            partition=own.partition or self.slurm.partition,
            root=own.root or self.runs / f"on-{cluster}",
            commands=own.commands or self.slurm.commands,
            conf=own.conf or self.slurm.conf,
            accounts=own.accounts or self.slurm.accounts,
            submit_as=own.submit_as or self.slurm.submit_as,
        )

    @property
    def notice_key(self) -> Path:
        """The file with the key that signatures of notices are made with."""
        return self.notice.secret_file or self.server.data_dir / "notice.key"

    @property
    def runs(self) -> Path:
        """Where attempts have their files."""
        shared = self.slurm.root if self.server.executor == "slurm" else None
        return shared or self.server.data_dir / "runs"
