"""Who is wired to whom? Settings become an engine here, and only here are concrete stores, models and settings known."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast

from lorelog.config import Settings, load_settings
from lorelog.core.errors import ConfigError, NotFound, UsageError
from lorelog.core.options import EmbedOptions, RerankOptions, StoreOptions, TraceOptions
from lorelog.core.paths import home_folder
from lorelog.core.ports import Comparison, Embedder, Reranker, Store
from lorelog.engine import Engine
from lorelog.models.lending import LentEmbedder
from lorelog.services.cabinet import Cabinet
from lorelog.services.outfit import Defaults, Recorded, Recording, Tools
from lorelog.services.place import Place
from lorelog.services.scope import Project, find_project
from lorelog.services.scope_file import Scope, find_scope, scoped_project
from lorelog.wiring_language import counted, language, prompt_file, summarizer

if TYPE_CHECKING:
    from lorelog.retrieval.analyse import WordAnalyser
    from lorelog.retrieval.cache import Caches
    from lorelog.services.records.book import Book
    from lorelog.services.records.keys import Keyring

Name = TypeVar("Name")
Thing = TypeVar("Thing")

IDENTITIES = "identities"
"""Where a home keeps keys."""
_MOST_STORES = 16
_MOST_MODELS = 4
"""What a process that goes on keeps open. A person has a tenant or two, and one model."""


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a command is given: the home of the index, the project, and what the environment says."""

    home: Path
    project: Project
    environment: Mapping[str, str]
    scope: Scope | None = None
    """What a scope file there says; none was looked for where a tenant is named anyway."""


def standpoint(
    *,
    home: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    tenant: str | None = None,
) -> Standpoint:
    """Return where one stands: `home` or LORELOG_HOME or ~/.lorelog, and the project of a directory or the current one.

    Whoever asks for somebody else gives that one's directory and environment. Whoever names a tenant is not told by a
    scope file, neither which tenant nor which project.
    """
    environment = dict(os.environ if environment is None else environment)
    chosen = home_folder(os.fspath(home or environment.get("LORELOG_HOME") or ""))
    directory = working_directory() if directory is None else directory
    start = os.path.join(directory, os.fspath(project or environment.get("LORELOG_PROJECT") or ""))  # noqa: PTH118
    if not os.path.isdir(start):  # noqa: PTH112
        raise NotFound(f"there is no directory {start}", hint="--project names the directory of a project")
    here = find_project(start)
    named = tenant or environment.get("LORELOG_SCOPE_TENANT")
    scope = None if named else find_scope(start)
    if scope is not None:
        here = scoped_project(scope, here)
    for path in (chosen, here.id, here.root):
        if path.encode("utf-8", "replace").decode() != path:
            raise UsageError(f"the path {path!r} is not valid UTF-8", hint="rename it, or work from another directory")
    return Standpoint(Path(chosen), here, environment, scope)


def working_directory() -> str:
    """Return the current directory."""
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        raise NotFound("the current directory is gone", hint="go to one that exists") from None


def settings_at(here: Standpoint, flags: Mapping[str, object] | None = None) -> Settings:
    """Return the settings that hold at a standpoint, under `flags` (setting key to value)."""
    flags = dict(flags or {})
    scope = here.scope
    if scope is None or not scope.tenant or flags.get("scope.tenant"):
        return load_settings(here.home, Path(here.project.root), here.environment, flags)
    settings = load_settings(
        here.home, Path(here.project.root), here.environment, {**flags, "scope.tenant": scope.tenant}
    )
    if scope.tenant not in settings.tenants():
        raise ConfigError(
            f"{scope.file} asks for the tenant {scope.tenant!r}, which you have not allowed",
            hint=f"lorelog config set scope.tenants {scope.tenant} (or name a tenant yourself: --tenant)",
        )
    return settings


