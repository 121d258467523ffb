"""Find the files, symbols, settings and commands that a text may mention.

They are candidates: `mention_targets` looks them up in the project, and what neither exists nor existed there does not
count.
Many words of prose are also names of functions, so a bare word counts only if it is formatted as code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct


class MentionKind(StrEnum):
    """Kinds of things that a text mentions."""

    PATH = "path"
    SYMBOL = "symbol"
    SETTING = "setting"
    COMMAND = "command"


class Mention(Struct, frozen=True):
    """A thing that a text may mention."""

    kind: MentionKind
    text: str
    """A path with slashes, names joined by dots, the key of a setting, or the words of a command."""
    first_line: int = 0
    last_line: int = 0
    """The mentioned lines of a file; 0 if there are none."""


MAX_MENTIONS = 40
"""Limit for one text. A chunk with more mentions is a listing, and the first ones are enough."""

MAX_TEXT_CHARS = 100_000
"""Limit for one text. The rest is ignored; chunks are far shorter."""

# All patterns take linear time for any input: a memory may come from anyone.
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
_UNUSUAL_CHAIN = re.compile(
    rf"(?<![\w$./-])(?![A-Za-z][a-z]*[\s,;)]){_NAME}(?:(?:\.|::|#|->){_NAME})*(?:\(\)?)?", re.ASCII
)
"""As above, without ordinary words: most of a text."""
_NAME_SEPARATORS = re.compile(r"\.|::|#|->")
_VARIABLE = re.compile(r"(?<![\w$./-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/])", re.ASCII)
_KEY = re.compile(r"[a-z][\w-]*(?:\.[a-z][\w-]*)+", re.ASCII)
_SHELLS = frozenset({"", "sh", "bash", "zsh", "shell", "console", "fish"})
_RUNNERS = re.compile(
    r"^(?:\$ |> )?(?:sudo )?(make|just|task|npm run|pnpm run|yarn run|npm|pnpm|yarn|uv run|poetry run|cargo|composer run)"
    r" ([A-Za-z_][\w:.-]*)"
)
_RUNS_ANYTHING = frozenset({"cargo", "npm", "pnpm", "yarn"})
_NON_TARGETS = frozenset(
    {"install", "add", "remove", "build", "init", "publish", "exec", "run", "update", "sure", "it", "the"}
)
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null none self this return import from class def function const let var async await new for while "
        "if else try except catch throw raise with yield int str string bool float list dict tuple set object void "
        "public private static final interface struct enum type trait impl match case switch break continue pass print "
        "main test todo ",
    )
)
_MEMBER = re.compile(r"[A-Z]\w*\.[a-z_]\w+")
_CODE_NAME = re.compile(r"[a-z\d]_[a-z\d]|[a-z]\d?[A-Z]|^_\w|[A-Z]{2}[a-z]{2}")
_MIN_NAME_CHARS = 3
_MIN_MEMBER_CHARS = 2
"""Shorter names are variables of an example."""


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions of a text without duplicates, in text order."""
    candidates = sorted(_candidates(text), key=lambda candidate: candidate[0])
    return tuple(dict.fromkeys(mention for _, mention in candidates))[:MAX_MENTIONS]


def _candidates(text: str) -> Iterator[tuple[int, Mention]]:
    text = _blank_matches(_COMMENT, text[:MAX_TEXT_CHARS])
    prose: list[str] = []
    for line, offset, language in _iter_lines(text):
        prose.append(line if language is None else " " * len(line))
        if language in _SHELLS:
            yield from _find_commands(line, offset)
    text = "".join(prose)
    if "://" in text or "@" in text:
        text = _blank_matches(_LINK, text)
    for span in _SPAN.finditer(text):
        yield from _find_in_code(span[2], span.start(2))
    paths = list(_PATH.finditer(text))
    yield from _find_paths(paths)
    yield from _find_in_prose(_blank_matches(_SPAN, _blank_paths(text, paths)))


