"""Every event, decision and record survives JSON, to the byte; what is no such record is refused with its place."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core import codec, decisions, events
from tenure.core.model import Budget, Cluster, JobSpec, Policy
from tenure.core.reasons import Because, Reason

few = settings(max_examples=settings.default.max_examples // 5)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.recursive(st.integers() | text, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
st.register_type_strategy(str, text)
st.register_type_strategy(
    Because, st.builds(Because, st.sampled_from(Reason), st.dictionaries(text, numbers, max_size=3))
)


def through(record: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(codec.dumps(codec.tagged(record)))
    return plain


@pytest.mark.parametrize("kind", get_args(events.Event))
@few
@given(st.data())
def test_every_event_comes_back(kind: type, data: st.DataObject) -> None:
    event = data.draw(st.from_type(kind))
    again = codec.event(through(event))
    assert again == event and type(again) is kind
    assert codec.dumps(codec.tagged(again)) == codec.dumps(codec.tagged(event))
    hash(again)  # frozen all the way down


@pytest.mark.parametrize("kind", get_args(decisions.Decision))
@few
@given(st.data())
def test_every_decision_comes_back(kind: type, data: st.DataObject) -> None:
    decision = data.draw(st.from_type(kind))
    again = codec.decision(through(decision))
    assert again == decision and type(again) is kind
    assert codec.dumps(codec.tagged(again)) == codec.dumps(codec.tagged(decision))


@pytest.mark.parametrize("kind", [JobSpec, Cluster, Policy, Budget])
@few
@given(st.data())
def test_every_declaration_comes_back(kind: type, data: st.DataObject) -> None:
    record = data.draw(st.from_type(kind))
    assert codec.record(kind, json.loads(codec.dumps(codec.plain(record)))) == record


def test_the_order_of_keys_does_not_change_the_bytes() -> None:
    one = Because(Reason.FAILED, {"a": 1, "b": (2, "x")})
    two = Because(Reason.FAILED, {"b": (2, "x"), "a": 1})
    assert codec.dumps(codec.plain(one)) == codec.dumps(codec.plain(two))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "Nothing"},
        {"type": "Start"},  # a decision, no event
        {"type": "Held", "at": 1, "job_id": 2},
        {"type": "Held", "at": 1, "job_id": 2, "by": "x", "more": 1},
        {"type": "Paused", "at": 1, "scope": "nothing", "by": "x"},
        {"type": "Submitted", "at": 1, "job_id": 2, "spec": None},
        {"type": "HostStateChanged", "at": 1, "cluster": "c", "host": "h", "state": "odd", "by": "", "why": ""},
    ],
)
def test_what_is_no_event_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(codec.CodecError):
        codec.event(data)
