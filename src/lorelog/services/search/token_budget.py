"""Fit the best hits into a token budget: collect the forms each hit could be shown in, and apply the chosen ones.

Sections are read from the files exactly as `expand` reads them. If a file has changed, is gone or leads elsewhere, the indexed chunk
is the largest form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import UsageError
from lorelog.core.ports import Store
from lorelog.core.query import BudgetReport, DroppedHit, Hit, HitForm, PackedHit, SearchReply
from lorelog.ingest.outline import heading_limit, outline_section_bounds, read_outline
from lorelog.retrieval.knapsack import MAX_HITS_PACKED, FormChoice, HitOffer, SectionOffer, choose_forms, hit_points
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memories.listing import read_current_text
from lorelog.services.places.roots import Root
from lorelog.services.search.postprocess import group_by_source


def pack_hits(reply: SearchReply, budget: int, store: Store) -> SearchReply:
    """Return the reply with the hits that fit, each in the form the budget allows, and the dropped ones.

    The token costs of the hits must be known (`add_token_costs`).
    """
    if budget < 0:
        raise UsageError(f"the token budget must not be negative (got {budget})", hint="0 turns the budget off")
    sections, homes = _find_sections(reply.hits, store)
    points = hit_points([hit.score for hit in reply.hits])
    offers = [
        HitOffer(value, _citation_tokens(hit), hit.tokens, _chunk_tokens(hit, sections, home), home)
        for value, hit, home in zip(points, reply.hits, homes, strict=True)
    ]
    plan = choose_forms(
        offers, [SectionOffer(section.tokens, _find_parent_section(section, sections)) for section in sections], budget
    )
    shown: list[Hit] = []
    dropped: list[DroppedHit] = []
    first: dict[int, str] = {}
    for number, (hit, offer, choice) in enumerate(zip(reply.hits, offers, plan.choices, strict=True)):
        if choice is None:
            dropped.append(_make_dropped(number, hit, offer, budget))
        elif choice.section is None:
            shown.append(replace(hit, packed=_pack_alone(hit, offer, choice)))
        else:
            within = first.setdefault(choice.section, hit.id)
            packed = sections[choice.section].pack(offer.citation, "" if within == hit.id else within)
            shown.append(replace(hit, packed=packed))
    notes = list(reply.notes)
    if dropped and not shown:
        shortest = min(hit.tokens for hit in dropped)
        notes.append(f"no hit fits into {budget:,} tokens: the shortest needs {shortest:,}")
    packing = BudgetReport(budget, plan.tokens, tuple(dropped))
    return replace(reply, hits=tuple(shown), notes=tuple(notes), packing=packing)


class _SectionText(Struct, frozen=True):
    """The current text of a section."""

    source: str
    start: int
    end: int
    text: str
    tokens: int

    def holds(self, other: _SectionText) -> bool:
        return self != other and self.source == other.source and self.start <= other.start and other.end <= self.end

    def pack(self, citation: int, within: str) -> PackedHit:
        text, cost = ("", citation) if within else (self.text, citation + self.tokens)
        return PackedHit(HitForm.SECTION, text, cost, self.start, self.end, within)


def _find_sections(hits: Sequence[Hit], store: Store) -> tuple[list[_SectionText], list[int | None]]:
    """Return the distinct sections around the hits, in the order of their best hit, and each hit's index among them."""
    sections: dict[str, _SectionText] = {}
    for source, of_source in group_by_source(hits).items():
        sections |= _read_sections(source, of_source, store)
    distinct = list(dict.fromkeys(sections[hit.id] for hit in hits if hit.id in sections))
    numbers = {section: number for number, section in enumerate(distinct)}
    return distinct, [numbers[sections[hit.id]] if hit.id in sections else None for hit in hits]


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
        outline = outline or read_outline(text, max_headings=heading_limit(source))
        start, end = outline_section_bounds(outline, hit.start_line, hit.heading_level)
        content = "\n".join(outline.lines[start - 1 : end])
        yield hit.id, _SectionText(source, start, end, content, estimate_tokens(content))


def _find_parent_section(section: _SectionText, sections: Sequence[_SectionText]) -> int | None:
    """Return the index of the smallest section around a section."""
    outer = [number for number, other in enumerate(sections) if other.holds(section)]
    return min(outer, key=lambda number: sections[number].end - sections[number].start, default=None)


def _chunk_tokens(hit: Hit, sections: Sequence[_SectionText], home: int | None) -> int | None:
    """Return the cost of a chunk; None if it is its whole section."""
    if home is not None and (sections[home].start, sections[home].end) == (hit.start_line, hit.end_line):
        return None
    return estimate_tokens(hit.content)


def _citation_tokens(hit: Hit) -> int:
    """Return the cost of a hit's title and location, which every form includes."""
    location = f"{hit.source}:{hit.start_line}-{hit.end_line}"
    head = (
        f"10.  {hit.score:.3f}  {location}  {hit.date}  {hit.type} {' '.join(f'#{tag}' for tag in hit.tags)}  {hit.id}"
    )
    others = (f"also in {other}" for other in hit.duplicates)
    return estimate_tokens("\n".join([head, " > ".join(hit.heading_path), *others, ""]))


def _pack_alone(hit: Hit, offer: HitOffer, choice: FormChoice) -> PackedHit:
    text, cost = (hit.content, offer.chunk or 0) if choice.form is HitForm.CHUNK else (hit.snippet, offer.snippet)
    return PackedHit(choice.form, text, offer.citation + cost, hit.start_line, hit.end_line)


def _make_dropped(number: int, hit: Hit, offer: HitOffer, budget: int) -> DroppedHit:
    min_tokens = offer.citation + min(offer.snippet, offer.chunk or offer.snippet)
    if number >= MAX_HITS_PACKED:
        reason = f"only the best {MAX_HITS_PACKED} hits are considered"
    else:
        reason = "it is larger than the budget" if min_tokens > budget else "the budget was used by other hits"
    return DroppedHit(hit.id, hit.source, hit.start_line, hit.end_line, min_tokens, reason)
