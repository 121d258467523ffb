"""What every remote provider promises, each against a loopback server that speaks that vendor's wire format."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterator
from email.utils import formatdate

import pytest
from tests.models.embedding_server import Answer, Request, numbers_of
from tests.models.vendors import KEY, VENDORS, Rig, Vendor, each_vendor, unpacked

from lorelog.core.errors import ConfigError, ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports_models import PricedQuestions
from lorelog.models import PROVIDERS, open_embedder, settled

PLAIN = {"query_prefix": "", "document_prefix": ""}


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.stop()


def test_every_remote_provider_is_tested_here() -> None:
    """Each provider with a key has a wire format in these tests."""
    assert set(VENDORS) == {name for name, provider in PROVIDERS.items() if provider.key_variable}


# -- good answers ---------------------------------------------------------------------------------------------------------


@each_vendor
def test_texts_come_back_in_order(vendor: Vendor, rig: Rig) -> None:
    """However many batches there are and whichever is answered first, the n-th vector is that of the n-th text."""

    def slower_for_early_ones(request: Request) -> Answer:
        answer = vendor.well(request)
        answer.delay_s = 0.0 if "y" in vendor.texts(request)[0] else 0.05
        return answer

    server = rig.serve(slower_for_early_ones)
    texts = [letter * (number + 1) for number, letter in enumerate("abcdefgxy")]
    reply = rig.open(vendor, server, batch_size=2, **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert (reply.tokens, reply.truncated) == (35 if vendor.tokens else 0, 0)
    assert sorted(len(vendor.texts(request)) for request in server.requests) == [1, 2, 2, 2, 2]


@each_vendor
def test_the_server_the_path_and_the_key_are_those_chosen(vendor: Vendor, rig: Rig) -> None:
    """Requests go to base_url, to the vendor's path there, with the key in the vendor's header and nowhere else."""
    server = rig.serve(vendor.well)
    embedder = rig.open(vendor, server)
    embedder.embed_documents(["a"])
    embedder.embed_query("q")
    assert {request.path for request in server.requests} == {vendor.path}
    for request in server.requests:
        assert request.headers[vendor.key_header] == vendor.key_value
        others = {name: value for name, value in request.headers.items() if name != vendor.key_header}
        assert KEY not in f"{others} {request.path} {request.body}"


@each_vendor
def test_the_key_comes_from_the_providers_own_variable(vendor: Vendor, rig: Rig) -> None:
    """Where the settings name no key, the provider's variable holds it."""
    server = rig.serve(vendor.well)
    options = EmbedOptions(provider=vendor.name, base_url=vendor.base_url(server), dimensions=0)
    ready = settled(options, {PROVIDERS[vendor.name].key_variable: KEY})
    assert ready.api_key == KEY
    embedder = rig.open(vendor, server, api_key=ready.api_key)
    embedder.embed_query("q")
    assert server.requests[0].headers[vendor.key_header] == vendor.key_value


@each_vendor
def test_a_query_has_unit_length(vendor: Vendor, rig: Rig) -> None:
    """A question's vector points where the server's did and has length one."""
    server = rig.serve(vendor.answering([0.0, 3.0, 4.0]))
    assert unpacked(rig.open(vendor, server).embed_query("q")) == pytest.approx([0.0, 0.6, 0.8])


@each_vendor
def test_a_question_says_what_it_costs(vendor: Vendor, rig: Rig) -> None:
    """The tokens of a question are told where the vendor tells them."""
    embedder = rig.open(vendor, rig.serve(vendor.well))
    assert isinstance(embedder, PricedQuestions)
    asked = embedder.embed_question("q")
    assert asked.vectors == (embedder.embed_query("q"),)
    assert asked.tokens == (7 if vendor.tokens else 0)


