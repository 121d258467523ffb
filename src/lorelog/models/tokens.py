"""How many tokens a text is, by the built-in model's own tokenizer.

It reads no word of more than a hundred letters: such a word, as data often has, would be one token to it and cost many to
whoever reads it. What it does not know is counted by its length here, so a count is never lower than the tokenizer's.

Nothing is loaded before the first count; then it takes about 100 ms, and a kilobyte less than one.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

from lorelog.core.errors import ModelUnavailable

TOKENIZER = Path(__file__).parent / "data" / "e5-small-v2" / "tokenizer.json"
_LETTERS_A_TOKEN = 2
"""Of what it does not know. Random letters and digits cost other tokenizers about this."""


class TokenCounter:
    """Counts tokens. Threads may share it."""

    def __init__(self, path: Path = TOKENIZER) -> None:
        self._path = path
        self._lock = Lock()
        self._tokenizer: Any = None
        self._unknown = -1

    def __call__(self, text: str) -> int:
        """Return how many tokens a text is. Raise ModelUnavailable where the tokenizer is not installed."""
        tokenizer = self._open()
        # A lone surrogate is refused by the tokenizer.
        encoding = tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)
        ids: list[int] = encoding.ids
        if self._unknown not in ids:
            return len(ids)
        unread = [
            int(end - start)
            for one, (start, end) in zip(ids, encoding.offsets, strict=True)
            if one == self._unknown and end > start
        ]
        return len(ids) + sum(letters // _LETTERS_A_TOKEN for letters in unread)

    def _open(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = self._load()
                self._unknown = self._tokenizer.token_to_id("[UNK]")
            return self._tokenizer

    def _load(self) -> Any:
        try:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_buffer(self._path.read_bytes())
        except (ImportError, OSError, ValueError) as error:
            raise ModelUnavailable(
                f"tokens cannot be counted: {error}",
                hint="reinstall lorelog; in a source checkout run: python scripts/fetch_model.py",
            ) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer
