"""Checks of what added lines say."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice

from pydantic import Field, StrictBool

from vibe_gate import secrets
from vibe_gate.checks.contract import (
    MAX_SCANNED_LINE,
    MAX_SHOWN_QUOTE,
    AddedBlock,
    CheckInput,
    CheckResult,
    Excluding,
    Files,
    RegularExpression,
    added_blocks,
    added_lines,
    failed,
    finding,
    passed,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted, expression, listed
from vibe_gate.domain.verdict import MAX_FINDINGS, Finding

AROUND_SECRET = 200
"""Characters shown before a secret, and after its start: a line may be a minified program full of them."""


class SecretOptions(Excluding):
    """`allow`: regular expressions; a value that one of them matches is no secret (test keys)."""

    allow: tuple[RegularExpression, ...] = ()


class PatternOptions(Excluding):
    """`pattern`: a regular expression searched in every added line; `message` replaces ours."""

    pattern: RegularExpression = Field(min_length=1)
    ignore_case: StrictBool = False
    message: str = ""


def no_secrets(input: CheckInput, options: SecretOptions, files: Files) -> CheckResult:
    """No known secret format and no random-looking assignment among the added lines."""
    allowed = [re.compile(source) for source in options.allow]
    kinds: Counter[str] = Counter()
    findings: list[Finding] = []
    for block in added_blocks(files):
        matches = secrets.find(block.text)
        for match in matches:
            value = block.text[match.start : match.end]
            if any(pattern.search(value[:MAX_SCANNED_LINE]) for pattern in allowed):
                continue
            kinds[match.kind] += 1
            if len(findings) < MAX_FINDINGS:
                findings.append(_secret_finding(input, block, match, matches))
    if not findings:
        return passed("No secret in added lines." + _not_shown(files))
    total = counted(kinds.total(), "secret")
    return failed(input, f"{total} added: {listed(f'{kind} ({n})' for kind, n in kinds.most_common())}.", findings)


_ACRONYMS = {"aws": "AWS", "github": "GitHub", "gitlab": "GitLab", "jwt": "JWT", "openai": "OpenAI", "url": "URL"}


def _named(kind: str) -> str:
    """A kind of secret for people: "GitHub token"."""
    words = [_ACRONYMS.get(word, word) for word in kind.split("-")]
    return words[0][:1].upper() + " ".join(words)[1:]


def _secret_finding(
    input: CheckInput, block: AddedBlock, match: secrets.SecretMatch, others: list[secrets.SecretMatch]
) -> Finding:
    line_start, line_end = block.line_span(match.start)
    start = max(line_start, match.start - AROUND_SECRET)
    line = block.text[start : min(line_end, match.start + AROUND_SECRET)]
    value = block.text[match.start : match.end]
    shown = secrets.mask(value)
    said = f" ({shown})" if shown[:1].isalnum() else ""  # of the dashes above a private key nobody learns anything
    first = bisect_right(others, start, key=lambda other: other.end)
    last = bisect_left(others, start + len(line), key=lambda other: other.start)
    near = others[first:last]
    made = finding(
        input,
        f"{_named(match.kind)}{said}. Revoke it and load it from the environment.",
        path=block.file.shown_path, line=block.line_at(match.start), quote=_masked(line, start, near),
    )  # fmt: skip
    # Another value is another finding, although both are shown masked. Fingerprints are published: 16 bits do not help
    # to guess a random value, of which 65,536 times fewer are still far too many.
    return made.model_copy(update={"fingerprint": sha256(value.encode()).hexdigest()[:4]})


def _masked(line: str, start: int, matches: list[secrets.SecretMatch]) -> str:
    out: list[str] = []
    position = 0
    for match in matches:
        first, last = max(0, match.start - start), min(len(line), match.end - start)
        out += [line[position:first], secrets.mask(line[first:last])]
        position = last
    return "".join([*out, line[position:]])


def _not_shown(files: tuple[FileDiff, ...]) -> str:
    large = [file for file in files if file.binary and file.after is not None and not file.hunks and file.after.size]
    return f" {counted(len(large), 'large binary file')} not scanned." if large else ""


_MARKER = expression(r"(?:<{7}|>{7}|\|{7})(?: |\Z)")


def no_conflict_markers(input: CheckInput, options: Excluding, files: Files) -> CheckResult:
    """No line that a merge left behind. `=======` counts only beside another marker: it also underlines headings."""
    lines = [line for line in added_lines(files) if line.text[:7] in {"<<<<<<<", ">>>>>>>", "|||||||", "======="}]
    marked = {line.file.path for line in lines if _MARKER.match(line.text)}
    hits = [
        line
        for line in lines
        if _MARKER.match(line.text) or (line.file.path in marked and line.text.rstrip() == "=======")
    ]
    if not hits:
        return passed("No conflict marker in added lines.")
    findings = [
        finding(
            input, f"Conflict marker ({line.text[:7]}) left behind.",
            path=line.file.shown_path, line=line.number, quote=line.text,
        )
        for line in hits[: MAX_FINDINGS]
    ]  # fmt: skip
    return failed(input, f"{counted(len(hits), 'conflict marker')} in {counted(len(marked), 'file')}.", findings)


def forbidden_pattern(input: CheckInput, options: PatternOptions, files: Files) -> CheckResult:
    """No added line that the pattern matches."""
    pattern = re.compile(options.pattern, re.IGNORECASE if options.ignore_case else 0)
    message = options.message or f"Matches the forbidden pattern {options.pattern}"
    hits = long = 0
    touched: set[str] = set()
    findings: list[Finding] = []
    for line in added_lines(files):
        long += len(line.text) > MAX_SCANNED_LINE
        match = pattern.search(line.text[:MAX_SCANNED_LINE])
        if match is None:
            continue
        hits += 1
        touched.add(line.file.path)
        if len(findings) < MAX_FINDINGS:
            quote = line.text if match.start() < MAX_SHOWN_QUOTE else line.text[match.start() :]
            findings.append(finding(input, message, path=line.file.shown_path, line=line.number, quote=quote))
    cut = f" {counted(long, 'line')} scanned only up to {MAX_SCANNED_LINE:,} characters." if long else ""
    if not hits and long:
        # Not a pass: what the pattern forbids may stand where nobody looked.
        return CheckResult("abstain", f"No added line matches as far as it was scanned.{cut}")
    if not hits:
        return passed("No added line matches the forbidden pattern.")
    return failed(
        input,
        f"{options.pattern[:100]} matches {counted(hits, 'added line')} in {counted(len(touched), 'file')}.{cut}",
        findings,
    )


def no_invisible_unicode(input: CheckInput, options: Excluding, files: Files) -> CheckResult:
    """No character that hides or reorders text, in added lines or in the names of files."""
    hits = 0
    more = ""
    findings: list[Finding] = []
    for file, number, text in chain(_new_names(files), _text_lines(files)):
        found = invisible(text, file_start=number == 1)
        hits += len(found)
        more = " or more" if len(found) == MAX_FOUND else more
        if not found or len(findings) == MAX_FINDINGS:
            continue
        quote = text if found[0].position < MAX_SHOWN_QUOTE else text[found[0].position :]
        message = f"{'Contains' if number else 'The name contains'} {_kinds(found)}."
        findings.append(finding(input, message, path=file.shown_path, line=number, quote=quote))
    if not hits:
        return passed("No invisible character in added lines or file names.")
    touched = len({found.path for found in findings})
    return failed(input, f"{counted(hits, 'invisible character')}{more} in {counted(touched, 'file')}.", findings)


def _new_names(files: tuple[FileDiff, ...]) -> Iterator[tuple[FileDiff, int, str]]:
    for file in files:
        if file.after is not None and (file.before is None or file.old_path is not None):
            yield file, 0, paths.encode(file.path).decode("utf-8", "replace")


def _text_lines(files: tuple[FileDiff, ...]) -> Iterator[tuple[FileDiff, int, str]]:
    """The added lines of text; of a binary file those that are text, for a NUL beside them must not hide them."""
    for line in added_lines(files):
        if not (line.file.binary and "\ufffd" in line.text):
            yield line.file, line.number, line.text


def _kinds(found: list[Invisible]) -> str:
    names = Counter(f"{each.kind} {each.name}" for each in found)
    return listed((f"{name} ({count})" for name, count in names.most_common()), most=2)


# Characters that hide or reorder text

MAX_FOUND = 1000
"""Characters found in one text: megabytes of them, each with its name, would fill the memory and tell nothing more."""

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_SEPARATORS = "\u2028\u2029"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e007f"

_SUSPECT = expression(f"[{_BIDI}{_ZERO_WIDTH}{_SEPARATORS}{_SELECTORS}{_TAGS}]")
_KINDS = (
    ("bidirectional control", expression(f"[{_BIDI}]")),
    ("tag character", expression(f"[{_TAGS}]")),
    ("variation selector", expression(f"[{_SELECTORS}]")),
    ("line separator", expression(f"[{_SEPARATORS}]")),
)
_FLAG = expression(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""England, Scotland, Wales: the only tag sequences in use."""

