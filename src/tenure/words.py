"""Every reason as one plain English sentence, with the numbers behind it in human units.

CLI, API, demo and web all use ``sentence``. The templates below are the only place where reasons become words. In
a template ``{key:kind}`` is a number of the reason; a part in square brackets is left out when one of its numbers
is missing, and after ``|`` comes what is said instead. What is outside of brackets always holds, so every reason
has a sentence whatever its numbers.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping

from tenure import units
from tenure.core.model import GPU, SHARE_ONE
from tenure.core.reasons import Because, Number, Reason

_RATIOS = (
    "[: its usage ratio is {first_ratio_ppm:ratio} ({first_recent_ppm:ratio} over the last day), "
    "that of {second} {second_ratio_ppm:ratio} ({second_recent_ppm:ratio})]"
)
_PROTECTED = "[; first to lose their protection: {protected:protections}]"
_EVICTABLE = "[; evictions could free {evictable_gpus} more]"

TEMPLATES: dict[Reason, str] = {
    Reason.STARTED_FREE: "Started on free GPUs[: it needs {gpus}, and {free_gpus} were free].",
    Reason.STARTED_BY_EVICTION: "Claims GPUs of others[: {victims} evicted for it][, all gone by {kill_at:time}].",
    Reason.STARTED_RESERVED: "Starts on the hosts that were held for it[ since {made_at:time}]"
    "[: {victims} evicted for it].",
    Reason.RESERVED: "Holds a reservation[ of {hosts:hosts}][ in {cluster}][: free to it by {told:time}]"
    "[, its reservation number {times}].",
    Reason.HEADROOM: "[{hosts:hosts_are}|Some hosts are] kept for short contracts"
    "[: {wanted:gpus_are} wanted for them].",
    Reason.CLAIM_COMPLETE: "Started: the GPUs that it claimed have all been released[; claimed at {planned_at:time}].",
    Reason.CLAIM_RELEASED: "The GPUs that it claimed are free; charged jobs choose first, and it takes what they leave"
    "[; claimed at {planned_at:time}].",
    Reason.CLAIM_DROPPED: "Its claim could not come true, so it queues again[: {why:word}][ (host {host})].",
    Reason.WAITING_NEW: "Waiting for the next scheduling pass.",
    Reason.WAITING_STANDING: "Waiting: [{first}|another budget] [{rule:rule}|comes first]"
    f"[ of {{margin:gpus_time}} GPU-hours]{_RATIOS}"
    "[ ({first_priority} against {priority})][; it runs as attempt {attempt}]"
    "[, whose turn lasts until {turn_until:time}].",
    Reason.WAITING_CAPACITY: "Waiting for GPUs[: it needs {gpus}, and {free_gpus} are free]"
    f"{_EVICTABLE}{_PROTECTED}.",
    Reason.WAITING_WHOLE_HOSTS: "Waiting for whole hosts[: it needs {whole_needed}, and {whole_free} are free]"
    f"[; {{free_gpus:gpus_are}} free in pieces]{_EVICTABLE}{_PROTECTED}.",
    Reason.WAITING_LABELS: "Waiting for hosts with the labels that it requires[: {labels:names}]"
    "[; {free_gpus:gpus_are} free elsewhere].",
    Reason.WAITING_HOST_STATE: "Waiting for hosts to be healthy again[: {hosts:names}][ ({closed} closed)].",
    Reason.WAITING_CPU_MEMORY: "Waiting for CPUs or memory: GPUs are free, but not enough beside them"
    "[ on {hosts_short:hosts}].",
    Reason.WAITING_OTHERS: "Waiting: jobs that Tenure did not start use [{others:gpus}|GPUs or CPUs][ on {hosts:names}]"
    "[: it needs {gpus}, and {free_gpus} are free at most].",
    Reason.WAITING_EVICTION_CAP: "Waiting: only [{cap:evictions_are}|so many evictions are] allowed in a minute"
    "[, and {recent} happened in the last one].",
    Reason.WAITING_CLAIM: "Waiting for its GPUs: [{victims:names}|others] must release them first"
    "[, by {kill_at:time}].",
    Reason.WAITING_TEAM_CAP: "Waiting: its team is at its cap[ in {cluster}].",
    Reason.WAITING_TURN: "Waiting for its turn: jobs that came before it start first[ in {cluster}].",
    Reason.WAITING_RESERVED: "Waiting: the GPUs that it could use are held for jobs that come first[ in {cluster}]"
    "[, {hosts:hosts} of them].",
    Reason.WAITING_RESERVATION: "Waiting: [{held:hosts_are}|some hosts are] held for it[ in {cluster}: {hosts:names}]"
    "[; they are free to it by {told:time}][, and it starts by {starts_by:time}].",
    Reason.WAITING_DEPENDENCY: "Waiting for other jobs to end[, with success: {ok:names}]"
    "[, in whatever way: {any:names}].",
    Reason.WAITING_THROTTLE: "Waiting[: at most {throttle} jobs of array {array} are let in at a time].",
    Reason.HELD_BY_PERSON: "Held by [{by}|a person] until somebody releases it.",
    Reason.HELD_NO_SHARE: "Held: [{budget}|its budget] has no share[ of {cluster}] now, so nothing charged can "
    "start in it.",
    Reason.BACKING_OFF: "Backing off after failures[: {failures} in a row][, the last one: {last:word}]"
    "[; tried again at {until:time}].",
    Reason.PAUSED_STARTS: "Waiting: all starts are paused[ by {by}].",
    Reason.PAUSED_EVICTIONS: "Waiting: evictions are paused[ by {by}], and it fits only with evictions.",
    Reason.EVICTED_STANDING: f"Evicted[ for job {{gainer}}]: [{{first}}|another budget] comes first{_RATIOS}.",
    Reason.EVICTED_PRIORITY: "Evicted for [job {gainer}|a job] of the same budget, which has the higher priority"
    "[: {gainer_priority} against {victim_priority}].",
    Reason.EVICTED_LEVEL: "Evicted for [job {gainer}|a job] with a higher priority"
    "[: {gainer_priority} against {victim_priority}].",
    Reason.EVICTED_UNALLOCATED: "Evicted[ for job {gainer}][ ({gainer_gpus:gpus})]: it ran unallocated, and charged "
    "jobs come first.",
    Reason.EVICTED_RESERVED: "Evicted[ for job {gainer}]: its hosts were held for that job[ since {made_at:time}], "
    "and their time has come.",
    Reason.EVICTED_HEADROOM: "Evicted[ for job {gainer}]: its host is kept for short contracts[, which need "
    "{wanted:gpus} now].",
    Reason.EVICTED_MOVED: "Moved[ to make room for job {gainer}]: there is a place for it elsewhere[, and that job "
    "gains {gained:gpu_hours} GPU-hours, where {lost:gpu_hours} are lost].",
    Reason.EVICTED_DRAIN: "Evicted because its host[ {host}] is draining[: {why}].",
    Reason.EVICTED_BY_PERSON: "Evicted by [{by}|a person][: {why}][{protected:while_protected}].",
    Reason.HOST_FAILED: "Its host[ {host}] failed[: {why}][; last checkpoint {checkpoint_at:time}].",
    Reason.TIMED_OUT: "Reached its timeout[ of {timeout:duration}].",
    Reason.START_TIMED_OUT: "Not all of its replicas came up in time[; it was given its GPUs at {started_at:time}].",
    Reason.CANCELLED: "Cancelled[ by {by}].",
    Reason.NOT_RELEASED: "GPUs were not released in time[ by attempt {attempt}][, so these hosts drain as faulty: "
    "{hosts:names}].",
    Reason.RESERVATION_DISPLACED: "What was held for it went to [job {by}|a job] that came later and sorts before it"
    "[; it would have started by {starts_by:time}].",
    Reason.RESERVED_HOST_LOST: "Its reservation is made anew: a host that was held for it is lost[: {host}].",
    Reason.RESERVATIONS_OFF: "Nothing is held for it any more: reservations are switched off[ on {cluster}].",
    Reason.SUCCEEDED: "Finished successfully.",
    Reason.FAILED: "Failed[: exit code {exit_codes:codes}][ ({message})].",
    Reason.NOT_STARTED: "Could not be started[: {message}].",
    Reason.EXECUTOR_LOST: "The process that ran it was lost[: {message}].",
    Reason.PREEMPTED: "Evicted, and not resumable, so it has ended[: {evicted_by:word}][ for job {gainer}].",
    Reason.DEPENDENCY_FAILED: "Cancelled: it was to run after the success of [job {job}|another job][, which ended as "
    "{state:word}].",
    Reason.REQUEUED: "It was queued again by the system that ran it[: {message}].",
    # Refusals carry a field, its value and a fix instead of numbers.
    Reason.UNKNOWN_BUDGET: "There is no such budget.",
    Reason.UNKNOWN_CLUSTER: "There is no such cluster.",
    Reason.UNKNOWN_JOB: "There is no such job.",
    Reason.NOT_A_MEMBER: "The user may not charge jobs to this budget.",
    Reason.NO_SHARE: "The budget has no share, which charged jobs need.",
    Reason.TOO_MANY_GPUS: "The job needs more than the cluster has.",
    Reason.REPLICA_TOO_LARGE: "A replica is larger than any host, and it never spans several.",
    Reason.NO_SUCH_LABEL: "No host has the label that the job requires.",
    Reason.MIN_RUNTIME_ABOVE_MAX: "min_runtime is above the maximum of the cluster.",
    Reason.MIN_RUNTIME_BELOW_FLOOR: "min_runtime is above 0 and below the floor of the cluster.",
    Reason.MIN_RUNTIME_ABOVE_TIMEOUT: "min_runtime is longer than the job's own timeout.",
    Reason.CONTRACT_ABOVE_ENTITLEMENT: "The contract is worth more GPU time than the budget gets in a whole lookback.",
    Reason.GRACE_ABOVE_MAX: "The grace period is longer than the cluster allows.",
    Reason.BAD_VALUE: "The value is not possible.",
    Reason.HOST_IN_USE: "The configuration would take a host from under a job.",
    Reason.BUDGET_IN_USE: "The configuration would take a budget from under a job.",
    Reason.CLUSTER_IN_USE: "The configuration would take a cluster from under a job.",
}

CAUSES: dict[Reason, str] = {
    Reason.EVICTED_STANDING: "[{first}|another budget] comes first[ (usage ratio {first_ratio_ppm:ratio} against "
    "{second_ratio_ppm:ratio} of {second}; over the last day {first_recent_ppm:ratio} against "
    "{second_recent_ppm:ratio})]",
    Reason.EVICTED_PRIORITY: "that job has the higher priority in the same budget"
    "[ ({gainer_priority} against {victim_priority})]",
    Reason.EVICTED_LEVEL: "that job has the higher priority[ ({gainer_priority} against {victim_priority})]",
    Reason.EVICTED_UNALLOCATED: "it ran unallocated, and charged jobs come first",
    Reason.EVICTED_RESERVED: "its hosts were held for that job[ since {made_at:time}]",
    Reason.EVICTED_HEADROOM: "its host is kept for short contracts[, which needed {wanted:gpus}]",
    Reason.EVICTED_MOVED: "there was a place for it elsewhere[, and that job gained {gained:gpu_hours} GPU-hours, "
    "where {lost:gpu_hours} were lost]",
    Reason.EVICTED_DRAIN: "its host[ {host}] was draining[ ({why})]",
    Reason.EVICTED_BY_PERSON: "[{by}|a person] wanted it so[ ({why})]",
    Reason.HOST_FAILED: "its host[ {host}] failed[ ({why})]",
}
"""What follows the word "because" when an eviction is told: templates as above."""

_PART = re.compile(r"\[([^][]*)\]")
_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")


class _Missing(Exception):
    """A number that a part of a template needs is not there, or says that there is none."""


def sentence(because: Because) -> str:
    """One plain sentence for a reason and its numbers."""
    return phrase(because.reason, because.numbers)


def phrase(reason: Reason, numbers: Mapping[str, Number]) -> str:
    """``sentence`` for a reason and its numbers apart."""
    return _PART.sub(lambda part: _part(part[1], numbers), TEMPLATES[reason])


def cause(because: Because) -> str:
    """Why an eviction was allowed, as what follows "because"; for other reasons their sentence, inside another one."""
    template = CAUSES.get(because.reason)
    if template is not None:
        return _PART.sub(lambda part: _part(part[1], because.numbers), template)
    plain = sentence(because).removesuffix(".")
    return plain[:1].lower() + plain[1:]


def title(reason: Reason) -> str:
    """The code as words: ``waiting_whole_hosts`` -> ``waiting whole hosts``."""
    return reason.value.replace("_", " ")


def keys(reason: Reason) -> list[tuple[str, str]]:
    """The numbers that the sentence of a reason can show, with their kinds ('': as it is)."""
    found: dict[str, str] = {}
    for match in _PLACE.finditer(TEMPLATES[reason]):
        found.setdefault(match[1], match[2] or "")
    return list(found.items())


_BEEN = {"timed_out": "had timed out", "succeeded": "had succeeded", "failed": "had failed"}
_IS = {"timed_out": "has timed out", "succeeded": "has succeeded", "failed": "has failed"}
_IS |= {"cancelled": "was cancelled", "preempted": "was preempted"}


def being(state: str, *, then: bool = False) -> str:
    """A job's state behind "it": ``is running``, ``has succeeded``; of a past moment ``was running``."""
    known = _BEEN if then else _IS
    return known.get(state, f"{'was' if then else 'is'} {state.replace('_', ' ')}")


