"""What goes out about notices: how people are told, and what they were told."""

from __future__ import annotations

from tenure.api.fields import Time
from tenure.api.models import Response


class NoticeView(Response):
    """How somebody is told. ``webhook``: without its path, which may be a secret; '' for none, as with ``email``.

    ``by_default``: they have said nothing, and this is what the operator wants for such people. ``secret``: of the
    webhook, only in the answer that made it.
    """

    user: str
    email: str
    webhook: str
    kinds: list[str]
    through: list[str]
    digest_ms: int
    quiet: str
    zone: str
    by_default: bool
    secret: str | None = None


class ToldView(Response):
    """One notice on its way by one channel. ``state``: waiting, sent, failed or dropped. ``due_at``: not before.

    ``behind``: it waits for one before it, which did not go through and is tried again.
    """

    id: int
    at: Time
    kind: str
    channel: str
    job: int | None
    title: str
    text: str
    state: str
    due_at: Time
    tries: int
    behind: bool = False
    done_at: Time | None
    error: str


class TestedView(Response):
    """The notices that were made to see whether they arrive."""

    ids: list[int]
