"""Scripts as sbatch reads them: which lines count, words, options, and what is said about what does not work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.cli.aliases import own_options
from tenure.scripts import lines
from tenure.scripts.errors import COMMAND_LINE, Place, ScriptError
from tenure.scripts.lines import Script, looks_like_script, read

TENURE = {name: takes for name, takes in own_options()[0].items() if name not in ("json", "quiet", "help", "dry-run")}


def script(*body: str, first: str = "#!/bin/bash") -> Script:
    return read("\n".join((first, *body, "")).encode(), "job.sh", TENURE)


def options(*body: str) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.place.line) for one in script(*body).sbatch]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (["#SBATCH --nodes=2"], [("nodes", "2", 2)]),
        (["#SBATCH --nodes 2"], [("nodes", "2", 2)]),
        (["#SBATCH -N2"], [("nodes", "2", 2)]),
        (["#SBATCH\t-N  2"], [("nodes", "2", 2)]),
        (["#SBATCH--nodes=2"], [("nodes", "2", 2)]),
        (["#SBATCH -N2 -n 4 --hold"], [("nodes", "2", 2), ("ntasks", "4", 2), ("hold", None, 2)]),
        (["#SBATCH --time", "#SBATCH 10"], [("time", "10", 2)]),
        (["#SBATCH -J 'a b#c' # -N3"], [("job-name", "a b#c", 2)]),
        (["#SBATCH -Jfoo#bar"], [("job-name", "foo", 2)]),
        (['#SBATCH --comment="it is \\"so\\""'], [("comment", 'it is "so"', 2)]),
        (["#SBATCH -J a\\ b"], [("job-name", "a b", 2)]),
        (["#SBATCH --job-name=''"], [("job-name", "", 2)]),
        (["#SBATCH -HOs"], [("hold", None, 2), ("overcommit", None, 2), ("oversubscribe", None, 2)]),
        (["#SBATCH -HN2"], [("hold", None, 2), ("nodes", "2", 2)]),
        (["#SBATCH -koff"], [("no-kill", "off", 2)]),
        (["#SBATCH --nice", "#SBATCH --nice=5"], [("nice", None, 2), ("nice", "5", 3)]),
        (["#SBATCH --part=gpu --tasks-per-node=4"], [("partition", "gpu", 2), ("ntasks-per-node", "4", 2)]),
        (["", "   ", "# words", "  # words", "#SBATCH -N2"], [("nodes", "2", 6)]),
        (["##SBATCH -N2", "# SBATCH -N3", "#sbatch -N4", " #SBATCH -N5"], []),
        (["#SBATCH"], []),
        (["#SBATCH # nothing"], []),
    ],
)
def test_options_of_a_script(body: list[str], found: list[tuple[str, str | None, int]]) -> None:
    assert options(*body) == found


def test_lines_after_the_first_command_do_not_count_and_are_told() -> None:
    made = script("#SBATCH -N2", "set -e", "#SBATCH -n4", "#TENURE --resumable")
    assert [one.name for one in made.sbatch] == ["nodes"] and made.tenure == ()
    assert made.unread == (
        (Place("job.sh", 4), "#SBATCH after the first command is not read, by sbatch neither; move it up"),
        (Place("job.sh", 5), "#TENURE after the first command is not read, by sbatch neither; move it up"),
    )
    assert script("#PBS -l nodes=2").unread == (
        (Place("job.sh", 2), "#PBS lines are not read; write #SBATCH or #TENURE"),
    )


def test_lines_for_us() -> None:
    made = script("#TENURE --min-runtime=2h --no-resumable", "#TENURE --env A=1 --env 'B=x y' # words")
    assert [(one.name, one.value) for one in made.tenure] == [
        ("min-runtime", "2h"),
        ("no-resumable", None),
        ("env", "A=1"),
        ("env", "B=x y"),
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("#SBATCH --nosuch=2", "job.sh line 2: --nosuch = 2: sbatch has no such option; docs/sbatch.md lists"),
        ("#SBATCH --nodess=2", "job.sh line 2: --nodess = 2: sbatch has no such option; did you mean --nodes"),
        ("#SBATCH --tim=2", "did you mean --time or --time-min?"),
        ("#SBATCH --min-runtime=2h", "but `tenure submit` has: write it on a line of its own, #TENURE --min-runtime"),
        ("#SBATCH -z", "job.sh line 2: -z: sbatch has no such option"),
        ("#SBATCH nodes=2", "job.sh line 2: word = nodes=2: it is no option; write --nodes=2"),
        ("#SBATCH -N 2 foo", "word = foo: it is no option"),
        ("#SBATCH --nodes = 2", "word = 2: it is no option"),
        ("#SBATCH --export= NONE", "word = NONE: it is no option"),
        ("#SBATCH --nice 5", "word = 5: it is no option"),
        ("#SBATCH -- -N2", "word = --: it is no option"),
        ("#SBATCH -t", "job.sh line 2: --time: it needs a value: --time=..."),
        ("#SBATCH --hold=yes", "--hold = yes: it takes no value"),
        ('#SBATCH --nodes "2', 'line = --nodes "2: a quote " is not closed'),
        ("#SBATCH hetjob", "heterogeneous job = hetjob: jobs of different parts are job files here"),
        ("#SBATCH : -N2", "heterogeneous job = :: jobs of different parts"),
        ("#SBATCHX -N2", "word = X: it is no option"),
        ("#TENURE --time=2h", "--time: that is an option of sbatch: write it on a line of its own, #SBATCH --time=2h"),
        (
            "#TENURE --min-run=2h",
            "--min-run: #TENURE lines take the long options of `tenure submit`; did you mean --min-run",
        ),
        ("#TENURE min-runtime=2h", "min-runtime: write --min-runtime=2h"),
        ("#TENURE -m 2h", "-m: #TENURE lines take the long options"),
        ("#TENURE \\", "job.sh line 2: '': #TENURE lines take the long options"),
        ("#TENURE =2h", "job.sh line 2: '=2h': #TENURE lines take the long options"),
        ("#TENURE --json", "--json: #TENURE lines take the long options"),
        ("#TENURE --budget --resumable", "--budget: it needs a value"),
        ("#TENURE --resumable=yes", "--resumable = yes: it takes no value"),
    ],
)
def test_errors_name_the_line_the_option_its_value_and_the_fix(body: str, says: str) -> None:
    with pytest.raises(ScriptError) as caught:
        script(body)
    assert says in str(caught.value)
    assert caught.value.place == Place("job.sh", 2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            b"#!/bin/sh\n#SBATCH -N2\r\n",
            r"job.sh line 2: script: it has Windows line ends (CR LF); take them out: sed -i",
        ),
        (b"#SBATCH -N2\n", "job.sh line 1: script: the first line must name an interpreter, like #!/bin/bash"),
        (b"", "the first line must name an interpreter"),
        (b"#!bash\n", "job.sh line 1: #! = bash: write the whole path of the interpreter"),
        (b"#!\n", "#! = '': write the whole path"),
        (b"#!/bin/sh\n\0", "job.sh: script: it is no text"),
        (b"#!/bin/sh\n\n\xff\n", "job.sh line 3: script: write it in UTF-8"),
        (b"#!/bin/sh\n" + b"x" * 131_072, "script = 131082 bytes: a script is sent with the job and has at most"),
    ],
)
def test_what_is_no_script(data: bytes, says: str) -> None:
    with pytest.raises(ScriptError) as caught:
        read(data, "job.sh", TENURE)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("first", "words", "shell"),
    [
        ("#!/bin/bash", ("/bin/bash",), "bash"),
        ("#! /bin/bash -l -e ", ("/bin/bash", "-l -e"), "bash"),
        ("#!/usr/bin/env bash", ("/usr/bin/env", "bash"), "bash"),
        ("#!/usr/bin/env -S bash -e", ("/usr/bin/env", "-S bash -e"), "bash"),
        ("#!/usr/bin/env python3", ("/usr/bin/env", "python3"), ""),
        ("#!/bin/dash", ("/bin/dash",), "dash"),
    ],
)
def test_interpreters(first: str, words: tuple[str, ...], shell: str) -> None:
    made = script(first=first)
    assert made.interpreter == words and made.shell == shell


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b"#!/bin/bash\n", True),
        (b"#!/usr/bin/env bash\n", True),
        (b"#!/usr/bin/python3\nprint()\n", False),
        (b"#!/usr/bin/python3\n#SBATCH -N2\nprint()\n", True),
        (b"#!/usr/bin/python3\n#TENURE --resumable\n", True),
        (b"#SBATCH -N2\n", False),
        (b"\x7fELF", False),
    ],
)
def test_which_files_are_scripts(data: bytes, is_one: bool) -> None:
    assert looks_like_script(data) == is_one


PIECES = st.sampled_from(
    [
        "#SBATCH ",
        "#TENURE ",
        "#!/bin/sh",
        "\n",
        "\r\n",
        " ",
        "--",
        "-N",
        "nodes",
        "=",
        "2",
        '"',
        "'",
        "\\",
        "#",
        ":",
        "time",
    ]
)


@given(st.one_of(st.binary(), st.lists(PIECES).map(lambda parts: ("#!/bin/sh\n" + "".join(parts)).encode())))
def test_nothing_crashes_the_reader(data: bytes) -> None:
    looks_like_script(data)
    try:
        made = read(data, "job.sh", TENURE)
    except ScriptError as error:
        assert error.fix and error.option
    else:
        assert made.text.encode() == data


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1), min_size=1))
def test_words_in_quotes_come_back_as_they_were(words: list[str]) -> None:
    line = " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    assert [word.text for word in lines.words(line, COMMAND_LINE)] == words