def _iter_lines(text: str) -> Iterator[tuple[str, int, str | None]]:
    """Yield lines with their offset and the language of their fence; None outside of fences, "`" for fence lines."""
    offset, fence, language = 0, "", ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if fence:
            closes = match is not None and match[1].startswith(fence) and not match[2].strip()
            yield line, offset, "`" if closes else language
            fence = "" if closes else fence
        elif match and not (match[1][0] == "`" and "`" in match[2]):  # otherwise it is a span in a sentence
            fence, language = match[1], match[2].strip().split(" ")[0].lower()
            yield line, offset, "`"
        else:
            yield line, offset, None
        offset += len(line)


def _blank_matches(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by spaces, so that offsets stay the same."""
    return pattern.sub(lambda match: " " * len(match[0]), text)


def _blank_paths(text: str, paths: Iterable[re.Match[str]]) -> str:
    """Replace paths with a slash by spaces: their parts are no names, though they may look like it."""
    parts: list[str] = []
    end = 0
    for match in paths:
        if "/" in match[1]:
            parts += (text[end : match.start()], " " * len(match[0]))
            end = match.end()
    return "".join([*parts, text[end:]])


def _find_paths(paths: Iterable[re.Match[str]]) -> Iterator[tuple[int, Mention]]:
    for match in paths:
        path = match[1].rstrip("/")
        while path.startswith("./"):
            path = path[2:]
        first = int(match[2] or match[4] or 0)
        last = max(first, int(match[3] or match[5] or first))
        if len(path) >= _MIN_NAME_CHARS and not re.fullmatch(r"[\d.]+\w?|[\d/]+", path):
            yield match.start(), Mention(MentionKind.PATH, path, first, last)


def _find_in_code(span: str, start: int) -> Iterator[tuple[int, Mention]]:
    """Find mentions in a code span: a single word is a name; among several, only words that look like code."""
    yield from _find_commands(span, start)
    is_single = not re.search(r"[\s=,;]", span.strip())
    for match in _CHAIN.finditer(_blank_paths(span, _PATH.finditer(span))):
        name = _NAME_SEPARATORS.sub(".", match[0].removesuffix("()").removesuffix("("))
        if _is_name(name) and (is_single or match[1] or _looks_like_code(name)):
            yield start + match.start(), Mention(MentionKind.SYMBOL, name)
    if _KEY.fullmatch(span.strip()) and not _PATH.fullmatch(span.strip() + "/"):
        yield start, Mention(MentionKind.SETTING, span.strip())
    for match in _VARIABLE.finditer(span):
        yield start + match.start(), Mention(MentionKind.SETTING, match[0])


def _find_in_prose(text: str) -> Iterator[tuple[int, Mention]]:
    for match in _UNUSUAL_CHAIN.finditer(text):
        word = match[0]
        if word.isalpha() and word[1:].islower():
            continue
        name = _NAME_SEPARATORS.sub(".", word.removesuffix("()").removesuffix("("))
        if _is_name(name) and (word.endswith("()") or _looks_like_code(name)):
            yield match.start(), Mention(MentionKind.SYMBOL, name)
    for match in _VARIABLE.finditer(text):
        yield match.start(), Mention(MentionKind.SETTING, match[0])


def _find_commands(text: str, start: int) -> Iterator[tuple[int, Mention]]:
    offset = start
    for line in text.splitlines(keepends=True):
        match = _RUNNERS.match(line.strip())
        if match and match[1] not in _RUNS_ANYTHING and match[2] not in _NON_TARGETS:
            yield offset, Mention(MentionKind.COMMAND, f"{match[1]} {match[2].rstrip('.:')}")
        offset += len(line)


def _is_name(name: str) -> bool:
    """Return True unless a name is too short, or a word of many languages; a member (`Node.type`) may be both."""
    before, _, last = name.rpartition(".")
    if name.startswith("$.") or len(last) < _MIN_MEMBER_CHARS:
        return False
    if len(before) >= _MIN_NAME_CHARS and before.lower() not in _KEYWORDS:
        return len(last) >= _MIN_NAME_CHARS or before[:1].isupper()
    return len(last) >= _MIN_NAME_CHARS and last.lower() not in _KEYWORDS


def _looks_like_code(name: str) -> bool:
    """Return True for snake_case, camelCase and Class.member; dots alone may be a host name."""
    return bool(_MEMBER.match(name)) or any(map(_CODE_NAME.search, name.split(".")))
