"""Words of messages: numbers with nouns, articles, and the name that was probably meant."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def plural(count: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `1 memory`, `2,000 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def with_article(noun: str) -> str:
    """Return `a review`, `an evidence`."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def nearest_name(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that was probably meant, or ''. `cutoff` is how similar it must be, from 0 to 1."""
    from difflib import get_close_matches  # needed for error messages only

    return next(iter(get_close_matches(word, list(names), n=1, cutoff=cutoff)), "")
