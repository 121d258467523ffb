"""Cuts the passage of a chunk that shows the match, on one line, with the matching words marked.

The window is the stretch of text with the most different terms of the query, then the most matches, then the first.
Words are compared by the analyser that indexed them, so the marks are the actual matches, stems and parts of
identifiers included. The heading is left out if the text below it matches, since a hit shows its heading anyway. Of the
note of a turn, the outcome is preferred to the request, and both to the lists of files, commands and errors, if it has
half of the matching words: a reader wants to know what came of it. One pass over the tokens and one over the matches
for each of these parts: linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from lorelog.core.query import Term
from lorelog.language.analyser import TokenSpan, WordAnalyser, find_humps, find_names, is_unspaced

SNIPPET_WIDTH = 240
ELLIPSIS = "…"
_OUTCOME_LABEL = "- Outcome:"
_LIST_LABELS = ("- Files:", "- Commands:", "- Errors:", "- Ended:")
"""Labels of the bullets that a captured note has; see `ingest.transcripts.turn_note`."""
_MIN_TERM_SHARE = 0.5
"""A part of a note is shown alone if it has at least this share of the matching terms."""


class Snippet(Struct, frozen=True):
    """One line of text, and the spans of it (start, end) that match words of the query."""

    text: str
    matches: tuple[tuple[int, int], ...] = ()


class _Match(Struct, frozen=True):
    start: int
    end: int
    terms: frozenset[str]


def cut_snippet(
    text: str,
    terms: Iterable[Term],
    analyser: WordAnalyser,
    width: int = SNIPPET_WIDTH,
    *,
    words: Sequence[str] | None = None,
) -> Snippet:
    """Return at most `width` characters of a chunk around its best matches, with ellipses at the cuts.

    `words` are those of the text, and perhaps of headings above it, if the caller has analysed them.
    """
    wanted = frozenset(term.text for term in terms)
    if words is not None and wanted.isdisjoint(words):
        wanted = frozenset()
    heading, body = _split_heading(text)
    line, matches = _choose_part(body, wanted, analyser)
    if not matches and heading:
        titled = f"{heading} {line}"
        matches = _find_matches(titled, wanted, analyser)
        line = titled if matches else line
    start, end = _choose_window(line, matches, max(width, 1))
    before = ELLIPSIS if start > 0 else ""
    after = ELLIPSIS if end < len(line) else ""
    inside = (match for match in matches if match.start >= start and match.end <= end)
    return Snippet(f"{before}{line[start:end]}{after}", _merge(inside, len(before) - start))


def _split_heading(text: str) -> tuple[str, str]:
    text = text.strip()
    first, _, rest = text.partition("\n")
    heading = first.lstrip("#")
    if not 1 <= len(first) - len(heading) <= 6 or not heading[:1].isspace():
        return "", text
    title = " ".join(heading.split())
    return (title, rest) if rest.strip() else ("", title)


def _choose_part(text: str, wanted: frozenset[str], analyser: WordAnalyser) -> tuple[str, list[_Match]]:
    """Return the part of a text to cut from, on one line, and its matches: the outcome of a note if it has enough."""
    whole = " ".join(text.split())
    if not wanted and _OUTCOME_LABEL not in text:
        return whole, []
    matches = _find_matches(whole, wanted, analyser)
    enough = _MIN_TERM_SHARE * len({term for match in matches for term in match.terms})
    for part in _note_parts(text):
        found = _find_matches(part, wanted, analyser)
        if len({term for match in found for term in match.terms}) >= enough:
            return part, found
    return whole, matches


def _note_parts(text: str) -> Iterator[str]:
    """Yield the parts of a turn's note that are worth showing alone, the best first; nothing for other text."""
    if _OUTCOME_LABEL not in text:
        return
    prose: list[str] = []
    outcome: list[str] = []
    label = ""
    for line in text.split("\n"):
        if line.startswith("- "):
            label = next((name for name in (_OUTCOME_LABEL, *_LIST_LABELS) if line.startswith(name)), "")
        if label not in _LIST_LABELS:
            prose.append(line)
        if label == _OUTCOME_LABEL:
            outcome.append(line)
    for lines in (outcome, prose):
        yield " ".join(" ".join(lines).split())


