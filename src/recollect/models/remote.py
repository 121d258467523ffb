"""Embedding by asking a server, whoever's it is: what all vendors share.

Texts go in batches within the vendor's limits, a few batches under way at once, and come back in their order. The first
batch of all goes alone: a wrong key, a wrong name or a server that is not there is then told once, and the dimension is
learned before anything depends on it. No text is ever sent just to learn it.

A batch that a server finds too large is asked for again in halves; a single text that is too long, without its second
half, and it counts as truncated. Anything but one sound vector of the known dimension for each text is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from recollect.core.errors import ModelFault
from recollect.core.options import EmbedOptions
from recollect.core.ports import EmbeddedTexts, Vector
from recollect.core.vectors import unit
from recollect.models.account import Account
from recollect.models.batches import batches
from recollect.models.dialect import Ask, Dialect, Unreadable
from recollect.models.endpoint import Endpoint, Reply
from recollect.models.families import PLAIN, chosen_forms, chosen_size, family_of, identity
from recollect.models.pace import Pace
from recollect.models.vectors import cut, in_order, vector_of

_TOO_MUCH = re.compile(
    rb"too (many|large|long)|tokens per |per request|context (length|size)|batch size|at most \d+ requests|payload size|"
    rb"exceed[^.]{0,60}(length|limit|max|tokens)|max_tokens",
    re.IGNORECASE,
)
"""What servers say when a request is too large. Taken for that wrongly, it costs a few requests before it is told."""
_SHORTEST = 200
"""Letters of a text that is not cut any further."""


@dataclass(frozen=True, slots=True)
class _Done:
    vectors: list[Vector]
    tokens: int = 0
    truncated: int = 0

    def __add__(self, other: _Done) -> _Done:
        return _Done(self.vectors + other.vectors, self.tokens + other.tokens, self.truncated + other.truncated)


class RemoteEmbedder:
    """Embeds by asking a server in a vendor's dialect."""

    def __init__(self, options: EmbedOptions, dialect: Dialect, at_once: int) -> None:
        self.provider = dialect.provider
        self.dimension = 0
        """How many numbers its vectors have; 0 until one has come."""
        self._name = options.model
        self._dialect = dialect
        self._at_once = at_once
        usual = dialect.usual_forms(self._name)
        # A server may run a model that wants words in front though its API has none; only then do vectors bear a mark.
        known = usual if usual != PLAIN else family_of(self._name).forms
        self._forms = chosen_forms(options, known)
        usually = dialect.usual_dimensions(self._name)
        self._size = chosen_size(self._name, options.dimensions or usually, dialect.takes_dimensions)
        self.model = identity(
            self._name,
            # A blank tells "no words at all" from "the usual ones".
            (self._forms.document or " ") if self._forms.document != usual.document else "",
            self._size.kept if self._size.kept != usually else 0,
        )
        self._endpoint = Endpoint(options.base_url or dialect.base_url, options.timeout_s, pace=Pace(at_once))
        self._account = Account(self._endpoint, options.api_key, options.key_variable, dialect.key)
        self._batch_size = min(options.batch_size or dialect.most_texts, dialect.most_texts)
        self._lock = Lock()
        self._packed = True

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        prepared = [_sendable(self._forms.document + text) for text in texts]
        done = _Done([])
        for one in self._embed_all(list(batches(prepared, self._batch_size, self._dialect.most_tokens))):
            done += one
        return EmbeddedTexts(tuple(done.vectors), done.truncated, done.tokens)

    def embed_query(self, text: str) -> Vector:
        """Return the vector at unit length, which for one vector costs nothing worth numpy."""
        (vector,) = self._embed([_sendable(self._forms.query + text)], is_query=True).vectors
        return unit(vector)

    def close(self) -> None:
        self._endpoint.close()

    def _embed_all(self, groups: list[Sequence[str]]) -> list[_Done]:
        done = [self._embed(group) for group in groups[: 0 if self.dimension else 1]]
        rest = groups[len(done) :]
        if len(rest) < 2 or self._at_once < 2:
            return done + [self._embed(group) for group in rest]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(self._at_once, len(rest)), thread_name_prefix="recollect-ask") as pool:
            running = [pool.submit(self._embed, group) for group in rest]
            try:
                return done + [one.result() for one in running]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _embed(self, texts: Sequence[str], *, is_query: bool = False) -> _Done:
        reply = self._ask(texts, is_query=is_query)
        if reply.status in {400, 422} and b"encoding_format" in reply.body and self._packed:
            self._packed = False  # an older server; remembered, so that it is asked this once
            reply = self._ask(texts, is_query=is_query)
        if reply.status == 413 or (reply.status in {400, 422} and _TOO_MUCH.search(reply.body)):
            if len(texts) > 1:
                half = len(texts) // 2
                return self._embed(texts[:half]) + self._embed(texts[half:])
            if len(texts[0]) > _SHORTEST:
                less = self._embed([texts[0][: len(texts[0]) // 2]], is_query=is_query)
                return _Done(less.vectors, less.tokens, truncated=1)
        if reply.status != 200:
            raise self._account.refusal(reply, f"embed with {self._name}")
        try:
            return self._read(reply, len(texts))
        except Unreadable as wrong:
            raise self._fault(f"answered {wrong}") from wrong

    def _ask(self, texts: Sequence[str], *, is_query: bool) -> Reply:
        ask = Ask(self._name, texts, is_query, self._size.asked, self._packed)
        payload = json.dumps(self._dialect.body(ask)).encode()
        return self._endpoint.post(self._dialect.path(ask), payload, self._account.headers(), urgent=is_query)

    def _read(self, reply: Reply, expected: int) -> _Done:
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise Unreadable("something that is not JSON") from error
        if not isinstance(answer, dict):
            raise Unreadable("JSON without a list of embeddings")
        told = self._dialect.read(answer)
        vectors = [vector_of(one) for one in in_order(told, expected)]
        if self._size.kept and not self._size.asked:
            vectors = cut(vectors, self._size.kept)
        self._learn({len(vector) // 4 for vector in vectors})
        is_count = isinstance(told.tokens, int) and not isinstance(told.tokens, bool) and told.tokens > 0
        return _Done(vectors, told.tokens if is_count else 0)  # type: ignore[arg-type]

    def _learn(self, found: set[int]) -> None:
        """Take the dimension of the first vectors for that of all, and refuse others."""
        (first,) = found if len(found) == 1 else (0,)
        with self._lock:
            wanted = self._size.asked or self.dimension
            if first and first == (wanted or first):
                self.dimension = first
                return
        if self._size.asked:
            said = ", ".join(map(str, sorted(found)))
            raise Unreadable(f"vectors of {said} dimensions where embedding.dimensions asks for {wanted}")
        raise Unreadable("vectors of different dimensions")

    def _fault(self, what: str) -> ModelFault:
        return ModelFault(f"{self._endpoint.host} ({self._name}) {what}")


def _sendable(text: str) -> str:
    """Return a text that servers take: an empty one is an error to most, and a lone surrogate is no JSON."""
    return text.encode("utf-8", "replace").decode() or " "
