"""Records as they are seen from one place: by whom they are asked for, and from which project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorelog.core.options import SearchOptions
from lorelog.core.query import SearchReply
from lorelog.services.place import Place
from lorelog.services.records.book import Book

if TYPE_CHECKING:
    from lorelog.services.records.keys import Keyring

Search = Callable[[str, SearchOptions], SearchReply]
"""Searches memories and records; the options' filters say of which projects."""


@dataclass(frozen=True, slots=True)
class Archive:
    """What the verbs on records need."""

    place: Place
    book: Book
    keyring: Keyring
    """Signs for whoever asks, where they have said who they are; and knows the keys of others."""
    agent: str
    """Who speaks where nobody is named; empty where nobody has said so."""
    search: Search
    options: SearchOptions
    """How to search where nothing else is said."""
    projects: tuple[str, ...]
    """Projects that are seen from here, this one first, the global one (empty) among them."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of texts that no record may hold, beside those that are always taken out."""
    find: Search | None = None
    """Finds records for whoever judges them: hits do not say what they are worth, nor what they would cost to read."""
    find_words: Search | None = None
    """The same by words alone: no model is asked, which takes longer than all the rest."""
