"""A key is in nothing that is said about a refusal, whatever the key is and however a server writes it."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from lorelog.models.account import Account
from lorelog.models.endpoint import Endpoint, Reply

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=80)
STATUSES = st.sampled_from([200, 302, 400, 401, 402, 404, 422, 429, 500])


@given(KEYS, STATUSES, st.text(max_size=40), st.booleans())
def test_a_refusal_never_shows_the_key(key: str, status: int, around: str, broken: object) -> None:
    """Neither as it is, nor escaped, nor as part of an address; also where the answer breaks off."""
    account = Account(Endpoint("http://host.test/v1", 1), key, "THE_VARIABLE")
    for written in (key, quote(key, safe=""), quote(key), key.replace("/", "\\/"), json.dumps(key)):
        body = json.dumps({"error": {"message": f"{around}{written}{around}"}}).encode()
        body = body[:-2] if broken else body
        refused = account.refusal(Reply(status, body), "embed")
        said = f"{refused.message} {refused.hint} {account.complaint(body)}"
        if key not in f"host.test THE_VARIABLE {around}":
            assert key not in said
            assert key not in unquote(said)