@each_vendor
def test_the_dimension_is_learned_from_the_first_answer(vendor: Vendor, rig: Rig) -> None:
    """Nothing is asked just to learn it, and the first batch of all goes alone."""
    server = rig.serve(vendor.well)
    embedder = rig.open(vendor, server, batch_size=1)
    assert (embedder.dimension, server.requests) == (0, [])  # type: ignore[attr-defined]
    embedder.embed_documents(["a"])
    assert (embedder.dimension, len(server.requests)) == (3, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if provider.at_once > 1])
def test_batches_are_under_way_at_once(name: str, rig: Rig) -> None:
    """After the first batch several are under way together: each of these waits for the others to arrive."""
    vendor = VENDORS[name]
    together = threading.Barrier(PROVIDERS[name].at_once, timeout=20)

    def wait_for_others(request: Request) -> Answer:
        together.wait()
        return vendor.well(request)

    server = rig.serve(vendor.well, wait_for_others)
    texts = [f"text {number}" for number in range(1 + PROVIDERS[name].at_once)]
    reply = rig.open(vendor, server, batch_size=1, **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]


# -- refusals -------------------------------------------------------------------------------------------------------------


@each_vendor
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_once_and_names_the_variable(vendor: Vendor, status: int, rig: Rig) -> None:
    """A wrong key is not tried again, not for any batch; the hint names the variable, and nothing shows the key."""
    server = rig.serve(vendor.saying(status, f"Incorrect API key provided: {KEY}\x1b[31m\n."))
    with pytest.raises(ModelUnavailable, match=f"refused the API key.*{status}.*Incorrect") as caught:
        rig.open(vendor, server, batch_size=1).embed_documents(["a", "b", "c"])
    assert PROVIDERS[vendor.name].key_variable in caught.value.hint
    assert caught.value.message.isprintable()
    assert len(server.requests) == 1


def test_google_refuses_a_key_with_400(rig: Rig) -> None:
    """Google's answer to a wrong key, 400 with a reason, is taken for what it is."""
    body = {
        "error": {
            "code": 400,
            "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
        }
    }
    server = rig.serve(lambda request: Answer(400, body))
    with pytest.raises(ModelUnavailable, match="refused the API key") as caught:
        rig.open(VENDORS["google"], server).embed_query("q")
    assert caught.value.hint == "check GOOGLE_API_KEY"


@pytest.mark.parametrize("name", [name for name in VENDORS if name != "ollama"])
def test_a_vendor_is_not_asked_without_a_key(name: str) -> None:
    """Without a key nobody is connected to, and one line says which variable to set."""
    with pytest.raises(ModelUnavailable, match="no API key for") as caught:
        open_embedder(EmbedOptions(provider=name)).embed_query("q")
    assert caught.value.hint == f"set {PROVIDERS[name].key_variable}"


@each_vendor
def test_a_limit_is_waited_out_as_long_as_the_server_says(vendor: Vendor, rig: Rig) -> None:
    """After 429 with Retry-After the request is sent again when that time is over, not before."""
    server = rig.serve(vendor.saying(429, headers={"Retry-After": "0.6"}), vendor.well)
    began = time.monotonic()
    assert rig.open(vendor, server).embed_query("q")
    assert time.monotonic() - began >= 0.6
    assert len(server.requests) == 2


@each_vendor
def test_a_wait_beyond_the_time_limit_is_not_begun(vendor: Vendor, rig: Rig) -> None:
    """A server that asks for more patience than there is makes the model unavailable at once, in its own words."""
    server = rig.serve(vendor.saying(429, "slow down", headers={"Retry-After": formatdate(time.time() + 3600)}))
    with pytest.raises(ModelUnavailable, match=r"429.*slow down"):
        rig.open(vendor, server).embed_query("q")
    assert len(server.requests) == 1


