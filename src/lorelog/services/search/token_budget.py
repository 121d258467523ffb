"""Fit hits into a token budget, in the order of their rank.

Each hit is shown as large as its share of the budget allows: a whole section, its chunk, or a passage around the matches. Sections are
read from the files exactly as `expand` reads them. If a file has changed, is gone or leads elsewhere, the indexed chunk is the largest form.

What a question resembles is often the turn in which a problem was described, and not the one in which it was settled. So the last turn of
a conversation is shown before the one that was found, and the files that the conversations changed stand first: they cost least.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import TURN_TYPE, without_anchors
from lorelog.core.ports import Store
from lorelog.core.query import FILES_LABEL, BudgetReport, DroppedHit, Hit, HitForm, PackedHit, SearchReply
from lorelog.core.record import FOREIGN_ORIGINS, UNTRUSTED_ORIGINS
from lorelog.ingest.outline import heading_limit, outline_section_bounds, read_outline
from lorelog.light.delivery_files import quote_label
from lorelog.light.session_start import parse_note
from lorelog.retrieval.dedupe import without_clock
from lorelog.retrieval.snippet import Snippet
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memories.listing import read_current_text
from lorelog.services.places.roots import Root

_FILES_SHARE, _MAX_FILES = 3, 6
"""The line of files takes at most this part of the budget, and not the room of the first hit's snippet."""
_ALWAYS_ALLOWED = 150
"""A hit takes at most half of the tokens that are left, so that others are seen, but so many it may take: a decision is no longer."""
_CHARS_PER_TOKEN, _MIN_CHARS = 4, 120
"""Code and names take more tokens than prose: a passage that is too large is cut again. Less than so many characters say nothing."""

CutPassage = Callable[[str, int], Snippet]
"""Returns the passage of a text around the matches, of at most so many characters."""
FindLastTurn = Callable[[Hit], Hit | None]
"""Returns the last turn of a hit's conversation, if it may be shown beside the hit."""


def with_last_turns(hits: Sequence[Hit], find_last: FindLastTurn) -> tuple[Hit, ...]:
    """Return the hits, and before the first one of each conversation its last turn."""
    shown: dict[str, Hit] = {}
    sessions: set[str] = set()
    for hit in hits:
        session = hit.anchor.session if hit.anchor is not None and hit.type == TURN_TYPE else ""
        if session and session not in sessions and (last := find_last(hit)):
            shown.setdefault(last.id, last)
        sessions.add(session)
        shown.setdefault(hit.id, hit)
    return tuple(shown.values())


