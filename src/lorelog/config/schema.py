"""All settings: key, default, meaning, accepted values, and whether a project file may set them.

Loading, editing, `config init` and docs/configuration.md read this one tuple, so they cannot disagree. A setting is
listed only if something reads it.

A project file comes with a clone, so a stranger may have written it. It may change how that project is chunked,
scanned and searched. It may not choose where text or keys are sent, what is run on this machine and at which cost,
whose index is opened, which sessions are captured or shown to a model, or that other projects' memories are shown in
this one.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from lorelog.core import options
from lorelog.core.query import Fusion, Lane

SettingValue = str | int | float | bool | tuple[str, ...]
"""The type of a validated value."""
URL_PATTERN = r"(https?://((?![/?#@])[!-~])+(/((?![?#@])[!-~])*)?)?"
"""URL of a server. No user, password, query or fragment: those carry secrets, and settings are shown and stored."""


class SettingKind(StrEnum):
    """The type of a setting, in the documentation's words."""

    TEXT = "text"
    WHOLE = "whole number"
    NUMBER = "number"
    SWITCH = "true or false"
    LIST = "list of texts"


_KINDS = dict(zip((str, int, float, bool, tuple), SettingKind, strict=True))


class Setting(Struct, frozen=True):
    """One setting. `pattern` is matched against a whole text, or against each entry of a list."""

    key: str
    default: SettingValue
    meaning: str
    limits: tuple[float, float] = (float("-inf"), float("inf"))
    """The least and the greatest number."""
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""
    """Accepted values, as a phrase that follows "expected"; derived from kind and limits if empty."""
    project_allowed: bool = False
    secret: bool = False
    """Accepts only a reference to an environment variable."""
    repeatable: bool = True
    """Whether an error may quote a rejected value; False if it may contain a key or a password."""

    @property
    def kind(self) -> SettingKind:
        """The kind of its values: that of the default."""
        return _KINDS[type(self.default)]

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    @property
    def field(self) -> str:
        return self.key.partition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"LORELOG_{self.section}_{self.field}".upper()

    @property
    def accepts(self) -> str:
        """Accepted values, as a phrase."""
        if self.expected:
            return self.expected
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in (SettingKind.WHOLE, SettingKind.NUMBER):
            return f"a {self.kind} from {self.limits[0]:.16g} to {self.limits[1]:.16g}"
        return {SettingKind.TEXT: "a text", SettingKind.SWITCH: "true or false"}.get(self.kind, "a list of texts")


def url_setting(key: str, meaning: str) -> Setting:
    expected = "an http:// or https:// address without user, password or query"
    return Setting(key, "", meaning, pattern=URL_PATTERN, expected=expected, repeatable=False)


def secret_setting(key: str, meaning: str, *, example: str) -> Setting:
    """Return a setting for a reference to a secret in an environment variable."""
    noun = "token" if key.endswith("token") else "key"
    expected = f"a reference such as env:{example}, never the {noun} itself"
    pattern = r"(env:[A-Za-z_][A-Za-z0-9_]*)?"
    return Setting(key, "", meaning, pattern=pattern, expected=expected, secret=True, repeatable=False)


