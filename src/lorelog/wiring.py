"""Builds engines from settings: the only module that knows concrete stores, models and settings.

It also opens language models, the resource pool of long-running processes, and settings files for `lorelog config`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import methodcaller
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from lorelog.config import PROJECT_FILE, USER_FILE, Settings, load_settings
from lorelog.config.schema import SETTINGS
from lorelog.config.settings import coerce_value, environment_digest, find_setting, format_toml, settings_stamp
from lorelog.core.errors import ConfigError, LorelogError, NotFound, UsageError
from lorelog.core.options import (
    LANGUAGE_PROVIDERS,
    CacheOptions,
    ChunkOptions,
    EmbedOptions,
    LanguageOptions,
    RerankOptions,
    SessionOptions,
    StoreOptions,
    TraceOptions,
)
from lorelog.core.paths import home_folder, is_folder, join_path, model_cache_folder
from lorelog.core.policy import check_shell
from lorelog.core.ports import Embedder, LanguageModel, Reranker, Store
from lorelog.engine import Engine
from lorelog.models import embed
from lorelog.services.pipeline.scope import EngineDefaults, EngineDeps, OpenRecords, SideDatabases
from lorelog.services.places.workspace import (
    Project,
    ScopeFile,
    Workspace,
    apply_scope_file,
    find_project,
    find_scope_file,
    shared_name,
)

if TYPE_CHECKING:
    from lorelog.config.schema import Setting
    from lorelog.language.analyser import WordAnalyser
    from lorelog.retrieval.cache import AnswerCache
    from lorelog.services.llm.metered import MeteredLlm
    from lorelog.services.llm.receipts import Receipts
    from lorelog.services.records.store import RecordStore
    from lorelog.services.sessions.summarizer import LlmSummarizer


def make_summarizer(
    settings: Settings, home: Path, environment: Mapping[str, str], workspace: Workspace
) -> LlmSummarizer | None:
    """Return what writes session notes with a language model, or None if notes are extracted sentences.

    Keys and the paths of programs that `environment` lacks come from this process: a hook does not send its own.
    """
    environment = {**os.environ, **environment}
    options = settings.summarize_options(environment)
    if options.provider == "none":
        return None
    from lorelog.ingest.redaction.redact import redact
    from lorelog.models.chat import open_language_model
    from lorelog.services.sessions.summarizer import LlmSummarizer, PluginLanguageModel, requests_folder

    patterns = settings.capture_options().patterns

    def gate_for(host: str, session: str) -> MeteredLlm:
        chosen = _resolve_language_options(options.for_host(host), home, environment)
        model = open_language_model(chosen, host, environment) or PluginLanguageModel(
            requests_folder(home), host, session, chosen.timeout_s
        )
        return _make_metered_llm(model, chosen, workspace, host)

    return LlmSummarizer(gate_for, prompt_path(home, options.prompt), lambda text: redact(text, patterns).text)


def open_language_model(
    settings: Settings,
    home: Path,
    environment: Mapping[str, str],
    workspace: Workspace,
    named: str = "",
    said_to: Sequence[str] = (),
) -> MeteredLlm | None:
    """Return the language model for everything except notes; None if there is none.

    `named` is `provider` or `provider/model`, and overrides the settings. `said_to` are the agents that the work is about.
    """
    environment = {**os.environ, **environment}
    options = _with_named_provider(named, settings.language_options(environment))
    if options.provider == "none":
        return None
    from lorelog.models.chat import open_language_model

    options = _resolve_language_options(options, home, environment)
    model = open_language_model(options, "", environment, said_to)
    return _make_metered_llm(cast("LanguageModel", model), options, workspace)


def check_language_models(
    settings: Settings, home: Path, environment: Mapping[str, str]
) -> Iterator[tuple[str, str, LorelogError | None]]:
    """Yield each provider setting of a language model, its model, and the error if a key or program is missing.

    No model is called.
    """
    environment = {**os.environ, **environment}
    judge, llm = settings.text("review.judge"), settings.language_options(environment)
    for setting, options in (
        ("llm.provider", llm),
        ("review.judge", llm if judge == "llm" else _with_named_provider(judge, llm)),
        ("summarize.provider", settings.summarize_options(environment)),
    ):
        is_own = (setting, options.provider) == ("summarize.provider", "host")  # the session's agent writes the notes
        if is_own or (options.provider == "none" and (setting, judge) != ("review.judge", "llm")):
            continue
        from lorelog.models.chat import check_language_model as check

        try:
            yield setting, check(_resolve_language_options(options, home, environment), environment), None
        except LorelogError as error:
            yield setting, options.provider, error


def prompt_path(home: Path, path: str) -> str:
    """Return the path of a prompt file; relative paths start at the home. Empty stays empty."""
    return join_path(home, path) if path else ""


def meter_embedder(embedder: Embedder | None, options: EmbedOptions, workspace: Workspace) -> Embedder | None:
    """Return the embedder, wrapped to record its token usage if it is remote."""
    if embedder is None:
        return None
    if not embed.is_remote(options):
        return embedder
    from lorelog.services.llm.metered import MeteredEmbedder

    return MeteredEmbedder(embedder, partial(_open_receipts, workspace), workspace.project.id)


def _open_receipts(workspace: Workspace) -> Receipts:
    from lorelog.services.llm.receipts import Receipts

    return Receipts.of_tenant(workspace.tenant_folder)


def _with_named_provider(named: str, options: LanguageOptions) -> LanguageOptions:
    """Return the options for a provider and model named for one call.

    `base_url` applies to every provider: memories meant for a server of one's own must not reach a vendor.
    A key belongs to its address; model and context window of another provider do not apply.
    """
    if not named:
        return options
    provider, _, model = named.partition("/")
    if provider not in LANGUAGE_PROVIDERS:
        raise UsageError(f"unknown provider {provider!r}", hint=f"use one of {', '.join(LANGUAGE_PROVIDERS)}")
    if options.provider in {provider, "none"}:
        return replace(options, provider=provider, model=model or options.model)
    own = replace(options, provider=provider, model=model, window_tokens=0)
    return own if options.base_url else replace(own, api_key="", key_variable="")


def _make_metered_llm(
    model: LanguageModel, options: LanguageOptions, workspace: Workspace, host: str = ""
) -> MeteredLlm:
    from lorelog.services.llm.metered import LlmBudget, MeteredLlm

    budget = LlmBudget(options.daily_tokens, options.timeout_s, options.window_tokens, workspace.project.id, host)
    return MeteredLlm(model, _open_receipts(workspace), budget)


def _resolve_language_options(options: LanguageOptions, home: Path, environment: Mapping[str, str]) -> LanguageOptions:
    """Return the options completed from the provider's environment variables, with the folder for a shared container."""
    from lorelog.models.chat import resolve_language_options

    return resolve_language_options(
        replace(options, ollama=replace(options.ollama, folder=str(home / "ollama"))), environment
    )


