"""The settings about where what finds things is kept. It is where text is sent, so none of them is a project's."""

from __future__ import annotations

from lorelog.config.setting import ADDRESS, Kind, Setting

STORE_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "store.uri",
        Kind.TEXT,
        "",
        "Where words and vectors are kept: empty is beside the catalog, a path that ends in `.db` is Milvus Lite, "
        "`http://host:19530` a Milvus server, `https://…` Zilliz Cloud (docs/milvus.md).",
        pattern=rf"({ADDRESS}|[^:\x00-\x1f\x7f-\x9f\u2028\u2029]+\.db)",
        expected="a path that ends in .db, or an http:// or https:// address without user, password or query",
        repeatable=False,
    ),
    Setting(
        "store.token",
        Kind.TEXT,
        "",
        "`env:NAME` reads the token of a Milvus server, or `user:password`, from the variable NAME.",
        pattern=r"(env:[A-Za-z_][A-Za-z0-9_]*)?",
        expected="a reference such as env:MILVUS_TOKEN, never the token itself",
        secret=True,
        repeatable=False,
    ),
    Setting(
        "store.per_project",
        Kind.SWITCH,
        True,
        "Whether each project has a Milvus collection of its own; otherwise a tenant's projects share one. No two tenants do.",
    ),
    Setting(
        "store.shared",
        Kind.SWITCH,
        False,
        "Whether this machine finds what other machines of the same tenant keep in the same Milvus about the same projects, and "
        "they what this one keeps (docs/milvus.md).",
    ),
)
