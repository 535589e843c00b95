"""Plays a scenario: each line is an event, each step goes through the core, and everything said is recounted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from support import recount_answers, recount_reasons
from support.recount import Recount
from support.scenario import MIDNIGHT, Said, Scenario, Step, Wanted, lines, shown, wanted
from support.world import World, budgets
from tenure import units, words
from tenure.core import admission
from tenure.core import events as e
from tenure.core.decisions import Decision, Plan
from tenure.core.explain import Explainer
from tenure.core.model import SHARE_ONE, HostState, Policy
from tenure.core.reasons import Because, Refusal
from tenure.core.state import State
from tenure.engine import wishes
from tenure.policies.backfill import Backfill
from tenure.policies.fifo import Fifo
from tenure.policies.priority import PriorityCaps
from tenure.store.store import Store

OTHERS = {"backfill": Backfill, "fifo": Fifo, "priority": PriorityCaps}
"""What may stand behind ``under``."""


class Recounted(World):
    """A world in which every number of every decision and answer is compared with a recount of its log."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self.recount = Recount(by_tree="decide" not in more)
        super().__init__(*given, **more)

    def _collect(self) -> None:
        super()._collect()
        now, events, result = self.log[-1]
        recount_reasons.follow(self.recount, now, events, result)
        explainer = Explainer(self.state)
        for job in self.state.jobs.values():
            recount_answers.answer(self.recount, job.id, explainer.why(job))


