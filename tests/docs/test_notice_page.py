"""What the page on notices says is true: kinds, settings, and the snippet that checks a signature."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pages import blocks, rows, text_of

from tenure.core.model import SECOND
from tenure.notice.courier import LONGEST_PAUSE
from tenure.notice.kinds import EXPOSED_AHEAD, Kind
from tenure.notice.message import LISTED
from tenure.notice.signing import IDEMPOTENCY, SIGNATURE, TIMESTAMP, sign
from tenure.notice.webhook import _LATER

PAGE = text_of("docs/notice.md")


@pytest.fixture
def snippet() -> Any:
    (code,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    found: dict[str, Any] = {}
    exec(compile(code, "docs/notice.md", "exec"), found)
    return found["is_from_tenure"]


def test_the_snippet_takes_what_the_server_signs_and_nothing_else(snippet: Any) -> None:
    now, body, secret = int(time.time()), '{"text":"näme"}'.encode(), "tnw_secret"
    headers = {TIMESTAMP: str(now), SIGNATURE: sign(secret, now, body)}
    assert snippet(secret, headers, body)
    assert not snippet("tnw_other", headers, body)
    assert not snippet(secret, headers, body + b" ")
    assert not snippet(secret, {**headers, TIMESTAMP: str(now + 1)}, body)
    old = now - 301
    assert not snippet(secret, {TIMESTAMP: str(old), SIGNATURE: sign(secret, old, body)}, body)


def test_kinds_headers_and_figures_are_as_described() -> None:
    described = [row[0].strip("`") for row in rows(PAGE)]
    assert set(described) >= set(Kind) | {IDEMPOTENCY, TIMESTAMP, SIGNATURE}
    assert EXPOSED_AHEAD == 600 * SECOND and "ten minutes before" in PAGE
    assert LONGEST_PAUSE == 3600 * SECOND and f"the first {LISTED} are listed" in " ".join(PAGE.split())
    assert "408, 409, 421, 425 and 429" in PAGE and sorted(_LATER) == [408, 409, 421, 425, 429]
