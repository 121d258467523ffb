"""Redaction: what a conversation says that must not be written down a second time.

Responsible for the last step before anything of a session reaches a file of ours: what a person marked `<private>` goes
as a whole, secrets are replaced by `[redacted:KIND]` and nothing around them is touched, so that a note stays readable
and still says that there was a key and whose. Missing a secret is the worse error, but a rule that eats commit hashes and
identifiers makes notes useless, so a rule must know a form, a place or a name; a random-looking word alone is not enough.

All rules look at the same text and their spans are joined; then everything is looked at again until nothing is found,
so that redacting twice changes nothing. What was replaced counts as a placeholder. Time grows with the length of the text:
the patterns never go back over a run they have read (see redact_rules), and the rounds are limited.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lorelog.core.errors import ConfigError
from lorelog.ingest.redact_given import given_to_names, given_to_programs
from lorelog.ingest.redact_names import assigned_secrets
from lorelog.ingest.redact_places import (
    Span,
    commands,
    cookies,
    headers,
    password_files,
    private_keys,
    url_credentials,
)
from lorelog.ingest.redact_rules import rules_for
from lorelog.ingest.redact_values import MARKER, is_placeholder, looks_random

_MARKER_MOST = 64
_ROUNDS = 8  # texts settle in two; the rest is for whoever builds one that does not
_PRIVATE = re.compile(
    r"(?:<|&lt;|\\u003c)(/?)\s{0,8}private(?:\s[^<>]{0,1000})?(?:>|&gt;|\\u003e)", re.IGNORECASE | re.ASCII
)
_DATA_URI = re.compile(r";base64,[A-Za-z0-9+/=_-]*+")


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many of each kind were taken out."""

    text: str
    kinds: Mapping[str, int] = field(default_factory=dict)


def redact(text: str, patterns: Sequence[str] = ()) -> Redacted:
    """Return a text with every secret replaced by `[redacted:KIND]` and what is marked private by `[private]`.

    `patterns` are further regular expressions; a group named `secret` says which part is taken out. Nothing protects
    from a pattern that takes exponential time: they are the person's own. Raises ConfigError for one that is malformed.
    """
    own = _compiled(tuple(patterns))
    kinds: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        text, hidden = _without_private(text)
        spans = [*_custom_spans(text, own), *_spans(text)]
        if hidden:
            kinds["private"] += hidden
        replaced = _replace(text, spans, kinds)
        if replaced == text:
            break
        text = replaced
    return Redacted(text, dict(kinds))


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as fault:
            raise ConfigError(
                f"redact.patterns holds '{pattern}', which is no regular expression: {fault}",
                hint="write it as Python's re module reads it, and double backslashes in quoted TOML strings",
            ) from fault
    return tuple(compiled)


def _without_private(text: str) -> tuple[str, int]:
    """Take out what stands between `<private>` tags, nested ones with it; one that is never closed takes the rest."""
    kept, position, depth, hidden = [], 0, 0, 0
    for tag in _PRIVATE.finditer(text):
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


def _custom_spans(text: str, patterns: tuple[re.Pattern[str], ...]) -> Iterator[Span]:
    for pattern in patterns:
        group: str | int = "secret" if "secret" in pattern.groupindex else 0
        for found in pattern.finditer(text):
            start, end = found.span(group)
            if start < end:
                yield start, end, "custom"


def _spans(text: str) -> Iterator[Span]:
    lowered = text.replace("İ", "i").lower()  # the only letter whose small form is longer: positions must agree
    yield from private_keys(text)
    yield from _outside_data(text, _vendor_spans(text))
    yield from url_credentials(text)
    yield from headers(text, lowered)
    yield from cookies(text, lowered)
    yield from commands(text)
    yield from password_files(text, lowered)
    yield from given_to_programs(text)
    yield from _outside_data(text, assigned_secrets(text, lowered))
    yield from _outside_data(text, given_to_names(text))


def _vendor_spans(text: str) -> Iterator[Span]:
    for rule in rules_for(text):
        for found in rule.pattern.finditer(text):
            start, end = found.span("secret" if rule.pattern.groups else 0)
            value = text[start - rule.before : end]
            if not is_placeholder(value) and (not rule.random or looks_random(value, sure=True)):
                yield start - rule.before, end, rule.kind


def _outside_data(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """Leave out spans inside data URIs: pictures hold every short run of letters sooner or later."""
    if ";base64," not in text:
        yield from spans
        return
    held = [found.span() for found in _DATA_URI.finditer(text)]
    for start, end, kind in spans:
        index = bisect_right(held, (start, len(text))) - 1
        if index < 0 or held[index][1] <= start:
            yield start, end, kind


def _replace(text: str, spans: list[Span], kinds: Counter[str]) -> str:
    """Put one marker in the place of each group of spans that overlap; the rule that came first names it."""
    if not spans:
        return text
    markers = [found.span() for found in MARKER.finditer(text)]
    kept, position = [], 0
    for start, end, rank in _joined(spans):
        held = markers[bisect_left(markers, (start - _MARKER_MOST, 0)) : bisect_left(markers, (end, 0))]
        cut = any(low < start < high or low < end < high for low, high in held)
        if cut or not MARKER.sub("", text[start:end]).strip():
            continue
        kind = spans[rank][2]
        kept += [text[position:start], f"[redacted:{kind}]"]
        kinds[kind] += 1
        position = end
    return "".join([*kept, text[position:]])


def _joined(spans: list[Span]) -> list[tuple[int, int, int]]:
    """Overlapping spans as one, with the place in the list of the earliest among them."""
    joined: list[tuple[int, int, int]] = []
    for start, end, rank in sorted((start, end, rank) for rank, (start, end, _) in enumerate(spans)):
        if joined and start < joined[-1][1]:
            before = joined.pop()
            joined.append((before[0], max(before[1], end), min(before[2], rank)))
        else:
            joined.append((start, end, rank))
    return joined
