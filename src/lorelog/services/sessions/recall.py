"""Selects memories to show for a prompt: few, relevant, and new to the session.

A memory that was not asked for costs attention and context, so the bar is high: it must be relevant, must not come from
the same session, and is shown once per session, even across restarts, whichever hook showed it. It is saved as shown
before it is returned, and only if the caller still waits: after a timeout, the session has not seen it.

Memories with a topic that the prompt is about come first, whatever the search finds: `topic=database migrations` on a memory. Topics are compared
by meaning. A cosine alone says little, because each model has its own range: with e5-small-v2, unrelated texts had .67 to .85, with lorelog-1 .06
to .42. So it is standardised three times, against texts about all fields of software (`background_topics`) that are embedded with the same
model: how far the topic stands out among other topics for this prompt, how far the prompt stands out among other prompts for this topic, and by how
much the topic is nearer than the best topics that differ from it. A logistic function turns these into a probability. It was fitted to made-up
prompts (`tests/services/sessions/prompt_topics.txt`); `python -m bench.delivery.topics` measures it and prints new weights. Vectors of topics are
made before a prompt needs them, and kept while the process runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import exp
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE
from lorelog.core.errors import ModelError
from lorelog.core.options import SearchOptions
from lorelog.core.query import UNCHECKED_VERDICT, FreshnessVerdict, Hit, SearchReply, SupportingRecord, ValueChange
from lorelog.core.record import (
    CANDIDATE_TRUST,
    REPOSITORY_ORIGIN,
    UNTRUSTED_ORIGINS,
    Trust,
    TrustTier,
    VerificationHint,
)
from lorelog.core.serializable import Serializable
from lorelog.core.vectors import unit_vector
from lorelog.language.lexicon import lexicon
from lorelog.light.delivery_files import read_standing
from lorelog.light.session_start import STALE_VERDICTS, is_agents_note, is_users_word
from lorelog.services.sessions.capture_db import open_captures
from lorelog.services.sessions.prompt_rules import prompted_memories

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lorelog.core.ports import EmbeddedTexts, Embedder, Vector

    Floats = NDArray[np.float32]

MAX_TEXT_CHARS = 300
"""Length limit of a shown memory."""
_MAX_PROMPT_CHARS = 2000
"""Characters of a prompt that are searched for: pasted logs and files say little about the question."""
DELIVERIES_FOLDER = "deliveries"
_SPARE_HITS = 4
_EXTRA_HITS = 20
_ARCHIVE_EXTRA_HITS = 100
"""Further candidates in place of memories that the session has seen; few at first, because reading each takes time."""


class UserPrompt(Struct, frozen=True):
    """A prompt and its session."""

    host: str
    session: str
    text: str


class RecalledMemory(
    Serializable, Struct, frozen=True, kw_only=True, rename={"grounding": "grounding_refs", "verdict": "freshness"}
):
    """A memory that matches a prompt."""

    id: str
    """The id of the chunk, which `show` takes."""
    memory: str
    """The id that the log of deliveries has: the memory's own, or the hash of its content."""
    text: str
    source: str
    """Its file; for a record, `record` and its id."""
    date: str
    relevance: float
    origin: str = ""
    """Untrusted origin of the text: `tool`, `import`, or `foreign` if it is based on such; `agent` for an agent's topic; otherwise empty."""
    trust: Trust = CANDIDATE_TRUST
    grounding: tuple[SupportingRecord, ...] = ()
    verification_hint: VerificationHint = CANDIDATE_TRUST.verification_hint
    verdict: FreshnessVerdict = UNCHECKED_VERDICT
    now_was: tuple[ValueChange, ...] = ()
    """Values that it states and other hits state differently."""
    cue: str = ""
    """The cue that brought it, such as `topic=database migrations`; empty for a hit of the search."""


class TopicMatch(Struct, frozen=True):
    """A standing memory whose topic a prompt is about."""

    memory: Mapping[str, Any]
    topic: str
    probability: float


class RecallSources(Struct, frozen=True):
    """Where memories for a prompt come from."""

    search: Callable[[str, SearchOptions], SearchReply]
    folder: Path
    """The tenant's."""
    find_topics: Callable[[str], tuple[TopicMatch, ...]] = lambda _: ()
    """Finds the standing memories whose topic a prompt is about."""


