"""Formats of vendors' keys: one row per kind, recognised by the vendor's literal prefix.

A rule is a literal and the pattern after it. The literal comes first in the pattern and the characters before it are
checked by a lookbehind, because a search that begins with a literal skips ordinary text at the speed of `str.find`. No
pattern can fail after an unbounded run unless it can only begin where such a run begins, so every text is read once, even
an adversarial one. Patterns are wider than the keys vendors issue today; lengths change, and a slightly longer key is
still a key.

Public values (key ids, client ids, publishable keys, account numbers) are not secrets and have no rule, except AWS access
key ids, which are usually pasted together with their secret half.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

_WORD = "[A-Za-z0-9_-]"


class VendorRule(Struct, frozen=True, kw_only=True):
    """A kind of secret: its required literal, its pattern, and whether the pattern alone is conclusive."""

    kind: str
    literal: str
    pattern: re.Pattern[str]
    prefix_chars: int = 0  # characters before the match that belong to the secret, for keys with the literal inside
    is_infix: bool = False  # the literal may be inside a word
    must_look_random: bool = False  # the pattern alone is not conclusive


_WORD_CHAR = "[A-Za-z0-9]"


def _literal_rules(
    kind: str, literals: str, body: str, *, before: int = 0, random: bool = False, alone: str = _WORD_CHAR
) -> list[VendorRule]:
    """Return one rule per literal; `alone` characters may not precede it, except the letter of an escaped line end."""
    rules = []
    for literal in literals.split():
        start = re.escape(literal)
        middle = bool(before) or not alone
        edge = "" if middle else rf"(?:(?<!{alone}{start})|(?<=\\[nrt]{start}))"
        rule = VendorRule(
            kind=kind,
            literal=literal,
            pattern=re.compile(f"{start}{edge}{body}", re.ASCII),
            prefix_chars=before,
            is_infix=middle,
            must_look_random=random,
        )
        rules.append(rule)
    return rules


def _key_rules(
    kind: str, literals: str, min_chars: int, *, letters: str = _WORD, random: bool = False
) -> list[VendorRule]:
    """Return rules for a literal followed by at least `min_chars` letters."""
    return _literal_rules(kind, literals, f"{letters}{{{min_chars},}}+", random=random)


_PLAIN, _HEX, _DOTTED, _BASE64 = "[A-Za-z0-9]", "[0-9a-fA-F]", "[A-Za-z0-9_.-]", "[A-Za-z0-9+/=_-]"
_END = "(?![A-Za-z0-9])"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_CLOUD_RULES = [
    *_literal_rules("aws-access-key-id", "AKIA ASIA ABIA ACCA", f"[A-Z2-7]{{16}}{_END}"),
    *_key_rules("aws-bedrock-key", "ABSK", 100, letters=_BASE64),
    *_key_rules("google-api-key", "AIza", 35),
    *_key_rules("google-oauth-token", "ya29.", 20, letters=_DOTTED),
    *_key_rules("google-oauth-secret", "GOCSPX-", 20),
    *_key_rules("google-refresh-token", "1//0", 30),
    *_literal_rules("firebase-key", ":APA91b", f"{_WORD}{{60,}}+", alone=""),
    *_literal_rules("azure-client-secret", "Q~", "(?<=[A-Za-z0-9_~.-]{3}[0-9]Q~)[A-Za-z0-9_~.-]{31,34}+", before=4),
    *_literal_rules("azure-devops-token", "AZDO", f"(?<=[A-Za-z0-9]{{76}}AZDO)[A-Za-z0-9]{{4}}{_END}", before=76),
    *_key_rules(
        "azure-storage-key", "AccountKey= accountkey= SharedAccessKey= sharedaccesskey=", 30, letters="[A-Za-z0-9+/=]"
    ),
    *_key_rules("alibaba-key", "LTAI", 16, letters=_PLAIN, random=True),
    *_key_rules("tencent-key", "AKID", 32, letters=_PLAIN, random=True),
    *_key_rules("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", 40, letters=_HEX),
    *_key_rules("heroku-token", "HRKU-", 36),
    *_key_rules("cloudflare-token", "v1.0-", 100),
    *_key_rules("fly-token", "fo1_ fm1r_ fm1a_ fm2_", 30, letters=_BASE64),
    *_key_rules("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", 24, letters=_PLAIN, random=True),
    *_key_rules("netlify-token", "nfp_ nfc_ nfo_ nfu_", 30, letters=_PLAIN),
    *_key_rules("render-token", "rnd_", 24, letters=_PLAIN, random=True),
    *_key_rules("scaleway-token", "SCWTOKEN", 20, letters=_PLAIN, random=True),
    *_key_rules("yandex-token", "AQVN", 30),
]

_MODEL_RULES = [
    *_key_rules("anthropic-key", "sk-ant-", 20),
    *_key_rules("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", 20),
    *_key_rules("openrouter-key", "sk-or-v1- sk-or-", 20),
    *_key_rules("langfuse-key", "sk-lf-", 20),
    *_key_rules("openai-key", "sk-", 20, random=True),
    *_key_rules("huggingface-token", "hf_ api_org_", 30, letters=_PLAIN),
    *_key_rules("replicate-token", "r8_", 30, letters=_PLAIN),
    *_key_rules("groq-key", "gsk_", 40, letters=_PLAIN),
    *_key_rules("xai-key", "xai-", 40, letters=_PLAIN),
    *_key_rules("perplexity-key", "pplx-", 30, letters=_PLAIN),
    *_key_rules("nvidia-key", "nvapi-", 40),
    *_key_rules("cerebras-key", "csk-", 30, letters=_PLAIN),
    *_key_rules("pinecone-key", "pcsk_", 30),
    *_key_rules("tavily-key", "tvly-", 20, random=True),
    *_key_rules("fireworks-key", "fw_", 20, letters=_PLAIN, random=True),
    *_key_rules("langsmith-key", "lsv2_pt_ lsv2_sk_ ls__", 30),
    *_key_rules("voyage-key", "pa-", 40, random=True),
    *_key_rules("jina-key", "jina_", 40),
    *_key_rules("firecrawl-key", "fc-", 30, letters="[0-9a-f]"),
]

_CODE_HOST_RULES = [
    *_key_rules("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", 30, letters=_PLAIN),
    *_key_rules("github-token", "github_pat_", 40, letters="[A-Za-z0-9_]"),
    *_key_rules(
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glrtr- glcbt- glft- glimt- glagent- glsoat- gloas- glffct- GR1348941",
        18,
        letters=_DOTTED,
    ),
    *_key_rules("bitbucket-token", "ATBB", 28),
    *_key_rules("atlassian-token", "ATATT3 ATCTT3 ATSTT3", 40, letters=_BASE64),
    *_key_rules("npm-token", "npm_", 30, letters=_PLAIN),
    *_key_rules("pypi-token", "pypi-AgEI pypi-AgENd", 40),
    *_key_rules("rubygems-token", "rubygems_", 40, letters=_HEX),
    *_key_rules("nuget-key", "oy2", 43, letters="[a-z0-9]"),
    *_key_rules("clojars-token", "CLOJARS_", 50, letters=_PLAIN),
    *_key_rules("crates-token", "cio", 32, letters=_PLAIN, random=True),
    *_key_rules("jfrog-token", "AKCp cmVmdGtuO", 50, letters=_PLAIN),
    *_key_rules("docker-token", "dckr_pat_ dckr_oat_", 20),
    *_key_rules("circleci-token", "CCIPAT_ CCIPRJ_", 30),
    *_key_rules("buildkite-token", "bkua_", 36, letters=_PLAIN),
    *_key_rules("sonar-token", "squ_ sqp_ sqa_", 36, letters=_HEX),
    *_key_rules("sourcegraph-token", "sgp_", 36, letters="[A-Za-z0-9_]"),
    *_key_rules("pulumi-token", "pul-", 36, letters=_HEX),
    *_key_rules("postman-key", "PMAK-", 40),
    *_key_rules("snyk-token", "snyk_uat.", 30, letters=_DOTTED),
]

_SERVICE_RULES = [
    *_key_rules(
        "slack-token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxb- xoxe.xoxp- xapp-",
        16,
        letters="[A-Za-z0-9_.%-]",
        random=True,
    ),
    *_literal_rules(
        "slack-webhook", "hooks.slack.com/", "(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_+-]{20,}+)"
    ),
    *_literal_rules("discord-webhook", "/api/webhooks/", "[0-9]{10,25}/(?P<secret>[A-Za-z0-9_-]{40,}+)", alone=""),
    *_literal_rules("discord-token", ".", r"(?<=[MNO][\w-]{23}\.)[\w-]{6}\.[\w-]{27,}+", before=24),
    *_literal_rules("discord-token", ".", r"(?<=[MNO][\w-]{25}\.)[\w-]{6}\.[\w-]{27,}+", before=26),
    *_literal_rules("teams-webhook", "webhook.office.com/", "webhookb2/(?P<secret>[A-Za-z0-9@/_-]{40,}+)"),
    *(
        rule
        for digits in (8, 9, 10)
        for rule in _literal_rules(
            "telegram-token", ":AA", f"(?<=[0-9]{{{digits}}}:AA)[A-Za-z0-9_-]{{32,33}}(?!{_WORD})", before=digits
        )
    ),
    *_literal_rules(
        "zapier-webhook", "hooks.zapier.com/", "hooks/(?:catch|standard)/(?P<secret>[0-9]{3,12}/[A-Za-z0-9]{5,}+)"
    ),
    *_literal_rules("feishu-webhook", "/open-apis/bot/", f"v[0-9]/hook/(?P<secret>{_WORD}{{20,}}+)", alone=""),
    *_literal_rules("wecom-webhook", "/cgi-bin/webhook/", rf"send\?key=(?P<secret>{_WORD}{{20,}}+)", alone=""),
    *_key_rules("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", 16, letters="[A-Za-z0-9_]", random=True),
    *_key_rules("webhook-secret", "whsec_", 24, letters="[A-Za-z0-9+/=]"),
    *_literal_rules("twilio-key", "SK", f"[0-9a-f]{{32}}{_END}"),
    *_literal_rules("sendgrid-key", "SG.", r"[\w-]{16,64}+\.[\w-]{20,}+"),
    *_key_rules("brevo-key", "xkeysib- xsmtpsib-", 40),
    *_literal_rules("mailgun-key", "key-", f"[0-9a-f]{{32}}{_END}"),
    *_literal_rules("mailchimp-key", "-us", f"(?<=[0-9a-f]{{32}}-us)[0-9]{{1,2}}{_END}", before=32),
    *_key_rules("resend-key", "re_", 24, letters="[A-Za-z0-9_]", random=True),
    *_key_rules("databricks-token", "dapi", 32, letters="[0-9a-f-]"),
    *_key_rules("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", 32, letters=_HEX),
    *_key_rules("square-token", "sq0atp- sq0csp- sq0idp-", 22),
    *_key_rules("square-token", "EAAA", 56, random=True),
    *_key_rules("linear-key", "lin_api_ lin_oauth_ lin_wh_", 30, letters=_PLAIN),
    *_literal_rules("hubspot-token", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", f"{_UUID}{_END}"),
    *_literal_rules("launchdarkly-key", "sdk- api- mob-", f"{_UUID}{_END}"),
    *_key_rules("posthog-key", "phx_ phs_", 32, letters=_PLAIN),
    *_literal_rules("elevenlabs-key", "sk_", f"[0-9a-f]{{48}}{_END}"),
    *_key_rules("flutterwave-key", "FLWSECK- FLWSECK_TEST- FLWSECK_LIVE-", 12, random=True),
    *_key_rules("frameio-token", "fio-u-", 40),
    *_key_rules("meta-token", "EAA", 100, letters=_PLAIN, random=True),
    *_key_rules("trello-token", "ATTA", 56, letters=_HEX),
    *_literal_rules("twitch-token", "oauth:", f"[a-z0-9]{{30}}{_END}", random=True),
    *_key_rules("notion-token", "ntn_", 40, letters=_PLAIN),
    *_literal_rules("notion-token", "secret_", f"[A-Za-z0-9]{{43}}{_END}", random=True),
    *_key_rules("figma-token", "figd_ figo_ figu_", 36),
    *_literal_rules("airtable-token", "pat", rf"[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}"),
    *_key_rules("typeform-token", "tfp_", 40, letters=_DOTTED),
    *_key_rules("contentful-token", "CFPAT-", 40),
    *_literal_rules("terraform-token", ".atlasv1.", rf"(?<=[A-Za-z0-9]{{14}}\.atlasv1\.){_WORD}{{50,}}+", before=14),
    *_key_rules("vault-token", "hvs. hvb. hvr.", 24),
    *_key_rules("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", 36, letters=_DOTTED),
    *_key_rules("1password-token", "ops_eyJ", 100),
    *_literal_rules(
        "1password-key",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    *_key_rules("newrelic-key", "NRAK- NRAL- NRII- NRIQ- NRRA- NRSP-", 20),
    *_key_rules("sentry-token", "sntrys_ sntryu_ sntrya_", 40, letters=_BASE64),
    *_key_rules("grafana-token", "glsa_ glc_", 30, letters=_BASE64),
    *_key_rules("dynatrace-token", "dt0c01. dt0s01. dt0s16.", 60, letters=_DOTTED),
    *_key_rules("honeycomb-key", "hcaik_ hcalk_ hcxik_", 40, letters=_PLAIN),
    *_key_rules("supabase-key", "sbp_ sb_secret_", 20, letters="[A-Za-z0-9_-]", random=True),
    *_key_rules("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", 30, letters=_DOTTED),
    *_key_rules("neon-key", "napi_", 40, letters=_PLAIN),
    *_key_rules("tailscale-key", "tskey-", 20, random=True),
    *_key_rules("mapbox-token", "sk.eyJ", 40, letters=_DOTTED),
    *_key_rules("dropbox-token", "sl.", 100),
    *_key_rules("adafruit-key", "aio_", 28, letters=_PLAIN),
    *_key_rules("duffel-token", "duffel_live_ duffel_test_", 40),
    *_key_rules("shippo-token", "shippo_live_ shippo_test_", 36, letters=_HEX),
    *_key_rules("easypost-key", "EZAK EZTK", 54, letters=_PLAIN),
    *_key_rules("prefect-key", "pnu_ pnb_", 36, letters=_PLAIN),
    *_key_rules("readme-key", "rdme_", 60, letters=_PLAIN),
    *_key_rules("infracost-key", "ico-", 32, letters=_PLAIN),
    *_key_rules(  # base64-encoded PEM, as in Kubernetes secrets
        "private-key",
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0t LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0t "
        "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ",
        40,
        letters="[A-Za-z0-9+/=]",
    ),
    *_key_rules("nostr-key", "nsec1", 58, letters="[a-z0-9]"),
    *_key_rules("wallet-key", "xprv yprv zprv tprv", 100, letters=_PLAIN),
    *_key_rules("age-key", "AGE-SECRET-KEY-1", 50, letters="[A-Z0-9]"),
    *_literal_rules("jwt", "eyJ", r"[\w-]{8,}+\.eyJ[\w-]{4,}+\.[\w-]{8,}+", alone=_WORD),
    *_literal_rules("jwt", "eyJ", r"[\w-]{8,}+\.[\w-]{0,}+\.[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+", alone=_WORD),
]

VENDOR_RULES: tuple[VendorRule, ...] = (*_CLOUD_RULES, *_MODEL_RULES, *_CODE_HOST_RULES, *_SERVICE_RULES)

# A key is a long run of these characters; text without such a run is skipped.
_KEY_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:@%-"
_KEY_CHARACTER_TABLE = bytes(ord("a") if code in _KEY_CHARACTERS else ord(" ") for code in range(256))
_MIN_WORD = b"a" * 20


def candidate_words(text: str) -> list[str]:
    """Return the words of a text that are long enough for a key.

    A search for a run of one byte in a copy of the text is six times faster than a regular expression.
    """
    mask = text.encode("ascii", "replace").translate(_KEY_CHARACTER_TABLE)
    words = []
    at = mask.find(_MIN_WORD)
    while at >= 0:
        end = mask.find(b" ", at)
        end = end if end >= 0 else len(text)
        words.append(text[at:end])
        at = mask.find(_MIN_WORD, end)
    return words


def _trie_pattern(words: Iterable[str]) -> str:
    """Return a pattern for the longest of these words that reads each letter once; a plain alternation tries all."""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[:1], []).append(word[1:])
    ends = branches.pop("", None) is not None
    tails = "|".join(re.escape(first) + _trie_pattern(rest) for first, rest in sorted(branches.items()))
    return f"(?:{tails})" + ("?" if ends else "") if tails else ""


_LITERAL_START = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\n[nrt]))"
    + _trie_pattern(sorted({rule.literal for rule in VENDOR_RULES if not rule.is_infix}))
)


_RULE_ORDER = {rule: index for index, rule in enumerate(VENDOR_RULES)}
_RULES_BY_LITERAL = {
    rule.literal: [other for other in VENDOR_RULES if other.literal == rule.literal] for rule in VENDOR_RULES
}
_INFIX_RULES = tuple(rule for rule in VENDOR_RULES if rule.is_infix)


def matching_rules(text: str) -> list[VendorRule]:
    """Return the rules whose literals occur in long words of a text, in table order."""
    words = candidate_words(text)
    if not words:
        return []
    candidates = "\n".join(["", *words])
    starts = {start[:size] for start in set(_LITERAL_START.findall(candidates)) for size in range(1, len(start) + 1)}
    rules = {rule for start in starts for rule in _RULES_BY_LITERAL.get(start, ())}
    rules.update(rule for rule in _INFIX_RULES if rule.literal in candidates)
    return sorted(rules, key=_RULE_ORDER.__getitem__)
