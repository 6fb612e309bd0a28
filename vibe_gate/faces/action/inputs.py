"""The Action's inputs: VIBE_GATE_INPUT_<NAME>, empty means the default."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from vibe_gate.domain import paths
from vibe_gate.errors import UsageError

PREFIX = "VIBE_GATE_INPUT_"

WORKFLOWS = ("review",)
"""What `workflow` may name: the built-in one."""

Mode = Literal["block", "warn"]
Kept = Literal["summary", "full", "none"]

RUBRIC = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
"""A rubric's id."""

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow asks for. `max_cost_usd` None: the gate's own; `sarif` "": not written."""

    api_key: str = ""
    token: str = ""
    base: str = ""
    rubrics: tuple[str, ...] = ()
    workflow: str = ""
    mode: Mode = "block"
    max_cost_usd: float | None = None
    comment: bool = True
    check_run: bool = True
    review_comments: bool = False
    sarif: str = ""
    artifact: Kept = "summary"

    def __repr__(self) -> str:
        """Without the secrets: a traceback may show it."""
        return f"Inputs(mode={self.mode!r}, base={self.base!r}, rubrics={self.rubrics!r})"

    @property
    def name(self) -> str:
        """The rubrics that this job was narrowed to: its name among other jobs at the same pull request."""
        narrowed = ",".join(self.rubrics)
        return narrowed if self.workflow in ("", "review") else f"{self.workflow} {narrowed}".strip()


def inputs_of(environ: Mapping[str, str]) -> Inputs:
    """The inputs. UsageError with one sentence for each that is wrong."""
    reading = _Reading(environ)
    made = Inputs(
        api_key=reading.text("ANTHROPIC_API_KEY"),
        token=reading.text("GITHUB_TOKEN") or environ.get("GITHUB_TOKEN", "").strip(),
        base=reading.revision("BASE"),
        rubrics=reading.rubrics("RUBRICS"),
        workflow=reading.choice("WORKFLOW", ("", *WORKFLOWS)),
        mode=cast(Mode, reading.choice("MODE", ("block", "warn"))),
        max_cost_usd=reading.amount("MAX_COST_USD"),
        comment=reading.flag("COMMENT", default=True),
        check_run=reading.flag("CHECK_RUN", default=True),
        review_comments=reading.flag("REVIEW_COMMENTS", default=False),
        sarif=reading.place("SARIF"),
        artifact=cast(Kept, reading.choice("ARTIFACT", ("summary", "full", "none"))),
    )
    if reading.mistakes:
        raise UsageError("\n".join(reading.mistakes))
    return made


class _Reading:
    """The inputs one by one; `mistakes` are sentences about those that are wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[str] = []

    def text(self, name: str) -> str:
        return self._environ.get(PREFIX + name, "").strip()

    def flag(self, name: str, *, default: bool) -> bool:
        said = self.text(name).lower()
        if said and said not in _BOOLEANS:
            self._wrong(name, "write true or false")
        return _BOOLEANS.get(said, default)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        said = self.text(name)
        if said and said not in known:
            self._wrong(name, f"write {' or '.join(filter(None, known))}")
        return said if said in known else known[0]

    def amount(self, name: str) -> float | None:
        said = self.text(name)
        if not said:
            return None
        try:
            value = float(said)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            self._wrong(name, "write a number of US dollars above zero, as 0.50")
            return None
        return value

    def rubrics(self, name: str) -> tuple[str, ...]:
        wanted = tuple(dict.fromkeys(re.split(r"[,\s]+", self.text(name))))
        wanted = tuple(filter(None, wanted))
        if any(not RUBRIC.match(one) or ".." in one for one in wanted):
            self._wrong(name, "write ids of rubrics (lower-case letters, digits, '.', '_', '-'), by comma or space")
            return ()
        return wanted

    def revision(self, name: str) -> str:
        said = self.text(name)
        if said.startswith("-") or ".." in said or not paths.is_plain(said) or len(said) > 255:
            self._wrong(name, "write one branch, tag or commit")
            return ""
        return said

    def place(self, name: str) -> str:
        said = self.text(name)
        if said and (said.endswith("/") or "\0" in said or not paths.is_plain(said)):
            self._wrong(name, "write the path of a file, as results.sarif")
            return ""
        return said

    def _wrong(self, name: str, what: str) -> None:
        # Never the value itself of what may be a secret put into the wrong place.
        shown = paths.quote(self.text(name)[:80])
        self.mistakes.append(f"The input {name.lower().replace('_', '-')} is {shown}; {what}.")
