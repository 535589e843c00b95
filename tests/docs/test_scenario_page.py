"""The page of scenarios is the scenario table."""

from __future__ import annotations

from pages import text_of

from support.scenario_page import SECTIONS, TABLE, page


def test_the_page_is_the_table() -> None:
    # After a change of the table: python docs/cases/scenarios.py
    assert text_of("docs/scenarios.md") == page()


def test_every_file_of_the_table_is_on_the_page() -> None:
    assert {path.stem for path in TABLE.glob("*.yaml")} == set(SECTIONS)