def recall_memories(
    prompt: UserPrompt, options: SearchOptions, sources: RecallSources, check_waiting: Callable[[], None]
) -> tuple[RecalledMemory, ...]:
    """Return the memories whose topic a prompt is about, few, and at most `options.k` hits of a search.

    `check_waiting` raises if the caller has given up.
    """
    query, half = prompt.text.strip(), _MAX_PROMPT_CHARS // 2
    if len(query) > _MAX_PROMPT_CHARS:  # the beginning and the end usually contain the request
        query = f"{query[:half]} {query[-half:]}"
    if not query:
        return ()
    with open_captures(sources.folder) as captures:
        seen = captures.shown_memories(prompt.host, prompt.session)
        seen |= prompted_memories(str(sources.folder / DELIVERIES_FOLDER), prompt.host, prompt.session)
        hits = _search_new(prompt, query, options, sources, seen) if options.k else {}
        topics = [match for match in sources.find_topics(query) if match.memory["id"] not in seen]
        chosen = {match.memory["id"]: _from_topic(match) for match in topics[:MAX_TOPIC_MEMORIES]}
        others = [(key, _to_recalled_memory(hit)) for key, hit in hits.items() if key not in chosen]
        chosen |= dict(others[: options.k])
        if not chosen:
            return ()
        check_waiting()
        added = captures.add_shown(prompt.host, prompt.session, chosen)
    return tuple(memory for key, memory in chosen.items() if key in added)


def _search_new(
    prompt: UserPrompt, query: str, options: SearchOptions, sources: RecallSources, seen: frozenset[str]
) -> dict[str, Hit]:
    few = replace(options, k=options.k + _SPARE_HITS, token_budget=0)
    reply = sources.search(query, few)
    new_hits = _new_hits(prompt, reply, few, seen)
    if (
        len(new_hits) < options.k and len(reply.hits) >= few.k
    ):  # most of the hits were shown before, or are archive: fetch more
        has_archive = any(hit.type == ARCHIVE_TYPE for hit in reply.hits)
        many = replace(few, k=few.k + len(seen) + (_ARCHIVE_EXTRA_HITS if has_archive else _EXTRA_HITS))
        new_hits = _new_hits(prompt, sources.search(query, many), many, seen)
    return new_hits


def _new_hits(prompt: UserPrompt, reply: SearchReply, options: SearchOptions, seen: frozenset[str]) -> dict[str, Hit]:
    """Return the relevant hits that are new to the session, by memory key."""
    new: dict[str, Hit] = {}
    for hit in reply.hits:
        own = prompt.session and hit.anchor is not None and hit.anchor.session == prompt.session
        is_shown = not own and hit.type != ARCHIVE_TYPE and _memory_key(hit) not in seen
        if is_shown and hit.relevance >= options.min_relevance:
            new.setdefault(_memory_key(hit), hit)
    return new


def _memory_key(hit: Hit) -> str:
    """Return a key that is stable when lines move: the memory's id, or the hash of its content."""
    return hit.anchor.memory if hit.anchor is not None and hit.anchor.memory else hit.content_hash


def _from_topic(match: TopicMatch) -> RecalledMemory:
    memory = match.memory
    text = " ".join(str(memory["text"]).split())
    return RecalledMemory(
        id=memory["id"],
        memory=memory["id"],
        text=text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…",
        source=str(memory.get("source") or ""),
        date=str(memory.get("date") or ""),
        relevance=match.probability,
        origin="agent" if is_agents_note(memory) else "",
        cue=f"{TOPIC_PREFIX}{match.topic}",
    )


def _to_recalled_memory(hit: Hit) -> RecalledMemory:
    text = hit.snippet if len(hit.snippet) <= MAX_TEXT_CHARS else hit.snippet[: MAX_TEXT_CHARS - 1] + "…"
    own = hit.anchor.origin if hit.anchor is not None else ""
    origin = own if own == REPOSITORY_ORIGIN else ""
    if hit.trust.tainted:
        origin = own if own in UNTRUSTED_ORIGINS else "foreign"
    # A record is cited by its id: its page in the index is of no use to an agent.
    is_record = hit.trust.tier in {TrustTier.CANONICAL, TrustTier.VERIFIED} and bool(hit.grounding)
    return RecalledMemory(
        id=hit.id,
        memory=_memory_key(hit),
        text=text,
        source=f"record {hit.grounding[0].record}" if is_record else hit.source,
        date=hit.date,
        relevance=hit.relevance,
        origin=origin,
        trust=hit.trust,
        grounding=hit.grounding,
        verification_hint=hit.trust.verification_hint,
        verdict=hit.verdict,
        now_was=hit.now_was,
    )


