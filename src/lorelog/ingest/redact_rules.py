"""What vendors' keys look like: one row per kind, found by the letters that the vendor puts in front.

A rule is a literal and the shape of what follows. The literal comes first in the pattern, and what must stand before it
is asked afterwards by looking back, because a search that begins with a literal skips ordinary text at the speed of
`str.find`. No pattern can fail after an unbounded run, or it may begin only where such a run begins: so every text is
read once, whatever somebody puts into it. Shapes are wider than what vendors hand out today; lengths change, and a key
that is a little longer is still a key.

Public halves (key ids, client ids, publishable keys, account numbers) are no secrets and have no rule, with one exception:
an AWS access key id, which is half of a pair that is usually pasted together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WORD = "[A-Za-z0-9_-]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of secret: the literal that must be there, the shape, and how sure the shape makes us."""

    kind: str
    literal: str
    pattern: re.Pattern[str]
    before: int = 0  # characters left of the match that belong to the secret, for keys with their mark in the middle
    middle: bool = False  # the literal may stand inside a word
    random: bool = False  # the shape alone is not enough: the value must look like chance


_ALONE = "[A-Za-z0-9]"


def _rules(
    kind: str, literals: str, body: str, *, before: int = 0, random: bool = False, alone: str = _ALONE
) -> list[Rule]:
    """One rule per literal; what `alone` says may not touch it on the left, except the letter of an escaped line end."""
    found = []
    for literal in literals.split():
        start = re.escape(literal)
        middle = bool(before) or not alone
        edge = "" if middle else rf"(?:(?<!{alone}{start})|(?<=\\[nrt]{start}))"
        found.append(Rule(kind, literal, re.compile(f"{start}{edge}{body}", re.ASCII), before, middle, random))
    return found


def _keys(kind: str, literals: str, least: int, *, letters: str = _WORD, random: bool = False) -> list[Rule]:
    """Rules for a literal followed by at least so many letters."""
    return _rules(kind, literals, f"{letters}{{{least},}}+", random=random)


_PLAIN, _HEX, _DOTTED, _BASE64 = "[A-Za-z0-9]", "[0-9a-fA-F]", "[A-Za-z0-9_.-]", "[A-Za-z0-9+/=_-]"
_END = "(?![A-Za-z0-9])"

_CLOUDS = [
    *_rules("aws-access-key-id", "AKIA ASIA ABIA ACCA", f"[A-Z2-7]{{16}}{_END}"),
    *_keys("aws-bedrock-key", "ABSK", 100, letters=_BASE64),
    *_keys("google-api-key", "AIza", 35),
    *_keys("google-oauth-token", "ya29.", 20, letters=_DOTTED),
    *_keys("google-oauth-secret", "GOCSPX-", 20),
    *_keys("google-refresh-token", "1//0", 30),
    *_rules("firebase-key", ":APA91b", f"{_WORD}{{60,}}+", alone=""),
    *_rules("azure-client-secret", "Q~", "(?<=[A-Za-z0-9_~.-]{3}[0-9]Q~)[A-Za-z0-9_~.-]{31,34}+", before=4),
    *_rules("azure-devops-token", "AZDO", f"(?<=[A-Za-z0-9]{{76}}AZDO)[A-Za-z0-9]{{4}}{_END}", before=76),
    *_keys(
        "azure-storage-key", "AccountKey= accountkey= SharedAccessKey= sharedaccesskey=", 30, letters="[A-Za-z0-9+/=]"
    ),
    *_keys("alibaba-key", "LTAI", 16, letters=_PLAIN, random=True),
    *_keys("tencent-key", "AKID", 32, letters=_PLAIN, random=True),
    *_keys("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", 40, letters=_HEX),
    *_keys("heroku-token", "HRKU-", 36),
    *_keys("cloudflare-token", "v1.0-", 100),
    *_keys("fly-token", "fo1_ fm1r_ fm1a_ fm2_", 30, letters=_BASE64),
    *_keys("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", 24, letters=_PLAIN, random=True),
    *_keys("netlify-token", "nfp_ nfc_ nfo_ nfu_", 30, letters=_PLAIN),
    *_keys("render-token", "rnd_", 24, letters=_PLAIN, random=True),
    *_keys("scaleway-token", "SCWTOKEN", 20, letters=_PLAIN, random=True),
    *_keys("yandex-token", "AQVN", 30),
]

