"""What vectors are called: by provider and model, and by a number when one model has made them anew.

Vectors of two names never meet. A model that makes its vectors anew does so under the next number, so that those it made
before can go on answering, and can be gone back to.
"""

from __future__ import annotations

from collections.abc import Iterable

_NUMBER = "\n"
"""Between a model's name and a number: no name holds it."""


def owner_of(space: str) -> str:
    """Return the provider and model that made these vectors."""
    return space.partition(_NUMBER)[0]


def model_of(space: str) -> str:
    """Return the model alone, which is part of every chunk's id."""
    return owner_of(space).partition("/")[2]


def newest(owner: str, names: Iterable[str]) -> str:
    """Return the name of the vectors that a model made last; its own name when it made none."""
    return max((name for name in names if owner_of(name) == owner), key=_number, default=owner)


def next_after(owner: str, names: Iterable[str]) -> str:
    """Return a name under which a model has no vectors yet."""
    mine = [name for name in names if owner_of(name) == owner]
    return f"{owner}{_NUMBER}{1 + max(map(_number, mine))}" if mine else owner


def _number(space: str) -> int:
    return int(space.partition(_NUMBER)[2] or 0)
