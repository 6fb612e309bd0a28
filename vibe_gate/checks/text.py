"""Checks of what added lines say."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain

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
from vibe_gate.domain import escape, paths
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
        found = escape.find(text, file_start=number == 1)
        hits += len(found)
        more = " or more" if len(found) == escape.MAX_FOUND else more
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


def _kinds(found: list[escape.Invisible]) -> str:
    names = Counter(f"{each.kind} {each.name}" for each in found)
    return listed((f"{name} ({count})" for name, count in names.most_common()), most=2)