_MODELS = [
    *_keys("anthropic-key", "sk-ant-", 20),
    *_keys("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", 20),
    *_keys("openrouter-key", "sk-or-v1- sk-or-", 20),
    *_keys("langfuse-key", "sk-lf-", 20),
    *_keys("openai-key", "sk-", 20, random=True),
    *_keys("huggingface-token", "hf_ api_org_", 30, letters=_PLAIN),
    *_keys("replicate-token", "r8_", 30, letters=_PLAIN),
    *_keys("groq-key", "gsk_", 40, letters=_PLAIN),
    *_keys("xai-key", "xai-", 40, letters=_PLAIN),
    *_keys("perplexity-key", "pplx-", 30, letters=_PLAIN),
    *_keys("nvidia-key", "nvapi-", 40),
    *_keys("cerebras-key", "csk-", 30, letters=_PLAIN),
    *_keys("pinecone-key", "pcsk_", 30),
    *_keys("tavily-key", "tvly-", 20, random=True),
    *_keys("fireworks-key", "fw_", 20, letters=_PLAIN, random=True),
    *_keys("langsmith-key", "lsv2_pt_ lsv2_sk_ ls__", 30),
    *_keys("voyage-key", "pa-", 40, random=True),
    *_keys("jina-key", "jina_", 40),
    *_keys("firecrawl-key", "fc-", 30, letters="[0-9a-f]"),
]

_CODE = [
    *_keys("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", 30, letters=_PLAIN),
    *_keys("github-token", "github_pat_", 40, letters="[A-Za-z0-9_]"),
    *_keys(
        "gitlab-token",
        "glpat- glptt- gldt- glrt- glrtr- glcbt- glft- glimt- glagent- glsoat- gloas- glffct- GR1348941",
        18,
        letters=_DOTTED,
    ),
    *_keys("bitbucket-token", "ATBB", 28),
    *_keys("atlassian-token", "ATATT3 ATCTT3 ATSTT3", 40, letters=_BASE64),
    *_keys("npm-token", "npm_", 30, letters=_PLAIN),
    *_keys("pypi-token", "pypi-AgEI pypi-AgENd", 40),
    *_keys("rubygems-token", "rubygems_", 40, letters=_HEX),
    *_keys("nuget-key", "oy2", 43, letters="[a-z0-9]"),
    *_keys("clojars-token", "CLOJARS_", 50, letters=_PLAIN),
    *_keys("crates-token", "cio", 32, letters=_PLAIN, random=True),
    *_keys("jfrog-token", "AKCp cmVmdGtuO", 50, letters=_PLAIN),
    *_keys("docker-token", "dckr_pat_ dckr_oat_", 20),
    *_keys("circleci-token", "CCIPAT_ CCIPRJ_", 30),
    *_keys("buildkite-token", "bkua_", 36, letters=_PLAIN),
    *_keys("sonar-token", "squ_ sqp_ sqa_", 36, letters=_HEX),
    *_keys("sourcegraph-token", "sgp_", 36, letters="[A-Za-z0-9_]"),
    *_keys("pulumi-token", "pul-", 36, letters=_HEX),
    *_keys("postman-key", "PMAK-", 40),
    *_keys("snyk-token", "snyk_uat.", 30, letters=_DOTTED),
]

