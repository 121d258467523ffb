"""What a reader must be told to solve each task, as patterns of which every one must be found, and the informed solutions of remem.

remem ships tasks, histories and hidden tests, but no solutions: those here were written for this trial. A trial runs the hidden tests on
every informed and every naive solution and refuses tasks where the first fails or the second passes. The patterns were written from the
policies of the tasks, before anything was delivered, and are matched without regard to case and spaces; a trial checks that the
whole history has all patterns of its task.
"""

from __future__ import annotations

REMEM_PARTS: dict[str, tuple[str, ...]] = {
    "ticket-key-memory-convention": (r"PREFIX-digits|uppercase", r"default prefix `?MEM"),
    "retention-window-memory-policy": (r"audit_log\W+365", r"ephemeral\W+7", r"disabled\W+0"),
    "slug-normalizer-contract": (r"untitled", r"trailing hyphen", r"32"),
    "duration-parser-root-cause": (r"1000|milliseconds", r"60000", r"blank or None"),
    "api-version-stale-memory": (r"/api/v2",),
    "storage-driver-stale-memory": (r"sqlcipher",),
    "session-budget-footer": (r"Budget: <label>", r"nonblank", r"glyph"),
    "markdown-cell-negative-constraint": (r"pipes with a backslash", r"<br>", r"HTML escaping|HTML-escape"),
    "workstream-title-continuity": (r"current-memory-contracts", r"underscores", r"cleanup"),
    "workstream-status-continuity": (r"latest nonblank signal|latest.{0,20}active", r"keep the current status"),
    "feature-flag-multi-hop-routing": (r"retention-v2\W+belongs to team\W+memory-runtime", r"pager-memory"),
    "notification-channel-multi-hop": (r"#remem-release", r"#remem-incident"),
    "user-date-format-preference": (r"day/month/year",),
    "user-status-line-preference": (r"<subject>: <state>",),
    "conflicting-endpoint-current-choice": (r"active non-stale", r"newest\W+event_time"),
    "ambiguous-owner-abstention": (r"return None", r"all nonblank candidates agree|multiple distinct"),
}

