"""Secrets in text: the formats that issuers document, and assignments of values that look random.

Shared by the check `no-secrets` and by redaction. The scanned text is hostile, so
every rule is linear: its expression starts with a literal, which the search jumps
to, a run of token characters is entered at its start only, and everything before a
demand that can fail is bounded or possessive. Expressions know ASCII alone, so that
bytes seen as Latin-1 give the same matches as their text (see `secrets.redaction`).

Known formats err towards finding; assignments err towards silence, since every
program has lines such as `token = next_token()`.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from vibe_gate.domain.expressions import expression
from vibe_gate.secrets import assignments, decoding, private_keys


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """One secret: `text[start:end]` is the value itself, without its name or quotes.

    `value` is how it reads: without the escapes, or out of the base64, in which it was found.
    """

    kind: str
    start: int
    end: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class _Format:
    kind: str
    lead: str
    expression: re.Pattern[str]
    has_value: bool


def _format(kind: str, lead: str, rest: str, *, inside: str = "A-Za-z0-9") -> _Format:
    """A format that starts with the literal `lead`, not in the middle of a run of `inside` characters ("": anywhere).

    The look-behind stands after the lead, so that the search can jump from lead to
    lead. A group `value` in `rest` is the secret; without one the whole match is.
    """
    plain = re.escape(lead)
    border = f"(?<![{inside}]{plain})" if inside else ""
    return _Format(kind, lead, expression(f"{plain}{border}{rest}", re.ASCII), "(?P<value>" in rest)


_END = r"(?![A-Za-z0-9])"
_WORD = "A-Za-z0-9_-"
_ALONE = rf"(?![{_WORD}])"
"""Behind a format of one length. That and its lead tell it in the middle of a word, too: in random base64 for addresses
one in some hundred megabytes looks so."""
_PEM_BODY = (  # with what stands before its lines where they are quoted, commented or numbered
    r"""(?:[A-Za-z0-9+/=\s\\,"'→]|\xe2\x86\x92|(?<=\n)[>#*|;]|(?<=[ +-])\||(?<=\n)-(?!----E))"""
)
_PEM = (
    r"(?:(?:RSA|DSA|EC|OPENSSH|ENCRYPTED|PGP|SSH2|ANY) ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|\s|[\"'+]){0,40}"
    r"(?:[ +-]?[A-Za-z-]{1,30}: [^\n\\]{1,200}(?:\n|\\n)){0,5}"
    + _PEM_BODY
    + r"{40,20000}(?:-----END [A-Z0-9 ]{1,40}-----)?"
)

_PEM_CODED = expression(r"[A-Za-z0-9+/=]{16,}")

_FORMATS: tuple[_Format, ...] = (
    _format("aws-access-key-id", "A", r"(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])", inside="A-Z2-7"),
    _format(
        "github-token", "gh", rf"[pousr]_(?:[A-Za-z0-9]{{36}}{_ALONE}|(?<![A-Za-z0-9]gh[pousr]_)[A-Za-z0-9]{{36,255}})",
        inside="",
    ),
    _format(  # anywhere only as GitHub makes them: names of variables and tests begin like that, too
        "github-token", "github_pat_",
        rf"(?:[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}{_ALONE}|(?<![A-Za-z0-9]github_pat_)(?=[A-Za-z_]{{0,99}}[0-9])"
        r"(?=[a-z0-9_]{0,99}[A-Z])[A-Za-z0-9_]{36,255})", inside="",
    ),
    _format(
        "gitlab-token", "gl",
        rf"(?:pat-[{_WORD}]{{20}}{_ALONE}|(?<![A-Za-z0-9]gl)(?:pat|dt|rt|ptt|ft|soat)-[{_WORD}]{{20,300}})", inside="",
    ),
    _format("slack-token", "xox", r"[abeoprs]-[A-Za-z0-9-]{10,300}"),
    _format("slack-token", "xapp-", r"[0-9]-[A-Za-z0-9-]{20,300}"),
    _format("slack-webhook", "hooks.slack.com/", r"(?:services|workflows)/[A-Za-z0-9_/]{20,200}"),
    _format("stripe-key", "sk_live_", r"[A-Za-z0-9]{16,250}"),
    _format("stripe-key", "rk_live_", r"[A-Za-z0-9]{16,250}"),
    _format("stripe-webhook-secret", "whsec_", r"[A-Za-z0-9+/=]{32,100}"),
    _format("google-api-key", "AIza", rf"[{_WORD}]{{35}}{_ALONE}", inside=""),
    _format("google-oauth-secret", "GOCSPX-", rf"[{_WORD}]{{28}}"),
    _format(
        "anthropic-key", "sk-ant-",
        rf"(?:[a-z]{{3,6}}[0-9]{{2}}-[{_WORD}]{{80,300}}|(?<![A-Za-z0-9]sk-ant-)[{_WORD}]{{20,300}})", inside="",
    ),
    _format("openai-key", "sk-", rf"(?:(?:proj|svcacct|admin|or-v1)-[{_WORD}]{{20,300}}|[A-Za-z0-9]{{20,100}}{_END})"),
    _format("npm-token", "npm_", rf"[A-Za-z0-9]{{36}}(?:{_ALONE}|(?<![A-Za-z0-9]npm_.{{36}}){_END})", inside=""),
    _format("pypi-token", "pypi-AgE", rf"[{_WORD}]{{30,1000}}", inside=""),
    _format("twilio-key", "SK", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    _format("sendgrid-key", "SG.", rf"[{_WORD}]{{16,32}}\.[{_WORD}]{{32,64}}"),
    _format("azure-storage-key", "AccountKey=", r"(?P<value>[A-Za-z0-9+/]{86}==)"),
    _format("jwt", "eyJ", rf"[{_WORD}]{{8,}}+\.eyJ[{_WORD}]{{8,}}+\.[{_WORD}]*", inside=_WORD),
    _format("jwt", "eyJ", rf"(?<=_eyJ)[{_WORD}]{{8,400}}+\.eyJ[{_WORD}]{{8,}}+\.[{_WORD}]*", inside=""),
    _format("private-key", "-----BEGIN ", _PEM),
    _format("gcp-service-account", '"private_key_id"', r'\s{0,5}:\s{0,5}"(?P<value>[0-9a-f]{40})"'),
    _format("heroku-key", "HRKU-", rf"[{_WORD}]{{36,100}}"),
    _format("digitalocean-token", "do", r"[opr]_v1_[0-9a-f]{64}"),
    _format("telegram-bot-token", ":AA", rf"(?<=[0-9]{{8}}:AA)[{_WORD}]{{33}}(?![{_WORD}])", inside="A-Za-z_"),
    _format("discord-webhook", "/api/webhooks/", rf"[0-9]{{17,20}}/[{_WORD}]{{60,90}}", inside="\0"),
    _format("hugging-face-token", "hf_", rf"[A-Za-z0-9]{{30,50}}{_END}"),
    _format("databricks-token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?(?![0-9A-Za-z])"),
    _format("shopify-token", "shp", r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _format("mailgun-key", "key-", rf"[0-9a-f]{{32}}{_END}", inside="A-Za-z0-9_"),  # cache_key-<digest> is none
    _format("vault-token", "hvs.", rf"[{_WORD}]{{24,300}}"),
    _format("age-secret-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}", inside=""),
    _format("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    _format("linear-key", "lin_api_", rf"[A-Za-z0-9]{{32,64}}{_END}"),
    _format("groq-key", "gsk_", rf"[A-Za-z0-9]{{40,64}}{_END}"),
)  # fmt: skip

# Discord's bot tokens have no literal of their own: three parts of fixed lengths. The
# search enters at the dot; the part before it is looked at only where the rest fits.
_DISCORD_TAIL = expression(rf"\.[{_WORD}]{{6}}\.[{_WORD}]{{27,38}}(?![{_WORD}])")
_DISCORD_HEAD = expression(rf"(?<![{_WORD}])[MNO][{_WORD}]{{23,27}}\Z")

# A secret that a limit has cut has lost its form: what leads to one counts up to the mark of the cut.
CUTS = expression(r"…|\xe2\x80\xa6|\.{3,}+|<\0<|\Z")
_CUT_MARK = expression(r"(?:…|\xe2\x80\xa6|\.\.\.|<\0<)")  # without the end, for which a search must look everywhere
_TOKEN_BEFORE = expression(r"[A-Za-z0-9_-]{10}", re.ASCII)
_CUT_LEADS = {
    "ghp_": "github-token", "gho_": "github-token", "ghu_": "github-token", "ghs_": "github-token",
    "ghr_": "github-token", "github_pat_": "github-token", "glpat-": "gitlab-token", "xoxb-": "slack-token",
    "xoxp-": "slack-token", "sk_live_": "stripe-key", "rk_live_": "stripe-key", "whsec_": "stripe-webhook-secret",
    "AIza": "google-api-key", "GOCSPX-": "google-oauth-secret", "sk-ant-": "anthropic-key", "sk-proj-": "openai-key",
    "npm_": "npm-token", "pypi-AgE": "pypi-token", "SG.": "sendgrid-key", "HRKU-": "heroku-key",
    "dop_v1_": "digitalocean-token", "hf_": "hugging-face-token", "dapi": "databricks-token",
    "shpat_": "shopify-token", "hvs.": "vault-token", "glsa_": "grafana-token", "lin_api_": "linear-key",
    "gsk_": "groq-key", "AGE-SECRET-KEY-1": "age-secret-key",
}  # fmt: skip
_CUT_SHORT = expression(
    rf"(?<![A-Za-z0-9])(?P<lead>{'|'.join(map(re.escape, _CUT_LEADS))})(?P<rest>[A-Za-z0-9_.-]{{10,300}})\Z", re.ASCII
)

_URL = expression(
    r"://(?P<user>[^\s:/@\"'<>]{0,100}):(?P<value>[^\s/@\"'<>]{4,200})@(?P<host>[A-Za-z0-9.\[-]{0,100})", re.ASCII
)

_BEARER = expression(r"earer (?<=[Bb]earer )\s{0,3}(?P<value>[A-Za-z0-9._~+/-]{20,4000}={0,2})", re.ASCII)
_BASIC = expression(r"asic (?<=[Bb]asic )\s{0,3}(?P<value>[A-Za-z0-9+/]{12,400}={0,2})(?![A-Za-z0-9+/=])", re.ASCII)

_CURL = expression(
    r"-u(?<=[\s\"'-]-u)(?:ser)?[\s\"',=]{0,6}(?P<user>[^\s:\"'=,]{1,100}):(?P<value>[^\s\"']{4,200})", re.ASCII
)
_NETRC_REST = (
    r"(?:\s{1,9}login\s{1,9}(?P<user>\S{1,100}))?(?:\s{1,9}account\s{1,9}\S{1,100})?"
    r"\s{1,9}password\s{1,9}\"?(?P<value>(?<=\")[^\"\n]{4,200}(?=\")|[^\s\"'<>]{4,200})"
)
_AFTER_NAMES = {
    "machine": expression(rf"machine\s{{1,9}}[^\s.]{{1,100}}\.\S{{1,200}}{_NETRC_REST}", re.ASCII),
    "default": expression(rf"(?P<prose>default)(?=\s{{1,9}}login\s){_NETRC_REST}", re.ASCII),
    "ass": expression(r"ass(?:word|phrase)>(?P<value>[^\s<>]{4,200})</", re.ASCII),
    "DENTIFIED BY": expression(r"DENTIFIED BY(?: PASSWORD)? \\?'(?P<value>[^\s'\\<>]{4,200})\\?'", re.ASCII),
    ":5432:": expression(
        r"(?P<prose>:5432:)[\w*-]{1,60}:(?P<user>[\w.@-]{1,60}):(?P<value>[^\s:\"'<>]{8,200})", re.ASCII
    ),
    "add-mask::": expression(r"(?P<prose>add-mask::)(?P<value>[^\s\"'<>()]{8,200})", re.ASCII),
    "mysql": expression(
        r"(?P<prose>mysql)(?:dump|admin)?(?: {1,3}[^\s|;&]{1,80}){0,9}? {1,3}-p(?P<value>[^\s\"'<>|;&]{8,200})",
        re.ASCII,
    ),
}
"""By the literal of its own with which each begins; where `prose` may say the same, the value has to look random."""

_SAFE_HOSTS = frozenset({"localhost", "127.0.0.1", "host", "hostname"})
_SAFE_DOMAINS = ("example.com", "example.org", "example.net", ".test", ".invalid", ".example")
_PASSWORD_PARTS = expression(r"(?:%[0-9a-f]{2}|[^a-z0-9])+|[0-9]+\Z")
_SAFE_PASSWORDS = frozenset(
    {"password", "foo", "bar", "baz", "pass", "passwd", "pwd", "secret", "user", "token", "test", "pw", "key"}
)

_CUT_ESCAPE = expression(r"\\(?:u[0-9A-Fa-f]{0,4}|[\"\\/bfnrt])\Z")
"""The beginning of an escape, with the character after it."""

_RANKS = {
    kind: rank
    for rank, kind in enumerate(
        dict.fromkeys(
            [form.kind for form in _FORMATS]
            + ["discord-bot-token", "url-password", "bearer-token", "basic-auth", "aws-secret-key", "secret-assignment"]
        )
    )
}
"""Of two kinds that fit one place, the first names it."""

SHORTEST = 11
"""Characters of the shortest text that holds a secret by its form: a password in an address."""


def find(text: str, also: Callable[[str], Iterable[SecretMatch]] | None = None) -> list[SecretMatch]:
    """Every secret in `text`, in order and without overlaps; overlapping ones become one, under the named format.

    Secrets inside of carriers (see `carriers`) count as well: there the match is the
    whole escape, or the base64, that stands for the value. `also` looks for more in
    the same readings of the text; what it finds comes before every format.
    """
    if also is None and len(text) < SHORTEST:
        return []
    found = [_whole(text, match) for match in _scan(text, also)]
    for view in decoding.views(text):
        for match in _scan(view.text, also):
            start, end = view.origin(match.start, match.end)
            found.append(replace(match, start=start, end=end))
    return _apart(found if text.isascii() else [_of_characters(text, match) for match in found])


def _scan(text: str, also: Callable[[str], Iterable[SecretMatch]] | None) -> Iterator[SecretMatch]:
    if also is not None:
        yield from also(text)
    for match in (
        *_known(text),
        *(SecretMatch("private-key", *key) for key in private_keys.every(text)),
        *_cut_short(text),
        *_discord(text),
        *_urls(text),
        *_headers(text),
        *_handed_over(text),
        *(SecretMatch(*one) for one in assignments.assigned(text)),
    ):
        value = text[match.start : match.end]
        if match.kind == "private-key":
            value = match.value or "".join(_PEM_CODED.findall(value))  # the same key, however its lines are written
        yield replace(match, value=value)


def _apart(found: list[SecretMatch]) -> list[SecretMatch]:
    """The matches in order; of those that overlap one over all of them, of the kind of the first rank."""
    kept: list[SecretMatch] = []
    for match in sorted(found, key=lambda match: (match.start, match.end)):
        if kept and match.start < kept[-1].end:
            last = kept.pop()
            best = min(last, match, key=lambda one: (_RANKS.get(one.kind, -1), -len(one.value), one.value))
            match = replace(best, start=last.start, end=max(last.end, match.end))
        kept.append(match)
    return kept


def _whole(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of an escape that it would cut: what is left of JSON must stay JSON."""
    start, end = match.start, match.end
    if head := _CUT_ESCAPE.search(text, max(0, start - 6), min(len(text), start + 1)):
        lead = text[max(0, head.start() - 64) : head.start()]
        if head.end() > start and (len(lead) - len(lead.rstrip("\\"))) % 2 == 0:
            start = head.start()
    inside = text[start:end]
    if (len(inside) - len(inside.rstrip("\\"))) % 2:
        end = min(len(text), end + (5 if text[end : end + 1] == "u" else 1))
    return match if (start, end) == (match.start, match.end) else replace(match, start=start, end=end)


def _of_characters(text: str, match: SecretMatch) -> SecretMatch:
    """The match with the whole of a UTF-8 character that a limit cuts: text that is UTF-8 seen as Latin-1 stays it."""
    start, end = _border(text, match.start, -1), _border(text, match.end, 1)
    return match if (start, end) == (match.start, match.end) else replace(match, start=start, end=end)


def _border(text: str, position: int, side: int) -> int:
    """`position`, or where the UTF-8 character that it is inside of begins (-1) or ends (1)."""
    if not "\x80" <= text[position : position + 1] <= "\xbf":
        return position
    for start in range(position - 1, max(-1, position - 4), -1):
        if "\xc2" <= text[start] <= "\xf4":
            end = start + (2 if text[start] < "\xe0" else 3 if text[start] < "\xf0" else 4)
            return position if end <= position else min(end, len(text)) if side > 0 else start
        if not "\x80" <= text[start] <= "\xbf":
            break
    return position


def looks_random(value: str) -> bool:
    """Whether a value without its name may be a secret: letters and digits as no word, name or sentence has them."""
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not any(map(str.isspace, value))
        and not (
            assignments.WORDS.match(value)
            or assignments.CAMEL.search(value)
            or assignments.PLACEHOLDER.search(value.lower())
        )
        and assignments.bits(value) >= assignments.QUOTED_BITS
    )


def mask(value: str) -> str:
    """What may be shown of a secret: enough to recognise it, at most a quarter of it."""
    return value[: min(4, len(value) // 4)] + "..."


def kinds() -> frozenset[str]:
    """The kinds that `find` can name."""
    return frozenset(_RANKS)


def _known(text: str) -> Iterator[SecretMatch]:
    for form in _FORMATS:
        for match in form.expression.finditer(text) if form.lead in text else ():
            start, end = match.span("value") if form.has_value else match.span()
            if form.kind == "telegram-bot-token":
                digits = text[max(0, start - 12) : start]
                start -= len(digits) - len(digits.rstrip("0123456789"))
            if form.kind == "private-key":
                end = _end_of_key(text, start, end)
            if form.kind == "private-key" or not assignments.PLACEHOLDER.search(text[start:end].lower()):
                yield SecretMatch(form.kind, start, end)


def _end_of_key(text: str, start: int, end: int) -> int:
    """Where a private key ends that has no end line: its string ends it, unless its lines are strings each."""
    if text.endswith("-----", start, end):
        return end
    body = text.index("KEY", start) + 20
    quote = next((found.start() for found in re.compile("[\"']").finditer(text, body, end)), end)
    if quote - body >= 40:
        return quote
    return end if text.count('"', start, end) % 2 == 0 else text.rindex('"', start, end)


def _cut_short(text: str) -> Iterator[SecretMatch]:
    """The beginning of a secret at the text's end, or before dots that say that something is left out."""
    for end in (*(cut.start() for cut in _CUT_MARK.finditer(text)), len(text)):
        if end < 14 or not _TOKEN_BEFORE.match(text, end - 10, end):
            continue
        found = _CUT_SHORT.search(text, max(0, end - 320), end)
        if found is None or assignments.WORDS.match(found[0]) or assignments.PLACEHOLDER.search(found[0].lower()):
            continue
        if any(char.isdigit() for char in found["rest"]):
            yield SecretMatch(_CUT_LEADS[found["lead"]], found.start(), end)


def _discord(text: str) -> Iterator[SecretMatch]:
    for tail in _DISCORD_TAIL.finditer(text) if "." in text else ():
        head = _DISCORD_HEAD.search(text, max(0, tail.start() - 28), tail.start())
        if head:
            yield SecretMatch("discord-bot-token", head.start(), tail.end())


def _headers(text: str) -> Iterator[SecretMatch]:
    # Both leads start with common letters, where `in` is the faster search.
    for match in _BEARER.finditer(text) if "earer " in text else ():
        value = match["value"]
        if (
            any(char.isdigit() for char in value)
            and assignments.bits(value) >= assignments.BARE_BITS
            and not assignments.PLACEHOLDER.search(value.lower())
        ):
            yield SecretMatch("bearer-token", *match.span("value"))
    for match in _BASIC.finditer(text) if "asic " in text else ():
        with contextlib.suppress(ValueError):
            user, colon, password = base64.b64decode(match["value"], validate=True).decode().partition(":")
            if colon and len(password) >= 4 and not _is_sample(user, password):
                yield SecretMatch("basic-auth", *match.span("value"))


def _handed_over(text: str) -> Iterator[SecretMatch]:
    """Passwords after a user's name: of `curl -u`, of a .netrc; and those between the tags of XML."""
    for match in _CURL.finditer(text) if "curl" in text else ():
        is_curl = "curl" in text[max(0, match.start() - 300) : match.start()].rpartition("\n\n")[2]
        if is_curl and not _is_sample(match["user"], match["value"]):
            yield SecretMatch("basic-auth", *match.span("value"))
    named = [form.finditer(text) for lead, form in _AFTER_NAMES.items() if lead in text]
    for match in chain.from_iterable(named):
        said = match.groupdict()
        prose = said.get("prose")
        is_prose = prose and not (
            any(map(str.isdigit, match["value"])) if prose == "default" else looks_random(match["value"])
        )
        if not is_prose and not _is_sample(said.get("user") or "", match["value"]):
            yield SecretMatch("secret-assignment", *match.span("value"))


def _urls(text: str) -> Iterator[SecretMatch]:
    if "://" not in text:
        return
    for match in _URL.finditer(text):
        host = match["host"].lower()
        nowhere = len(host) < 2 or host in _SAFE_HOSTS or host.endswith(_SAFE_DOMAINS)
        if not nowhere and not _is_sample(match["user"], match["value"]):
            yield SecretMatch("url-password", *match.span("value"))


def _is_sample(user: str, password: str) -> bool:
    """Whether the password is one of those that stand in documentation, or a reference to one."""
    lowered = password.lower()
    return (
        lowered == user.lower()
        or len(set(lowered)) == 1
        or lowered.startswith(("$", "{", "%s", "%("))
        or assignments.PLACEHOLDER.search(lowered) is not None
        or all(len(part) < 2 or part in _SAFE_PASSWORDS for part in _PASSWORD_PARTS.split(lowered))
    )