_SERVICES = [
    *_keys(
        "slack-token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxb- xoxe.xoxp- xapp-",
        16,
        letters="[A-Za-z0-9_.%-]",
        random=True,
    ),
    *_rules("slack-webhook", "hooks.slack.com/", "(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_+-]{20,}+)"),
    *_rules("discord-webhook", "/api/webhooks/", "[0-9]{10,25}/(?P<secret>[A-Za-z0-9_-]{40,}+)", alone=""),
    *_rules("discord-token", ".", r"(?<=[MNO][\w-]{23}\.)[\w-]{6}\.[\w-]{27,}+", before=24),
    *_rules("discord-token", ".", r"(?<=[MNO][\w-]{25}\.)[\w-]{6}\.[\w-]{27,}+", before=26),
    *_rules("teams-webhook", "webhook.office.com/", "webhookb2/(?P<secret>[A-Za-z0-9@/_-]{40,}+)"),
    *(
        rule
        for digits in (8, 9, 10)
        for rule in _rules(
            "telegram-token", ":AA", f"(?<=[0-9]{{{digits}}}:AA)[A-Za-z0-9_-]{{32,33}}(?!{_WORD})", before=digits
        )
    ),
    *_keys("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", 16, letters="[A-Za-z0-9_]", random=True),
    *_keys("webhook-secret", "whsec_", 24, letters="[A-Za-z0-9+/=]"),
    *_rules("twilio-key", "SK", f"[0-9a-f]{{32}}{_END}"),
    *_rules("sendgrid-key", "SG.", r"[\w-]{16,64}+\.[\w-]{20,}+"),
    *_keys("brevo-key", "xkeysib- xsmtpsib-", 40),
    *_rules("mailgun-key", "key-", f"[0-9a-f]{{32}}{_END}"),
    *_rules("mailchimp-key", "-us", f"(?<=[0-9a-f]{{32}}-us)[0-9]{{1,2}}{_END}", before=32),
    *_keys("resend-key", "re_", 24, letters="[A-Za-z0-9_]", random=True),
    *_keys("databricks-token", "dapi", 32, letters="[0-9a-f-]"),
    *_keys("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", 32, letters=_HEX),
    *_keys("square-token", "sq0atp- sq0csp- sq0idp-", 22),
    *_keys("square-token", "EAAA", 56, random=True),
    *_keys("linear-key", "lin_api_ lin_oauth_ lin_wh_", 30, letters=_PLAIN),
    *_keys("notion-token", "ntn_", 40, letters=_PLAIN),
    *_rules("notion-token", "secret_", f"[A-Za-z0-9]{{43}}{_END}", random=True),
    *_keys("figma-token", "figd_ figo_ figu_", 36),
    *_rules("airtable-token", "pat", rf"[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}"),
    *_keys("typeform-token", "tfp_", 40, letters=_DOTTED),
    *_keys("contentful-token", "CFPAT-", 40),
    *_rules("terraform-token", ".atlasv1.", rf"(?<=[A-Za-z0-9]{{14}}\.atlasv1\.){_WORD}{{50,}}+", before=14),
    *_keys("vault-token", "hvs. hvb. hvr.", 24),
    *_keys("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", 36, letters=_DOTTED),
    *_keys("1password-token", "ops_eyJ", 100),
    *_rules(
        "1password-key",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    *_keys("newrelic-key", "NRAK- NRAL- NRII- NRIQ- NRRA- NRSP-", 20),
    *_keys("sentry-token", "sntrys_ sntryu_ sntrya_", 40, letters=_BASE64),
    *_keys("grafana-token", "glsa_ glc_", 30, letters=_BASE64),
    *_keys("dynatrace-token", "dt0c01. dt0s01. dt0s16.", 60, letters=_DOTTED),
    *_keys("honeycomb-key", "hcaik_ hcalk_ hcxik_", 40, letters=_PLAIN),
    *_keys("supabase-key", "sbp_ sb_secret_", 20, letters="[A-Za-z0-9_-]", random=True),
    *_keys("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", 30, letters=_DOTTED),
    *_keys("neon-key", "napi_", 40, letters=_PLAIN),
    *_keys("tailscale-key", "tskey-", 20, random=True),
    *_keys("mapbox-token", "sk.eyJ", 40, letters=_DOTTED),
    *_keys("dropbox-token", "sl.", 100),
    *_keys("adafruit-key", "aio_", 28, letters=_PLAIN),
    *_keys("duffel-token", "duffel_live_ duffel_test_", 40),
    *_keys("shippo-token", "shippo_live_ shippo_test_", 36, letters=_HEX),
    *_keys("easypost-key", "EZAK EZTK", 54, letters=_PLAIN),
    *_keys("prefect-key", "pnu_ pnb_", 36, letters=_PLAIN),
    *_keys("readme-key", "rdme_", 60, letters=_PLAIN),
    *_keys("infracost-key", "ico-", 32, letters=_PLAIN),
    *_keys(  # PEM that was encoded once more, as Kubernetes does
        "private-key",
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0t LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0t "
        "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ",
        40,
        letters="[A-Za-z0-9+/=]",
    ),
    *_keys("age-key", "AGE-SECRET-KEY-1", 50, letters="[A-Z0-9]"),
    *_rules("jwt", "eyJ", r"[\w-]{8,}+\.eyJ[\w-]{4,}+\.[\w-]{8,}+", alone=_WORD),
    *_rules("jwt", "eyJ", r"[\w-]{8,}+\.[\w-]{0,}+\.[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+", alone=_WORD),
]

VENDORS: tuple[Rule, ...] = (*_CLOUDS, *_MODELS, *_CODE, *_SERVICES)

# A key is a long run of these; text without one needs no further look.
CANDIDATES = re.compile(r"[A-Za-z0-9_.~+/=:@%-]{20,}+")


def _tree(words: Iterable[str]) -> str:
    """An expression for the longest of some words that reads each letter once; a plain alternation tries them all."""
    branches: dict[str, list[str]] = {}
    for word in words:
        branches.setdefault(word[:1], []).append(word[1:])
    ends = branches.pop("", None) is not None
    tails = "|".join(re.escape(first) + _tree(rest) for first, rest in sorted(branches.items()))
    return f"(?:{tails})" + ("?" if ends else "") if tails else ""


_STARTS = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\n[nrt]))" + _tree(sorted({rule.literal for rule in VENDORS if not rule.middle}))
)


_ORDER = {rule: place for place, rule in enumerate(VENDORS)}
_BY_LITERAL = {rule.literal: [one for one in VENDORS if one.literal == rule.literal] for rule in VENDORS}
_MIDDLES = tuple(rule for rule in VENDORS if rule.middle)


def rules_for(text: str) -> list[Rule]:
    """Return the rules whose literals a text holds in long words, in the order of the table."""
    words = CANDIDATES.findall(text)
    if not words:
        return []
    candidates = "\n".join(["", *words])
    starts = {start[:size] for start in set(_STARTS.findall(candidates)) for size in range(1, len(start) + 1)}
    found = {rule for start in starts for rule in _BY_LITERAL.get(start, ())}
    found.update(rule for rule in _MIDDLES if rule.literal in candidates)
    return sorted(found, key=_ORDER.__getitem__)
