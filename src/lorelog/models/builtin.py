"""The built-in encoder: e5-small-v2 as int8 ONNX, run here, without a network.

Every text is run alone, and as many texts at a time as there are threads. That looks slow and is not. The int8 form
takes its activation scales from the whole input tensor, so in a batch each vector depends on its neighbours: the same
text alone and among seven others differs by cosine .994-.998, even when all are equally long and nothing is padded,
and the contract says same text, same vector. Measured on two Neoverse-N1 cores, wall ms a text (CPU ms):

    texts of                                     31 tokens       247 tokens    same vector?
    one at a time, session with 2 threads      14.5 (23.2)       109 (199)     yes
    batches of 4 by length, 2 threads          11.0 (19.5)        99 (195)     no
    batches of 8 by length, 2 threads          10.1 (19.0)       101 (199)     no
    batches of 32 by length, 2 threads          9.8 (19.0)       113 (222)     no
    one at a time, 2 callers of one session    10.2 (20.2)    95-102 (190)     yes   <- this

A lone query gives up little for it: 9.9 ms instead of 8.3 with two threads inside the session. Work goes longest
first, so that the session's memory grows once and no thread is left alone with the longest text at the end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from lorelog.models.e5 import Encoder

FOLDER = Path(__file__).parent / "data" / "e5-small-v2"
MAX_DEFAULT_THREADS = 4
"""An editor and an agent share the machine: more is taken only when asked for."""


class BuiltinEmbedder:
    """Embeds with e5-small-v2, which wants to be told whether a text is a query or a passage."""

    provider = "builtin"
    model = "e5-small-v2"

    def __init__(self, options: EmbedOptions, folder: Path = FOLDER) -> None:
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._folder = folder
        self._lock = Lock()
        self._encoder: Encoder | None = None
        self._pool: ThreadPoolExecutor | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        if not texts:
            return EmbeddedTexts(())
        encoder, pool = self._open()
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        passages = (f"passage: {texts[position]}" for position in longest_first)
        by_position = dict(zip(longest_first, pool.map(encoder.encode, passages), strict=True))
        encoded = [by_position[position] for position in range(len(texts))]
        return EmbeddedTexts(
            vectors=tuple(one.vector for one in encoded),
            truncated=sum(one.truncated for one in encoded),
            tokens=sum(one.tokens for one in encoded),
        )

    def embed_query(self, text: str) -> Vector:
        encoder, _ = self._open()
        return encoder.encode(f"query: {text}").vector

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._encoder = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _open(self) -> tuple[Encoder, ThreadPoolExecutor]:
        """Load on first use. One pool for all callers, so that the bound on threads holds whoever calls."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._encoder is None:
                self._encoder = _load_encoder(self._folder)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-embed")
            return self._encoder, self._pool


def _load_encoder(folder: Path) -> Encoder:
    # From 1.29 on, onnxruntime reports to its maker's servers and keeps a device id in the home directory unless this
    # is set before it is imported. What people remember is nobody's business; a value they set themselves stands.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.e5 import Encoder
    except ImportError as error:
        raise ModelUnavailable(
            f"the built-in model cannot run: {error}",
            hint="install its packages: python -m pip install numpy onnxruntime tokenizers",
        ) from error
    return Encoder(folder)
