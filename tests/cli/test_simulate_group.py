"""Commands of ``tenure simulate`` that may be written as options."""

from __future__ import annotations

import pytest

from tenure.cli.simulation.group import as_command

BOTH = ("month", "from-server", "from-sacct")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("--from-server", "from-server"),
        ("--from-server --last 7d", "from-server --last 7d"),
        ("--from-sacct a.txt b.txt --json", "from-sacct a.txt b.txt --json"),
        ("--from-sacct=a.txt --json", "from-sacct a.txt --json"),
        ("from-server --last 7d", "from-server --last 7d"),
        ("month --from-server", "month --from-server"),
        ("--help", "--help"),
        ("--month", "--month"),
        ("", ""),
    ],
)
def test_a_leading_option_names_the_command(written: str, meant: str) -> None:
    assert as_command(written.split(), BOTH) == meant.split()


def test_what_is_no_command_here_stays_an_option() -> None:
    assert as_command(["--from-sacct", "x"], ("month", "from-server")) == ["--from-sacct", "x"]