_JOINERS = "\u200c\u200d"
_SKIN = "\U0001f3fb-\U0001f3ff"
_PICTOGRAPH = expression(
    f"[\u00a9\u00ae\u203c\u2049\u2100-\u214f\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff{_SKIN}]"
)
_JOINING = expression("[\u0600-\u109f\u1780-\u18af\u1a20-\u1cff\ua800-\uabff\U00010a00-\U00011fff]")


@dataclass(frozen=True, slots=True)
class Invisible:
    """One character at `position`; `name` reads "U+202E RIGHT-TO-LEFT OVERRIDE"."""

    position: int
    kind: str
    name: str


def invisible(text: str, *, file_start: bool = False) -> list[Invisible]:
    """The characters of `text` that hide or reorder, MAX_FOUND at most. `file_start`: a byte order mark is allowed."""
    if text.isascii():
        return []
    return list(islice(_suspects(text, file_start), MAX_FOUND))


def _suspects(text: str, file_start: bool) -> Iterator[Invisible]:
    flags = [match.span() for match in _FLAG.finditer(text)] if "\U0001f3f4" in text else []
    for match in _SUSPECT.finditer(text):
        position, char = match.start(), match[0]
        if (char == "\ufeff" and position == 0 and file_start) or _is_legitimate(text, position, flags):
            continue
        kind = next((name for name, pattern in _KINDS if pattern.match(char)), "zero-width character")
        yield Invisible(position, kind, f"U+{ord(char):04X} {unicodedata.name(char, 'unassigned')}")


