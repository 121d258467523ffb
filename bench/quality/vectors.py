"""Vectors kept from run to run, so that a corpus is embedded once and not each time a weight is tried.

A folder holds `keys.txt` (SHA-256 of each prefixed text, a line each), `vectors.f16` (their vectors in the same order)
and `model.json` (whose they are). Files only grow. Vectors are written before their keys, so that a run that was
stopped in between leaves a tail without a name, which the next one writes over. Two processes may add at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lorelog.core.ports import EmbeddedTexts, Embedder, Vector

_KEY_BYTES = 65  # a digest in hex and the end of its line
_AT_ONCE = 64


class BadVectors(Exception):
    """The folder's vectors are of another model."""


class VectorFolder:
    """Vectors by text, of one model."""

    def __init__(self, folder: Path, model: str, dimension: int = 384) -> None:
        self._folder = folder
        self._model = model
        self._dimension = dimension
        folder.mkdir(parents=True, exist_ok=True)
        self._check_model()
        self._rows: dict[bytes, int] = {}
        self._vectors: Any = np.zeros((0, dimension), np.float16)
        self._read()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, text: str) -> Vector | None:
        """Return the stored vector of a prefixed text, or None."""
        row = self._rows.get(_digest(text))
        return None if row is None else np.asarray(self._vectors[row], dtype="<f4").tobytes()

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors of prefixed texts."""
        new = {text: vector for text, vector in vectors.items() if _digest(text) not in self._rows}
        if not new:
            return
        rows = np.frombuffer(b"".join(new.values()), dtype="<f4").reshape(len(new), self._dimension)
        with self._alone():
            known = self._count()
            with (self._folder / "vectors.f16").open("r+b") as file:
                file.seek(known * self._dimension * 2)
                file.write(rows.astype("<f2").tobytes())
            with (self._folder / "keys.txt").open("r+b") as file:
                file.seek(known * _KEY_BYTES)
                file.truncate()
                file.write(b"".join(_digest(text).hex().encode() + b"\n" for text in new))
        self._read()

    def _count(self) -> int:
        return (self._folder / "keys.txt").stat().st_size // _KEY_BYTES

    def _read(self) -> None:
        for name in ("keys.txt", "vectors.f16"):
            (self._folder / name).touch()
        rows = self._count()
        if rows == len(self._vectors):
            return
        with (self._folder / "keys.txt").open("rb") as file:
            file.seek(len(self._vectors) * _KEY_BYTES)
            for row in range(len(self._vectors), rows):
                self._rows.setdefault(bytes.fromhex(file.read(_KEY_BYTES)[:-1].decode()), row)
        self._vectors = np.memmap(self._folder / "vectors.f16", np.dtype("<f2"), "r", shape=(rows, self._dimension))

    def _check_model(self) -> None:
        path = self._folder / "model.json"
        mine = {"model": self._model, "dimension": self._dimension}
        with self._alone():
            if not path.exists():
                path.write_text(json.dumps(mine) + "\n", "utf-8")
        if (found := json.loads(path.read_text("utf-8"))) != mine:
            raise BadVectors(f"{self._folder} holds vectors of {found}, not of {mine}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class KeptEmbedder:
    """An embedder with a folder of stored vectors; the model embeds the missing ones."""

    def __init__(self, inner: Embedder, folder: VectorFolder) -> None:
        self.provider = inner.provider
        self.model = inner.model
        self.asked = 0
        """Number of texts that the model embedded."""
        self._inner = inner
        self._folder = folder

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        missing = [text for text in dict.fromkeys(texts) if self._folder.get(f"passage: {text}") is None]
        for start in range(0, len(missing), _AT_ONCE):
            part = missing[start : start + _AT_ONCE]
            made = self._inner.embed_documents(part).vectors
            self._keep({f"passage: {text}": vector for text, vector in zip(part, made, strict=True)})
        return EmbeddedTexts(tuple(self._known(f"passage: {text}") for text in texts))

    def embed_query(self, text: str) -> Vector:
        known = self._folder.get(f"query: {text}")
        if known is None:
            self._keep({f"query: {text}": self._inner.embed_query(text)})
        return known or self._known(f"query: {text}")

    def close(self) -> None:
        self._inner.close()

    def _keep(self, vectors: Mapping[str, Vector]) -> None:
        self.asked += len(vectors)
        self._folder.add(vectors)

    def _known(self, text: str) -> Vector:
        vector = self._folder.get(text)
        if vector is None:
            raise BadVectors("a vector that was just kept is not there: is something else writing to the folder?")
        return vector


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
