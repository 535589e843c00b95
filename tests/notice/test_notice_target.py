"""Where webhooks may go."""

from __future__ import annotations

import pytest

from tenure.notice.target import allowed, is_public, parse_target
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
    ],
)
def test_addresses_inside(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_addresses_outside(address: str) -> None:
    assert is_public(address)
