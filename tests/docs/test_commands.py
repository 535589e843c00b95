"""Every `tenure ...` that a page mentions is a command that exists, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
import typer.main
from pages import NAMES, ROOT, blocks, spans, text_of

from tenure.cli import aliases
from tenure.cli.app import app
from tenure.cli.simulation.group import SimulateGroup, as_command

ROOT_COMMAND = typer.main.get_command(app)
OTHERS = ["packaging/prometheus/tenure.rules.yml"]
_PROMPT = re.compile(r"^[$#] +(?:export .*|\S+=\S* +|runuser -u \w+ -- )*(?=\S*\btenure )(.*)$", re.MULTILINE)
_CALL = re.compile(r"(?:^|/|&& )tenure((?: |$).*)")


def mentioned(name: str) -> Iterator[str]:
    """Everything behind the word tenure, where it begins a command."""
    page = text_of(name)
    for span in spans(page):
        if span.startswith("tenure "):
            yield span.removeprefix("tenure ")
    for block in blocks(page):
        if block.language in ("console", ""):
            text = block.text.replace("\\\n", " ")
            for line in _PROMPT.findall(text) or re.findall(r"^(tenure .*)$", text, re.MULTILINE):
                for part in re.split(r" && | & |\| ", line):
                    call = _CALL.search(part.strip())
                    if call:
                        yield call[1].strip()


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_commands_exist_with_their_options(name: str) -> None:
    for line in mentioned(name):
        for words in _variants(line):
            _check(words, f"{name}: tenure {line}")


def test_commands_are_found_at_all() -> None:
    found = [line for name in NAMES for line in mentioned(name)]
    assert len(found) > 80
    with pytest.raises(AssertionError, match="no option --no-such"):
        _check(["ls", "--no-such"], "here")
    with pytest.raises(AssertionError, match="no command lss"):
        _check(["lss"], "here")


def _variants(line: str) -> list[list[str]]:
    """The words of a command line; ``ls\\|add`` in a table stands for two lines."""
    line = line.replace("\\|", "|")
    words = shlex.split(line, comments=True)
    for i, word in enumerate(words):
        if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word):
            return [[*words[:i], choice, *words[i + 1 :]] for choice in word.split("|")]
    return [words]


def _check(words: list[str], where: str) -> None:
    command, rest = ROOT_COMMAND, aliases.translate(words)
    while rest:
        if isinstance(command, SimulateGroup):
            rest = as_command(rest, command.commands)
        word = rest.pop(0)
        if word in {"--", "..."}:
            return
        if word.startswith("-") and word != "-":
            rest = _check_option(command, word, rest, where)
        elif hasattr(command, "commands"):
            if word.isupper():
                return  # tenure COMMAND --help
            assert word in command.commands, f"{where}: no command {word}"
            command = command.commands[word]
        elif command.name in ("submit", "run") and not word.startswith("["):
            return  # what follows is the job's own
    return


def _check_option(command: object, word: str, rest: list[str], where: str) -> list[str]:
    name, equals, _ = word.partition("=")
    if name in ("--help", "-h"):
        return rest
    for parameter in command.params:  # type: ignore[attr-defined]
        if name in (*parameter.opts, *parameter.secondary_opts):
            takes_value = not (equals or getattr(parameter, "is_flag", False))
            return rest[1:] if takes_value else rest
    raise AssertionError(f"{where}: no option {name}")


def test_every_command_is_on_the_command_page() -> None:
    text = (ROOT / "docs/cli.md").read_text("utf-8")
    for name in ROOT_COMMAND.commands:  # type: ignore[attr-defined]
        assert f"tenure {name}" in text, f"docs/cli.md does not mention tenure {name}"
