"""Commands that list memories: search, list and duplicates. Each entry has its location first, then confidence, date, labels and a short id."""

from __future__ import annotations

from lorelog.core.errors import UsageError, plural
from lorelog.light.quick_json import dumps
from lorelog.surfaces.cli.client import call_command, print_note, print_reply
from lorelog.surfaces.text import (
    RECORD_TIERS,
    format_cues,
    format_date,
    format_freshness,
    format_heading,
    format_lifecycle,
    format_origin,
    format_repository,
    join_fields,
    known_width,
    link_file,
    mark_undated,
    one_line,
    printable,
    render_short_hits,
    short_path,
    shorten,
    shorten_ids,
    stylize,
    text_width,
    without_comments,
    wrap,
    wrap_marked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from lorelog.operations.operation import Json
    from lorelog.surfaces.text import Field

ARGUMENTS = {
    "search": {
        "--format {text,markdown,jsonl,tsv}": "markdown: a section per hit; jsonl: its JSON on a line; tsv: id, path, line, confidence, date and "
        "first line, separated by tabs",
        "--short": "print one short entry per memory, as plain text: for agents",
        "settings": "",
    }
}
INDENT = "   "
_BARS = {"strong": ("●●●", "green"), "likely": ("●●○", "yellow"), "weak": ("●○○", "dim")}
_MIN_ID_CHARS = 8
_MAX_K = 100_000
"""The operation returns at most this many hits; larger values are lowered to it."""


def run_search(args: argparse.Namespace) -> int:
    """Search memories and notes by keywords and by meaning.

    Keyword and semantic matches are combined into one ranking. Each hit shows its location, whether it is a strong, likely or
    weak match, its date, type, tags and id, and a snippet with the matching words marked; a record shows its id and trust
    level. --explain shows scores, probabilities and full ids. With --token-budget the best set of hits that fits is shown, full
    sections first. --format tsv prints one line per hit for fzf and other programs ('lorelog docs search'), markdown and jsonl what memd prints.

    examples:
      lorelog search "why did we choose redis"
      lorelog search parse_config --lane lexical
      lorelog search "webhook retries" --since 2w --type decision --json
      lorelog search "deploy steps" --all-projects -k 10 --explain
      lorelog search "how do deploys work" -k 20 --token-budget 2000
      lorelog search "which cache did we decide on" --trust verified
      lorelog search "why did we choose redis" --short
      lorelog search redis -k 50 --format tsv
    """
    if args.json and args.format not in (None, "text"):
        raise UsageError("--json and --format exclude each other", hint="use one of them")
    limits = {"k": min(args.k, _MAX_K)} if args.k else {}
    return print_reply(args, call_command(args, one_per_memory=args.short, **limits), _show_search)


def _show_search(reply: Json, args: argparse.Namespace) -> None:
    if args.format in ("markdown", "jsonl"):
        for number, hit in enumerate(reply["hits"], 1):
            print(_format_section(number, hit) if args.format == "markdown" else dumps(hit, ensure_ascii=False))
        if reply["nothing_relevant"]:
            print_note(reply["nothing_relevant"])
    elif args.format == "tsv":
        for hit in reply["hits"]:
            cells = [hit["id"], hit["source"], hit["start_line"], hit["confidence"] or "", format_date(hit)]
            text = hit["packed"]["text"] if hit.get("packed") else hit["snippet"]
            first = next((line.strip() for line in text.splitlines() if line.strip()), "")
            state = format_lifecycle(hit.get("lifecycle"))
            cells.append(f"{first} ({state})" if state else first)
            print("\t".join(one_line(str(cell)) for cell in cells))
        if reply["nothing_relevant"]:
            print_note(reply["nothing_relevant"])
    elif args.short and not reply["packing"]:
        print(printable(render_short_hits(reply, "lorelog show", short_path)))
    else:
        is_folded = not (args.explain or args.min_relevance is not None or reply["packing"])
        _show_in_full(reply, explain=args.explain, is_folded=is_folded)


def _format_section(number: int, hit: Json) -> str:
    """Return a hit as a section of Markdown: how to cite it, what to know about it, and its text without comments."""
    cite = f"{short_path(hit['source'])}:{hit['start_line']}-{hit['end_line']}"
    origin = format_origin((hit["anchor"] or {}).get("origin", "")) if hit["trust"]["tainted"] else ""
    states = (format_lifecycle(hit.get("lifecycle")), format_freshness(hit.get("freshness")), format_repository(hit))
    facts = (f"`{hit['id']}`", cite, format_date(hit), hit["confidence"], hit["trust"]["tier"], origin, *states)
    known = "".join(f"- {one_line(fact)}\n" for fact in facts if fact)
    text = hit["packed"]["text"] if hit.get("packed") else hit["content"]
    heading = one_line(" > ".join(hit["heading_path"])) or cite
    return f"## {number}. {heading}\n\n{known}\n{printable(without_comments(text)).strip()}\n"


_LANES = ("hybrid", "lexical", "dense")
_MIN_SHOWN_VALUE = 0.00005
"""Smaller parts would be printed as 0.0000."""


def _show_in_full(reply: Json, *, explain: bool, is_folded: bool) -> None:
    hits, packing = reply["hits"], reply["packing"]
    if not hits and not (packing and packing["dropped"]):
        print("Nothing found.")
    mark_undated(hits)
    records, ids = _record_ids(hits), shorten_ids((hit["id"] for hit in hits), _MIN_ID_CHARS)
    is_folded = is_folded and bool(reply["nothing_relevant"])
    if hits and reply["nothing_relevant"]:
        print(reply["nothing_relevant"] + (" Weak matches:" if is_folded else ""))
    for number, hit in enumerate(hits, 1):
        if is_folded:
            place = f"{short_path(hit['source'])}:{hit['start_line']}  {ids[hit['id']]}"
            place = f"record {records[hit['id']]}" if hit["id"] in records else place
            line = shorten(f"{place}  {one_line(hit['snippet'])}", text_width() - len(INDENT))
            print(INDENT + stylize(line, "dim"))
            if state := format_lifecycle(hit.get("lifecycle")):
                print(wrap_styled(state, "yellow"))
        else:
            _show_hit(number, hit, records.get(hit["id"], ""), ids, explain=explain)
    if hits and not packing:
        more = "; --min-relevance 0 shows them as hits." if is_folded else "."
        print(stylize(f"lorelog show ID shows one in full{more}", "dim"))
    if explain and reply["weighing"]:
        print_note(f"lane weights: {reply['weighing']}")
    if packing:
        if packing["files"]:
            from lorelog.core.query import FILES_LABEL

            print(wrap(f"{FILES_LABEL}{one_line(', '.join(packing['files']))}", "") + "\n")
        print_note(f"about {packing['spent']:,} of {packing['budget']:,} tokens")
        if packing["dropped"]:
            shortest = min(omitted["tokens"] for omitted in packing["dropped"])
            count = plural(len(packing["dropped"]), "hit")
            print_note(f"left out: {count}, of {shortest:,} tokens or more (--json lists them)")


def _record_ids(hits: Sequence[Json]) -> dict[str, str]:
    """Return the short record id of each hit that comes from a record."""
    tiers = {hit["id"]: hit["grounding_refs"] for hit in hits if hit["trust"]["tier"] in RECORD_TIERS}
    found = {identity: references[0]["artifact_id"] for identity, references in tiers.items() if references}
    if not found:
        return {}
    from lorelog.surfaces.cli.record_text import short_record_ids

    short = short_record_ids(found.values())
    return {hit: short[record] for hit, record in found.items()}


def _show_hit(number: int, hit: Json, record: str, ids: Mapping[str, str], *, explain: bool) -> None:
    if record:  # its file is generated, so its path is not shown
        writer = one_line(hit["heading"].partition(" by ")[2])
        label = one_line(hit["type"]) + (f" by {writer}" if writer else "")
        confidence = confidence_fields(hit.get("confidence"))
        fields = [field(f"record {record}", "cyan"), *confidence, field(format_date(hit)), field(label)]
    else:
        packed = hit.get("packed")
        shown = packed if packed and not packed["within"] else hit
        fields = location_fields(hit, f"{shown['start_line']}-{shown['end_line']}", ids[hit["id"]])
    print(format_head(f"{number}. ", fields))
    if explain:
        relevance = f"{hit['relevance']:.0%}" if hit["relevance"] else "unknown"
        print(f"{INDENT}score {hit['score']:.3f}  relevance {relevance}  id {hit['id']}")
    if heading := format_heading({**hit, "heading_path": hit["heading_path"][:1]} if record else hit):
        print(wrap_styled(heading, "bold"))
    for warning in (
        format_lifecycle(hit.get("lifecycle")),
        format_freshness(hit.get("freshness")),
        format_repository(hit),
    ):
        if warning:
            print(wrap_styled(warning, "yellow"))
    if hit["trust"]["tier"] != "semantic_candidate":
        from lorelog.surfaces.cli.record_text import format_badge

        badge = format_badge(hit["trust"], {})
        if badge != "record":  # the first line already says that it is a record
            print(INDENT + badge)
    elif hit["trust"]["tainted"]:
        print(wrap_styled(f"from {format_origin((hit['anchor'] or {}).get('origin', ''))}", "yellow"))
    _show_text(hit, ids)
    for other in hit["duplicates"]:
        print(wrap_styled(f"also in {short_path(other)}", "dim"))
    if explain:
        parts = [
            part for part in hit["explanation"] if abs(part["value"]) >= _MIN_SHOWN_VALUE or part["name"] in _LANES
        ]
        width = max(len(part["name"]) for part in parts)
        margin = " " * (len(INDENT) + len("+0.0000  ") + width + 2)
        for part in parts:
            note = wrap(one_line(part["note"]), margin).lstrip(" ")
            print(f"{INDENT}{part['value']:+.4f}  {part['name']:<{width}}  {note}".rstrip())
        print(f"{INDENT}{hit['score']:+.4f}  total")
    print()


def _show_text(hit: Json, ids: Mapping[str, str]) -> None:
    """Print a hit's text: its snippet, or what a token budget allows. A whole section is printed as it is."""
    packed = hit.get("packed")
    if packed is None:
        print(wrap_marked(printable(hit["snippet"]), hit["matches"], INDENT))
    elif packed["within"]:
        print(wrap_styled(f"in the section shown for {ids.get(packed['within'], packed['within'])}", "dim"))
    elif packed["form"] == "snippet":
        print(wrap(printable(packed["text"]), INDENT))
    else:
        print(printable(packed["text"]))


def show_list(reply: Json, args: argparse.Namespace) -> None:
    """List memories or documents, newest first.

    examples:
      lorelog list                              the newest memories of this project
      lorelog list --documents
      lorelog list --due                        memories to review
      lorelog list --since 7d --type decision
      lorelog list --all-projects -n 100 --json
    """
    is_filtered = any((args.source, args.since, args.until, args.types, args.tags))
    mark_undated([*reply["documents"], *reply["memories"]])
    for document in reply["documents"]:
        place, count = short_path(document["source"]), plural(document["chunks"], "chunk")
        link = link_file(document["source"], stylize(place, "cyan"))
        print(format_head("", [(place, link, 2), field(format_date(document)), field(count, "dim")]))
        if document["title"]:
            print(INDENT + shorten(one_line(document["title"]), text_width() - len(INDENT)))
    ids = shorten_ids((memory["id"] for memory in reply["memories"]), _MIN_ID_CHARS)
    for memory in reply["memories"]:
        _show_memory(memory, ids[memory["id"]])
    if args.due and not reply["memories"]:
        print_note("no memory is due for review")
    elif not reply["documents"] and not reply["memories"] and is_filtered:
        print("Nothing found.")
    elif not reply["documents"] and not reply["memories"]:
        print_note("nothing is indexed here yet; run 'lorelog index PATH' or 'lorelog add'")
    elif reply["more"]:
        print_note("there are more; use -n to show them")


def _show_memory(memory: Json, identity: str) -> None:
    print(format_head("", location_fields(memory, str(memory["start_line"]), identity)))
    if excerpt := _format_excerpt(memory["content"], memory["heading"]):
        print(INDENT + shorten(excerpt, text_width() - len(INDENT)))
    for warning in (format_lifecycle(memory.get("lifecycle")), format_repository(memory)):
        if warning:
            print(wrap_styled(warning, "yellow"))
    if cues := format_cues(memory["anchor"]):
        print(wrap_styled(cues, "dim"))


def _format_excerpt(text: str, heading: str) -> str:
    lines = [line.strip() for line in without_comments(text).split("\n") if line.strip()]
    body = " ".join(line for line in lines if line.lstrip("# ").rstrip("# ") != heading)
    return one_line(body or heading)


def show_duplicates(reply: Json, args: argparse.Namespace) -> None:
    """Find near-duplicate memories. Nothing is changed.

    Memories are compared by their words, and by meaning where vectors exist. The newest of each group comes first and is
    usually the one to keep. 'lorelog delete' hides another; 'lorelog supersede' replaces one.

    examples:
      lorelog duplicates
      lorelog duplicates --type decision --threshold 0.9
      lorelog duplicates --all-projects --json
    """
    for number, group in enumerate(reply["groups"], 1):
        print(stylize(f"{number}. {plural(len(group), 'memory')}", "bold"))
        mark_undated(group)
        ids = shorten_ids((memory["id"] for memory in group), _MIN_ID_CHARS)
        for memory in group:
            similarity = "keep" if memory["keep"] else f"{memory['similarity']:.2f}"
            fields = location_fields({**memory, "tags": ()}, str(memory["start_line"]), ids[memory["id"]])
            width = known_width()
            room = width - len(INDENT) - 6 if width else None
            print(f"{INDENT}{similarity:<4}  " + join_fields(fields, INDENT * 2, room))
            print(INDENT * 2 + shorten(one_line(memory["text"]), text_width() - 2 * len(INDENT)))
        print()
    if not reply["groups"]:
        print("No near-duplicate memories.")
    compared = f"{plural(reply['compared'], 'memory')} compared, {reply['by_vectors']:,} of them by meaning"
    print_note(compared + ("; there are more groups, use -n to show them" if reply["more"] else ""))


def format_head(lead: str, fields: Iterable[Field]) -> str:
    """Return the first line or lines of an entry; later ones are indented."""
    return lead + join_fields(fields, INDENT, known_width())


def location_fields(item: Json, lines: str, identity: str) -> list[Field]:
    """Return location, confidence, date, labels and id of a hit or a memory; a line may break between labels."""
    place = f"{short_path(item['source'])}:{lines}"
    labels = [one_line(label) for label in (item["type"], *(f"#{tag}" for tag in item["tags"])) if label]
    return [
        (place, link_file(item["source"], stylize(place, "cyan")), 2),
        *confidence_fields(item.get("confidence")),
        field(format_date(item)),
        *(field(label, gap=1 if number else 2) for number, label in enumerate(labels)),
        field(identity, "dim"),
    ]


def confidence_fields(word: str | None) -> list[Field]:
    """Return a bar and the word; nothing in an index that is too small for it."""
    if word is None:
        return []
    bar, style = _BARS[word]
    return [field(f"{bar} {word}", style)]


def field(text: str, style: str = "", *, gap: int = 2) -> Field:
    return text, stylize(text, style) if style else text, gap


def wrap_styled(text: str, style: str) -> str:
    """Return a text in a style, wrapped and indented; '' for an empty one."""
    return "\n".join(
        INDENT + stylize(line.removeprefix(INDENT), style) for line in wrap(text, INDENT).split("\n") if line
    )
