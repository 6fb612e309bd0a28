"""Redaction: nothing secret is written to a bundle, a cassette or a forge.

Two nets. *Known values*: what the environment holds as a secret (`domain.known_values`), in the
forms in which it travels (plain, base64 at each alignment, hex, URL-encoded,
JSON-escaped). *Known formats*: `domain.secrets`.

A secret becomes `[redacted:KIND:TAG]` (see `domain.placeholders`). The same secret gives
the same placeholder in every run and on every machine, so redacted contents still
deduplicate and cassettes still match.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from vibe_gate.secrets import scan
from vibe_gate.secrets.known_values import MIN_VALUE, known_values
from vibe_gate.secrets.placeholders import as_bytes, as_bytes_seen, placeholder, replaced

_BETWEEN_HEX = (":", " ", "-", ",", ", ", ",0x", ", 0x", " 0x")
"""What stands between the bytes of a value that is written in hex: a dump's, a debugger's, a program's."""

_NOT_ASCII = bytes(range(0x80, 0x100))


class Redactor:
    """Replaces secrets; keeps every other character and byte as it is. Safe for several threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        every = known_values(environ)
        known = [value.text for value in every if not value.is_line]
        self._forms = {form: value.text for value in every if value.is_line for form in _near_forms(value.text)}
        self._forms |= {form: secret for secret in known for form in _forms(secret)}
        # What a limit has cut: half of a value and more, at the end or before the dots that say so.
        # What is left of one that is no text may be too short to be searched for, or nothing.
        plain = [_plain(secret) for secret in known]
        self._beginnings = {one[: max(MIN_VALUE, len(one) // 2)]: one for one in plain if len(one) >= MIN_VALUE}
        self._found: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._whole: Redactor | None = None

    @property
    def found(self) -> Mapping[str, int]:
        """How many secrets it has replaced, by kind."""
        return dict(self._found)

    def part(self) -> Redactor:
        """A redactor of the same secrets with a count of its own; what it finds counts here too."""
        part = Redactor({})
        part._forms, part._beginnings, part._whole = self._forms, self._beginnings, self
        return part

    @property
    def count(self) -> int:
        """How many secrets it has replaced."""
        return self._found.total()

    def text(self, text: str) -> str:
        """`text` with placeholders for its secrets."""
        return as_bytes_seen(text, self._redact)

    def data(self, data: bytes) -> bytes:
        """`data` with placeholders for its secrets; bytes of any encoding, the very object where nothing is found."""
        text = data.decode("latin-1")
        redacted = self._redact(text)
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
            named = _named(value)
            return _apart(
                [(key, self._key(key), self._member(named.get(key, key), item)) for key, item in value.items()]
            )
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        written = repr(value)
        redacted = self.text(written)
        return value if redacted == written else redacted

    def _key(self, key: object) -> object:
        return key if key is None or isinstance(key, (bool, int, float)) else self.text(str(key))

    def _member(self, key: object, item: object) -> object:
        """The value of a key; a random-looking text under a secret's name is a secret by its name."""
        if not (isinstance(key, str) and isinstance(item, str)) or len(item) > 500:
            return self.value(item)
        head, seen = as_bytes(f'"{key}": "'), as_bytes(item)
        for match in scan.find(head + seen + '"'):
            if match.start == len(head) and match.end == len(head) + len(seen):
                self._count(match.kind)
                return placeholder(match.kind, seen)
        return self.text(item)

    def _redact(self, text: str) -> str:
        found = scan.find(text, self._known if self._forms else None)
        for match in found:
            self._count(match.kind)
        return replaced(text, found)

    def _known(self, text: str) -> Iterator[scan.SecretMatch]:
        """Where a known value stands, in whatever form."""
        for form, secret in self._forms.items():
            start = text.find(form)
            while start >= 0:
                yield scan.SecretMatch("environment", start, start + len(form), secret)
                start = text.find(form, start + len(form))
        for begin, secret in self._beginnings.items():
            start = text.find(begin)
            while start >= 0:
                end = start + len(begin)
                rest = secret[len(begin) :]
                more = next((n for n in range(len(rest)) if text[end + n : end + n + 1] != rest[n]), len(rest))
                if scan.CUTS.match(text, end + more):
                    yield scan.SecretMatch("environment", start, end + more, secret)
                start = text.find(begin, end)

    def _count(self, kind: str) -> None:
        with self._lock:
            self._found[kind] += 1
        if self._whole is not None:
            self._whole._count(kind)


