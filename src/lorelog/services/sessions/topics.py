"""Decides which topics a prompt is about, by meaning: `topic=database migrations` on a memory.

A cosine alone says little, because each model has its own range: with e5-small-v2, unrelated texts had .67 to .85, with lorelog-1 .06 to .42. So it
is standardised three times, against texts about all fields of software (`BACKGROUND_TOPICS`) that are embedded with
the same model: how far the topic stands out among other topics for this prompt, how far the prompt stands out among
other prompts for this topic, and by how much the topic is nearer than the best topics that differ from it. A logistic
function turns these into a probability. It was fitted to made-up prompts (`tests/services/sessions/prompt_topics.txt`);
`python -m bench.delivery.topics` measures it and prints new weights.

Vectors of topics are made before a prompt needs them, and kept while the process runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import ModelError
from lorelog.core.vectors import unit_vector
from lorelog.light.delivery_files import read_standing
from lorelog.light.session_start import STALE_VERDICTS, is_agents_note, is_users_word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lorelog.core.ports import EmbeddedTexts, Embedder, Vector

    Floats = NDArray[np.float32]

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


class TopicMatch(Struct, frozen=True):
    """A standing memory whose topic a prompt is about."""

    memory: Mapping[str, Any]
    topic: str
    probability: float


class _Topic:
    """A topic's vector, its similarity to unrelated prompts, and which background topics are its rivals."""

    __slots__ = ("mean", "rivals", "spread", "vector")

    def __init__(self, vector: Floats, background: _Background) -> None:
        self.vector = vector
        self.mean, self.spread = _mean_and_spread(background.prompts @ vector)
        near = background.topics @ vector
        order = near.argsort()
        self.rivals = order[: max(len(order) - _NEAR_TOPICS, 1)]


class _Background:
    """Vectors of the texts that belong to no project."""

    __slots__ = ("prompts", "topics")

    def __init__(self, topics: Floats, prompts: Floats) -> None:
        self.topics, self.prompts = topics, prompts


class TopicVectors:
    """The vectors that one model gives to topics and to their background. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._background: _Background | None = None
        self._topics: dict[str, _Topic] = {}

    def is_ready(self, topics: Iterable[str]) -> bool:
        """Return whether all vectors are there that a comparison with these topics needs."""
        return self._background is not None and all(topic in self._topics for topic in topics)

    def prepare(self, topics: Sequence[str], embedder: Embedder, go_on: Callable[[], bool] = lambda: True) -> None:
        """Embed the topics and the background that are missing, while `go_on` holds. Raise ModelError on failure."""
        with self._lock:
            if self._background is None:
                others = _embed_documents(BACKGROUND_TOPICS, embedder, go_on)
                prompts = _embed_queries(BACKGROUND_PROMPTS, embedder, go_on)
                if others is None or prompts is None or others.shape[1] != prompts.shape[1]:
                    return
                self._background = _Background(others, prompts)
            missing = [topic for topic in dict.fromkeys(topics) if topic not in self._topics]
            vectors = _embed_documents(missing, embedder, go_on) if missing else None
            if vectors is None or vectors.shape[1] != self._background.topics.shape[1]:
                return
            if len(self._topics) + len(missing) > _MAX_TOPICS:
                self._topics.clear()
            for topic, vector in zip(missing, vectors, strict=True):
                self._topics[topic] = _Topic(vector, self._background)

    def distances(self, topics: Iterable[str], prompt: Vector) -> dict[str, tuple[float, float, float]]:
        """Return the three distances of each prepared topic from a prompt's vector, in standard deviations."""
        import numpy as np

        background, query = self._background, np.frombuffer(unit_vector(prompt), "<f4")
        if background is None or background.topics.shape[1] != len(query):
            return {}
        others = background.topics @ query
        mean, spread = _mean_and_spread(others)
        result = {}
        for name in topics:
            topic = self._topics.get(name)
            if topic is not None:
                cosine = float(topic.vector @ query)
                rivals = float(np.sort(others[topic.rivals])[-_RIVALS:].mean())
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
            try:
                shared_vectors(self._embedder).prepare(topics, self._embedder, go_on)
            except ModelError:
                return

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


def _embed_documents(texts: Sequence[str], embedder: Embedder, go_on: Callable[[], bool]) -> Floats | None:
    vectors: list[Vector] = []
    for start in range(0, len(texts), _BATCH):
        if not go_on():
            return None
        vectors += embedder.embed_documents(list(texts[start : start + _BATCH])).vectors
    return _matrix(vectors)


def _embed_queries(texts: Sequence[str], embedder: Embedder, go_on: Callable[[], bool]) -> Floats | None:
    vectors: list[Vector] = []
    for text in texts:
        if not go_on():
            return None
        vectors.append(embedder.embed_query(text))
    return _matrix(vectors)


def _matrix(vectors: Sequence[Vector]) -> Floats | None:
    """Return vectors of unit length as rows; None if a text has none."""
    import numpy as np

    if not all(vectors) or len({len(vector) for vector in vectors}) != 1:
        return None
    return np.stack([np.frombuffer(unit_vector(vector), "<f4") for vector in vectors])


def _mean_and_spread(values: Floats) -> tuple[float, float]:
    return float(values.mean()), max(float(values.std()), _MIN_SPREAD)


# -- background --------------------------------------------------------------------------------------------------------
# Changing a line changes the probabilities: fit them again with `python -m bench.delivery.topics --fit`.

