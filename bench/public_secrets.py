"""How many secrets of public lists are found, in texts made from the lists' own regular
expressions; false lines.

    python bench/public_secrets.py --list PATH [--list PATH ...] [--all] [--show]
    python bench/public_secrets.py --history CLONE [--show]

A PATH is a list in gitleaks' TOML, or a folder with the sources of detect-secrets
(`detect_secrets/plugins`), of secretlint (`packages/@secretlint`) or of trufflehog
(`pkg/detectors`). No list is part of this repository. Each expression gives four values, always the
same ones, and each stands in another everyday text: an assignment, JSON, a file of environment
variables, a command's option or an address' parameter. What an expression finds by a word beside it
(`adafruit`) is named by that word; everything else has a name that says nothing, so its form must
do. Left out, and counted, are rules of what is no secret: names of hosts, users, files; ids and
public keys unless `--all`.

Of a clone, the lines that its newest commits added are searched as `no-secrets` does it, each block
for itself: how many of 10,000 lines have a secret, notices not counted, and the processor time.
"""

# ruff: noqa: E501 - expressions stand in rows

from __future__ import annotations

import argparse
import ast
import re
import string
import subprocess
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log2
from pathlib import Path
from random import Random
from re import _constants, _parser  # what hypothesis reads, too: the grammar is Python's own
from typing import Any

from vibe_gate import secrets

TEXTS = 4
DRAWS = 60
"""Values that are drawn until one has the entropy that its list asks for."""
GOAL = 0.97
COMMITS = 1_000
FALSE_GOAL = 5
"""Lines of 10,000."""
NEUTRAL = "setting"

_NO_SECRET = re.compile(
    r"(?i)(?<!web)(?:url|uri|domain|host(?:name)?|e-?mail|user_?name|uname|user|region|endpoint|instance|portal|org\w*|path"
    r"|project\w*|tenant|subdomain|invalid|placeholder\w*|false\w*|format|name|server|account\w*|regex|value|keyword|onmicrosoft|connstrpart|subject|projid|roleid|apiid|app|geterror|connectionstring|iad|placeholderpassword)(?:s|_?id)?_?(?:pat|pattern)?\d?$"
)
_IDENTIFIER = re.compile(
    r"(?i)(?:[-_]|\b|app|client|key|access|org|customer|tenant)s?id(?:[-_]?pat|pattern)?\d?$|pub(?:lic|lishable)?[-_]?(?:api[-_]?)?key|^pubpat|^subpat"
)
_ROLES = ("secret", "token", "password", "id", "key")


