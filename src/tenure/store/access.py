"""Users and their tokens. A token is shown once, when it is made; only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from sqlalchemy import delete, insert, update
from sqlalchemy.exc import IntegrityError

from tenure.store import schema
from tenure.store.database import Database, as_dict, columns_of
from tenure.store.errors import UnknownUser, UserExists
from tenure.store.rows import TokenRow, UserRow

ROLES = ("admin", "user")
TOKEN_PREFIX = "tnr_"
_USED_EVERY = 60_000
"""ms between two notes that a token was used: a note costs a write."""

_NO_HASH = "0" * 64
_user = as_dict(UserRow)


def _hash(token: str) -> str:
    """Plain SHA-256 is enough: a token is 256 random bits, not a password that could be guessed.

    A token that came in broken text still gets a hash, which no token has.
    """
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise ValueError(f"role = {role}: must be one of {', '.join(ROLES)}")


class Access(Database):
    """Who may use the API."""

    def add_user(self, name: str, role: str, now: int) -> UserRow:
        """Raises UserExists, and ValueError for an unknown role."""
        _check_role(role)
        user = UserRow(name=name, role=role, created_at=now, disabled=False)
        try:
            with self._write() as connection:
                connection.execute(insert(schema.users), _user(user))
        except IntegrityError as error:
            raise UserExists(f"there is a user {name} already") from error
        return user

    def set_user_role(self, name: str, role: str) -> None:
        """Raises UnknownUser, and ValueError for an unknown role."""
        _check_role(role)
        self._change_user(name, {"role": role})

    def set_user_disabled(self, name: str, disabled: bool) -> None:
        """A disabled user's tokens are kept, and open nothing. Raises UnknownUser."""
        self._change_user(name, {"disabled": disabled})

    def _change_user(self, name: str, values: dict[str, object]) -> None:
        change = update(schema.users).where(schema.users.c.name == name).values(values)
        with self._write() as connection:
            if not connection.execute(change).rowcount:
                raise UnknownUser(f"there is no user {name}")

    def user(self, name: str) -> UserRow | None:
        with self._read() as connection:
            query = columns_of(UserRow, schema.users).where(schema.users.c.name == name)
            row = connection.execute(query).one_or_none()
        return None if row is None else UserRow(*row)

    def list_users(self) -> list[UserRow]:
        """All users by name."""
        with self._read() as connection:
            rows = connection.execute(columns_of(UserRow, schema.users)).all()
        return sorted((UserRow(*row) for row in rows), key=lambda user: user.name)

    def create_token(self, user: str, label: str, now: int, expires_at: int | None = None) -> str:
        """A new token of ``user``, in plain: it can never be seen again. Raises UnknownUser."""
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        values = {
            "user": user,
            "hash": _hash(token),
            "label": label,
            "created_at": now,
            "expires_at": expires_at,
        }
        try:
            with self._write() as connection:
                connection.execute(insert(schema.tokens).values(values))
        except IntegrityError as error:
            raise UnknownUser(f"there is no user {user}") from error
        return token

    def revoke_token(self, token_id: int, user: str | None = None) -> bool:
        """Delete a token; with ``user``, only one of theirs. False when there is no such token."""
        gone = delete(schema.tokens).where(schema.tokens.c.id == token_id)
        if user is not None:
            gone = gone.where(schema.tokens.c.user == user)
        with self._write() as connection:
            return bool(connection.execute(gone).rowcount)

    def list_tokens(self, user: str | None = None) -> list[TokenRow]:
        """Tokens, oldest first, of one user or of all."""
        query = columns_of(TokenRow, schema.tokens).order_by(schema.tokens.c.id)
        if user is not None:
            query = query.where(schema.tokens.c.user == user)
        with self._read() as connection:
            return [TokenRow(*row) for row in connection.execute(query)]

    def authenticate(self, token: str, now: int) -> UserRow | None:
        """Whose token this is; None when it is unknown, expired, or its user disabled.

        Every refusal does the same work. That a token was used is noted once a minute.
        """
        digest = _hash(token)
        tokens, users = schema.tokens, schema.users
        query = (
            columns_of(UserRow, users)
            .add_columns(tokens.c.id, tokens.c.hash, tokens.c.last_used_at, tokens.c.expires_at)
            .join_from(tokens, users, tokens.c.user == users.c.name)
            .where(tokens.c.hash == digest)
        )
        with self._read() as connection:
            row = connection.execute(query).one_or_none()
        same = hmac.compare_digest(_NO_HASH if row is None else row.hash, digest)
        expired = row is not None and row.expires_at is not None and row.expires_at <= now
        if row is None or not same or expired or row.disabled:
            return None
        if row.last_used_at is None or row.last_used_at <= now - _USED_EVERY:
            with self._write() as connection:
                connection.execute(update(tokens).where(tokens.c.id == row.id).values(last_used_at=now))
        return UserRow(row.name, row.role, row.created_at, row.disabled)