def _part(text: str, numbers: Mapping[str, Number]) -> str:
    first, _, otherwise = text.partition("|")
    try:
        return _PLACE.sub(lambda place: _show(place[1], place[2], numbers), first)
    except _Missing:
        return otherwise


def _show(key: str, kind: str | None, numbers: Mapping[str, Number]) -> str:
    value = numbers.get(key)
    if value is None or value in ("", ()):
        raise _Missing
    if kind is None:
        return _plain(value)
    if kind == "ratio":
        return _ratio(key, numbers)
    if kind in _INTEGER_KINDS:
        if not isinstance(value, int):
            raise _Missing
        return _INTEGER_KINDS[kind](value)
    return _OTHER_KINDS[kind](value)


def _plain(value: Number) -> str:
    return ", ".join(_plain(item) for item in value) if isinstance(value, tuple | list) else str(value)


def _time(value: int) -> str:
    if value <= 0:
        raise _Missing
    return moment(value)


def moment(at: int) -> str:
    """``2026-10-09 12:00:05 UTC`` of ms since the epoch."""
    return units.format_time(at - at % 1000).replace("T", " ").replace("Z", " UTC")


def _ratio(key: str, numbers: Mapping[str, Number]) -> str:
    """A ratio of ``first`` or ``second``, with as many decimals as it takes to tell it from the other's."""
    ppm = numbers[key]
    if not isinstance(ppm, int):
        raise _Missing
    side, _, what = key.partition("_")
    other = numbers.get(f"{'second' if side == 'first' else 'first'}_{what}")
    digits = units.digits_apart(ppm, other if isinstance(other, int) else None)
    return "without a share" if ppm < 0 else units.format_ratio(ppm, SHARE_ONE, digits)


