"""Measure how well your own questions are answered.

Asks each question by words, by vectors, by both with plain reciprocal ranks (rrf), and as a search does (ours), and
compares what comes back with the documents you judged relevant. Nothing is changed, and nothing leaves the machine but
what a search sends.

Questions are JSON lines, {"id": "q1", "text": "why redis?"}; judgements are lines of question, document and gain, separated by
tabs. A document is a path or its end (notes/a.md), lines of it (notes/a.md:10-20 or notes/a.md#L10), a chunk id or a memory id.

examples:
  recollect eval --queries questions.jsonl --qrels judged.tsv
  recollect eval --queries questions.jsonl.gz --qrels judged.tsv --lane lexical --json
  recollect eval --queries questions.jsonl --qrels judged.tsv --all-projects --k 5
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.core.query import Lane
from recollect.surfaces.cli.arguments import add_common, add_filters, engine_of, filters_of
from recollect.surfaces.cli.paper import note, plural, problem, progress_bar, short_path, styled
from recollect.surfaces.cli.shapes import evaluate_shape, print_json

if TYPE_CHECKING:
    from recollect.retrieval.measure import Interval
    from recollect.services.evaluate import EvaluateReply, RankingResult

_ALL = "all"
_NAMED = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--queries", required=True, metavar="PATH", help="questions, JSON lines with id and text, plain or gzip"
    )
    parser.add_argument(
        "--qrels", required=True, metavar="PATH", help="judgements, tab-separated: question, document, gain"
    )
    parser.add_argument(
        "-k", "--k", dest="k", type=int, default=10, metavar="N", help="how deep a document counts (default 10)"
    )
    parser.add_argument(
        "--lane",
        choices=[_ALL, *(lane.value for lane in Lane)],
        default=_ALL,
        help="only the rankings of this lane (default all)",
    )
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, and fail when a line of the files could not be read."""
    from dataclasses import replace

    from recollect.services.evaluate import EvaluateRequest

    with engine_of(args) as engine, progress_bar() as progress:
        request = EvaluateRequest(
            queries=Path(args.queries).expanduser(),
            qrels=Path(args.qrels).expanduser(),
            options=replace(engine.defaults.search, filters=filters_of(args)),
            k=args.k,
            lane=None if args.lane == _ALL else Lane(args.lane),
        )
        reply = engine.evaluate(request, all_projects=args.all_projects, progress=progress)
    if args.json:
        print_json(evaluate_shape(reply))
    else:
        _show(reply)
    return 1 if reply.problems else 0


def _show(reply: EvaluateReply) -> None:
    for one in reply.problems:
        problem(one.path, one.message, one.hint)
    for text in reply.notes:
        note(text)
    for name, reason in reply.unknown[:_NAMED]:
        note(f"counts as not found: {short_path(name)} {reason}")
    if len(reply.unknown) > _NAMED:
        note(f"and {len(reply.unknown) - _NAMED:,} more; --json names them all")
    judged = f"{plural(reply.judged, 'judged question')} of {reply.questions:,}"
    failed = f" {plural(len(reply.problems), 'line')} could not be read." if reply.problems else ""
    print(
        f"{judged}, {plural(reply.documents, 'relevant document')}, {len(reply.unknown):,} of them unknown.{failed}\n"
    )
    for line in _table(reply):
        print(line)


def _table(reply: EvaluateReply) -> Iterator[str]:
    names = list(reply.rankings[0].measures)
    compared = any(one.ours_ahead for one in reply.rankings)
    head = ["", *names, f"95 % of nDCG@{reply.k}", *(["ours is ahead by"] if compared else [])]
    rows = [head, *(_row(one, names, reply.k, compared=compared) for one in reply.rankings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        line = "  ".join(cells).rstrip()
        yield styled(line, "bold") if not number else line


def _row(one: RankingResult, names: list[str], k: int, *, compared: bool) -> list[str]:
    ndcg = one.measures[f"nDCG@{k}"]
    row = [one.name, *(f"{one.measures[name].mean:.3f}" for name in names), f"{ndcg.low:.3f} to {ndcg.high:.3f}"]
    return [*row, *([_ahead(one.ours_ahead)] if compared else [])]


def _ahead(value: Interval | None) -> str:
    return f"{value.mean:+.3f} ({value.low:+.3f} to {value.high:+.3f})" if value else ""
