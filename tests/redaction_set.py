"""What redaction is measured on: planted secrets of every kind in every carrier, and text that holds none.

Everything is made from a seed, by arithmetic of our own: the same on every machine and
Python. Secrets are put together at run time, so that no scanner finds one in this file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

WORD = string.ascii_letters + string.digits
URL64 = WORD + "-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
DIGITS = string.digits


class Lot:
    """Random choices that are the same everywhere: sha-256 of a seed and a counter."""

    def __init__(self, seed: str) -> None:
        self._seeded = hashlib.sha256(f"{seed}/".encode())
        self._count = 0

    def below(self, bound: int) -> int:
        self._count += 1
        drawn = self._seeded.copy()
        drawn.update(b"%d" % self._count)
        return int.from_bytes(drawn.digest()[:8], "big") % bound

    def run(self, alphabet: str, length: int) -> str:
        return "".join(alphabet[self.below(len(alphabet))] for _ in range(length))

    def one_of(self, *choices: str) -> str:
        return choices[self.below(len(choices))]


@dataclass(frozen=True)
class Planted:
    """A secret between what stands around it."""

    kind: str
    before: str
    secret: str
    after: str = "\n"


def planted(seed: str) -> Iterator[Planted]:
    """One secret of every kind."""
    lot = Lot(seed)
    run = lot.run
    name = lot.one_of("say ", "found: ", "  - ", "export X=", "# was ")

    def alone(kind: str, secret: str) -> Planted:
        return Planted(kind, name, secret)

    yield alone("aws-access-key-id", lot.one_of("AK", "AS") + "IA" + run(UPPER, 16))
    yield alone("github-token", "gh" + lot.one_of("p", "o", "s") + "_" + run(WORD, 36))
    yield alone("github-token", "github_" + "pat_" + run(WORD, 22) + "_" + run(WORD, 59))
    yield alone("gitlab-token", "gl" + "pat-" + run(URL64, 20))
    yield alone("slack-token", "xo" + "xb-" + run(DIGITS, 12) + "-" + run(WORD, 24))
    yield Planted(
        "slack-webhook", "https://", "hooks." + "slack.com/services/T" + run(UPPER, 8) + "/B" + run(UPPER, 8) + "/x"
    )
    yield alone("stripe-key", "sk_" + "live_" + run(WORD, 24))
    yield alone("stripe-webhook-secret", "wh" + "sec_" + run(WORD, 32))
    yield alone("google-api-key", "AI" + "za" + run(URL64, 35))
    yield alone("google-oauth-secret", "GOC" + "SPX-" + run(URL64, 28))
    yield alone("anthropic-key", "sk-" + "ant-api03-" + run(URL64, 93) + "AA")
    yield alone("openai-key", "sk-" + "proj-" + run(URL64, 48))
    yield alone("npm-token", "np" + "m_" + run(WORD, 36))
    yield alone("pypi-token", "pypi-" + "AgEIcHlwaS5vcmc" + run(URL64, 120))
    yield alone("twilio-key", "S" + "K" + run(HEX, 32))
    yield alone("sendgrid-key", "S" + "G." + run(URL64, 22) + "." + run(URL64, 43))
    yield alone("jwt", "ey" + "J" + run(URL64, 30) + ".eyJ" + run(URL64, 90) + "." + run(URL64, 43))
    yield alone("private-key", _private_key(lot))
    yield alone("heroku-key", "HR" + "KU-" + run(URL64, 60))
    yield alone("digitalocean-token", "do" + "p_v1_" + run(HEX, 64))
    yield alone("telegram-bot-token", run("123456789", 10) + ":A" + "A" + run(URL64, 33))
    yield alone("discord-bot-token", "M" + run(WORD, 25) + "." + run(WORD, 6) + "." + run(URL64, 38))
    yield Planted(
        "discord-webhook", "https://discord.com", "/api/web" + "hooks/" + run(DIGITS, 18) + "/" + run(URL64, 68)
    )
    yield alone("hugging-face-token", "h" + "f_" + run(string.ascii_letters, 34))
    yield alone("databricks-token", "da" + "pi" + run(HEX, 32))
    yield alone("shopify-token", "shp" + "at_" + run(HEX, 32))
    yield alone("mailgun-key", "ke" + "y-" + run(HEX, 32))
    yield alone("vault-token", "hv" + "s." + run(URL64, 24))
    yield alone("age-secret-key", "AGE-SECRET-" + "KEY-1" + run(string.ascii_uppercase, 58))
    yield alone("grafana-token", "gl" + "sa_" + run(WORD, 32) + "_" + run(HEX, 8))
    yield alone("linear-key", "lin_" + "api_" + run(WORD, 40))
    yield alone("groq-key", "gs" + "k_" + run(WORD, 52))
    yield Planted("gcp-service-account", '"private_' + 'key_id": "', run(HEX, 40), '",\n')
    yield Planted("azure-storage-key", "AccountName=a;Account" + "Key=", run(WORD, 86) + "==", ";End=b\n")
    yield Planted("aws-secret-key", "aws_secret_" + 'access_key = "', run(WORD + "+", 38) + "a7", '"\n')
    yield Planted("secret-assignment", "DB_PASS" + "WORD='", run(WORD, 18) + "7", "'\n")
    yield Planted("secret-assignment", '"api_' + 'key": "', run(WORD, 30) + "7", '",\n')
    yield Planted("url-password", "postgres://app:", run(WORD, 14) + "7", "@db7.internal:5432/app\n")
    yield Planted("bearer-token", "Authorization: Bearer ", run(WORD, 39) + "7")
    basic = base64.b64encode(("admin:" + run(WORD, 15)).encode()).decode()
    yield Planted("basic-auth", "authorization: Basic ", basic)


def _private_key(lot: Lot) -> str:
    body = "\n".join(lot.run(WORD + "+/", 64) for _ in range(12))
    return "-----BEGIN RSA " + f"PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE " + "KEY-----"


Carried = tuple[str, str]
"""The whole text, and the part of it that stands for the secret."""


def _in(text: str, coded: str, before: str = "") -> Carried:
    return before + text, coded


def _plain(p: Planted) -> Carried:
    return p.before + p.secret + p.after, p.secret


def _around(encode: Callable[[str], str], p: Planted, head: str = "", tail: str = "") -> Carried:
    coded = encode(p.secret)
    return head + encode(p.before) + coded + encode(p.after) + tail, coded


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _unicode(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def _percent(text: str) -> str:
    return "".join(f"%{ord(char):02X}" for char in text)


def _cut(p: Planted, between: str, at: int = 9) -> Carried:
    coded = p.secret[:at] + between + p.secret[at:]
    return p.before + coded + p.after, coded


def _coloured(p: Planted) -> Carried:
    coded = _two_colours(p.secret)
    return f"{p.before}\x1b[31m{coded}\x1b[0m{p.after}", coded


def _two_colours(text: str) -> str:
    return text[: len(text) // 2] + "\x1b[0m\x1b[1;32m" + text[len(text) // 2 :]


def _base64(p: Planted, encode: Callable[[bytes], bytes], group: int, width: int) -> Carried:
    full = encode((p.before + p.secret + p.after + "and more of it\n").encode()).decode()
    first, last = -(-len(p.before) // group), (len(p.before) + len(p.secret)) // group
    return f"data: {full}\n", full[first * width : last * width]


def _lines(p: Planted, before: str, after: str) -> Carried:
    """Each line with something before and behind it, and a line around them."""
    between = f"{after}\n{before}"
    carried = _around(lambda text: text.rstrip("\n").replace("\n", between), p)
    return f"{before}one{between}{carried[0]}{between}two{after}\n", carried[1]


def _documented(carried: Carried) -> Carried:
    return json.dumps({"data": carried[0]}), carried[1]


def _wrapped(
    p: Planted, between: str = "\n", *, encode: Callable[[bytes], bytes] = base64.b64encode, line: int = 76
) -> Carried:
    full = encode((p.before + p.secret + p.after + "and more of it\n").encode()).decode()
    group, width = {base64.b64encode: (3, 4), base64.b32encode: (5, 8)}.get(encode, (1, 2))
    first, last = -(-len(p.before) // group) * width, (len(p.before) + len(p.secret)) // group * width

    def lines(start: int, end: int) -> str:
        return "".join(full[i] + (between if i % line == line - 1 else "") for i in range(start, end))

    return f"data:{between}{lines(0, len(full))}\n", lines(first, last)


def _wide_base64(p: Planted) -> Carried:
    """As PowerShell takes a command: base64 of UTF-16."""
    full = base64.b64encode((p.before + p.secret + p.after + "and more of it\n").encode("utf-16-le")).decode()
    first, last = -(-2 * len(p.before) // 3), 2 * (len(p.before) + len(p.secret)) // 3
    return f"-enc {full}\n", full[first * 4 : last * 4]


def _spelled(p: Planted, byte: str, between: str, end: str) -> Carried:
    """Bytes in hex with something between them, twelve in a line: `xxd -i`, `od -An -t x1`."""
    raw = (p.before + p.secret + p.after + "and more of it\n").encode()
    told = [byte.format(code) + (end if number % 12 == 11 else between) for number, code in enumerate(raw)]
    return "".join(told), "".join(told[len(p.before) : len(p.before) + len(p.secret)])


def _marked(mark: str, carried: Carried) -> Carried:
    """As a hunk shows it: right behind the mark of the line."""
    text, coded = carried
    return f"@@ -1 +1 @@\n{mark}" + text.removeprefix("data: "), coded


def _hex(raw: bytes) -> bytes:
    return raw.hex().encode()


def _full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if char.isalnum() or char in "_-" else char for char in text)


CARRIERS: dict[str, Callable[[Planted], Carried]] = {
    "plain": _plain,
    "JSON": lambda p: _around(_json, p, '{"text": "', '", "n": 1}'),
    "JSON, escaped throughout": lambda p: _around(_unicode, p, '{"text": "', '"}'),
    "JSON, slashes escaped": lambda p: _around(lambda text: _json(text).replace("/", "\\/"), p, '{"text": "', '"}'),
    "JSON in JSON": lambda p: _around(lambda text: _json(_json(text)), p, '{"a": "{\\"b\\": \\"', '\\"}"}'),
    "JSON in JSON in JSON": lambda p: _around(lambda text: _json(_json(_json(text))), p, '{"a": "x ', ' y"}'),
    "escaped JSON in JSON": lambda p: _around(lambda text: _json(_unicode(text)), p, '{"a": "', '"}'),
    "one escape": lambda p: _in(p.before + _unicode(p.secret[0]) + p.secret[1:] + p.after, p.secret[1:]),
    "hex escapes": lambda p: _around(lambda text: "".join(f"\\x{ord(char):02x}" for char in text), p, "s = b'", "'\n"),
    "octal escapes": lambda p: _around(lambda text: "".join(f"\\{ord(char):03o}" for char in text), p, "printf '", "'"),
    "URL": lambda p: _around(lambda text: quote(text, safe=""), p, "GET /?q=", "&x=1\n"),
    "URL, throughout": lambda p: _around(_percent, p, "GET /?q=", "&x=1\n"),
    "URL, twice": lambda p: _around(lambda text: quote(_percent(text), safe=""), p, "GET /?q=", "&x=1\n"),
    "URL in JSON": lambda p: _around(lambda text: _json(quote(text, safe="")), p, '{"url": "/?q=', '"}'),
    "HTML": lambda p: _around(lambda text: "".join(f"&#{ord(char)};" for char in text), p, "<td>", "</td>\n"),
    "colour": _coloured,
    "colour in JSON": lambda p: _around(
        _json, Planted(p.kind, p.before + "\x1b[31m", _two_colours(p.secret), "\x1b[0m" + p.after), '{"out": "', '"}'
    ),
    "continued line": lambda p: _cut(p, "\\\n"),
    "continued line of a patch": lambda p: _cut(p, "\\\n+"),
    "quoted-printable": lambda p: _cut(p, "=\n"),
    "invisible characters": lambda p: _cut(p, "\u200b"),
    "base64": lambda p: _base64(p, base64.b64encode, 3, 4),
    "base64url": lambda p: _base64(p, base64.urlsafe_b64encode, 3, 4),
    "base64, wrapped": _wrapped,
    "base64 in JSON": lambda p: _documented(_base64(p, base64.b64encode, 3, 4)),
    "hex": lambda p: _base64(p, lambda raw: raw.hex().encode(), 1, 2),
    "hex, wrapped": lambda p: _wrapped(p, encode=_hex, line=60),
    "hex of a program": lambda p: _base64(p, lambda raw: b"0x" + raw.hex().encode(), 1, 2),
    "UTF-16 in base64": _wide_base64,
    "bytes of a program": lambda p: _spelled(p, "0x{:02x}", ", ", ",\n  "),
    "bytes of a program in a patch": lambda p: _spelled(p, "0x{:02X}", ",", ",\n+\t"),
    "bytes of a dump without offsets": lambda p: _spelled(p, "{:02x}", " ", "\n "),
    "base32": lambda p: _base64(p, base64.b32encode, 5, 8),
    "base32, wrapped": lambda p: _wrapped(p, encode=base64.b32encode, line=64),
    "base64 in a patch": lambda p: _marked("+", _base64(p, base64.b64encode, 3, 4)),
    "base64 taken away by a patch": lambda p: _marked("-", _base64(p, base64.b64encode, 3, 4)),
    "base64 in a patch of a merge": lambda p: _marked("++", _base64(p, base64.b64encode, 3, 4)),
    "base64 in a patch in JSON": lambda p: _documented(_marked("+", _base64(p, base64.b64encode, 3, 4))),
    "base64url in a path": lambda p: _marked("/a/b/", _base64(p, base64.urlsafe_b64encode, 3, 4)),
    "base64, wrapped in a patch": lambda p: _wrapped(p, "\n+"),
    "base64, wrapped at 64 in a patch": lambda p: _wrapped(p, "\n-", line=64),
    "base64, wrapped at 60 in a patch": lambda p: _wrapped(p, "\n+", line=60),
    "hex in a patch": lambda p: _marked("+", _base64(p, _hex, 1, 2)),
    "hex, wrapped in a patch": lambda p: _wrapped(p, "\n+", encode=_hex, line=60),
    "escapes of eight digits": lambda p: _around(lambda text: "".join(f"\\U{ord(c):08x}" for c in text), p, "'", "'"),
    "variation selectors": lambda p: _cut(p, "\ufe0f"),
    "tag characters": lambda p: _cut(p, "\U000e0041"),
    "full width": lambda p: _around(_full_width, p),
    "records of a log": lambda p: _lines(p, '{"log": "', '\\n", "stream": "stdout"}'),
    "lines of a script": lambda p: _lines(p, 'echo "', '" >> file'),
    "list in HTML": lambda p: _lines(p, "  <li>", "</li>"),
    "patch": lambda p: _around(lambda text: text.replace("\n", "\n+"), p, "@@ -0,0 +1 @@\n+", "\n"),
    "numbered lines": lambda p: _around(lambda text: text.replace("\n", "\n   12→"), p, "   11→"),
    "commented lines": lambda p: _around(lambda text: text.replace("\n", "\n# "), p, "# "),
}  # fmt: skip


def leaks(carried: Carried, redacted: str) -> bool:
    """Whether any ten characters of what stood for the secret are still there; thirty where six stand for one."""
    text, coded = carried
    around = text.replace(coded, "\0")
    size = 30 if coded.count("0x") > 9 else 10
    pieces = {coded[start : start + size] for start in range(max(1, len(coded) - size + 1))}
    return any(
        piece in redacted and piece not in around for piece in pieces if "KEY" not in piece and "-----" not in piece
    )
