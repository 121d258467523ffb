"""Who is wired to whom? Settings become an engine here, and only here are concrete stores, models and settings known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.config import PROJECT_FILE, USER_FILE, Settings, load_settings
from recollect.core.errors import NotFound, UsageError
from recollect.core.options import EmbedOptions, RerankOptions
from recollect.core.ports import Embedder, Reranker
from recollect.engine import Defaults, Engine
from recollect.services.place import Place
from recollect.services.scope import Project, find_project


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a command is given: the home of the index, the project, and what the environment says."""

    home: Path
    project: Project
    environment: Mapping[str, str]


def standpoint(
    *, home: str | os.PathLike[str] | None = None, project: str | os.PathLike[str] | None = None
) -> Standpoint:
    """Return where one stands: `home` or RECOLLECT_HOME or ~/.recollect, and the project of a directory or the current one."""
    environment = dict(os.environ)
    chosen = os.fspath(home or environment.get("RECOLLECT_HOME") or "~/.recollect")
    start = os.fspath(project or environment.get("RECOLLECT_PROJECT") or _working_directory())
    if not os.path.isdir(start):  # noqa: PTH112
        raise NotFound(f"there is no directory {start}", hint="--project names the directory of a project")
    here = find_project(start)
    for path in (chosen, here.id, here.root):
        if path.encode("utf-8", "replace").decode() != path:
            raise UsageError(f"the path {path!r} is not valid UTF-8", hint="rename it, or work from another directory")
    return Standpoint(Path(os.path.realpath(os.path.expanduser(chosen))), here, environment)  # noqa: PTH111


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        raise NotFound("the current directory is gone", hint="go to one that exists") from None


def settings_at(here: Standpoint, flags: Mapping[str, object] | None = None) -> Settings:
    """Return the settings that hold at a standpoint, under `flags` (setting key to value)."""
    return load_settings(here.home, Path(here.project.root), here.environment, flags or {})


def open_engine(here: Standpoint, flags: Mapping[str, object] | None = None) -> Engine:
    """Build an engine from settings. Opens nothing yet: store and model open when a verb first needs them."""
    settings = settings_at(here, flags)
    embedding = settings.embedding(here.environment)
    embedder, batch_size = _embedder(embedding)
    from recollect.retrieval.analyse import WordAnalyser
    from recollect.stores.embedded import EmbeddedStore

    place = Place(here.project, here.home, settings.tenant(), settings.roots())
    analyser = WordAnalyser()
    store = EmbeddedStore(
        place.tenant_folder / "index",
        analyser,
        provider=embedder.provider if embedder else "none",
        model=embedder.model if embedder else "none",
    )
    rerank = settings.reranking()
    defaults = Defaults(
        settings.scan(),
        settings.chunking(),
        settings.search(),
        settings.all_projects(),
        batch_size,
        rerank,
        settings.caching(),
    )
    return Engine(store, embedder, analyser, place, defaults, reranker=_reranker(rerank))


def _embedder(options: EmbedOptions) -> tuple[Embedder | None, int]:
    """Return the embedder and how many texts to hand it at once."""
    if options.provider == "none":
        return None, 0
    from recollect.models import PROVIDERS, open_embedder

    embedder = open_embedder(options)
    return embedder, options.batch_size or PROVIDERS[options.provider].batch_size


def _reranker(options: RerankOptions) -> Reranker | None:
    """Return the cross-encoder, or None where none was chosen: nothing of it is imported then."""
    if not options.model:
        return None
    from recollect.models.crossencoder import open_reranker

    return open_reranker(options)


def settings_file(here: Standpoint, *, of_project: bool) -> Path:
    """Return the file that holds a person's settings, or the project's."""
    return Path(here.project.root) / PROJECT_FILE if of_project else here.home / USER_FILE


def change_setting(here: Standpoint, key: str, raw: str | None, *, of_project: bool) -> bool:
    """Write one setting given as text, or take it out (None); return whether anything was there to change."""
    from recollect.config.edit import set_value, unset_value

    path = settings_file(here, of_project=of_project)
    if raw is None:
        return unset_value(path, key, project=of_project)
    set_value(path, key, raw, project=of_project)
    return True


def found_settings(here: Standpoint, *, of_project: bool) -> Path:
    """Write a settings file that chooses nothing and shows everything; return its path."""
    from recollect.config.edit import write_initial

    path = settings_file(here, of_project=of_project)
    write_initial(path, project=of_project)
    return path


def setting_text(value: object) -> str:
    """Return a setting's value as one would write it in a settings file."""
    from recollect.config.values import as_toml

    return as_toml(value)  # type: ignore[arg-type]