def _are(what: str) -> Callable[[int], str]:
    return lambda number: f"{units.counted(number, what)} {'is' if number == 1 else 'are'}"


def _while_protected(value: int) -> str:
    if not value:
        raise _Missing
    return ", although it was protected"


def _word(value: Number) -> str:
    """A reason's code inside another reason's numbers, as words."""
    return str(value).replace("_", " ")


RULES = {
    "order": "comes first",
    "margin": "is not behind by the margin",
    "turn": "has its turn",
    "priority": "runs a job of no lower priority",
}
"""What lets an exposed or unallocated attempt of a budget stay."""


def _rule(value: Number) -> str:
    if not isinstance(value, str) or value not in RULES:
        raise _Missing
    return RULES[value]


def _codes(value: Number) -> str:
    """Exit codes of replicas, each different one once, signals by name."""
    codes = value if isinstance(value, tuple | list) else (value,)
    shown = dict.fromkeys(code_text(code) for code in codes if code != 0)
    if not shown:
        raise _Missing
    return ", ".join(shown)


def code_text(code: Number) -> str:
    """An exit code; of a signal with its name."""
    if isinstance(code, int) and code < 0:
        try:
            return f"{code} ({signal.Signals(-code).name})"
        except ValueError:
            return str(code)
    return str(code)


def _protections(value: Number) -> str:
    """``((attempt, until), ...)``: who is protected until when."""
    shown = []
    for item in value if isinstance(value, tuple | list) else ():
        if isinstance(item, tuple | list) and len(item) >= 2 and isinstance(item[-1], int):
            shown.append(f"{item[0]} until {_time(item[-1])}")
    if not shown:
        raise _Missing
    return ", ".join(shown)


_INTEGER_KINDS: dict[str, Callable[[int], str]] = {
    "time": _time,
    "duration": units.format_duration,
    "gpu_hours": units.format_gpu_hours,
    "gpus_time": lambda gpus_ms: units.format_gpu_hours(gpus_ms * GPU),
    "while_protected": _while_protected,
    "gpus": lambda gpus: units.counted(gpus, "GPU"),
    "hosts": lambda hosts: units.counted(hosts, "host"),
    "gpus_are": _are("GPU"),
    "hosts_are": _are("host"),
    "evictions_are": _are("eviction"),
}
_OTHER_KINDS: dict[str, Callable[[Number], str]] = {
    "names": _plain,
    "word": _word,
    "codes": _codes,
    "rule": _rule,
    "protections": _protections,
}
