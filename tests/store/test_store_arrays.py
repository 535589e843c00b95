"""What the jobs of an array share: written once, read with each, gone with the last; and databases from before."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import command
from store_makers import DAY, NOW, batch, job

from tenure.store import ArrayRow, Store, migrate
from tenure.store import schema as tables

SPEC = '{"roles":["shared"]}'
ARRAY = ArrayRow(10, "[0,2,4]", 2, SPEC)


def jobs(**changes: Any) -> list[Any]:
    return [job(10 + i, spec="", array_id=10, array_index=2 * i, held=False, **changes) for i in range(3)]


@pytest.fixture
def filled(new_url: str) -> Any:
    with Store.open(new_url) as store:
        store.take_leadership()
        store.write(batch(1), jobs=[job(9), *jobs(), job(13)], arrays=[ARRAY])
        yield store


def test_jobs_are_read_with_what_they_share(filled: Store) -> None:
    assert filled.array(10) == ARRAY and filled.array(11) is None and filled.array(9) is None
    assert {row.id: row.spec for row in filled.list_jobs()} == {
        9: '{"roles":[]}',
        10: SPEC,
        11: SPEC,
        12: SPEC,
        13: '{"roles":[]}',
    }
    shared = [row.spec for row in filled.list_jobs(array=10)]
    assert shared[0] is shared[1] is shared[2], "read once: it may be a megabyte, and the jobs 10,000"
    found = filled.job(11)
    assert found is not None and (found.spec, found.array_id, found.array_index) == (SPEC, 10, 2)
    assert [row.id for row in filled.list_jobs(array=10, indices=(4, 0, 3))] == [12, 10]
    assert filled.list_jobs(array=9) == []


def test_states_and_the_first_that_is_otherwise(filled: Store) -> None:
    first, second, _ = jobs()
    done = [job(first.id, spec="", array_id=10, array_index=0, state="succeeded", first_start_at=NOW, ended_at=NOW)]
    done += [job(second.id, spec="", array_id=10, array_index=2, state="failed", first_start_at=NOW, ended_at=NOW)]
    filled.write(batch(2), jobs=done)
    assert filled.array_states(10) == {"failed": 1, "queued": 1, "succeeded": 1} and filled.array_states(9) == {}
    found = filled.first_in_array(10, without="succeeded")
    assert found is not None and (found.id, found.state, found.spec) == (11, "failed", SPEC)
    assert filled.first_in_array(9) is None


def test_a_folded_list_has_the_first_that_never_started(filled: Store) -> None:
    assert [row.id for row in filled.list_jobs(fold=True)] == [13, 10, 9]
    assert filled.never_started({10, 99}) == {(10, False): [0, 2, 4]}
    filled.write(batch(2), jobs=[job(10, spec="", array_id=10, array_index=0, state="running", first_start_at=NOW)])
    assert [row.id for row in filled.list_jobs(fold=True)] == [13, 11, 10, 9]
    assert filled.never_started({10}) == {(10, False): [2, 4]}
    assert [row.id for row in filled.list_jobs(fold=True, states=["running"])] == [10]
    filled.write(batch(3), jobs=[job(12, spec="", array_id=10, array_index=4, held=True)])
    assert [row.id for row in filled.list_jobs(fold=True)] == [13, 12, 11, 10, 9]
    assert filled.never_started({10}) == {(10, False): [2], (10, True): [4]}


def test_the_array_goes_with_the_last_of_its_jobs(filled: Store) -> None:
    old = jobs(state="failed", ended_at=NOW)
    filled.write(batch(2), jobs=old[:2])
    filled.compact(NOW + DAY, DAY)
    assert [row.id for row in filled.list_jobs()] == [13, 12, 9] and filled.array(10) == ARRAY
    filled.write(batch(3), jobs=old[2:])
    filled.compact(NOW + DAY, DAY)
    assert [row.id for row in filled.list_jobs()] == [13, 9] and filled.array(10) is None


def test_a_database_of_the_first_release_keeps_its_jobs(new_url: str) -> None:
    with Store.open(new_url) as store:
        store.take_leadership()
        with store._write() as connection:
            config = migrate._config()
            config.attributes["connection"] = connection
            command.downgrade(config, "0001")
            names = ", ".join(
                f'"{column.name}"' for column in tables.jobs.c if column.name not in ("array_id", "array_index", "held")
            )
            connection.exec_driver_sql(
                f"INSERT INTO jobs ({names}) VALUES (7, NULL, 'ada', 'lab', 'old', 'c1', 'queued', true, 8, 0, 0, 5, "
                "NULL, NULL, 0, 0, NULL, '{}', '{}')"
            )
    with Store.open(new_url) as store:
        row = store.job(7)
        assert row is not None and (row.name, row.array_id, row.array_index, row.spec) == ("old", None, None, "{}")
        store.write(batch(1), jobs=jobs(), arrays=[ARRAY])
        assert [row.id for row in store.list_jobs()] == [12, 11, 10, 7]