def _is_legitimate(text: str, position: int, flags: list[tuple[int, int]]) -> bool:
    char = text[position]
    before = text[position - 1] if position else ""
    after = text[position + 1 : position + 2]
    if char in _JOINERS:
        return _joins(text, position, before, after)
    if re.match(f"[{_SELECTORS}]", char):
        return _selects(char, before)
    if re.match(f"[{_TAGS}]", char):
        while flags and flags[0][1] <= position:
            flags.pop(0)
        return bool(flags) and flags[0][0] < position
    return "\u180b" <= char <= "\u180f" and "\u1820" <= before <= "\u18aa"


def _joins(text: str, position: int, before: str, after: str) -> bool:
    """Whether a joiner or non-joiner stands between characters that it can join."""
    if before and after and _JOINING.match(before) and (_JOINING.match(after) or after in " \n"):
        return True
    if before == "\ufe0f" and position >= 2:
        before = text[position - 2]
    return bool(
        text[position] == "\u200d" and before and after and _PICTOGRAPH.match(before) and _PICTOGRAPH.match(after)
    )


def _selects(selector: str, before: str) -> bool:
    """Whether one selector stands after a character that has variants; a second in a row never does."""
    if not before:
        return False
    if selector >= "\U000e0100":
        return unicodedata.category(before) == "Lo" and "CJK" in unicodedata.name(before, "")
    if selector in "\ufe0e\ufe0f":
        return before in "0123456789#*" or _PICTOGRAPH.match(before) is not None
    return unicodedata.category(before) in {"Lo", "Sm"}