CacheKeyType = TypeVar("CacheKeyType")
CachedType = TypeVar("CachedType")

IDENTITIES_FOLDER = "identities"
"""Folder of keys in the home."""
_MAX_STORES = 16
_MAX_MODELS = 4
"""Limits of a long-running process. A user has a tenant or two, and one model."""


class Location(Struct, frozen=True):
    """Where a command runs: the home of the index, the project, and the environment."""

    home: Path
    project: Project
    environment: Mapping[str, str]
    scope: ScopeFile | None = None
    """The scope file; not looked up if a tenant is named."""


def resolve_location(
    *,
    home: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    tenant: str | None = None,
) -> Location:
    """Return the location: `home` or LORELOG_HOME or ~/.lorelog, and the project of a directory or the current one.

    A server passes the client's directory and environment. If a tenant is named, the scope file is ignored, for the
    tenant as well as for the project.
    """
    environment = dict(os.environ if environment is None else environment)
    home_path = home_folder(os.fspath(home or environment.get("LORELOG_HOME") or ""))
    directory = working_directory() if directory is None else directory
    start = str(Path(directory, project or environment.get("LORELOG_PROJECT") or ""))
    if not is_folder(start):
        raise NotFound(f"directory {start} does not exist", hint="--project takes the directory of a project")
    location = find_project(start)
    named = tenant or environment.get("LORELOG_SCOPE_TENANT")
    scope = None if named else find_scope_file(start)
    if scope is not None:
        location = apply_scope_file(scope, location)
    for path in (home_path, location.id, location.root):
        if path.encode("utf-8", "replace").decode() != path:
            raise UsageError(f"the path {path!r} is not valid UTF-8", hint="rename it, or use another directory")
    return Location(Path(home_path), location, environment, scope)


