"""Words and sentences: the tokenizer, the splitter of sentences, and the word lists.

Useful for every room that reads prose. Not for meaning: what a sentence says is decided by the room that asks.

Word lists are files: one word or phrase a line in `words/`, `#` begins a comment. Words are in lower case, except in a list of names or sentences (`# as written` in its first line). A list that another one includes
is named in its first line (`# with stop_words`). Lists are read at first use. Hooks load this module, so it imports nothing.

| list | words |
|---|---|
| `stop_words` | say nothing in a query; `I`, `my`, `we` and `you` are not among them (`language/analyser.py`) |
| `function_words` | stop words, and the other words that say nothing about a subject; English, and the commonest of German, French and Spanish |
"""

from __future__ import annotations

_lists: dict[str, frozenset[str]] = {}
_FOLDER = __file__.rpartition("/")[0] + "/words/"


def lexicon(name: str) -> frozenset[str]:
    """Return the words of a list."""
    if name not in _lists:
        with open(f"{_FOLDER}{name}.txt", encoding="utf-8") as file:  # noqa: PTH123 (hooks do not import pathlib)
            lines = file.read().splitlines()
        first = lines[0].split()
        included = lexicon(first[2]) if first[:2] == ["#", "with"] else frozenset()
        _lists[name] = included.union(line for line in lines if line and not line.startswith("#"))
    return _lists[name]
