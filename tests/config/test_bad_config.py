"""Malformed configurations: only ever ConfigError, and every problem says file, field, value and remedy."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from bad_cases import GOOD_BUDGETS, GOOD_CLUSTERS, Case, cases, grant
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.config import ConfigError, Names, Problem, load, parse
from tenure.config.sample import SAMPLE_FILES

CORPUS = Path(__file__).parent.parent / "corpus" / "bad_config"
SAMPLE = Path(__file__).parent.parent.parent / "src" / "tenure" / "config" / "sample"
SAMPLE_TEXTS = tuple((SAMPLE / name).read_text() for name in SAMPLE_FILES)


def problems_of(clusters: str, budgets: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        parse(clusters, budgets)
    check_shape(caught.value)
    return caught.value.problems


def check_shape(error: ConfigError) -> None:
    assert error.problems
    for problem in error.problems:
        for part in (problem.file, problem.field, problem.value, problem.remedy):
            assert part.strip()
        assert len(problem.value) <= 200
        assert str(problem) in str(error)


def test_what_the_cases_start_from_is_good() -> None:
    parse(GOOD_CLUSTERS, GOOD_BUDGETS + grant())


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.field}: {case.remedy}")
def test_one_fault(case: Case) -> None:
    problems = problems_of(case.clusters, case.budgets)
    assert [p for p in problems if p.field == case.field and case.remedy in p.remedy], problems


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.stem)
def test_corpus(path: Path, tmp_path: Path) -> None:
    kind = path.name.partition("-")[0]
    for name, text in (("tenure.toml", GOOD_CLUSTERS), ("budgets.toml", GOOD_BUDGETS)):
        raw = path.read_bytes() if name == f"{kind}.toml" else text.encode()
        (tmp_path / name).write_bytes(raw)
    expected = dict(
        line[2:].split(": ", 1)
        for line in path.read_text("latin-1").splitlines()
        if line.startswith(("# field: ", "# remedy: "))
    )
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "tenure.toml")
    check_shape(caught.value)
    found = [
        problem
        for problem in caught.value.problems
        if problem.field == expected["field"] and expected["remedy"] in problem.remedy
    ]
    assert found, caught.value.problems
    assert found[0].file == f"{kind}.toml"


def test_all_problems_of_both_files_come_at_once() -> None:
    problems = problems_of('[server]\nport = "x"\nlisten = 5\n[clusters.a]\nhosts = [7]\n', "[lab]\n[lab.x]\n[lab.y]\n")
    assert {(p.file, p.field) for p in problems} == {
        ("tenure.toml", "server.port"),
        ("tenure.toml", "server.listen"),
        ("tenure.toml", "clusters.a.hosts[0]"),
        ("budgets.toml", "lab.x.share"),
        ("budgets.toml", "lab.y.share"),
    }


def test_problems_use_the_names_given() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[clusters]", "[lab]\n[lab.x]", Names("our.toml", "tree.toml"))
    assert {p.file for p in caught.value.problems} == {"our.toml", "tree.toml"}


def test_a_database_password_is_never_repeated() -> None:
    text = f'[server]\ndatabase = "mysql://tenure:s3cret@host/tenure"\n{GOOD_CLUSTERS}'
    with pytest.raises(ConfigError) as caught:
        parse(text, GOOD_BUDGETS)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("missing", SAMPLE_FILES)
def test_a_missing_file(missing: str, tmp_path: Path) -> None:
    for name, text in zip(SAMPLE_FILES, SAMPLE_TEXTS, strict=True):
        if name != missing:
            (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="No such file") as caught:
        load(tmp_path / "tenure.toml")
    check_shape(caught.value)
    assert [p.file for p in caught.value.problems] == [missing]


def test_a_directory_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="directory"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["", "a\\u0000b"])
def test_a_budgets_file_that_cannot_be_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text(f'budgets = "{name}"\n{GOOD_CLUSTERS}')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "tenure.toml")
    check_shape(caught.value)
    assert caught.value.problems[0].field == "budgets"


def test_a_file_too_large(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        load(tmp_path / "tenure.toml")


def try_to_parse(clusters: str, budgets: str) -> None:
    try:
        parse(clusters, budgets)
    except ConfigError as error:
        check_shape(error)


TOKEN_TEXT = r"""[ ] { } = , . " ' # - [[ ]] true nan 1e9 1e999999 0x -1 0 99999999999999999999 0.1234567 [] {} ""
1979-05-27 07:32:00 share hosts name self grants members cluster_shares discover lab"""
TOKENS = st.sampled_from([*TOKEN_TEXT.split(), "\n", "\0", "\u2028", "\U0001f600"])
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 12), TOKENS | st.text(string.printable, max_size=4) | st.text(max_size=4)
    ),
    min_size=1,
    max_size=4,
)
Edits = list[tuple[float, int, str]]


def edited(text: str, edits: Edits) -> str:
    for place, cut, new in edits:
        at = int(place * len(text))
        text = text[:at] + new + text[at + cut :]
    return text


@given(EDITS, st.booleans())
@example([(0.5, 0, "\0")], True)
def test_mutations_of_the_sample_give_a_configuration_or_problems(edits: Edits, first: bool) -> None:
    clusters, budgets = SAMPLE_TEXTS
    if first:
        try_to_parse(edited(clusters, edits), budgets)
    else:
        try_to_parse(clusters, edited(budgets + grant(to='"lab/vision"', **{"from": '["lab/self"]'}), edits))


VALUE_TEXT = r"""-1 0 1 8 9223372036854775807 0.5 -0.0 nan inf true 1e400 "" "x" "1h" "64G" "1/3" "n[1-3]"
"lab/x" "\u0000" [] [1] ["a"] ["lab/x"] [[]] [{}] {} {a=1} {main="50%"} 1979-05-27 07:32:00 1979-05-27T07:32:00
0001-01-01T00:00:00+02:00"""
VALUES = st.sampled_from(VALUE_TEXT.split())


@given(st.integers(0, 1000), VALUES, st.booleans())
def test_any_setting_with_any_value_gives_a_configuration_or_problems(which: int, value: str, first: bool) -> None:
    texts = [SAMPLE_TEXTS[0], SAMPLE_TEXTS[1] + grant()]
    lines = texts[not first].splitlines()
    settings = [i for i, line in enumerate(lines) if " = " in line and not line.startswith(("#", " "))]
    at = settings[which % len(settings)]
    lines[at] = f"{lines[at].split(' = ')[0]} = {value}"
    texts[not first] = "\n".join(lines)
    try_to_parse(*texts)