EMBEDDING_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "embedding.provider",
        "builtin",
        "Who embeds text: `builtin` needs no network and no key, `openai` is any OpenAI-compatible server, "
        "`google`, `voyage`, `jina` and `mistral` are those vendors, `ollama` is your own server, `local` "
        "(sentence-transformers) and `onnx` run models on this machine, `none` disables vectors (keyword search "
        "only), `fake` is for tests (`lorelog docs providers`).",
        choices=options.EMBEDDING_PROVIDERS,
    ),
    Setting(
        "embedding.model",
        "",
        "The provider's model; empty uses the provider's default. For `onnx` and `local` an absolute path is a folder; "
        "for `builtin` it is a folder with a copy of its files.",
    ),
    url_setting("embedding.base_url", "URL of a compatible server; empty uses the provider's own."),
    secret_setting(
        "embedding.api_key",
        "`env:NAME` reads the key from the variable NAME; empty uses the provider's own variable.",
        example="OPENAI_API_KEY",
    ),
    Setting(
        "embedding.dimensions",
        0,
        "Vector length, for models whose vectors can be shortened (Matryoshka); 0 uses the model's own.",
        limits=(0, 8192),
    ),
    Setting(
        "embedding.query_prefix",
        options.AUTO_PROVIDER,
        "Prefix of a query; `auto` uses the prefix the model was trained with, if it is known. `\\n` is a line break.",
    ),
    Setting(
        "embedding.document_prefix",
        options.AUTO_PROVIDER,
        "Prefix of a document; `auto` as above. Another prefix gives other vectors, which are kept apart.",
    ),
    Setting(
        "embedding.batch_size",
        0,
        "Texts embedded in one call; 0 uses a size that suits the provider.",
        limits=(0, 10_000),
        project_allowed=True,
    ),
    Setting(
        "embedding.threads",
        0,
        "CPU threads for models that run on this machine, the cross-encoder included; 0 chooses by the machine.",
        limits=(0, 256),
    ),
    Setting(
        "embedding.timeout_s",
        60.0,
        "Time limit for a reply of a provider's server in seconds, retries included.",
        limits=(0.1, 3600),
    ),
    Setting(
        "ollama.manage",
        False,
        "Start Ollama in a Docker container if `embedding.provider` is `ollama` and no server answers.",
    ),
    Setting(
        "ollama.image",
        "ollama/ollama:latest",
        "The image of the container.",
        pattern=r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
        expected="a Docker image such as ollama/ollama:latest",
    ),
    Setting(
        "ollama.container",
        "lorelog-ollama",
        "The name of the container; a stopped container of that name is removed.",
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]*",
        expected="a container's name",
    ),
    Setting(
        "ollama.volume",
        "lorelog-ollama",
        "The Docker volume (or directory) that keeps models when the container is removed.",
        pattern=r"[A-Za-z0-9/][A-Za-z0-9_./-]*",
        expected="a volume's name or an absolute path",
    ),
    Setting(
        "ollama.idle_s",
        300.0,
        "Seconds after the last use after which the container is stopped; 0 keeps it.",
        limits=(0, 31_536_000),
    ),
)


LLM_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "review.judge",
        "none",
        "The language model that may file what you said as rules and decisions (`lorelog review`): `none`, `host` for the "
        "small model of the agent you talked to, `llm` for `llm.provider`, or PROVIDER/MODEL. Its tokens count for `llm.daily_tokens`.",
        pattern=rf"none|llm|(?:{'|'.join(options.LANGUAGE_PROVIDERS[1:])})(?:/[!-~]+)?",
        expected="none, host or host/claude, llm, or a provider of llm.provider as in ollama/MODEL",
    ),
    Setting(
        "llm.provider",
        "none",
        "The language model for `compact`: `openai` is any server with its chat API, `anthropic` and `gemini` are"
        " those vendors, `ollama` is your own server, `command` any program, `host` an agent's own program "
        "(the first of `claude`, `codex`, `gemini`, `qwen`, `copilot`, `opencode`), `none` disables it (`lorelog docs llm`).",
        choices=options.LANGUAGE_PROVIDERS,
    ),
    Setting(
        "llm.model", "", "The provider's model; empty uses the provider's default. For `host`, `codex/NAME` uses Codex."
    ),
    url_setting(
        "llm.base_url",
        "URL of a compatible server, also for a provider named with `--llm`; empty uses the provider's own.",
    ),
    secret_setting(
        "llm.api_key",
        "`env:NAME` reads the key from the variable NAME; empty uses the provider's own (OPENAI_API_KEY, "
        "ANTHROPIC_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY).",
        example="ANTHROPIC_API_KEY",
    ),
    Setting(
        "llm.command",
        "",
        "For `llm.provider = command`: a program with its arguments. It reads the prompt from standard input and "
        "writes the reply to standard output; no shell is involved.",
    ),
    Setting("llm.timeout_s", 120.0, "Time limit for one reply in seconds, retries included.", limits=(1, 3600)),
    Setting(
        "llm.daily_tokens",
        500_000,
        "Daily token limit; a call that might exceed it is not made. Session notes are not counted: they have "
        "`summarize.daily_tokens`.",
        limits=(0, 1_000_000_000),
    ),
    Setting(
        "llm.window_tokens",
        0,
        "Context window of the model in tokens, input and output together; 0 uses the provider's usual size.",
        limits=(0, 10_000_000),
    ),
    Setting(
        "prompts.compact",
        "",
        "File with instructions for summaries of memories (`compact`) that replace the built-in prompt.",
    ),
    Setting("prompts.summarize", "", "File with instructions for notes that replace the built-in prompt."),
)

