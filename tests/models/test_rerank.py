"""Rerankers, with a real cross-encoder of a few hundred bytes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.models.tiny_crossencoder import SEPARATOR_PAIRS, write_model

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import RERANK_PROVIDERS, RerankOptions
from lorelog.core.ports import Reranker
from lorelog.models import rerank
from lorelog.models.rerank import open_reranker
from lorelog.wiring import open_engine, resolve_location

SOURCE = Path(__file__).parents[2] / "src"
QUESTION = "where did the otter sleep"


def opened(model: object, provider: str = "onnx") -> Reranker:
    reranker = open_reranker(RerankOptions(provider, str(model), threads=2))
    assert reranker is not None
    return reranker


@pytest.fixture
def reranker(tmp_path: Path) -> Iterator[Reranker]:
    reranker = opened(write_model(tmp_path / "model"))
    yield reranker
    reranker.close()


# -- what it says ---------------------------------------------------------------------------------------------------------


def test_question_and_text_are_read_together(reranker: Reranker) -> None:
    """Scores are in the order of the texts."""
    texts = ["a green logo", "the otter did sleep", "an otter"]
    assert reranker.score(QUESTION, texts, None) == [0 + SEPARATOR_PAIRS, 4 + SEPARATOR_PAIRS, 1 + SEPARATOR_PAIRS]


def test_a_text_has_one_score_in_any_batch(reranker: Reranker) -> None:
    """The same pair gives the same number alone and among others."""
    company = [f"neighbour number {number} and the otter" for number in range(9)]
    assert reranker.score(QUESTION, [*company, "an otter"], None)[-1:] == reranker.score(QUESTION, ["an otter"], None)


def test_of_a_long_text_the_beginning_is_read(reranker: Reranker) -> None:
    """A text longer than the window is read up to the window."""
    early, late = "the otter did sleep " + "word " * 900, "word " * 900 + "the otter did sleep"
    assert reranker.score(QUESTION, [early, late], None) == [4 + SEPARATOR_PAIRS, 0 + SEPARATOR_PAIRS]


def test_a_question_that_fills_the_window_leaves_room_for_the_text(reranker: Reranker) -> None:
    """A query is truncated to half the window, and the text is still read."""
    (score,) = reranker.score("otter " * 5000, ["the otter"], None)
    assert score == 256 + SEPARATOR_PAIRS


@pytest.mark.parametrize("text", ["", " ", "\x00", "a\udcffb", "🦦" * 700, "字" * 1500, "x" * 9000, "ﷺ" * 200])
def test_odd_texts_and_questions_are_scored(text: str, reranker: Reranker) -> None:
    """Every string has a finite score, as a query or as a text."""
    for score in (*reranker.score(text, ["otter"], None), *reranker.score("otter", [text], None)):
        assert score is not None
        assert math.isfinite(score)


def test_two_numbers_are_no_and_yes(tmp_path: Path) -> None:
    """With two outputs the score is the second minus the first."""
    assert opened(write_model(tmp_path, outputs=2)).score(QUESTION, ["otter"], None) == [1 + SEPARATOR_PAIRS]


def test_numbers_that_mean_nothing_are_a_fault(tmp_path: Path) -> None:
    """A network that is not a cross-encoder raises our error, which names its file."""
    with pytest.raises(ModelFault, match=r"model\.onnx returned 3 numbers"):
        opened(write_model(tmp_path, outputs=3)).score(QUESTION, ["otter"], None)


def test_nan_is_handed_on(tmp_path: Path) -> None:
    """A NaN score is returned as it is: the blend ignores it."""
    (score,) = opened(write_model(tmp_path, bias=math.nan)).score(QUESTION, ["otter"], None)
    assert score is not None
    assert math.isnan(score)


# -- its time -------------------------------------------------------------------------------------------------------------


def test_what_is_not_read_in_time_has_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are scored in order until the deadline; the rest has no score, and after it none has."""
    ticks = count()
    monkeypatch.setattr(rerank, "monotonic", lambda: float(next(ticks)))
    reranker = open_reranker(RerankOptions(model=str(write_model(tmp_path)), threads=1))
    assert reranker is not None
    assert reranker.score(QUESTION, ["otter"] * 5, 3.0) == [1 + SEPARATOR_PAIRS] * 3 + [None] * 2
    assert reranker.score(QUESTION, ["otter", "logo"], 0.0) == [None, None]


# -- where it comes from --------------------------------------------------------------------------------------------------


def test_an_unknown_provider_is_a_config_error() -> None:
    """An unknown provider is reported with the known ones."""
    with pytest.raises(ConfigError, match="onyx") as caught:
        open_reranker(RerankOptions("onyx", "some/model"))
    assert all(name in caught.value.hint for name in RERANK_PROVIDERS)


@pytest.mark.parametrize("weights", ["model.onnx", "onnx/model.onnx", "model_quantized.onnx"])
def test_a_folder_may_be_laid_out_as_exporters_do(weights: str, tmp_path: Path) -> None:
    """The network is found next to the tokenizer, in onnx/, and under its quantised name."""
    assert opened(write_model(tmp_path, weights=weights)).score("otter", ["otter"], None) == [1 + SEPARATOR_PAIRS]


def test_a_network_that_asks_for_other_things_is_refused(tmp_path: Path) -> None:
    """A network with unknown inputs is unavailable, and the inputs are named."""
    path = write_model(tmp_path) / "model.onnx"
    path.write_bytes(path.read_bytes().replace(b"token_type_ids", b"pixel_value_at"))
    with pytest.raises(ModelUnavailable, match="pixel_value_at"):
        opened(tmp_path).score(QUESTION, ["otter"], None)


def test_closing_twice_is_fine_and_reopening_works(reranker: Reranker) -> None:
    """A closed reranker may be closed again, and opens itself when it is used again."""
    first = reranker.score(QUESTION, ["otter"], None)
    reranker.close()
    reranker.close()
    assert reranker.score(QUESTION, ["otter"], None) == first


# -- in an engine ---------------------------------------------------------------------------------------------------------


def test_off_by_default_loads_nothing(tmp_path: Path) -> None:
    """An engine with default settings has no reranker and does not import its module."""
    program = (
        "import sys\nfrom lorelog.wiring import open_engine, resolve_location\n"
        f"engine = open_engine(resolve_location(home={str(tmp_path)!r}, project={str(tmp_path)!r}))\n"
        "assert engine.deps.reranker is None\nengine.close()\nprint(*sys.modules)"
    )
    environment = {"PYTHONPATH": str(SOURCE), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert "lorelog.wiring" in done.stdout.split()
    assert "lorelog.models.rerank" not in done.stdout.split()


def test_an_engine_closes_its_cross_encoder(tmp_path: Path) -> None:
    """The engine owns the configured reranker and stops its threads on close."""
    here = resolve_location(home=tmp_path / "home", project=tmp_path)
    engine = open_engine(here, {"rerank.model": str(write_model(tmp_path / "model")), "rerank.candidates": 3})
    owned = engine.deps.reranker
    assert owned is not None
    assert engine.defaults.rerank.candidates == 3
    before = set(threading.enumerate())
    owned.score(QUESTION, ["otter"], None)
    assert set(threading.enumerate()) - before
    engine.close()
    assert not set(threading.enumerate()) - before