BACKGROUND_TOPICS = (
    "user interface text", "database queries", "database schema changes", "data imports", "file uploads", "image processing",
    "authentication", "authorization", "password reset", "payments", "invoices and billing", "shopping cart", "search",
    "recommendations", "notifications", "e-mail delivery", "caching", "message queues", "background jobs", "cron jobs",
    "rate limiting", "REST endpoints", "GraphQL", "websockets", "HTTP clients", "retries and timeouts", "error handling",
    "exceptions", "logging", "metrics and tracing", "alerts", "dashboards", "configuration files", "environment variables",
    "feature flags", "secrets management", "encryption", "security vulnerabilities", "input validation", "code review",
    "pull requests", "commit messages", "branching strategy", "merge conflicts", "releases", "versioning", "changelog",
    "deployment", "rollbacks", "Docker images", "Kubernetes", "Terraform", "cloud infrastructure", "load balancers", "DNS",
    "firewalls", "continuous integration", "build system", "compiler warnings", "linting", "code formatting",
    "type annotations", "unit tests", "integration tests", "end-to-end tests", "test fixtures", "mocking", "test coverage",
    "flaky tests", "benchmarks", "profiling", "memory usage", "concurrency", "thread safety", "deadlocks", "async code",
    "refactoring", "naming conventions", "code style", "comments in code", "dead code", "deprecations", "public API design",
    "backwards compatibility", "dependencies", "package managers", "licences", "documentation", "tutorials",
    "README file", "API reference", "translations", "time zones and dates", "currencies", "number formatting",
    "text encoding", "regular expressions", "parsers", "serialization", "JSON", "CSV files", "spreadsheets", "PDF export",
    "printing", "charts", "maps and geolocation", "forms", "buttons and menus", "CSS styling", "responsive layout",
    "dark mode", "accessibility", "animations", "keyboard shortcuts", "navigation", "routing", "state management",
    "React components", "server-side rendering", "browser compatibility", "cookies", "analytics", "A/B testing",
    "search engine ranking", "content management", "comments and moderation", "chat", "video streaming", "audio playback",
    "mobile apps", "app store release", "push messages", "offline mode", "synchronization", "Bluetooth", "sensors",
    "battery life", "firmware updates", "device drivers", "embedded systems", "graphics rendering", "game physics",
    "level design", "multiplayer", "machine learning models", "model training", "datasets", "feature engineering",
    "embeddings", "prompts for language models", "data pipelines", "data warehouse", "streaming data", "data quality",
    "data privacy", "audit trail", "backups", "disaster recovery", "storage costs", "scaling", "microservices",
    "monorepo layout", "plugins", "command line tools", "shell scripts", "editor settings", "garbage collection",
    "compiler optimization", "numerical accuracy", "sorting algorithms", "data structures", "access roles",
    "user accounts", "onboarding", "customer support", "legal requirements", "project planning", "team meetings",
)  # fmt: skip
"""Topics of software work, from all its fields."""

BACKGROUND_PROMPTS = (
    "fix the failing test", "why does this not compile?", "rename the variable to something clearer",
    "add a button to the page", "explain what this function does", "commit the changes", "open a pull request",
    "go on", "yes, do that", "no, revert this and try something else", "what changed since yesterday?",
    "the build is broken on main", "write a script that reads the file and prints the ten longest lines",
    "move this class into its own file", "remove the unused imports", "add type hints to this module",
    "update the dependencies", "the page is blank after the last change", "make this function faster",
    "there is an off-by-one error in the loop", "use a dataclass here", "split this function, it is too long",
    "write unit tests for the parser", "add a flag to the command line", "why is the response empty?",
    "the request returns 404", "add a column to the table", "change the colour of the header",
    "document the new option", "where is this setting read?", "which files use this helper?",
    "show me the last error in the log", "the container does not start", "deploy the current branch to staging",
    "merge main into this branch", "resolve the conflicts", "the user cannot log in", "send a mail when the job is done",
    "cache the result for an hour", "retry the request three times", "validate the input of the form",
    "translate the labels", "convert this to TypeScript", "format the date as ISO", "parse the arguments",
    "handle the case of an empty list", "the query is slow", "add an index", "store the settings in a file",
    "read the key from the environment", "download the data and count the rows", "plot the result",
    "train the model again with a smaller learning rate", "the chart shows the wrong axis", "export the list as CSV",
    "add paging to the endpoint", "return an error if the id is unknown", "log the duration of each step",
    "the animation is not smooth", "support dark mode", "the menu does not close on mobile",
    "the tests are flaky", "run the linter and fix what it reports", "what is the difference between these two?",
    "write a short summary of this module", "think about the design first, then make a plan",
    "implement the next item of the plan", "that is not what I meant", "use the existing helper instead",
    "here is the stack trace, find the cause", "the process uses too much memory", "two threads write to the same map",
    "the migration failed halfway", "copy the old behaviour exactly", "clean up the temporary files",
    "delete the old implementation", "make the message friendlier", "the upload stops at 50 percent",
    "check the access rights before deleting", "prepare the release", "bump the version", "write the changelog",
    "the price is rounded wrongly", "show a warning when the disk is full", "the socket is closed too early",
    "sort the results by date", "the search finds nothing", "generate an id for each entry", "compress the images",
    "add a health check", "increase the timeout", "the job runs twice", "hide the field for guests",
    "play a sound when it is done", "the device does not connect", "the enemy walks through walls",
    "compare the two approaches", "look at the issue and tell me what you think", "simplify this",
)  # fmt: skip
"""Requests to a coding agent, of all kinds."""
