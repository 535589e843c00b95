"""A batch script as sbatch reads it: its interpreter, and the options in its ``#SBATCH`` and ``#TENURE`` lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenure.scripts import table
from tenure.scripts.errors import Given, Place, ScriptError
from tenure.scripts.table import Option, Takes

SBATCH, TENURE = "#SBATCH", "#TENURE"
MAX_SCRIPT = 131_071 - len("TENURE_SCRIPT=")
"""Bytes of a script: Linux takes 128 KiB in one variable."""
_OTHERS = ("#PBS", "#BSUB")
_HETEROGENEOUS = ("hetjob", "packjob", ":")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "csh", "tcsh", "fish")


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Script:
    """``interpreter``: the words of its first line. ``unread``: lines that look like options and are none."""

    name: str
    text: str
    interpreter: tuple[str, ...]
    sbatch: tuple[Given, ...]
    tenure: tuple[Given, ...]
    unread: tuple[tuple[Place, str], ...] = ()

    @property
    def shell(self) -> str:
        """The name of its shell, '' for another language."""
        words = [word.rpartition("/")[2] for word in self.interpreter]
        if words[0] == "env" and len(words) > 1:
            words = [word for word in words[1].split() if not word.startswith("-")]
        return words[0] if words and words[0] in SHELLS else ""


def looks_like_script(data: bytes) -> bool:
    """Whether ``tenure submit FILE`` takes it for a batch script: one of a shell, or one with lines for us."""
    if not data.startswith(b"#!"):
        return False
    first, _, rest = data.partition(b"\n")
    words = [word.rpartition(b"/")[2].decode("utf-8", "replace") for word in first[2:].split()]
    if any(word in SHELLS for word in words[:3] if not word.startswith("-")):
        return True
    return any(line.startswith((SBATCH.encode(), TENURE.encode())) for line in rest.split(b"\n"))


def read(data: bytes, name: str, tenure: Mapping[str, Takes]) -> Script:
    """The script of a file called ``name``. ``tenure``: long options that ``#TENURE`` lines may have.

    Raises ScriptError.
    """
    text = _text(data, name)
    lines = text.split("\n")
    ours: dict[str, list[Word]] = {SBATCH: [], TENURE: []}
    unread: list[tuple[Place, str]] = []
    commands = False
    for number, line in enumerate(lines, start=1):
        place = Place(name, number)
        kind = next((word for word in ours if line.startswith(word)), None)
        if kind and commands:
            unread.append((place, f"{kind} after the first command is not read, by sbatch neither; move it up"))
        elif kind:
            ours[kind] += words(line.removeprefix(kind), place)
        elif line.startswith(_OTHERS):
            unread.append((place, f"{line.split()[0]} lines are not read; write #SBATCH or #TENURE"))
        commands = commands or not (line.strip() == "" or line.lstrip().startswith("#"))
    return Script(
        name=name,
        text=text,
        interpreter=_interpreter(lines[0], name),
        sbatch=tuple(sbatch_options(ours[SBATCH], tenure)),
        tenure=tuple(tenure_options(ours[TENURE], tenure)),
        unread=tuple(unread),
    )


def _text(data: bytes, name: str) -> str:
    whole = Place(name)
    if len(data) > MAX_SCRIPT:
        fix = f"a script is sent with the job and has at most {MAX_SCRIPT} bytes; let it call a larger one"
        raise ScriptError(whole, "script", f"{len(data)} bytes", fix)
    if b"\0" in data:
        raise ScriptError(whole, "script", None, "it is no text: there is a NUL byte in it")
    if b"\r\n" in data:
        line = data[: data.index(b"\r\n")].count(b"\n") + 1
        fix = f"it has Windows line ends (CR LF); take them out: sed -i 's/\\r$//' {name}"
        raise ScriptError(Place(name, line), "script", None, fix)
    if not data.startswith(b"#!"):
        raise ScriptError(Place(name, 1), "script", None, "the first line must name an interpreter, like #!/bin/bash")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ScriptError(Place(name, line), "script", None, "write it in UTF-8") from error


def _interpreter(line: str, name: str) -> tuple[str, ...]:
    """As Linux reads it: a path, and the rest as one argument."""
    program, _, argument = line[2:].strip().replace("\t", " ").partition(" ")
    if not program.startswith("/"):
        raise ScriptError(Place(name, 1), "#!", line[2:], "write the whole path of the interpreter, like #!/bin/bash")
    return (program, argument.strip()) if argument.strip() else (program,)


def words(line: str, place: Place) -> Iterator[Word]:
    """Words of a line: quotes and backslashes as in a shell, a ``#`` outside of them ends it. Raises ScriptError."""
    current: list[str] = []
    begun, quote, escaped = False, "", False
    for character in line:
        if escaped:
            current.append(character)
            escaped = False
        elif character == "\\":
            begun = escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                current.append(character)
        elif character in "\"'":
            begun, quote = True, character
        elif character == "#":
            break
        elif character.isspace():
            if begun:
                yield Word("".join(current), place)
            current, begun = [], False
        else:
            begun = True
            current.append(character)
    if quote:
        raise ScriptError(place, "line", line.strip(), f"a quote {quote} is not closed")
    if begun:
        yield Word("".join(current), place)


