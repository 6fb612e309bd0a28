"""Known values: what of an environment is secret, by its variables' names and by what their values look like.

A value is not always the secret itself: it comes with a line's end, in quotes, behind
`Bearer `, in a JSON document, in an address or in many lines, of which a text may show
one. `known_values` gives the secrets in all of these.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from vibe_gate.domain.expressions import expression
from vibe_gate.secrets import scan

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
    r"(?:\A|_)(?:AUTH|PASS|PW|JWT|SAS|OTP|TOTP)_|SIGNATURE\Z|(?:\A|_)(?:SEED|BASIC|OTP)\Z", re.IGNORECASE
)
"""A name of which much is harmless (AUTH_MODE, JWT_ISSUER): there a value counts that looks random."""
_HOOK_NAME = expression(r"(?:\A|_)HOOK(?:_UR[IL])?\Z", re.IGNORECASE)
"""An address that whoever knows it may post to; without an address it names a hook of git."""
_NOT_SECRET_NAME = expression(
    r"\A(?:PWD|OLDPWD|SSH_AUTH_SOCK|XAUTHORITY|KEYBOARD\w*|\w*_(?:FILE|PATH|DIR|HOME|SOCK|NAME|URL_PREFIX)|COLORTERM|"
    r"\w*KEYRING\w*|\w*MAX_\w*TOKENS|TOKENIZERS_PARALLELISM)\Z",
    re.IGNORECASE,
)
_PLAIN_PATH = expression(r"[~.]?/[a-z0-9._/-]*|/\S+\.[a-z]{1,5}")
_ADDRESS = expression(r"://[^\s/:@]{0,200}:(?P<password>[^\s/]{1,1000})@")
_TRIVIAL = frozenset(
    {"password", "changeme", "disabled", "required", "optional", "undefined", "localhost", "anonymous"}
)
_SCHEME = expression(r"(?:[A-Za-z-]{1,40}:\s{0,9})?(?:Bearer|Basic|Token|ApiKey)\s{1,9}(?P<rest>\S.*)", re.IGNORECASE)
_SETTING = expression(r"(?:\A|[;&?,\s])(?:export )?(?P<name>[A-Za-z_][\w.-]{0,60}) ?= ?(?P<value>[^\s;&]{8,4000})")


class KnownValue(NamedTuple):
    """A secret value; a line of one is looked for as it stands only."""

    text: str
    is_line: bool = False


def known_values(environ: Mapping[str, str]) -> list[KnownValue]:
    """The secrets of an environment, each once."""
    held = [part for name, value in environ.items() if _is_secret(name, value) for part in _parts(value)]
    # The password in an address is a secret of its own, as a client's error names it, whatever the variable's name.
    passwords = [
        found["password"]
        for value in environ.values()
        if (found := _ADDRESS.search(value)) and not _is_word(found["password"], value)
    ]
    held += [KnownValue(text) for password in passwords for text in (password, unquote(password))]
    whole = dict.fromkeys(part.text for part in held if not part.is_line)
    lines = dict.fromkeys(part.text for part in held if part.is_line and part.text not in whole)
    every = [KnownValue(text) for text in whole] + [KnownValue(text, is_line=True) for text in lines]
    return [part for part in every if _is_rare(part.text)]


def _is_secret(name: str, value: str) -> bool:
    if _NOT_SECRET_NAME.match(name):
        return False
    near = _NEAR_SECRET_NAME.search(name) and "://" not in value and scan.looks_random(value)
    is_hook = "://" in value and _HOOK_NAME.search(name)
    return bool(near or is_hook or _SECRET_NAME.search(name))


def _is_rare(value: str) -> bool:
    return (
        len(value) >= MIN_VALUE
        and value.lower() not in _TRIVIAL
        and len(set(value)) > 2
        and not _PLAIN_PATH.fullmatch(value)
    )


def _is_word(password: str, address: str) -> bool:
    """Whether it stands in every text for other reasons: `postgres://postgres:postgres@db/`, or one plain word."""
    return address.lower().count(password.lower()) > 1 or (
        password.isalpha() and password.islower() and len(password) < 12
    )


def _parts(value: str) -> list[KnownValue]:
    """A value without what it is wrapped in, and the secrets that are part of it."""
    plain = value.strip()
    while len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'`":
        plain = plain[1:-1].strip()
    if scheme := _SCHEME.fullmatch(plain):
        plain = scheme["rest"].strip()
    found = dict.fromkeys([KnownValue(plain), *_coded(plain), *_leaves(plain), *_settings(plain), *_lines(plain)])
    return list(found)[:MAX_PARTS]


def _coded(value: str) -> Iterator[KnownValue]:
    """The password in base64 of `user:password`, as in a header, and what a document holds that is kept in base64."""
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{12,100000}={0,2}", value):
        return
    with contextlib.suppress(ValueError):
        padded = value.rstrip("=").replace("-", "+").replace("_", "/")
        told = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True).decode("utf-8")
        if told.isprintable() and (password := told.partition(":")[2]):
            yield KnownValue(password)
        yield from _leaves(told.strip())


def _leaves(value: str) -> Iterator[KnownValue]:
    """Texts of a JSON document: those under a secret's name, and those that look random."""
    if value[:1] not in ("{", "["):
        return
    try:
        waiting: list[tuple[str, object]] = [("", json.loads(value))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.items()
        elif isinstance(one, list):
            waiting += [(name, item) for item in one]
        elif isinstance(one, str):
            is_random = len(one) >= MIN_LEAF and "://" not in one and "@" not in one and scan.looks_random(one)
            if is_random or (_SECRET_NAME.search(name) and not _NOT_SECRET_NAME.match(name) and "://" not in one):
                yield KnownValue(one.strip())
            yield from _lines(one)


def _settings(value: str) -> Iterator[KnownValue]:
    """What a connection string or a file of settings gives to secrets' names, and secrets of known formats."""
    if value[:1] in ("{", "[") or not ({*value} & {*"=:"}):
        return
    for setting in _SETTING.finditer(value):
        if _SECRET_NAME.search(setting["name"]) or setting["name"].lower() in ("sig", "password", "pwd"):
            yield KnownValue(setting["value"].strip("\"'"))
    for match in scan.find(value):
        if match.kind != "url-password":  # of which `known_values` knows more
            yield KnownValue(match.value.strip())


def _lines(value: str) -> Iterator[KnownValue]:
    """Lines that nobody else writes: a text may show one of them, or have something between them."""
    lines = value.split("\n")
    if len(lines) < 2:
        return
    for line in map(str.strip, lines):
        if len(line) >= MIN_LINE and not line.startswith("-----") and scan.looks_random(line):
            yield KnownValue(line, is_line=True)
