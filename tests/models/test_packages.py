"""Packages of models: imported when a model is used, missing ones named with what to install, and no telemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.tiny_crossencoder import write_model

from lorelog.core.options import RERANK_PROVIDERS
from lorelog.models.embed import PROVIDERS

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {
    *("numpy", "onnxruntime", "tokenizers", "huggingface_hub", "sentence_transformers", "torch"),
    *("http", "http.client", "ssl", "concurrent.futures"),
}
EMBED = """
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder
model = open_embedder(EmbedOptions({provider!r}, threads=8))
"""
RERANK = """
from lorelog.core.options import RerankOptions
from lorelog.models.rerank import open_reranker
model = open_reranker(RerankOptions({provider!r}, "otters/tiny-reranker"))
assert (model.provider, model.score("x", [], None)) == ({provider!r}, [])
"""
EMBED_QUERY = EMBED.format(provider="builtin") + "model.embed_query('x')\n"
EMBED_ONNX = EMBED.format(provider="onnx") + "model.embed_query('x')\n"
SCORE = RERANK.format(provider="onnx") + "print(model.score('x', ['y'], None))\n"


def run(program: str, home: Path, *on_path: Path, **environment: str) -> str:
    """Return what a program prints in a new process with an empty home; of ModelUnavailable, message and hint."""
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, (*on_path, SOURCE))),
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "HF_HUB_CACHE": str(home / "hub"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",  # numpy's BLAS would keep threads for itself
    }
    lines = "".join(f"    {line}\n" for line in program.strip().splitlines())
    whole = f"import sys\nfrom lorelog.core.errors import ModelUnavailable\ntry:\n{lines}"
    whole += "except ModelUnavailable as error:\n    print(error.message, '|', error.hint)\n"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


def cache_reranker(home: Path) -> None:
    write_model(home / "hub" / "models--otters--tiny-reranker" / "snapshots" / "aaa", weights="onnx/model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import lorelog.models.embed",
        *(EMBED.format(provider=name) for name in sorted(PROVIDERS)),
        *(RERANK.format(provider=name) for name in RERANK_PROVIDERS),
    ],
)
def test_opening_is_light(program: str, tmp_path: Path) -> None:
    """Importing the registry, and opening and closing any model, loads no package of a model and no HTTP client."""
    loaded = run(f"{program}\nprint(*sys.modules)", tmp_path).split()
    assert "lorelog.models" in loaded
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize(
    ("program", "package", "message", "hint"),
    [
        (EMBED_QUERY, "onnxruntime", "onnxruntime", "pip install numpy onnxruntime"),
        (EMBED_QUERY, "numpy", "numpy", "pip install numpy onnxruntime"),
        (SCORE, "onnxruntime", "onnxruntime", "lorelog[onnx]"),
        (SCORE, "tokenizers", "tokenizers", "lorelog[onnx]"),
        (SCORE, "numpy", "numpy", "lorelog[onnx]"),
    ],
)
def test_a_missing_package_is_named(program: str, package: str, message: str, hint: str, tmp_path: Path) -> None:
    """Without one of its packages a model can be opened but is unavailable, with a hint what to install."""
    cache_reranker(tmp_path)
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module named {package}')")
    said, _, advice = run(program, tmp_path, tmp_path).partition("|")
    assert message in said
    assert hint in advice


@pytest.mark.parametrize(
    ("program", "model"), [(EMBED_ONNX, "gpahal/bge-m3-onnx-int8"), (SCORE, "otters/tiny-reranker")]
)
def test_nothing_is_downloaded_without_the_package_for_it(program: str, model: str, tmp_path: Path) -> None:
    """Without huggingface_hub an id that is not cached is one line with the cache and the extra to install."""
    (tmp_path / "huggingface_hub.py").write_text("raise ModuleNotFoundError('No module named huggingface_hub')")
    message, _, hint = run(program, tmp_path, tmp_path).partition("|")
    assert f"{model} is not in the Hugging Face cache {tmp_path / 'hub'}" in message
    assert "pip install 'lorelog[onnx]'" in hint


@pytest.mark.slow
def test_a_folder_of_a_clone_is_not_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in the working directory is not taken for one that was requested by id; offline, that is one line."""
    write_model(tmp_path / "otters" / "tiny-reranker")
    monkeypatch.chdir(tmp_path)
    said = run(SCORE, tmp_path, HF_HUB_OFFLINE="1")
    assert "otters/tiny-reranker could not be downloaded" in said
    assert "rerank.model" in said
    assert "\n" not in said


@pytest.mark.slow
@pytest.mark.parametrize("program", [EMBED_QUERY, SCORE])
def test_nothing_is_reported_to_anyone(program: str, tmp_path: Path) -> None:
    """Running a model leaves no device id and no cache of events for onnxruntime's telemetry in the home directory.

    In a bare environment: telemetry holds itself back when it sees that it runs in someone's CI.
    """
    cache_reranker(tmp_path)
    before = set(tmp_path.rglob("*"))
    assert run(program, tmp_path) in {"", "[1.0]"}
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to count threads")
def test_the_session_starts_no_threads_of_its_own(tmp_path: Path) -> None:
    """A process that has answered a query has one thread according to the operating system."""
    count = "print([line for line in open('/proc/self/status') if line.startswith('Threads')][0].split()[1])"
    assert run(EMBED_QUERY + count, tmp_path) == "1"