def open_engine(here: Standpoint, flags: Mapping[str, object] | None = None) -> Engine:
    """Build an engine from settings. Opens nothing yet: store and model open when a verb first needs them."""
    from lorelog.retrieval.analyse import WordAnalyser

    settings = settings_at(here, flags)
    options = _embedding(settings, here)
    embedder = _embedder(options)
    place = _place(here, settings)
    analyser = WordAnalyser()
    reranker = _reranker(settings.reranking())
    store = _store(place, analyser, embedder, _storing(settings, here))
    tools = Tools(
        analyser,
        counted(embedder, options, place),
        reranker,
        summarizer=partial(summarizer, settings, here.home, here.environment, place),
        recording=Recording(lambda: _recorded(settings, here, place)),
        count_tokens=_count_tokens,
        language=partial(language, settings, here.home, here.environment, place),
        former=partial(_former, options, place),
        cabinet=Cabinet(place.tenant_folder, settings.tracing()),
    )
    return Engine(store, tools, place, _defaults(here, settings, options))


class Holdings:
    """What a process that goes on keeps open between calls: stores, models and caches, each once, lent to engines.

    Threads may share it. A model that nobody has asked for a while is let go by `rest`; it loads itself when next asked.
    Of everything only the last used are kept. An engine that still has what was let go loses nothing: stores and models
    open themselves again, and end with the last engine that has them.
    """

    def __init__(self) -> None:
        from lorelog.retrieval.analyse import WordAnalyser

        self._analyser = WordAnalyser()
        self._lock = Lock()
        # In the order of their last use; what was not used for longest goes when there are too many.
        self._stores: dict[object, Store] = {}
        self._embedders: dict[EmbedOptions, LentEmbedder] = {}
        self._rerankers: dict[RerankOptions, Reranker] = {}
        self._caches: dict[object, Caches] = {}
        self._books: dict[Path, Book] = {}
        self._cabinets: dict[tuple[Path, TraceOptions], Cabinet] = {}

    def engine(self, here: Standpoint, flags: Mapping[str, object] | None = None) -> Engine:
        """Return an engine over what is held; closing it closes nothing."""
        from lorelog.retrieval.cache import Caches

        settings = settings_at(here, flags)
        options, rerank = _embedding(settings, here), settings.reranking()
        place, defaults = _place(here, settings), _defaults(here, settings, options)
        known = _nameless(options)
        with self._lock:
            embedder = None
            if options.provider != "none":
                embedder = _used(self._embedders, known, lambda: LentEmbedder(cast("Embedder", _embedder(options))))
            model = f"{embedder.provider}/{embedder.model}" if embedder else "none"
            keeping = _storing(settings, here)
            store_key = (place.tenant_folder, model, replace(keeping, token=_digest(keeping.token)))
            store = _used(self._stores, store_key, lambda: _store(place, self._analyser, embedder, keeping))
            reranker = None
            if rerank.model:
                reranker = _used(self._rerankers, rerank, lambda: cast("Reranker", _reranker(rerank)))
            cache_key = (store_key, known, rerank, defaults.caching)
            caches = _used(self._caches, cache_key, lambda: Caches.chosen(defaults.caching))
            stores, embedders = _surplus(self._stores, _MOST_STORES), _surplus(self._embedders, _MOST_MODELS)
            _surplus(self._caches, _MOST_STORES)
            _surplus(self._rerankers, _MOST_MODELS)
        for gone in stores:
            gone.close()
        for resting in embedders:
            resting.rest(0)  # one that is at work just now is let go by whoever has it
        tools = Tools(
            self._analyser,
            counted(embedder, options, place),
            reranker,
            caches,
            partial(summarizer, settings, here.home, here.environment, place),
            Recording(lambda: self._recorded(settings, here, place), lent=True),
            _count_tokens,
            partial(language, settings, here.home, here.environment, place),
            self._cabinet(place, settings.tracing()),
            partial(_former, options, place),
        )
        return Engine(store, tools, place, defaults)

    def _recorded(self, settings: Settings, here: Standpoint, place: Place) -> Recorded:
        with self._lock:
            book = _used(self._books, place.tenant_folder, lambda: _book(here, place))
            books = _surplus(self._books, _MOST_STORES)
        for gone in books:
            gone.close()
        return Recorded(book, _keyring(settings, here), settings.recording().agent)

    def _cabinet(self, place: Place, tracing: TraceOptions) -> Cabinet:
        with self._lock:
            key = (place.tenant_folder, tracing)
            cabinet = _used(self._cabinets, key, lambda: Cabinet(place.tenant_folder, tracing))
            cabinets = _surplus(self._cabinets, _MOST_STORES)
        for gone in cabinets:
            gone.close()
        return cabinet

    def rest(self, idle_s: float) -> int:
        """Let go of embedders that nobody has used for so long; return how many are still loaded."""
        with self._lock:
            embedders = list(self._embedders.values())
        return sum(not embedder.rest(idle_s) for embedder in embedders)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            held: list[Store | Embedder | Reranker | Book | Cabinet] = [
                *self._books.values(),
                *self._cabinets.values(),
                *self._stores.values(),
                *self._embedders.values(),
                *self._rerankers.values(),
            ]
            self._stores, self._embedders, self._rerankers, self._caches = {}, {}, {}, {}
            self._books, self._cabinets = {}, {}
        for one in held:
            one.close()


