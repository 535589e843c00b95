"""Whatever stands in a file, the line readers count it and raise nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.sim.traces import End, Reading, TraceJob
from tenure.sim.traces.files import Source
from tenure.sim.traces.itp import read_itp
from tenure.sim.traces.rows import MAX_GPUS
from tenure.sim.traces.sacct import read_sacct
from tenure.sim.traces.swf import read_swf
from tenure.sim.traces.trace import Reader

HEADER = "JobID|User|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|ReqTRES"
LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=40)
NUMBER = st.one_of(
    st.integers(-2, 10**9).map(str),
    st.floats().map(str),
    st.sampled_from(["-1", "0", "1e400", "9" * 5000, "1_0", "٣", "²", ""]),
)
IDS = st.sampled_from(["1", "1_2", "1_[3-4]", "1+0", "1+1", "1.batch", "1_2.0", "x"])
STATES = st.sampled_from(["COMPLETED", "CANCELLED by 3", "RUNNING", "NODE_FAIL", "TIMEOUT", "what", ""])
TIMES = st.sampled_from(["2026-01-05T08:00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59+14:00", "Unknown", "²"])
CLOCKS = st.sampled_from(["00:00:00", "1-00:00:00", "UNLIMITED", "00:10", "99999-00:00:00", ""])
TRES = st.sampled_from(["gres/gpu=8", "gres/gpu=999999999", "cpu=1", "1002=2", "gres/gpu=0,gres/gpu:a=2", ""])
CELL = st.one_of(LINE, NUMBER)
ROW = st.tuples(
    *(CELL | kind for kind in (IDS, LINE, STATES, st.just("0:9"), TIMES, TIMES, TIMES, CLOCKS, CLOCKS, TRES))
).map("|".join)


def check(reader: Reader, lines: list[str]) -> list[TraceJob]:
    reading = Reading()
    jobs = list(reader([Source.of("f", [line + "\n" for line in lines])], reading))
    assert reading.accounted == reading.rows <= len(lines)
    assert reading.kept == len(jobs)
    for job in jobs:
        assert job.runtime > 0
        assert job.submitted >= 0
        assert 0 < job.gpus <= MAX_GPUS * len(lines)
        assert job.runtime % 1000 == job.submitted % 1000 == 0
        assert job.timeout is None or job.timeout > 0
        assert isinstance(job.end, End)
    return jobs


@given(st.lists(ROW | LINE, max_size=8))
def test_sacct(lines: list[str]) -> None:
    check(read_sacct, [HEADER, *lines])


@given(st.lists(LINE | st.lists(NUMBER, min_size=17, max_size=19).map(" ".join), max_size=8))
def test_swf(lines: list[str]) -> None:
    check(read_swf, lines)


@given(st.lists(LINE | st.lists(CELL, min_size=3, max_size=5).map(",".join), max_size=8))
def test_tables(lines: list[str]) -> None:
    check(read_itp, ["job_id,submission_time,duration,num_gpu", *lines])


def test_the_strategies_reach_good_rows() -> None:
    row = "1|u|COMPLETED|0:9|2026-01-05T08:00:00|2026-01-05T08:00:00|Unknown|00:10|UNLIMITED|gres/gpu=8"
    assert [job.gpus for job in check(read_sacct, [HEADER, row])] == [8]
