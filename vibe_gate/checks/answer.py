"""How checks answer: findings at lines, reasons of one sentence, sizes held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pydantic import field_validator

from vibe_gate.checks.contract import CheckInput, CheckResult
from vibe_gate.domain import invisible, paths
from vibe_gate.domain.change import FileChange, Side
from vibe_gate.domain.evidence import MAX_REASON, CheckedEvidence
from vibe_gate.domain.model import Model
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding

_CUT = f" Only the first {MAX_FINDINGS:,} are findings here."

MAX_SHOWN_QUOTE = 400
"""Characters of a line kept as evidence: enough to recognise it, whatever its length."""

_AROUND_CUT = 10_000
"""Characters of a line behind the cut in which a secret that begins before it is looked for."""


class Excluding(Model):
    """Options of a check that looks at files. `exclude`: globs of files that it leaves alone."""

    exclude: tuple[str, ...] = ()

    @field_validator("exclude")
    @classmethod
    def _globs_are_not_empty(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        return non_empty_globs(globs)


def non_empty_globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    """`globs`, or ValueError where one is empty and so can never match."""
    if not all(globs):
        raise ValueError("a glob must not be empty")
    return globs


def selected(input: CheckInput, options: Excluding) -> tuple[FileChange, ...]:
    """The criterion's files without the excluded ones; a rename is left out only if both its names are excluded."""
    return tuple(file for file in input.files if not _is_excluded(file, options.exclude))


def _is_excluded(file: FileChange, globs: tuple[str, ...]) -> bool:
    names = {file.path, file.old_path or file.path}
    return bool(globs) and all(paths.matches(name, globs) for name in names)


def sentence(text: str, redact: Callable[[str], str] = str) -> str:
    """`text` on one line without secrets, safe to show, cut to the length of a reason."""
    safe = invisible.escape(" ".join(redact(text).split()))
    return safe if len(safe) <= MAX_REASON else safe[: MAX_REASON - 1] + "…"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """ "1 file", "2 files"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    everything = list(names)
    rest = len(everything) - most
    return ", ".join(everything[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def finding(
    input: CheckInput, message: str, *, path: str = "", line: int = 0, quote: str = "", side: Side = "after"
) -> Finding:
    """A finding at `line` of the file shown as `path` (0: the file, "": the change); a `quote` is evidence."""
    evidence: tuple[CheckedEvidence, ...] = ()
    if quote and line:
        if len(quote) > MAX_SHOWN_QUOTE:
            quote = input.redact(quote[: MAX_SHOWN_QUOTE + _AROUND_CUT])[:MAX_SHOWN_QUOTE]
        held = CheckedEvidence(path=path, line=line, end_line=line, quote=quote, side=side, standing="holds")
        evidence = (held,)
    return Finding(
        path=path, line=line, end_line=line, level="failure" if input.criterion.must else "warning",
        criterion=input.criterion.id, message=sentence(message, input.redact), evidence=evidence,
    )  # fmt: skip


def failed(input: CheckInput, reason: str, findings: Sequence[Finding]) -> CheckResult:
    """Fail, with as many findings as are kept; the reason says where that may not be all."""
    said = sentence(reason, input.redact)
    if len(findings) < MAX_FINDINGS:
        return CheckResult("fail", said, tuple(findings))
    room = MAX_REASON - len(_CUT)
    said = said if len(said) <= room else said[: room - 1] + "…"
    return CheckResult("fail", said + _CUT, tuple(findings[:MAX_FINDINGS]))


def passed(reason: str) -> CheckResult:
    """Pass."""
    return CheckResult("pass", sentence(reason))


def not_applicable(reason: str) -> CheckResult:
    """Nothing here that the check is about."""
    return CheckResult("not_applicable", sentence(reason))


def nothing_selected(input: CheckInput) -> CheckResult:
    """No changed file that the check looks at."""
    if input.change.files:
        return not_applicable("No changed file matches the criterion's paths.")
    return not_applicable("The change has no files.")