def working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise NotFound("the current directory no longer exists", hint="change to an existing directory") from None


def settings_at(location: Location, flags: Mapping[str, object] | None = None) -> Settings:
    """Return the settings at a location, overridden by `flags` (setting key to value)."""
    flags = dict(flags or {})
    scope = location.scope
    if scope is None or not scope.tenant or flags.get("scope.tenant"):
        return load_settings(location.home, Path(location.project.root), location.environment, flags)
    settings = load_settings(
        location.home, Path(location.project.root), location.environment, {**flags, "scope.tenant": scope.tenant}
    )
    if scope.tenant not in settings.texts("scope.tenants"):
        raise ConfigError(
            f"{scope.file} selects the tenant {scope.tenant!r}, which is not allowed",
            hint=f"lorelog config set scope.tenants {scope.tenant} (or choose a tenant with --tenant)",
        )
    return settings


def open_engine(location: Location, flags: Mapping[str, object] | None = None) -> Engine:
    """Return an engine with resources of its own, which it closes. The store and models open on first use."""
    return ResourcePool().engine(location, flags, owned=True)


class _EnginePlan(Struct, frozen=True):
    """What settings say about an engine."""

    settings: Settings
    embedding: EmbedOptions
    workspace: Workspace
    defaults: EngineDefaults
    store: StoreOptions
    traces: TraceOptions


def _make_plan(location: Location, flags: Mapping[str, object]) -> _EnginePlan:
    settings = settings_at(location, flags)
    options = _embed_options(settings, location)
    claude = location.environment.get("CLAUDE_CONFIG_DIR") or join_path("", "~/.claude")
    claude_folder = Path(claude) if settings.value("index.auto_memory") else None
    roots, remote = settings.roots(), settings.remote_folders()
    return _EnginePlan(
        settings,
        options,
        Workspace(location.project, location.home, settings.tenant(), roots, claude_folder, remote),
        _make_defaults(location, settings, options),
        settings.store_options(location.environment, str(location.home)),
        settings.options(TraceOptions),
    )


class _LastUsed(dict[CacheKeyType, CachedType]):
    """The most recently used resources of one kind by key; others are closed. Threads may share it."""

    def __init__(self, limit: int, close: Callable[[CachedType], object] = lambda _: None) -> None:
        super().__init__()
        self._limit, self._close = limit, close
        self._lock = Lock()

    def use(self, key: CacheKeyType, make: Callable[[], CachedType]) -> CachedType:
        """Return the resource of a key, made if missing, and close the least recently used beyond the limit."""
        with self._lock:
            item = self.pop(key) if key in self else make()
            self[key] = item
            evicted = [self.pop(other) for other in list(self)[: max(0, len(self) - self._limit)]]
        for other in evicted:
            self._close(other)
        return item

    def all(self, *, remove: bool = False) -> list[CachedType]:
        with self._lock:
            items = list(self.values())
            if remove:
                self.clear()
        return items