def test_googles_own_word_for_the_wait_is_understood(rig: Rig) -> None:
    """Google says in the body how long to wait."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.6s"}]
    body = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    server = rig.serve(lambda request: Answer(429, body), VENDORS["google"].well)
    began = time.monotonic()
    assert rig.open(VENDORS["google"], server).embed_query("q")
    assert time.monotonic() - began >= 0.6


@pytest.mark.parametrize("name", ["openai", "voyage"])
def test_a_limit_holds_all_requests_back(name: str, rig: Rig) -> None:
    """While one request waits out a 429, none of the others begins."""
    vendor, lock, refused = VENDORS[name], threading.Lock(), threading.Event()
    arrived: list[float] = []

    def limit_the_first(request: Request) -> Answer:
        with lock:
            place = len(arrived)
            arrived.append(time.monotonic())
        if place == 0:
            refused.set()
            return vendor.saying(429, headers={"Retry-After": "1"})(request)
        if place < PROVIDERS[name].at_once:  # those that were under way already are answered after the refusal
            refused.wait(20)
            return Answer(**{**vars(vendor.well(request)), "delay_s": 0.2})
        return vendor.well(request)

    texts = [f"text {number}" for number in range(12)]
    embedder = rig.open(vendor, rig.serve(limit_the_first), batch_size=1, **PLAIN)
    embedder.dimension = 3  # type: ignore[attr-defined]  # as after a first answer: all may go at once
    reply = embedder.embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert min(arrived[PROVIDERS[name].at_once :]) - arrived[0] >= 0.9


@each_vendor
def test_passing_failures_are_survived(vendor: Vendor, rig: Rig) -> None:
    """A 500, a 503, a hang-up and a reply that breaks off are each followed by another try."""
    server = rig.serve(
        vendor.saying(500, headers={"Retry-After": "0"}),
        vendor.saying(503, headers={"Retry-After": "0"}),
        lambda request: Answer(hang_up=True),
        lambda request: Answer(raw=b'{"data": [', promised=100),
        vendor.well,
    )
    assert unpacked(rig.open(vendor, server, **PLAIN).embed_documents(["abc"]).vectors[0]) == numbers_of("abc")
    assert len(server.requests) == 5


@each_vendor
@pytest.mark.parametrize(
    ("broken", "message"),
    [("500", "fails.*HTTP 500.*out of memory"), ("hang up", "breaking off"), ("truncated", "100 bytes of the reply")],
)
def test_lasting_failures_end(vendor: Vendor, broken: str, message: str, rig: Rig) -> None:
    """What goes on failing makes the model unavailable within the time limit."""
    behaviours = {
        "500": vendor.saying(500, "out of memory"),
        "hang up": lambda request: Answer(hang_up=True),
        "truncated": lambda request: Answer(raw=b'{"data": [', promised=100),
    }
    server = rig.serve(behaviours[broken])
    with pytest.raises(ModelUnavailable, match=message):
        rig.open(vendor, server, timeout_s=1.4).embed_documents(["a"])
    assert len(server.requests) == 2


@each_vendor
@pytest.mark.parametrize("answer", [Answer(body={}, delay_s=30), Answer(raw=b"x" * 10_000, drip_s=0.01)])
def test_a_server_that_is_too_slow_is_left(vendor: Vendor, answer: Answer, rig: Rig) -> None:
    """Neither silence nor a reply that drips byte by byte outlasts the time limit."""
    server = rig.serve(lambda request: answer)
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.4 s"):
        rig.open(vendor, server, timeout_s=0.4).embed_query("q")
    assert len(server.requests) == 1


@each_vendor
def test_a_silent_server_keeps_one_search_waiting_and_not_the_next(vendor: Vendor, rig: Rig) -> None:
    """After a question that ran out of time others fail at once, until texts were embedded: then it is asked again."""
    server = rig.serve(lambda request: Answer(body={}, delay_s=30), vendor.well)
    embedder = rig.open(vendor, server, timeout_s=0.4)
    for message in ("did not answer within", "is not asked again", "is not asked again"):
        with pytest.raises(ModelUnavailable, match=message):
            embedder.embed_query("q")
    assert len(server.requests) == 1
    embedder.embed_documents(["a"])
    assert embedder.embed_query("q")


@each_vendor
def test_a_model_that_is_not_there_is_a_fault_in_the_servers_words(vendor: Vendor, rig: Rig) -> None:
    """A 404 is not tried again, and says what the server said or what to do."""
    server = rig.serve(vendor.saying(404, "model 'x' not found"))
    with pytest.raises(ModelError, match=r"not found|does not have the model") as caught:
        rig.open(vendor, server, batch_size=1).embed_documents(["a", "b"])
    assert caught.value.hint
    assert len(server.requests) == 1


# -- nonsense -------------------------------------------------------------------------------------------------------------


@each_vendor
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 1.0, 1.0]], "1 embeddings for 2 texts"),
        ([[1.0, 1.0, 1.0]] * 3, "3 embeddings for 2 texts"),
        ([[1.0, 1.0, 1.0], [1.0, float("nan"), 1.0]], "not finite"),
        ([[1.0, 1.0, 1.0], [1.0, float("inf"), 1.0]], "not finite"),
        ([[1.0, 1.0, 1.0], [1.0, 1.0]], "dimensions"),
        ([[1.0, 1.0, 1.0], []], "empty"),
        ([[1.0, 1.0, 1.0], None], "neither a list nor base64"),
        ([[1.0, 1.0, 1.0], ["a"]], "32-bit numbers"),
    ],
)
def test_nonsense_is_a_fault_that_says_what_is_wrong(
    vendor: Vendor, rows: list[object], message: str, rig: Rig
) -> None:
    """Whatever is not one sound vector for each text is refused at once, and the message says which way it was not."""
    server = rig.serve(vendor.answering(*rows))
    with pytest.raises(ModelFault, match=message) as caught:
        rig.open(vendor, server).embed_documents(["a", "b"])
    assert "127.0.0.1" in caught.value.message
    assert len(server.requests) == (2 if message == "not finite" else 1)  # it may have been about one of the texts


@each_vendor
@pytest.mark.parametrize("raw", [b'{"data": [{"ind', b"\xff\xfe", b"", b"<html>", b"[]", b'"x"', b"{}", b"[" * 50_000])
def test_what_is_no_answer_is_a_fault(vendor: Vendor, raw: bytes, rig: Rig) -> None:
    """A reply that is no JSON, or other JSON, is told as such."""
    with pytest.raises(ModelFault, match=r"not JSON|without a list"):
        rig.open(vendor, rig.serve(lambda request: Answer(raw=raw))).embed_query("q")


@each_vendor
def test_a_later_answer_of_another_dimension_is_refused(vendor: Vendor, rig: Rig) -> None:
    """Once the dimension is known, vectors of another are a fault, for texts and for questions."""
    server = rig.serve(vendor.answering([1.0, 2.0, 3.0]), vendor.answering([1.0, 2.0]))
    embedder = rig.open(vendor, server)
    embedder.embed_documents(["a"])
    with pytest.raises(ModelFault, match="dimensions"):
        embedder.embed_documents(["b"])
    with pytest.raises(ModelFault, match="dimensions"):
        embedder.embed_query("q")


@each_vendor
def test_an_error_that_passes_for_an_answer_is_told(vendor: Vendor, rig: Rig) -> None:
    """A 200 with a complaint in the place of vectors is a fault in the server's words, without the key."""
    server = rig.serve(lambda request: Answer(body=vendor.refusal(200, f"the quota of {KEY} is used up")))
    with pytest.raises(ModelFault, match=r"without a list of embeddings: the quota of \[key\] is used up"):
        rig.open(vendor, server).embed_query("q")