# -- topics ------------------------------------------------------------------------------------------------------------

MIN_PROBABILITY = 0.85
"""A memory below it is not shown: unrequested memories must be relevant, so precision counts more than recall."""
MAX_TOPIC_MEMORIES = 2
"""Memories that a prompt brings by their topics."""
TOPIC_PREFIX = "topic="
_MAX_TOPICS = 2_000
"""Topics whose vectors are kept. More would take a prompt too long."""
_NEAR_TOPICS, _RIVALS = 8, 3
"""Nearest background topics, ignored as synonyms; next ones, compared."""
_MIN_SPREAD = 1e-6
_BATCH = 32


class TopicWeights(Struct, frozen=True):
    """Weights of the three distances on the log-odds scale."""

    base: float
    among_topics: float
    among_prompts: float
    over_rivals: float

    def probability(self, distances: Sequence[float]) -> float:
        """Return the probability that a prompt is about a topic."""
        weights = (self.among_topics, self.among_prompts, self.over_rivals)
        logit = self.base + sum(weight * value for weight, value in zip(weights, distances, strict=True))
        return 1.0 / (1.0 + exp(-min(max(logit, -30.0), 30.0)))


WEIGHTS = TopicWeights(-2.25, 0.34, 0.25, 0.36)


class _Topic(NamedTuple):
    """A topic's vector, its similarity to unrelated prompts, and which background topics are its rivals."""

    vector: Floats
    mean: float
    spread: float
    rivals: NDArray[np.intp]


class TopicVectors:
    """The vectors that one model gives to topics and to their background. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._background: tuple[Floats, Floats] | None = None
        """Of topics, and of prompts, that belong to no project."""
        self._topics: dict[str, _Topic] = {}

    def is_ready(self, topics: Iterable[str]) -> bool:
        """Return whether all vectors are there that a comparison with these topics needs."""
        return self._background is not None and all(topic in self._topics for topic in topics)

    def prepare(self, topics: Sequence[str], embedder: Embedder, go_on: Callable[[], bool] = lambda: True) -> None:
        """Embed the topics and the background that are missing, while `go_on` holds. Raise ModelError on failure."""

        def embed_documents(texts: Sequence[str]) -> Sequence[Vector]:
            return embedder.embed_documents(list(texts)).vectors

        def embed_query(texts: Sequence[str]) -> Sequence[Vector]:
            return [embedder.embed_query(texts[0])]

        with self._lock:
            if self._background is None:
                others = _embed(sorted(lexicon("background_topics")), embed_documents, _BATCH, go_on)
                prompts = _embed(sorted(lexicon("background_prompts")), embed_query, 1, go_on)
                if others is None or prompts is None or others.shape[1] != prompts.shape[1]:
                    return
                self._background = others, prompts
            missing = [topic for topic in dict.fromkeys(topics) if topic not in self._topics]
            vectors = _embed(missing, embed_documents, _BATCH, go_on)
            if vectors is None or vectors.shape[1] != self._background[0].shape[1]:
                return
            if len(self._topics) + len(missing) > _MAX_TOPICS:
                self._topics.clear()
            others, prompts = self._background
            for topic, vector in zip(missing, vectors, strict=True):
                rivals = (others @ vector).argsort()[: max(len(others) - _NEAR_TOPICS, 1)]
                self._topics[topic] = _Topic(vector, *_mean_and_spread(prompts @ vector), rivals)

    def distances(self, topics: Iterable[str], prompt: Vector) -> dict[str, tuple[float, float, float]]:
        """Return the three distances of each prepared topic from a prompt's vector, in standard deviations."""
        import numpy as np

        query = np.frombuffer(unit_vector(prompt), "<f4")
        if self._background is None or self._background[0].shape[1] != len(query):
            return {}
        near = self._background[0] @ query
        mean, spread = _mean_and_spread(near)
        result = {}
        for name in topics:
            topic = self._topics.get(name)
            if topic is not None:
                cosine = float(topic.vector @ query)
                rivals = float(np.sort(near[topic.rivals])[-_RIVALS:].mean())
                among_prompts = (cosine - topic.mean) / topic.spread
                result[name] = ((cosine - mean) / spread, among_prompts, (cosine - rivals) / spread)
        return result

    def probabilities(self, topics: Iterable[str], prompt: Vector) -> dict[str, float]:
        """Return for each prepared topic the probability that a prompt with this vector is about it."""
        return {name: WEIGHTS.probability(values) for name, values in self.distances(topics, prompt).items()}