REMEM_INFORMED: dict[str, tuple[str, str]] = {
    "ticket-key-memory-convention": (
        "memory_demo/tickets.py",
        (
            "import re\n\n\ndef normalize_ticket_key(value):\n"
            '    words = re.findall(r"[A-Za-z]+|\\d+", str(value))\n'
            "    prefix = words[0].upper() if words and not words[0].isdigit() else None\n"
            '    return f"{prefix}-{words[-1]}" if prefix else f"MEM-{words[-1]}"\n'
        ),
    ),
    "retention-window-memory-policy": (
        "memory_demo/retention.py",
        'def retention_days(policy_name):\n    return {"audit_log": 365, "ephemeral": 7, "disabled": 0}.get(policy_name, 30)\n',
    ),
    "slug-normalizer-contract": (
        "memory_demo/slug.py",
        (
            "import re\n\n\ndef normalize_slug(value):\n"
            '    slug = re.sub(r"[^a-z0-9]+", "-", str(value).lower()).strip("-")\n'
            '    return slug[:32].rstrip("-") or "untitled"\n'
        ),
    ),
    "duration-parser-root-cause": (
        "memory_demo/duration.py",
        (
            "def parse_duration_ms(value):\n"
            '    text = "" if value is None else str(value).strip()\n'
            "    if not text:\n        return 0\n"
            '    for suffix, factor in (("ms", 1), ("s", 1000), ("m", 60000)):\n'
            "        if text.endswith(suffix):\n"
            "            return int(float(text[: -len(suffix)]) * factor)\n"
            "    return int(text)\n"
        ),
    ),
    "api-version-stale-memory": ("memory_demo/api.py", 'def current_api_endpoint():\n    return "/api/v2"\n'),
    "storage-driver-stale-memory": (
        "memory_demo/storage.py",
        'def default_storage_driver():\n    return "sqlcipher"\n',
    ),
    "session-budget-footer": (
        "memory_demo/session.py",
        (
            "def render_session_footer(title, budget_label):\n"
            '    label = (budget_label or "").strip()\n'
            '    return f"{title}\\nBudget: {label}" if label else title\n'
        ),
    ),
    "markdown-cell-negative-constraint": (
        "memory_demo/markdown.py",
        'def render_markdown_cell(value):\n    return str(value).replace("|", "\\\\|").replace("\\n", "<br>")\n',
    ),
    "workstream-title-continuity": (
        "memory_demo/workstream.py",
        (
            "import re\n\n\ndef canonical_workstream_title(title):\n"
            '    slug = re.sub(r"[\\s_-]+", "-", title.strip().lower())\n'
            '    known = "current-memory-contracts"\n'
            "    return known if slug.startswith(known) else slug\n\n\n"
            "def next_workstream_status(current_status, latest_signal):\n    return current_status\n"
        ),
    ),
    "workstream-status-continuity": (
        "memory_demo/workstream.py",
        (
            "def canonical_workstream_title(title):\n    return title.strip().lower()\n\n\n"
            "def next_workstream_status(current_status, latest_signal):\n    return latest_signal or current_status\n"
        ),
    ),
    "feature-flag-multi-hop-routing": (
        "memory_demo/routing.py",
        (
            "def feature_flag_pager(feature_name):\n"
            '    return "pager-memory" if feature_name == "retention-v2" else "pager-platform"\n\n\n'
            'def notification_channel(project, severity):\n    return "#general"\n'
        ),
    ),
    "notification-channel-multi-hop": (
        "memory_demo/routing.py",
        (
            'def feature_flag_pager(feature_name):\n    return "pager-platform"\n\n\n'
            "def notification_channel(project, severity):\n"
            '    channels = {"release": "#remem-release", "incident": "#remem-incident"}\n'
            '    return channels.get(severity, "#general") if project == "codex-plugin" else "#general"\n'
        ),
    ),
    "user-date-format-preference": (
        "memory_demo/user_prefs.py",
        (
            'def format_due_date(year, month, day):\n    return f"{day:02d}/{month:02d}/{year:04d}"\n\n\n'
            'def format_status_line(subject, state, detail):\n    return f"{subject}: {state}: {detail}"\n'
        ),
    ),
    "user-status-line-preference": (
        "memory_demo/user_prefs.py",
        (
            'def format_due_date(year, month, day):\n    return f"{year:04d}-{month:02d}-{day:02d}"\n\n\n'
            'def format_status_line(subject, state, detail):\n    return f"{subject}: {state}"\n'
        ),
    ),
    "conflicting-endpoint-current-choice": (
        "memory_demo/conflicts.py",
        (
            "def choose_current_endpoint(candidates):\n"
            '    eligible = [one for one in candidates if one.get("active") and not one.get("stale")]\n'
            '    return max(eligible, key=lambda one: one["event_time"])["endpoint"] if eligible else None\n\n\n'
            "def resolve_single_owner(candidates):\n    return candidates[0] if candidates else None\n"
        ),
    ),
    "ambiguous-owner-abstention": (
        "memory_demo/conflicts.py",
        (
            'def choose_current_endpoint(candidates):\n    return candidates[-1]["endpoint"] if candidates else None\n\n\n'
            "def resolve_single_owner(candidates):\n"
            "    owners = set(filter(None, candidates))\n    return owners.pop() if len(owners) == 1 else None\n"
        ),
    ),
}