@each_vendor
def test_a_redirect_is_not_followed(vendor: Vendor, rig: Rig) -> None:
    """Nobody but the chosen server sees a text or a key, and the message says why nothing came."""
    other = rig.serve(vendor.well)
    for status in (301, 302, 307, 308):
        server = rig.serve(vendor.saying(status, headers={"Location": f"{other.url}/embeddings"}))
        with pytest.raises(ModelFault, match=f"sends elsewhere.*{status}") as caught:
            rig.open(vendor, server).embed_query("q")
        assert "base URL" in caught.value.hint
        assert len(server.requests) == 1
    assert other.requests == []


# -- what one of many does ------------------------------------------------------------------------------------------------


@each_vendor
def test_what_was_made_before_a_failure_is_handed_over(vendor: Vendor, rig: Rig) -> None:
    """When one of several batches fails, the error brings the vectors and the tokens of the others: they were paid for."""
    served: list[str] = []

    def fail_for_one(request: Request) -> Answer:
        texts = vendor.texts(request)
        if "d" in texts[0]:
            return vendor.saying(401)(request)
        served.extend(texts)
        return Answer(**{**vars(vendor.well(request)), "delay_s": 0.2})  # so that some are under way meanwhile

    texts = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    with pytest.raises(ModelUnavailable) as caught:
        rig.open(vendor, rig.serve(fail_for_one), batch_size=1, **PLAIN).embed_documents(texts)
    done = {texts[place]: unpacked(vector) for place, vector in caught.value.done.items()}
    assert done == {text: numbers_of(text) for text in served}
    assert {"a", "bb", "ccc"} <= set(served)
    assert caught.value.tokens == (7 * len(served) if vendor.tokens else 0)


