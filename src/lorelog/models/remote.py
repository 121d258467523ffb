"""Embedding by asking a server, whoever's it is: what all vendors share.

Texts go in batches within the vendor's limits, a few batches under way at once, and come back in their order. The first
batch of all goes alone: a wrong key, a wrong name or a server that is not there is then told once, and the dimension is
learned before anything depends on it. No text is ever sent just to learn it.

A batch that a server finds too large is asked for again in halves; a single text that is too long, without its second
half, and it counts as truncated. Anything but one sound vector of the known dimension for each text is refused.

One text that a server does not take, or has no numbers for, must not keep a whole index without vectors: it is looked for by
halving its batch, and the others get theirs. And when one of several batches fails, what the others made is handed over
with the error, since it was paid for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from time import monotonic

from lorelog.core.errors import ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.core.vectors import unit
from lorelog.models.account import Account
from lorelog.models.batches import batches
from lorelog.models.dialect import Ask, Dialect, Unreadable
from lorelog.models.endpoint import Endpoint, Reply
from lorelog.models.families import PLAIN, chosen_forms, chosen_size, family_of, identity
from lorelog.models.pace import Pace
from lorelog.models.vectors import NotFinite, cut, in_order, vector_of

_TOO_MUCH = re.compile(
    rb"too (many|large|long)|tokens per |per request|context (length|size)|batch size|at most \d+ requests|payload size|"
    rb"exceed[^.]{0,60}(length|limit|max|tokens)|max_tokens",
    re.IGNORECASE,
)
"""What servers say when a request is too large. Taken for that wrongly, it costs a few requests before it is told."""
_SHORTEST = 200
"""Letters of a text that is not cut any further."""


_REST_S = 30.0
"""For so long no question is put to a server that let one run out of time: each search would wait as long again."""
_ENOUGH_TO_JUDGE = 4
"""When so many texts on end are refused, it is not for what they say."""


class _TextRefused(Exception):
    """An answer that may well be about one of the texts and not about all."""

    def __init__(self, fault: ModelFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of some texts: a vector for each, which is empty for those that were refused and after an error."""

    vectors: list[Vector]
    tokens: int = 0
    truncated: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    error: ModelError | None = None
    is_unsure: bool = False
    """Whether the error may be about some of the texts only."""

    def __add__(self, other: _Done) -> _Done:
        after = {len(self.vectors) + place: why for place, why in other.refused.items()}
        return _Done(
            self.vectors + other.vectors,
            self.tokens + other.tokens,
            self.truncated + other.truncated,
            {**self.refused, **after},
            self.error or other.error,
            self.is_unsure if self.error else other.is_unsure,
        )


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
        self._rests_until = 0.0

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        prepared = [_sendable(self._forms.document + text) for text in texts]
        done = _Done([])
        for one in self._embed_all(list(batches(prepared, self._batch_size, self._dialect.most_tokens))):
            done += one
        if done.error is not None:
            done.error.done = {place: vector for place, vector in enumerate(done.vectors) if vector}
            done.error.tokens = done.tokens
            raise done.error
        return EmbeddedTexts(tuple(done.vectors), done.truncated, done.tokens, done.refused)

    def embed_query(self, text: str) -> Vector:
        """Return the vector at unit length, which for one vector costs nothing worth numpy."""
        return self.embed_question(text).vectors[0]

    def embed_question(self, text: str) -> EmbeddedTexts:
        """Return the same with what it cost."""
        if monotonic() < self._rests_until:
            raise ModelUnavailable(self._told(f"did not answer in time, and is not asked again for {_REST_S:g} s"))
        try:
            done = self._embed([_sendable(self._forms.query + text)], is_query=True)
        except _TextRefused as refused:
            raise refused.fault from refused
        except ModelUnavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                self._rests_until = monotonic() + _REST_S
            raise
        return EmbeddedTexts((unit(done.vectors[0]),), done.truncated, done.tokens)

    def introduce(self) -> str:
        """Return which server is asked. Raise ModelUnavailable where a key is missing; nobody is connected to."""
        self._account.headers()
        return self._endpoint.host

    def close(self) -> None:
        self._endpoint.close()

    def _embed_all(self, groups: list[Sequence[str]]) -> list[_Done]:
        """Embed batches, each whatever becomes of the others that are under way; after an error none is begun."""
        failed = Event()

        def embed(group: Sequence[str]) -> _Done:
            if failed.is_set():
                return _nothing(group)
            done = self._made(group)
            if done.error is not None:
                failed.set()
            return done

        done = [embed(group) for group in groups[: 0 if self.dimension else 1]]
        rest = groups[len(done) :]
        if len(rest) < 2 or self._at_once < 2:
            return done + [embed(group) for group in rest]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(self._at_once, len(rest)), thread_name_prefix="lorelog-ask") as pool:
            running = [pool.submit(embed, group) for group in rest]
            try:
                return done + [one.result() for one in running]
            except BaseException:
                failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _made(self, texts: Sequence[str], *, looks_closer: bool = True) -> _Done:
        """Embed texts; what goes wrong is told in what is returned."""
        try:
            return self._embed(texts)
        except _TextRefused as refused:
            return self._apart(texts, refused.fault) if looks_closer else _nothing(texts, refused.fault, is_unsure=True)
        except ModelError as error:
            return _nothing(texts, error)

    def _apart(self, texts: Sequence[str], fault: ModelFault) -> _Done:
        """Find out which of the texts is refused. Where nothing was ever taken, few are asked for: it is not the texts."""
        if len(texts) == 1:
            return (
                _Done([b""], refused={0: fault.message}) if self.dimension else _nothing(texts, fault, is_unsure=True)
            )
        half = len(texts) // 2
        left = self._made(texts[:half])
        is_over = left.error is not None and not left.is_unsure
        if is_over or len(left.refused) == half >= _ENOUGH_TO_JUDGE:
            return _nothing(texts, left.error if isinstance(left.error, ModelUnavailable) else fault)
        right = self._made(texts[half:], looks_closer=bool(self.dimension))
        if left.error is not None and self.dimension:  # the other half has shown that it is the texts
            left = self._made(texts[:half])
        return left + right

    def _embed(self, texts: Sequence[str], *, is_query: bool = False) -> _Done:
        reply = self._ask(texts, is_query=is_query)
        if reply.status in {400, 422} and b"encoding_format" in reply.body and self._packed:
            self._packed = False  # an older server; remembered, so that it is asked this once
            reply = self._ask(texts, is_query=is_query)
        if reply.status == 413 or (reply.status in {400, 422} and _TOO_MUCH.search(reply.body)):
            if len(texts) > 1:
                half = len(texts) // 2
                left = self._made(texts[:half])
                return left + (self._made(texts[half:]) if left.error is None else _nothing(texts[half:]))
            if len(texts[0]) > _SHORTEST:
                less = self._embed([texts[0][: len(texts[0]) // 2]], is_query=is_query)
                return _Done(less.vectors, less.tokens, truncated=1)
        if reply.status != 200:
            raise self._refusal(reply)
        try:
            return self._read(reply, len(texts))
        except NotFinite as wrong:
            raise _TextRefused(ModelFault(self._told(f"answered {wrong}"))) from wrong
        except Unreadable as wrong:
            raise ModelFault(self._told(f"answered {wrong}{self._account.complaint(reply.body)}")) from wrong

    def _refusal(self, reply: Reply) -> ModelError | _TextRefused:
        refused = self._account.refusal(reply, f"embed with {self._name}")
        if isinstance(refused, ModelFault) and (reply.status in {400, 422} or reply.status >= 500):
            return _TextRefused(refused)
        return refused

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
                self._rests_until = 0.0
                return
        if self._size.asked:
            said = ", ".join(map(str, sorted(found)))
            raise Unreadable(f"vectors of {said} dimensions where embedding.dimensions asks for {wanted}")
        raise Unreadable("vectors of different dimensions")

    def _told(self, what: str) -> str:
        return f"{self._endpoint.host} ({self._name}) {what}"


def _nothing(texts: Sequence[str], error: ModelError | None = None, *, is_unsure: bool = False) -> _Done:
    return _Done([b""] * len(texts), error=error, is_unsure=is_unsure)


def _sendable(text: str) -> str:
    """Return a text that servers take: an empty one is an error to most, and a lone surrogate is no JSON."""
    return text.encode("utf-8", "replace").decode() or " "
