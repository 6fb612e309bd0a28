"""How a secret may be carried: every way in which programs write a text, with the part that stands
for the secret.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

from samples import Sample

Carried = tuple[str, str]
"""The whole text, and the part of it that stands for the secret."""


def _in(text: str, coded: str, before: str = "") -> Carried:
    return before + text, coded


def _plain(p: Sample) -> Carried:
    return p.before + p.secret + p.after, p.secret


def _around(encode: Callable[[str], str], p: Sample, head: str = "", tail: str = "") -> Carried:
    coded = encode(p.secret)
    return head + encode(p.before) + coded + encode(p.after) + tail, coded


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _unicode(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def _percent(text: str) -> str:
    return "".join(f"%{ord(char):02X}" for char in text)


def _coloured(p: Sample) -> Carried:
    coded = _two_colours(p.secret)
    return f"{p.before}\x1b[31m{coded}\x1b[0m{p.after}", coded


def _two_colours(text: str) -> str:
    return text[: len(text) // 2] + "\x1b[0m\x1b[1;32m" + text[len(text) // 2 :]


def _base64(p: Sample, encode: Callable[[bytes], bytes], group: int, width: int) -> Carried:
    full = encode((p.before + p.secret + p.after + "and more of it\n").encode()).decode()
    first, last = -(-len(p.before) // group), (len(p.before) + len(p.secret)) // group
    return f"data: {full}\n", full[first * width : last * width]


def _lines(p: Sample, before: str, after: str) -> Carried:
    """Each line with something before and behind it, and a line around them."""
    between = f"{after}\n{before}"
    carried = _around(lambda text: text.rstrip("\n").replace("\n", between), p)
    return f"{before}one{between}{carried[0]}{between}two{after}\n", carried[1]


def _documented(carried: Carried) -> Carried:
    return json.dumps({"data": carried[0]}), carried[1]


def _wrapped(
    p: Sample,
    between: str = "\n",
    *,
    encode: Callable[[bytes], bytes] = base64.b64encode,
    line: int = 76,
) -> Carried:
    full = encode((p.before + p.secret + p.after + "and more of it\n").encode()).decode()
    group, width = {base64.b64encode: (3, 4), base64.b32encode: (5, 8)}.get(encode, (1, 2))
    first, last = (
        -(-len(p.before) // group) * width,
        (len(p.before) + len(p.secret)) // group * width,
    )

    def lines(start: int, end: int) -> str:
        return "".join(
            full[i] + (between if i % line == line - 1 else "") for i in range(start, end)
        )

    return f"data:{between}{lines(0, len(full))}\n", lines(first, last)


def _marked(mark: str, carried: Carried) -> Carried:
    """As a hunk shows it: right behind the mark of the line."""
    text, coded = carried
    return f"@@ -1 +1 @@\n{mark}" + text.removeprefix("data: "), coded


CARRIERS: dict[str, Callable[[Sample], Carried]] = {
    "plain": _plain,
    "JSON": lambda p: _around(_json, p, '{"text": "', '", "n": 1}'),
    "JSON, escaped throughout": lambda p: _around(_unicode, p, '{"text": "', '"}'),
    "JSON, slashes escaped": lambda p: _around(lambda text: _json(text).replace("/", "\\/"), p, '{"text": "', '"}'),
    "JSON in JSON": lambda p: _around(lambda text: _json(_json(text)), p, '{"a": "{\\"b\\": \\"', '\\"}"}'),
    "JSON in JSON in JSON": lambda p: _around(lambda text: _json(_json(_json(text))), p, '{"a": "x ', ' y"}'),
    "escaped JSON in JSON": lambda p: _around(lambda text: _json(_unicode(text)), p, '{"a": "', '"}'),
    "one escape": lambda p: _in(p.before + _unicode(p.secret[0]) + p.secret[1:] + p.after, p.secret[1:]),
    "URL": lambda p: _around(lambda text: quote(text, safe=""), p, "GET /?q=", "&x=1\n"),
    "URL, throughout": lambda p: _around(_percent, p, "GET /?q=", "&x=1\n"),
    "URL, twice": lambda p: _around(lambda text: quote(_percent(text), safe=""), p, "GET /?q=", "&x=1\n"),
    "URL in JSON": lambda p: _around(lambda text: _json(quote(text, safe="")), p, '{"url": "/?q=', '"}'),
    "colour": _coloured,
    "colour in JSON": lambda p: _around(
        _json, Sample(p.kind, p.before + "\x1b[31m", _two_colours(p.secret), "\x1b[0m" + p.after), '{"out": "', '"}'
    ),
    "base64": lambda p: _base64(p, base64.b64encode, 3, 4),
    "base64url": lambda p: _base64(p, base64.urlsafe_b64encode, 3, 4),
    "base64, wrapped": _wrapped,
    "base64 in JSON": lambda p: _documented(_base64(p, base64.b64encode, 3, 4)),
    "base64 in a patch": lambda p: _marked("+", _base64(p, base64.b64encode, 3, 4)),
    "base64 taken away by a patch": lambda p: _marked("-", _base64(p, base64.b64encode, 3, 4)),
    "base64 in a patch of a merge": lambda p: _marked("++", _base64(p, base64.b64encode, 3, 4)),
    "base64 in a patch in JSON": lambda p: _documented(_marked("+", _base64(p, base64.b64encode, 3, 4))),
    "base64url in a path": lambda p: _marked("/a/b/", _base64(p, base64.urlsafe_b64encode, 3, 4)),
    "base64, wrapped in a patch": lambda p: _wrapped(p, "\n+"),
    "base64, wrapped at 64 in a patch": lambda p: _wrapped(p, "\n-", line=64),
    "base64, wrapped at 60 in a patch": lambda p: _wrapped(p, "\n+", line=60),
    "records of a log": lambda p: _lines(p, '{"log": "', '\\n", "stream": "stdout"}'),
    "lines of a script": lambda p: _lines(p, 'echo "', '" >> file'),
    "list in HTML": lambda p: _lines(p, "  <li>", "</li>"),
    "patch": lambda p: _around(lambda text: text.replace("\n", "\n+"), p, "@@ -0,0 +1 @@\n+", "\n"),
    "numbered lines": lambda p: _around(lambda text: text.replace("\n", "\n   12→"), p, "   11→"),
    "commented lines": lambda p: _around(lambda text: text.replace("\n", "\n# "), p, "# "),
}  # fmt: skip


def leaks(carried: Carried, redacted: str) -> bool:
    """Whether any ten characters of what stood for the secret are still there; thirty where six
    stand for one.
    """
    text, coded = carried
    around = text.replace(coded, "\0")
    size = 30 if coded.count("0x") > 9 else 10
    pieces = {coded[start : start + size] for start in range(max(1, len(coded) - size + 1))}
    return any(
        piece in redacted and piece not in around
        for piece in pieces
        if "KEY" not in piece and "-----" not in piece
    )
