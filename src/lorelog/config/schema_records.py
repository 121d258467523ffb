"""The settings about records: in whose name they are written. A clone must not choose that, so neither is a project's."""

from __future__ import annotations

from lorelog.config.setting import Kind, Setting

RECORD_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "records.agent",
        Kind.TEXT,
        "",
        "Who writes records where nobody is named; empty leaves them without a writer, and such a record can never be "
        "verified.",
    ),
    Setting(
        "records.identity",
        Kind.TEXT,
        "",
        "The identity whose key signs the records that you write (`lorelog identity create NAME` makes one); empty signs none.",
    ),
)
