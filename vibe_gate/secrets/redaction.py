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
        self._secrets_by_form: dict[str, str] = {}
        self._secrets_by_beginning: dict[str, str] = {}
        """By half of a secret: what a limit has cut has this or more of it."""

        for secret in known_values(environ):
            for form in _forms(secret):
                self._secrets_by_form[form] = secret
            # What is not text may be too short, or empty, once bytes at its ends are stripped.
            text = _plain(secret)
            if len(text) >= MIN_VALUE:
                half = max(MIN_VALUE, len(text) // 2)
                self._secrets_by_beginning[text[:half]] = text
        self._learned: dict[str, SecretMatch] = {}
        self._clean: set[tuple[str, bool, int]] = set()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._parent: Redactor | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """How many secrets it has replaced, by kind."""
        return dict(self._counts)

    def part(self) -> Redactor:
        """A redactor of the same secrets with a count of its own; what it finds counts here too."""
        part = Redactor({})
        part._secrets_by_form = self._secrets_by_form
        part._secrets_by_beginning = self._secrets_by_beginning
        part._learned = self._learned
        part._clean = self._clean
        part._parent = self
        return part

    def text(self, text: str) -> str:
        """`text` with placeholders for its secrets.

        It is searched as UTF-8 seen as Latin-1, as bytes are, so that a value has one placeholder
        in both.
        """
        if text.isascii():
            return self._redact(text)
        return as_characters(self._redact(as_bytes(text)))

    def data(self, data: bytes) -> bytes:
        """`data`, in any encoding, with placeholders for its secrets; the same object if it holds
        none.

        A value whose name is on a line above is replaced in every later text, too.
        """
        text = data.decode("latin-1")
        redacted = self._redact(text, learns=True)
        if redacted is text:
            return data
        return redacted.encode("latin-1")

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
            return [self.value(member) for member in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        text = repr(value)
        redacted_text = self.text(text)
        if redacted_text == text:
            return value
        return redacted_text

    def _members(self, value: Mapping[Any, Any]) -> dict[object, object]:
        """The object with redacted keys and values; keys that become equal are numbered: ` (2)`, `
        (3)`.
        """
        # The name in {"name": "API_KEY", "value": ...} says what the value is.
        value_names = {"value": value.get("name", value.get("key"))}
        numbers: Counter[object] = Counter()
        redacted: dict[object, object] = {}
        for key, member in value.items():
            is_plain = key is None or isinstance(key, (bool, int, float))
            redacted_key = key if is_plain else self.text(str(key))
            name = redacted_key
            while name != key and (name in redacted or name in value):
                numbers[redacted_key] += 1
                name = f"{redacted_key} ({numbers[redacted_key] + 1})"
            redacted[name] = self._member(value_names.get(key) or key, member)
        return redacted

    def _member(self, key: object, value: object) -> object:
        """The value of a key; a random-looking text under a secret's name is a secret by its
        name.
        """
        if not isinstance(key, str) or not isinstance(value, str) or len(value) > MAX_NAMED:
            return self.value(value)
        head = as_bytes(f'"{key}": "')
        value_bytes = as_bytes(value)
        value_end = len(head) + len(value_bytes)
        for match in self._find(f'{head}{value_bytes}"', None):
            if match.start == len(head) and match.end == value_end:
                self._count(match.kind)
                return placeholder(match.kind, value_bytes)
        return self.text(value)

    def _redact(self, text: str, *, learns: bool = False) -> str:
        has_known_values = self._secrets_by_form or self._learned
        matches = self._find(text, self._find_known_values if has_known_values else None)
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
        """Remember the value if only a name on a line above it tells that it is one."""
        if match.kind not in scan.BY_NAME:
            return
        form = text[match.start : match.end]
        if "\n" in form or len(form) < MIN_VALUE:
            return
        lead = text[max(0, match.start - MAX_LEAD) : match.start]
        if scan.has_name(lead.rpartition("\n")[2]):
            return
        with self._lock:
            if len(self._learned) < MAX_LEARNED:
                self._learned[form] = match

    def _find_known_values(self, text: str) -> Iterator[SecretMatch]:
        """Where a known value stands, in whatever form."""
        yield from self._environment_values(text)
        for form, match in tuple(self._learned.items()):
            for start in _places(text, form):
                yield SecretMatch(match.kind, start, start + len(form), match.value)

    def _environment_values(self, text: str) -> Iterator[SecretMatch]:
        """Where a value of the environment stands, or the beginning of one that was truncated."""
        for form, secret in self._secrets_by_form.items():
            for start in _places(text, form):
                yield SecretMatch("environment", start, start + len(form), secret)
        for beginning, secret in self._secrets_by_beginning.items():
            for start in _places(text, beginning):
                end = start + len(beginning)
                while end - start < len(secret) and text[end : end + 1] == secret[end - start]:
                    end += 1
                if scan.CUTS.match(text, end):
                    yield SecretMatch("environment", start, end, secret)

    def _count(self, kind: str) -> None:
        with self._lock:
            self._counts[kind] += 1
        if self._parent is not None:
            self._parent._count(kind)


def placeholder(kind: str, secret: str) -> str:
    """What is written for a secret of that kind."""
    distinction = secret if len(secret) >= MIN_TAGGED else ""
    text = f"vibe-gate redaction\0{kind}\0{distinction}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    return f"[redacted:{kind}:{digest.hexdigest()[:8]}]"


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
    """The same object if there are no matches."""
    parts: list[str] = []
    position = 0
    for match in matches:
        mark = placeholder(match.kind, match.value)
        is_utf_16 = not text[match.start + 1 : match.end : 2].strip("\0")
        if is_utf_16:
            mark = "\0".join(mark)
            if (match.end - match.start) % 2 == 0:
                mark += "\0"
        parts += (text[position : match.start], mark)
        position = match.end
    if not parts:
        return text
    parts.append(text[position:])
    return "".join(parts)


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
    if secret.isprintable():
        return raw
    return raw.strip(_NOT_ASCII)


def _plain(secret: str) -> str:
    return _raw(secret).decode("latin-1")


def _forms(secret: str) -> set[str]:
    """How a secret may be written, but for what `decoding` undoes."""
    raw = _raw(secret)
    plain = _plain(secret)
    forms = {plain, html.escape(plain, quote=False), html.escape(plain)}
    for text in (json.dumps(plain, ensure_ascii=False), json.dumps(secret, ensure_ascii=True)):
        unquoted = text[1:-1]
        forms.update((unquoted, unquoted.replace("/", "\\/")))
    percent = quote(raw, safe="")
    forms.update((percent, percent.replace("%20", "+"), quote(raw, safe="/")))
    forms.update((raw.hex(), raw.hex().upper()))
    forms.add(base64.b32encode(raw).decode("ascii").rstrip("="))
    for encoding in ("utf-16-le", "utf-16-be"):
        forms.add(plain.encode(encoding).decode("latin-1"))
    for shift in range(3):
        forms |= _base64_core(raw, shift)
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
    values: list[str] = []
    for name, value in environ.items():
        if _is_secret(name, value):
            values += _parts(value)
    for value in environ.values():
        password = _password_in_address(value)
        values += (password, unquote(password))
    return [value for value in dict.fromkeys(values) if _is_rare(value)]


def _password_in_address(value: str) -> str:
    """A secret of its own, whatever the variable's name: a client's error names it. "" if there is
    none, or a word.
    """
    address = _ADDRESS.search(value)
    if address is None or _is_word(address["password"], value):
        return ""
    return address["password"]


def _is_secret(name: str, value: str) -> bool:
    if _NOT_SECRET_NAME.match(name):
        return False
    if _SECRET_NAME.search(name):
        return True
    if not _NEAR_SECRET_NAME.search(name) or "://" in value:
        return False
    return scan.looks_random(value)


def _is_rare(value: str) -> bool:
    if len(value) < MIN_VALUE or len(set(value)) <= 2:
        return False
    return value.lower() not in _TRIVIAL and not _PLAIN_PATH.fullmatch(value)


def _is_word(password: str, address: str) -> bool:
    """Whether the password is too common to be searched for: `postgres://postgres:postgres@db/`, or
    one plain word.
    """
    if address.lower().count(password.lower()) > 1:
        return True
    return password.isalpha() and password.islower() and len(password) < 12


def _parts(value: str) -> list[str]:
    """A value without what it is wrapped in, and the secrets that are part of it."""
    plain = value.strip()
    while len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'`":
        plain = plain[1:-1].strip()
    if scheme := _SCHEME.fullmatch(plain):
        plain = scheme["rest"].strip()
    parts = [plain, *_coded(plain), *_leaves(plain), *_settings(plain), *_lines(plain)]
    return list(dict.fromkeys(parts))[:MAX_PARTS]


def _coded(value: str) -> Iterator[str]:
    """The password in base64 of `user:password`, as in a header, and what a document holds that is
    kept in base64.
    """
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{12,100000}={0,2}", value):
        return
    with contextlib.suppress(ValueError):
        digits = value.rstrip("=").replace("-", "+").replace("_", "/")
        padding = "=" * (-len(digits) % 4)
        decoded = base64.b64decode(digits + padding, validate=True).decode("utf-8")
        password = decoded.partition(":")[2]
        if password and decoded.isprintable():
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
        name, member = waiting.pop()
        if isinstance(member, dict):
            waiting += member.items()
        elif isinstance(member, list):
            waiting += [(name, child) for child in member]
        elif isinstance(member, str):
            if _is_secret_leaf(name, member):
                yield member.strip()
            yield from _lines(member)


def _is_secret_leaf(name: str, text: str) -> bool:
    """Whether a text of a document is secret by its name, or looks random."""
    if "://" in text:
        return False
    if _SECRET_NAME.search(name) and not _NOT_SECRET_NAME.match(name):
        return True
    return len(text) >= MIN_LEAF and "@" not in text and scan.looks_random(text)


def _settings(value: str) -> Iterator[str]:
    """What a connection string or a file of settings gives to secrets' names, and secrets of known
    formats.
    """
    is_json = value[:1] in ("{", "[")
    if is_json or not ("=" in value or ":" in value):
        return
    for setting in _SETTING.finditer(value):
        name = setting["name"]
        if _SECRET_NAME.search(name) or name.lower() in ("sig", "password", "pwd"):
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
