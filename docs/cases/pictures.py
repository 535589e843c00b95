"""Two kinds of small SVG pictures: GPUs held over time, and who has a host when. Text in, text out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00")
WIDTH, LEFT, RIGHT, TOP = 760, 52, 18, 34
PLOT = WIDTH - LEFT - RIGHT


def band_chart(title: str, hours: Sequence[float], held: Mapping[str, Sequence[int]], most: int, mark: str) -> str:
    """GPUs of each name on top of each other. ``hours``: when each sample begins; ``mark`` is written at hour 0."""
    height = 220
    step = hours[1] - hours[0]
    first, last = hours[0], hours[-1] + step

    def x(hour: float) -> float:
        return round(LEFT + (hour - first) / (last - first) * PLOT, 1)

    parts = []
    base = [0] * len(hours)
    for colour, gpus in zip(COLOURS, held.values(), strict=False):
        for begin, end in _runs(list(zip(base, gpus, strict=True))):
            bottom, count = base[begin], gpus[begin]
            y, tall = TOP + height - (bottom + count) / most * height, count / most * height
            width = x(hours[end - 1] + step) - x(hours[begin]) + 0.3  # no seams between neighbours
            if count:
                parts.append(
                    f'<rect x="{x(hours[begin])}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}" fill="{colour}"/>'
                )
        base = [below + count for below, count in zip(base, gpus, strict=True)]
    for gpus_marked in (0, most // 2, most):
        y = TOP + height - gpus_marked / most * height
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{gpus_marked}</text>')
    for hour in range(int(first), int(last) + 1, 12):
        parts.append(f'<text x="{x(hour)}" y="{TOP + height + 18}" text-anchor="middle">{hour} h</text>')
    line = f'<line x1="{x(0)}" x2="{x(0)}" y1="{TOP - 6}" y2="{TOP + height}" stroke="#000" stroke-dasharray="4 3"/>'
    parts += [line, f'<text x="{x(0) + 5}" y="{TOP - 4}">{escape(mark)}</text>']
    return _svg(title, TOP + height + 56, parts + _legend(list(held), TOP + height + 42))


def _runs(values: Sequence[object]) -> list[tuple[int, int]]:
    """(from, to) of stretches of equal values."""
    edges = [0, *(i for i in range(1, len(values)) if values[i] != values[i - 1]), len(values)]
    return list(itertools.pairwise(edges))


def gantt(title: str, length: float, rows: Mapping[str, Sequence[tuple[float, float, str]]]) -> str:
    """One bar a row; (from hour, to hour, name) are its parts, coloured by name."""
    tall, gap = 34, 26
    names = sorted({name for bars in rows.values() for _, _, name in bars})
    parts, y = [], TOP
    for label, bars in rows.items():
        parts.append(f'<text x="{LEFT}" y="{y + 12}">{escape(label)}</text>')
        for begin, end, name in bars:
            x, width = LEFT + begin / length * PLOT, (end - begin) / length * PLOT
            colour = COLOURS[names.index(name) * 3 % len(COLOURS)]
            parts.append(f'<rect x="{x:.1f}" y="{y + 18}" width="{width:.1f}" height="{tall}" fill="{colour}"/>')
        y += 18 + tall + gap
    for hour in range(0, int(length) + 1, 2):
        x = LEFT + hour / length * PLOT
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{hour} h</text>')
    return _svg(title, y + 40, parts + _legend(names, y + 26, every=3))


def _legend(names: Sequence[str], y: float, every: int = 1) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        x = LEFT + i * 150
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{COLOURS[i * every % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 18}" y="{y}">{escape(name)}</text>')
    return parts


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}" font-family="sans-serif" font-size="12" role="img">'
    )
    back = f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", back, *parts, "</svg>", ""])
