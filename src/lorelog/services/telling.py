"""The sentence of each text that says most of what all of them are about: a summary without a model.

A word weighs what it is used for: in how many of the texts. A sentence weighs what its words do, more where it says why, what was
decided or what failed, or names something exact, and less where it only leads to the next one. Code, tables, lists of files and of
commands are none. Of each text the weightiest is taken, and left out again where earlier ones have said it. The same texts
give the same sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt

from lorelog.retrieval.dedupe import cut_words
from lorelog.retrieval.stopwords import STOP_WORDS
from lorelog.services.session.note import one_line, shorten

_ENDS = re.compile(
    r"(?<=[.!?])(?:(?<!\b\d\.)(?<!\b\d\d\.)|(?=\s+[A-Z]))(?<!\b[eEiI]\.[gGeE]\.)(?<!\bvs\.)\s+(?=\S)"  # 1. counts, and ends nothing
    r"|(?<=[\u3002\uff01\uff1f])\s*(?=\S)"
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+|^#{1,6}\s+|^(?:>\s?)+|^(?:User asked|Outcome|Went on with):\s*")
_BEGINS = re.compile(r"\s*(?:[-*+>|]\s|\d{1,3}[.)]\s|#{1,6}\s|\||<|:::|\[[^\]]+\]:)")
"""A line that goes on with none before it."""
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_NO_SENTENCE = re.compile(
    r"(?:Commands|Files|Tools|Errors):.*|`[^`]+`\W*|\S*://\S+|[^|]*\|[^|]*\|.*|<[^>]+>\W*|[^<]*=\"[^\"]*\"\s*/?>.*",
    re.DOTALL,
)
"""The lists of a note of a session, a command by itself, a row of a table, a tag or the rest of one."""
_ASKED = re.compile(r"\s*[-*+]?\s*User asked:")
_CODE = re.compile(r"`[^`]*`")
_WHY = re.compile(
    r"\b(?:because|decided?|decision|chose|instead of|in favou?r of|root cause|caused?|reason|therefore|so that|fix(?:e[sd])?|bug|fail(?:s|ed|ure)?"
    r"|broken?|must|never|always|do not|don't|avoid|prefer|require[sd]?|replaced?|renamed|removed|added|changed|moved|default|still open"
    r"|weil|entschieden|statt|nie|immer|muss)\b|因为|决定|原因|修复|失败|必须|不要|改为|改用|避免",
    re.IGNORECASE,
)
_EXACT = re.compile(r"`[^`]+`|\w+[./_]\w+|\b\d")
_LEADS = re.compile(
    r"(?:now )?(?:I|I'll|I've|I'm|let me|let's|here(?:'s| is| are)|we'll|yes|no|sure|ok(?:ay)?|great|done|which|what|in this)\b",
    re.IGNORECASE,
)
_LONGEST = 240
_SAID_BEFORE = 0.8
"""The share of a sentence's words that earlier ones hold, from which it adds nothing."""
_LEAST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Sentence:
    """What one of the texts says."""

    place: int
    """Which of them."""
    text: str
    weight: float


def telling(texts: Sequence[str]) -> list[Sentence]:
    """Return one sentence of each text, in order, as far as it has one and that adds something."""
    cut = [_sentences(text) for text in texts]
    full = [list(filter(_says_something, sentences)) for sentences in cut]
    return _chosen(full) or _chosen(cut)  # where all of them are lists of commands, a command is better than nothing


def content_words(text: str) -> set[str]:
    """Return the words of a text that say something."""
    return {word for word in cut_words(text) if word not in STOP_WORDS and any(map(str.isalnum, word))}


def _chosen(cut: Sequence[Sequence[str]]) -> list[Sentence]:
    used: Counter[str] = Counter()
    for sentences in cut:
        used.update({word for sentence in sentences for word in content_words(sentence)})
    said: set[str] = set()
    chosen: list[Sentence] = []
    for place, sentences in enumerate(cut):
        weights = [_weight(one, used) * (1.15 if not number else 1.0) for number, one in enumerate(sentences)]
        best = max(range(len(sentences)), key=weights.__getitem__, default=None)  # of equals the first
        words = content_words(sentences[best]) if best is not None else set()
        if best is not None and (not words or len(words & said) < _SAID_BEFORE * len(words)):
            chosen.append(Sentence(place, shorten(sentences[best], _LONGEST), weights[best]))
            said |= words
    return chosen


def _weight(sentence: str, used: Mapping[str, int]) -> float:
    words = content_words(sentence)
    weight = sum(log2(1 + used[word]) for word in words) / sqrt(len(words) + 4)
    for pattern, factor in ((_WHY, 1.4), (_EXACT, 1.2)):
        weight *= factor if pattern.search(sentence) else 1.0
    weight *= 0.5 if _LEADS.match(sentence) else 1.0
    weight *= 0.4 if sentence.endswith((":", "?", "\uff1f", "\uff1a")) else 1.0
    return weight * (0.3 if len(words) < _LEAST_WORDS else 1.0)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text; of a turn those of what came of it, and of what was asked only where nothing did."""
    asked: list[str] = []
    told: list[str] = []
    for line in _unwrapped(text.partition("\n")[2] if text.startswith("#") and "\n" in text else text):
        cut = (_tidied(part) for part in _ENDS.split(line))
        (asked if _ASKED.match(line) else told).extend(one for one in cut if any(map(str.isalnum, one)))
    return told if any(map(_says_something, told)) else asked + told


def _says_something(sentence: str) -> bool:
    """Say whether it is more than a command, a list of files or a row of a table."""
    return not _NO_SENTENCE.fullmatch(sentence) and " | " not in _CODE.sub("", sentence)


def _unwrapped(text: str) -> Iterator[str]:
    """Yield paragraphs and items of lists, each in one line, without blocks of code."""
    held, fence = "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if fence or mark or not line.strip() or _BEGINS.match(line):
            if held:
                yield held
            held = "" if fence or mark else line
        else:
            held = f"{held} {line.strip()}" if held else line
    if held:
        yield held


def _tidied(sentence: str) -> str:
    bare = sentence.strip()
    while (stripped := _BULLET.sub("", bare, count=1)) != bare:
        bare = stripped
    return one_line(bare)
