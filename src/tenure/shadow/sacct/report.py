"""A report of ``sacct`` as a record of the queue, with the site's own tree, hosts and contracts.

From here on it is what a watched queue is: ``replay`` runs it as it was and under whatever policy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenure.core.model import HOUR, SECOND
from tenure.core.tree import Tree
from tenure.shadow.journal import Record
from tenure.shadow.lives import Life, Lives
from tenure.shadow.replay import Span, span_of
from tenure.shadow.sacct.rows import Rows
from tenure.shadow.sacct.site import MADE, Given, SiteError, make_accounts, make_hosts
from tenure.shadow.terms import Terms, of_carried, terms_of
from tenure.sim.traces.files import Source
from tenure.sim.traces.options import DEFAULT_RULES, Rule
from tenure.sim.traces.records import Reading, TraceError
from tenure.slurm import NothingToCarry, carry_over
from tenure.slurm.site import Site

HOSTS, ACCOUNTS = "hosts", "accounts"
"""What may have to be made up."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is chosen about a report. ``since``, ``until``: seconds since 1970 between which it counts, 0: all of it.

    ``partitions``: those that count, none: all with GPUs. ``unallocated``: QOS and partitions whose jobs are free.
    ``warmup``: ms at the beginning that only fill the ledger; None: a quarter, at most one lookback.
    """

    since: int = 0
    until: int = 0
    partitions: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = DEFAULT_RULES
    unallocated: tuple[str, ...] = ()
    warmup: int | None = None


@dataclass(slots=True)
class Report:
    """``counts``: what became of rows and jobs, by what people should know of it. ``made``: what had to be made up:
    HOSTS, ACCOUNTS. ``peak``: the most GPUs that were in use at a time. ``strangers``: accounts that are not in
    the tree -> their jobs.
    """

    record: Record
    terms: Terms
    span: Span
    site: Site
    reading: Reading
    chosen: Chosen
    eligible: bool
    peak: int
    made: frozenset[str]
    strangers: Counter[str] = field(default_factory=Counter)


def read_report(
    sources: Iterable[Source], reading: Reading, site: Site, given: Given, chosen: Chosen, seen: Callable[[int], None]
) -> Report:
    """``seen``: called now and then with the rows so far. Raises TraceError, SiteError and ConfigError."""
    reading.dated = True
    known = () if given.gpus is not None else frozenset(node.name for node in site.nodes)
    rows = Rows(reading, known, given.cluster or site.cluster)
    lives = Lives()
    for number, job in enumerate(rows.read(sources)):
        lives.see(job.submitted, job)
        if number % 2000 == 0:
            seen(reading.rows)
    reading.oddities = +reading.oddities
    record = _record(lives, rows, chosen)
    peak = _peak(lives.all, record.until)
    made = _complete(site, given, lives, record.until, peak)
    terms = _terms(record, site, chosen, rows.partitions, made)
    span = _span(record, terms, chosen)
    report = Report(record, terms, span, site, reading, chosen, rows.eligible, peak, made)
    for life in lives.all:
        if life.last.account not in terms.accounts:
            report.strangers[life.last.account] += 1
    return report


def _record(lives: Lives, rows: Rows, chosen: Chosen) -> Record:
    """Raises TraceError where nothing is left."""
    since, until = chosen.since or rows.first_end or rows.last, chosen.until or rows.last
    if lives.all and until <= since:
        raise SiteError("since: no time is left between it and the end, of --until or of the report; begin earlier")
    if not lives.all:
        left_out = ", ".join(f"{count:,} x {why}" for why, count in rows.reading.left_out.items())
        raise TraceError(
            f"{rows.reading.path}: no job with GPUs is in it{f' ({left_out})' if left_out else ''}; is AllocTRES or "
            "ReqTRES among its columns, and gres/gpu in AccountingStorageTRES?"
        )
    for id in [id for id, life in lives.by_id.items() if life.last.again and not life.over]:
        lives.gone(until, id)  # ended by others, and never back: that was its end
    return Record(since=since, first=since, until=until, lives=lives)


def _peak(lives: Sequence[Life], until: int) -> int:
    changes: Counter[int] = Counter()
    for life in lives:
        for run in life.runs:
            changes[run.started] += life.last.gpus
            changes[run.ended or until] -= life.last.gpus
    busy = most = 0
    for at in sorted(changes):
        busy += changes[at]
        most = max(most, busy)
    return most


def _complete(site: Site, given: Given, lives: Lives, until: int, peak: int) -> frozenset[str]:
    """Make up what nobody has said. Raises SiteError."""
    made = set()
    if given.gpus is not None or not site.nodes:
        wanted = given.gpus or peak
        if not wanted:
            raise SiteError("gpus: nothing ran in this report, so say how many GPUs there are with --gpus")
        make_hosts(site, wanted, given.per_host)
        made.add(HOSTS)
    if site.associations is None:
        make_accounts(site, lives.all, until)
        made.add(ACCOUNTS)
    return frozenset(made)


def _terms(record: Record, site: Site, chosen: Chosen, partitions: Iterable[str], made: frozenset[str]) -> Terms:
    """Raises SiteError and ConfigError."""
    named = sorted(partitions) if not chosen.partitions else list(chosen.partitions)
    asked = () if HOSTS in made else chosen.partitions
    try:
        carried = carry_over(site, asked)
    except NothingToCarry as error:
        raise SiteError(str(error)) from error
    record.site = of_carried(site, carried, asked)
    told = () if HOSTS in made else carried.cluster_notes
    record.site["notes"] = [*told, *(() if ACCOUNTS in made else carried.budget_notes)]
    terms = terms_of(record.site)
    changes: dict[str, Any] = {"rules": chosen.rules, "unallocated": frozenset(chosen.unallocated)}
    if HOSTS in made:
        changes |= {"partitions": dict.fromkeys([*named, ""], (MADE,)), "asks_cpus": False}
    return replace(terms, **changes, no_share=_without_share(terms))


def _without_share(terms: Terms) -> frozenset[str]:
    """Budgets to which nothing can be charged, on any cluster."""
    tree = Tree(terms.config.budgets)
    gives = {
        leaf
        for cluster in terms.config.clusters
        for leaf, allocation in tree.allocations(cluster.name, cluster.gpus, 0).items()
        if allocation
    }
    return frozenset(path for path in (one.path for one in terms.config.budgets) if tree.leaf_of(path) not in gives)


def _span(record: Record, terms: Terms, chosen: Chosen) -> Span:
    """Raises ConfigError."""
    length = (record.until - record.since) * SECOND
    warmup = chosen.warmup
    if warmup is None:
        warmup = min(length // 4, terms.config.policy.lookback) // HOUR * HOUR
    try:
        return span_of(record, terms.config.policy.lookback, record.since * SECOND + warmup)
    except ValueError as error:
        raise SiteError(f"warmup = {warmup // SECOND}s: the report is shorter than that") from error
