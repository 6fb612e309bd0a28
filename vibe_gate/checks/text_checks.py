"""Checks of what added lines say."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain, groupby, islice
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from vibe_gate import secrets
from vibe_gate.checks.allowed_secrets import NOT_HONOURED, Allowed
from vibe_gate.checks.check_contract import (
    MAX_FURTHER_LINES,
    MAX_SCANNED_LINE,
    AddedBlock,
    AddedLine,
    CheckInput,
    CheckResult,
    Excluding,
    Files,
    Hit,
    Hits,
    RegularExpression,
    added_blocks,
    added_lines,
    any_of,
    noted,
    objections,
)
from vibe_gate.domain import paths
from vibe_gate.domain.change import FileDiff
from vibe_gate.domain.escape import counted, expression, list_names
from vibe_gate.domain.verdict import MAX_FINDINGS

AROUND_SECRET = 200
"""Characters shown before a secret, and after its start: a line may be a minified program full of
them.
"""


class SecretOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `no-secrets`."""

    allow: Annotated[
        tuple[RegularExpression, ...],
        Meta(description="regular expressions of values that are fine, such as test keys"),
    ] = ()


class PatternOptions(Excluding, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `forbidden-pattern`."""

    pattern: Annotated[
        RegularExpression,
        Meta(
            min_length=1,
            description="a regular expression, searched in each added line; `(?i)` in front: in any case",
        ),
    ]
    message: Annotated[str, Meta(description="what to say of a line that matches")] = ""


def no_secrets(input: CheckInput, options: SecretOptions, files: Files) -> CheckResult:
    """No known secret format and no random-looking assignment among the added lines."""
    notices = Hits()
    allowed = Allowed(input)
    hits = _secrets(files, any_of(options.allow), allowed)
    result = objections(input, _without_notices(hits, notices), files, "secret")
    result = noted(input, result, notices)
    return replace(result, reason=result.reason + allowed.sentences())


def _without_notices(hits: Iterable[Hit], notices: Hits) -> Iterator[Hit]:
    """The hits that fail the check; the others are added to `notices`."""
    for hit in hits:
        if hit.is_notice:
            notices.add(hit)
        else:
            yield hit


def _secrets(files: Files, is_allowed: Callable[[str], bool], allowed: Allowed) -> Iterator[Hit]:
    """Every secret at each of its places; hits of one secret are of one group."""
    place_counts: Counter[str] = Counter()
    secret_counts: Counter[bool] = Counter()
    shown_groups: set[str] = set()
    for block in added_blocks(files):
        text = block.text
        matches = _secrets_of(block, text)
        for match, number, line in _with_lines(block, text, matches):
            if is_allowed(text[match.start : match.end][:MAX_SCANNED_LINE]):
                continue
            if allowed.allows(block.file, number, match.value, line):
                continue
            is_notice = bool(match.harmless)
            group = sha256(text[match.start : match.end].encode("utf-8", "replace")).hexdigest()
            place_counts[group] += 1
            is_first_place = place_counts[group] == 1
            if is_first_place:
                secret_counts[is_notice] += 1
            if is_first_place and secret_counts[is_notice] <= MAX_FINDINGS:
                shown_groups.add(group)
            if group not in shown_groups:
                # Its quote would cost more than finding it did.
                if is_first_place:
                    yield Hit("", block.file.shown_path, is_notice=is_notice)
                continue
            if place_counts[group] > MAX_FURTHER_LINES:
                continue
            hit = replace(_secret(block, number, text, match, matches), group=group)
            is_brought = allowed.brought(block.file, number)
            yield replace(hit, message=hit.message + NOT_HONOURED) if is_brought else hit


def _secrets_of(block: AddedBlock, text: str) -> list[secrets.SecretMatch]:
    """The secrets of a block, without the digests of packages in a lock file."""
    path = block.file.path
    matches = []
    for match in secrets.find_secrets(text):
        is_by_name = match.kind in secrets.BY_NAME
        if is_by_name and secrets.is_package_digest(path, text, match.start, match.end):
            continue
        matches.append(match)
    return matches


def _with_lines(
    block: AddedBlock, text: str, matches: list[secrets.SecretMatch]
) -> Iterator[tuple[secrets.SecretMatch, int, str]]:
    """Each match with the number of its line, and that line as far as an expression of a list sees
    it.
    """
    number = block.first
    line = _start_of_line(text, 0)
    position = 0
    for match in matches:
        line_start = text.rfind("\n", position, match.start) + 1
        if line_start:
            number += text.count("\n", position, line_start)
            line = _start_of_line(text, line_start)
        position = match.start
        yield match, number, line


def _start_of_line(text: str, start: int) -> str:
    return text[start : start + MAX_SCANNED_LINE].split("\n", 1)[0]


_HARMLESS = {
    "test key": "a test key. It opens no real account; load it from the environment all the same.",
    "documented example": "an example of the provider's documentation. It opens nothing.",
    "identifier": "an identifier. It opens nothing without its secret.",
}
_SPELLED = {
    "aws": "AWS",
    "github": "GitHub",
    "gitlab": "GitLab",
    "jwt": "JWT",
    "npm": "npm",
    "nuget": "NuGet",
    "openai": "OpenAI",
    "openrouter": "OpenRouter",
    "pypi": "PyPI",
    "url": "URL",
}


def _spell_kind(kind: str) -> str:
    """A kind of secret for people: "GitHub token"."""
    first_word, *words = kind.split("-")
    spelled_words = [_SPELLED.get(word, word) for word in words]
    return " ".join([_SPELLED.get(first_word, first_word.capitalize()), *spelled_words])


def _secret(
    block: AddedBlock,
    number: int,
    text: str,
    match: secrets.SecretMatch,
    block_matches: list[secrets.SecretMatch],
) -> Hit:
    """The finding of one secret; `block_matches` are all of the block, which its quote must not show
    either.
    """
    value = text[match.start : match.end]
    line_end = text.find("\n", match.start)
    if line_end < 0:
        line_end = len(text)
    start = max(text.rfind("\n", 0, match.start) + 1, match.start - AROUND_SECRET)
    line = text[start : min(line_end, match.start + AROUND_SECRET)]
    first = bisect_right(block_matches, start, key=lambda other: other.end)
    last = bisect_left(block_matches, start + len(line), key=lambda other: other.start)
    # Another value is another finding, although both are shown masked. Fingerprints are published:
    # 16 bits do not help to guess a random value, of which 65,536 times fewer are still far too
    # many.
    fingerprint = sha256(value.encode()).hexdigest()[:4]
    return Hit(
        _secret_message(match, value),
        block.file.shown_path,
        number,
        _masked(line, start, block_matches[first:last]),
        fingerprint=fingerprint,
        is_notice=bool(match.harmless),
    )


def _secret_message(match: secrets.SecretMatch, value: str) -> str:
    preview = secrets.preview(match.kind, value)
    # The first line of a private key is quoted as evidence already.
    shown_value = f" ({preview})" if preview[:1].isalnum() else ""
    advice = ". Revoke it and load it from the environment."
    if match.harmless:
        advice = f": {_HARMLESS[match.harmless]}"
    return f"{_spell_kind(match.kind)}{shown_value}{advice}"


def _masked(line: str, start: int, matches: list[secrets.SecretMatch]) -> str:
    """The line, which begins at `start` of the text, with its secrets masked."""
    pieces: list[str] = []
    position = 0
    for match in matches:
        first = max(0, match.start - start)
        last = min(len(line), match.end - start)
        pieces.append(line[position:first])
        pieces.append(secrets.mask(line[first:last]))
        position = last
    pieces.append(line[position:])
    return "".join(pieces)


_MARKS = ("<<<<<<<", ">>>>>>>", "|||||||", "=======")
_MARKER = expression(r"(?:<{7}|>{7}|\|{7})(?: |\Z)")


def no_conflict_markers(input: CheckInput, options: Excluding, files: Files) -> Iterator[Hit]:
    """No line that a merge left behind. `=======` counts only beside another marker: it also
    underlines headings.
    """
    lines = (line for line in added_lines(files, _may_mark) if line.text.startswith(_MARKS))
    for _, group in groupby(lines, lambda line: line.file.path):
        candidates = list(group)
        if not any(_MARKER.match(line.text) for line in candidates):
            continue
        markers: list[AddedLine] = []
        for line in candidates:
            if _MARKER.match(line.text) or line.text.rstrip() == "=======":
                markers.append(line)
        for line, is_stray in _strays(markers):
            message = "Conflict markers left behind."
            if len(markers) == 1:
                message = f"Conflict marker ({line.text[:7]}) left behind."
            yield line.hit(message, 0, line.repaired(None) if is_stray else None)


def _may_mark(content: bytes) -> bool:
    return any(mark.encode() in content for mark in _MARKS)


def _strays(markers: list[AddedLine]) -> Iterator[tuple[AddedLine, bool]]:
    """Each marker of a file, and whether it lost its partners: of a whole conflict only people know
    the right side.
    """
    kinds = "".join(line.text[0] for line in markers)
    in_conflict: set[int] = set()
    for conflict in re.finditer(r"<\|?=>", kinds):
        in_conflict.update(range(*conflict.span()))
    for position, line in enumerate(markers):
        yield line, position not in in_conflict


def forbidden_pattern(input: CheckInput, options: PatternOptions, files: Files) -> CheckResult:
    """No added line that the pattern matches."""
    pattern = re.compile(options.pattern)
    message = options.message or f"Matches the forbidden pattern {options.pattern}"
    lines = list(added_lines(files))
    hits = []
    for line in lines:
        match = pattern.search(line.text[:MAX_SCANNED_LINE])
        if match:
            # Another pattern with the same message is another question.
            hits.append(replace(line.hit(message, match.start()), fingerprint=options.pattern))
    result = objections(input, hits, files, "forbidden line")
    long_lines = sum(len(line.text) > MAX_SCANNED_LINE for line in lines)
    if not long_lines:
        return result
    reason = f"{counted(long_lines, 'line')} scanned only up to {MAX_SCANNED_LINE:,} characters. {result.reason}"
    if result.outcome == "pass":  # what the pattern forbids may stand where nobody looked
        return replace(result, outcome="abstain", reason=reason)
    return replace(result, outcome="fail", reason=reason)


def no_invisible_unicode(input: CheckInput, options: Excluding, files: Files) -> Iterator[Hit]:
    """No character that hides or reorders text, in added lines or in the names of files."""
    for line in chain(_new_names(files), _text_lines(files)):
        characters = invisible(line.text, file_start=line.number == 1)
        if not characters:
            continue
        beginning = "Contains" if line.number else "The name contains"
        message = f"{beginning} {_count_kinds(characters)}."
        plain_text = _without_characters(line.text, characters)
        yield line.hit(message, characters[0].position, line.repaired(plain_text))


def _count_kinds(characters: Iterable[Invisible]) -> str:
    """The two kinds of which there are most, with their numbers."""
    counts = Counter(f"{character.kind} {character.name}" for character in characters)
    names = [f"{name} ({count})" for name, count in counts.most_common()]
    return list_names(names, most=2)


def _without_characters(text: str, characters: Iterable[Invisible]) -> str:
    positions = {character.position for character in characters}
    return "".join(char for at, char in enumerate(text) if at not in positions)


def _new_names(files: tuple[FileDiff, ...]) -> Iterator[AddedLine]:
    for file in files:
        is_new_name = file.before is None or file.old_path is not None
        if file.after is not None and is_new_name:
            yield AddedLine(file, 0, paths.encode(file.path).decode("utf-8", "replace"))


def _text_lines(files: tuple[FileDiff, ...]) -> Iterator[AddedLine]:
    """The added lines of text; of a binary file those that are text, for a NUL beside them must not
    hide them.
    """
    lines = added_lines(files, lambda content: not content.isascii())
    for line in lines:
        is_data = line.file.binary and "\ufffd" in line.text
        if not is_data:
            yield line


# Characters that hide or reorder text

MAX_FOUND = 1000
"""Characters found in one text: megabytes of them, each with its name, would fill the memory and
tell nothing more.
"""

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


class Invisible(Struct, frozen=True):
    """One character at `position`; `name` reads "U+202E RIGHT-TO-LEFT OVERRIDE"."""

    position: int
    kind: str
    name: str


def invisible(text: str, *, file_start: bool = False) -> list[Invisible]:
    """The characters of `text` that hide or reorder, MAX_FOUND at most. `file_start`: a byte order
    mark is allowed.
    """
    if text.isascii():
        return []
    return list(islice(_suspects(text, file_start), MAX_FOUND))


def _suspects(text: str, file_start: bool) -> Iterator[Invisible]:
    flags = []
    if "\U0001f3f4" in text:
        flags = [match.span() for match in _FLAG.finditer(text)]
    for match in _SUSPECT.finditer(text):
        position = match.start()
        char = match[0]
        is_byte_order_mark = char == "\ufeff" and position == 0 and file_start
        if is_byte_order_mark or _is_legitimate(text, position, flags):
            continue
        name = f"U+{ord(char):04X} {unicodedata.name(char, 'unassigned')}"
        yield Invisible(position, _kind_of(char), name)


def _kind_of(char: str) -> str:
    for name, pattern in _KINDS:
        if pattern.match(char):
            return name
    return "zero-width character"


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
    if not before or not after:
        return False
    if _JOINING.match(before) and (_JOINING.match(after) or after in " \n"):
        return True
    if text[position] != "\u200d":
        return False
    if before == "\ufe0f" and position >= 2:
        before = text[position - 2]
    return bool(_PICTOGRAPH.match(before) and _PICTOGRAPH.match(after))


def _selects(selector: str, before: str) -> bool:
    """Whether one selector stands after a character that has variants; a second in a row never
    does.
    """
    if not before:
        return False
    if selector >= "\U000e0100":
        return unicodedata.category(before) == "Lo" and "CJK" in unicodedata.name(before, "")
    if selector in "\ufe0e\ufe0f":
        return before in "0123456789#*" or _PICTOGRAPH.match(before) is not None
    return unicodedata.category(before) in {"Lo", "Sm"}
