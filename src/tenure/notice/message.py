"""One message to one person: what a webhook gets, and the same as mail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from tenure.core import codec
from tenure.notice.text import clean
from tenure.store.rows import NoticeRow

SHOWN = 20
"""Notices that a message spells out; of more there is a count, and programs get up to ``LISTED``."""
LISTED = 200
_SLACK_TEXT = 2900
_SLACK_HEADER = 150
_TEXT_TITLES = 10
"""Titles in the text that stands for all of a message."""


@dataclass(frozen=True, slots=True)
class Message:
    """``id`` is the same for every try. ``link``: an address with ``{job}`` in it, or ''."""

    id: str
    rows: Sequence[NoticeRow]
    link: str = ""

    @property
    def title(self) -> str:
        if len(self.rows) == 1:
            return self.rows[0].title
        jobs = len({row.job_id for row in self.rows if row.job_id})
        return f"{len(self.rows)} notices about {jobs} job{'' if jobs == 1 else 's'}"

    @property
    def shown(self) -> Sequence[NoticeRow]:
        return self.rows[:SHOWN]

    @property
    def left(self) -> str:
        """What is said about those that are not spelled out."""
        more = len(self.rows) - len(self.shown)
        return f"... and {more} more: tenure notice log" if more else ""

    def link_of(self, row: NoticeRow) -> str:
        return self.link.replace("{job}", str(row.job_id)) if self.link and row.job_id else ""


def payload(message: Message) -> bytes:
    """JSON for a webhook: ``text`` and ``blocks`` as Slack takes them, and everything again under ``tenure``."""
    listed = [json.loads(row.data) for row in message.rows[:LISTED]]
    ours: dict[str, Any] = {"id": message.id, "count": len(message.rows), "notices": listed}
    if len(message.rows) == 1:
        ours |= listed[0]
    content = {"text": _text(message), "blocks": _blocks(message), "tenure": ours}
    return codec.dumps(content).encode()


def _text(message: Message) -> str:
    """What Slack shows in a notification, and others as the whole message: of several notices their titles."""
    first, rows = message.rows[0], message.rows
    if len(rows) == 1:
        return escape(f"{first.title}\n{first.body}".strip())
    lines = [f"Tenure: {message.title}", *(f"- {clean(row.title)}" for row in rows[:_TEXT_TITLES])]
    if len(rows) > _TEXT_TITLES:
        lines.append(f"... and {len(rows) - _TEXT_TITLES} more: tenure notice log")
    return escape("\n".join(lines))


def _blocks(message: Message) -> list[dict[str, Any]]:
    title = message.title
    header = title if len(title) <= _SLACK_HEADER else title[: _SLACK_HEADER - 3] + "..."
    blocks: list[dict[str, Any]] = [{"type": "header", "text": {"type": "plain_text", "text": header, "emoji": False}}]
    for row in message.shown:
        body = row.body if len(message.rows) == 1 else f"{row.title}\n{row.body}".strip()
        if body:
            text = {"type": "plain_text", "text": body[:_SLACK_TEXT], "emoji": False}
            blocks.append({"type": "section", "text": text})
        if message.link_of(row):
            link = {"type": "mrkdwn", "text": f"<{escape(message.link_of(row))}|Job {row.job_id}>"}
            blocks.append({"type": "context", "elements": [link]})
    if message.left:
        blocks.append({"type": "context", "elements": [{"type": "plain_text", "text": message.left}]})
    return blocks


def escape(text: str) -> str:
    """Slack's three characters, so that no job's name can call a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mail(message: Message, sender: str, to: str, now: int) -> EmailMessage:
    """Plain text. Mails about one job are a thread of their own. ``now``: ms UTC."""
    domain = sender.rpartition("@")[2]
    made = EmailMessage(policy=SMTP)
    made["From"] = sender
    made["To"] = to
    made["Subject"] = clean(message.title if len(message.rows) == 1 else f"Tenure: {message.title}")
    made["Date"] = format_datetime(datetime.fromtimestamp(now // 1000, UTC))
    made["Message-ID"] = f"<{message.id}@{domain}>"
    jobs = list(dict.fromkeys(row.job_id for row in message.rows if row.job_id))
    if len(jobs) == 1:
        # Nobody ever sends that mail: that all refer to it is what makes them one thread.
        made["In-Reply-To"] = made["References"] = f"<tenure-job-{jobs[0]}@{domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Tenure-Kind"] = ", ".join(dict.fromkeys(row.kind for row in message.rows))
    made.set_content(_mail_text(message))
    return made


def _mail_text(message: Message) -> str:
    parts = [
        "\n".join(line for line in (row.title + ".", row.body, message.link_of(row)) if line) for row in message.shown
    ]
    if message.left:
        parts.append(message.left)
    parts.append("-- \nSent by Tenure. What you are told, and how: tenure notice show")
    return "\n\n".join(parts) + "\n"
