"""Embedding over HTTP: batching, concurrency and error handling shared by all vendors.

Texts are sent in batches within the vendor's limits, a few in flight at once, and results keep the order of the texts.
Vendors tokenize differently, so tokens are estimated from characters: three ASCII characters make one token (prose has four
to five, code three), any other character makes two. That usually overestimates; where digits and hashes make it too low, the
server rejects the batch.

The first batch is sent alone: a wrong key, a wrong name or an unreachable server is then reported once, and the dimension is
known before anything depends on it. No text is sent only to learn the dimension.

A batch that a server finds too large is sent again in halves; a single text that is too long is sent without its second half
and counts as truncated. Every text must get one finite vector of the known dimension. A text that a server rejects, or has
no embedding for, must not block the index: it is isolated by bisecting its batch, and the others get their vectors. If one of
several batches fails, the vectors of the others are attached to the error, since they were paid for.

A vendor's API is an `EmbeddingAdapter`. No vendor SDK is used. Importing one costs a
second or more (openai 1.3 s, google-genai and voyageai as much), each has its own retries that ignore our time limit, and a
request is one JSON object.

OpenAI's format, of OpenAI, Voyage, Jina, Mistral and any compatible server. Base64 is a third of the size of JSON numbers,
and the decoded bytes are the stored form; a server may return numbers instead. Embeddings are sorted by `index`, since the
API guarantees no order. OpenAI and Mistral do not distinguish queries from documents: a model that does (nomic, e5, bge behind
a compatible server) gets the prefixes of its family, and its vectors are stored under a marked name, since other programs may
not add prefixes. Voyage marks queries by `input_type`; Jina by `task`, for models from v3 on, and is asked for numbers,
because the content of base64 differs between its models. Long texts are truncated by Voyage (by default) and Jina (`truncate`).

Google takes a batch of requests, one per text, with a task type. Its default model returns 3,072 dimensions; 768 are requested
unless the settings say otherwise. Only the full length comes normalized, but vectors are normalized before they are stored
anyway. The key goes into a header and never into the URL, which logs would keep.

Limits are the vendors' (Voyage: those of its strictest model; Mistral allows far fewer tokens than others), except for Jina's
and Google's tokens: those keep a reply within seconds.
"""

from __future__ import annotations

import array
import binascii
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from threading import Event, Lock
from time import monotonic
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from lorelog.core.errors import ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.core.vectors import unit_vector
from lorelog.models import http
from lorelog.models.embed.families import find_family, requested_dimensions, resolve_prefixes, vector_model_name


class EmbedRequest(Struct, frozen=True):
    """Texts to embed in one HTTP request."""

    model: str
    texts: Sequence[str]
    is_query: bool = False
    dimensions: int = 0
    """Dimensions to request; 0 leaves them to the vendor."""
    packed: bool = True
    """Whether to request base64 from a vendor that supports it."""


class EmbedResponse(Struct, frozen=True):
    """Unvalidated content of a response."""

    embeddings: list[Any]
    indexes: list[Any] | None = None
    """The text that each embedding belongs to, if the vendor returns it."""
    tokens: int = 0


class EmbeddingAdapter(Struct, frozen=True, kw_only=True):
    """A vendor's API."""

    base_url: str
    max_texts: int
    max_tokens: int
    """Limit of one request."""
    body: Callable[[EmbedRequest], dict[str, Any]]
    read: Callable[[dict[str, Any]], EmbedResponse]
    path: Callable[[str], str] = lambda model: "embeddings"
    takes_dimensions: Callable[[str], bool | None] = lambda model: False
    default_dimensions: Mapping[str, int] = field(default_factory=dict)
    """Dimensions to request of a model unless the settings say otherwise."""
    is_prefixed: bool = False
    """Whether vectors made with the prefixes of the model's family keep the plain model name."""
    key: http.KeyHeader = http.BEARER_HEADER
    endpoint: Callable[..., http.Endpoint] = http.Endpoint


