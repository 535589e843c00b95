"""Where webhooks may go."""

from __future__ import annotations

import pytest

from tenure.notice.results import Refused
from tenure.notice.target import Target, allowed, is_public, parse_target
from tenure.notice.webhook import post
from tenure.units import UnitError


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://2130706433/x",
        "https://0x7f.1/x",
        "https://127.1/x",
        "https://localhost/x",
        "https://metadata/x",
        "https://user:pass@hooks.example.com/x",
        "https://hooks.example.com/x#y",
        "https://hooks.example.com/a b",
        "https://hooks.example.com\\@127.0.0.1/",
        "https://hooks.example.com/\r\nX: y",
        "https://hooks.example.com:99999/",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "https:///x",
        "https://h\u00f6st.example.com/",
        "hooks.example.com/x",
        "https://hooks.example.com/" + "x" * 2000,
        "https://a..example.com/x",
        "https://.example.com/x",
        f"https://{'a' * 64}.example.com/x",
        f"https://{'a.' * 124}example.com/x",
        "https://a%2eb.example.com/x",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(UnitError) as refusal:
        parse_target(url, ())
    assert refusal.value.fix


def test_a_refusal_does_not_show_the_path() -> None:
    with pytest.raises(UnitError) as refusal:
        parse_target("http://hooks.example.com/services/T0/B0/secret", ())
    assert "secret" not in str(refusal.value) and "hooks.example.com" in str(refusal.value)


def test_no_list_makes_a_name_of_what_is_none() -> None:
    with pytest.raises(UnitError, match="1 to 63"):
        parse_target("https://a..lab/x", ["a..lab"])
    longest = f"{'a' * 63}.{'b.' * 91}example"
    assert parse_target(f"https://{longest}/x", ()).host == longest
    assert parse_target("http://[fd00::1]:8080/x", ["fd00::1"]).authority == "[fd00::1]:8080"


@pytest.mark.parametrize("host", ["a..example.com", f"{'a' * 64}.example.com"])
def test_a_name_that_cannot_be_looked_up_is_refused_for_good(host: str) -> None:
    target = Target("https", host, 443, "/very-secret", False)
    assert post(target, b"{}", "1", "secret", 0, 10_000) == Refused(f"{host} cannot be the name of a host")


def test_what_the_operator_lists_may_be_anywhere() -> None:
    with pytest.raises(UnitError):
        parse_target("http://hooks.lab:8080/x", ["hooks.lab:9090"])
    for listed in ("hooks.lab", "hooks.lab:8080"):
        found = parse_target("http://hooks.lab:8080/x?y=1", [listed])
        assert (found.authority, found.path, found.listed) == ("hooks.lab:8080", "/x?y=1", True)
        assert allowed(found, ["10.0.0.1"]) == ["10.0.0.1"]


def test_a_public_name_may_not_lead_inside() -> None:
    found = parse_target("https://hooks.example.com/x", ["hooks.lab"])
    assert found.shown == "https://hooks.example.com/..." and not found.listed
    assert allowed(found, ["127.0.0.1", "93.184.216.34", "10.1.2.3"]) == ["93.184.216.34"]


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("::1", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "::", "nonsense"),
        *("64:ff9b:1::1", "fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "4000::1", "2001:db8::1", "::93.184.216.34"),
    ],
)
def test_addresses_inside(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_addresses_outside(address: str) -> None:
    assert is_public(address)
