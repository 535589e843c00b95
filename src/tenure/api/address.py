"""Where the server is and how to get in, as a client finds out."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class Unreachable(Exception):
    """There is no server there, or it does not speak this API. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how to get in; ``source`` says where that was found."""

    url: str
    token: str
    source: str


def find_server(url: str | None = None, token: str | None = None) -> Address:
    """What is given, else TENURE_URL and TENURE_TOKEN, else ``client.toml``.

    That file is looked for in ``~/.config/tenure`` and then in ``.tenure`` of this directory and those above it. Its
    token is only ever sent to its own address. Raises Unreachable when nothing is found.
    """
    url = url or os.environ.get("TENURE_URL") or None
    token = token or os.environ.get("TENURE_TOKEN") or None
    if url is not None and token is not None:
        return Address(url.rstrip("/"), token, "TENURE_URL and TENURE_TOKEN")
    for path in _client_files():
        found = _read(path)
        if found is None or (url is not None and found.url != url.rstrip("/")):
            continue
        return Address(found.url, token or found.token, str(path))
    if url is not None:
        raise Unreachable(f"there is no token for {url}: set TENURE_TOKEN")
    raise Unreachable("no server is known here: start one with `tenure serve`, or set TENURE_URL and TENURE_TOKEN")


def _client_files() -> Iterator[Path]:
    try:
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        yield Path(config) / "tenure" / "client.toml"
    except RuntimeError:
        pass  # a user without a home, as in containers
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return  # it was removed while somebody was in it
    for directory in (here, *here.parents):
        yield directory / ".tenure" / "client.toml"


def _read(path: Path) -> Address | None:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        return Address(str(data["url"]).rstrip("/"), str(data["token"]), str(path))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError) as error:
        raise Unreachable(f"{path} is not a client file with url and token: {error}") from error
