"""What is known of models by their names: which words they want in front of questions and texts, and how they are cut.

Many encoders were trained with a few words in front of every question and every text, and find less without them. Servers
and exports do not add these, so they are added here, by the family that a model's name tells. Settings go before that.

A text's form is part of its vector. So vectors are kept under the model's name with a mark where the form or the number of
dimensions is not the usual one of that provider and model: see `identity`. A question's form leaves no vector behind and
needs no mark. For the same reason a row of the table stays as it is once it is out: a test holds the rows fast, and what
is learned later about a family already in use goes to settings, or to a name that vectors do not have yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from lorelog.core.errors import ConfigError
from lorelog.core.options import AUTO, EmbedOptions


@dataclass(frozen=True, slots=True)
class Forms:
    """What stands in front of a question, and of a text."""

    query: str = ""
    document: str = ""


PLAIN = Forms()


@dataclass(frozen=True, slots=True)
class Family:
    """Models that were trained alike."""

    name: str
    """A regular expression for how the last part of a model's name goes on from a word's beginning."""
    forms: Forms = PLAIN
    pooling: str = "mean"
    """Which of the last states speaks for the text, where an export does not say: mean, cls or lasttoken."""
    matryoshka: bool = False
    """Whether the first numbers of a vector are a vector of their own."""


_SENTENCE = Forms("Represent this sentence for searching relevant passages: ")
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

FAMILIES: tuple[Family, ...] = (
    Family(r"(multilingual-)?e5-(small|base|large)-instruct|multilingual-e5-large-instruct", Forms(_INSTRUCT)),
    Family(r"e5-mistral", Forms(_INSTRUCT), "lasttoken"),
    Family(r"(multilingual-)?e5-(small|base|large)", Forms("query: ", "passage: ")),
    Family(r"nomic-embed-text-v1(?!\.)", Forms("search_query: ", "search_document: ")),
    Family(r"nomic-embed-text", Forms("search_query: ", "search_document: "), matryoshka=True),
    Family(r"bge-(small|base|large)-en", _SENTENCE, "cls"),
    Family(r"bge-(small|base|large)-zh", Forms("为这个句子生成表示以用于检索相关文章："), "cls"),
    Family(r"bge-", PLAIN, "cls"),
    Family(r"mxbai-embed-(large|2d)", _SENTENCE, "cls", matryoshka=True),
    Family(r"snowflake-arctic-embed(2|-[lm]-v2)", Forms("query: "), "cls", matryoshka=True),
    Family(r"snowflake-arctic-embed-m-v1\.5", _SENTENCE, "cls", matryoshka=True),
    Family(r"snowflake-arctic-embed", _SENTENCE, "cls"),
    Family(r"embeddinggemma", Forms("task: search result | query: ", "title: none | text: "), matryoshka=True),
    Family(r"qwen3-embedding", Forms(_INSTRUCT), "lasttoken", matryoshka=True),
    Family(r"jina-embeddings-v4-text-retrieval", Forms("Query: ", "Passage: "), matryoshka=True),
    Family(r"gte-multilingual-base", PLAIN, "cls", matryoshka=True),
    Family(r"gte-(base|large)-en-v1\.5", PLAIN, "cls"),
)
_UNKNOWN = Family("")


def family_of(model: str) -> Family:
    """Return what is known of a model: by the last part of an id or a path, without an Ollama tag."""
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    return next((one for one in FAMILIES if re.search(rf"(?<![a-z0-9]){one.name}", name)), _UNKNOWN)


def forms_of_prompts(prompts: object) -> Forms | None:
    """Return the forms that a model's own prompts tell, or None where they tell none."""
    if not isinstance(prompts, dict):
        return None
    named = {name: value for name, value in prompts.items() if isinstance(value, str)}
    query = named.get("query", "")
    document = next((named[name] for name in ("document", "passage") if named.get(name)), "")
    return Forms(query, document) if query or document else None


def chosen_forms(options: EmbedOptions, usual: Forms) -> Forms:
    """Return the forms that the settings choose, or the usual ones."""
    return Forms(
        usual.query if options.query_prefix == AUTO else options.query_prefix,
        usual.document if options.document_prefix == AUTO else options.document_prefix,
    )


def identity(model: str, form: str, dimensions: int) -> str:
    """Return the name that vectors are kept under. `form` and `dimensions` are those that are not usual, or nothing."""
    name = f"{model}@{dimensions}" if dimensions else model
    return f"{name}+{sha256(form.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}" if form else name


@dataclass(frozen=True, slots=True)
class Size:
    """How many numbers a vector is to have: asked for, and kept of what comes. 0 is whatever comes."""

    asked: int = 0
    kept: int = 0


def chosen_size(model: str, wanted: int, takes: Callable[[str], bool | None]) -> Size:
    """Return how a vector of the wanted length is come by.

    `takes` says whether the provider can be asked for it with this model: yes, no, or unknown (then it is asked, and what
    it answers is looked at). Raise ConfigError where it can neither be asked for nor cut.
    """
    if not wanted:
        return Size()
    can_ask = takes(model)
    if can_ask:
        return Size(wanted, wanted)
    if family_of(model).matryoshka:
        return Size(0, wanted)
    if can_ask is None:
        return Size(wanted, wanted)
    raise ConfigError(
        f"the vectors of {model} cannot have {wanted} dimensions: it is no Matryoshka model",
        hint="leave embedding.dimensions at 0, or choose a model that can be cut (docs/providers.md)",
    )


def never(model: str) -> bool:
    """Say that vectors of a length cannot be asked for, whatever the model: only cut."""
    return False
