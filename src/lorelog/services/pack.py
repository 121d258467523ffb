"""The best of the hits under a token budget: gathers what each could be shown as, and carries out what was chosen.

Sections are read from the files exactly as `expand` reads them. Where a file has changed, is gone, or leads elsewhere by now,
the indexed chunk is the most there is to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lorelog.core.errors import UsageError
from lorelog.core.ports import Store
from lorelog.core.query import Dropped, Form, Hit, Packed, Packing, SearchReply
from lorelog.ingest.bounds import bounds_in
from lorelog.ingest.lines import read_outline
from lorelog.retrieval.cost import estimate_tokens
from lorelog.retrieval.pack import MOST_WEIGHED, Choice, Offer, SectionOffer, choose, points_of
from lorelog.services.expand import text_now
from lorelog.services.price import by_source, price
from lorelog.services.roots import Root


def pack(reply: SearchReply, budget: int, store: Store) -> SearchReply:
    """Return the priced answer with the hits that fit, each in the form that the budget allows, and what was left out."""
    if budget < 0:
        raise UsageError(f"a token budget must not be negative: {budget}", hint="0 packs nothing")
    reply = price(reply)
    sections, homes = _sections(reply.hits, store)
    points = points_of([hit.score for hit in reply.hits])
    offers = [
        Offer(worth, _citation(hit), hit.tokens, _chunk_tokens(hit, sections, home), home)
        for worth, hit, home in zip(points, reply.hits, homes, strict=True)
    ]
    plan = choose(offers, [SectionOffer(one.tokens, _parent(one, sections)) for one in sections], budget)
    shown: list[Hit] = []
    dropped: list[Dropped] = []
    first: dict[int, str] = {}
    for number, (hit, offer, choice) in enumerate(zip(reply.hits, offers, plan.choices, strict=True)):
        if choice is None:
            dropped.append(_dropped(number, hit, offer, budget))
        elif choice.section is None:
            shown.append(replace(hit, packed=_alone(hit, offer, choice)))
        else:
            within = first.setdefault(choice.section, hit.id)
            packed = sections[choice.section].packed(offer.citation, "" if within == hit.id else within)
            shown.append(replace(hit, packed=packed))
    notes = list(reply.notes)
    if dropped and not shown:
        least = min(one.tokens for one in dropped)
        notes.append(f"no hit fits into {budget:,} tokens: the shortest of them needs {least:,}")
    packing = Packing(budget, plan.tokens, tuple(dropped))
    return replace(reply, hits=tuple(shown), notes=tuple(notes), packing=packing)


@dataclass(frozen=True, slots=True)
class _Section:
    """A section as it stands in its file now."""

    source: str
    start: int
    end: int
    text: str
    tokens: int

    def holds(self, other: _Section) -> bool:
        return self != other and self.source == other.source and self.start <= other.start and other.end <= self.end

    def packed(self, citation: int, within: str) -> Packed:
        text, cost = ("", citation) if within else (self.text, citation + self.tokens)
        return Packed(Form.SECTION, text, cost, self.start, self.end, within)


def _sections(hits: Sequence[Hit], store: Store) -> tuple[list[_Section], list[int | None]]:
    """Return the sections around the hits, each once and in the order of its best hit, and where each hit's is."""
    found: dict[str, _Section] = {}
    for source, of_source in by_source(hits).items():
        found |= _read_sections(source, of_source, store)
    distinct = list(dict.fromkeys(found[hit.id] for hit in hits if hit.id in found))
    numbers = {section: number for number, section in enumerate(distinct)}
    return distinct, [numbers[found[hit.id]] if hit.id in found else None for hit in hits]


def _read_sections(source: str, hits: Sequence[Hit], store: Store) -> Iterator[tuple[str, _Section]]:
    """Yield the section around each hit of a file, by the hit's id; none for a hit whose lines are not there any more."""
    document = store.document(source)
    if document is None:
        return
    outline = None
    for hit in hits:
        text, _ = text_now(hit, Root(document.root, document.project), document.file_hash)
        if text is None:
            continue
        outline = outline or read_outline(text)
        start, end = bounds_in(outline, hit.start_line, hit.heading_level)
        content = "\n".join(outline.lines[start - 1 : end])
        yield hit.id, _Section(source, start, end, content, estimate_tokens(content))


def _parent(section: _Section, sections: Sequence[_Section]) -> int | None:
    """Return the smallest section around a section."""
    around = [number for number, one in enumerate(sections) if one.holds(section)]
    return min(around, key=lambda number: sections[number].end - sections[number].start, default=None)


def _chunk_tokens(hit: Hit, sections: Sequence[_Section], home: int | None) -> int | None:
    """Return what a chunk costs; None for one that is the whole of its section."""
    if home is not None and (sections[home].start, sections[home].end) == (hit.start_line, hit.end_line):
        return None
    return estimate_tokens(hit.content)


def _citation(hit: Hit) -> int:
    """Return what it costs to say what a hit is and where it stands, which every form needs."""
    place = f"{hit.source}:{hit.start_line}-{hit.end_line}"
    head = f"10.  {hit.score:.3f}  {place}  {hit.date}  {hit.type} {' '.join(f'#{tag}' for tag in hit.tags)}  {hit.id}"
    others = (f"also in {other}" for other in hit.duplicates)
    return estimate_tokens("\n".join([head, " > ".join(hit.heading_path), *others, ""]))


def _alone(hit: Hit, offer: Offer, choice: Choice) -> Packed:
    text, cost = (hit.content, offer.chunk or 0) if choice.form is Form.CHUNK else (hit.snippet, offer.snippet)
    return Packed(choice.form, text, offer.citation + cost, hit.start_line, hit.end_line)


def _dropped(number: int, hit: Hit, offer: Offer, budget: int) -> Dropped:
    least = offer.citation + min(offer.snippet, offer.chunk or offer.snippet)
    if number >= MOST_WEIGHED:
        reason = f"only the best {MOST_WEIGHED} hits are weighed"
    else:
        reason = "it is larger than the budget" if least > budget else "the budget went to others"
    return Dropped(hit.id, hit.source, hit.start_line, hit.end_line, least, reason)
