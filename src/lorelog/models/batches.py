"""Which texts go to a server together: as many as it takes, and no more than its limit of tokens.

Tokens are guessed from letters, since every vendor cuts words its own way: three ASCII letters make one (prose has four to
five, code three), any other letter makes two. That is more than there are, as a rule; where digits and hashes make it less,
the server refuses and `remote` asks for half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def guess_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few."""
    size = len(text)
    plain = size if text.isascii() else sum(letter < "\x80" for letter in text)
    return plain // 3 + 2 * (size - plain) + 1


def batches(texts: Sequence[str], most_texts: int, most_tokens: int) -> Iterator[Sequence[str]]:
    """Yield all texts in order, in pieces within both limits; a text beyond the limit of tokens goes alone."""
    start, tokens = 0, 0
    for place, text in enumerate(texts):
        size = guess_tokens(text)
        if place > start and (place - start >= most_texts or tokens + size > most_tokens):
            yield texts[start:place]
            start, tokens = place, 0
        tokens += size
    if start < len(texts):
        yield texts[start:]
