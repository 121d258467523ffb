"""Every setting, declared once: key, kind, default, meaning, what it accepts and who may choose it.

Loading, editing, `config init` and docs/configuration.md all read this one tuple, so they cannot disagree. A setting is
here only when something reads it. Which providers exist is not here: the models room knows that, and wiring says so.

A project file comes with a clone, so a stranger may have written it. It may shape how that project is cut, scanned and
searched; it may not choose where text or keys are sent, whose index is opened, or that other projects' memories are
shown in this one.
"""

from __future__ import annotations

from lorelog.config.schema_embedding import EMBEDDING_SETTINGS
from lorelog.config.schema_llm import LLM_SETTINGS, RENAMED
from lorelog.config.schema_records import RECORD_SETTINGS
from lorelog.config.schema_sessions import SESSION_SETTINGS
from lorelog.config.schema_store import STORE_SETTINGS
from lorelog.config.schema_traces import TRACE_SETTINGS
from lorelog.config.setting import Kind, Setting, Value
from lorelog.core.options import RERANKERS, WARM
from lorelog.core.query import Fusion, Lane

__all__ = ["BY_KEY", "RENAMED", "SECTIONS", "SETTINGS", "Kind", "Setting", "Value"]

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "scope.tenant",
        Kind.TEXT,
        "default",
        "The tenant whose memories are read and written; nothing crosses tenants.",
        # It names a directory under the home, on file systems that may ignore case.
        pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
        expected="a name of 1 to 64 characters from a-z, 0-9, '.', '_' and '-' that starts with a letter or digit",
    ),
    Setting(
        "scope.tenants",
        Kind.LIST,
        (),
        "The tenants that a directory's `.lorelog/scope.json` may choose; it comes with whoever's clone.",
        pattern=r"[a-z0-9][a-z0-9._-]{0,63}",
        expected="a list of tenants' names",
    ),
    *EMBEDDING_SETTINGS,
    Setting(
        "chunking.max_chunk_size",
        Kind.WHOLE,
        1500,
        "Characters after which a section is split.",
        # Below about a hundred characters a chunk is less than a sentence and its overlap is most of it. Above, no
        # encoder reads 100,000 characters in one go.
        minimum=100,
        maximum=100_000,
        project_allowed=True,
    ),
    Setting(
        "chunking.overlap_lines",
        Kind.WHOLE,
        2,
        "Lines that the parts of a split section share.",
        minimum=0,
        maximum=50,
        project_allowed=True,
    ),
    Setting(
        "index.paths",
        Kind.LIST,
        (),
        "Files and directories that `index` reads when it is given none; an entry `!path` leaves that path out. "
        "Relative paths start at the project directory.",
        pattern=r"!?[^!].*",
        expected="a list of paths",
        project_allowed=True,
    ),
    Setting(
        "index.exclude",
        Kind.LIST,
        (),
        "Patterns of files to leave out, written as in a .gitignore, relative to each root.",
        pattern=r".+",
        expected="a list of gitignore-style patterns",
        project_allowed=True,
    ),
    Setting(
        "index.ignore_files",
        Kind.LIST,
        (".gitignore", ".lorelogignore"),
        "Names of the files in which such patterns are looked for, in every directory.",
        pattern=r"(?!\.{1,2}$)[^/\\]+",
        expected="a list of file names without slashes",
        project_allowed=True,
    ),
    Setting(
        "index.auto_memory",
        Kind.SWITCH,
        True,
        "Index what Claude Code keeps for a project (`~/.claude/projects/…/memory`) and its CLAUDE.md and AGENTS.md files "
        "without being told.",
    ),
    Setting(
        "index.max_file_bytes",
        Kind.WHOLE,
        10_000_000,
        "Larger files are reported and not indexed.",
        minimum=1,
        maximum=1_000_000_000,
        project_allowed=True,
    ),
    Setting(
        "search.k",
        Kind.WHOLE,
        5,
        "How many hits a search returns.",
        minimum=1,
        maximum=1000,
        project_allowed=True,
    ),
    Setting(
        "search.lane",
        Kind.TEXT,
        str(Lane.HYBRID),
        "How to find: by words (`lexical`), by meaning (`dense`) or by both.",
        choices=tuple(map(str, Lane)),
        project_allowed=True,
    ),
    Setting(
        "search.fusion",
        Kind.TEXT,
        str(Fusion.CONVEX),
        "How the two lanes' scores become one.",
        choices=tuple(map(str, Fusion)),
        project_allowed=True,
    ),
    Setting(
        "search.token_budget",
        Kind.WHOLE,
        0,
        "Tokens that the hits of a search may cost their reader: the best set that fits is shown, in whole sections where "
        "they fit. 0 shows the snippets of all hits.",
        minimum=0,
        maximum=10_000_000,
        project_allowed=True,
    ),
    Setting(
        "search.all_projects",
        Kind.SWITCH,
        False,
        "Search the memories of all projects of the tenant, not only of this one.",
    ),
    Setting(
        "search.min_relevance",
        Kind.NUMBER,
        0.0,
        "Hits that are less likely than this to be relevant at all are left out; 0 shows the best there is.",
        minimum=0,
        maximum=1,
        project_allowed=True,
    ),
    Setting(
        "search.recency_weight",
        Kind.NUMBER,
        0.0,
        "What a text of today gains over an old one, beside a score of about 1; .1 decides between hits that are nearly as "
        "good. 0 leaves age out.",
        minimum=0,
        maximum=1,
        project_allowed=True,
    ),
    Setting(
        "search.half_life_days",
        Kind.NUMBER,
        30.0,
        "After how many days half of `search.recency_weight` is left.",
        minimum=0.01,
        maximum=100_000,
        project_allowed=True,
    ),
    Setting(
        "search.freshness",
        Kind.SWITCH,
        True,
        "Look whether the files, symbols, settings and commands that a hit names are as they were, and say where they are not.",
        project_allowed=True,
    ),
    Setting(
        "rerank.provider",
        Kind.TEXT,
        "onnx",
        "Who runs the cross-encoder: `onnx` needs nothing more, `local` is sentence-transformers, to be installed.",
        choices=RERANKERS,
    ),
    Setting(
        "rerank.model",
        Kind.TEXT,
        "",
        "The cross-encoder that looks at the best candidates once more: a folder (`/…` or `~/…`) with `model.onnx` and "
        "`tokenizer.json`, or an id of Hugging Face, taken from the local cache or else downloaded. Empty is off.",
        pattern=r"([/~][^\x00-\x1f\x7f-\x9f]*|[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?)?",
        expected="an absolute path, one that begins with ~, or an id such as cross-encoder/ms-marco-MiniLM-L6-v2",
    ),
    Setting(
        "rerank.candidates",
        Kind.WHOLE,
        20,
        "How many of the best candidates the cross-encoder reads.",
        minimum=1,
        maximum=200,
        project_allowed=True,
    ),
    Setting(
        "rerank.timeout_s",
        Kind.NUMBER,
        2.0,
        "Seconds the cross-encoder may take for one question, loading included; what it did not read by then keeps its "
        "score.",
        minimum=0.05,
        maximum=60,
        project_allowed=True,
    ),
    # The caches take memory of the person whose machine it is, and one of them can change answers: no project chooses them.
    Setting(
        "cache.answers",
        Kind.SWITCH,
        True,
        "Keep answers, and give them again to the same question until anything is written or a new day begins. It helps "
        "programs that go on (Python, servers); a single command asks once.",
    ),
    Setting(
        "cache.answers_entries",
        Kind.WHOLE,
        512,
        "How many answers are kept, and sixteen times as many hits in all; the one unused for longest makes room.",
        minimum=1,
        maximum=100_000,
    ),
    Setting(
        "cache.answers_ttl_s",
        Kind.NUMBER,
        2700.0,
        "Seconds after which an answer is dropped even when nothing was written.",
        minimum=1,
        maximum=604_800,
    ),
    Setting(
        "cache.similar",
        Kind.NUMBER,
        0.0,
        "The cosine from which a question that differs only in case, articles or its end mark is given the other's "
        "answer, with a note; .985 is usual. 0 is off: the order of hits may differ from a search's own.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "cache.hot",
        Kind.SWITCH,
        False,
        "Keep the memories that come up again and again, with their words, in memory until anything is written.",
    ),
    Setting(
        "cache.hot_bytes",
        Kind.WHOLE,
        16_000_000,
        "Bytes that these memories may take, estimated.",
        minimum=1,
        maximum=4_000_000_000,
    ),
    # A process that stays, listens and watches is the person's choice too.
    Setting(
        "daemon.warm",
        Kind.TEXT,
        "auto",
        "Whether commands go through the warm daemon: `auto` starts and uses it and falls back silently, `off` never, "
        "`required` fails without it.",
        choices=WARM,
    ),
    Setting(
        "daemon.idle_s",
        Kind.NUMBER,
        1800.0,
        "Seconds without a call after which the daemon leaves; 0 keeps it.",
        minimum=0,
        maximum=31_536_000,
    ),
    Setting(
        "daemon.model_idle_s",
        Kind.NUMBER,
        600.0,
        "Seconds without anything to embed after which the daemon lets the model go; the next question loads it again.",
        minimum=1,
        maximum=31_536_000,
    ),
    Setting(
        "daemon.http",
        Kind.SWITCH,
        False,
        "Whether the daemon also serves HTTP, as `lorelog serve` does.",
    ),
    Setting(
        "watch.enabled",
        Kind.SWITCH,
        True,
        "Whether the daemon watches the indexed roots and follows their changes.",
    ),
    Setting(
        "watch.debounce_ms",
        Kind.WHOLE,
        1500,
        "Milliseconds of quiet after a change before it is indexed.",
        minimum=10,
        maximum=600_000,
    ),
    Setting(
        "watch.reconcile_s",
        Kind.NUMBER,
        300.0,
        "Seconds between two passes over all watched roots that repair what events missed; 0 makes none.",
        minimum=0,
        maximum=604_800,
    ),
    Setting(
        "http.host",
        Kind.TEXT,
        "127.0.0.1",
        "The address HTTP is served on. Anything but loopback needs `http.token`.",
        pattern=r"[0-9A-Za-z.:_-]{1,253}",
        expected="a host name or an address",
    ),
    Setting(
        "http.port",
        Kind.WHOLE,
        8222,
        "The port HTTP is served on; 0 takes a free one.",
        minimum=0,
        maximum=65_535,
    ),
    Setting(
        "http.token",
        Kind.TEXT,
        "",
        "`env:NAME` reads the bearer token that callers must present from the variable NAME; empty asks for none.",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:LORELOG_TOKEN, never the token itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "http.max_body_bytes",
        Kind.WHOLE,
        10_000_000,
        "Larger requests are refused.",
        minimum=1_000,
        maximum=1_000_000_000,
    ),
    *SESSION_SETTINGS,
    *LLM_SETTINGS,
    *RECORD_SETTINGS,
    *TRACE_SETTINGS,
    *STORE_SETTINGS,
)

BY_KEY = {setting.key: setting for setting in SETTINGS}
SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))
