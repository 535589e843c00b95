"""Users and tokens, on both databases."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from store_makers import NOW

from tenure.store import Store, UnknownUser, UserExists, UserRow

MINUTE = 60_000


def test_users(store: Store) -> None:
    ada = store.add_user("ada", "admin", NOW)
    store.add_user("Bob", "user", NOW + 1)
    assert ada == UserRow("ada", "admin", NOW, False)
    assert store.user("ada") == ada
    assert store.user("cyd") is None
    assert [row.name for row in store.list_users()] == ["Bob", "ada"]
    store.set_user_role("ada", "user")
    store.set_user_disabled("ada", True)
    assert store.user("ada") == UserRow("ada", "user", NOW, True)


def test_refused_users(store: Store) -> None:
    store.add_user("ada", "admin", NOW)
    with pytest.raises(UserExists, match="ada"):
        store.add_user("ada", "user", NOW)
    with pytest.raises(ValueError, match="admin, user"):
        store.add_user("bob", "root", NOW)
    with pytest.raises(ValueError, match="admin, user"):
        store.set_user_role("ada", "")
    for change in (
        lambda: store.set_user_role("bob", "user"),
        lambda: store.set_user_disabled("bob", True),
        lambda: store.create_token("bob", "", NOW),
    ):
        with pytest.raises(UnknownUser, match="bob"):
            change()
    assert store.list_users() == [UserRow("ada", "admin", NOW, False)]


def test_a_token_opens_until_it_is_revoked(store: Store) -> None:
    ada = store.add_user("ada", "admin", NOW)
    token, other = store.create_token("ada", "laptop", NOW), store.create_token("ada", "ci", NOW)
    assert token.startswith("tnr_") and len(token) > 40 and token != other
    assert store.authenticate(token, NOW) == ada
    laptop = next(row for row in store.list_tokens() if row.label == "laptop")
    assert store.revoke_token(laptop.id)
    assert not store.revoke_token(laptop.id)
    assert store.authenticate(token, NOW) is None
    assert store.authenticate(other, NOW) == ada


@pytest.mark.parametrize("token", ["", "tnr_", "tnr_" + "A" * 43, "\udcff", "x" * 100_000])
def test_a_token_that_nobody_made_opens_nothing(store: Store, token: str) -> None:
    store.add_user("ada", "admin", NOW)
    store.create_token("ada", "", NOW)
    assert store.authenticate(token, NOW) is None


def test_expired_tokens_and_disabled_users(store: Store) -> None:
    store.add_user("ada", "user", NOW)
    token = store.create_token("ada", "", NOW, expires_at=NOW + 10)
    assert store.authenticate(token, NOW + 9) is not None
    assert store.authenticate(token, NOW + 10) is None
    lasting = store.create_token("ada", "", NOW)
    store.set_user_disabled("ada", True)
    assert store.authenticate(lasting, NOW) is None
    store.set_user_disabled("ada", False)
    assert store.authenticate(lasting, NOW) is not None


def test_use_is_noted_once_a_minute(store: Store) -> None:
    store.add_user("ada", "user", NOW)
    token = store.create_token("ada", "", NOW)

    def last_used() -> int | None:
        return store.list_tokens("ada")[0].last_used_at

    assert last_used() is None
    for at, noted in ((0, 0), (MINUTE - 1, 0), (MINUTE, MINUTE), (2 * MINUTE - 1, MINUTE)):
        assert store.authenticate(token, NOW + at)
        assert last_used() == NOW + noted


def test_only_ones_own_tokens(store: Store) -> None:
    for name in ("ada", "bob"):
        store.add_user(name, "user", NOW)
        store.create_token(name, f"of {name}", NOW)
    (bobs,) = store.list_tokens("bob")
    assert not store.revoke_token(bobs.id, user="ada")
    assert store.revoke_token(bobs.id, user="bob")
    assert [row.label for row in store.list_tokens()] == ["of ada"]


def test_a_revoked_tokens_number_is_not_given_again(store: Store) -> None:
    store.add_user("ada", "user", NOW)
    store.create_token("ada", "first", NOW)
    first = store.list_tokens()[0].id
    store.revoke_token(first)
    store.create_token("ada", "second", NOW)
    assert store.list_tokens()[0].id > first


def test_the_secret_is_not_in_the_database(sqlite_store: Store, tmp_path: Path) -> None:
    sqlite_store.add_user("ada", "user", NOW)
    token = sqlite_store.create_token("ada", "", NOW)
    sqlite_store.backup(tmp_path / "copy.db")
    kept = (tmp_path / "copy.db").read_bytes()
    assert hashlib.sha256(token.encode()).hexdigest().encode() in kept
    assert token.encode() not in kept and token.removeprefix("tnr_").encode() not in kept
