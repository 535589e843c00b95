"""The recorded queue, run twice and more: as it was, and with Tenure, or another policy, deciding from some moment on.

Rules for what nobody can know are in docs/shadow.md, each with whom it favours. Times are ms UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tenure.core.model import DAY, HOUR, SECOND, HostState, JobSpec
from tenure.policies import by_name
from tenure.reports.records import JobRow
from tenure.reports.records import Run as Tables
from tenure.shadow.asitwas import AsItWas, Where
from tenure.shadow.journal import Record
from tenure.shadow.lives import Life
from tenure.shadow.lives import Run as SlurmRun
from tenure.shadow.seen import SOMEWHERE
from tenure.shadow.terms import SPARE, Terms
from tenure.sim.claims import claims_for
from tenure.sim.loop import Progress, Simulation
from tenure.sim.settings import TENURE, Pairs, with_settings
from tenure.sim.setup import Faults, Setup
from tenure.sim.work import Action, AsSigned, Cancel, HostBecomes, Submit, Wake, Work
from tenure.slurm.reading import expand

KIND, AGAIN = "slurm", "slurm-again"
"""The first time that a job waits, and each time after a run that did not end it."""
ENDLESS = 3660 * DAY
"""The work of a job whose length nobody knows: until its time limit, or until the end of what is looked at."""
BEFORE = 8 * HOUR
"""How long before the record begins its first jobs may have started here: no protection is longer."""
_NEVER_SAVES = 3660 * DAY
_STATES = {"up": HostState.HEALTHY, "drained": HostState.DRAINING, "down": HostState.FAILED}


@dataclass(frozen=True, slots=True)
class Span:
    """``start``: from when on there is a state; ``takeover``: from when on Tenure decides, and all is measured; both
    whole hours apart; ``end``: the last look.
    """

    start: int
    takeover: int
    end: int


def span_of(record: Record, lookback: int, measured_from: int | None = None) -> Span:
    """All of the record is measured, but what there is of it beyond one lookback only fills the ledger, at most one
    lookback again. ``measured_from``: in its place. Raises ValueError outside of the record.
    """
    since, end = record.since * SECOND, record.until * SECOND
    takeover = since + min(lookback, max(0, end - since - lookback)) if measured_from is None else measured_from
    if not since <= takeover < end:
        raise ValueError("outside of what was recorded")
    before = -(-(takeover - since) // HOUR) * HOUR + BEFORE
    return Span(takeover - before, takeover, end)


@dataclass(frozen=True, slots=True)
class Then:
    """Who decides from the takeover on: a policy, its options, and settings as people write them."""

    policy: str = TENURE
    options: Mapping[str, int] = field(default_factory=dict)
    pairs: Pairs = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """What is submitted once. ``where``: its start under Slurm. ``known``: how long Slurm ran it, ms; ``endless``: and
    it may have to run for longer. ``gave_up``: when it is cancelled.
    """

    life: Life
    spec: JobSpec
    submitted: int
    where: Where | None
    known: int
    endless: bool
    gave_up: int | None
    first: bool

    def work(self, owner: int = 0) -> Work:
        """``owner``: a number for whoever submits."""
        spec, runtime = self.spec, self.known
        if self.endless:
            runtime = ENDLESS if spec.timeout is None else max(spec.timeout, runtime)
        if spec.timeout is not None:
            spec = replace(spec, timeout=max(spec.timeout, runtime) + SPARE)
        kind = KIND if self.first else AGAIN
        if self.saves:
            return Work(spec, owner, kind, runtime, startup=0)
        # Run again from its beginning: what Slurm's own requeue does.
        return Work(spec, owner, kind, runtime, checkpoint_every=0, save_time=_NEVER_SAVES, startup=0, restart_cost=0)

    @property
    def saves(self) -> bool:
        return self.spec.contract.resumable


@dataclass(slots=True)
class Cut:
    """The jobs of a span. ``left_out``: why, and how many."""

    pieces: list[Piece] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    outside: int = 0
    """GPU-ms that jobs of other partitions took on hosts of the clusters, within what is measured."""


def cut(record: Record, terms: Terms, span: Span, takeover: int | None) -> Cut:
    """The pieces of every job, in the order of submission. ``takeover``: up to when runs are as Slurm had them."""
    found = Cut()
    hosts = {host.name for cluster in terms.config.clusters for host in cluster.hosts}
    for life in record.lives.all:
        spec = terms.spec(life)
        if spec is None:
            outside = _outside(life, hosts, span)
            found.outside += outside
            found.left_out["of other partitions, or on other hosts" if life.last.gpus else "without GPUs"] += 1
            continue
        if not life.eligible and not life.runs:
            found.left_out["that were held, or waited for other jobs, all the time"] += 1
            continue
        pieces = [one for one in _pieces(life, spec, span, takeover) if one.submitted <= span.end]
        found.pieces += pieces if takeover is not None else map(_kept, pieces)
    found.pieces.sort(key=lambda piece: (piece.submitted, piece.life.key))
    return found


def _outside(life: Life, hosts: set[str], span: Span) -> int:
    total = 0
    for run in life.runs:
        start, end = max(run.started * SECOND, span.takeover), min((run.ended * SECOND) or span.end, span.end)
        names = expand(run.hosts) if end > start else []
        if names:
            total += life.last.gpus * sum(name in hosts for name in names) * (end - start) // len(names)
    return total


def _pieces(life: Life, spec: JobSpec, span: Span, takeover: int | None) -> Iterator[Piece]:
    submitted = max(life.submitted, life.eligible) * SECOND
    gave_up = life.gave_up * SECOND or None
    first = True
    runs = [run for run in life.runs if run.ended != run.started or run is life.runs[-1]]
    for number, run in enumerate(runs):
        start, end = run.started * SECOND, run.ended * SECOND
        submitted = min(submitted, start)
        if takeover is not None and not (end and end <= takeover):
            yield _rest(life, spec, span, takeover, submitted, runs[number:], first)
            return
        if not end or end > span.start:
            yield Piece(
                life, spec, max(submitted, span.start), _where(run, span), _ran(run, span), not end, None, first
            )
        submitted, first = end, False
    waits_on = not runs or (runs[-1].ended and not _ended_there(life, runs[-1]))
    if waits_on and (gave_up is None or gave_up > span.start):
        yield Piece(life, spec, max(submitted, span.start), None, 0, True, gave_up, first)


def _ended_there(life: Life, run: SlurmRun) -> bool:
    """Whether the run was its last: it is over, and did not wait for another one."""
    return life.over and (not life.gave_up or run.guessed or life.gave_up <= run.ended)


def _rest(
    life: Life, spec: JobSpec, span: Span, takeover: int, submitted: int, runs: list[SlurmRun], first: bool
) -> Piece:
    """One job for all runs that Slurm had not ended by the takeover: Tenure has to give it as much time."""
    began = runs[0].started * SECOND < takeover
    known = sum(_ran(run, span) for run in runs)
    endless = not runs[-1].ended or not life.over
    where = _where(runs[0], span) if began else None
    return Piece(life, spec, max(submitted, span.start), where, max(known, SECOND), endless, None, first)


def _where(run: SlurmRun, span: Span) -> Where:
    hosts = () if run.hosts == SOMEWHERE else tuple(expand(run.hosts))
    return Where(max(run.started * SECOND, span.start), hosts)


def _ran(run: SlurmRun, span: Span) -> int:
    """ms within the span, at least a second."""
    end = run.ended * SECOND or span.end
    return max(SECOND, end - max(run.started * SECOND, span.start))


class Recorded:
    """The ``Workload`` of a record."""

    def __init__(self, cut: Cut, hosts: list[HostBecomes], takeover: int, policy: AsItWas) -> None:
        self.cut = cut
        self.pieces = cut.pieces
        self.policy = policy
        self.jobs: dict[int, Piece] = {}
        """Job id -> piece."""
        self.refused_pieces: list[tuple[Piece, str]] = []
        self._hosts = hosts
        self._takeover = takeover

    def begin(self, at: int) -> Iterator[Action]:
        yield from self._hosts
        yield Wake(self._takeover, 0)
        owners: dict[tuple[str, str], int] = {}
        for token, piece in enumerate(self.pieces):
            owner = owners.setdefault((piece.spec.user, piece.spec.budget), len(owners))
            yield Submit(piece.submitted, piece.work(owner), token)

    def wake(self, at: int, token: int) -> Iterator[Action]:
        return iter(())

    def accepted(self, at: int, token: int, job_id: int, work: Work) -> Iterator[Action]:
        piece = self.jobs[job_id] = self.pieces[token]
        if piece.where is not None:
            self.policy.expect(job_id, piece.where)
            yield Wake(piece.where.at, 0)
        if piece.gave_up is not None:
            yield Cancel(piece.gave_up, job_id)

    def refused(self, at: int, token: int, work: Work, why: str) -> Iterator[Action]:
        self.refused_pieces.append((self.pieces[token], why))
        return iter(())

    def started(self, at: int, job_id: int, work: Work, waited: int) -> Iterator[Action]:
        return iter(())

    def requeued(self, at: int, job_id: int, work: Work) -> Iterator[Action]:
        return iter(())

    def ended(self, at: int, job_id: int, work: Work, state: str) -> Iterator[Action]:
        return iter(())


@dataclass(slots=True)
class Side:
    """One of the two: its tables, and which job of them is which piece."""

    tables: Tables
    jobs: dict[int, Piece]
    refused: list[tuple[Piece, str]]
    left_out: Counter[str]
    outside: int
    late: int

    def rows(self) -> Iterator[tuple[JobRow, Piece]]:
        for row in self.tables.jobs:
            yield row, self.jobs[row.id]


def as_it_was(record: Record, terms: Terms, span: Span, progress: Progress | None = None) -> Side:
    """Slurm's own decisions."""
    return _run(record, terms, span, None, progress)


