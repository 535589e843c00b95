"""The command line of the training program."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping, Sequence


def parse(arguments: Sequence[str] | None, env: Mapping[str, str]) -> argparse.Namespace:
    """The options, with ``--minutes`` turned into ``steps``. Exits with 2 for bad ones."""
    summary = "Train a classifier of handwritten digits; stop and resume as the scheduler asks."
    parser = argparse.ArgumentParser(prog="python -m tenure.demo.train", description=summary)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=_count, default=300, help="steps of the whole run (%(default)s)")
    length.add_argument("--minutes", type=_positive, help="minutes of the whole run; needs --pace")
    parser.add_argument("--pace", type=_positive, default=0.0, help="make each step last this many seconds")
    parser.add_argument("--checkpoint-every", type=_count, default=20, help="steps (%(default)s)")
    parser.add_argument("--log-every", type=_count, default=10, help="steps (%(default)s)")
    parser.add_argument("--batch", type=_count, default=64, help="images per step, all replicas (%(default)s)")
    parser.add_argument("--lr", type=_positive, default=0.003, help="learning rate (%(default)s)")
    parser.add_argument("--hidden", type=_count, default=64, help="width of both hidden layers (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of a fresh start (%(default)s)")
    parser.add_argument("--gang-timeout", type=_positive, default=60.0, help="seconds to wait for a replica")
    parser.add_argument(
        "--warn-signal",
        type=_signal,
        default=env.get("TENURE_WARN_SIGNAL") or "TERM",
        help="signal that comes before an eviction (TENURE_WARN_SIGNAL, else TERM)",
    )
    options = parser.parse_args(arguments)
    if options.minutes is not None:
        if not options.pace:
            parser.error("--minutes needs --pace, the seconds that a step lasts")
        options.steps = max(1, round(options.minutes * 60 / options.pace))
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _signal(text: str) -> signal.Signals:
    name = text.upper()
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal, such as TERM or USR1") from None