_VECTORS: dict[str, TopicVectors] = {}


def shared_vectors(embedder: Embedder) -> TopicVectors:
    """Return the vectors of this process for a model."""
    return _VECTORS.setdefault(f"{embedder.provider}/{embedder.model}", TopicVectors())


class LastQueryEmbedder:
    """An embedder that remembers the last query, so that a search and the topics embed a prompt once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.provider, self.model = embedder.provider, embedder.model
        self._last: tuple[str, Vector] | None = None

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        if self._last is None or self._last[0] != text:
            self._last = (text, self._embedder.embed_query(text))
        return self._last[1]

    def close(self) -> None:
        self._embedder.close()


class TopicReader:
    """Finds the standing memories whose topic a prompt is about."""

    def __init__(self, files: tuple[str, ...], embedder: Embedder | None, *, wait: bool) -> None:
        """With `wait`, vectors that are missing are made first; otherwise there are no matches until they are there."""
        self._files, self._embedder, self._wait = files, embedder, wait

    def prepare(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Make the vectors of the topics. A model that fails leaves the topics to the words of prompts."""
        topics = [topic for topic, _ in self._read()]
        if topics and self._embedder is not None:
            with suppress(ModelError):
                shared_vectors(self._embedder).prepare(topics, self._embedder, go_on)

    def find(self, prompt: str) -> tuple[TopicMatch, ...]:
        """Return the memories whose topic a prompt is probably about, the likeliest first, each once."""
        embedder = self._embedder
        memories = self._read() if embedder is not None else []
        if embedder is None or not memories:
            return ()
        vectors, topics = shared_vectors(embedder), [topic for topic, _ in memories]
        if self._wait and not vectors.is_ready(topics):
            self.prepare()
        try:
            chances = vectors.probabilities(topics, embedder.embed_query(prompt))
        except ModelError:
            return ()
        best: dict[str, TopicMatch] = {}
        for topic, memory in memories:
            match = TopicMatch(memory, topic, round(chances.get(topic, 0.0), 4))
            known = best.get(memory["id"])
            if match.probability >= MIN_PROBABILITY and (known is None or known.probability < match.probability):
                best[memory["id"]] = match
        return tuple(sorted(best.values(), key=lambda match: -match.probability))

    def _read(self) -> list[tuple[str, dict[str, Any]]]:
        """Return topics with their memories: those written on this machine, not those whose code has changed."""
        pairs: list[tuple[str, dict[str, Any]]] = []
        for memory in read_standing(self._files):
            cues, is_own = memory.get("cues"), is_users_word(memory) or is_agents_note(memory)
            if isinstance(cues, list) and is_own and memory.get("verdict") not in STALE_VERDICTS:
                pairs += ((cue[len(TOPIC_PREFIX) :], memory) for cue in map(str, cues) if cue.startswith(TOPIC_PREFIX))
        return pairs[:_MAX_TOPICS]


def _embed(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Sequence[Vector]], batch: int, go_on: Callable[[], bool]
) -> Floats | None:
    """Return vectors of unit length as rows; None if a text has none, or `go_on` does not hold any more."""
    import numpy as np

    vectors: list[Vector] = []
    for start in range(0, len(texts), batch):
        if not go_on():
            return None
        vectors += embed(texts[start : start + batch])
    if not all(vectors) or len({len(vector) for vector in vectors}) != 1:
        return None
    return np.stack([np.frombuffer(unit_vector(vector), "<f4") for vector in vectors])


def _mean_and_spread(values: Floats) -> tuple[float, float]:
    return float(values.mean()), max(float(values.std()), _MIN_SPREAD)
