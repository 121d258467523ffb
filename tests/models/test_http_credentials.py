"""An error message never contains the key, in any form that a server may write it."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from lorelog.models.http import Credentials, Endpoint, HttpReply

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=80)
STATUSES = st.sampled_from([200, 302, 400, 401, 402, 404, 422, 429, 500])


@given(KEYS, STATUSES, st.text(max_size=40), st.booleans())
def test_a_refusal_never_shows_the_key(key: str, status: int, around: str, broken: object) -> None:
    """The key is not shown plain, escaped or in a URL, even in an incomplete reply."""
    account = Credentials(Endpoint("http://host.test/v1", 1), key, "THE_VARIABLE")
    for written in (key, quote(key, safe=""), quote(key), key.replace("/", "\\/"), json.dumps(key)):
        body = json.dumps({"error": {"message": f"{around}{written}{around}"}}).encode()
        body = body[:-2] if broken else body
        refused = account.error_for_reply(HttpReply(status, body), "embed")
        said = f"{refused.message} {refused.hint} {account.server_message(body)}"
        if key not in f"host.test THE_VARIABLE {around}":
            assert key not in said
            assert key not in unquote(said)