@dataclass(frozen=True)
class Form:
    """An expression of a list: values are its first group.

    `name`: what it wants beside them, "" for nothing; `fallback`: what names a value without
    letters of its own.
    """

    rule: str
    expression: str
    name: str = ""
    fallback: str = ""
    group: int = 0
    entropy: float = 0.0
    is_identifier: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", type=Path, action="append", default=[], dest="lists")
    parser.add_argument(
        "--history", type=Path, action="append", default=[], dest="clones", metavar="CLONE"
    )
    parser.add_argument("--all", action="store_true", help="ids and public keys, too")
    parser.add_argument("--show", action="store_true", help="show the texts that were missed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for path in arguments.lists:
        report(path, with_ids=arguments.all, show=arguments.show)
    for clone in arguments.clones:
        report_history(clone, show=arguments.show)
    if not arguments.lists and not arguments.clones:
        print("No list and no clone is given: see --help.")


def report(path: Path, *, with_ids: bool, show: bool) -> None:
    forms, made, missed = list(forms_of(path)), Counter[str](), Counter[str]()
    unmade = [form.rule for form in forms if not texts(form)]
    for form in forms:
        if form.is_identifier and not with_ids:
            continue
        for text, start, end in texts(form):
            made[form.rule] += 1
            if not any(
                match.start < end and start < match.end for match in secrets.find_secrets(text)
            ):
                missed[form.rule] += 1
                print(
                    *[f"    {form.rule}: {text!r}"[:230]] if show else [],
                    sep="\n",
                    end="\n" if show else "",
                )
    found, total = made.total() - missed.total(), made.total()
    never = sorted(rule for rule in missed if missed[rule] == made[rule])
    ids = sum(form.is_identifier for form in forms) * (not with_ids)
    print(
        f"{path}: {found} of {total} found, {found / max(1, total):.1%}; goal {GOAL:.0%}: {'yes' if found >= GOAL * total else 'NO'}"
    )
    print(
        f"  {len(made)} rules, {len(made) - len(missed)} wholly, {len(never)} never: {', '.join(never) or '-'}"
    )
    print(
        f"  left out: {ids} of ids and public keys; no text could be made of {len(unmade)}: {', '.join(unmade) or '-'}"
    )


def report_history(clone: Path, *, show: bool) -> None:
    blocks = list(added_blocks(clone))
    began = time.process_time()
    found = [
        (text, match)
        for text in blocks
        for match in secrets.find_secrets(text)
        if not match.harmless
    ]
    spent = time.process_time() - began
    lines = sum(text.count("\n") for text in blocks)
    share = 10_000 * len(found) / max(1, lines)
    reached = "yes" if share <= FALSE_GOAL else "NO"
    print(
        f"{clone}: {len(found)} of {lines:,} lines, {share:.1f} of 10,000; goal {FALSE_GOAL}: {reached}; {spent:.2f} s"
    )
    for text, match in found if show else ():
        print(f"    {match.kind}: {text[max(0, match.start - 40) : match.end]!r}"[:230])


def added_blocks(clone: Path) -> Iterator[str]:
    command = [
        "git",
        "-C",
        clone,
        "log",
        "-p",
        "-U0",
        "--no-merges",
        "--no-ext-diff",
        f"-{COMMITS}",
        "--format=",
    ]
    said = subprocess.run(command, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )
    for block in re.findall(r"(?m)^@@ .*\n((?:[-+].*\n)+)", said):
        yield "".join(line[1:] for line in block.splitlines(keepends=True) if line.startswith("+"))


# Lists


def forms_of(path: Path) -> Iterator[Form]:
    if path.suffix == ".toml":
        yield from of_gitleaks(tomllib.loads(path.read_text("utf-8"))["rules"])
        return
    for source in sorted(path.rglob("*.*")):
        read = {".go": of_trufflehog, ".py": of_detect_secrets, ".ts": of_secretlint}.get(
            source.suffix
        )
        if read and "test" not in f"{source.relative_to(path)}".lower():
            yield from read(source, source.read_text("utf-8"))


def of_gitleaks(rules: Iterable[dict]) -> Iterator[Form]:
    for rule in rules:
        if "regex" in rule:
            beside = "(?:=|>|:{1,3}=" in rule["regex"]
            is_id = _IDENTIFIER.search(rule["id"]) is not None
            name = rule["id"] if beside else ""
            if beside and not any(
                word.lower() in name.replace("-", "") for word in rule["keywords"]
            ):
                name = (
                    rule["keywords"][0]
                    if "__" in rule["keywords"][0]
                    else f"{rule['keywords'][0]}-{name.split('-', 1)[1]}"
                )
            yield Form(
                rule["id"],
                rule["regex"],
                name,
                rule["id"],
                rule.get("secretGroup", 0),
                rule.get("entropy", 0),
                is_id,
            )


_GO = re.compile(
    r"(?m)^\s*(?:var\s+)?(?P<var>\w+|\"[^\"\n]+\":|)\s*(?::?=)?\s*regexp\.MustCompile\("
    r"(?:detectors\.PrefixRegex\(\[\]string\{(?P<words>[^}]*)\}\)\s*\+\s*)?(?:`(?P<regex>[^`\n]+)`|common\.BuildRegex\((?P<build>[^)]*)\))"
)
_GO_SETS = {
    "common.AlphaNumPattern": "0-9a-zA-Z",
    "common.HexPattern": "0-9a-f",
    "common.RegexPattern": "0-9a-z",
}


def of_trufflehog(path: Path, source: str) -> Iterator[Form]:
    for match in _GO.finditer(source):
        var = re.sub(r"\W", "", match["var"]) or "key"
        if _NO_SECRET.search(var) or source[: match.start("var")].endswith("//"):
            continue
        regex = match["regex"]
        if regex is None:
            characters, more, length = (
                part.strip().strip('"') for part in match["build"].split(",")
            )
            regex = rf"\b([{_GO_SETS.get(characters, characters)}{more}]{{{length}}})\b"
        word = re.findall(r'"((?:\\"|[^"])*)"', match["words"] or "")
        role = next((role for role in _ROLES if role in var.lower()), "key")
        name = ""
        if word:
            plain = (
                re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"\.\{[^}]*\}", "", word[0]))
                .strip("-")
                .lower()
            )
            name = plain if role in plain else f"{plain}-{role}"
        folder = (
            path.parent.parent.name if re.fullmatch(r"v\d", path.parent.name) else path.parent.name
        )
        yield Form(
            f"{folder}.{var}",
            regex,
            name,
            f"{folder}-{role}",
            is_identifier=_IDENTIFIER.search(var) is not None,
        )


