r"""Patterns of ignore files, with Git's semantics and in bounded time.

A pattern may come from a repository, so matching never backtracks over more than one wildcard. Git's wildcards allow that:
each `*` of a name may take as little as the text after it needs, and so may each `**` of a path. A pattern becomes a regular
expression whose parts are atomic groups, and the work is at most proportional to pattern × path × depth of the path.

Patterns with the same sign need no order among themselves. So the usual ones (`build/`, `*.log`, `tmp*`) are looked up all at
once, and the rest share a few expressions.

Differences from Git: `?` and classes match characters, where Git matches bytes; limits on the sizes, below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from msgspec import Struct, field

MAX_PATTERN_CHARS = 1_000
"""A longer pattern is not used, and is reported: a path has at most 4,096 characters."""
MAX_IGNORE_FILE_BYTES = 128 * 1024
"""A larger ignore file is not read, and its directory is left out."""

_MAX_EXPRESSION_CHARS = 4_000
"""Pattern characters per regular expression: the interpreter lets no other thread run during a match."""
_NAMED_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_SPECIAL = frozenset("*?[\\")
_CLASS_CHAR = r"(?:\\.|[^\\])"
_CLASS_ITEM = rf"\[:(?P<name>[^\]]*):\]|(?P<first>{_CLASS_CHAR})(?:-(?!\])(?P<last>{_CLASS_CHAR}))?"


@cache
def _token_pattern() -> re.Pattern[str]:
    """Return the pattern of wildcards, a class with its items, or a character, which a backslash may protect. `]` closes no class as its first item."""
    return re.compile(
        r"(?P<stars>\*+)|(?P<any>\?)|\[(?P<negated>[!^]?+)(?P<items>(?>ITEM)(?:(?!\])(?:ITEM))*+)\]"
        r"|(?:\\(?=.)|(?![\[\\]))(?P<char>.)".replace("ITEM", re.sub(r"\?P<\w+>", "?:", _CLASS_ITEM)),
        re.DOTALL,
    )


class BadPattern(ValueError):
    """A pattern that can match nothing. The message completes a sentence that names the pattern."""


class _Pattern(Struct, frozen=True):
    text: str
    expression: str
    """A regular expression for the name or the whole path."""
    negated: bool
    directory_only: bool
    anchored: bool
    """Whether it is compared with the whole path and not with the name alone."""


class _Block(Struct):
    """Consecutive patterns with the same sign; without those for directories only."""

    names: set[str] = field(default_factory=set)
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    name_expressions: list[re.Pattern[str]] = field(default_factory=list)
    path_expressions: list[re.Pattern[str]] = field(default_factory=list)

    def matches(self, path: str, name: str) -> bool:
        return (
            name in self.names
            or (bool(self.suffixes) and name.endswith(self.suffixes))
            or (bool(self.prefixes) and name.startswith(self.prefixes))
            or any(expression.fullmatch(name) for expression in self.name_expressions)
            or any(expression.fullmatch(path) for expression in self.path_expressions)
        )


class IgnorePatterns:
    """The patterns of one ignore file or setting."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.too_long: list[int] = []
        """Line numbers, from 1, of patterns that are too long to be used. Malformed ones are passed over, as Git does."""
        groups: list[tuple[bool, list[_Pattern]]] = []
        for number, line in enumerate(lines, 1):
            try:
                pattern = parse_pattern(line)
            except BadPattern:
                if len(line) > MAX_PATTERN_CHARS:
                    self.too_long.append(number)
                continue
            if pattern is None:
                continue
            if not groups or groups[-1][0] != pattern.negated:
                groups.append((pattern.negated, []))
            groups[-1][1].append(pattern)
        self._blocks = [
            (not negated, _build_block(patterns, directories=False), _build_block(patterns, directories=True))
            for negated, patterns in reversed(groups)
        ]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def decide(self, path: str, *, is_directory: bool) -> bool | None:
        """Return True if the patterns exclude a relative path, False if they include it, None if none matches.

        The directories above it are not considered: whoever walks a tree does not enter an excluded one.
        """
        name = path.rpartition("/")[2]
        for excludes, for_all, for_directories in self._blocks:
            if for_all.matches(path, name) or (is_directory and for_directories.matches(path, name)):
                return excludes
        return None


