"""Properties of models by name: query and document prefixes, pooling, and whether vectors can be truncated.

Many encoders were trained with a short prefix before every query and every document, and retrieve worse without it. Servers
and exports do not add prefixes, so they are added here according to the family of the model's name; settings override them.

The document prefix is part of a vector. Vectors are therefore stored under a model name with a suffix if the prefix or the
number of dimensions is not the default of that provider and model (see `vector_model_name`); the query prefix leaves no
stored vector and needs none. For the same reason a released row of the table never changes (a test pins the rows): later
findings about a family go into settings, or into a name that no stored vector has.
"""

from __future__ import annotations

import re

from msgspec import Struct

from lorelog.core.errors import ConfigError
from lorelog.core.ids import sha256
from lorelog.core.options import AUTO_PROVIDER, EmbedOptions


class PromptPrefixes(Struct, frozen=True):
    """Text inserted before a query and before a document."""

    query: str = ""
    document: str = ""


NO_PREFIXES = PromptPrefixes()


class ModelFamily(Struct, frozen=True):
    """Models that were trained in the same way."""

    name: str
    """Regular expression for the last part of a model's name, matched from the start of a word."""
    prefixes: PromptPrefixes = NO_PREFIXES
    pooling: str = "mean"
    """How to pool hidden states if an export does not say: mean, cls or lasttoken."""
    matryoshka: bool = False
    """Whether the first numbers of a vector form a usable shorter vector."""


_SENTENCE_PREFIXES = PromptPrefixes("Represent this sentence for searching relevant passages: ")
_INSTRUCT_PREFIX = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

FAMILIES: tuple[ModelFamily, ...] = (
    ModelFamily(
        r"(multilingual-)?e5-(small|base|large)-instruct|multilingual-e5-large-instruct",
        PromptPrefixes(_INSTRUCT_PREFIX),
    ),
    ModelFamily(r"e5-mistral", PromptPrefixes(_INSTRUCT_PREFIX), "lasttoken"),
    ModelFamily(r"(multilingual-)?e5-(small|base|large)", PromptPrefixes("query: ", "passage: ")),
    ModelFamily(r"nomic-embed-text-v1(?!\.)", PromptPrefixes("search_query: ", "search_document: ")),
    ModelFamily(r"nomic-embed-text", PromptPrefixes("search_query: ", "search_document: "), matryoshka=True),
    ModelFamily(r"bge-(small|base|large)-en", _SENTENCE_PREFIXES, "cls"),
    ModelFamily(r"bge-(small|base|large)-zh", PromptPrefixes("为这个句子生成表示以用于检索相关文章："), "cls"),
    ModelFamily(r"bge-", NO_PREFIXES, "cls"),
    ModelFamily(r"mxbai-embed-(large|2d)", _SENTENCE_PREFIXES, "cls", matryoshka=True),
    ModelFamily(r"snowflake-arctic-embed(2|-[lm]-v2)", PromptPrefixes("query: "), "cls", matryoshka=True),
    ModelFamily(r"snowflake-arctic-embed-m-v1\.5", _SENTENCE_PREFIXES, "cls", matryoshka=True),
    ModelFamily(r"snowflake-arctic-embed", _SENTENCE_PREFIXES, "cls"),
    ModelFamily(
        r"embeddinggemma", PromptPrefixes("task: search result | query: ", "title: none | text: "), matryoshka=True
    ),
    ModelFamily(r"qwen3-embedding", PromptPrefixes(_INSTRUCT_PREFIX), "lasttoken", matryoshka=True),
    ModelFamily(r"jina-embeddings-v4-text-retrieval", PromptPrefixes("Query: ", "Passage: "), matryoshka=True),
    ModelFamily(r"gte-multilingual-base", NO_PREFIXES, "cls", matryoshka=True),
    ModelFamily(r"gte-(base|large)-en-v1\.5", NO_PREFIXES, "cls"),
)
_UNKNOWN_FAMILY = ModelFamily("")

_KEYWORDS = (
    *("e5-", "nomic-embed-text", "bge-", "mxbai-embed-", "snowflake-arctic-embed", "embeddinggemma"),
    *("qwen3-embedding", "jina-embeddings-v4-text-retrieval", "gte-"),
)
"""Text that names of the families contain. Most names contain none, and compiling all patterns takes 3 ms of a search."""


def find_family(model: str) -> ModelFamily:
    """Return the family of a model, by the last part of its id or path without an Ollama tag."""
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    if not any(keyword in name for keyword in _KEYWORDS):
        return _UNKNOWN_FAMILY
    return next((family for family in FAMILIES if re.search(rf"(?<![a-z0-9]){family.name}", name)), _UNKNOWN_FAMILY)


def prefixes_from_prompts(prompts: object) -> PromptPrefixes | None:
    """Return the prefixes in a model's own `prompts`, or None if it has none."""
    if not isinstance(prompts, dict):
        return None
    texts = {name: value for name, value in prompts.items() if isinstance(value, str)}
    query = texts.get("query", "")
    document = next((texts[name] for name in ("document", "passage") if texts.get(name)), "")
    return PromptPrefixes(query, document) if query or document else None


def resolve_prefixes(options: EmbedOptions, defaults: PromptPrefixes) -> PromptPrefixes:
    return PromptPrefixes(
        defaults.query if options.query_prefix == AUTO_PROVIDER else options.query_prefix,
        defaults.document if options.document_prefix == AUTO_PROVIDER else options.document_prefix,
    )


def vector_model_name(model: str, prefix: str, dimensions: int) -> str:
    """Return the name that vectors are stored under. Pass `prefix` and `dimensions` only if they are not the defaults."""
    name = f"{model}@{dimensions}" if dimensions else model
    return f"{name}+{sha256(prefix.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}" if prefix else name


def requested_dimensions(model: str, dimensions: int, *, accepted: bool | None = False) -> int:
    """Return the dimensions to request from a provider for vectors of so many; 0 if they are the default, or truncated here.

    `accepted` says whether the provider takes a number for the model; None if that is unknown: then it is requested and the
    reply is checked. Raise ConfigError if vectors can be neither requested nor truncated.
    """
    is_matryoshka = find_family(model).matryoshka
    if accepted or (accepted is None and not is_matryoshka):
        return dimensions
    if is_matryoshka or not dimensions:
        return 0
    raise ConfigError(
        f"the vectors of {model} cannot have {dimensions} dimensions: it is not a Matryoshka model",
        hint="leave embedding.dimensions at 0, or choose a model whose vectors can be truncated ('lorelog docs providers')",
    )
