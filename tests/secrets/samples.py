"""Samples of secrets, made at run time from templates, so that no scanner finds one in a file of ours."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from pathlib import Path

from redaction_set import HEX, UPPER, URL64, WORD, Lot

HERE = Path(__file__).parent
NEWLINE = "⏎"
_ALPHABETS = {
    "word": WORD, "url": URL64, "hex": HEX, "base32": UPPER, "digit": string.digits, "letter": string.ascii_letters,
    "base64": WORD + "+/",
}  # fmt: skip


def filled(template: str) -> str:
    """`ghp_{word:36}` with 36 random letters and digits, the same in every run; `{plain:text}` is the text."""
    lot = Lot(template)

    def run(match: re.Match[str]) -> str:
        return match[2] if match[1] == "plain" else lot.run(_ALPHABETS[match[1]], int(match[2]))

    return re.sub(r"\{(\w+):(\w+)\}", run, template)


@dataclass(frozen=True)
class Sample:
    """A text with one secret of a kind."""

    kind: str
    text: str
    secret: str


def planted() -> list[Sample]:
    """The samples of `planted.txt`."""
    told = [line.split("\t", 1) for line in lines("planted.txt")]
    parts = [(kind, re.split("[«»]", filled(template))) for kind, template in told]
    return [Sample(kind, "".join(texts), texts[1]) for kind, texts in parts]


def lines(name: str) -> list[str]:
    """The texts of a data file of this folder."""
    told = (HERE / name).read_text("utf-8").splitlines()
    return [line.replace(NEWLINE, "\n") for line in told if line and not line.startswith("# ")]
