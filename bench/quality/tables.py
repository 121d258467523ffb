"""The tables of a run: one per set, one of all sets with their targets, and the calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from bench.quality.calibration import Calibration, calibrate
from bench.quality.measuring import PART_SIZES, SetResult
from bench.quality.pipeline import RANKINGS
from msgspec import structs

from lorelog.services.evaluation.search_quality import mean_interval, metric_names, paired_difference

NDCG = "nDCG@10"
ALLOWED_BELOW_BEST = 0.01


@dataclass(frozen=True)
class Bar:
    """Target of a known set, and the best simple ranking on it (both nDCG@10)."""

    reach: float
    best: float


# From the comparison this bench was made for: one encoder (e5-small-v2, 256 tokens, no chunking), BM25 with stemming and
# CJK pairs, memsearch's ranking, and fixed convex combinations of weight .3, .5 and .7; `best` is the best of the six.
BARS = {
    "locomo_turn": Bar(0.56, 0.540),
    "locomo_session": Bar(0.81, 0.798),
    "longmemeval_turn": Bar(0.54, 0.511),
    "beam_100k": Bar(0.45, 0.430),
    "scifact": Bar(0.73, 0.726),
    "cosqa": Bar(0.56, 0.545),
    "tldr": Bar(0.66, 0.636),
    "commit_to_agent_session": Bar(0.56, 0.532),
    "cmrc2018_zh": Bar(0.98, 0.987),
    "xquad_zh": Bar(0.96, 0.964),
    "xquad_de": Bar(0.95, 0.949),
    "memd_true_semantic": Bar(0.80, 0.795),
}


def set_table(result: SetResult) -> str:
    """Return the table of one set: every ranking by every measure."""
    names = metric_names()
    about = (
        f"{result.texts:,} documents, {result.chunks:,} chunks, {len(result.questions):,} judged questions; "
        f"indexed in {result.index_s:.1f} s ({result.embedded:,} texts embedded anew), asked in {result.search_s:.1f} s."
    )
    rows = [["ranking", *names, "95 % of nDCG@10"]]
    for ranking in RANKINGS:
        values = result.values[ranking]
        ndcg = mean_interval(values[NDCG])
        rows.append(
            [ranking, *(_number(_mean(values[name])) for name in names), f"{_number(ndcg.low)}-{_number(ndcg.high)}"]
        )
    notes = list(result.notes)
    if result.shared_chunks:
        notes.append(f"{result.shared_chunks:,} chunks hold lines of more than one document")
    if result.unreachable:
        notes.append(f"{result.unreachable:,} documents have no chunk")
    return "\n".join([f"### {result.name}", "", about, "", format_table(rows), *(f"\n{note}." for note in notes)])


def summary(results: Sequence[SetResult]) -> str:
    """Return all sets by nDCG@10: beside the better lane, with stressed questions, and with their targets."""
    rows = [["set", *RANKINGS, "ours - better lane", "stressed: dense", "ours", "difference", "reach at least", ""]]
    for result in results:
        ndcg = {name: _mean(result.values[name][NDCG]) for name in RANKINGS}
        bar = BARS.get(result.name)
        rows.append(
            [
                result.name,
                *(_number(ndcg[name]) for name in RANKINGS),
                f"{ndcg['ours'] - max(ndcg['BM25'], ndcg['dense']):+.3f}",
                *_stressed_cells(result),
                _number(bar.reach) if bar else "",
                verdict(ndcg["ours"], bar),
            ]
        )
    means = {name: _mean([_mean(item.values[name][NDCG]) for item in results]) for name in RANKINGS}
    better = _mean([max(_mean(item.values[name][NDCG]) for name in ("BM25", "dense")) for item in results])
    rows.append(
        ["average of sets", *map(_number, means.values()), f"{means['ours'] - better:+.3f}", "", "", "", "", ""]
    )
    return format_table(rows)


def regret_table(results: Sequence[SetResult]) -> str:
    """Return what is lost against the better lane, by set: as it is, stressed, and in parts of a size."""
    titles = [f"{kind} {size}" for size in PART_SIZES for kind in ("judged", "stressed")]
    rows = [["set", "lost", "stressed", *(title.replace("judged ", "") for title in titles)]]
    found: list[list[float | None]] = []
    for result in results:
        whole = {name: result.values[name][NDCG] for name in RANKINGS}
        cells = [whole, result.stressed, *(result.parts.get(title, {}) for title in titles)]
        found.append([_lost(cell) for cell in cells])
        rows.append([result.name, *("" if value is None else f"{value:+.3f}" for value in found[-1])])
    columns = [[value for value in column if value is not None] for column in zip(*found, strict=True)]
    for title, combine in (("largest", max), ("mean", _mean)):
        rows.append([title, *(f"{combine(column):+.3f}" if column else "" for column in columns)])
    return format_table(rows)


def _lost(values: Mapping[str, Sequence[float]]) -> float | None:
    """Return how far our ranking is below the better lane; None if nothing was asked."""
    if not values.get("ours"):
        return None
    return max(_mean(values["BM25"]), _mean(values["dense"])) - _mean(values["ours"])


def keyword_table(results: Sequence[SetResult]) -> str:
    """Return all sets by nDCG@10 of keywords."""
    asked = [result for result in results if result.keywords.get("ours")]
    rows = [["set", "queries", *RANKINGS, "ours - better lane"]]
    means = []
    for result in asked:
        ndcg = [_mean(result.keywords[name]) for name in RANKINGS]
        means.append(ndcg)
        better = max(ndcg[RANKINGS.index(lane)] for lane in ("BM25", "dense"))
        rows.append([result.name, f"{len(result.keywords['ours'])}", *map(_number, ndcg), f"{ndcg[-1] - better:+.3f}"])
    rows.append(["average of keywords", "", *(_number(_mean(column)) for column in zip(*means, strict=True)), ""])
    return format_table(rows) if asked else ""


def _stressed_cells(result: SetResult) -> list[str]:
    if not result.stressed.get("ours"):
        return ["", "", ""]
    dense, ours = _mean(result.stressed["dense"]), _mean(result.stressed["ours"])
    return [_number(dense), _number(ours), f"{ours - dense:+.3f}"]


def verdict(value: float, bar: Bar | None) -> str:
    """Return True if a set meets its target and is at most a point below the best simple ranking."""
    if bar is None:
        return ""
    missed = [f"{value - bar.reach:+.3f} to reach"] if value < bar.reach else []
    missed += [f"{value - bar.best:+.3f} to best"] if value < bar.best - ALLOWED_BELOW_BEST else []
    return f"MISSED ({', '.join(missed)})" if missed else "met"


def calibration_table(results: Sequence[SetResult]) -> str:
    """Return the calibration of the first hits, by set and over all."""
    rows = [["set", "first hits", "of them unanswerable", "AUROC relevant", "AUROC answerable", "calibration error"]]
    judged = [result for result in results if result.claims]
    for name, made in [*((item.name, calibrate(item.claims)) for item in judged), *_together(judged)]:
        numbers = (made.auroc, made.auroc_answerable, made.error)
        rows.append([name, f"{made.claims:,}", f"{made.unanswerable:,}", *map(_number, numbers)])
    return format_table(rows)


def _together(results: Sequence[SetResult]) -> Iterable[tuple[str, Calibration]]:
    claims = list(chain.from_iterable(result.claims for result in results))
    return [("all sets", calibrate(claims))] if claims else []


def against(results: Sequence[SetResult], before: Mapping[str, Any]) -> str:
    """Return a comparison with an earlier run, query by query (nDCG@10)."""
    rows = [["set", "questions", "before", "now", "difference", "95 %", ""]]
    for result in results:
        old = before.get("sets", {}).get(result.name, {}).get("questions", {})
        now = dict(zip(result.questions, result.values["ours"][NDCG], strict=True))
        both = [item for item in now if item in old]
        if not both:
            continue
        change = paired_difference([now[item] for item in both], [old[item] for item in both])
        word = "better" if change.low > 0 else "WORSE" if change.high < 0 else ""
        rows.append(
            [
                result.name,
                f"{len(both):,}",
                _number(_mean([old[item] for item in both])),
                _number(_mean([now[item] for item in both])),
                f"{change.mean:+.4f}",
                f"{change.low:+.4f} to {change.high:+.4f}",
                word,
            ]
        )
    return format_table(rows)


def as_json(results: Sequence[SetResult]) -> dict[str, Any]:
    """Return all measurements with nDCG@10 of every query, for a later comparison."""
    return {"sets": {result.name: _set_json(result) for result in results}}


def _set_json(result: SetResult) -> dict[str, Any]:
    bar = BARS.get(result.name)
    rankings = {
        ranking: {name: structs.asdict(mean_interval(values)) for name, values in measured.items()}
        for ranking, measured in result.values.items()
    }
    return {
        "documents": result.texts,
        "chunks": result.chunks,
        "judged": len(result.questions),
        "index_s": round(result.index_s, 2),
        "search_s": round(result.search_s, 2),
        "rankings": rankings,
        "bar": asdict(bar) if bar else None,
        "verdict": verdict(rankings["ours"][NDCG]["mean"], bar),
        "stressed": {name: _mean(values) for name, values in result.stressed.items() if values},
        "keywords": {name: _mean(values) for name, values in result.keywords.items() if values},
        "parts": {
            title: {name: _mean(values) for name, values in found.items()} for title, found in result.parts.items()
        },
        "calibration": asdict(calibrate(result.claims)) if result.claims else None,
        "questions": dict(zip(result.questions, result.values["ours"][NDCG], strict=True)),
        "notes": list(result.notes),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _number(value: float) -> str:
    return f"{value:.3f}"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| "
        + " | ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in rows
    ]
    ruler = (
        "|"
        + "|".join("-" * (width + 2) if not column else "-" * (width + 1) + ":" for column, width in enumerate(widths))
        + "|"
    )
    return "\n".join([lines[0], ruler, *lines[1:]])
