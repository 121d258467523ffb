"""Which lines of an answer are kept: those that cite what was asked about, and claim nothing that it does not say.

The answer is redacted first. Comments and tags of ours are taken out, or a source could have a model write anchors; and so are boxes
to tick, which would become open tasks. What is thrown away is told with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lorelog.core.compact import DroppedLine
from lorelog.services.compact.claims import Ground
from lorelog.services.compact.sources import Source

LONGEST = 700
MOST = 100_000
"""Letters of an answer that are read: more than any that was asked for has, and little enough for patterns to go over it."""
_UNREAD = 3000
"""A line of so many letters is too long, whatever is taken out of it."""
_ID = re.compile(r"[0-9a-f]{8,16}", re.IGNORECASE)
_CITED = re.compile(
    r"""\s*(?P<opened>[\[\u3010\uff3b]+|[(\uff08])
    (?P<ids>(?:(?:ids?|sources?|chunks?|refs?|and|[\s,;:=\#^`"'\u3001\uff0c&])*\b[0-9a-f]{8,16}\b)+)
    [\s`"']*(?:[\]\u3011\uff3d]+|[)\uff09])""",
    re.IGNORECASE | re.VERBOSE,
)
"""Ids in brackets, as models write them that were told how and did otherwise: `[ID]`, `[id: ID, ID]`, `(ID)`, in any letters."""
_BULLET = re.compile(r"^\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_BOX = re.compile(r"^(?:\[[ xX]?\]\s*)+")
_OURS = re.compile(
    r"<!--.{0,400}?-->|<!--|-->|</?(?:lorelog-memory|private|(?:source|lines)-[0-9a-f]{12})\b[^>]*>?", re.IGNORECASE
)
_SHOWN = 200
_TOO_LONG = f"it is longer than {LONGEST} letters"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a summary, and the ids of what it rests on."""

    text: str
    ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"- {self.text} [{', '.join(self.ids)}]"


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of an answer."""

    lines: tuple[Line, ...]
    dropped: tuple[DroppedLine, ...] = ()

    @property
    def is_little(self) -> bool:
        """Whether more was thrown away than kept: then the rest is not to be believed either."""
        return len(self.lines) <= len(self.dropped)


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks answers about some sources."""

    sources: Mapping[str, Source]
    """By id."""
    clean: Callable[[str], str]
    _grounds: dict[tuple[str, ...], Ground] = field(default_factory=dict)

    def check(self, answer: str, most: int = 60) -> Checked:
        """Return the lines of an answer that hold, if there are not far more than `most` of them."""
        allowed = max(2 * most, len(self.sources))
        kept: list[Line] = []
        dropped: list[DroppedLine] = []
        for text in _lines(self.clean(answer[:MOST])):
            line, reason = None, "there were far more than were asked for"
            if len(kept) < allowed:
                line, reason = self._judge(text) if len(text) <= _UNREAD else (None, _TOO_LONG)
            if line is not None:
                kept.append(line)
            else:
                dropped.append(DroppedLine(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…", reason))
        if len(answer) > MOST:
            dropped.append(
                DroppedLine(self.clean(answer[MOST : MOST + _SHOWN]), "it comes after far more than was asked for")
            )
        return Checked(tuple(dict.fromkeys(kept)), tuple(dropped))

    def _judge(self, text: str) -> tuple[Line | None, str]:
        cited: dict[str, None] = {}
        said = plain(_CITED.sub(lambda found: self._take(found, cited), text), self.clean)
        if not any(map(str.isalnum, said)):
            return None, "it says nothing"
        if not cited:
            return None, "it cites nothing"
        ids = tuple(dict.fromkeys(map(self._known, cited)))
        if "" in ids:
            unknown = next(one for one in cited if not self._known(one))
            return None, f"it cites {unknown}, which is none of its sources"
        if len(said) > LONGEST:
            return None, _TOO_LONG
        missing = self._ground(ids).missing(said)
        if missing:
            return None, f"its sources do not say {missing[0][:80]}"
        return Line(said, ids), ""

    def _take(self, found: re.Match[str], cited: dict[str, None]) -> str:
        """Note what a bracket cites, and return what is left of it. In round ones may stand a commit as well as a source."""
        ids = [one.lower() for one in _ID.findall(found["ids"])]
        if found["opened"] in "(\uff08" and not all(map(self._known, ids)):
            return found[0]
        cited.update(dict.fromkeys(ids))
        return ""

    def _known(self, cited: str) -> str:
        """Return the id that a citation means, which may be cut short; empty for none or several."""
        if cited in self.sources:
            return cited
        found = [one for one in self.sources if one.startswith(cited) or cited.startswith(one)]
        if len(found) != 1 or not self.sources[found[0]].hash.startswith(cited):
            return ""
        return found[0]

    def _ground(self, ids: tuple[str, ...]) -> Ground:
        if ids not in self._grounds:
            cited = [self.sources[one] for one in ids]
            self._grounds[ids] = Ground(*(text for one in cited for text in (one.day, one.text)))
        return self._grounds[ids]


def plain(text: str, clean: Callable[[str], str]) -> str:
    """Return a text as it may stand on a line of a journal: printable, redacted, and no anchor, tag or box of ours in it."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    before = ""
    while before != text:  # what is left after one is taken out may be another
        before = text
        text = _BOX.sub("", " ".join(clean(_OURS.sub("", text)).split()))
    return text


def _lines(answer: str) -> Iterator[str]:
    """Yield the lines of an answer, those that are too long not to the end. One that is indented and no bullet goes on with the one before."""
    held = ""
    for raw in answer.splitlines():
        line = raw.strip()
        if not line or line.startswith(("```", "~~~")):
            continue
        if held and raw[:1] in " \t" and not _BULLET.match(raw):
            held += f" {line}" if len(held) <= _UNREAD else ""
            continue
        if held:
            yield held
        held = _BULLET.sub("", line, count=1)
    if held:
        yield held
