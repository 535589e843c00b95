"""A comparison as files: ``comparison.json``, ``comparison.md``, ``comparison.html`` and pictures.

What is compared with what, and what may be said about it, is decided in ``differences``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median

from tenure.reports.catalogue import SECTIONS, Figure
from tenure.reports.charts.comparison import comparison_pictures
from tenure.reports.differences import DIGITS, FIGURES, Comparison, Finding, compare, rule, sentences, spread
from tenure.reports.html import comparison_page, write_pngs
from tenure.reports.legend import LEGEND
from tenure.reports.markdown import plain
from tenure.reports.metrics import Summary
from tenure.reports.records import Run
from tenure.reports.tables import write_json

JSON_FILE, MARKDOWN_FILE, PAGE_FILE = "comparison.json", "comparison.md", "comparison.html"
OPEN_PAIRS = 3
"""More pairs of variants than this are folded on the page: the table and the charts say more at a glance."""


def write_comparison(runs: Iterable[Summary | Run], folder: Path, png: bool = True) -> Summary:
    """Compare ``runs`` (or their summaries) and write files into ``folder``. Returns what ``comparison.json`` holds.

    The first variant is what others on the same workload are compared with. Raises ValueError without any run and for
    two runs of one variant with the same seed, OSError when files cannot be written.
    """
    comparison = compare(runs)
    shown = comparison_pictures(comparison.variants)
    folder.mkdir(parents=True, exist_ok=True)
    found = as_json(comparison)
    write_json(folder / JSON_FILE, found)
    (folder / MARKDOWN_FILE).write_text(markdown(comparison), "utf-8")
    page = comparison_page(
        shown,
        about=about(comparison),
        rule=rule(comparison.seeds, varies=comparison.varies),
        warnings=comparison.warnings,
        pairs=[{"heading": f"{v} against {b}", "said": sentences(comparison, b, v)} for b, v in comparison.pairs()],
        labels=[variant.label for variant in comparison.variants],
        sections=rows(comparison),
        legend=LEGEND,
        open_pairs=OPEN_PAIRS,
    )
    (folder / PAGE_FILE).write_text(page, "utf-8")
    if png:
        write_pngs(shown, folder)
    return found


def about(comparison: Comparison) -> str:
    """What was compared, in one sentence."""
    places = dict.fromkeys(variant.place for variant in comparison.variants)
    seeds = sorted({seed for variant in comparison.variants for seed in variant.by_seed})
    where = "; ".join(f"{workload or 'a workload'} on {gpus} GPUs" for workload, gpus in places)
    return f"{len(comparison.variants)} variants, {where}; seeds {', '.join(map(str, seeds))}."


def rows(comparison: Comparison) -> dict[str, list[list[str]]]:
    """Section -> a row for each figure that some variant has: its label, then a cell per variant."""
    return {
        section: [
            [
                figure.label,
                *(spread(v.listed(figure), figure.unit) for v in comparison.variants),
            ]
            for figure in figures
            if any(variant.values(figure) for variant in comparison.variants)
        ]
        for section, figures in SECTIONS.items()
    }


def markdown(comparison: Comparison) -> str:
    """The same as the web page, in the same order, but for the charts."""
    lines = ["# Comparison", "", plain(about(comparison)), "", rule(comparison.seeds, varies=comparison.varies), ""]
    lines += [f"> {plain(warning)}\n" for warning in comparison.warnings]
    lines += ["## Side by side", "", "The median over seeds, and the range in brackets.", ""]
    labels = [plain(variant.label) for variant in comparison.variants]
    lines += ["| | " + " | ".join(labels) + " |", "|---|" + "---|" * len(labels)]
    for section, found in rows(comparison).items():
        lines.append(f"| **{section}** |" + " |" * len(labels))
        lines += ["| " + " | ".join(plain(text) for text in row) + " |" for row in found]
    lines += ["", "## What the figures mean", ""]
    lines += [f"- **{plain(word)}**: {plain(meaning)}" for word, meaning in LEGEND] + [""]
    for base, variant in comparison.pairs():
        lines += [f"## {plain(variant)} against {plain(base)}", ""]
        for name, said in sentences(comparison, base, variant).items():
            lines += [f"**{name.capitalize()}**", "", *(f"- {plain(line)}" for line in said), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def as_json(comparison: Comparison) -> Summary:
    """Everything that the texts are made of."""
    return {
        "about": about(comparison),
        "rule": rule(comparison.seeds, varies=comparison.varies),
        "warnings": list(comparison.warnings),
        "variants": [
            {
                "label": variant.label,
                "policy": first["policy"],
                "workload": first["workload"],
                "gpus": first["gpus"],
                "settings": first["settings"],
                "seeds": list(variant.by_seed),
            }
            for variant in comparison.variants
            for first in list(variant.by_seed.values())[:1]
        ],
        "figures": [_figure(comparison, figure) for figure in FIGURES],
        "findings": [_finding(found) for found in comparison.findings],
        "sentences": [
            {"variant": variant, "against": base} | sentences(comparison, base, variant)
            for base, variant in comparison.pairs()
        ],
    }


def _figure(comparison: Comparison, figure: Figure) -> Summary:
    found: Summary = {"key": figure.key, "label": figure.label, "unit": figure.unit, "better": figure.better}
    for variant in comparison.variants:
        values, listed = variant.values(figure), variant.listed(figure)
        found.setdefault("variants", {})[variant.label] = {
            "median": round(median(listed), DIGITS) if listed else None,
            "low": min(listed, default=None),
            "high": max(listed, default=None),
            "by_seed": {str(seed): value for seed, value in values.items()},
        }
    return found


def _finding(found: Finding) -> Summary:
    return {
        "key": found.figure.key,
        "variant": found.variant,
        "against": found.base,
        "seeds": len(found.variant_values),
        "shift": found.shift,
        "exceeds_spread": found.exceeds,
        "all_seeds_agree": found.agree,
        "better": found.better,
    }