class Play:
    """A scenario under way."""

    def __init__(self, scenario: Scenario, store: Store) -> None:
        self.scenario, self.store = scenario, store
        shares = {path: units.parse_share(share) / SHARE_ONE for path, share in scenario.budgets.items()}
        self.tree = budgets(shares)
        members = scenario.settings.get("members", {})
        self.tree = tuple(replace(b, members=tuple(members.get(b.path, ()))) for b in self.tree)
        others = OTHERS[scenario.under]() if scenario.under else None
        self.world = Recounted(
            scenario.clusters,
            tree=self.tree,
            policy=scenario.policy,
            auto_up=not scenario.manual,
            auto_release=not scenario.manual,
            at=MIDNIGHT,
            **({"decide": others.run} if others is not None else {}),
        )
        self.jobs: dict[str, int] = {}
        self.refused: dict[str, Refusal] = {}
        self.told = len(self.world.decisions)

    def step(self, step: Step) -> tuple[list[str], dict[str, Because | Refusal]]:
        """Let time pass and the step happen. What was decided, as lines, and what each line and job says then."""
        world = self.world
        if MIDNIGHT + step.at > world.now:
            world.advance(MIDNIGHT + step.at - world.now, tick=units.parse_duration("5m"))
        events = [event for line in step.do if (event := self.event(line)) is not None]
        if events:
            decide, world.decide = world.decide, world.decide if step.passes else _no_pass
            world.step(*events)
            world.decide = decide
        names = {job_id: name for name, job_id in self.jobs.items()}
        found: list[str] = []
        said: dict[str, Because | Refusal] = dict(self.refused)
        for decision in world.decisions[self.told :]:
            for text, because in lines(decision, names):
                at = _when(decision)
                line = text if at == world.now else f"{units.format_duration(at - MIDNIGHT, exact=True)}: {text}"
                found.append(line)
                said.setdefault(line, because)
        self.told = len(world.decisions)
        self.refused.clear()
        return found, said | self._answers()

    def _answers(self) -> dict[str, Because]:
        explainer = Explainer(self.world.state)
        live = self.world.state.jobs
        return {name: explainer.why(live[i]) for name, i in self.jobs.items() if i in live}

    def _attempt(self, name: str) -> str:
        return self.world.attempt(self.jobs[name]).id

    # ---- lines

    def event(self, line: str) -> e.Event | None:
        """The event of a line; None when it was refused, as has to be. Raises AttributeError: no such line."""
        word, _, rest = line.partition(" ")
        return getattr(self, f"_{word}")(rest, line)  # type: ignore[no-any-return]

    def _submit(self, rest: str, line: str) -> e.Event:
        name, _, text = rest.partition(" to ")
        job, first = wanted(text), self.world.next_id
        spec = self.world.spec(job.budget, **job.spec)
        admission.check_job(self.world.state, spec)
        array = units.parse_array(job.array) if job.array else None
        waits = wishes.Lookup(self.store, self._wishes(job)).waits(self.world.state)
        event = self.world.queue_spec(spec, job.hold, array, waits.after)
        if array is None:
            self.jobs[name] = first
        else:
            self.jobs |= {f"{name}_{index}": first + i for i, index in enumerate(array.indices)}
        return replace(event, broken=waits.broken)

    def _wishes(self, job: Wanted) -> Iterator[wishes.Wish]:
        for name, ok in job.after:
            job_id = self.jobs.get(name) or int(name)
            yield wishes.Wish(job_id, None, ok, "after_ok" if ok else "after_any")

    def _try(self, rest: str, line: str) -> None:
        """What has to be refused."""
        try:
            event = self.event(rest)
            if isinstance(event, e.ConfigApplied):
                admission.check_config(self.world.state, event)
        except Refusal as refusal:
            self.refused[line] = refusal
            return
        raise AssertionError(f"{line}: was accepted")

    def _ends(self, name: str, kind: e.ExitKind, codes: tuple[int, ...], **more: Any) -> e.Event:
        return e.AttemptExited(self.world.now, self._attempt(name), kind, codes, **more)

    def _finish(self, rest: str, line: str) -> e.Event:
        return self._ends(rest, e.ExitKind.EXITED, (0,))

    def _exit(self, rest: str, line: str) -> e.Event:
        name, code = rest.split(" ")
        return self._ends(name, e.ExitKind.EXITED, (int(code),))

    def _lost(self, rest: str, line: str) -> e.Event:
        name, message = rest.split(" ", 1)
        return self._ends(name, e.ExitKind.LOST, (), message=message)

    def _missing(self, rest: str, line: str) -> e.Event:
        name, message = rest.split(" ", 1)
        return self._ends(name, e.ExitKind.NOT_STARTED, (), message=message)

    def _again(self, rest: str, line: str) -> e.Event:
        name, message = rest.split(" ", 1)
        return self._ends(name, e.ExitKind.EXITED, (143,), message=message, again=True)

    def _up(self, rest: str, line: str) -> e.Event:
        return e.ReplicasUp(self.world.now, self._attempt(rest))

    def _checkpoint(self, rest: str, line: str) -> e.Event:
        return e.CheckpointReported(self.world.now, self._attempt(rest))

    def _cancel(self, rest: str, line: str) -> e.Event:
        name, by = rest.split(" by ")
        return e.CancelRequested(self.world.now, self.jobs[name], by)

    def _hold(self, rest: str, line: str) -> e.Event:
        name, by = rest.split(" by ")
        return e.Held(self.world.now, self.jobs[name], by)

    def _release(self, rest: str, line: str) -> e.Event:
        name, by = rest.split(" by ")
        return e.Released(self.world.now, self.jobs[name], by)

    def _evict(self, rest: str, line: str) -> e.Event:
        name, by, why = re.split(r" by | because ", rest)
        return e.EvictRequested(self.world.now, self._attempt(name), by, why)

    def _host(self, rest: str, line: str) -> e.Event:
        """``host h0 draining by mia because ...``."""
        what, by, why = re.split(r" by | because ", rest)
        host, state = what.split(" ")
        cluster = next(c.name for c in self.world.clusters if any(h.name == host for h in c.hosts))
        return e.HostStateChanged(self.world.now, cluster, host, HostState(state), by, why)

    def _others(self, rest: str, line: str) -> e.Event:
        match = re.fullmatch(r"use (\d+) GPUs of (\S+)", rest)
        assert match is not None, line
        gpus, host = int(match[1]), match[2]
        cluster = next(c.name for c in self.world.clusters if any(h.name == host for h in c.hosts))
        return e.ForeignUse(self.world.now, cluster, host, gpus, gpus * 1000, 0, "job 7 of eve" if gpus else "")

    def _pause(self, rest: str, line: str) -> e.Event:
        scope, by = rest.split(" by ")
        return e.Paused(self.world.now, e.PauseScope(scope), by)

    def _resume(self, rest: str, line: str) -> e.Event:
        scope, by = rest.split(" by ")
        return e.Resumed(self.world.now, e.PauseScope(scope), by)

    def _clock(self, rest: str, line: str) -> e.Event:
        return e.ClockAlarm(self.world.now, rest == "steps")

    # ---- configurations

    def _share(self, rest: str, line: str) -> e.Event:
        """``share lab/a 0%, lab/b 100%``."""
        shares = {path: units.parse_share(share) for path, share in (one.split(" ") for one in rest.split(", "))}
        self.world.tree = tuple(replace(b, share=shares.get(b.path, b.share)) for b in self.world.tree)
        return self.world.config()

    def _tree(self, rest: str, line: str) -> e.Event:
        """``tree lab/a 40%, lab/new 60%``: other budgets from now on."""
        shares = {path: units.parse_share(share) for path, share in (one.split(" ") for one in rest.split(", "))}
        self.world.tree = budgets({path: share / SHARE_ONE for path, share in shares.items()})
        return self.world.config()

    def _set(self, rest: str, line: str) -> e.Event:
        """``set reserved_percent 0``."""
        name, value = rest.split(" ")
        number = (
            int(value) if isinstance(getattr(Policy(), name), int) and value.isdigit() else units.parse_duration(value)
        )
        self.world.policy = replace(self.world.policy, **{name: number})
        return self.world.config()

    def _without(self, rest: str, line: str) -> e.Event:
        """``without host h0``, ``without budget lab/a``, ``without cluster aux``: it is configured no more."""
        what, name = rest.split(" ")
        config = self.world.config()
        if what == "cluster":
            return replace(config, clusters=tuple(c for c in config.clusters if c.name != name))
        if what == "budget":
            return replace(config, budgets=tuple(b for b in config.budgets if b.path != name))
        clusters = (replace(c, hosts=tuple(h for h in c.hosts if h.name != name)) for c in config.clusters)
        return replace(config, clusters=tuple(clusters))


def _no_pass(state: State) -> list[Plan]:
    return []


def _when(decision: Decision) -> int:
    return decision.at


def as_said(said: Because | Refusal) -> Said:
    """What was said, as it is written in a scenario."""
    if isinstance(said, Refusal):
        text = words.sentence(Because(said.reason))
        return Said(said.reason.value, text, {}, said.field, said.value, said.fix)
    return Said(said.reason.value, words.sentence(said), shown(said))
