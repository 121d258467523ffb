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
from lorelog.retrieval.knapsack import MAX_HITS_PACKED, HitOffer, SectionOffer, choose_forms, hit_points
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memories.listing import read_current_text
from lorelog.services.places.roots import Root


def pack_hits(reply: SearchReply, budget: int, store: Store) -> SearchReply:
    """Return the reply with the hits that fit, each in the form the budget allows, and the dropped ones.

    The token costs of the hits must be known (`add_token_costs`).
    """
    if budget < 0:
        raise UsageError(f"the token budget must not be negative (got {budget})", hint="0 turns the budget off")
    hits = reply.hits
    sections, homes = _find_sections(hits, store)
    offers: list[HitOffer] = []
    for value, hit, home in zip(hit_points([hit.score for hit in hits]), hits, homes, strict=True):
        location = f"{hit.source}:{hit.start_line}-{hit.end_line}"
        labels = f"{hit.date}  {hit.type} {' '.join(f'#{tag}' for tag in hit.tags)}  {hit.id}"
        others = (f"also in {other}" for other in hit.duplicates)
        head = [f"10.  {hit.score:.3f}  {location}  {labels}", " > ".join(hit.heading_path), *others, ""]
        is_section = home is not None and sections[home].lines == (hit.start_line, hit.end_line)
        chunk = None if is_section else estimate_tokens(hit.content)
        offers.append(HitOffer(value, estimate_tokens("\n".join(head)), hit.tokens, chunk, home))
    sizes = {number: section.lines[1] - section.lines[0] for number, section in enumerate(sections)}
    around = [[number for number, outer in enumerate(sections) if outer.holds(section)] for section in sections]
    plan = choose_forms(
        offers,
        [
            SectionOffer(section.tokens, min(outer, key=sizes.__getitem__, default=None))
            for section, outer in zip(sections, around, strict=True)
        ],
        budget,
    )
    shown: list[Hit] = []
    dropped: list[DroppedHit] = []
    first: dict[int, str] = {}
    for number, (hit, offer, choice) in enumerate(zip(hits, offers, plan.choices, strict=True)):
        lines, within = (hit.start_line, hit.end_line), ""
        if choice is None:
            least = offer.citation + min(offer.snippet, offer.chunk or offer.snippet)
            reason = "it is larger than the budget" if least > budget else "the budget was used by other hits"
            if number >= MAX_HITS_PACKED:
                reason = f"only the best {MAX_HITS_PACKED} hits are considered"
            dropped.append(DroppedHit(hit.id, hit.source, *lines, least, reason))
            continue
        text, cost = (hit.content, offer.chunk or 0) if choice.form is HitForm.CHUNK else (hit.snippet, offer.snippet)
        if choice.section is not None:
            section, holder = sections[choice.section], first.setdefault(choice.section, hit.id)
            lines, within = section.lines, "" if holder == hit.id else holder
            text, cost = ("", 0) if within else (section.text, section.tokens)
        shown.append(replace(hit, packed=PackedHit(choice.form, text, offer.citation + cost, *lines, within)))
    notes = list(reply.notes)
    if dropped and not shown:
        shortest = min(hit.tokens for hit in dropped)
        notes.append(f"no hit fits into {budget:,} tokens: the shortest needs {shortest:,}")
    packing = BudgetReport(budget, plan.tokens, tuple(dropped))
    return replace(reply, hits=tuple(shown), notes=tuple(notes), packing=packing)


class _SectionText(Struct, frozen=True):
    source: str
    lines: tuple[int, int]
    """The first and the last one."""
    text: str
    tokens: int

    def holds(self, other: _SectionText) -> bool:
        inside = self.lines[0] <= other.lines[0] and other.lines[1] <= self.lines[1]
        return self != other and self.source == other.source and inside


def _find_sections(hits: Sequence[Hit], store: Store) -> tuple[list[_SectionText], list[int | None]]:
    """Return the distinct sections around the hits, in the order of their best hit, and each hit's index among them."""
    sections: dict[str, _SectionText] = {}
    for source in dict.fromkeys(hit.source for hit in hits):
        sections |= _read_sections(source, [hit for hit in hits if hit.source == source], store)
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
        outline = outline or read_outline(text, source=source, max_headings=heading_limit(source))
        start, end = outline_section_bounds(outline, hit.start_line, hit.heading_level)
        content = "\n".join(outline.lines[start - 1 : end])
        yield hit.id, _SectionText(source, (start, end), content, estimate_tokens(content))
