"""Whether a provider has what it needs here: a key, a package, files. Nobody is connected to, and nothing is loaded.

For whoever looks things over before a run fails: it raises what the first call would raise, as far as that can be known here.
"""

from __future__ import annotations

from importlib.util import find_spec

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models import PROVIDERS, open_embedder

_RUNS_ONNX = ("numpy", "onnxruntime", "tokenizers")


def check_ready(options: EmbedOptions) -> str:
    """Return who embeds, in words. Raise ConfigError or ModelUnavailable where something is missing."""
    embedder = open_embedder(options)
    try:
        where = _check(embedder, options)
    finally:
        embedder.close()
    return f"{embedder.provider}/{embedder.model}{where}"


def _check(embedder: Embedder, options: EmbedOptions) -> str:
    from lorelog.models.remote import RemoteEmbedder

    if isinstance(embedder, RemoteEmbedder):
        return f" at {embedder.introduce()}"
    if options.provider in {"builtin", "onnx"}:
        _check_packages("numpy onnxruntime tokenizers", *_RUNS_ONNX)
    if options.provider == "builtin":
        _check_builtin()
    if options.provider == "onnx":
        from lorelog.models.onnx import check_files

        check_files(options.model or PROVIDERS["onnx"].default_model)
    if options.provider == "local":
        _check_packages("'lorelog[local]'", "sentence_transformers")
    return ""


def _check_packages(to_install: str, *packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ModelUnavailable(
            f"the package {missing[0]} is not installed", hint=f"install it: python -m pip install {to_install}"
        )


def _check_builtin() -> None:
    from lorelog.models.builtin import FOLDER

    if not (FOLDER / "model.onnx").is_file():
        raise ModelUnavailable(
            f"the built-in model is not there: {FOLDER}",
            hint="reinstall lorelog; in a source checkout run: python scripts/fetch_model.py",
        )
