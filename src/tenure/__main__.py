"""``python -m tenure``: the same as ``tenure``."""

from __future__ import annotations

from tenure.cli.main import main

main()
