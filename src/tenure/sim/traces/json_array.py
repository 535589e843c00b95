"""The elements of a file that is one long array in JSON, one by one: neither the file nor a line of it need fit into
memory.

The standard library decodes each element where it begins. The streaming parser that is fast enough (ijson on yajl) ends
the process at a number of some thousand digits, and no file may do that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

from tenure.sim.traces.files import Source
from tenure.sim.traces.records import TraceError

_CHUNK = 1 << 16
_LARGEST = 1 << 24
"""Characters of an element. Philly's largest have some thousand."""
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = ("", *"0123456789.eE+-")
"""What follows a number that may go on where more is read."""
_DECODER = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def elements(source: Source) -> Iterator[tuple[int, object]]:
    """Each element with the line on which it begins; numbers are texts. Raises TraceError where the file is no array,
    is broken, or ends too early.
    """
    text = _Text(source)
    text.take("[", "it is no array in JSON")
    if text.next() == "]":
        text.take("]", "")
    else:
        yield text.element()
        while text.next() == ",":
            text.take(",", "")
            yield text.element()
        text.take("]", "no comma or ] after an element")
    if text.next():
        raise text.broken("something follows the end of the array")


class _Text:
    """What is read and not decoded yet."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._line = 1
        self._over = False

    def next(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            end = space.end() if space else self._at
            self._skip_to(end)
            if end < len(self._text):
                return self._text[end]
            if not self._more(_CHUNK):
                return ""

    def take(self, wanted: str, why: str) -> None:
        found = self.next()
        if found != wanted:
            raise self.broken(why if found else "it ends too early, as if it had been cut")
        self._skip_to(self._at + 1)

    def element(self) -> tuple[int, object]:
        self.next()
        line, size, why = self._line, _CHUNK, "it goes on and on"
        while len(self._text) - self._at <= _LARGEST:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except JSONDecodeError as error:
                why = error.msg
                if not self._more(size):
                    raise self.broken(f"it ends too early, or is broken: {why}") from None
            except RecursionError:
                raise self.broken("an element is nested too deeply") from None
            else:
                if self._text[end : end + 1] not in _NUMBER or not self._more(size):
                    self._skip_to(end)
                    return line, value
            size *= 2  # so that decoding again costs no more than once did
        raise self.broken(f"an element is broken, or too large: {why}")

    def broken(self, why: str) -> TraceError:
        return TraceError(f"{self._source.name} line {self._line}: {why}")

    def _skip_to(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self, size: int) -> bool:
        """Read some characters more, and forget what is behind. False, and nothing changed, at the end."""
        parts, length = [self._text[self._at :]], 0
        for line in self._source.lines:
            parts.append(line)
            length += len(line)
            if length >= size:
                break
        if length:
            self._text, self._at = "".join(parts), 0
        return length > 0
