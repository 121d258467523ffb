"""The settings about embedding: who turns text into vectors, in which form, and where the server runs.

A project's file chooses none of them but the size of batches: they decide where text and keys are sent, what is started on
this machine, and whether every vector must be made anew.
"""

from __future__ import annotations

from lorelog.config.setting import ADDRESS, Kind, Setting
from lorelog.core.options import AUTO, PROVIDERS

EMBEDDING_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "embedding.provider",
        Kind.TEXT,
        "builtin",
        "Who turns text into vectors: `builtin` needs no network and no key, `openai` is any server that speaks its "
        "dialect, `google`, `voyage`, `jina` and `mistral` are those vendors, `ollama` a server of your own, `local` "
        "(sentence-transformers) and `onnx` run models here, `none` leaves it at words, `fake` is for tests "
        "(docs/providers.md).",
        choices=PROVIDERS,
    ),
    Setting(
        "embedding.model",
        Kind.TEXT,
        "",
        "The provider's model; empty takes the provider's default. For `onnx` and `local` an absolute path is a folder.",
    ),
    Setting(
        "embedding.base_url",
        Kind.TEXT,
        "",
        "Address of a compatible server; empty takes the provider's own.",
        pattern=ADDRESS,
        expected="an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    Setting(
        "embedding.api_key",
        Kind.TEXT,
        "",
        "`env:NAME` reads the key from the variable NAME; empty leaves it to the provider's own variable.",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:OPENAI_API_KEY, never the key itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "embedding.dimensions",
        Kind.WHOLE,
        0,
        "How many numbers a vector has, for models that can be cut (Matryoshka); 0 leaves it to the model.",
        minimum=0,
        maximum=8192,
    ),
    Setting(
        "embedding.query_prefix",
        Kind.TEXT,
        AUTO,
        "Words in front of a question; `auto` takes those that the model was trained with, where they are known. `\\n` is a "
        "line's end.",
    ),
    Setting(
        "embedding.document_prefix",
        Kind.TEXT,
        AUTO,
        "Words in front of a text; `auto` as above. Another prefix makes other vectors, which are kept apart.",
    ),
    Setting(
        "embedding.batch_size",
        Kind.WHOLE,
        0,
        "Texts embedded in one call; 0 takes what suits the provider.",
        minimum=0,
        maximum=10_000,
        project_allowed=True,
    ),
    Setting(
        "embedding.threads",
        Kind.WHOLE,
        0,
        "Processor threads that models which run here may use, the cross-encoder too; 0 chooses by the machine.",
        minimum=0,
        maximum=256,
    ),
    Setting(
        "embedding.timeout_s",
        Kind.NUMBER,
        60.0,
        "Seconds to wait for an answer of a provider's server, all its retries included.",
        minimum=0.1,
        maximum=3600,
    ),
    Setting(
        "ollama.manage",
        Kind.SWITCH,
        False,
        "Start Ollama in a Docker container when `embedding.provider` is `ollama` and no server answers.",
    ),
    Setting(
        "ollama.image",
        Kind.TEXT,
        "ollama/ollama:latest",
        "The image that the container is made of.",
        pattern=r"[A-Za-z0-9][A-Za-z0-9._/:@-]*",
        expected="a Docker image such as ollama/ollama:latest",
    ),
    Setting(
        "ollama.container",
        Kind.TEXT,
        "lorelog-ollama",
        "The container's name; one of that name that does not run is removed.",
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]*",
        expected="a container's name",
    ),
    Setting(
        "ollama.volume",
        Kind.TEXT,
        "lorelog-ollama",
        "The Docker volume (or directory) that keeps models when the container goes.",
        pattern=r"[A-Za-z0-9/][A-Za-z0-9_./-]*",
        expected="a volume's name or an absolute path",
    ),
    Setting(
        "ollama.idle_s",
        Kind.NUMBER,
        300.0,
        "Seconds after the last use after which the container goes; 0 keeps it.",
        minimum=0,
        maximum=31_536_000,
    ),
)