def _nameless(options: EmbedOptions) -> EmbedOptions:
    """Return what to know an embedder by: its options, with a key that nobody could use."""
    return replace(options, api_key=_digest(options.api_key)) if options.api_key else options


def _digest(secret: str) -> str:
    """Return what tells a secret from others and is of no use to anybody."""
    if not secret:
        return ""
    from hashlib import sha256

    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _used(held: dict[Name, Thing], name: Name, make: Callable[[], Thing]) -> Thing:
    """Return what is held under a name, made where it is not, as the last used."""
    thing = held.pop(name) if name in held else make()
    held[name] = thing
    return thing


def _surplus(held: dict[Name, Thing], most: int) -> list[Thing]:
    """Take out what was not used for longest, until no more than `most` are left."""
    return [held.pop(name) for name in list(held)[: max(0, len(held) - most)]]


def _place(here: Standpoint, settings: Settings) -> Place:
    claude = here.environment.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")  # noqa: PTH111
    found = Path(claude) if settings.auto_memory() else None
    return Place(here.project, here.home, settings.tenant(), settings.roots(), found)


def _defaults(here: Standpoint, settings: Settings, embedding: EmbedOptions) -> Defaults:
    return Defaults(
        settings.scan(),
        settings.chunking(),
        settings.search(),
        settings.all_projects(),
        _batch_size(embedding),
        settings.reranking(),
        settings.caching(),
        settings.session(),
        settings.capturing(),
        settings.spending(),
        prompt_file(here.home, settings.compact_prompt()),
        settings.warnings,
    )


def _storing(settings: Settings, here: Standpoint) -> StoreOptions:
    """Return where words and vectors are kept, with the token of whoever asks."""
    return settings.storing(here.environment, str(here.home))


def _store(place: Place, analyser: WordAnalyser, embedder: Embedder | None, options: StoreOptions) -> Store:
    provider = embedder.provider if embedder else "none"
    model = embedder.model if embedder else "none"
    folder = place.tenant_folder / "index"
    if options.uri:
        from lorelog.services.shared_name import shared_name
        from lorelog.stores.milvus import MilvusStore

        return MilvusStore(
            folder, analyser, options, tenant=place.tenant, provider=provider, model=model, name_of=shared_name
        )
    from lorelog.stores.embedded import EmbeddedStore

    return EmbeddedStore(folder, analyser, provider=provider, model=model)


def copy_store(here: Standpoint, flags: Mapping[str, object], uri: str) -> Comparison:
    """Push the whole index to another store, and return how it stands there. Settings stay as they are."""
    with _store_at(here, flags, uri, "--to") as store:
        with store.run(wait_s=10.0), store.writer() as writer:
            writer.sweep()
        return store.compare()


