"""What the operations on memories that are there already answer, as JSON."""

from __future__ import annotations

from typing import TypedDict

from lorelog.operations.replies import AddShape


class SupersedeShape(AddShape):
    """Where the new memory stands, and in whose place."""

    supersedes: str


class ExpiryShape(TypedDict):
    """The days of a memory; empty where there are none."""

    memory: str
    expires: str
    review_after: str
    changed: bool


class FeedbackShape(TypedDict):
    """A judgement, as it is kept."""

    id: str
    memory: str
    query: str
    relevance: str
    changed: bool


class TwinShape(TypedDict):
    """One of several memories that say nearly the same."""

    id: str
    memory: str
    source: str
    start_line: int
    end_line: int
    project: str
    date: str
    type: str
    similarity: float
    keep: bool
    text: str


class TwinsShape(TypedDict):
    """Groups of memories that say nearly the same, the one to keep first in each."""

    groups: list[list[TwinShape]]
    compared: int
    by_vectors: int
    more: bool
    notes: list[str]


class EpisodeShape(TypedDict):
    """The memory that sums an episode up."""

    summary: AddShape
    sources: list[str]
    retained: bool
    changed: bool
    notes: list[str]