def sbatch_options(given: Sequence[Word], others: Iterable[str] = ()) -> Iterator[Given]:
    """What sbatch would find in these words. ``others``: names that `tenure submit` has. Raises ScriptError."""
    left = list(given)
    while left:
        word = left.pop(0)
        if word.text in _HETEROGENEOUS:
            fix = "jobs of different parts are job files here: [[roles]] in docs/cli.md"
            raise ScriptError(word.place, "heterogeneous job", word.text, fix)
        if word.text.startswith("--") and len(word.text) > 2:
            yield _long(word, left, others)
        elif word.text.startswith("-") and word.text not in ("-", "--"):
            yield from _short(word, left)
        else:
            raise ScriptError(word.place, "word", word.text, f"it is no option; {_hint(word.text)}")


def _hint(text: str) -> str:
    name = text.partition("=")[0]
    if table.find(name) and len(name) > 1:
        return f"write --{text}"
    return "write --option=value, in quotes if there are blanks in it"


def _long(word: Word, left: list[Word], others: Iterable[str]) -> Given:
    name, equals, value = word.text[2:].partition("=")
    option = table.find(name)
    if option is None:
        raise ScriptError(word.place, f"--{name}", value if equals else None, table.suggestion(name, others))
    return _given(option, word, value if equals else None, left)


def _short(word: Word, left: list[Word]) -> Iterator[Given]:
    """``-N2``, ``-N 2``, or several flags in one word."""
    letters = word.text[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = table.BY_SHORT.get(letter)
        if option is None:
            fix = "sbatch has no such option; docs/sbatch.md lists all of them"
            raise ScriptError(word.place, f"-{letter}", None, fix)
        if option.takes is Takes.NOTHING:
            yield Given(option.name, None, word.place)
            continue
        yield _given(option, word, letters or None, left)
        return


def _given(option: Option, word: Word, value: str | None, left: list[Word]) -> Given:
    if option.takes is Takes.NOTHING and value is not None:
        raise ScriptError(word.place, f"--{option.name}", value, "it takes no value")
    if option.takes is Takes.VALUE and value is None:
        if not left:
            raise ScriptError(word.place, f"--{option.name}", None, f"it needs a value: --{option.name}=...")
        value = left.pop(0).text
    return Given(option.name, value, word.place)


def tenure_options(given: Sequence[Word], known: Mapping[str, Takes]) -> Iterator[Given]:
    """Long options of ``tenure submit`` in these words. Raises ScriptError for others."""
    left = list(given)
    while left:
        word = left.pop(0)
        name, equals, value = word.text.removeprefix("--").partition("=")
        takes = known.get(name)
        if takes is None or not word.text.startswith("--"):
            said = word.text.partition("=")[0] or repr(word.text)
            raise ScriptError(word.place, said, None, _tenure_fix(word.text, name, known))
        if takes is Takes.NOTHING and equals:
            raise ScriptError(word.place, f"--{name}", value, "it takes no value")
        if takes is Takes.VALUE and not equals:
            if not left or left[0].text.startswith("--"):
                raise ScriptError(word.place, f"--{name}", None, f"it needs a value: --{name}=...")
            value = left.pop(0).text
        yield Given(name, value if takes is Takes.VALUE else None, word.place)


def _tenure_fix(text: str, name: str, known: Mapping[str, Takes]) -> str:
    if name in known:
        return f"write --{text.lstrip('-')}"
    if text.startswith("--") and name in table.BY_NAME:
        return f"that is an option of sbatch: write it on a line of its own, #SBATCH {text}"
    close = table.closest(name, known)
    hint = f"; did you mean {close}?" if close else ""
    return f"#TENURE lines take the long options of `tenure submit`{hint}"