SESSION_SETTINGS: tuple[Setting, ...] = (
    Setting("capture.enabled", True, "Whether the turns of agents with an installed plugin are written to journals."),
    Setting(
        "capture.session_headings",
        False,
        "Write `## Session HH:MM` above the first entry of each session in a journal, as memsearch does.",
        project_allowed=True,
    ),
    Setting("capture.skip", False, "Exclude this project: its sessions are not captured.", project_allowed=True),
    Setting(
        "session.budget", 600, "Maximum tokens of memory shown when a session starts; 0 shows none.", limits=(0, 25_000)
    ),
    Setting(
        "session.prompt_budget",
        200,
        "Maximum tokens of rules and memories added to a prompt; 0 adds none.",
        limits=(0, 25_000),
    ),
    Setting(
        "session.hits",
        2,
        "Maximum number of relevant memories added to a prompt, after the user's rules that it is about; 0 adds only "
        "such rules.",
        limits=(0, 20),
    ),
    Setting(
        "session.hits_relevance",
        0.1,
        "Minimum probability of relevance for memories that name what a prompt names; 0 adds whatever a search finds.",
        limits=(0, 1),
    ),
    Setting(
        "session.tool_hooks",
        True,
        "Check an agent's tool calls: guards may stop them, and memories whose cue matches are shown.",
    ),
    Setting(
        "session.hold_calls",
        "unseen",
        "Stop a call once if a correction or preference of yours applies to it, so that the agent reads it before the "
        "tool runs and not with its result; the agent repeats the call if it agrees with the rule. `unseen` does so "
        "only if the session was not shown the rule yet, `always` each time it is shown, `off` never.",
        choices=options.HOLD_MODES,
    ),
    Setting(
        "session.subagents",
        "rules",
        "What a subagent is shown when it starts: `rules` your corrections and preferences, `all` what a session is shown, "
        "`none` nothing.",
        choices=options.SUBAGENT_MODES,
    ),
    Setting(
        "summarize.provider",
        "none",
        "Who writes session notes: `none` extracts sentences and costs nothing, `host` uses the agent's own "
        "model, `llm` uses `llm.provider`, the others are the same as there. If the provider is the same as in "
        "`llm`, or `llm` names none, settings that are empty here are taken from `llm`.",
        choices=options.SUMMARY_PROVIDERS,
    ),
    Setting("summarize.model", "", "The model that writes notes; empty uses a small model of the provider."),
    Setting(
        "summarize.models",
        (),
        "Models of single agents, as `AGENT=MODEL`, such as `claude=haiku`; the others use `summarize.model`.",
        pattern=r"[a-z][a-z0-9_-]*=[!-~]+",
        expected="a list of entries such as claude=haiku",
    ),
    url_setting("summarize.base_url", "URL of a compatible server for notes; empty uses the provider's own."),
    secret_setting(
        "summarize.api_key",
        "`env:NAME` reads that server's key from the variable NAME; empty uses the provider's own, such as "
        "OPENAI_API_KEY.",
        example="OPENAI_API_KEY",
    ),
    Setting(
        "summarize.timeout_s",
        60.0,
        "Time limit for a note in seconds; afterwards sentences are extracted.",
        limits=(1, 600),
    ),
    Setting(
        "summarize.daily_tokens",
        200_000,
        "Daily token limit for notes; when it is reached, sentences are extracted until the next day.",
        limits=(0, 1_000_000_000),
    ),
    Setting(
        "redact.patterns",
        (),
        "Regular expressions of further texts to redact from notes, in addition to keys, tokens and passwords.",
    ),
)


RECORD_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "records.writer",
        "",
        "Default writer of records (`--as`); without one, a record has no writer and can never be verified.",
    ),
    Setting(
        "records.identity",
        "",
        "The identity whose key signs your records (`lorelog identity create NAME` makes one); empty signs none.",
    ),
)


TRACE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "traces.enabled",
        True,
        "Whether calls of operations and agents' tools are recorded on this machine, with their duration and "
        "errors. Input texts of operations are not recorded.",
    ),
    Setting("traces.days", 30, "Days after which traces are deleted.", limits=(1, 36_500)),
    Setting("traces.megabytes", 64, "Maximum size of the traces; the oldest are deleted first.", limits=(1, 100_000)),
)