@each_vendor
@pytest.mark.parametrize("way", ["400", "NaN"])
@pytest.mark.parametrize("bad", [{0}, {5}, {0, 1}, {2, 6}])
def test_a_text_that_is_refused_does_not_keep_the_others_back(
    vendor: Vendor, way: str, bad: set[int], rig: Rig
) -> None:
    """Whichever texts a server does not take, all others have their vectors, and those are named with the reason."""

    def picky(request: Request) -> Answer:
        texts = vendor.texts(request)
        if not any(text.startswith("bad") for text in texts):
            return vendor.well(request)
        if way == "400":
            return vendor.saying(400, "this input is not allowed")(request)
        rows = [[float("nan")] * 3 if text.startswith("bad") else numbers_of(text) for text in texts]
        return Answer(body=vendor.reply(rows, 7))

    texts = [("bad " if place in bad else "good ") + str(place) for place in range(8)]
    reply = rig.open(vendor, rig.serve(picky), **PLAIN).embed_documents(texts)
    assert set(reply.refused) == bad
    assert all(("not allowed" if way == "400" else "not finite") in why for why in reply.refused.values())
    for place, text in enumerate(texts):
        assert place in bad or unpacked(reply.vectors[place]) == numbers_of(text)


@each_vendor
@pytest.mark.parametrize("known", [False, True])
def test_a_server_that_refuses_all_texts_is_found_out_soon(vendor: Vendor, known: object, rig: Rig) -> None:
    """Where it is not about one text, a few requests show it, and it is an error whether texts were taken before or not."""
    server = rig.serve(*[vendor.well] * bool(known), vendor.saying(400, "no such model"))
    embedder = rig.open(vendor, server)
    if known:
        embedder.embed_documents(["a"])
    with pytest.raises(ModelFault, match="no such model"):
        embedder.embed_documents([f"text {number}" for number in range(64)])
    assert len(server.requests) < 20


def test_a_text_that_ollama_has_no_numbers_for_is_not_tried_again_and_again(rig: Rig) -> None:
    """Ollama says 500 where a model makes NaN of a text: that is about the text, and the others get their vectors."""
    vendor = VENDORS["ollama"]

    def broken(request: Request) -> Answer:
        if "bad" in vendor.texts(request):
            return vendor.saying(500, "failed to encode response: json: unsupported value: NaN")(request)
        return vendor.well(request)

    server = rig.serve(broken)
    reply = rig.open(vendor, server, **PLAIN).embed_documents(["a", "bad", "c"])
    assert list(reply.refused) == [1]
    assert len(server.requests) < 6


# -- what is too much -----------------------------------------------------------------------------------------------------

