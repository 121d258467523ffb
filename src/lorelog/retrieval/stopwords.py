"""English words that say how a sentence is built, not what it is about.

They are dropped from questions only, never from documents: a question made of nothing else ("to be or not to be", "it")
must still find its text, and BM25 compares a chunk's length with the average length, which such words raise alike.
Negations are here because OR semantics cannot honour them anyway. `I`, `my`, `we` and `you` are not: in memories and
dialogues they tell who speaks, and questions that keep them find more (measured; the same holds against longer lists).
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a an the this that these those such it its they them their he him his she her hers
    and or but if then as not no of at by for with into to in on there
    is are was were be been do does did has have had can could will would should
    what which who whom whose when where why how i.e e.g
    """.split()  # noqa: SIM905 (a list literal would take a screen)
)
