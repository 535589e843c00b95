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
from tenure.units import format_time

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
    the tree -> their jobs. ``lives``: the jobs of partitions that count.
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
    lives: Sequence[Life] = ()
    strangers: Counter[str] = field(default_factory=Counter)

    @property
    def counting(self) -> list[Life]:
        """Those of ``lives`` that ran or waited in the time that counts."""
        since, until = self.record.since, self.record.until
        return [life for life in self.lives if life.submitted <= until and not 0 < _over(life) < since]

    @property
    def waiting(self) -> list[Life]:
        """Those that wait at the end for nothing but GPUs, and of which the report has no later run."""
        return [life for life in self.counting if _waits(life, self.record.until)]


def read_report(
    sources: Iterable[Source], reading: Reading, site: Site, given: Given, chosen: Chosen, seen: Callable[[int], None]
) -> Report:
    """``seen``: called now and then with the rows so far. Raises TraceError, SiteError and ConfigError."""
    reading.dated = True
    known = () if given.gpus is not None else frozenset(node.name for node in site.nodes)
    rows = Rows(reading, known, given.cluster or site.cluster)
    lives = _lives(rows, sources, seen)
    reading.oddities = +reading.oddities
    record = _record(lives, rows, chosen)
    within = _within(lives.all, given, chosen, site)
    peak = _peak(within, record.since, record.until)
    made = _complete(site, given, within, (record.since, record.until), peak)
    terms = _terms(record, site, chosen, rows.partitions, made)
    span = _span(record, terms, chosen)
    report = Report(record, terms, span, site, reading, chosen, rows.eligible, peak, made, within)
    for life in report.counting:
        if life.last.account not in terms.accounts:
            report.strangers[life.last.account] += 1
    return report


def _lives(rows: Rows, sources: Iterable[Source], seen: Callable[[int], None]) -> Lives:
    """Each job's rows in the order of what they tell, whatever the order of the lines, and of reports that were joined:
    how it waited, that it runs, how that ended, and the same of its next run.
    """
    jobs = []
    for number, job in enumerate(rows.read(sources)):
        jobs.append(job)
        if number % 2000 == 0:
            seen(rows.reading.rows)
    jobs.sort(key=lambda job: (job.submitted, job.started, job.ended))
    lives = Lives()
    for job in jobs:
        lives.see(max(job.submitted, job.started, job.ended), job)
    return lives


def _within(lives: Sequence[Life], given: Given, chosen: Chosen, site: Site) -> list[Life]:
    """Those of partitions that count: what is chosen, else those with GPUs where hosts are known. Raises SiteError
    where there is none, and for a partition of which there is nothing.
    """
    made_up = given.gpus is not None or not site.nodes
    there = {name for life in lives for name in life.last.partition.split(",")}
    if made_up and (unknown := [name for name in chosen.partitions if name not in there]):
        raise SiteError(
            f"partition = {unknown[0]}: no job of it is in the report; there are {', '.join(sorted(there))}"
        )
    named = set(chosen.partitions or (() if made_up else site.with_gpus()))
    found = [life for life in lives if not named or not named.isdisjoint(life.last.partition.split(","))]
    if not found and not (made_up or site.unknown(chosen.partitions)):
        raise SiteError(
            f"partition: no job of the report is of {', '.join(sorted(named))}, and those are what "
            f"{'is chosen' if chosen.partitions else 'has GPUs'}; the jobs are of {', '.join(sorted(there)) or 'none'}"
        )
    return found


def _record(lives: Lives, rows: Rows, chosen: Chosen) -> Record:
    """Raises TraceError where nothing is left."""
    # Of what comes after its last moment a report tells nothing: it is no time in which GPUs were free.
    since, until = chosen.since or rows.first_end or rows.last, min(chosen.until or rows.last, rows.last)
    if lives.all and until <= since and chosen.since:
        raise SiteError(
            f"since = {format_time(since * SECOND)}: the report has nothing after {format_time(until * SECOND)}"
        )
    if lives.all and until <= since:
        raise SiteError("since: no time is left between it and the end, of --until or of the report; begin earlier")
    if not lives.all:
        what = "" if rows.reading.bad else "; is gres/gpu in AccountingStorageTRES?"
        raise TraceError(f"{rows.reading.path}: {rows.reading.nothing()}{what}")
    for id in [id for id, life in lives.by_id.items() if life.last.again and not life.over]:
        lives.gone(until, id)  # ended by others, and never back: that was its end
    return Record(since=since, first=since, until=until, lives=lives)


def _over(life: Life) -> int:
    """When it was over, seconds since 1970; 0 where it was not."""
    return (life.gave_up or life.runs[-1].ended) if life.over else 0


def _waits(life: Life, at: int) -> bool:
    since = max(life.submitted, life.eligible)
    if 0 < _over(life) <= at or not life.eligible or since > at:
        return False
    return all(0 < run.ended <= at for run in life.runs)


def _peak(lives: Sequence[Life], since: int, until: int) -> int:
    changes: Counter[int] = Counter()
    for life in lives:
        for run in life.runs:
            started, ended = max(run.started, since), min(run.ended or until, until)
            if started < ended:
                changes[started] += life.last.gpus
                changes[ended] -= life.last.gpus
    busy = most = 0
    for at in sorted(changes):
        busy += changes[at]
        most = max(most, busy)
    return most


def _complete(site: Site, given: Given, lives: Sequence[Life], counts: tuple[int, int], peak: int) -> frozenset[str]:
    """Make up what nobody has said. ``counts``: from and to, seconds since 1970. Raises SiteError."""
    made = set()
    if given.gpus is not None or not site.nodes:
        wanted = given.gpus or peak
        if not wanted:
            raise SiteError("gpus: nothing ran in this report, so say how many GPUs there are with --gpus")
        make_hosts(site, wanted, given.per_host)
        made.add(HOSTS)
    if site.associations is None:
        make_accounts(site, lives, *counts)
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
