"""Measure search quality with your own queries.

Runs each query by keywords, by vectors, by both with reciprocal rank fusion (rrf), and like 'lorelog search' (ours), and
compares the results with the documents you judged relevant. Nothing is changed, and nothing is sent that a search would
not send.

Queries are JSON lines, {"id": "q1", "text": "why redis?"}; judgements are lines of query, document and gain, separated by tabs.
A document is a path or its end (notes/a.md), lines of it (notes/a.md:10-20 or notes/a.md#L10), a chunk id or a memory id.

examples:
  lorelog eval --queries queries.jsonl --qrels judged.tsv
  lorelog eval --feedback
  lorelog eval --queries q.jsonl.gz --qrels judged.tsv --lane lexical --json
  lorelog eval --queries q.jsonl --qrels judged.tsv --all-projects --k 5
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import LANES, add_common, add_filters, expand_path, filters_of
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, print_problem, progress_bar, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from lorelog.operations.replies import Json

_ALL_LANES = "all"
_MAX_UNKNOWN_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--queries", metavar="PATH", help="queries: JSON lines with id and text, optionally gzipped")
    parser.add_argument("--qrels", metavar="PATH", help="judgements: query, document and gain, separated by tabs")
    parser.add_argument(
        "--feedback", action="store_true", help="use the queries and judgements of 'lorelog feedback' instead"
    )
    parser.add_argument(
        "-k", "--k", dest="k", type=int, default=10, metavar="N", help="count only the first N results (default 10)"
    )
    parser.add_argument(
        "--lane",
        choices=[_ALL_LANES, *LANES],
        default=_ALL_LANES,
        help="only this lane (default all)",
    )
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the measures; fail if a line of the files could not be read."""
    if not args.feedback and not (args.queries and args.qrels):
        raise UsageError("--queries and --qrels, or --feedback, are required", hint="lorelog eval --help")
    request = {
        "queries": args.queries and expand_path(args.queries),
        "qrels": args.qrels and expand_path(args.qrels),
        "feedback": args.feedback,
        "k": args.k,
        "lane": None if args.lane == _ALL_LANES else args.lane,
        **filters_of(args),
    }
    with progress_bar() as progress:
        reply = call_operation(args, "memory.evaluate", request, progress=progress)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 1 if reply["problems"] else 0


def _show(reply: Json) -> None:
    for problem in reply["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in reply["notes"]:
        print_note(text)
    unknown = reply["unknown"]
    for document in unknown[:_MAX_UNKNOWN_SHOWN]:
        print_note(f"counts as not found: {short_path(document['document'])} {document['reason']}")
    if len(unknown) > _MAX_UNKNOWN_SHOWN:
        print_note(f"and {len(unknown) - _MAX_UNKNOWN_SHOWN:,} more; --json lists them all")
    judged = f"{plural(reply['judged'], 'judged query')} of {reply['questions']:,}"
    failed = f" {plural(reply['failed'], 'line')} could not be read." if reply["failed"] else ""
    print(f"{judged}, {plural(reply['documents'], 'relevant document')}, {len(unknown):,} of them unknown.{failed}\n")
    for line in _format_table(reply):
        print(line)
    for line in _format_legend(reply["k"]):
        print(stylize(line, "dim"))


def _format_legend(k: int) -> Iterator[str]:
    yield ""
    yield f"R@{k}: share of the relevant documents among the first {k}; all@{k}: share of queries with all of them there"
    yield f"nDCG@{k}: 1 if the relevant ones come first, in the best order; MRR: 1 / rank of the first one; 1 is best"
    yield "lead of ours: nDCG of 'ours' (lorelog search) minus that of the row, with its 95 % interval"


def _format_table(reply: Json) -> Iterator[str]:
    names = [measure["name"] for measure in reply["rankings"][0]["measures"]]
    compared = any(ranking["ours_ahead"] for ranking in reply["rankings"])
    head = ["", *names, f"nDCG@{reply['k']} (95 % interval)", *(["lead of ours"] if compared else [])]
    rows = [head, *(_format_row(ranking, names, reply["k"], compared=compared) for ranking in reply["rankings"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        line = "  ".join(cells).rstrip()
        yield stylize(line, "bold") if not number else line


def _format_row(ranking: Json, names: list[str], k: int, *, compared: bool) -> list[str]:
    measures = {measure["name"]: measure for measure in ranking["measures"]}
    ndcg = measures[f"nDCG@{k}"]
    row = [
        ranking["name"],
        *(f"{measures[name]['mean']:.3f}" for name in names),
        f"{ndcg['low']:.3f} to {ndcg['high']:.3f}",
    ]
    return [*row, *([_format_lead(ranking["ours_ahead"])] if compared else [])]


def _format_lead(value: dict[str, Any] | None) -> str:
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})" if value else ""