TOO_MUCH = {
    "openai": "Requested 416735 tokens, max 300000 tokens per request",
    "google": "at most 100 requests can be in one batch",
    "voyage": "The max allowed tokens per submitted batch is 120000. Your batch has 160000 tokens after truncation.",
    "jina": "The input exceeds the maximum length of 8194 tokens",
    "mistral": "Too many tokens in batch. Max is 16384 got 17555",
    "ollama": "the input length exceeds the context length",
}


@each_vendor
def test_a_batch_that_is_too_large_is_asked_for_in_halves(vendor: Vendor, rig: Rig) -> None:
    """A server that finds a batch too large is asked for less, and every text has its vector in its place."""

    def at_most_two(request: Request) -> Answer:
        if len(vendor.texts(request)) > 2:
            return vendor.saying(400, TOO_MUCH[vendor.name])(request)
        return vendor.well(request)

    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    reply = rig.open(vendor, rig.serve(at_most_two), **PLAIN).embed_documents(texts)
    assert [unpacked(vector) for vector in reply.vectors] == [numbers_of(text) for text in texts]
    assert reply.truncated == 0


@each_vendor
def test_a_text_that_is_too_long_is_cut_and_counted(vendor: Vendor, rig: Rig) -> None:
    """A text that a server does not take whole is embedded by its beginning, and counts as truncated."""

    def at_most_a_thousand(request: Request) -> Answer:
        if max(map(len, vendor.texts(request))) > 1000:
            return vendor.saying(400, TOO_MUCH[vendor.name])(request)
        return vendor.well(request)

    reply = rig.open(vendor, rig.serve(at_most_a_thousand), **PLAIN).embed_documents(["short", "x" * 3000])
    assert [unpacked(vector)[0] for vector in reply.vectors] == [5.0, 750.0]
    assert reply.truncated == 1


@each_vendor
def test_a_server_that_finds_everything_too_large_is_given_up(vendor: Vendor, rig: Rig) -> None:
    """Cutting ends, and then the refusal is told in the server's words."""
    server = rig.serve(vendor.saying(413, "payload size exceeds the limit"))
    with pytest.raises(ModelFault, match="payload size"):
        rig.open(vendor, server).embed_documents(["x" * 3000] * 4)
    assert len(server.requests) < 10


# -- secrets --------------------------------------------------------------------------------------------------------------


@each_vendor
@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_the_key_appears_in_no_error_and_no_repr(vendor: Vendor, status: int, rig: Rig) -> None:
    """Whatever goes wrong, and even when the server repeats it, the key is in no message, hint, traceback or repr."""
    server = rig.serve(vendor.saying(status, f"crash: Authorization: Bearer {KEY}", headers={"Retry-After": "99"}))
    embedder = rig.open(vendor, server, timeout_s=0.5)
    with pytest.raises(ModelError) as caught:
        embedder.embed_query("q")
    shown = "".join(traceback.format_exception(caught.value)) + caught.value.hint + repr(caught.value)
    assert KEY not in shown + repr(embedder) + repr(vars(embedder))


@pytest.mark.parametrize(
    "said",
    [
        KEY,
        KEY.replace("/", "\\/"),
        KEY.replace("+", "\\u002b"),
        KEY.replace("+", "%2B").replace("/", "%2f"),
        "".join(f"%{ord(letter):02X}" for letter in KEY),
    ],
)
def test_the_key_is_cut_out_however_it_is_written(said: str, rig: Rig) -> None:
    """A server that repeats the key escaped, as in an address or as in JSON that breaks off, does not have it shown."""
    server = rig.serve(lambda request: Answer(status=400, raw=f'{{"error": "bad {said}'.encode()))
    with pytest.raises(ModelFault, match=r"bad \[key\]"):
        rig.open(VENDORS["openai"], server).embed_query("q")


def test_vertex_is_not_taken_for_gemini() -> None:
    """Whoever asks Google's own SDK for Vertex AI is told that it is not spoken, instead of being sent elsewhere."""
    with pytest.raises(ConfigError, match="Vertex AI") as caught:
        settled(EmbedOptions(provider="google"), {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": KEY})
    assert "unset it" in caught.value.hint