def of_detect_secrets(path: Path, source: str) -> Iterator[Form]:
    """Expressions of `re.compile`, and the arguments of `build_assignment_regex`, with the strings
    that they are made of.
    """
    known: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Assign)
            and (text := folded(node.value, known))
            and isinstance(node.targets[0], ast.Name)
        ):
            known[node.targets[0].id] = text
    for node in ast.walk(ast.parse(source)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called.endswith("build_assignment_regex"):
            parts = {each.arg: folded(each.value, known) for each in node.keywords}
            if (
                _IDENTIFIER.search(parts["secret_keyword_regex"])
                or "account" in parts["secret_keyword_regex"]
            ):
                continue
            words = [
                Maker("").text(_parser.parse(parts[part]))
                for part in ("prefix_regex", "secret_keyword_regex")
            ]
            name = "-".join(filter(None, words))
            yield Form(
                f"{path.stem}:{node.lineno}",
                parts["secret_regex"],
                name,
                is_identifier=name.endswith("id"),
            )
        elif (
            called == "re.compile"
            and path.stem != "ip_public"
            and "opt_basic_auth" not in ast.unparse(node)
            and (text := folded(node.args[0], known))
            and len(text) > 6
        ):
            yield Form(f"{path.stem}:{node.lineno}", text, fallback=f"{path.stem}-key")


def folded(node: ast.AST, known: dict[str, str]) -> str:
    """The text of a constant, a name, a sum or a `format` of these; "" for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = folded(node.left, known), folded(node.right, known)
        return "".join(sides) if all(sides) else ""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".format"):
        values = {each.arg or "": folded(each.value, known) for each in node.keywords}
        text = folded(node.func.value, known)
        return text.format(**values) if text and values and all(values.values()) else ""
    return ""


_TS = re.compile(
    r"(?P<var>\w*(?:[Pp]att?ern|PATTERN|PATTEN|Patten))\b[^=\n]*=\s*(?:/(?P<regex>(?:\\.|\[(?:\\.|[^\]])*\]|[^/\n])+)/[a-z]*|new RegExp\(\s*String\.raw`(?P<raw>(?:\$\{\w+\}|[^`])+)`)"
)
_TS_CONSTANT = re.compile(r"const (\w+) = (?:String\.raw)?([\"`'])(.*?)\2;")
_TS_NO_RULES = (
    "example",
    "internal-test",
    "filter-comments",
    "no-homedir",
    "no-dotenv",
    "secretlint-rule-pattern",
    "preset",
)


def of_secretlint(path: Path, source: str) -> Iterator[Form]:
    rule = path.parent.parent.name
    if (
        path.parent.name != "src"
        or not rule.startswith("secretlint-rule-")
        or any(word in rule for word in _TS_NO_RULES)
    ):
        return
    constants = {name: text.replace("\\\\", "\\") for name, _, text in _TS_CONSTANT.findall(source)}
    for match in _TS.finditer(source):
        regex = match["regex"] or re.sub(
            r"\$\{(\w+)\}", lambda part: constants.get(part[1], ""), match["raw"]
        )
        told = re.split(r"\W", source[: match.start()].rsplit("report", 1)[-1], maxsplit=1)[0]
        name = f"{rule.removeprefix('secretlint-rule-')}{told and ':'}{told}:{match['var']}"
        is_id = (
            bool(re.search(r"(?i)(?:account|tenant|client)", regex))
            and "secret" not in regex.lower()
        )
        fallback = rule.removeprefix("secretlint-rule-")
        yield Form(name, regex.replace("\\/", "/"), fallback=fallback, is_identifier=is_id)


# Texts


def python_of(expression: str) -> str:
    """The expression in Python's grammar: flags in the middle, POSIX classes and Unicode's are
    other grammars'.
    """
    for theirs, ours in (
        ("[[:alnum:]]", "[0-9A-Za-z]"),
        ("[[:alpha:]]", "[A-Za-z]"),
        (r"\z", r"\Z"),
        (r"\p{L}", "A-Za-z"),
        ("(?<", "(?P<"),
    ):
        expression = expression.replace(theirs, ours)
    expression = expression.replace("(?P<!", "(?<!").replace("(?P<=", "(?<=")
    expression = re.sub(
        r"\[(?:\\.|[^\]\\])*\]",
        lambda each: re.sub(r"(?<=\w-\w)-(?=\w)", r"\\-", each[0]),
        expression,
    )
    while (flag := re.search(r"\(\?([ims]+)\)", expression)) is not None:
        depth, end = 0, len(expression)
        for at in range(flag.end(), len(expression)):
            depth += (
                (expression[at] == "(") - (expression[at] == ")")
                if expression[at - 1] != "\\"
                else 0
            )
            if depth < 0:
                end = at
                break
        expression = f"{expression[: flag.start()]}(?{flag[1]}:{expression[flag.end() : end]}){expression[end:]}"
    return expression


class Maker:
    """Texts that an expression matches. `.` alone is a full stop; many of it, and what is not in a
    set, are letters.

    Repetitions without an end, and of blanks, are short, so that the texts look like those that
    people write.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.drew = False

    def text(self, tokens: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._part(name, value) for name, value in tokens)

    def _part(self, name: Any, value: Any) -> str:
        if name is _constants.LITERAL:
            return chr(value)
        if name is _constants.ANY:
            return "."
        if name in (_constants.IN, _constants.NOT_LITERAL, _constants.CATEGORY):
            self.drew = self.drew or " " not in members(name, value)
            return self._random.choice(members(name, value))
        if name is _constants.BRANCH:
            return self.text(self._random.choice(value[1]))
        if name is _constants.SUBPATTERN:
            return self.text(value[-1])
        if name in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
            return self._repeated(*value)
        return ""  # positions and what is looked for around them

    def _repeated(self, least: int, most: int, tokens: Any) -> str:
        inner = list(tokens)
        is_blank = (
            inner[0][0] is _constants.IN
            and " " in members(*inner[0])
            and len(members(*inner[0])) < 8
        )
        if most == _constants.MAXREPEAT and not is_blank:
            least = max(least, 16)
        most = min(most, least + (1 if is_blank else 60))
        number = self._random.randint(least, most)
        if inner[0][0] is _constants.ANY and number:
            inner, self.drew = [(_constants.CATEGORY, _constants.CATEGORY_WORD)], True
        return "".join(self.text(inner) for _ in range(number))


WORD = string.ascii_letters + string.digits
_CATEGORIES = {"CATEGORY_DIGIT": string.digits, "CATEGORY_SPACE": " ", "CATEGORY_WORD": WORD + "_"}


def members(name: Any, value: Any) -> str:
    """The characters that one place of an expression may have."""
    if name is _constants.LITERAL:
        return chr(value)
    if name is _constants.CATEGORY:
        return _CATEGORIES.get(value.name, WORD)
    if name is _constants.NOT_LITERAL:
        return WORD.replace(chr(value), "")
    if name is _constants.RANGE:
        return "".join(map(chr, range(value[0], value[1] + 1)))
    if value[0][0] is _constants.NEGATE:
        without = "".join(members(*each) for each in value[1:])
        return "".join(char for char in WORD if char not in without) or " "
    return "".join(dict.fromkeys("".join(members(*each) for each in value)))


def texts(form: Form) -> list[tuple[str, int, int]]:
    """Texts with one secret each, and where it begins and ends.

    [] if the expression is none that Python reads, or only tells where a secret begins.
    """
    try:
        source = python_of(form.expression)
        pattern = re.compile(source, re.ASCII)
    except re.error:
        return []
    made = Maker(form.rule)
    drawn = [value for number in range(TEXTS) if (value := draw(made, source, pattern, form))]
    if not made.drew or all(map(str.isdigit, drawn)):
        return []
    return [written(value, form, number) for number, value in enumerate(drawn)]


def draw(made: Maker, source: str, pattern: re.Pattern[str], form: Form) -> str:
    """A secret; "" if none could be drawn."""
    best = ""
    for _ in range(DRAWS):
        match = pattern.search(made.text(_parser.parse(source, re.ASCII)))
        if match is None:
            continue
        password = match.groupdict().get("password", "-")
        value = match[form.group] if form.group else next(filter(None, match.groups()), "")
        if len(value) < 8 or (not form.name and len(match[0]) > len(value) + 2):
            value = match[0]  # what stands around it is what it is known by
        value = value.strip(" \n\r;,<=:")
        if value[:1] in "'\"`" and (value[:1] == value[-1:] or value.count(value[0]) == 1):
            value = value.strip("'\"`")
        if password and len(value) >= 4:
            best = value
            if bits(best) >= form.entropy:
                return best
    return best


def bits(value: str) -> float:
    return -sum(count / len(value) * log2(count / len(value)) for count in Counter(value).values())


def written(value: str, form: Form, number: int) -> tuple[str, int, int]:
    """The value in the text of that number. What has no letters of its own is named after its
    rule.
    """
    fixed = re.findall(
        r"[A-Za-z0-9_-]{3,}|://|Q~|@",
        re.sub(r"\[(?:\\.|[^\]])*\]|\{[0-9,]+\}|\\[bBdDwWsSzZAn]|\(\?\w+", " ", form.expression),
    )
    name = form.name or (
        ""
        if any(part in value or part.lower() in value.lower() for part in fixed)
        else form.fallback
    )
    words = re.findall("[a-z0-9]+", name.lower()) or [NEUTRAL]
    snake, camel = (
        re.sub(r"\W", "_", name.lower()) or NEUTRAL,
        words[0] + "".join(map(str.title, words[1:])),
    )
    last = f"run --{'-'.join(words)} " if name else f"https://api.internal/v1/items?{snake}="
    before, after = (
        (f'{snake} = "', '"\n'),
        (f'{{"{camel}": "', '"}'),
        (f"{snake.upper()}=", "\n"),
        (last, "\n"),
    )[number]
    return before + value + after, len(before), len(before) + len(value)


if __name__ == "__main__":
    main()
