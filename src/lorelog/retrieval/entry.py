"""A text that stands for itself before a piece of a long one.

A long entry is cut into many chunks, and every one of them is another chance to look like the answer: the best of ten
draws says less than a single one. So a chunk counts for more the fewer there are of its entry, which is an outermost section of
its file with all that is below (a note, a page under one title) or a turn of a journal (`names_entry`). From `MOST` chunks on it makes no
difference any more. Measured without the set itself among those it was learned on (nDCG@10): turns between a person and
an agent .439 to .511 and .530 to .565, sessions .558 to .568, nothing lower by more than .004.
The weight is learned with those of the close reading (`python -m bench.quality.fit` prints it).
"""

from __future__ import annotations

from math import log

from lorelog.core.query import Part

ENTRY = 0.07
"""What an entry of one chunk gets. Learned is .11; with that, German questions lost half a point."""
MOST = 4
"""Chunks of an entry that gets nothing."""


def find_share(size: int) -> float:
    """Return how far an entry of so many chunks stands for itself: 1 for one, 0 for `MOST` and more."""
    return 1.0 - log(min(max(size, 1), MOST)) / log(MOST)


def find_worth(size: int) -> float:
    """Return what an entry of so many chunks adds to the score."""
    return ENTRY * find_share(size)


def explain(size: int) -> tuple[Part, ...]:
    """Return that by name."""
    said = "an entry of its own" if size == 1 else f"its entry has {size}{' or more' if size >= MOST else ''} chunks"
    return (Part("entry", find_worth(size), said),)
