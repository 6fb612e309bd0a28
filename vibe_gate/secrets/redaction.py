"""Redaction: nothing secret is written to a bundle, a cassette or a forge.

Two nets. *Known values*: what the environment holds as a secret (`known_values`), in the forms in
which it travels (plain, base64 at each alignment, hex, URL-encoded, JSON-escaped). *Known forms*:
`scan`.

A secret becomes `[redacted:KIND:TAG]`, the same in every run and on every machine, so redacted
contents still deduplicate and cassettes still match. TAG is 8 hex digits of a sha-256, which tells
nothing about a random value of 20 characters or more; a shorter one could be guessed against it, so
there the TAG is computed from the KIND alone.

A value whose name is on a line above can be recognised in the file alone: a patch, a report and a
judge's rows put marks between the two. So a value that `data` finds that way is a known value
afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from vibe_gate.domain.escape import expression
from vibe_gate.secrets import scan
from vibe_gate.secrets.scan import SecretMatch

MIN_TAGGED = 20
"""Characters from which a placeholder may tell secrets apart: fewer could be guessed against 32
bits of a hash.
"""
MAX_NAMED = 500
"""Characters of a JSON value up to which its name is considered together with it."""

MAX_REMEMBERED = 100_000
"""Short texts without a secret that are not searched again."""

MAX_LEARNED = 200
"""Values of contents that are looked for afterwards: each costs a search of every text."""
MAX_LEAD = 400
"""Characters before a value in which a name on its own line is looked for."""


class Redactor:
    """Replaces secrets; keeps every other character and byte as it is. Safe for several threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        secrets = known_values(environ)
        self._forms = {form: secret for secret in secrets for form in _forms(secret)}
        # What a limit has cut: half of a value and more, at the end or before the dots that say so.
        # A value that is not text may be too short, or empty, once bytes at its ends are stripped.
        plain = [_plain(secret) for secret in secrets]
        self._beginnings = {
            text[: max(MIN_VALUE, len(text) // 2)]: text for text in plain if len(text) >= MIN_VALUE
        }
        self._learned: dict[str, SecretMatch] = {}
        self._clean: set[tuple[str, bool, int]] = set()
        self._found: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._whole: Redactor | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets it has replaced, by kind."""
        return dict(self._found)

    def part(self) -> Redactor:
        """A redactor of the same secrets with a count of its own; what it finds counts here too."""
        part = Redactor({})
        part._forms, part._beginnings = self._forms, self._beginnings
        part._learned, part._clean, part._whole = self._learned, self._clean, self
        return part

    def text(self, text: str) -> str:
        """`text` with placeholders for its secrets.

        It is searched as UTF-8 seen as Latin-1, as bytes are, so that a value has one placeholder
        in both.
        """
        return self._redact(text) if text.isascii() else as_characters(self._redact(as_bytes(text)))

    def data(self, data: bytes) -> bytes:
        """`data`, in any encoding, with placeholders for its secrets; the same object if it holds
        none.

        A value whose name is on a line above is replaced in every later text, too.
        """
        text = data.decode("latin-1")
        redacted = self._redact(text, learns=True)
        return data if redacted is text else redacted.encode("latin-1")

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON, as json.loads gives it
        """A JSON-like structure with every text in it redacted, keys too.

        What JSON does not know is written as its repr, so it is looked at as that.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.data(value)
        if isinstance(value, Mapping):
            return self._members(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        written = repr(value)
        redacted = self.text(written)
        return value if redacted == written else redacted

    def _members(self, value: Mapping[Any, Any]) -> dict[object, object]:
        """The object with redacted keys and values; keys that become equal are numbered: ` (2)`, `
        (3)`.
        """
        # The name in {"name": "API_KEY", "value": ...} says what the value is.
        value_names = {"value": value.get("name", value.get("key"))}
        numbers: Counter[object] = Counter()
        redacted: dict[object, object] = {}
        for key, item in value.items():
            is_plain = key is None or isinstance(key, (bool, int, float))
            name = written = key if is_plain else self.text(str(key))
            while name != key and (name in redacted or name in value):
                numbers[written] += 1
                name = f"{written} ({numbers[written] + 1})"
            redacted[name] = self._member(value_names.get(key) or key, item)
        return redacted

    def _member(self, key: object, item: object) -> object:
        """The value of a key; a random-looking text under a secret's name is a secret by its
        name.
        """
        if not (isinstance(key, str) and isinstance(item, str)) or len(item) > MAX_NAMED:
            return self.value(item)
        head, item_bytes = as_bytes(f'"{key}": "'), as_bytes(item)
        for match in self._find(head + item_bytes + '"', None):
            if match.start == len(head) and match.end == len(head) + len(item_bytes):
                self._count(match.kind)
                return placeholder(match.kind, item_bytes)
        return self.text(item)

    def _redact(self, text: str, *, learns: bool = False) -> str:
        matches = self._find(text, self._known if self._forms or self._learned else None)
        for match in matches:
            self._count(match.kind)
            if learns:
                self._learn(text, match)
        return _replaced(text, matches)

    def _find(
        self, text: str, also: Callable[[str], Iterable[SecretMatch]] | None
    ) -> list[SecretMatch]:
        """`find_seen`; a document names the same paths and words again and again, so short ones are
        remembered.
        """
        question = (text, also is None, len(self._learned))
        if question in self._clean:
            return []
        candidates = scan.find_seen(text, also)
        matches = [match for match in candidates if match.harmless != "documented example"]
        if not matches and len(text) <= MAX_NAMED and len(self._clean) < MAX_REMEMBERED:
            self._clean.add(question)
        return matches

    def _learn(self, text: str, match: SecretMatch) -> None:
        written = text[match.start : match.end]
        lead = text[max(0, match.start - MAX_LEAD) : match.start].rpartition("\n")
        if (
            match.kind not in scan.BY_NAME
            or scan.has_name(lead[2])
            or "\n" in written
            or len(written) < MIN_VALUE
        ):
            return
        with self._lock:
            if len(self._learned) < MAX_LEARNED:
                self._learned[written] = match

    def _known(self, text: str) -> Iterator[SecretMatch]:
        """Where a known value stands, in whatever form."""
        yield from self._environment_values(text)
        for written, match in tuple(self._learned.items()):
            for start in _places(text, written):
                yield SecretMatch(match.kind, start, start + len(written), match.value)

    def _environment_values(self, text: str) -> Iterator[SecretMatch]:
        """Where a value of the environment stands, or the beginning of one that was truncated."""
        for form, secret in self._forms.items():
            for start in _places(text, form):
                yield SecretMatch("environment", start, start + len(form), secret)
        for begin, secret in self._beginnings.items():
            for start in _places(text, begin):
                end = start + len(begin)
                while end - start < len(secret) and text[end : end + 1] == secret[end - start]:
                    end += 1
                if scan.CUTS.match(text, end):
                    yield SecretMatch("environment", start, end, secret)

    def _count(self, kind: str) -> None:
        with self._lock:
            self._found[kind] += 1
        if self._whole is not None:
            self._whole._count(kind)


def placeholder(kind: str, secret: str) -> str:
    """What is written for a secret of that kind."""
    hashed = secret if len(secret) >= MIN_TAGGED else ""
    tag = hashlib.sha256(
        f"vibe-gate redaction\0{kind}\0{hashed}".encode("utf-8", "surrogatepass")
    ).hexdigest()[:8]
    return f"[redacted:{kind}:{tag}]"


def as_bytes(text: str) -> str:
    """`text` as UTF-8 seen as Latin-1, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def as_characters(latin_text: str) -> str:
    """The inverse of `as_bytes`. Bytes that are not UTF-8 become U+FFFD, so that the result can
    always be written.
    """
    raw = latin_text.encode("latin-1")
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _replaced(text: str, matches: Iterable[SecretMatch]) -> str:
    out: list[str] = []
    position = 0
    for match in matches:
        written = placeholder(match.kind, match.value)
        if not text[match.start + 1 : match.end : 2].strip("\0"):
            # UTF-16 stays UTF-16.
            written = "\0".join(written) + "\0" * ((match.end - match.start) % 2 == 0)
        out += [text[position : match.start], written]
        position = match.end
    return "".join([*out, text[position:]]) if out else text


def _places(text: str, form: str) -> Iterator[int]:
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + len(form))


# The forms in which a known value travels, each as UTF-8 seen as Latin-1

_NOT_ASCII = bytes(range(0x80, 0x100))


def _raw(secret: str) -> bytes:
    try:
        raw = secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # not from an environment's bytes, but from JSON in it
        raw = secret.encode("utf-8", "surrogatepass")
    # A value that is no UTF-8 must not match half a character of a text that is.
    return raw if secret.isprintable() else raw.strip(_NOT_ASCII)


def _plain(secret: str) -> str:
    return _raw(secret).decode("latin-1")


def _forms(secret: str) -> set[str]:
    """How a secret may be written, but for what `decoding` undoes."""
    raw, plain = _raw(secret), _plain(secret)
    percent = quote(raw, safe="")
    escaped = {
        json.dumps(plain, ensure_ascii=False)[1:-1],
        json.dumps(secret, ensure_ascii=True)[1:-1],
    }
    forms = {plain, *escaped, *(text.replace("/", "\\/") for text in escaped)}
    forms |= {percent, percent.replace("%20", "+"), quote(raw, safe="/")}
    forms |= {raw.hex(), raw.hex().upper(), base64.b32encode(raw).decode("ascii").rstrip("=")}
    forms |= {html.escape(plain, quote=False), html.escape(plain)}
    forms |= {plain.encode(wide).decode("latin-1") for wide in ("utf-16-le", "utf-16-be")}
    forms = forms.union(*(_base64_core(raw, shift) for shift in range(3)))
    return {form for form in forms if len(form) >= MIN_VALUE}


def _base64_core(raw: bytes, shift: int) -> set[str]:
    """The characters of base64 that depend on `raw` alone, when it starts `shift` bytes into a
    group of three.

    If nothing follows `raw` the last one and the padding do, too.
    """
    padded = base64.b64encode(bytes(shift) + raw).decode("ascii")
    encoded = padded.rstrip("=")
    first = (0, 2, 3)[shift]
    last = len(encoded) - ((len(raw) + shift) % 3 != 0)
    cores = {encoded[first:last], encoded[first:], padded[first:]}
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}


# Known values: what of an environment is secret, by its variables' names and by what their values
# look like. A value is not always the secret itself: it comes with a line's end, in quotes, behind
# `Bearer `, in a JSON document, in an address, or in many lines of which a text may show one.

MIN_VALUE = 8
"""Characters of an environment's value below which it is too common to be searched for."""
MIN_LINE = 12
"""The same for one line of a value."""
MIN_LEAF = 16
"""The same for a text in a JSON document whose own name does not say that it is secret."""
MAX_PARTS = 100
"""Secrets that are looked for in one value: each costs a search of every text."""

_SECRET_NAME = expression(
    r"KEY|TOKEN|SECRET|PASSW|PWD[0-9]*\Z|(?:\A|_)(?:PWD|PSW)_|PSW[0-9]*\Z|CREDS?[0-9]*\Z|MNEMONIC|PASSPHRASE|CREDENTIAL|(?:AUTH|_PAT|DSN|JWT|BEARER|SALT|CERT|SESSION_ID)[0-9]*\Z|"
    r"(?<!BY)(?<!COM)PASS_?[0-9]*\Z|(?:\A|_)(?:PW|PIN|SAS)[0-9]*\Z|AUTHORI[SZ]ATION|AUTH_(?:HEADER|BEARER|BASIC)\Z|"
    r"KUBE_?CONFIG_\w|CONN(?:ECTION)?_?STR(?:ING)?\Z|(?:DATABASE|REDIS|MONGO\w*|AMQP)_UR[IL]\Z|COOKIE|WEBHOOK",
    re.IGNORECASE,
)
_NEAR_SECRET_NAME = expression(
    r"(?:\A|_)(?:AUTH|PASS|PW|JWT|SAS|OTP|TOTP)_|SIGNATURE\Z|(?:\A|_)(?:SEED|BASIC|OTP)\Z",
    re.IGNORECASE,
)
"""A name of which much is harmless (AUTH_MODE, JWT_ISSUER): there a value counts that looks
random.
"""
_NOT_SECRET_NAME = expression(
    r"\A(?:PWD|OLDPWD|SSH_AUTH_SOCK|XAUTHORITY|KEYBOARD\w*|\w*_(?:FILE|PATH|DIR|HOME|SOCK|NAME|URL_PREFIX)|COLORTERM|"
    r"\w*KEYRING\w*|\w*MAX_\w*TOKENS|TOKENIZERS_PARALLELISM|"
    r"(?:CLAUDE|CODEX|COPILOT|CURSOR|GEMINI|OPENCODE)\w*SESSION_ID)\Z",
    re.IGNORECASE,
)
_PLAIN_PATH = expression(r"[~.]?/[a-z0-9._/-]*|/\S+\.[a-z]{1,5}")
_ADDRESS = expression(r"://[^\s/:@]{0,200}:(?P<password>[^\s/]{1,1000})@")
_TRIVIAL = frozenset(
    {
        "password",
        "changeme",
        "disabled",
        "required",
        "optional",
        "undefined",
        "localhost",
        "anonymous",
    }
)
_SCHEME = expression(
    r"(?:[A-Za-z-]{1,40}:\s{0,9})?(?:Bearer|Basic|Token|ApiKey)\s{1,9}(?P<rest>\S.*)", re.IGNORECASE
)
_SETTING = expression(
    r"(?:\A|[;&?,\s])(?:export )?(?P<name>[A-Za-z_][\w.-]{0,60}) ?= ?(?P<value>[^\s;&]{8,4000})"
)


def known_values(environ: Mapping[str, str]) -> list[str]:
    """The secrets of an environment, each once."""
    values = [
        part for name, value in environ.items() if _is_secret(name, value) for part in _parts(value)
    ]
    # The password in an address is a secret of its own, as a client's error names it, whatever the
    # variable's name.
    passwords = [
        address_match["password"]
        for value in environ.values()
        if (address_match := _ADDRESS.search(value))
        and not _is_word(address_match["password"], value)
    ]
    values += [text for password in passwords for text in (password, unquote(password))]
    return [part for part in dict.fromkeys(values) if _is_rare(part)]


def _is_secret(name: str, value: str) -> bool:
    if _NOT_SECRET_NAME.match(name):
        return False
    near = _NEAR_SECRET_NAME.search(name) and "://" not in value and scan.looks_random(value)
    return bool(near or _SECRET_NAME.search(name))


def _is_rare(value: str) -> bool:
    return (
        len(value) >= MIN_VALUE
        and value.lower() not in _TRIVIAL
        and len(set(value)) > 2
        and not _PLAIN_PATH.fullmatch(value)
    )


def _is_word(password: str, address: str) -> bool:
    """Whether the password is too common to be searched for: `postgres://postgres:postgres@db/`, or
    one plain word.
    """
    return address.lower().count(password.lower()) > 1 or (
        password.isalpha() and password.islower() and len(password) < 12
    )


def _parts(value: str) -> list[str]:
    """A value without what it is wrapped in, and the secrets that are part of it."""
    plain = value.strip()
    while len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'`":
        plain = plain[1:-1].strip()
    if scheme := _SCHEME.fullmatch(plain):
        plain = scheme["rest"].strip()
    parts = dict.fromkeys(
        [plain, *_coded(plain), *_leaves(plain), *_settings(plain), *_lines(plain)]
    )
    return list(parts)[:MAX_PARTS]


def _coded(value: str) -> Iterator[str]:
    """The password in base64 of `user:password`, as in a header, and what a document holds that is
    kept in base64.
    """
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{12,100000}={0,2}", value):
        return
    with contextlib.suppress(ValueError):
        padded = value.rstrip("=").replace("-", "+").replace("_", "/")
        decoded = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True).decode("utf-8")
        if decoded.isprintable() and (password := decoded.partition(":")[2]):
            yield password
        yield from _leaves(decoded.strip())


def _leaves(value: str) -> Iterator[str]:
    """Texts of a JSON document: those under a secret's name, and those that look random."""
    if value[:1] not in ("{", "["):
        return
    try:
        waiting: list[tuple[str, object]] = [("", json.loads(value))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.items()
        elif isinstance(item, list):
            waiting += [(name, child) for child in item]
        elif isinstance(item, str):
            is_random = (
                len(item) >= MIN_LEAF
                and "://" not in item
                and "@" not in item
                and scan.looks_random(item)
            )
            if is_random or (
                _SECRET_NAME.search(name) and not _NOT_SECRET_NAME.match(name) and "://" not in item
            ):
                yield item.strip()
            yield from _lines(item)


def _settings(value: str) -> Iterator[str]:
    """What a connection string or a file of settings gives to secrets' names, and secrets of known
    formats.
    """
    if value[:1] in ("{", "[") or not ({*value} & {*"=:"}):
        return
    for setting in _SETTING.finditer(value):
        if _SECRET_NAME.search(setting["name"]) or setting["name"].lower() in (
            "sig",
            "password",
            "pwd",
        ):
            yield setting["value"].strip("\"'")
    for match in scan.find_secrets(value):
        if match.kind != "url-password":  # of which `known_values` knows more
            yield match.value.strip()


def _lines(value: str) -> Iterator[str]:
    """Lines of a value that look random: a text may show one of them alone, or put something
    between them.
    """
    lines = value.split("\n")
    if len(lines) < 2:
        return
    for line in map(str.strip, lines):
        if len(line) >= MIN_LINE and not line.startswith("-----") and scan.looks_random(line):
            yield line
