"""Every reason has a sentence, with and without its numbers, and docs/reasons.md lists them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.world import World, hosts
from tenure import words
from tenure.core.decisions import Claim
from tenure.core.explain import why
from tenure.core.model import HOUR, MINUTE
from tenure.core.outcomes import EVICTED
from tenure.core.reasons import Because, Number, Reason

DOCS = Path(__file__).parent.parent / "docs" / "reasons.md"
T = 1_800_000_000_000
EXAMPLES: dict[str, Number] = {
    "time": T,
    "ratio": 420_000,
    "duration": 2 * HOUR,
    "while_protected": 1,
    "names": ("n1", "n2"),
    "word": "host_failed",
    "codes": (0, 1, -9),
    "gpu_hours": 1_500 * HOUR,
    "gpus_time": 8 * HOUR,
    "rule": "margin",
    **dict.fromkeys(("gpus", "hosts", "gpus_are", "hosts_are", "evictions_are"), 3),
    "protections": (("3.1", T), ("4.1", T + HOUR)),
    "": 7,
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_a_sentence_without_its_numbers(reason: Reason) -> None:
    text = words.sentence(Because(reason))
    assert text[0].isupper() or text.startswith("min_runtime")
    assert text.endswith(".") and not set("[]{}|") & set(text) and "  " not in text


@pytest.mark.parametrize("reason", Reason)
def test_every_number_of_a_reason_is_in_its_sentence(reason: Reason) -> None:
    numbers = {key: EXAMPLES[kind] for key, kind in words.keys(reason)}
    text = words.sentence(Because(reason, numbers))
    assert text.endswith(".") and not set("[]{}|") & set(text) and "  " not in text
    if numbers:
        assert text != words.sentence(Because(reason))


@pytest.mark.parametrize("reason", Reason)
def test_numbers_of_a_wrong_kind_are_left_out_and_break_nothing(reason: Reason) -> None:
    for wrong in ("", (), "text", -1, (("a",),), ("x", 1)):
        assert words.sentence(Because(reason, {key: wrong for key, _ in words.keys(reason)})).endswith(".")


def test_gpu_time_is_in_gpu_hours() -> None:
    moved = Because(Reason.EVICTED_MOVED, {"gainer": 9, "gained": 304_000 * MINUTE, "lost": 300_000 * MINUTE})
    assert words.sentence(moved) == (
        "Moved to make room for job 9: there is a place for it elsewhere, and that job gains 5.1 GPU-hours, where "
        "5.0 are lost."
    )


def test_sentences_in_human_units() -> None:
    standing = Because(
        Reason.WAITING_STANDING,
        {
            "first": "lab/vision",
            "first_ratio_ppm": 420_000,
            "first_recent_ppm": 1_000,
            "second": "lab/language",
            "second_ratio_ppm": 1_310_000,
            "second_recent_ppm": -1,
        },
    )
    assert words.sentence(standing) == (
        "Waiting: lab/vision comes first: its usage ratio is 0.42 (0.00 over the last day), that of lab/language 1.31 "
        "(without a share)."
    )
    failed = Because(Reason.FAILED, {"exit_codes": (0, 1, 1, -9), "message": "replica 1 exited"})
    assert words.sentence(failed) == "Failed: exit code 1, -9 (SIGKILL) (replica 1 exited)."
    waiting = Because(Reason.BACKING_OFF, {"until": T, "failures": 3, "last": "executor_lost"})
    assert words.sentence(waiting) == (
        "Backing off after failures: 3 in a row, the last one: executor lost; tried again at 2027-01-15 08:00:00 UTC."
    )
    assert words.sentence(Because(Reason.TIMED_OUT, {"timeout": 90 * MINUTE})) == "Reached its timeout of 1h30m."


def test_one_is_said_as_one() -> None:
    kept = {"hosts": 1, "wanted": 1}
    assert words.sentence(Because(Reason.HEADROOM, kept)) == (
        "1 host is kept for short contracts: 1 GPU is wanted for them."
    )
    for reason in Reason:
        counts = ("", "gpus", "hosts", "gpus_are", "hosts_are", "evictions_are")
        numbers = {key: 1 if kind in counts else EXAMPLES[kind] for key, kind in words.keys(reason)}
        text = words.sentence(Because(reason, numbers)) + words.cause(Because(reason, numbers))
        assert not re.search(r"\b1 (GPU|host|eviction)s\b", text), text


def test_ratios_beside_each_other_look_different_when_they_are() -> None:
    def said(reason: Reason, first: int, second: int) -> str:
        sides = {"first": "lab/a", "first_recent_ppm": 0, "second": "lab/b", "second_recent_ppm": 0}
        return words.cause(Because(reason, {**sides, "first_ratio_ppm": first, "second_ratio_ppm": second}))

    evicted = Reason.EVICTED_STANDING
    assert "usage ratio 0.0012 against 0.0014 of lab/b; over the last day 0.00 against 0.00" in said(
        evicted, 1200, 1400
    )
    assert "usage ratio 0.00 against 0.01 of" in said(evicted, 4_000, 6_000)
    assert "usage ratio 1.000000 against 1.000001 of" in said(evicted, 1_000_000, 1_000_001)
    assert "usage ratio 0.42 against 0.42 of" in said(evicted, 420_000, 420_000)
    assert "its usage ratio is 0.0012 (0.00 over the last day), that of lab/b 0.0014 (0.00)" in said(
        Reason.WAITING_STANDING, 1200, 1400
    )


@pytest.mark.parametrize(
    ("state", "now", "then"),
    [
        ("running", "is running", "was running"),
        ("timed_out", "has timed out", "had timed out"),
        ("succeeded", "has succeeded", "had succeeded"),
        ("preempted", "was preempted", "was preempted"),
    ],
)
def test_a_state_is_told_as_of_now_or_of_then(state: str, now: str, then: str) -> None:
    assert (words.being(state), words.being(state, then=True)) == (now, then)


def test_what_a_live_scheduler_says_is_said_with_numbers() -> None:
    world = World(hosts(2), {"lab/a": 0.5, "lab/b": 0.5})
    first = world.submit("lab/a", 8, replicas=2)
    second = world.submit("lab/b", 8)
    free = world.submit("lab/b", 8, min_runtime=0)

    def said(job: int) -> str:
        return words.sentence(why(world.state, world.state.jobs[job]))

    assert f"{first}.1 until 2027-01-15 09:00:00 UTC" in said(second)
    assert "it needs 8, and 0 are free" in said(free)
    world.advance(HOUR + MINUTE)  # what is exposed now is evicted for the other budget
    eviction = next(d for d in world.decisions if isinstance(d, Claim)).victims[0]
    said_then = words.sentence(eviction.because)
    assert said_then.startswith(f"Evicted for job {second}: lab/b comes first: its usage ratio is 0.00")


def test_the_document_lists_every_reason_with_its_numbers() -> None:
    text = DOCS.read_text("utf-8")
    for reason in Reason:
        row = next((line for line in text.splitlines() if line.startswith(f"| `{reason.value}` |")), None)
        assert row is not None, f"docs/reasons.md does not have {reason.value}"
        for key, _ in words.keys(reason):
            assert f"`{key}`" in row, f"docs/reasons.md: {reason.value} does not name {key}"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_follow_because(reason: Reason) -> None:
    numbers = {key: EXAMPLES[kind] for key, kind in words.keys(reason)}
    for known in ({}, numbers):
        text = words.cause(Because(reason, known))
        assert text and not text.endswith(".") and not text[0].isupper() and not set("[]{}|") & set(text)
        assert "  " not in text


def test_every_eviction_has_a_cause_of_its_own() -> None:
    assert words.CAUSES.keys() == EVICTED | {Reason.HOST_FAILED}
