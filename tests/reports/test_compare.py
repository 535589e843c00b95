"""Comparisons: variants, the rule for what exceeds the spread, words, and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from by_hand import TWO, three_hours
from fake_runs import empty_run, fake_run

from tenure.core.model import DAY
from tenure.reports.catalogue import COUNT, EACH, GPU_HOURS, SECONDS, SHARE, difference, wait, written
from tenure.reports.compare import markdown, write_comparison
from tenure.reports.differences import (
    BETTER,
    DIFFERENT,
    FIGURES,
    NO_SPREAD,
    TENDENCY,
    WITHIN,
    WORSE,
    compare,
    rule,
    sentences,
)
from tenure.reports.metrics import Summary, summary

BLANK = summary(empty_run(TWO, length=DAY))


def one(policy: str, seed: int, **figures: object) -> Summary:
    return BLANK | {"policy": policy, "seed": seed} | figures


def said(runs: list[Summary]) -> dict[str, list[str]]:
    comparison = compare(runs)
    ((base, variant),) = comparison.pairs()
    return sentences(comparison, base, variant)


def several(key: str, ours: list[float], theirs: list[float]) -> list[Summary]:
    base = [one("base", seed, **{key: value}) for seed, value in enumerate(theirs)]
    return base + [one("ours", seed, **{key: value}) for seed, value in enumerate(ours)]


@pytest.mark.parametrize(
    ("key", "ours", "theirs", "kind"),
    [
        ("m1_delivered", [0.99, 0.98], [0.90, 0.97], BETTER),
        ("m1_delivered", [0.90, 0.97], [0.99, 0.98], WORSE),
        ("debug_wait_p90_s", [10, 20], [7200, 30], BETTER),
        ("debug_wait_p90_s", [7200, 30], [10, 20], WORSE),
        ("unallocated_share", [0.3, 0.4], [0.1, 0.2], DIFFERENT),
        ("m1_delivered", [0.95, 0.99], [0.90, 0.97], TENDENCY),
        ("m1_delivered", [0.95, 0.97], [0.95, 0.96], WITHIN),
        ("m1_delivered", [0.95, 0.95], [0.95, 0.95], NO_SPREAD),
        ("m1_delivered", [0.99, 0.99], [0.95, 0.95], NO_SPREAD),
        ("m1_delivered", [0.99, 0.99], [0.95, 0.96], BETTER),
        ("m1_delivered", [0.95, 0.99], [0.97, 0.96], WITHIN),
        ("m1_delivered", [0.99], [0.5], NO_SPREAD),
    ],
)
def test_what_exceeds_the_spread(key: str, ours: list[float], theirs: list[float], kind: str) -> None:
    found = said(several(key, ours, theirs))
    label = next(figure.label for figure in FIGURES if figure.key == key)
    assert [line for line in found[kind] if line.startswith(f"{label}: ")]
    assert not [line for other, lines in found.items() if other != kind for line in lines if f"{label}: " in line]


def test_a_sentence_has_medians_ranges_and_the_paired_difference() -> None:
    found = said(several("m1_delivered", [0.99, 0.98, 0.97], [0.90, 0.80, 0.85]))
    assert (
        "M1: delivered of what was owed: 98.0 % (97.0 to 99.0) against 85.0 % (80.0 to 90.0), +12.0 points"
        in found[BETTER]
    )


def test_with_one_seed_nothing_is_said_about_the_spread() -> None:
    comparison = compare([one("a", 1, m1_delivered=0.5), one("b", 1, m1_delivered=0.9)])
    assert "nothing can be said about the spread" in rule(comparison.seeds)
    assert {found.exceeds for found in comparison.findings} == {None}
    assert list(sentences(comparison, "a", "b")) == [NO_SPREAD]


def test_when_nothing_depends_on_the_seed_nothing_is_said_about_the_spread() -> None:
    comparison = compare(several("m1_delivered", [0.9, 0.9, 0.9], [0.5, 0.5, 0.5]))
    assert comparison.seeds == 3 and not comparison.varies
    assert {(found.exceeds, found.agree) for found in comparison.findings} == {(None, None)}
    assert rule(3, varies=False).startswith("Nothing in these runs depends on the seed: all 3 seeds")
    assert rule(3, varies=False) in markdown(comparison)
    assert "Mann" not in markdown(comparison) and "mere chance" not in markdown(comparison)
    assert comparison.warnings == ()


def test_a_variant_that_does_not_depend_on_the_seed_is_named() -> None:
    comparison = compare(several("m1_delivered", [0.9, 0.9, 0.9], [0.5, 0.5, 0.6]))
    assert comparison.varies
    assert comparison.warnings == ("Nothing depends on the seed for ours: its seeds are one run, not several.",)


def test_the_rule_says_how_often_chance_does_it() -> None:
    assert "in 1 of 3 cases" in rule(2) and "1 of 2)" in rule(2)
    assert "in 1 of 126 cases" in rule(5) and "1 of 16)" in rule(5)


def test_variants_are_told_apart_by_what_differs() -> None:
    runs = [
        one("a", 1, settings={"lookback": "7d", "grace": "5m"}),
        one("a", 1, settings={"lookback": "1d", "grace": "5m"}),
        one("b", 1, settings={"lookback": "7d", "grace": "5m"}),
    ]
    assert [v.label for v in compare(runs).variants] == ["a, lookback=7d", "a, lookback=1d", "b, lookback=7d"]
    sizes = compare([one("a", 1, gpus=88), one("a", 1, gpus=256), one("b", 1, gpus=256)])
    assert [v.label for v in sizes.variants] == ["a, 88 GPUs", "a, 256 GPUs", "b, 256 GPUs"]
    assert sizes.pairs() == [("a, 256 GPUs", "b, 256 GPUs")]


def test_only_the_same_workload_and_size_are_compared() -> None:
    runs = [one(policy, 1, gpus=gpus, m1_delivered=0.9) for gpus in (88, 256) for policy in ("a", "b")]
    assert compare(runs).pairs() == [("a, 88 GPUs", "b, 88 GPUs"), ("a, 256 GPUs", "b, 256 GPUs")]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no run"):
        compare([])
    with pytest.raises(ValueError, match="two runs of a with seed 1"):
        compare([one("a", 1), one("a", 1)])


def test_readers_are_warned() -> None:
    runs = [one("a", 1), one("a", 2, jobs=1, occupancy=0.5), one("b", 1, complete=False, measured_days=0.5)]
    first, second, third = compare(runs).warnings
    assert first == "b, seed 1, was interrupted at 2027-01-16T08:00:00Z."
    assert second == "The runs are not equally long: 0.5, 1 measured days."
    assert "the same seeds" in third
    assert compare([one("a", 1), one("b", 1)]).warnings == ()


def test_runs_and_summaries_compare_alike() -> None:
    run = three_hours()
    assert compare([run]) == compare([summary(run)])


def test_figures_without_values_are_left_out() -> None:
    assert compare([one("a", 1), one("b", 1)]).about("a", "b") != []
    keys = {found.figure.key for found in compare([one("a", 1), one("b", 1)]).findings}
    assert "large_wait_p90_s" not in keys and "m1_delivered" not in keys


def test_files_of_a_comparison(tmp_path: Path) -> None:
    runs = [fake_run(seed=s, hosts=1, policy=p, jobs=20, days=2) for p in ("budgets", "priority") for s in (1, 2)]
    found = write_comparison(runs, tmp_path)
    assert json.loads((tmp_path / "comparison.json").read_text()) == found
    assert [variant["label"] for variant in found["variants"]] == ["budgets", "priority"]
    assert found["variants"][0]["seeds"] == [1, 2]
    figure = next(figure for figure in found["figures"] if figure["key"] == "m1_delivered")
    values = [summary(run)["m1_delivered"] for run in runs]
    assert figure["variants"]["budgets"]["by_seed"] == {"1": values[0], "2": values[1]}
    assert figure["variants"]["budgets"]["median"] == pytest.approx(sum(values[:2]) / 2, abs=1e-6)
    assert (tmp_path / "comparison.md").read_text() == markdown(compare(runs))
    assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == ["evictions.png", "shares.png", "waits.png"]
    write_comparison(runs, tmp_path / "again", png=False)
    for name in ("comparison.json", "comparison.md", "comparison.html"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("variants", [3, 12])
def test_the_table_and_the_charts_come_before_the_words_and_many_words_are_folded(
    tmp_path: Path, variants: int
) -> None:
    runs = [fake_run(seed=1, hosts=1, policy=f"p{i:02}", jobs=20, days=2) for i in range(variants)]
    write_comparison(runs, tmp_path, png=False)
    page = re.sub(r"<script.*?</script>", "", (tmp_path / "comparison.html").read_text(), flags=re.DOTALL)
    text = (tmp_path / "comparison.md").read_text()
    table, legend = page.index("Side by side"), page.index("What the figures mean")
    charts = [match.start() for match in re.finditer(r'<div class="chart"', page)]
    pairs = [match.start() for match in re.finditer(r'<details class="pair"', page)]
    assert len(charts) == 3 and len(pairs) == variants - 1
    assert table < legend < charts[0] and charts[-1] < pairs[0]
    assert page.index("p01 against p00") > pairs[0]
    assert len(re.findall(r'<details class="pair" open>', page)) == (variants - 1 if variants == 3 else 0)
    assert page.count("<details") == page.count("</details>")
    assert text.index("## Side by side") < text.index("## What the figures mean") < text.index("## p01 against p00")
    for word in ("M1", "M3, water-filled", "Impact", "Fragmentation", "Availability"):
        assert f"<dt>{word}</dt>" in page and f"- **{word}**: " in text


def test_markdown_is_a_table_whatever_a_policy_is_called() -> None:
    text = markdown(compare([one("a|b <i>\n#", 1, m1_delivered=0.5)]))
    assert "| | a\\|b &lt;i&gt; \\# |" in text
    assert "| M1: delivered of what was owed | 50.0 % |" in text


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, SHARE, "-"),
        (0.98765, SHARE, "98.8 %"),
        (0, SECONDS, "0 s"),
        (2.5, SECONDS, "2.5 s"),
        (7200, SECONDS, "2.0 h"),
        (12345.6, GPU_HOURS, "12,346 GPU-h"),
        (13, COUNT, "13"),
        (0.335, EACH, "0.34"),
    ],
)
def test_values_in_words(value: float | None, unit: str, expected: str) -> None:
    assert written(value, unit) == expected


def test_waits_and_differences_in_words() -> None:
    assert [wait(s) for s in (12, 89, 90, 5399, 5400, 129_600)] == [
        "12 s",
        "89 s",
        "1.5 min",
        "90.0 min",
        "1.5 h",
        "1.5 d",
    ]
    assert difference(-0.0123, SHARE) == "-1.2 points"
    assert difference(3600, SECONDS) == "+60.0 min"
    assert difference(0, EACH) == "0.00"