def _find_matches(line: str, wanted: frozenset[str], analyser: WordAnalyser) -> list[_Match]:
    if not wanted:
        return []
    return [match for span in analyser.matching_spans(line, wanted) for match in _locate(line, span, wanted, analyser)]


def _locate(line: str, span: TokenSpan, wanted: frozenset[str], analyser: WordAnalyser) -> list[_Match]:
    """Return the matching parts of a token; the whole token if it matches as a whole or no smaller part does."""
    token = line[span.start : span.end]
    parts: list[_Match] = []
    if is_unspaced(token):
        parts = list(_match_pairs(token, wanted, span.start))
    elif span.words[0] not in wanted:
        parts = _join_parts(line, _match_names(token, wanted, span.start, analyser))
    return parts or [_Match(span.start, span.end, wanted.intersection(span.words))]


def _join_parts(line: str, parts: Iterable[_Match]) -> list[_Match]:
    """Return the parts of a compound, with parts joined if only its punctuation separates them."""
    joined: list[_Match] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and line[last.end : part.start] in {"", "_", "-", ".", "/", ":", "::"}:
            joined[-1] = _Match(last.start, part.end, last.terms | part.terms)
        else:
            joined.append(part)
    return joined


def _match_pairs(run: str, wanted: frozenset[str], offset: int) -> Iterator[_Match]:
    for start in range(len(run)):
        if run[start] in wanted:
            yield _Match(offset + start, offset + start + 1, frozenset(run[start]))
        pair = run[start : start + 2]
        if pair in wanted and len(pair) == 2:
            yield _Match(offset + start, offset + start + 2, frozenset((pair,)))


def _match_names(token: str, wanted: frozenset[str], offset: int, analyser: WordAnalyser) -> Iterator[_Match]:
    for start, end in find_names(token):
        name = token[start:end]
        whole = wanted.intersection(analyser.words(name)[:1])
        for first, last in [(0, len(name))] if whole else find_humps(name):
            terms = wanted.intersection(analyser.words(name[first:last]))
            if terms:
                yield _Match(offset + start + first, offset + start + last, terms)


def _merge(matches: Iterable[_Match], shift: int) -> tuple[tuple[int, int], ...]:
    """Return the spans, moved by `shift`, with touching spans merged."""
    merged: list[tuple[int, int]] = []
    for match in matches:
        start, end = match.start + shift, match.end + shift
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _choose_window(line: str, matches: Sequence[_Match], width: int) -> tuple[int, int]:
    """Return where to cut: around the best matches, at white space if possible, but never into them."""
    if len(line) <= width:
        return 0, len(line)
    first, last = _best_stretch(matches, width)
    start = max(first - max(width - (last - first), 0) // 3, 0)
    end = min(start + width, len(line))
    start, last = max(end - width, 0), min(last, end)
    if start > 0 and not line[start - 1].isspace():
        start = line.find(" ", start, first) + 1 or start
    if end < len(line) and not line[end].isspace():
        space = line.rfind(" ", last, end)
        end = space if space >= 0 else end
    while start < first and line[start].isspace():
        start += 1
    while end > last and line[end - 1].isspace():
        end -= 1
    return start, end


def _best_stretch(matches: Sequence[_Match], width: int) -> tuple[int, int]:
    """Return the span, at most `width` wide, from the first to the last match of the best window."""
    best, best_value = (0, 0), (0, 0)
    counts: dict[str, int] = {}
    left = 0
    for right, match in enumerate(matches):
        for term in match.terms:
            counts[term] = counts.get(term, 0) + 1
        while left < right and matches[left].start < match.end - width:
            for term in matches[left].terms:
                counts[term] -= 1
                if not counts[term]:
                    del counts[term]
            left += 1
        value = (len(counts), right - left + 1)
        if value > best_value:
            best, best_value = (matches[left].start, min(match.end, matches[left].start + width)), value
    return best