class NonFiniteEmbedding(http.MalformedReply):
    """The model returned NaN or infinity for a text, so it has no embedding for that text."""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens in a text, usually too high."""
    size = len(text)
    ascii_size = size if text.isascii() else sum(letter < "\x80" for letter in text)
    return ascii_size // 3 + 2 * (size - ascii_size) + 1


def split_batches(texts: Sequence[str], max_texts: int, max_tokens: int) -> Iterator[Sequence[str]]:
    """Yield all texts in order, in batches within both limits; a text above the token limit is a batch of its own."""
    start, tokens = 0, 0
    for position, text in enumerate(texts):
        size = estimate_tokens(text)
        if position > start and (position - start >= max_texts or tokens + size > max_tokens):
            yield texts[start:position]
            start, tokens = position, 0
        tokens += size
    if start < len(texts):
        yield texts[start:]


_TOO_LARGE = re.compile(
    rb"too (many|large|long)|tokens per |per request|context (length|size)|batch size|at most \d+ requests|payload size|"
    rb"exceed[^.]{0,60}(length|limit|max|tokens)|max_tokens",
    re.IGNORECASE,
)
"""Server messages for a request that is too large. A false match costs a few requests before the error is reported."""
_MIN_TEXT_LETTERS = 200
"""Length below which a text is not truncated further."""

_TIMEOUT_COOLDOWN_S = 30.0
"""Pause for queries after a timeout: otherwise every search would wait for the timeout again."""
_MIN_REFUSED_TEXTS = 4
"""After this many rejected texts in a row, the cause is not their content."""


class _TextRejected(Exception):
    """An error that may concern one text of a batch rather than all."""

    def __init__(self, fault: ModelFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _BatchResult(Struct, frozen=True, kw_only=True):
    """Outcome of a batch: a vector per text, empty for rejected texts and after an error."""

    vectors: list[Vector]
    tokens: int = 0
    truncated: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    error: ModelError | None = None
    is_uncertain: bool = False
    """Whether the error may concern only some of the texts."""

    def __add__(self, other: _BatchResult) -> _BatchResult:
        shifted = {len(self.vectors) + position: reason for position, reason in other.refused.items()}
        return _BatchResult(
            vectors=self.vectors + other.vectors,
            tokens=self.tokens + other.tokens,
            truncated=self.truncated + other.truncated,
            refused={**self.refused, **shifted},
            error=self.error or other.error,
            is_uncertain=self.is_uncertain if self.error else other.is_uncertain,
        )


class RemoteEmbedder:
    """Embeds over HTTP through a vendor's adapter."""

    def __init__(self, options: EmbedOptions, adapter: EmbeddingAdapter, parallel_batches: int) -> None:
        self.provider = options.provider
        self.dimension = 0
        """Length of its vectors; 0 until the first reply."""
        self._name = options.model
        self._adapter = adapter
        self._parallel_batches = parallel_batches
        # A server may run a model that needs prefixes though its API adds none; only then are vectors marked.
        known_prefixes = find_family(self._name).prefixes
        self._prefixes = resolve_prefixes(options, known_prefixes)
        default_size = adapter.default_dimensions.get(self._name.removeprefix("models/"), 0)
        self._dimensions = options.dimensions or default_size
        self._requested = requested_dimensions(
            self._name, self._dimensions, accepted=adapter.takes_dimensions(self._name)
        )
        prefix, default_prefix = self._prefixes.document, known_prefixes.document if adapter.is_prefixed else ""
        self.model = vector_model_name(
            self._name,
            # A blank distinguishes "no prefix" from "the default prefix".
            (prefix or " ") if prefix != default_prefix else "",
            self._dimensions if self._dimensions != default_size else 0,
        )
        self._endpoint = adapter.endpoint(
            options.base_url or adapter.base_url,
            options.timeout_s,
            http.Credentials(options.api_key, options.key_variable, adapter.key),
            limiter=http.RateLimiter(parallel_batches),
        )
        self._batch_size = min(options.batch_size or adapter.max_texts, adapter.max_texts)
        self._lock = Lock()
        self._packed = True
        self._cooldown_until = 0.0

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        prepared = [_sanitize_text(self._prefixes.document + text) for text in texts]
        total = _BatchResult(vectors=[])
        for result in self._embed_all(list(split_batches(prepared, self._batch_size, self._adapter.max_tokens))):
            total += result
        if total.error is not None:
            total.error.done = {position: vector for position, vector in enumerate(total.vectors) if vector}
            total.error.tokens = total.tokens
            raise total.error
        return EmbeddedTexts(tuple(total.vectors), total.truncated, total.tokens, total.refused)

    def embed_query(self, text: str) -> Vector:
        """Return the vector normalized; a single one does not need numpy."""
        return self.embed_query_with_usage(text).vectors[0]

    def embed_query_with_usage(self, text: str) -> EmbeddedTexts:
        """Return the query's vector with its token count."""
        if monotonic() < self._cooldown_until:
            raise ModelUnavailable(
                f"{self._endpoint.host} ({self._name}) timed out; queries skip it for {_TIMEOUT_COOLDOWN_S:g} s"
            )
        try:
            result = self._embed([_sanitize_text(self._prefixes.query + text)], is_query=True)
        except _TextRejected as rejected:
            raise rejected.fault from rejected
        except ModelUnavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                self._cooldown_until = monotonic() + _TIMEOUT_COOLDOWN_S
            raise
        return EmbeddedTexts((unit_vector(result.vectors[0]),), result.truncated, result.tokens)

    def check(self) -> str:
        """Return the server's host for a message. Raise ModelUnavailable if a key is missing. Opens no connection."""
        self._endpoint.headers()
        return f" at {self._endpoint.host}"

    def close(self) -> None:
        self._endpoint.close()

    def _embed_all(self, batches: list[Sequence[str]]) -> list[_BatchResult]:
        """Embed batches independently of each other; after an error none is started."""
        failed = Event()

        def embed(batch: Sequence[str]) -> _BatchResult:
            if failed.is_set():
                return _failed_batch(batch)
            result = self._try_embed(batch)
            if result.error is not None:
                failed.set()
            return result

        results = [embed(batch) for batch in batches[: 0 if self.dimension else 1]]
        rest = batches[len(results) :]
        if len(rest) < 2 or self._parallel_batches < 2:
            return results + [embed(batch) for batch in rest]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(self._parallel_batches, len(rest)), thread_name_prefix="lorelog-ask") as pool:
            futures = [pool.submit(embed, batch) for batch in rest]
            try:
                return results + [future.result() for future in futures]
            except BaseException:
                failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _try_embed(self, texts: Sequence[str], *, bisect: bool = True) -> _BatchResult:
        """Embed texts; errors are part of the result."""
        try:
            return self._embed(texts)
        except _TextRejected as rejected:
            if bisect:
                return self._bisect(texts, rejected.fault)
            return _failed_batch(texts, rejected.fault, is_uncertain=True)
        except ModelError as error:
            return _failed_batch(texts, error)

    def _bisect(self, texts: Sequence[str], fault: ModelFault) -> _BatchResult:
        """Find the rejected texts. If nothing was ever accepted, few requests are made: the texts are not the cause."""
        if len(texts) == 1:
            if self.dimension:
                return _BatchResult(vectors=[b""], refused={0: fault.message})
            return _failed_batch(texts, fault, is_uncertain=True)
        half = len(texts) // 2
        left = self._try_embed(texts[:half])
        is_fatal = left.error is not None and not left.is_uncertain
        if is_fatal or len(left.refused) == half >= _MIN_REFUSED_TEXTS:
            return _failed_batch(texts, left.error if isinstance(left.error, ModelUnavailable) else fault)
        right = self._try_embed(texts[half:], bisect=bool(self.dimension))
        if left.error is not None and self.dimension:  # the other half worked, so the texts are the cause
            left = self._try_embed(texts[:half])
        return left + right

    def _embed(self, texts: Sequence[str], *, is_query: bool = False) -> _BatchResult:
        reply = self._post(texts, is_query=is_query)
        if reply.status in {400, 422} and b"encoding_format" in reply.body and self._packed:
            self._packed = False  # an older server; remembered, so that this happens once
            reply = self._post(texts, is_query=is_query)
        if reply.status == 413 or (reply.status in {400, 422} and _TOO_LARGE.search(reply.body)):
            if len(texts) > 1:
                half = len(texts) // 2
                left = self._try_embed(texts[:half])
                return left + (self._try_embed(texts[half:]) if left.error is None else _failed_batch(texts[half:]))
            if len(texts[0]) > _MIN_TEXT_LETTERS:
                head = self._embed([texts[0][: len(texts[0]) // 2]], is_query=is_query)
                return _BatchResult(vectors=head.vectors, tokens=head.tokens, truncated=1)
        if reply.status != 200:
            error = self._endpoint.error_for_reply(reply, f"embed with {self._name}")
            if isinstance(error, ModelFault) and (reply.status in {400, 422} or reply.status >= 500):
                raise _TextRejected(error)
            raise error
        try:
            return self._read(reply, len(texts))
        except http.MalformedReply as fault:
            detail = self._endpoint.server_message(reply.body)
            error = ModelFault(f"{self._endpoint.host} ({self._name}) answered {fault}{detail}")
            raise (_TextRejected(error) if isinstance(fault, NonFiniteEmbedding) else error) from fault

    def _post(self, texts: Sequence[str], *, is_query: bool) -> http.HttpReply:
        request = EmbedRequest(self._name, texts, is_query, self._requested, self._packed)
        return self._endpoint.post(self._adapter.path(self._name), self._adapter.body(request), urgent=is_query)

    def _read(self, reply: http.HttpReply, expected: int) -> _BatchResult:
        response = self._adapter.read(http.parse_object(reply.body, "JSON without a list of embeddings"))
        vectors = [decode_embedding(embedding) for embedding in order_embeddings(response, expected)]
        if self._dimensions and not self._requested:
            vectors = truncate_vectors(vectors, self._dimensions)
        self._check_dimension({len(vector) // 4 for vector in vectors})
        return _BatchResult(vectors=vectors, tokens=response.tokens)

    def _check_dimension(self, dimensions: set[int]) -> None:
        """Take the dimension of the first vectors as that of all, and reject others."""
        (dimension,) = dimensions if len(dimensions) == 1 else (0,)
        with self._lock:
            expected = self._requested or self.dimension
            if dimension and dimension == (expected or dimension):
                self.dimension = dimension
                self._cooldown_until = 0.0
                return
        if self._requested:
            received = ", ".join(map(str, sorted(dimensions)))
            raise http.MalformedReply(
                f"vectors of {received} dimensions where embedding.dimensions asks for {expected}"
            )
        raise http.MalformedReply("vectors of different dimensions")


def _failed_batch(texts: Sequence[str], error: ModelError | None = None, *, is_uncertain: bool = False) -> _BatchResult:
    return _BatchResult(vectors=[b""] * len(texts), error=error, is_uncertain=is_uncertain)


def _sanitize_text(text: str) -> str:
    """Return a text that servers accept: most reject an empty text, and a lone surrogate is not valid JSON."""
    return text.encode("utf-8", "replace").decode() or " "


def order_embeddings(response: EmbedResponse, expected: int) -> list[Any]:
    """Return the embeddings in the order of their texts, exactly one for each."""
    embeddings, indexes = response.embeddings, response.indexes
    if len(embeddings) != expected:
        raise http.MalformedReply(f"{len(embeddings)} embeddings for {expected} texts")
    if indexes is None or all(index is None for index in indexes):
        return embeddings
    by_index = {index: item for index, item in zip(indexes, embeddings, strict=True) if isinstance(index, int)}
    if set(by_index) != set(range(expected)):
        raise http.MalformedReply("embeddings whose `index` does not name each text once")
    return [by_index[index] for index in range(expected)]


def decode_embedding(embedding: object) -> Vector:
    """Return the vector of an embedding given as a list of numbers or as base64 of their bytes."""
    try:
        if isinstance(embedding, str):
            vector = binascii.a2b_base64(embedding, strict_mode=True)
            numbers = array.array("f", vector)
            if sys.byteorder == "big":
                numbers.byteswap()
        elif isinstance(embedding, list):
            numbers = array.array("f", embedding)
            vector = pack_floats(numbers)
        else:
            raise http.MalformedReply("an embedding that is neither a list nor base64")
    except (ValueError, TypeError, OverflowError) as error:
        raise http.MalformedReply("an embedding that is not made of 32-bit numbers") from error
    if not numbers:
        raise http.MalformedReply("an empty embedding")
    # A sum of doubles made from finite 32-bit numbers is finite; a NaN or an infinity propagates into it.
    if not isfinite(sum(numbers)):
        raise NonFiniteEmbedding("an embedding with numbers that are not finite")
    return vector


def truncate_vectors(vectors: Sequence[Vector], dimensions: int) -> list[Vector]:
    """Return the first `dimensions` numbers of each vector, normalized to unit length."""
    short = min((len(vector) for vector in vectors), default=4 * dimensions)
    if short < 4 * dimensions:
        raise http.MalformedReply(f"vectors of {short // 4} dimensions, fewer than the {dimensions} to keep")
    return [unit_vector(vector[: 4 * dimensions]) for vector in vectors]


def pack_floats(numbers: array.array[float]) -> Vector:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


OPENAI_BASE_URL = "https://api.openai.com/v1"
_JINA_WITH_TASKS = tuple(f"jina-embeddings-v{number}" for number in range(3, 100))


def _openai_body(
    dimensions_field: str, more: Callable[[EmbedRequest], dict[str, Any]]
) -> Callable[[EmbedRequest], dict[str, Any]]:
    """Return the function that makes a request in OpenAI's format, with more fields."""

    def make_body(request: EmbedRequest) -> dict[str, Any]:
        dimensions = {dimensions_field: request.dimensions} if request.dimensions else {}
        return {"model": request.model, "input": list(request.texts), **more(request), **dimensions}

    return make_body


def _voyage_fields(request: EmbedRequest) -> dict[str, Any]:
    kind = {"input_type": "query" if request.is_query else "document"}
    return {**kind, "encoding_format": "base64"} if request.packed else kind  # the default is numbers


def _jina_fields(request: EmbedRequest) -> dict[str, Any]:
    if not request.model.startswith(_JINA_WITH_TASKS):
        return {}
    return {"task": "retrieval.query" if request.is_query else "retrieval.passage", "truncate": True}


def _read_openai(reply: dict[str, Any]) -> EmbedResponse:
    items, usage = _reply_items(reply, "data"), http.nested_object(reply, "usage")
    return EmbedResponse(
        [item.get("embedding") for item in items],
        [item.get("index") for item in items],
        http.sum_counts(usage, "prompt_tokens") or http.sum_counts(usage, "total_tokens"),
    )


def _reply_items(reply: dict[str, Any], field: str) -> list[dict[str, Any]]:
    items = reply.get(field)
    if not isinstance(items, list):
        raise http.MalformedReply("JSON without a list of embeddings")
    if not all(isinstance(item, dict) for item in items):
        raise http.MalformedReply("a list that does not hold embeddings")
    return items


def _by_name(accepting: tuple[str, ...], fixed: tuple[str, ...]) -> Callable[[str], bool | None]:
    """Return whether dimensions can be requested, by how a model's name begins (`$` ends it); None for other names."""

    def takes_dimensions(model: str) -> bool | None:
        name = f"{model}$"
        return True if name.startswith(accepting) else False if name.startswith(fixed) else None

    return takes_dimensions


def _google_model(model: str) -> str:
    return f"models/{quote(model.removeprefix('models/'), safe='')}"


def _is_modern_google(model: str) -> bool:
    """Return False for Google's first model, which knows neither task types nor dimensions."""
    return model.removeprefix("models/") != "embedding-001"


def _google_body(request: EmbedRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"model": _google_model(request.model)}
    if _is_modern_google(request.model):
        options["taskType"] = "RETRIEVAL_QUERY" if request.is_query else "RETRIEVAL_DOCUMENT"
    if request.dimensions:
        options["outputDimensionality"] = request.dimensions
    return {"requests": [{**options, "content": {"parts": [{"text": text}]}} for text in request.texts]}


def _read_google(reply: dict[str, Any]) -> EmbedResponse:
    values = [item.get("values") for item in _reply_items(reply, "embeddings")]
    return EmbedResponse(values, tokens=http.sum_counts(http.nested_object(reply, "usageMetadata"), "promptTokenCount"))


ADAPTERS: Mapping[str, EmbeddingAdapter] = {
    "openai": EmbeddingAdapter(
        base_url=OPENAI_BASE_URL,
        max_texts=2048,
        max_tokens=300_000,
        body=_openai_body("dimensions", lambda request: {"encoding_format": "base64" if request.packed else "float"}),
        read=_read_openai,
        takes_dimensions=_by_name(("text-embedding-3",), ("text-embedding-ada",)),
    ),
    "google": EmbeddingAdapter(
        base_url="https://generativelanguage.googleapis.com/v1beta",
        max_texts=100,
        max_tokens=100_000,
        path=lambda model: f"{_google_model(model)}:batchEmbedContents",
        body=_google_body,
        read=_read_google,
        takes_dimensions=_is_modern_google,
        default_dimensions={"gemini-embedding-001": 768},
        key=http.KeyHeader("x-goog-api-key", ""),
    ),
    "voyage": EmbeddingAdapter(
        base_url="https://api.voyageai.com/v1",
        max_texts=1000,
        max_tokens=120_000,
        body=_openai_body("output_dimension", _voyage_fields),
        read=_read_openai,
        takes_dimensions=_by_name(
            ("voyage-3-large", "voyage-3.5", "voyage-4", "voyage-code-3"),
            (
                *("voyage-3-lite", "voyage-3$", "voyage-code-2", "voyage-finance-2", "voyage-law-2"),
                *("voyage-multilingual-2", "voyage-large-2", "voyage-2", "voyage-0"),
            ),
        ),
    ),
    "jina": EmbeddingAdapter(
        base_url="https://api.jina.ai/v1",
        max_texts=2048,
        max_tokens=100_000,
        body=_openai_body("dimensions", _jina_fields),
        read=_read_openai,
        takes_dimensions=_by_name(
            (*_JINA_WITH_TASKS, "jina-clip-v2"), ("jina-embeddings-v2", "jina-embeddings-v1", "jina-clip-v1")
        ),
    ),
    "mistral": EmbeddingAdapter(
        base_url="https://api.mistral.ai/v1",
        max_texts=512,
        max_tokens=16_000,
        body=_openai_body("output_dimension", lambda request: {"encoding_format": "float"}),
        read=_read_openai,
        takes_dimensions=_by_name(("codestral-embed",), ("mistral-embed",)),
    ),
}
