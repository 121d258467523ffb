"""docs/search.md has the numbers of the ranking, and its examples are true."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from msgspec.structs import astuple
from tests.docs.pages import blocks, read, rows, sections, spans

from lorelog.core.query import Lane
from lorelog.models.embed.builtin import MODEL_NAME, BuiltinEmbedder
from lorelog.retrieval import fusion, rerank, score_features
from lorelog.retrieval.fusion import MIN_NEIGHBOUR_SHARE, neighbour_share
from lorelog.retrieval.relevance import calibration_of
from lorelog.retrieval.score_features import MatchFeatures
from lorelog.retrieval.time_expressions import TIME_WEIGHT, find_time_hint
from lorelog.services.search import candidates, searcher

PAGE = sections(read("docs/search.md"))
ASKED = dt.date(2026, 3, 13)
READ = MatchFeatures(1.0, 1.0, 1.0, 1.0).parts()
NAMES = {*(lane.value for lane in Lane if lane is not Lane.HYBRID), "neighbours", *(part.name for part in READ)} | {
    "entry",
    "standing",
    "time",
    "quoted",
    "feedback",
    "covers",
    "name",
    "commands",
    rerank.RERANK_PART_NAME,
}
TIMES = [row for row in rows(PAGE["Time expressions"]) if row[0].startswith("`")]


def test_numbers_of_candidates_are_documented() -> None:
    """How many candidates are proposed, supported and read is as in the code."""
    steps = " ".join(read("docs/search.md").split("## Lanes")[0].split())

    assert f"at least {candidates._CANDIDATES[0]}, and ten for each hit wanted" in steps
    assert f"among the first {candidates._SUPPORTED_PER_LANE} of each lane borrow" in steps
    assert f"The first {searcher._MIN_FETCHED}, or two for each hit wanted if that is more, are" in steps
    assert f"the first {searcher._MIN_FETCHED_QUOTED} are read" in steps
    assert (candidates._CANDIDATES[1], searcher._FETCHED_PER_HIT) == (10, 2)


def test_learned_numbers_are_documented() -> None:
    """What each piece of evidence counts is as in the code, in its order."""
    shown = [row[2] for row in rows(PAGE["Fusion"]) if len(row) > 2 and re.fullmatch(r"[+-]\d\.\d\d", row[2])]

    numbers = calibration_of(f"{BuiltinEmbedder.provider}/{MODEL_NAME}").lanes
    learned = astuple(numbers)[:7]
    assert shown == [f"{number:+.2f}" for number in learned]
    fixed = f"proximity has {numbers.proximity:.2f}, part words {numbers.part_words:.2f}, the entry {numbers.entry:.2f}"
    assert fixed in PAGE["Fusion"]
    assert f"coverage to the power of {numbers.bm25_power:.2f}" in PAGE["Fusion"]
    assert f"{fusion.MAX_DENSE_WEIGHT_EXACT:.2f}" in PAGE["Fusion"]
    assert f"{score_features.LANES_WEIGHT:.2f} of the score" in PAGE["Fusion"]


def test_shares_of_a_close_reading_are_documented() -> None:
    """Each part of a close reading is named with the most it can be."""
    table = {spans(row[0])[0]: row[2] for row in rows(PAGE["Close reading"]) if row[0].startswith("`")}

    assert table == {part.name: f"{part.value:.2f}" for part in READ}


def test_shares_of_neighbours_are_documented() -> None:
    """The shares shown are those of texts of that length, and from the last one on nothing is borrowed."""
    lengths, shares = (line for line in PAGE["Neighbours"].split("\n") if re.match(r"\|.*\d", line))
    shown = dict(zip(re.findall(r"\d+", lengths), re.findall(r"\d\.\d\d", shares), strict=False))

    assert shown == {length: f"{neighbour_share(int(length)):.2f}" for length in shown}
    assert neighbour_share(int(re.findall(r"\d+", lengths)[-1])) < MIN_NEIGHBOUR_SHARE
    assert len(shown) == len(re.findall(r"\d+", lengths)) - 1


@pytest.mark.parametrize(("question", "said"), [row[:2] for row in TIMES], ids=[row[0] for row in TIMES])
def test_the_times_shown_are_those_found(question: str, said: str) -> None:
    """Each question of the table, asked on the day that the page names, means the time beside it, or none."""
    assert ASKED.isoformat() in PAGE["Time expressions"].split("|", 1)[0]
    hint = find_time_hint(question.strip("`"), ASKED)

    if said.startswith("none"):
        assert hint is None
    else:
        assert hint is not None
        assert hint.description.endswith(said)


def test_the_weight_of_a_time_is_documented() -> None:
    """What a chunk of the very time gains is as in the code."""
    assert f"gains {TIME_WEIGHT:.2f}" in PAGE["Time expressions"]


def test_the_explanation_shown_adds_up() -> None:
    """The parts of the example come to its score, and its weights are those of the note above."""
    (block,) = blocks(PAGE["How to read an explanation"], "text")
    *parts, together = (float(value) for value in re.findall(r"^   ([+-]\d\.\d{4})  ", block, re.MULTILINE))

    assert sum(parts) == pytest.approx(together, abs=5e-4)
    (score,) = re.findall(r"score (\S+)  ", block)
    assert float(score) == pytest.approx(together, abs=6e-4)
    (note,) = re.findall(r"lane weights: dense (\S+), lexical (\S+):", PAGE["Fusion"])
    (lanes,) = re.findall(r"both lanes together make up (\S+) of the score", PAGE["Fusion"])
    shown = dict(re.findall(r"(lexical|dense) .* weight (\S+)$", block, re.MULTILINE))
    assert [float(shown["dense"]), float(shown["lexical"])] == pytest.approx(
        [float(lanes) * float(share) for share in note], abs=0.01
    )


def test_the_gain_of_an_entry_is_documented() -> None:
    """The table of entries shows what the code adds for each size."""
    shown = re.findall(r"\d\.\d\d|\b0\b", next(row for row in PAGE["Entries"].split("\n") if "part `entry`" in row))
    assert [float(item) for item in shown] == [
        round(score_features.entry_score(size), 2) for size in range(1, score_features.MAX_ENTRY_CHUNKS + 1)
    ]


def test_every_part_of_a_score_is_documented() -> None:
    """docs/search.md and docs/json.md name every part that an explanation can have, and no other."""
    table = {name for row in rows(PAGE["How to read an explanation"]) for name in spans(row[0])}
    (row,) = (row for row in rows(read("docs/json.md")) if row[0] == "`hits[].explanation[].name`")

    assert table == NAMES
    assert set(spans(row[2])) == NAMES