def leave_store(here: Standpoint, flags: Mapping[str, object], uri: str) -> str:
    """Delete the index's rows in a Milvus that is not in use any more, and return which. The catalog stays as it is."""
    from lorelog.stores.milvus import MilvusStore

    used = _storing(settings_at(here, flags), here).uri
    with _store_at(here, flags, uri, "--at") as store:
        if not isinstance(store, MilvusStore):
            raise UsageError("there is nothing to leave: files beside the catalog are not in anybody's way")
        if store.place == used:
            raise UsageError(f"{used} is in use", hint="set store.uri to another store first, or 'lorelog reset'")
        store.leave()
        return store.place


@contextmanager
def _store_at(here: Standpoint, flags: Mapping[str, object], uri: str, origin: str) -> Iterator[Store]:
    """Give the store of this place as it would be under another address."""
    from lorelog.config.values import accept, find_setting
    from lorelog.retrieval.analyse import WordAnalyser

    settings = settings_at(here, flags)
    chosen = settings_at(here, {**flags, "store.uri": accept(find_setting("store.uri"), uri, origin)})
    embedder = _embedder(_embedding(settings, here))
    store = _store(_place(here, settings), WordAnalyser(), embedder, _storing(chosen, here))
    try:
        yield store
    finally:
        store.close()
        if embedder is not None:
            embedder.close()


def _embedding(settings: Settings, here: Standpoint) -> EmbedOptions:
    """Return which model embeds, with its key and address: those of whoever asks."""
    options = settings.embedding(here.environment)
    if options.provider == "none":
        return options
    from lorelog.models import settled

    shared = replace(options.ollama, folder=str(here.home / "ollama"))
    return settled(replace(options, ollama=shared), here.environment)


def _embedder(options: EmbedOptions) -> Embedder | None:
    """Return the embedder, or None where words are to do."""
    if options.provider == "none":
        return None
    from lorelog.models import open_embedder

    return open_embedder(options)


def check_embedder(here: Standpoint, settings: Settings) -> str:
    """Return who embeds, in words. Raise ConfigError or ModelUnavailable for want of a key or package; nobody is asked."""
    options = _embedding(settings, here)
    if options.provider == "none":
        return "none: words alone answer"
    from lorelog.models.readiness import check_ready

    return check_ready(options)


def _former(options: EmbedOptions, place: Place, name: str) -> Embedder | None:
    """Return the embedder of a provider and model that were chosen before, as far as it may still be asked."""
    from lorelog.models import former_embedder

    return counted(former_embedder(options, name), options, place)


def _batch_size(options: EmbedOptions) -> int:
    """Return how many texts the embedder is handed at once."""
    if options.provider == "none":
        return 0
    from lorelog.models import texts_at_once

    return texts_at_once(options)


def _recorded(settings: Settings, here: Standpoint, place: Place) -> Recorded:
    return Recorded(_book(here, place), _keyring(settings, here), settings.recording().agent)


def _book(here: Standpoint, place: Place) -> Book:
    """Return a tenant's records. Whose signatures count does not depend on who asks."""
    from lorelog.services.records.book import Book
    from lorelog.services.records.keys import Keyring

    return Book(place.tenant_folder, Keyring(here.home / IDENTITIES).key_of)


def _keyring(settings: Settings, here: Standpoint) -> Keyring:
    """Return the keys of a home, for whoever asks to sign with theirs."""
    from lorelog.services.records.keys import Keyring

    passphrase = here.environment.get("LORELOG_IDENTITY_PASSPHRASE", "")
    return Keyring(here.home / IDENTITIES, settings.recording().identity, passphrase)


@cache
def _token_counter() -> Callable[[str], int]:
    from lorelog.models.tokens import TokenCounter

    return TokenCounter()


def _count_tokens(text: str) -> int:
    """Count with the built-in tokenizer, which is loaded when it is first needed, and once for a process."""
    return _token_counter()(text)


def _reranker(options: RerankOptions) -> Reranker | None:
    """Return the cross-encoder, or None where none was chosen: nothing of it is imported then."""
    if not options.model:
        return None
    from lorelog.models.crossencoder import open_reranker

    return open_reranker(options)
