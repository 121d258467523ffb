"""Where capturing stands: what was captured of each host, and what still waits in the spool."""

from __future__ import annotations

import time

from lorelog.core.session import HostCaptures, SessionStatus
from lorelog.services.place import Place
from lorelog.services.receipts import Receipts
from lorelog.services.session import spool
from lorelog.services.session.captures import open_captures


def session_status(place: Place) -> SessionStatus:
    """Return what is known of a tenant's captures; nothing is made where nothing was captured yet."""
    hosts: tuple[HostCaptures, ...] = ()
    if (place.tenant_folder / "captures.db").exists():
        with open_captures(place.tenant_folder) as captures:
            hosts = captures.status(_midnight())
    waiting, oldest_s = spool.waiting(str(place.home))
    failed = sum(1 for _ in (place.home / "spool" / "failed").glob("*.json"))
    return SessionStatus(hosts, waiting, round(oldest_s, 1), failed, Receipts.of(place.tenant_folder).spent_today())


def _midnight() -> float:
    """Return when today began, where this machine is."""
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
