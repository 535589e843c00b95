"""Malformed settings, one fault each: where it stands, the field that must be named, words of the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

GOOD_HOST = '{ name = "n[1-2]", gpus = 8, cpus = 64, memory = "512G" }'
GOOD_CLUSTERS = f"[clusters.main]\nhosts = [{GOOD_HOST}]\n"
GOOD_BUDGETS = "[lab]\n[lab.language]\nshare = 0.5\n[lab.vision]\nshare = 0.4\n"
GOOD_GRANT = {
    "to": '"lab/language"',
    "from": '["lab/vision"]',
    "gpu_hours": "100",
    "cluster": '"main"',
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-11-08T00:00:00Z",
}


class Case(NamedTuple):
    clusters: str
    budgets: str
    field: str
    remedy: str


SERVER = [
    ('port = "7788"', "server.port", "whole number"),
    ("port = 77.88", "server.port", "whole number"),
    ("port = true", "server.port", "whole number"),
    ("port = 65536", "server.port", "from 1 to 65535"),
    ("port = -1", "server.port", "from 1 to 65535"),
    ("prot = 7788", "server.prot", "did you mean port?"),
    ("listen = 127", "server.listen", "in quotes"),
    ('listen = ""', "server.listen", "127.0.0.1"),
    ('listen = "not a host"', "server.listen", "127.0.0.1"),
    ('retention = "6d"', "server.retention", "7d"),
    ('retention = "20000d"', "server.retention", "3650d"),
    ("retention = 90", "server.retention", "say the unit"),
    ('slow_tick = "0"', "server.slow_tick", "from 1s to 1h"),
    ('slow_tick = "often"', "server.slow_tick", "2h30m"),
    ('estimates = "900ms"', "server.estimates", "or 0 for none"),
    ('executor = "slurn"', "server.executor", "did you mean slurm?"),
    ('database = "mysql://host/tenure"', "server.database", "sqlite"),
    ('database = "tenure.db"', "server.database", "sqlite"),
    ('database = "postgresql://[half/name"', "server.database", "postgresql"),
    ('data_dir = "a\\u0000b"', "server.data_dir", ".tenure"),
    ("data_dir = [1]", "server.data_dir", "in quotes"),
]
SLURM = [
    ("partition = 1", "slurm.partition", "in quotes"),
    ('partition = "a,b"', "slurm.partition", "one partition"),
    ('partitions = "gpu"', "slurm.partitions", "did you mean partition?"),
    ('root = "a\\u0000b"', "slurm.root", "/shared/tenure"),
    ("commands = true", "slurm.commands", "in quotes"),
    ('conf = "a\\u0000b"', "slurm.conf", "slurm.conf"),
    ('submit_as = "sudo -u {user}"', "slurm.submit_as", "list"),
    ('submit_as = ["sudo", "-n"]', "slurm.submit_as", '["sudo", "-n", "-u", "{user}", "--"]'),
    ('submit_as = ["{user}"]', "slurm.submit_as", "a command and its arguments"),
    ('submit_as = ["sudo", "-u", "{user}\\n"]', "slurm.submit_as", "a command and its arguments"),
    ('[slurm.mian]\npartition = "gpu"', "slurm.mian", "did you mean main?"),
    ('[slurm.main]\npartition = "a,b"', "slurm.main.partition", "one partition"),
    ('[slurm.main]\npartitions = "gpu"', "slurm.main.partitions", "did you mean partition?"),
    ('root = "/shared"\n[slurm.main]\nroot = "/shared"', "slurm.root", "a directory of its own"),
]
NOTICE = [
    ('timeout = "100ms"', "notice.timeout", "from 1s to 1m"),
    ('retry_first = "0"', "notice.retry_first", "from 100ms"),
    ('give_up_after = "8d"', "notice.give_up_after", "7d"),
    ('default_domain = "lab.example"', "notice.default_domain", "[notice.smtp]"),
    ('default_domain = "@lab.example"', "notice.default_domain", "name a domain"),
    ('link = "https://lab.example/jobs"', "notice.link", "{job}"),
    ('link = "javascript:{job}"', "notice.link", "{job}"),
    ('webhook_hosts = ["https://hooks.lab"]', "notice.webhook_hosts", "with or without a port"),
    ('webhook_hosts = "hooks.lab"', "notice.webhook_hosts", "list"),
    ('mail_domains = ["a b"]', "notice.mail_domains", "lab.example"),
    ('secret_file = "a\\u0000b"', "notice.secret_file", "name a file"),
    ('webhok_hosts = ["x"]', "notice.webhok_hosts", "did you mean webhook_hosts?"),
    ('[notice.smtp]\nfrom = "a@lab.example"', "notice.smtp.host", "mail.lab.example"),
    ('[notice.smtp]\nhost = "mail"', "notice.smtp.from", "tenure@lab.example"),
    ('[notice.smtp]\nhost = "mail"\nfrom = "a@b\\nBcc: c@d"', "notice.smtp.from", "tenure@lab.example"),
    ('[notice.smtp]\nhost = "mail"\nfrom = "a@b"\ntls = "stattls"', "notice.smtp.tls", "did you mean starttls?"),
    ('[notice.smtp]\nhost = "mail"\nfrom = "a@b"\nuser = "x"', "notice.smtp.user", "password_file"),
    (
        '[notice.smtp]\nhost = "mail"\nfrom = "a@b"\nuser = "x"\npassword_file = "p"\ntls = "none"',
        "notice.smtp.tls",
        "not sent in clear",
    ),
    ('[notice.smtp]\nhost = "mail"\nfrom = "a@b"\nport = 0', "notice.smtp.port", "from 1 to 65535"),
]
POLICY = [
    ("lookback = 7", "policy.lookback", "say the unit"),
    ('lookback = "7 fortnights"', "policy.lookback", "2h30m"),
    ('lookback = "10:30"', "policy.lookback", "10h30m"),
    ('lookback = "0"', "policy.lookback", "from 1m"),
    ('lookback = "91d"', "policy.lookback", "90d"),
    ('lookback = "-7d"', "policy.lookback", "negative"),
    ("lookback = 7.5", "policy.lookback", "say the unit"),
    ("lookback = true", "policy.lookback", "2h30m"),
    ("lookback = 1979-05-27", "policy.lookback", "2h30m"),
    ('lookback = "7d"\nrecent = "8d"', "policy.recent", "the lookback"),
    ('recent = "0s"', "policy.recent", "from 1s"),
    ('entitlement_floor = "2w"', "policy.entitlement_floor", "the lookback"),
    ('preemption_margin = "9d"', "policy.preemption_margin", "the lookback"),
    ('unallocated_turn = "25h"', "policy.unallocated_turn", "1d"),
    ("evictions_per_minute = 0", "policy.evictions_per_minute", "tenure pause --evictions"),
    ("evictions_per_minute = 1.5", "policy.evictions_per_minute", "whole number"),
    ("reserved_percent = -1", "policy.reserved_percent", "from 0 to 100 percent of the GPUs; 0 holds nothing"),
    ("reserved_percent = 101", "policy.reserved_percent", "from 0 to 100"),
    ('reserved_percent = "half"', "policy.reserved_percent", "whole number"),
    ("reserved_percent = 0.5", "policy.reserved_percent", "whole number"),
    ("reserve_from = -1", "policy.reserve_from", "from 0 to 100000 GPUs"),
    ("reserve_from = 100001", "policy.reserve_from", "from 0 to 100000"),
    ("reserve_margin_percent = 101", "policy.reserve_margin_percent", "of preemption_margin"),
    ("reserve_margin_percent = -1", "policy.reserve_margin_percent", "from 0 to 100"),
    ('reserve_ahead = "8d"', "policy.reserve_ahead", "from 0s to 7d"),
    ("reserve_ahead = 9", "policy.reserve_ahead", "say the unit"),
    ('look_every = "9s"', "policy.look_every", "from 10s to 1h"),
    ('look_every = "61m"', "policy.look_every", "from 10s to 1h"),
    ("moves_per_hour = 1001", "policy.moves_per_hour", "from 0 to 1000; 0 moves nothing"),
    ("headroom_percent = 101", "policy.headroom_percent", "from 0 to 100 percent of the GPUs; 0 keeps nothing"),
    ("headroom_percent = -5", "policy.headroom_percent", "from 0 to 100"),
    ('headroom_percent = "5%"', "policy.headroom_percent", "whole number"),
    ("reserved_percnt = 5", "policy.reserved_percnt", "did you mean reserved_percent?"),
    ('backoff_first = "1h"\nbackoff_max = "1m"', "policy.backoff_max", "from 1h"),
    ('backoff_first = "1ms"', "policy.backoff_first", "from 100ms"),
    ('preemtion_margin = "1h"', "policy.preemtion_margin", "did you mean preemption_margin?"),
]
CLUSTER = [
    ('min_runtime_floor = "9h"\nmin_runtime_max = "8h"', "clusters.main.min_runtime_floor", "min_runtime_max"),
    ('min_runtime_max = "8d"', "clusters.main.min_runtime_max", "the lookback"),
    ('min_runtime_max = "0"', "clusters.main.min_runtime_max", "from 1s"),
    ('default_min_runtime = "9h"', "clusters.main.default_min_runtime", "min_runtime_max"),
    ('default_min_runtime = "1m"', "clusters.main.default_min_runtime", "from 5m"),
    ('default_resumable = "yes"', "clusters.main.default_resumable", "true or false"),
    ("default_resumable = 1", "clusters.main.default_resumable", "true or false"),
    ('max_grace = "2h"', "clusters.main.max_grace", "1h"),
    ('max_grace = "5s"\nunallocated_grace = "10s"', "clusters.main.unallocated_grace", "max_grace"),
    ('kill_timeout = "0"', "clusters.main.kill_timeout", "from 1s"),
    ('gang_label = "shelf"', "clusters.main.gang_label", "give its hosts that label first"),
    ('start_timeout = "2d"', "clusters.main.start_timeout", "1d"),
    ("min_runtime_celing = 1", "clusters.main.min_runtime_celing", "no such setting"),
    ("every_host = 8", "clusters.main.every_host", "table"),
    ("every_host = { gpu = 8 }", "clusters.main.every_host.gpu", "did you mean gpus?"),
    ('every_host = { memory = "512" }', "clusters.main.every_host.memory", "512G"),
]
HOST = [
    ("{ gpus = 8 }", "clusters.main.hosts[0].name", "n[01-16]"),
    ('{ name = "" , gpus = 8 }', 'clusters.main.hosts."".name', "letters"),
    ("{ name = 5, gpus = 8 }", "clusters.main.hosts[0].name", "in quotes"),
    ('{ name = "n 1", gpus = 8 }', 'clusters.main.hosts."n 1".name', "letters"),
    ('{ name = "n[1-", gpus = 8 }', "clusters.main.hosts[0].name", "n[01-16]"),
    ('{ name = "n[9-1]", gpus = 8 }', "clusters.main.hosts[0].name", "lower number first"),
    ('{ name = "n[a-c]", gpus = 8 }', "clusters.main.hosts[0].name", "n[01-16]"),
    ('{ name = "n[1-2][1-2]", gpus = 8 }', "clusters.main.hosts[0].name", "n[01-16]"),
    ('{ name = "n[1-4096,5000]", gpus = 8 }', "clusters.main.hosts[0].name", "4096"),
    ('{ name = "n[1-3,2]", gpus = 8 }', "clusters.main.hosts.n2", "declared before"),
    ('{ name = "n1" }', "clusters.main.hosts[0].gpus", "gpus = 8"),
    ('{ name = "n1", gpus = 0 }', "clusters.main.hosts.n1.gpus", "from 1 to 1024"),
    ('{ name = "n1", gpus = -8 }', "clusters.main.hosts.n1.gpus", "from 1 to 1024"),
    ('{ name = "n1", gpus = 1025 }', "clusters.main.hosts.n1.gpus", "from 1 to 1024"),
    ('{ name = "n1", gpus = 0.5 }', "clusters.main.hosts[0].gpus", "whole number"),
    ('{ name = "n1", gpus = "8x" }', "clusters.main.hosts[0].gpus", "whole number"),
    ('{ name = "n1", gpus = 8, cpus = 0 }', "clusters.main.hosts[0].cpus", "leave cpus away"),
    ('{ name = "n1", gpus = 8, cpus = -4 }', "clusters.main.hosts[0].cpus", "4 or 0.5"),
    ('{ name = "n1", gpus = 8, cpus = 0.0001 }', "clusters.main.hosts[0].cpus", "3 decimals"),
    ('{ name = "n1", gpus = 8, cpus = 5000 }', "clusters.main.hosts.n1.cpus", "at most 4096"),
    ('{ name = "n1", gpus = 8, memory = 512 }', "clusters.main.hosts[0].memory", "512G"),
    ('{ name = "n1", gpus = 8, memory = "lots" }', "clusters.main.hosts[0].memory", "64G"),
    ('{ name = "n1", gpus = 8, memory = "4000T" }', "clusters.main.hosts[0].memory", "1024T"),
    ('{ name = "n1", gpus = 8, labels = "rack" }', "clusters.main.hosts[0].labels", "table"),
    ('{ name = "n1", gpus = 8, labels = { rack = 1 } }', "clusters.main.hosts[0].labels.rack", "in quotes"),
    ('{ name = "n1", gpus = 8, labels = { rack = "" } }', "clusters.main.hosts.n1.labels.rack", "1 to 63"),
    ('{ name = "n1", gpus = 8, labels = { "a b" = "c" } }', "clusters.main.hosts.n1.labels", "letters"),
    ('{ name = "n1", gpus = 8, lables = {} }', "clusters.main.hosts[0].lables", "did you mean labels?"),
    ('{ discover = true, name = "n1" }', "clusters.main.hosts[0].name", "leave it away"),
    ("{ discover = true, gpus = 8 }", "clusters.main.hosts[0].gpus", "leave it away"),
    ("{ discover = 1 }", "clusters.main.hosts[0].discover", "true or false"),
]
CLUSTERS = [
    ("[clusters]", "clusters", "at least one"),
    ("clusters = 5", "clusters", "at least one"),
    ("[clusters.main]", "clusters.main.hosts", "add hosts"),
    ("[clusters.main]\nhosts = {}", "clusters.main.hosts", "list"),
    ("[clusters.main]\nhosts = []", "clusters.main.hosts", "add hosts"),
    (f"[clusters.Main]\nhosts = [{GOOD_HOST}]", "clusters.Main", "lowercase"),
    (f'[clusters."a b"]\nhosts = [{GOOD_HOST}]', 'clusters."a b"', "lowercase"),
    (f"{GOOD_CLUSTERS}[clusters.two]\nhosts = [{GOOD_HOST}]", "clusters.two.hosts.n1", "declared before, in main"),
    (f"budgets = 5\n{GOOD_CLUSTERS}", "budgets", "in quotes"),
    (f"server = 5\n{GOOD_CLUSTERS}", "server", "table"),
    (f"policy = []\n{GOOD_CLUSTERS}", "policy", "table"),
    (f"{GOOD_CLUSTERS}[polices]\n", "polices", "did you mean policy?"),
]
BUDGETS = [
    ("lab = 5", "lab", "a budget is a table"),
    ("[lab]\nshare = 0.5", "lab.share", "has everything"),
    ("[lab]\ncluster_shares = { main = 0.5 }", "lab.cluster_shares", "has everything"),
    ("[lab]\n[lab.x]", "lab.x.share", "which part of lab"),
    ("[lab.x.y]\nshare = 0.5", "lab.x.share", "which part of lab"),
    ("[lab]\n[lab.x]\nshare = 35", "lab.x.share", "35%"),
    ("[lab]\n[lab.x]\nshare = -0.1", "lab.x.share", "between 0 and 1"),
    ("[lab]\n[lab.x]\nshare = 1.000001", "lab.x.share", "between 0 and 1"),
    ('[lab]\n[lab.x]\nshare = "1/3"', "lab.x.share", "0.333333"),
    ('[lab]\n[lab.x]\nshare = "half"', "lab.x.share", "35%"),
    ("[lab]\n[lab.x]\nshare = true", "lab.x.share", "35%"),
    ("[lab]\n[lab.x]\nshare = inf", "lab.x.share", "35%"),
    ("[lab]\n[lab.x]\nshare = 0.12345678", "lab.x.share", "6 decimals"),
    ("[lab]\n[lab.x]\nshare = 0.5\ncluster_shares = 0.5", "lab.x.cluster_shares", "table"),
    ("[lab]\n[lab.x]\nshare = 0.5\ncluster_shares = { mian = 0.5 }", "lab.x.cluster_shares.mian", "main"),
    ("[lab]\n[lab.x]\nshare = 0.5\ncluster_shares = { main = 2 }", "lab.x.cluster_shares.main", "between 0 and 1"),
    ("[lab]\n[lab.x]\nsahre = 0.5\nshare = 0.5", "lab.x.sahre", "did you mean share?"),
    ("[lab]\n[lab.x]\nshare = 0.6\n[lab.y]\nshare = 0.5", "lab", "take away 0.1 in all"),
    (
        "[lab]\n[lab.x]\nshare = 0.5\n[lab.y]\nshare = 0.5\ncluster_shares = { main = 0.6 }",
        "lab",
        "take away 0.1 in all",
    ),
    ("[lab]\n[lab.self]\nshare = 0.5", "lab.self", "leave over"),
    ("[self]", "self", "leave over"),
    ("[lab]\n[lab.Language]\nshare = 0.5", "lab.Language", "lowercase"),
    ('[lab]\n[lab."a b"]\nshare = 0.5', 'lab."a b"', "lowercase"),
    ('[lab]\n[lab."a/b"]\nshare = 0.5', "lab.a.b", "parent lab/a is not declared"),
    ("[lab]\n[lab.grants]\nshare = 0.5", "lab.grants", "choose another name"),
    ("[share]", "share", "choose another name"),
    ('[lab]\n[lab.""]\nshare = 0.5', 'lab.""', "lowercase"),
    ("[lab]\nmanagers = 'ada'", "lab.managers", "list"),
    ("[lab]\nmanagers = [1]", "lab.managers[0]", "in quotes"),
    ("[lab]\nmanagers = ['ada lovelace']", "lab.managers", "user name"),
    ("[lab]\nmembers = ['ada', 'ada']", "lab.members", "once is enough"),
    ("[lab]\nmembers = ['']", "lab.members", "user name"),
    ("[lab]\n[lab.x]\nshare = 0.5\nmoved_from = 'lab'", "lab.x.moved_from", "still declared"),
    ("[lab]\n[lab.x]\nshare = 0.5\nmoved_from = 'a//b'", "lab.x.moved_from", "old path"),
    (
        "[lab]\n[lab.x]\nshare = 0.5\nmoved_from = 'lab/z'\n[lab.y]\nshare = 0.5\nmoved_from = 'lab/z'",
        "lab.x.moved_from",
        "more than one",
    ),
    ("grants = 5\n[lab]", "grants", "[[grants]]"),
    ("grants = [5]\n[lab]", "grants[0]", "table"),
]
GRANT: list[tuple[str, str | None, str, str]] = [
    ("to", None, "grants[0].to", "add it"),
    ("to", '"lab/langage"', "grants[0].to", "did you mean lab/language?"),
    ("to", '"lab"', "grants[0].to", "the organisation has everything"),
    ("from", None, "grants[0].from", "add it"),
    ("from", "[]", "grants[0].from", "who gives"),
    ("from", '["lab/science"]', "grants[0].from[0]", "not beside lab/language"),
    ("from", '["lab/language"]', "grants[0].from[0]", "not beside lab/language"),
    ("from", '["lab/vision", "lab/vision"]', "grants[0].from[1]", "once is enough"),
    ("gpu_hours", "0", "grants[0].gpu_hours", "from 1"),
    ("gpu_hours", "1.5", "grants[0].gpu_hours", "whole number"),
    ("gpu_hours", "100000", "grants[0].gpu_hours", "the givers have 1075.2 GPU-hours"),
    ("cluster", '"mian"', "grants[0].cluster", "did you mean main?"),
    ("start", "2026-11-01", "grants[0].start", "time and zone"),
    ("start", "2026-11-01T00:00:00", "grants[0].start", "say the zone"),
    ("start", '"soon"', "grants[0].start", "2026-10-09T12:00:00Z"),
    ("start", "1950-01-01T00:00:00Z", "grants[0].start", "1970"),
    ("end", "2026-10-01T00:00:00Z", "grants[0].end", "after its start"),
    ("end", "2026-11-01T00:10:00Z", "grants[0].end", "1h to 366d"),
    ("end", "2030-11-01T00:00:00Z", "grants[0].end", "1h to 366d"),
]


def cases() -> Iterator[Case]:
    for line, field, remedy in SLURM:
        yield Case(f"[slurm]\n{line}\n{GOOD_CLUSTERS}", GOOD_BUDGETS, field, remedy)
    for line, field, remedy in NOTICE:
        text = line if line.startswith("[") else f"[notice]\n{line}"
        yield Case(f"{text}\n{GOOD_CLUSTERS}", GOOD_BUDGETS, field, remedy)
    for line, field, remedy in SERVER:
        yield Case(f"[server]\n{line}\n{GOOD_CLUSTERS}", GOOD_BUDGETS, field, remedy)
    for line, field, remedy in POLICY:
        yield Case(f"[policy]\n{line}\n{GOOD_CLUSTERS}", GOOD_BUDGETS, field, remedy)
    for line, field, remedy in CLUSTER:
        yield Case(GOOD_CLUSTERS + line, GOOD_BUDGETS, field, remedy)
    for host, field, remedy in HOST:
        yield Case(f"[clusters.main]\nhosts = [{host}]\n", GOOD_BUDGETS, field, remedy)
    for text, field, remedy in CLUSTERS:
        yield Case(text, GOOD_BUDGETS, field, remedy)
    for text, field, remedy in BUDGETS:
        yield Case(GOOD_CLUSTERS, text, field, remedy)
    for key, value, field, remedy in GRANT:
        yield Case(GOOD_CLUSTERS, GOOD_BUDGETS + grant(**{key: value}), field, remedy)


def grant(**changes: str | None) -> str:
    """``GOOD_GRANT`` as text; a change to None takes the key out."""
    lines = {**GOOD_GRANT, **changes}
    return "[[grants]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None)