def parse_pattern(line: str) -> _Pattern | None:
    """Parse one line; None for a blank line or a comment. Raise BadPattern for one that can match nothing."""
    line = line.removesuffix("\r")
    text = line.rstrip(" ")
    if len(text) < len(line) and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "  # a backslash protects it
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    directory_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if len(text) > MAX_PATTERN_CHARS:
        raise BadPattern(f"is longer than {MAX_PATTERN_CHARS:,} characters")
    if not text:
        raise BadPattern("matches nothing")
    return _Pattern(text, _translate(text), negated, directory_only, anchored)


def _build_block(patterns: Sequence[_Pattern], *, directories: bool) -> _Block:
    block = _Block()
    prefixes, suffixes, names, paths = [], [], [], []
    for pattern in patterns:
        text = pattern.text
        if pattern.directory_only is not directories:
            continue
        if pattern.anchored:
            paths.append(pattern.expression)
        elif _SPECIAL.isdisjoint(text):
            block.names.add(text)
        elif text[0] == "*" and _SPECIAL.isdisjoint(text[1:]):
            suffixes.append(text[1:])
        elif text[-1] == "*" and _SPECIAL.isdisjoint(text[:-1]):
            prefixes.append(text[:-1])
        else:
            names.append(pattern.expression)
    block.prefixes, block.suffixes = tuple(prefixes), tuple(suffixes)
    block.name_expressions = _join(names)
    block.path_expressions = _join(paths)
    return block


def _join(expressions: Sequence[str]) -> list[re.Pattern[str]]:
    joined: list[list[str]] = []
    size = _MAX_EXPRESSION_CHARS
    for expression in expressions:
        if size + len(expression) > _MAX_EXPRESSION_CHARS:
            joined.append([])
            size = 0
        joined[-1].append(expression)
        size += len(expression)
    return [re.compile("|".join(group), re.DOTALL) for group in joined]


def _translate(text: str) -> str:
    """Return a regular expression for a pattern. A slash in a class does not separate, and an escaped one does."""
    segments: list[list[re.Match[str]]] = [[]]
    position = 0
    while position < len(text):
        token = _token_pattern().match(text, position)
        if token is None:
            raise BadPattern("has a [ that is not closed" if text[position] == "[" else "ends with a single backslash")
        position = token.end()
        if token["char"] == "/":
            segments.append([])
        else:
            segments[-1].append(token)
    # Between two `**` the first place that fits is as good as any other, so it is never left again. What follows the last
    # `**` must end where the path ends.
    groups: list[list[str]] = [[]]
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        if len(segment) == 1 and segment[0][0].startswith("**"):
            if is_last:
                groups[-1].append(".+")
            elif groups[-1] or len(groups) == 1:
                groups.append([])
        else:
            groups[-1].append(_translate_name(segment))
    first, *others = groups
    if not others:
        return "/".join(first)
    result = "".join(f"{name}/" for name in first)
    for group in others[:-1]:
        result += "(?>(?:[^/]*/)*?" + "".join(f"{name}/" for name in group) + ")"
    return result + "(?:[^/]*/)*?" + "/".join(others[-1])


def _translate_name(tokens: Sequence[re.Match[str]]) -> str:
    """Return an expression for one name. It matches at most one way, so it is atomic as a whole."""
    pieces = [""]
    for token in tokens:
        if token["stars"]:
            pieces.append("")
        elif token["items"]:
            pieces[-1] += _translate_class(token)
        else:
            pieces[-1] += "[^/]" if token["any"] else re.escape(token["char"])
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    last = f"[^/]*{others[-1]}(?![^/])" if others[-1] else "[^/]*+"
    return f"(?>{first}{middle}{last})"


def _translate_class(token: re.Match[str]) -> str:
    inner = ""
    for item in re.finditer(_CLASS_ITEM, token["items"], re.DOTALL):
        if (name := item["name"]) is not None:
            if name not in _NAMED_CLASSES:
                raise BadPattern(f"has the unknown class [:{name}:]")
            inner += _NAMED_CLASSES[name]
            continue
        first, last = item["first"][-1], (item["last"] or "")[-1:]
        inner += re.escape(first)
        if first <= last:
            inner += f"{re.escape(first)}-{re.escape(last)}"
    # A class never matches a slash.
    return f"[^/{inner}]" if token["negated"] else f"(?!/)[{inner}]"
