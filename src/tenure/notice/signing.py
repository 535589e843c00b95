"""Signatures of webhooks: HMAC-SHA256 over time and body, with a secret for each receiver."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path

TIMESTAMP = "X-Tenure-Timestamp"
SIGNATURE = "X-Tenure-Signature"
IDEMPOTENCY = "Idempotency-Key"
_PREFIX = "tnw_"
_VERSION = "v1"
_LEAST_BYTES = 32


class KeyFile:
    """The key of which all secrets are made, in a file of its own: neither database nor backup gives one away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: bytes | None = None

    def secret(self, salt: str) -> str:
        """The secret for a webhook with this salt. Raises OSError and ValueError when there is no good key."""
        key = self._key = self._key or self._read()
        digest = hmac.digest(key, f"webhook:{salt}".encode(), hashlib.sha256)
        return _PREFIX + base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _read(self) -> bytes:
        try:
            key = self._path.read_bytes().strip()
        except FileNotFoundError:
            key = self._make()
        if len(key) < _LEAST_BYTES:
            raise ValueError(f"{self._path} is too short for a key: write at least {_LEAST_BYTES} random bytes into it")
        return key

    def _make(self) -> bytes:
        """A new key, for the owner alone; that of whoever was faster, if somebody was."""
        key = secrets.token_hex(_LEAST_BYTES).encode()
        new = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, self._path)
        except FileExistsError:
            return self._path.read_bytes().strip()
        finally:
            new.unlink()
        return key


def new_salt() -> str:
    return secrets.token_hex(16)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """``v1=...``: hexadecimal HMAC-SHA256 of ``v1:TIMESTAMP:BODY``. ``timestamp`` in seconds."""
    signed = f"{_VERSION}:{timestamp}:".encode() + body
    return f"{_VERSION}={hmac.digest(secret.encode(), signed, hashlib.sha256).hex()}"