class _DeferredAnalyser:
    """The word analyser, made at its first use: status and an index run without changes need none."""

    def __getattr__(self, name: str) -> Any:
        from lorelog.language.analyser import word_analyser

        value = self.__dict__[name] = getattr(word_analyser(), name)  # found without this method from now on
        return value


class ResourcePool:
    """Stores, models and caches that a long-running process shares among engines.

    Threads may share it. `unload_idle` unloads unused models; they load again on the next call. Only the most
    recently used resources are kept. An engine with an evicted resource keeps working: stores and models reopen on
    use, and are freed with the last engine that holds them.
    """

    def __init__(self) -> None:
        close = methodcaller("close")
        self._analyser = cast("WordAnalyser", _DeferredAnalyser())
        self._stores: _LastUsed[object, Store] = _LastUsed(_MAX_STORES, close)
        # One in use is closed by the engine that holds it.
        self._embedders: _LastUsed[EmbedOptions, embed.SharedEmbedder] = _LastUsed(
            _MAX_MODELS, methodcaller("close_if_idle", 0)
        )
        self._rerankers: _LastUsed[RerankOptions, Reranker] = _LastUsed(_MAX_MODELS)
        self._answers: _LastUsed[object, AnswerCache] = _LastUsed(_MAX_STORES)
        self._books: _LastUsed[Path, RecordStore] = _LastUsed(_MAX_STORES, close)
        self._side_databases: _LastUsed[tuple[Path, TraceOptions], SideDatabases] = _LastUsed(_MAX_STORES, close)
        self._plans: _LastUsed[tuple[object, ...], _EnginePlan] = _LastUsed(_MAX_STORES)

    def engine(self, location: Location, flags: Mapping[str, object] | None = None, *, owned: bool = False) -> Engine:
        """Return an engine over the shared resources. Closing it closes none of them, unless the pool is its own."""
        from lorelog.retrieval.cache import AnswerCache

        plan = (_make_plan if owned else self._plan)(location, flags or {})  # an own one is asked for once
        options, workspace, defaults = plan.embedding, plan.workspace, plan.defaults
        caller = (plan.settings, location.home, location.environment, workspace)
        hide = str if owned else _secret_digest  # keys of shared resources outlive the engine
        embedder_key = replace(options, api_key=hide(options.api_key)) if options.api_key else options
        embedder = None
        if options.provider != "none":
            embedder = self._embedders.use(embedder_key, lambda: embed.SharedEmbedder(embed.open_embedder(options)))
        model = f"{embedder.provider}/{embedder.model}" if embedder else "none"
        store_options = replace(plan.store, token=hide(plan.store.token))
        store_key = (workspace.tenant_folder, model, store_options)
        side_key = (workspace.tenant_folder, plan.traces)

        def open_records() -> OpenRecords:
            book = self._books.use(workspace.tenant_folder, lambda: _open_book(location, workspace))
            return _open_records(plan, location, book)

        reranker = None
        if defaults.rerank.model:
            reranker = self._rerankers.use(defaults.rerank, lambda: _open_reranker(defaults.rerank))
        answers_key = (store_key, embedder_key, defaults.rerank, defaults.caching)
        deps = EngineDeps(
            analyser=self._analyser,
            embedder=meter_embedder(embedder, options, workspace),
            reranker=reranker,
            answers=self._answers.use(answers_key, lambda: AnswerCache(defaults.caching)),
            records=cache(open_records),
            side_databases=self._side_databases.use(side_key, lambda: SideDatabases(*side_key)),
            summarizer=partial(make_summarizer, *caller),
            count_tokens=_count_tokens,
            language=partial(open_language_model, *caller),
            close=self.close if owned else lambda: None,
        )
        store = self._stores.use(store_key, lambda: _open_store(workspace, self._analyser, embedder, plan.store))
        return Engine(store=store, deps=deps, workspace=workspace, defaults=defaults)

    def _plan(self, location: Location, flags: Mapping[str, object]) -> _EnginePlan:
        """Return what settings say about an engine. Kept for a caller's next request, until a settings file changes."""
        stamps = tuple(map(settings_stamp, (f"{location.home}/{USER_FILE}", f"{location.project.root}/{PROJECT_FILE}")))
        if None in stamps:
            return _make_plan(location, flags)
        caller = (location.home, location.project, location.scope, environment_digest(location.environment))
        return self._plans.use((*caller, stamps, repr(flags)), lambda: _make_plan(location, flags))

    def unload_idle(self, idle_s: float) -> int:
        """Unload embedders unused for `idle_s` seconds; return how many are still loaded."""
        return sum(not embedder.close_if_idle(idle_s) for embedder in self._embedders.all())

    def rest(self) -> None:
        """Close the files of all unused resources, and drop the caches. Everything opens again on the next use."""
        from lorelog.retrieval.cache import clear_all_caches

        for pool in (self._books, self._side_databases, self._stores, self._rerankers):
            for resource in pool.all():
                resource.close()
        clear_all_caches()
        self.unload_idle(0.0)
        _token_counter.cache_clear()
        conversations = sys.modules.get("lorelog.ingest.transcripts.conversation")
        if conversations is not None:  # no transcript is followed as long as it is not loaded
            conversations.TAILS.clear()

    def end_programs(self) -> None:
        """Kill the programs that serve as language models and are running."""
        from lorelog.models.chat.programs import end_programs

        end_programs()

    def close(self) -> None:
        for pool in (self._books, self._side_databases, self._stores, self._embedders, self._rerankers):
            for resource in pool.all(remove=True):
                resource.close()
        self._answers.clear()
        self._plans.clear()


