"""Remove secrets and private passages from text before it is stored.

This is the last step before text from a session is written to disk. Passages marked `<private>` are removed entirely;
secrets are replaced by `[redacted:KIND]` and the text around them is unchanged, so that a note stays readable and still
shows that there was a key, and of which kind. Missing a secret is the worse error, but a rule that removes commit hashes
and identifiers makes notes useless; so a rule needs a known form, context or name, never just a random-looking word.

All rules run on the same text and their spans are merged; then the result is scanned again until nothing matches, so
redaction is idempotent. Markers count as placeholders. Time is linear in the length of the text: no pattern backtracks
over a run it has read (see `detectors`), and the number of rounds is limited.

A value that was recognised once is redacted everywhere, also where it is repeated without the words around it. A redaction function
returns text only, so its result is compared with the original: the unchanged passages between markers are located from the left and from the
right, and a value counts only if both give the same place, which is then the only possible one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field

from lorelog.core.errors import ConfigError
from lorelog.ingest.redaction import detectors
from lorelog.ingest.redaction.assignments import assignment_spans, separated_value_spans
from lorelog.ingest.redaction.values import MARKER, is_placeholder

_MAX_MARKER_CHARS = 64
_MAX_ROUNDS = 8  # real texts need two; the limit is for adversarial ones
_PRIVATE_TAG = re.compile(
    r"(?:<|&lt;|\\u003c)(/?)\s{0,8}private(?:\s(?:[^<>&\\]|&(?!lt;|gt;)|\\(?!u003[ce])){0,1000}+)?(?:>|&gt;|\\u003e)",
    re.IGNORECASE | re.ASCII,
)
_INVISIBLE_CHARACTERS = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_INVISIBLE = re.compile(f"(?<=[!-~])[{_INVISIBLE_CHARACTERS}]+(?=[!-~])|(?<=\n)(?:[+>]{{1,3}} ?)+")
_DATA_URI = re.compile(r";base64,[A-Za-z0-9+/=_-]*+")


class RedactionResult(Struct, frozen=True):
    """A text without its secrets, and the number of replacements by kind."""

    text: str
    kinds: Mapping[str, int] = field(default_factory=dict)


def redact(text: str, patterns: Sequence[str] = ()) -> RedactionResult:
    """Return a text with secrets replaced by `[redacted:KIND]` and private passages by `[private]`.

    `patterns` are additional regular expressions; a group named `secret` limits the replaced part. They are the user's
    own, so nothing protects from one that takes exponential time. Raise ConfigError if one is malformed.
    """
    custom = _compile_patterns(tuple(patterns))
    kinds: Counter[str] = Counter()
    for _ in range(_MAX_ROUNDS):
        text, hidden = _strip_private(text) if "private" in text.lower() else (text, 0)
        spans: list[detectors.SecretSpan] = []
        for pattern in custom:
            group = "secret" if "secret" in pattern.groupindex else 0
            spans += [(*match.span(group), "custom") for match in pattern.finditer(text) if match[group]]
        spans += _visible_spans(text)
        if hidden:
            kinds["private"] += hidden
        replaced = _replace_spans(text, spans, kinds)
        if replaced == text:
            break
        text = replaced
    return RedactionResult(text, dict(kinds))


@lru_cache(maxsize=64)
def _compile_patterns(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"redact.patterns contains '{pattern}', which is not a valid regular expression: {error}",
                hint="use the syntax of Python's re module, and double backslashes in quoted TOML strings",
            ) from error
    return tuple(compiled)


def _strip_private(text: str) -> tuple[str, int]:
    """Remove the text between `<private>` tags, including nested ones; an unclosed tag removes the rest."""
    kept, position, depth, hidden = [], 0, 0, 0
    for tag in _PRIVATE_TAG.finditer(text):
        if tag[1]:
            if depth == 1:
                position = tag.end()
            depth = max(0, depth - 1)
        else:
            if depth == 0:
                kept += [text[position : tag.start()], "[private]"]
                hidden += 1
            depth += 1
    if not hidden:
        return text, 0
    return "".join(kept if depth else [*kept, text[position:]]), hidden


def _visible_spans(text: str) -> Iterator[detectors.SecretSpan]:
    """Find secrets in a text as it is shown.

    Invisible characters, which chat programs insert, hide no key, and the signs before the lines of a diff or a quotation do not come
    between a value and what is said of it on another line.
    """
    yield from _secret_spans(text)
    has_signs = "\n+" in text or "\n>" in text
    if not has_signs and (text.isascii() or not any(character in text for character in _INVISIBLE_CHARACTERS)):
        return
    kept, lengths, removed = [], [], []  # positions in the visible text, and the characters removed up to there
    position = length = 0
    for gap in _INVISIBLE.finditer(text):
        kept.append(text[position : gap.start()])
        length += gap.start() - position
        position = gap.end()
        lengths.append(length)
        removed.append(position - length)
    for start, end, kind in _secret_spans("".join([*kept, text[position:]])) if removed else ():
        before, inside = bisect_right(lengths, start), bisect_left(lengths, end)
        yield start + (removed[before - 1] if before else 0), end + (removed[inside - 1] if inside else 0), kind


def _secret_spans(text: str) -> Iterator[detectors.SecretSpan]:
    lowered = text.replace("İ", "i").lower()  # the only letter whose lower case is longer: offsets must agree
    words = detectors.distinct_words(lowered)
    present = detectors.present_words(lowered, words)
    yield from detectors.private_key_spans(text)
    yield from _skip_data_uris(text, detectors.vendor_spans(text))
    yield from detectors.header_spans(text, lowered)
    yield from detectors.cookie_spans(text, lowered)
    yield from detectors.command_spans(text, lowered, present)
    yield from detectors.context_spans(text, lowered, words, present)
    yield from _skip_data_uris(text, assignment_spans(text, lowered))
    yield from _skip_data_uris(text, separated_value_spans(text, lowered))
    yield from _skip_data_uris(text, detectors.context_spans(text, lowered, words, present, wide=True))


def _skip_data_uris(text: str, spans: Iterator[detectors.SecretSpan]) -> Iterator[detectors.SecretSpan]:
    """Drop spans inside data URIs: encoded images contain every short sequence of letters sooner or later."""
    if ";base64," not in text:
        yield from spans
        return
    uris = [match.span() for match in _DATA_URI.finditer(text)]
    for start, end, kind in spans:
        index = bisect_right(uris, (start, len(text))) - 1
        if index < 0 or uris[index][1] <= start:
            yield start, end, kind


def _replace_spans(text: str, spans: list[detectors.SecretSpan], kinds: Counter[str]) -> str:
    """Replace each group of overlapping spans by one marker; the first rule determines its kind."""
    if not spans:
        return text
    markers = [match.span() for match in MARKER.finditer(text)]
    kept, position = [], 0
    merged: list[tuple[int, int, int]] = []  # each with the lowest rank among its parts
    for start, end, rank in sorted((start, end, rank) for rank, (start, end, _) in enumerate(spans)):
        if merged and start < merged[-1][1]:
            first, last, lowest = merged.pop()
            merged.append((first, max(last, end), min(lowest, rank)))
        else:
            merged.append((start, end, rank))
    for start, end, rank in merged:
        nearby = markers[bisect_left(markers, (start - _MAX_MARKER_CHARS, 0)) : bisect_left(markers, (end, 0))]
        cut = any(low < start < high or low < end < high for low, high in nearby)
        if cut or not MARKER.sub("", text[start:end]).strip():
            continue
        kind = spans[rank][2]
        kept += [text[position:start], f"[redacted:{kind}]"]
        kinds[kind] += 1
        position = end
    return "".join([*kept, text[position:]])


RedactText = Callable[[str], str]

_MIN_CHARS = 6
_MIN_WORD_CHARS = 8
"""A shorter value of letters only or digits only is a word or a number that may stand anywhere."""
_MIN_PART_CHARS = 16
"""A value of this length is removed from the middle of longer words too."""


def known_value_redactor(texts: Iterable[str], redact: RedactText, known: dict[str, str] | None = None) -> RedactText:
    """Return a function that redacts as `redact` does, and also every secret that `redact` finds in the texts.

    `known` are secrets found before, with their markers; those that are no plain word are added to it.
    """
    values = dict(known or {})
    for text in texts:
        redacted = redact(text)
        if redacted != text:
            values.update(removed_values(text, redacted))
    if known is not None:
        words = {value for value in values if value.isalpha() and len(value) < _MIN_PART_CHARS}
        known.update((value, marker) for value, marker in values.items() if value not in words)
    if not values:
        return redact
    patterns = []
    for value in sorted(values, key=lambda value: -len(value)):
        edges = (r"\b" if letter.isalnum() or letter == "_" else "" for letter in (value[0], value[-1]))
        before, after = edges if len(value) < _MIN_PART_CHARS else ("", "")
        patterns.append(f"{before}{re.escape(value)}{after}")
    pattern = re.compile("|".join(patterns))
    return lambda text: redact(pattern.sub(lambda match: values[match[0]], text))


def removed_values(text: str, redacted: str) -> Iterator[tuple[str, str]]:
    """Yield the secrets that redaction removed from a text, each with its marker."""
    markers = list(MARKER.finditer(redacted))
    ends = [0, *(marker.end() for marker in markers)]
    starts = [*(marker.start() for marker in markers), len(redacted)]
    passages = [redacted[end:start] for end, start in zip(ends, starts, strict=True)]
    left = _locate(text, passages)
    mirrored = _locate(text[::-1], [passage[::-1] for passage in reversed(passages)])
    if left is None or mirrored is None:
        return
    right = [len(text) - at - len(passage) for at, passage in zip(reversed(mirrored), passages, strict=True)]
    for index, marker in enumerate(markers):
        start, end = left[index] + len(passages[index]), left[index + 1]
        if left[index : index + 2] == right[index : index + 2] and marker[0] != "[private]":
            value = text[start:end].strip("\"'`")
            if _is_distinctive(value):
                yield value, marker[0]


def _locate(text: str, passages: list[str]) -> list[int] | None:
    """Return the first possible position of each passage, the last one at the end; None if they do not fit."""
    positions: list[int] = []
    position = 0
    for passage in passages[:-1]:
        found = text.find(passage, position) if positions else (0 if text.startswith(passage) else -1)
        if found < 0:
            return None
        positions.append(found)
        position = found + len(passage)
    last = len(text) - len(passages[-1])
    return [*positions, last] if last >= position and text.endswith(passages[-1]) else None


def _is_distinctive(value: str) -> bool:
    """Return True if a value is too unusual to stand in a text with another meaning."""
    if len(value) < _MIN_CHARS or any(character.isspace() for character in value) or MARKER.search(value):
        return False
    if (value.isdigit() or not any(character.isdigit() for character in value)) and len(value) < _MIN_WORD_CHARS:
        return False
    return not is_placeholder(value)