def under_tenure(record: Record, terms: Terms, span: Span, progress: Progress | None = None) -> Side:
    """Slurm's decisions up to the takeover, Tenure's from then on."""
    return _run(record, terms, span, span.takeover, progress)


def under(record: Record, terms: Terms, span: Span, then: Then, progress: Progress | None = None) -> Side:
    """Slurm's decisions up to the takeover, from then on those of another policy, which admits what Slurm did.

    Raises SettingError.
    """
    return _run(record, terms, span, span.takeover, progress, then)


def _run(
    record: Record, terms: Terms, span: Span, takeover: int | None, progress: Progress | None, then: Then | None = None
) -> Side:
    simulation, workload = prepared(record, terms, span, takeover, then or Then())
    tables = simulation.run(progress)
    found = workload.cut
    return Side(tables, workload.jobs, workload.refused_pieces, found.left_out, found.outside, workload.policy.late)


def prepared(
    record: Record, terms: Terms, span: Span, takeover: int | None, then: Then | None = None
) -> tuple[Simulation, Recorded]:
    """A run that has not begun. ``takeover``: from when on ``then`` decides, None: never. Raises SettingError."""
    then = then or Then()
    hosts = list(_host_changes(record, terms, span, takeover))
    pieces = cut(record, terms, span, takeover)
    setup = Setup(
        title="the recorded queue",
        clusters=terms.config.clusters,
        budgets=terms.config.budgets,
        workload=lambda seed: workload,
        claims=AsSigned.under if takeover is None else claims_for,
        policy=then.policy,
        seed=0,
        duration=span.end - span.start,
        options=then.options,
        scheduling=terms.config.policy,
        faults=Faults(between=0),
        start=span.start,
        warmup=span.takeover - span.start,
    )
    setup = with_settings(setup, then.pairs)
    policy = AsItWas(takeover, by_name(setup.policy, **setup.options))
    workload = Recorded(pieces, hosts, span.takeover, policy)
    admits = takeover is not None and then.policy == TENURE
    simulation = Simulation(setup, policy=policy, admit_from=span.takeover if admits else span.end + 1)
    if takeover is None:
        simulation.run_record.policy = "slurm as it was"
    elif then.policy == TENURE:
        simulation.run_record.policy = "tenure"
    return simulation, workload


def _kept(piece: Piece) -> Piece:
    """As Slurm runs it: nothing ends it but Slurm, and what had not ended at the last look goes on."""
    return replace(piece, spec=replace(piece.spec, timeout=None))


def _host_changes(record: Record, terms: Terms, span: Span, takeover: int | None) -> Iterator[HostBecomes]:
    """Under Slurm, jobs on a host that is down end when Slurm says so, not before."""
    clusters = {host.name: cluster.name for cluster in terms.config.clusters for host in cluster.hosts}
    before: dict[str, HostState] = {}
    for when, name, word in record.hosts:
        at = max(when * SECOND, span.start)
        state = _STATES.get(word)
        if name not in clusters or state is None or at > span.end:
            continue
        if state is HostState.FAILED and (takeover is None or at < takeover):
            state = HostState.DRAINING
        if before.get(name, HostState.HEALTHY) is not state:
            before[name] = state
            yield HostBecomes(at, clusters[name], name, state, f"{word} in Slurm")
