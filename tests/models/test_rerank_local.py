"""Rerankers by sentence-transformers, which is not installed here: a fake module has its interface."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import RerankOptions
from lorelog.models import rerank
from lorelog.models.rerank import open_reranker


class CrossEncoder:
    """Counts common words; knows one model, and fails or miscounts on request."""

    def __init__(self, name: str) -> None:
        if not name.startswith("known"):
            raise OSError(f"{name} is not a local folder\nand is not a valid model identifier\n")

        self.name = name

    def predict(
        self, pairs: Sequence[tuple[str, str]], *, activation_fn: Callable[[float], float], show_progress_bar: bool
    ) -> list[float]:
        assert not show_progress_bar
        if self.name == "known-broken":
            raise RuntimeError("CUDA error: out of memory\nand more")
        if self.name == "known-short":
            return []
        return [activation_fn(float(len({*pair.split()} & {*other.split()}))) for pair, other in pairs]


def identity() -> Callable[[float], float]:
    return lambda value: value


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = ModuleType("sentence_transformers")
    package.CrossEncoder = CrossEncoder
    torch: Any = ModuleType("torch.nn")
    torch.Identity = identity
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setitem(sys.modules, "torch.nn", torch)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))


def scores(model: str, texts: list[str], deadline: float | None = None) -> list[float | None]:
    reranker = open_reranker(RerankOptions("local", model))
    assert reranker is not None
    return reranker.score("the otter", texts, deadline)


@pytest.mark.usefixtures("installed")
def test_texts_are_scored_in_their_order() -> None:
    """Every text has its score, for any batch size."""
    texts = [f"otter {number}" if number % 3 else "the otter" for number in range(11)]
    assert scores("known", texts) == [1.0 if number % 3 else 2.0 for number in range(11)]


@pytest.mark.usefixtures("installed")
def test_what_is_not_read_in_time_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are scored in small batches until the deadline; the rest has no score."""
    ticks = iter((0.0, 9.0))
    monkeypatch.setattr(rerank, "monotonic", lambda: next(ticks))
    done = scores("known", ["otter"] * 6, 5.0)
    assert done == [1.0] * 4 + [None] * 2


@pytest.mark.usefixtures("installed")
def test_a_model_that_cannot_be_loaded_is_unavailable_in_one_line() -> None:
    """A missing model is reported in one line, with the meaning of the setting."""
    with pytest.raises(ModelUnavailable, match=r"unknown/model cannot be loaded: .* local folder$") as caught:
        scores("unknown/model", ["otter"])
    assert "rerank.model" in caught.value.hint


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("model", "said"), [("known-broken", "out of memory$"), ("known-short", "0 scores for 1")])
def test_a_model_that_fails_gives_our_error(model: str, said: str) -> None:
    """Any exception of the package, and too few scores, become one error of ours."""
    with pytest.raises(ModelFault, match=said):
        scores(model, ["otter"])


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sentence-transformers the model is unavailable, with a hint what to install."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailable, match="sentence_transformers") as caught:
        scores("known", ["otter"])
    assert "lorelog[local]" in caught.value.hint


@pytest.mark.usefixtures("installed")
def test_a_lone_surrogate_is_scored() -> None:
    """Invalid Unicode is replaced before it reaches the model."""
    (score,) = scores("known", ["otter \udcff"])
    assert score is not None
    assert math.isfinite(score)
