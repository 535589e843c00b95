"""The report of a Slurm that is here: its own commands asked, day by day, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenure.shadow.sacct.rows import COLUMNS
from tenure.shadow.seen import local_time
from tenure.sim.traces.files import Source
from tenure.slurm import Commands

_DAY = 86_400
_TIMEOUT_S = 600
HOW = f"""SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2 \\
    --starttime 2026-09-01 --endtime 2026-10-01 --format {COLUMNS} > report.txt
sacctmgr --parsable2 show associations format=Cluster,Account,ParentName,User,Partition,Share > associations.txt
scontrol show config > config.txt
scontrol show node > nodes.txt"""
"""How the files are made on another machine."""
THEN = """tenure simulate --from-sacct report.txt --associations associations.txt --slurm-config config.txt \\
    --nodes nodes.txt --out report"""


def ask(commands: Commands, since: int, until: int, moved: Callable[[float], None]) -> Source:
    """What sacct has between two moments (seconds since 1970). Reading it raises CommandFailed."""
    return Source.of("sacct", _lines(commands, since, until, moved))


def _lines(commands: Commands, since: int, until: int, moved: Callable[[float], None]) -> Iterator[str]:
    """Jobs that ran on over midnight come with each of their days; one line of each is enough."""
    before: set[str] = set()
    header = ""
    for start in range(since, until, _DAY):
        end = min(start + _DAY, until)
        text = commands.run(
            "sacct",
            *("--allusers", "--allocations", "--duplicates", "--parsable2"),
            *("--starttime", local_time(start), "--endtime", local_time(end)),
            *("--format", COLUMNS),
            timeout_s=_TIMEOUT_S,
        )
        moved((end - since) / (until - since))
        lines = text.splitlines()
        if lines and not header:
            header = lines[0]
            yield header
        today = set(lines[1:])
        yield from (line for line in lines[1:] if line not in before)
        before = today