def _named(value: Mapping[Any, Any]) -> dict[str, str]:
    """{"value": NAME} of a pair such as {"name": "API_KEY", "value": ...}: the name says what the value is."""
    name = value.get("name", value.get("key"))
    return {"value": name} if isinstance(name, str) else {}


def _apart(members: list[tuple[object, object, object]]) -> dict[object, object]:
    """A mapping from (key, key as it is written, value); keys that would become one get a number: ` (2)`, ` (3)`."""
    taken = {key for was, key, _ in members if was == key}  # these keep their names
    numbers: Counter[object] = Counter()
    apart: dict[object, object] = {}
    for was, key, item in members:
        name = key
        while was != key and name in taken:
            numbers[key] += 1
            name = f"{key} ({numbers[key] + 1})"
        taken.add(name)
        apart[name] = item
    return apart


def _raw(secret: str) -> bytes:
    try:
        raw = secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # not from an environment's bytes, but from JSON in it
        raw = secret.encode("utf-8", "surrogatepass")
    # A value that is no UTF-8 must not match half a character of a text that is.
    return raw if secret.isprintable() else raw.strip(_NOT_ASCII)


def _plain(secret: str) -> str:
    return _raw(secret).decode("latin-1")


def _near_forms(secret: str) -> set[str]:
    """How a secret is written by those who know nothing of it: as it stands, in JSON, in an address."""
    plain = _plain(secret)
    escaped = {json.dumps(plain, ensure_ascii=False)[1:-1], json.dumps(secret, ensure_ascii=True)[1:-1]}
    forms = {plain, quote(_raw(secret), safe=""), *escaped, *(text.replace("/", "\\/") for text in escaped)}
    return {form for form in forms if len(form) >= MIN_VALUE}


def _marked_up(plain: str) -> set[str]:
    """How HTML has it: what undoes entities takes a backslash of the value's own for an escape, too."""
    text, attribute = html.escape(plain, quote=False), html.escape(plain)
    numbered = attribute.replace("&quot;", "&#34;")
    return {text, attribute, numbered.replace("&#x27;", "&#39;"), attribute.replace("&#x27;", "&#039;")}


def _forms(secret: str) -> set[str]:
    """How a secret may be written, each as UTF-8 seen as Latin-1."""
    raw = _raw(secret)
    plain = _plain(secret)
    percent = quote(raw, safe="")
    forms = {
        raw.hex(),
        raw.hex().upper(),
        base64.b32encode(raw).decode("ascii").rstrip("="),
        quote(raw, safe="/"),
        quote(raw, safe="").replace("%20", "+"),
    }
    forms |= {plain.encode(wide).decode("latin-1") for wide in ("utf-16-le", "utf-16-be")}
    forms |= {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), percent)}
    forms |= _near_forms(secret) | _marked_up(plain)
    forms |= {raw.hex(" ").replace(" ", between) for between in _BETWEEN_HEX}
    forms |= {raw.hex(" ").upper().replace(" ", between) for between in _BETWEEN_HEX}
    for shift in range(3):
        forms |= _base64_core(raw, shift)
    return {form for form in forms if len(form) >= MIN_VALUE}


def _base64_core(raw: bytes, shift: int) -> set[str]:
    """The characters of base64 that depend on `raw` alone, when it starts `shift` bytes into a group of three.

    Where nothing follows `raw` the last one and the padding do, too.
    """
    padded = base64.b64encode(bytes(shift) + raw).decode("ascii")
    encoded = padded.rstrip("=")
    first = (0, 2, 3)[shift]
    last = len(encoded) - ((len(raw) + shift) % 3 != 0)
    cores = {encoded[first:last], encoded[first:], padded[first:]}
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}
