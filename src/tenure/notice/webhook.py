"""One POST: to an address that was checked and is then connected to, within a time, following nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cache

import httpx

from tenure.core.model import DAY
from tenure.notice.results import Delivered, Refused, Result, TryAgain
from tenure.notice.signing import IDEMPOTENCY, SIGNATURE, TIMESTAMP, sign
from tenure.notice.target import Target, allowed

_READ_AT_MOST = 16_384
"""Bytes of an answer that are looked at."""
_LATER = frozenset({408, 409, 421, 425, 429})
"""Refusals that may pass; any other 4xx is for good."""


def post(target: Target, body: bytes, message: str, secret: str, now: int, timeout_ms: int) -> Result:
    """Deliver ``body`` once, signed at ``now`` (ms). ``message`` is its id, the same for every try.

    Blocks for at most about ``timeout_ms``, whatever the receiver does.
    """
    return asyncio.run(_post(target, body, message, secret, now, timeout_ms / 1000))


async def _post(target: Target, body: bytes, message: str, secret: str, now: int, timeout_s: float) -> Result:
    headers = _headers(target, body, message, secret, now)
    try:
        async with asyncio.timeout(timeout_s):
            found = await _addresses(target)
            if not found:
                return Refused(f"{target.host} is not on the internet; the operator may list it in webhook_hosts")
            return await _send_to_any(target, found, body, headers, now, timeout_s)
    except TimeoutError:
        return TryAgain(f"no answer within {timeout_s:g} s")
    except socket.gaierror as error:
        return TryAgain(f"{target.host} cannot be found: {error.strerror}")
    except UnicodeError:  # no name that can be asked for
        return Refused(f"{target.host} cannot be the name of a host")
    except ssl.SSLError as error:
        return TryAgain(f"TLS failed: {error.reason}")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return TryAgain(str(error) or type(error).__name__)


def _headers(target: Target, body: bytes, message: str, secret: str, now: int) -> dict[str, str]:
    seconds = now // 1000
    return {
        "Host": target.authority,
        "Content-Type": "application/json",
        "User-Agent": "tenure",
        IDEMPOTENCY: message,
        TIMESTAMP: str(seconds),
        SIGNATURE: sign(secret, seconds, body),
    }


async def _addresses(target: Target) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return allowed(target, list(dict.fromkeys(str(info[4][0]) for info in found)))


async def _send_to_any(
    target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str], now: int, timeout_s: float
) -> Result:
    """To the first address that can be connected to, each in its part of the time."""
    connect = httpx.Timeout(None, connect=timeout_s / len(addresses))
    for address in addresses[:-1]:
        try:
            return await _send(target, address, body, headers, now, connect)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            pass  # nothing was sent
    return await _send(target, addresses[-1], body, headers, now, connect)


async def _send(
    target: Target, address: str, body: bytes, headers: Mapping[str, str], now: int, timeout: httpx.Timeout
) -> Result:
    """To the very address that was checked: a name that is asked again may have another one."""
    host = f"[{address}]" if ":" in address else address
    url = f"{target.scheme}://{host}:{target.port}{target.path}"
    extensions = {"sni_hostname": target.host}
    async with (
        httpx.AsyncClient(verify=_trusted(), timeout=timeout, trust_env=False, follow_redirects=False) as client,
        client.stream("POST", url, content=body, headers=headers, extensions=extensions) as answer,
    ):
        said = ""
        if not answer.is_success:
            said = await _beginning(answer)
        return _result(answer, said, now)


@cache
def _trusted() -> ssl.SSLContext:
    """The authorities that are trusted, read once: that takes longer than a delivery."""
    return httpx.create_ssl_context()


async def _beginning(answer: httpx.Response) -> str:
    """The first characters of an answer, for the log."""
    read = b""
    async for part in answer.aiter_raw():
        read += part
        if len(read) >= _READ_AT_MOST:
            break
    text = read[:200].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _result(answer: httpx.Response, said: str, now: int) -> Result:
    if answer.is_success:
        return Delivered()
    why = f"answered {answer.status_code}{f': {said}' if said else ''}"
    if answer.is_redirect:
        return Refused(f"answered {answer.status_code}: redirects are not followed, so set the address it leads to")
    if answer.is_client_error and answer.status_code not in _LATER:
        return Refused(why)
    return TryAgain(why, retry_after(answer.headers.get("Retry-After", ""), now))


def retry_after(text: str, now: int) -> int:
    """ms that ``Retry-After`` asks to wait, as seconds or as a date; 0 when it says nothing that can be read."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, DAY)
    try:
        at = int(parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return 0
    return min(max(0, at - now), DAY)