STORE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "store.uri",
        "",
        "Where the search index is kept: empty is next to the catalog, a path ending in `.db` is Milvus Lite, "
        "`http://host:19530` a Milvus server, `https://…` Zilliz Cloud (`lorelog docs milvus`).",
        pattern=rf"({URL_PATTERN}|[^:\x00-\x1f\x7f-\x9f\u2028\u2029]+\.db)",
        expected="a path that ends in .db, or an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    secret_setting(
        "store.token",
        "`env:NAME` reads the token of a Milvus server, or `user:password`, from the variable NAME.",
        example="MILVUS_TOKEN",
    ),
    Setting(
        "store.collection",
        options.DEFAULT_COLLECTION,
        "What the names of Milvus collections begin with; tenant, project and a hash follow. Machines that share memories "
        "need the same.",
        pattern=r"[A-Za-z_][A-Za-z0-9_]{0,63}",
        expected="letters, digits and _, beginning with a letter or _",
    ),
    Setting(
        "store.per_project",
        True,
        "Whether each project has its own Milvus collection; otherwise the projects of a tenant share one. "
        "Tenants never share.",
    ),
    Setting(
        "store.shared",
        False,
        "Whether machines with the same tenant and projects in the same Milvus find each other's memories "
        "(`lorelog docs milvus`).",
    ),
)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "scope.tenant",
        "default",
        "The tenant whose memories are read and written; tenants are isolated from each other.",
        # It names a directory under the home, possibly on a file system that ignores case.
        pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
        expected="a name of 1 to 64 characters from a-z, 0-9, '.', '_' and '-' that starts with a letter or digit",
    ),
    Setting(
        "scope.tenants",
        (),
        "The tenants that a directory's `.lorelog/scope.json` may choose; that file may come from anyone's clone.",
        pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
        expected="a list of tenants' names",
    ),
    *EMBEDDING_SETTINGS,
    Setting(
        "chunking.max_chunk_size",
        1500,
        "Characters after which a section is split.",
        # Below about a hundred characters a chunk is less than a sentence and mostly overlap. No encoder reads more
        # than 100,000 characters at once.
        limits=(100, 100_000),
        project_allowed=True,
    ),
    Setting(
        "chunking.overlap_lines",
        2,
        "Lines that the pieces of a split section share.",
        limits=(0, 50),
        project_allowed=True,
    ),
    Setting(
        "index.paths",
        (),
        "Files and directories that `index` reads by default; an entry `!path` excludes that path. Relative paths"
        " start at the project directory.",
        pattern=r"!?[^!].*",
        expected="a list of paths",
        project_allowed=True,
    ),
    Setting(
        "index.exclude",
        (),
        "Patterns of files to exclude, in .gitignore syntax, relative to each root; `!.notes/` reads a hidden folder, `!.*` all of them.",
        pattern=r".+",
        expected="a list of gitignore-style patterns",
        project_allowed=True,
    ),
    Setting(
        "index.extensions",
        (),
        "Plain text that is read besides Markdown: `.txt`, `.rst`, `.adoc` and `.org` files, as far as they are named here.",
        pattern=r"\.(txt|rst|adoc|org)",
        expected="a list of some of .txt, .rst, .adoc and .org",
        project_allowed=True,
    ),
    Setting(
        "index.ignore_files",
        (".gitignore", ".lorelogignore"),
        "Names of the files in which such patterns are looked up, in every directory; of two that contradict each other, the later name decides.",
        pattern=r"(?!\.{1,2}$)[^/\\]+",
        expected="a list of file names without slashes",
        project_allowed=True,
    ),
    Setting(
        "index.remote_projects",
        (),
        "Directories in which a client over HTTP may have the `memory/` folder of a new project indexed. Empty: only you "
        "add projects, in a shell. Directories of `http.channels` are included.",
        pattern=r"[/~][^\x00-\x1f\x7f-\x9f\u2028\u2029]*",
        expected="a list of absolute directories",
    ),
    Setting(
        "index.auto_memory",
        True,
        "Index Claude Code's memory of a project (`~/.claude/projects/…/memory`) and its CLAUDE.md and AGENTS.md "
        "files automatically, and memsearch's journals when `lorelog index` is given no path.",
    ),
    Setting(
        "index.max_file_bytes",
        10_000_000,
        "Larger files are reported and not indexed.",
        limits=(1, 1_000_000_000),
        project_allowed=True,
    ),
    Setting("search.k", 5, "Number of hits that a search returns.", limits=(1, 1000), project_allowed=True),
    Setting(
        "search.lane",
        str(Lane.HYBRID),
        "Search by words (`lexical`), by meaning (`dense`) or both.",
        choices=tuple(map(str, Lane)),
        project_allowed=True,
    ),
    Setting(
        "search.fusion",
        str(Fusion.CONVEX),
        "How the scores of the two lanes are combined.",
        choices=tuple(map(str, Fusion)),
        project_allowed=True,
    ),
    Setting(
        "search.token_budget",
        0,
        "Maximum tokens of the hits: the best set that fits is shown, as whole sections where they fit. 0 shows "
        "the snippets of all hits.",
        limits=(0, 10_000_000),
        project_allowed=True,
    ),
    Setting("search.all_projects", False, "Search the memories of all projects of the tenant, not only of this one."),
    Setting(
        "search.min_relevance",
        0.0,
        "Minimum probability of relevance; hits below it are left out. 0 shows the best hits in any case.",
        limits=(0, 1),
        project_allowed=True,
    ),
    Setting(
        "search.freshness",
        True,
        "Check whether the files, symbols, settings and commands that a hit mentions still exist unchanged, and "
        "report those that do not.",
        project_allowed=True,
    ),
    Setting(
        "rerank.provider",
        "onnx",
        "Runtime of the cross-encoder: `onnx` is included, `local` needs sentence-transformers.",
        choices=options.RERANK_PROVIDERS,
    ),
    Setting(
        "rerank.model",
        "",
        "The cross-encoder that reranks the best candidates: a folder (`/…` or `~/…`) with `model.onnx` and "
        "`tokenizer.json`, or a Hugging Face id, taken from the local cache or downloaded. Empty disables "
        "reranking.",
        pattern=r"([/~][^\x00-\x1f\x7f-\x9f]*|[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?)?",
        expected="an absolute path, one that begins with ~, or an id such as cross-encoder/ms-marco-MiniLM-L6-v2",
    ),
    Setting(
        "rerank.candidates",
        20,
        "Number of best candidates that the cross-encoder reads.",
        limits=(1, 200),
        project_allowed=True,
    ),
    Setting(
        "rerank.timeout_s",
        2.0,
        "Time limit of the cross-encoder for one query in seconds, loading included; candidates it has not read "
        "keep their score.",
        limits=(0.05, 60),
        project_allowed=True,
    ),
    # Caches use the machine's memory, and one of them can change replies: a project file may not set them.
    Setting(
        "cache.answers",
        True,
        "Cache replies and reuse them for the same query until the next write or the next day. This helps "
        "long-running programs (Python, servers); a single command asks once.",
    ),
    # A long-running process that listens and watches is the user's choice, too.
    Setting(
        "daemon.warm",
        "auto",
        "Whether commands use the daemon: `auto` starts and uses it and falls back silently, `off` never uses it,"
        " `required` fails without it.",
        choices=options.WARM_MODES,
    ),
    Setting(
        "daemon.idle_s",
        1800.0,
        "Seconds without a call after which the daemon exits; 0 keeps it running.",
        limits=(0, 31_536_000),
    ),
    Setting(
        "daemon.model_idle_s",
        600.0,
        "Seconds without embedding after which the daemon unloads the model; without any call, it also restarts to give "
        "back its memory.",
        limits=(1, 31_536_000),
    ),
    Setting("daemon.http", False, "Whether the daemon also serves HTTP, like `lorelog serve`."),
    Setting("watch.enabled", True, "Whether the daemon watches the indexed roots and indexes changes."),
    Setting(
        "watch.debounce_ms",
        1500,
        "Milliseconds without a further change before a change is indexed.",
        limits=(10, 600_000),
    ),
    Setting(
        "watch.reconcile_s",
        300.0,
        "Seconds between full passes over the watched roots that repair missed events; 0 disables them.",
        limits=(0, 604_800),
    ),
    Setting(
        "http.host",
        "127.0.0.1",
        "The address that HTTP listens on. Any address other than loopback requires a token.",
        pattern=r"[0-9A-Za-z.:_-]{1,253}",
        expected="a host name or an address",
    ),
    Setting("http.port", 8222, "The port that HTTP listens on; 0 picks a free one.", limits=(0, 65_535)),
    secret_setting(
        "http.token",
        "`env:NAME` reads the bearer token that clients must send from the variable NAME; empty uses the one in "
        "`run/http.token` of the home, which is created once.",
        example="LORELOG_TOKEN",
    ),
    Setting(
        "http.require_token",
        True,
        "Whether HTTP clients must send a token. Without one, every user of this machine can read and write your memories.",
    ),
    Setting("http.max_body_bytes", 10_000_000, "Larger requests are rejected.", limits=(1_000, 1_000_000_000)),
    Setting(
        "http.channels",
        (),
        "Project directories of Loop's channels, as `CHANNEL_ID=/path`; any other channel is in "
        "`~/.loop/CHANNEL_ID/work`, if that exists.",
        pattern=r"[\w.:@-]{1,100}=[/~][^\x00-\x1f\x7f-\x9f\u2028\u2029]*",
        expected="a list of entries such as 1234=/srv/app",
    ),
    *SESSION_SETTINGS,
    *LLM_SETTINGS,
    *RECORD_SETTINGS,
    *TRACE_SETTINGS,
    *STORE_SETTINGS,
)

SETTINGS_BY_KEY = {setting.key: setting for setting in SETTINGS}
SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))