def _secret_digest(secret: str) -> str:
    """Return a hash that distinguishes a secret without revealing it."""
    if not secret:
        return ""
    from hashlib import sha256

    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _make_defaults(location: Location, settings: Settings, embedding: EmbedOptions) -> EngineDefaults:
    batch_size = 0
    if embedding.provider != "none":
        batch_size = embed.max_texts_in_flight(embedding)
    return EngineDefaults(
        scan=settings.scan_options(),
        chunking=settings.options(ChunkOptions),
        search=settings.search_options(),
        all_projects=bool(settings.value("search.all_projects")),
        batch_size=batch_size,
        rerank=settings.rerank_options(),
        caching=settings.options(CacheOptions),
        session=settings.options(SessionOptions),
        capture=settings.capture_options(),
        spending=settings.spend_options(),
        review_judge=settings.text("review.judge"),
        compact_prompt=prompt_path(location.home, settings.text("prompts.compact")),
    )


def _open_store(
    workspace: Workspace, analyser: WordAnalyser, embedder: Embedder | None, options: StoreOptions
) -> Store:
    provider = embedder.provider if embedder else "none"
    model = embedder.model if embedder else "none"
    folder = workspace.cache_folder
    if options.uri:
        from lorelog.stores.milvus import MilvusStore

        return MilvusStore(
            folder, analyser, options, tenant=workspace.tenant, provider=provider, model=model, name_of=shared_name
        )
    from lorelog.stores.embedded import EmbeddedStore

    return EmbeddedStore(folder, analyser, provider=provider, model=model)


def delete_remote_index(location: Location, flags: Mapping[str, object], uri: str) -> str:
    """Delete the index's rows from a Milvus that is no longer in use; return its address. The catalog is not changed."""
    from lorelog.stores.milvus import MilvusStore

    used = settings_at(location, flags).store_options(location.environment, str(location.home)).uri
    at = coerce_value(find_setting("store.uri"), uri, "--at")
    with open_engine(location, {**flags, "store.uri": at}) as engine:
        store = engine.store
        if not isinstance(store, MilvusStore):
            raise UsageError("--at requires a Milvus address: local index files are deleted by 'lorelog reset'")
        if store.place == used:
            raise UsageError(f"{used} is in use", hint="set store.uri to another store first, or use 'lorelog reset'")
        store.leave()
        return store.place


