"""Which addresses webhooks may go to: the server must not be made to knock at what only it can reach."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tenure.units import UnitError

MAX_URL = 2000
_FIX = "write an address like https://hooks.example.com/path"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL = ipaddress.IPv6Network("2000::/3")
"""What of IPv6 is given out on the internet; all the rest is for something else, or was once."""
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_MAX_HOST = 253
_LABELS_FIX = (
    f"each part of the host's name is 1 to 63 letters, digits, - or _, all of it at most {_MAX_HOST} characters; {_FIX}"
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook's address in parts. ``listed``: the operator has named this host, so it may be anywhere."""

    scheme: str
    host: str
    port: int
    path: str
    listed: bool

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The address without its path, which may be a secret."""
        return f"{self.scheme}://{self.authority}/..."


_PORTS = {"https": 443, "http": 80}


def parse_target(url: str, listed: Collection[str]) -> Target:
    """The parts of a webhook's address. ``listed``: hosts that the operator allows, as ``name`` or ``name:port``.

    Hosts that are not listed must be named (no bare addresses), and are spoken to over https. Raises UnitError; its
    value never has the path, which may be a secret.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise UnitError("(not shown)", _FIX) from None
    if parts.scheme not in _PORTS or not host or len(url) > MAX_URL or not url.isascii() or not url.isprintable():
        raise UnitError("(not shown)", _FIX)
    if " " in url or "\\" in url or parts.username is not None or parts.password is not None or parts.fragment:
        raise UnitError("(not shown)", f"no user, password, fragment or space; {_FIX}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    number = port or _PORTS[parts.scheme]
    target = Target(parts.scheme, host, number, path, host in listed or f"{host}:{number}" in listed)
    if ":" not in host and (len(host) > _MAX_HOST or not all(map(_LABEL.fullmatch, host.split(".")))):
        raise UnitError(target.shown, _LABELS_FIX)
    if target.listed:
        return target
    if target.scheme != "https":
        raise UnitError(target.shown, "use https; the operator may allow others in notice.webhook_hosts")
    if _is_address(host) or "." not in host:
        raise UnitError(target.shown, "use a full host name; the operator may allow others in notice.webhook_hosts")
    return target


def allowed(target: Target, addresses: Sequence[str]) -> list[str]:
    """Of the addresses that a host's name has, those that may be connected to. Names may change: ask each time."""
    return [address for address in addresses if target.listed or is_public(address)]


def is_public(address: str) -> bool:
    """Whether it is an address of the open internet, whatever it is wrapped in."""
    try:
        return all(_is_global(ip) for ip in _unwrapped(ipaddress.ip_address(address)))
    except ValueError:
        return False


def _is_global(ip: Address) -> bool:
    return ip.is_global and not ip.is_multicast and (ip.version == 4 or ip in _GLOBAL)


def _unwrapped(ip: Address) -> list[Address]:
    """The address and every IPv4 address inside it; only that one where it is just written as IPv6."""
    found: list[Address] = [ip]
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return [ip.ipv4_mapped]
        if ip in _NAT64:
            return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
        if ip.sixtofour is not None:
            found.append(ip.sixtofour)
        if ip.teredo is not None:
            found += ip.teredo
    return found


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # Forms like 0x7f000001 or 2130706433, which resolvers take for addresses.
        last = host.rpartition(".")[2]
        return last.isdigit() or last.lower().startswith("0x")
    return True
