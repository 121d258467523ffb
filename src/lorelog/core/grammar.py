"""Numbers and articles in messages."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `1 memory`, `2,000 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def with_article(noun: str) -> str:
    """Return `a review`, `an evidence`."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"
