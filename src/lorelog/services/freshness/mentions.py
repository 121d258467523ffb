"""What a text may name of a project: files, symbols, settings, commands. Candidates only: whether there is, or was, such a thing
is for the project to say, and what it never had is no mention.

Prose is full of words that some function is called by too, so a bare word counts only where it is written as code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class MentionKind(StrEnum):
    """What a text names."""

    PATH = "path"
    SYMBOL = "symbol"
    SETTING = "setting"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that a text may name."""

    kind: MentionKind
    text: str
    """A path with forward slashes; names joined by dots; a setting's key; a command's words."""
    first_line: int = 0
    last_line: int = 0
    """The lines of a file that are named with it; 0 where none are."""


MOST = 40
"""Of one text. A chunk that names more is a listing, and the first of them tell as much."""

MOST_LETTERS = 100_000
"""Of one text. What stands further on is not looked at; a chunk is far shorter."""

# All of these take time that grows with the text and not with its square, whatever it is made of: a memory may be anybody's.
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})(.*)")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]{1,200})\1(?!`)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LINK = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://\S+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.]+")
_LINES = r"(?::(\d{1,6})(?:[-–:](\d{1,6}))?|#L(\d{1,6})(?:-L?(\d{1,6}))?)?"
_PATH = re.compile(
    r"(?<![\w/.@+~$%\\-])"
    r"((?:\.{1,2}/){0,8}(?:[\w.@+-]+/)*[\w.@+-]*[\w+]\.[A-Za-z][A-Za-z0-9_]{0,9}"  # with a suffix
    r"|(?:\.{1,2}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w/?"  # with a slash
    r"|(?:Make|Docker|Just|Rake|Proc|Vagrant|Gem|Pip)file)" + _LINES + r"(?![\w/])"
)
_NAME = r"[A-Za-z_$][\w$]*"
_CHAIN = re.compile(rf"(?<![\w$./-]){_NAME}(?:(?:\.|::|#|->){_NAME})*(\(\)?)?", re.ASCII)
_JOINTS = re.compile(r"\.|::|#|->")
_VARIABLE = re.compile(r"(?<![\w$./-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/])", re.ASCII)
_KEY = re.compile(r"[a-z][\w-]*(?:\.[a-z][\w-]*)+", re.ASCII)
_SHELLS = frozenset({"", "sh", "bash", "zsh", "shell", "console", "fish"})
_RUNNERS = re.compile(
    r"^(?:\$ |> )?(?:sudo )?(make|just|task|npm run|pnpm run|yarn run|npm|pnpm|yarn|uv run|poetry run|cargo|composer run)"
    r" ([A-Za-z_][\w:.-]*)"
)
_RUNS_ANYTHING = frozenset({"cargo", "npm", "pnpm", "yarn"})
_NO_TARGETS = frozenset(
    {"install", "add", "remove", "build", "init", "publish", "exec", "run", "update", "sure", "it", "the"}
)
_WORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null none self this return import from class def function const let var async await new for while "
        "if else try except catch throw raise with yield int str string bool float list dict tuple set object void "
        "public private static final interface struct enum type trait impl match case switch break continue pass print "
        "main test todo ",
    )
)
_LEAST = 3
"""Letters of a name: shorter ones are variables of an example."""


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return what a text may name, each thing once, in the order of the text."""
    found = dict.fromkeys(one for _, one in sorted(_candidates(text), key=lambda one: one[0]))
    return tuple(found)[:MOST]


def _candidates(text: str) -> Iterator[tuple[int, Mention]]:
    text = _blank(_COMMENT, text[:MOST_LETTERS])
    kept: list[str] = []
    for line, place, language in _lines(text):
        kept.append(line if language is None else " " * len(line))
        if language in _SHELLS:
            yield from _commands(line, place)
    text = _blank(_LINK, "".join(kept))
    for span in _SPAN.finditer(text):
        yield from _in_code(span[2], span.start(2))
    yield from _paths(text)
    yield from _in_prose(_blank(_SPAN, text))


def _lines(text: str) -> Iterator[tuple[str, int, str | None]]:
    """Yield lines with where they start and, of those in a fence, its language; a fence's own lines have none that is known."""
    place, fence, language = 0, "", ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if fence:
            closes = found is not None and found[1].startswith(fence) and not found[2].strip()
            yield line, place, "`" if closes else language
            fence = "" if closes else fence
        elif found and not (found[1][0] == "`" and "`" in found[2]):  # else it is a span in a sentence
            fence, language = found[1], found[2].strip().split(" ")[0].lower()
            yield line, place, "`"
        else:
            yield line, place, None
        place += len(line)


def _blank(what: re.Pattern[str], text: str) -> str:
    """Return the text with spaces where something was, so that what is left keeps its place."""
    return what.sub(lambda found: " " * len(found[0]), text)


def _paths(text: str) -> Iterator[tuple[int, Mention]]:
    for found in _PATH.finditer(text):
        path = found[1].rstrip("/")
        while path.startswith("./"):
            path = path[2:]
        first = int(found[2] or found[4] or 0)
        last = max(first, int(found[3] or found[5] or first))
        if len(path) >= _LEAST and not re.fullmatch(r"[\d.]+\w?|[\d/]+", path):
            yield found.start(), Mention(MentionKind.PATH, path, first, last)


def _in_code(span: str, start: int) -> Iterator[tuple[int, Mention]]:
    """Find what a code span names: a word alone there is a name, among others only what looks like one."""
    yield from _commands(span, start)
    alone = not re.search(r"[\s=,;]", span.strip())
    for found in _CHAIN.finditer(span):
        name = _JOINTS.sub(".", found[0].removesuffix("()").removesuffix("("))
        if _is_name(name) and (alone or found[1] or _looks_like_code(name)):
            yield start + found.start(), Mention(MentionKind.SYMBOL, name)
    if _KEY.fullmatch(span.strip()) and not _PATH.fullmatch(span.strip() + "/"):
        yield start, Mention(MentionKind.SETTING, span.strip())
    for found in _VARIABLE.finditer(span):
        yield start + found.start(), Mention(MentionKind.SETTING, found[0])


def _in_prose(text: str) -> Iterator[tuple[int, Mention]]:
    for found in _CHAIN.finditer(text):
        name = _JOINTS.sub(".", found[0].removesuffix("()").removesuffix("("))
        if _is_name(name) and (found[0].endswith("()") or _looks_like_code(name)):
            yield found.start(), Mention(MentionKind.SYMBOL, name)
    for found in _VARIABLE.finditer(text):
        yield found.start(), Mention(MentionKind.SETTING, found[0])


def _commands(text: str, start: int) -> Iterator[tuple[int, Mention]]:
    place = start
    for line in text.splitlines(keepends=True):
        found = _RUNNERS.match(line.strip())
        if found and found[1] not in _RUNS_ANYTHING and found[2] not in _NO_TARGETS:
            yield place, Mention(MentionKind.COMMAND, f"{found[1]} {found[2].rstrip('.:')}")
        place += len(line)


def _is_name(name: str) -> bool:
    last = name.rpartition(".")[2]
    return len(last) >= _LEAST and last.lower() not in _WORDS and not name.startswith("$.")


def _looks_like_code(name: str) -> bool:
    """Say whether nobody would write it in a sentence: snake_case, camelCase, Class.member; dots alone may be a host's name."""
    return bool(re.match(r"[A-Z]\w*\.[a-z_]\w+", name)) or any(
        re.search(r"[a-z\d]_[a-z\d]|[a-z]\d?[A-Z]|^_\w|[A-Z]{2}[a-z]{2}", part) for part in name.split(".")
    )
