"""What is asked about people, their tokens, and how they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.api.models import (
    NewToken,
    Page,
    TokenView,
    UserView,
)
from tenure.api.notice_models import NoticeView, TestedView, ToldView
from tenure.api.requests import NoticeRequest
from tenure.client.connection import Connection, part


class People(Connection):
    """Users, tokens, notices."""

    def me(self) -> UserView:
        return self._call(UserView, "GET", "/v1/me")

    def users(self) -> list[UserView]:
        return self._call(Page[UserView], "GET", "/v1/users").items

    def add_user(self, name: str, role: str = "user") -> UserView:
        return self._call(UserView, "POST", "/v1/users", json={"name": name, "role": role})

    def change_user(self, name: str, *, role: str | None = None, disabled: bool | None = None) -> UserView:
        body = {"role": role, "disabled": disabled}
        return self._call(UserView, "PATCH", f"/v1/users/{part(name)}", json=body)

    def tokens(self, of: str | None = None) -> list[TokenView]:
        return self._call(Page[TokenView], "GET", "/v1/tokens", query={"of": of}).items

    def add_token(self, user: str, label: str = "", expires_at: str | None = None) -> str:
        """A new token, in plain. ``expires_at`` is RFC 3339."""
        body = {"label": label, "expires_at": expires_at}
        return self._call(NewToken, "POST", f"/v1/users/{part(user)}/tokens", json=body).token

    def notice(self, user: str) -> NoticeView:
        """How somebody is told what becomes of their jobs."""
        return self._call(NoticeView, "GET", f"/v1/users/{part(user)}/notice")

    def set_notice(self, user: str, change: NoticeRequest | Mapping[str, Any]) -> NoticeView:
        """Change that. The answer has the secret of a new webhook, which is not shown again."""
        body = change.model_dump(exclude_none=True) if isinstance(change, NoticeRequest) else dict(change)
        return self._call(NoticeView, "PATCH", f"/v1/users/{part(user)}/notice", json=body)

    def test_notice(self, user: str) -> list[int]:
        """Send something to every address of somebody; the ids under which the log has it."""
        return self._call(TestedView, "POST", f"/v1/users/{part(user)}/notice/test").ids

    def notice_log(self, user: str, after: int | None = None, limit: int = 100) -> Page[ToldView]:
        """What somebody was and will be told, newest first."""
        query = {"after": after, "limit": limit}
        return self._call(Page[ToldView], "GET", f"/v1/users/{part(user)}/notice/log", query=query)

    def revoke_token(self, token_id: int) -> None:
        self._send("DELETE", f"/v1/tokens/{token_id}")