def _embed_options(settings: Settings, location: Location) -> EmbedOptions:
    """Return which model embeds, with the key and URL from the caller's environment."""
    options = settings.embed_options(location.environment)
    if options.provider == "none":
        return options
    shared = replace(options.ollama, folder=str(location.home / "ollama"))
    options = replace(options, ollama=shared, cache_folder=model_cache_folder(location.home))
    return embed.resolve_embed_options(options, location.environment)


def check_embedder(location: Location, settings: Settings) -> str:
    """Return a description of the embedder. Raise ConfigError or ModelUnavailable if a key or package is missing.

    No model is called.
    """
    options = _embed_options(settings, location)
    if options.provider == "none":
        return "none: keyword search only"
    return embed.check_ready(options)


def _open_records(plan: _EnginePlan, location: Location, book: RecordStore) -> OpenRecords:
    """Return the records with the keys of a home, unlocked for the caller's identity."""
    from lorelog.services.records.keyring import Keyring

    identity, writer = map(plan.settings.text, ("records.identity", "records.writer"))
    passphrase = location.environment.get("LORELOG_IDENTITY_PASSPHRASE", "")
    keyring = Keyring(location.home / IDENTITIES_FOLDER, identity, passphrase)
    return OpenRecords(book, keyring, writer)


def _open_book(location: Location, workspace: Workspace) -> RecordStore:
    """Return a tenant's records. The trusted keys are those of the home, for every caller."""
    from lorelog.services.records.keyring import Keyring
    from lorelog.services.records.store import RecordStore

    return RecordStore(workspace.tenant_folder, Keyring(location.home / IDENTITIES_FOLDER).signing_key)


@cache
def _token_counter() -> Callable[[str], int]:
    from lorelog.models.embed.builtin import TokenCounter

    return TokenCounter()


def _count_tokens(text: str) -> int:
    """Count with the built-in tokenizer, loaded on first use and once per process."""
    return _token_counter()(text)


def _open_reranker(options: RerankOptions) -> Reranker:
    from lorelog.models.rerank import open_reranker

    return cast("Reranker", open_reranker(options))


def user_settings(home: Path) -> Settings:
    """Return the user's settings from their own file and environment, without project or scope files."""
    return load_settings(home, None, dict(os.environ), {})


def settings_file(location: Location, *, of_project: bool) -> Path:
    """Return the path of the user's settings file, or of the project's."""
    return Path(location.project.root) / PROJECT_FILE if of_project else location.home / USER_FILE


def change_setting(location: Location, key: str, raw: str | None, *, of_project: bool) -> bool:
    """Write a setting given as text, or remove it (None); return False if there was nothing to remove.

    Raise Forbidden if an agent would change one for all projects, or one that a repository may not set either.
    """
    from lorelog.config.file_editor import set_value, unset_value

    if any(setting.key == key and not (of_project and setting.project_allowed) for setting in setting_declarations()):
        check_shell("configure", location.environment, f"change {key}" + ("" if of_project else " of all projects"))
    path = settings_file(location, of_project=of_project)
    if raw is None:
        return unset_value(path, key, project=of_project)
    set_value(path, key, raw, project=of_project)
    return True


def create_settings_file(location: Location, *, of_project: bool) -> Path:
    """Write a settings file with all defaults as comments; return its path."""
    from lorelog.config.file_editor import write_initial_file

    path = settings_file(location, of_project=of_project)
    write_initial_file(path, project=of_project)
    return path


def setting_declarations() -> tuple[Setting, ...]:
    return SETTINGS


def format_setting(value: object) -> str:
    """Format a setting's value as in a settings file."""
    return format_toml(value)  # type: ignore[arg-type]
