"""There is one list of stop words and one splitter of sentences, in `language/`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lorelog
from lorelog.language import lexicon

SOURCE = Path(lorelog.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if not path.is_relative_to(SOURCE / "language"))
MIN_WORDS, MIN_SHARE = 12, 0.5
MAX_STOP_LISTS, MAX_SPLITTERS = 12, 0
"""These only fall."""


def word_lists(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of the texts and collections that a module assigns, with their line."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value.replace("|", " ").split()
            elif isinstance(node, ast.Set | ast.Tuple | ast.List):
                parts = [part.value for part in node.elts if isinstance(part, ast.Constant)]
                yield node.lineno, [part for part in parts if isinstance(part, str)]


def test_there_is_no_second_list_of_stop_words() -> None:
    """A literal of a dozen words, half of them function words, belongs to `language/words`."""
    function_words = lexicon("function_words")
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in MODULES
        for line, words in word_lists(ast.parse(path.read_text("utf-8")))
        if len(set(words)) >= max(MIN_WORDS, 0.9 * len(words))
        and all(word.replace("'", "").replace("-", "").isalpha() and word.islower() for word in words)
        and sum(word in function_words for word in words) >= MIN_SHARE * len(words)
    ]

    assert len(found) <= MAX_STOP_LISTS, "\n".join(found)


def test_there_is_no_second_splitter_of_sentences() -> None:
    """A pattern that looks behind for the end of a sentence belongs to `language/analyser.py`."""
    found = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any("(?<=[.!?" in text or "[.!?;]+(?=" in text for text in [path.read_text("utf-8")])
    ]

    assert len(found) <= MAX_SPLITTERS, found