SDE_PARTS: dict[str, tuple[str, ...]] = {
    "budget": (r"\b(?:7|seven)\b.{0,60}(?:attempts|exactly|fit)|(?:attempts|MAX_ATTEMPTS|budget).{0,60}\b(?:7|seven)\b|seven\. eight trips",),
    "cachekey": (
        r"utm_content", r"gclid.{0,20}fbclid.{0,20}msclkid", r"stable|value order", r"empty(?:-valued| value)",
        r"path (?:keeps|case|is untouchable)|path is byte|path untouched", r"scheme and host",
    ),
    "csvquote": (r'="', r"minimal quoting", r"CRLF|\\r\\n"),
    "dedupe": (r"lowercased? email|email.{0,20}(?:lower|case)", r"calendar day|same day", r"most-filled|more non-empty|fuller", r"tie.{0,60}(?:primary|CRM|ours)|same number.{0,60}(?:primary|CRM|ours)|(?:primary|CRM).{0,60}tie"),
    "deploywave": (r"depth|wave 0", r"tier", r"canar(?:y|ies).{0,60}(?:wave 0|wave zero|first)|wave 0.{0,60}canar", r"name"),
    "discount": (r"percent\S*.{0,60}(?:before|and then|then).{0,30}fixed|percent\S*.{0,30}first",),
    "drainplan": (r"remaining", r"original (?:queue )?order|ORIGINAL", r"idempotent", r"drain window|inside the window", r"dropped", r"third|inclusive"),
    "featflag": (r'":"|colon', r"crc32|crc", r"bucket < percent|strictly", r"@corp\.example", r"beta-"),
    "findhashtags": (r"4-digit|four-digit|year", r"1900|2099|years?"),
    "hostallow": (r"exactly one", r"trailing dot|trailing-dot", r"IPv4|dotted-quad|IP literal", r"apex|bare example\.com", r"lowercase|case-insensitive"),
    "listmerge": (r"union|no repeats|de-?duplicat|without duplicates", r"base.{0,20}(?:order|first|position)|^base"),
    "mimemap": (r"text/csv", r"application/x-yaml", r"charset=utf-8", r"octet-stream", r"text/javascript", r"pinned|in-code|registry"),
    "overage": (r"prorat", r"round\w* up|ceil", r"25", r"before.{0,40}(?:block|round)|grace", r"50"),
    "parseflag": (r"'true' and 'on'|also accept 'on'|'true'.{0,20}'on'", r"'1'.{0,20}'yes'|case-sensitive"),
    "pluralize": (r"persons", r"indexes", r"matrixes"),
    "redact": (r"suffix|ends? with|ending", r"password.{0,40}token.{0,40}api_key.{0,40}ssn.{0,40}card_number|card_number", r"last ?4|last four", r"email.{0,60}(?:stay|untouch|keep|leave|visible|as-is|not)|(?:never|not|don't).{0,40}email"),
    "retryjitter": (r"429.{0,20}408|408.{0,20}429", r"\b(?:4|four)\b.{0,20}attempts|attempts.{0,20}\b(?:4|four)\b", r"30"),
    "rounding": (r"HALF_DOWN|half-cents? (?:round )?down|round(?:s|ing)? half.{0,20}down|always down",),
    "sched": (r"est_runtime|shorter", r"back-to-back|tenant that just ran|last-run tenant", r"priority"),
    "seqledger": (r"last ?\+ ?1|strictly consecutive|exactly one more|last plus one", r"\b100\b", r"payload_hash|hash", r"SequenceGapError|gap", r"SequenceConflictError|conflict"),
    "slalog": (r"overlap", r"60|under a minute|sixty", r"24 ?h|24-hour|24 hours"),
    "slugify": (r"usd", r"pct", r"\band\b"),
    "statetrans": (r"on_hold", r"pending", r"refunded.{0,60}returned|returned.{0,60}refunded", r"case-insensitive|lowercase"),
    "tagmerge": (r"lower-precedence|downward|below", r"first casing|first-casing|highest-precedence|casing", r"tombstone", r"union|precedence"),
    "trimstats": (r"top (?:2|two)|two (?:highest|largest|worst)|(?:2|two).{0,20}(?:highest|largest|slowest)", r"nearest-rank|nearest rank"),
    "under2camel": (r"HTTP", r"API", r"SKU", r"GDPR"),
    "unitparse": (r"MiB", r"decimal|10\*\*9|1000", r"\bGB\b", r"disk"),
}  # fmt: skip

SDE_STALE: dict[str, str] = {
    "dedupe": r"latest updated|keep the newer|keep-latest",
    "overage": r"no free units|no grace|every unit",
    "retryjitter": r"60 seconds|5xx (?:and|plus) 429 only|429 only",
    "slalog": r"all maintenance|maintenance (?:windows? )?(?:is|are) excluded|exclude maintenance",
    "tagmerge": r"global(?:ly)?|everywhere|any source",
    "unitparse": r"uniform|always binary|both binary|binary (?:for|across) (?:both|everything)",
}
"""What names the superseded rule of an amended task."""