def pack_hits(reply: SearchReply, budget: int, store: Store, cut: CutPassage, *, lists_files: bool) -> SearchReply:
    """Return the reply with the hits that fit, each in the form the budget allows, and the dropped ones.

    Without a list of files it is for a hook, whose quotes have less around them.
    """
    sections: dict[str, _SectionText] = {}
    for source in {hit.source for hit in reply.hits}:
        sections |= _read_sections(source, [hit for hit in reply.hits if hit.source == source], store)
    cite = _citation_tokens if lists_files else lambda hit: estimate_tokens(quote_label(hit.date, hit.source, hit.id))
    first = min((cite(hit) + hit.tokens for hit in reply.hits[:1]), default=0)
    most = min(budget // _FILES_SHARE, budget - first) if lists_files else 0
    files = _changed_files(reply.hits, sections, most)
    packer = _Packer(sections, cut, budget - _cost_of_files(files), cite)
    shown: list[Hit] = []
    dropped: list[DroppedHit] = []
    needs = [cite(hit) + min(hit.tokens, estimate_tokens(hit.content)) for hit in reply.hits]
    for number, (hit, least) in enumerate(zip(reply.hits, needs, strict=True), 1):
        packed = packer.pack(hit, min(needs[number:], default=budget))
        if packed is None:
            reason = "it is larger than the budget" if least > budget else "the budget was used by other hits"
            dropped.append(DroppedHit(hit.id, hit.source, hit.start_line, hit.end_line, least, reason))
        else:
            shown.append(replace(hit, packed=packed))
    notes = reply.notes
    if dropped and not shown:
        notes += (f"no hit fits into {budget:,} tokens: the shortest needs {min(needs):,}",)
    files = files if shown else ()
    spent = _cost_of_files(files) + sum(hit.packed.tokens for hit in shown if hit.packed)
    return replace(reply, hits=tuple(shown), notes=notes, packing=BudgetReport(budget, spent, tuple(dropped), files))


class _SectionText(Struct, frozen=True):
    source: str
    lines: tuple[int, int]
    """The first and the last one."""
    text: str
    tokens: int

    def includes(self, other: _SectionText) -> bool:
        return self.source == other.source and self.lines[0] <= other.lines[0] and other.lines[1] <= self.lines[1]


class _Packer:
    """What is left of a budget while hits are packed, and the sections that are shown whole."""

    def __init__(
        self, sections: Mapping[str, _SectionText], cut: CutPassage, left: int, cite: Callable[[Hit], int]
    ) -> None:
        self._sections, self._cut, self._left, self._cite = sections, cut, left, cite
        self._opened: dict[_SectionText, str] = {}
        """Each with the id of the hit that it is shown for."""

    def pack(self, hit: Hit, least_of_others: int) -> PackedHit | None:
        """Return the largest form of a hit that may be shown; None if there is no room. What no other hit can use is for this one."""
        citation = self._cite(hit)
        room = self._left - citation
        if room < 0:
            return None
        limit = max(room // 2, min(room, _ALWAYS_ALLOWED))
        limit = room if room - limit < least_of_others else limit
        packed = next(self._forms(hit, citation, limit, room), None)
        self._left -= packed.tokens if packed else 0
        return packed

    def _forms(self, hit: Hit, citation: int, limit: int, room: int) -> Iterator[PackedHit]:
        """Yield the forms of a hit that cost no more than the limit, the largest first; the snippet may take all there is."""
        own, lines = self._sections.get(hit.id), (hit.start_line, hit.end_line)
        if own is not None:
            for shown, holder in self._opened.items():
                if shown.includes(own):
                    yield PackedHit(HitForm.SECTION, "", citation, *shown.lines, holder)
            around = {section for section in self._sections.values() if section.includes(own)}
            for section in sorted(around, key=lambda each: -each.tokens):
                if section.tokens <= limit and not any(section.includes(shown) for shown in self._opened):
                    self._opened[section] = hit.id
                    yield PackedHit(HitForm.SECTION, section.text, citation + section.tokens, *section.lines)
        content = _bare(hit, hit.content)
        if (tokens := estimate_tokens(content)) <= limit:
            yield PackedHit(HitForm.CHUNK, content, citation + tokens, *lines)
        width = limit * _CHARS_PER_TOKEN
        while width >= _MIN_CHARS:
            text = self._cut(content, width).text
            if (tokens := estimate_tokens(text)) <= limit:
                yield PackedHit(HitForm.SNIPPET, text, citation + tokens, *lines)
                break
            width = min(width - 1, len(text) * limit // tokens)
        if (tokens := estimate_tokens(hit.snippet)) <= room:
            yield PackedHit(HitForm.SNIPPET, hit.snippet, citation + tokens, *lines)


def _bare(hit: Hit, text: str) -> str:
    """Return a text without what the lines around it say: where an entry is from, and when it was written."""
    return without_clock(without_anchors(text)).lstrip("\n") if hit.anchor is not None else text


def _citation_tokens(hit: Hit) -> int:
    """Return what a hit costs beside its text."""
    location = f"{hit.shown_source}:{hit.start_line}-{hit.end_line}"
    labels = f"{hit.date}  {hit.type} {' '.join(f'#{tag}' for tag in hit.tags)}  {hit.id}"
    others = (f"also in {other}" for other in hit.duplicates)
    heading = "" if " ".join(hit.heading_path) == hit.date.replace("T", " ") else " > ".join(hit.heading_path)
    return estimate_tokens("\n".join([f"10.  {hit.score:.3f}  {location}  {labels}", heading, *others, ""]))


def _changed_files(hits: Iterable[Hit], sections: Mapping[str, _SectionText], most: int) -> tuple[str, ...]:
    """Return the project's files that notes of the user's own conversations list, within so many tokens.

    Conversations take turns, the best first, each with its files in folders before those beside them, which are often scripts to try something.
    """
    listed: dict[str, dict[str, None]] = defaultdict(dict)
    for hit in hits:
        if hit.type == TURN_TYPE and hit.origin not in {*FOREIGN_ORIGINS, *UNTRUSTED_ORIGINS}:
            text = sections[hit.id].text if hit.id in sections else hit.content
            names = ", ".join(parse_note(text.splitlines())["files"]).split(", ")
            session = hit.anchor.session if hit.anchor is not None else ""
            listed[session] |= dict.fromkeys(name for name in names if name and name[0] not in "/~")
    turns = zip_longest(*(sorted(names, key=lambda name: "/" not in name) for names in listed.values()))
    files: tuple[str, ...] = ()
    for file in dict.fromkeys(file for turn in turns for file in turn if file):
        if _cost_of_files((*files, file)) > most or len(files) == _MAX_FILES:
            break
        files += (file,)
    return files


def _cost_of_files(files: Sequence[str]) -> int:
    return estimate_tokens(FILES_LABEL + ", ".join(files)) if files else 0


def _read_sections(source: str, hits: Sequence[Hit], store: Store) -> Iterator[tuple[str, _SectionText]]:
    """Yield the section of each hit of a file, by the hit's id; none for a hit whose lines are gone."""
    document = store.document(source)
    if document is None:
        return
    outline = None
    for hit in hits:
        text, _ = read_current_text(hit, Root(document.root, document.project), document.file_hash)
        if text is None:
            continue
        outline = outline or read_outline(text, source=source, max_headings=heading_limit(source))
        start, end = outline_section_bounds(outline, hit.start_line, hit.heading_level)
        content = _bare(hit, "\n".join(outline.lines[start - 1 : end]))
        yield hit.id, _SectionText(source, (start, end), content, estimate_tokens(content))
