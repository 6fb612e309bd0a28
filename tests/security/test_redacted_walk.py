"""No secret is written: planted wherever a review reads, in every carrier, and looked for in
everything it leaves.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from answers import HANDLER, answer_to, answers, fails
from command import vibe_gate
from repos import GATE, RUBRIC, SWALLOWS, Repo
from scripted_messages_api import ApiError, MessagesRequest, Text, Thinking, ToolUse, Turn
from walks import run_review
from wire import answer, answering

from vibe_gate.domain.document import to_json
from vibe_gate.domain.model_wire import Wire
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import CriterionResult

pytestmark = pytest.mark.slow

TOKEN = "gh" + "p_" + "Zq8vW3nB5mK7xL2cR9tY4uI6oP1aS0dF3gH5"
HELD = "vY7-kq4zPm9.wLt3xRb"
"""The value of a variable of the environment; of no known format."""
PEM = (
    "-----BEGIN "
    + "PRIVATE KEY-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 4
    + "-----END PRIVATE KEY-----"
)
BOTH = (TOKEN, HELD)
LONG = "hR3-wq8mZt5xKc2vPb7nLd4sGf9jYa6eUi1oQ0-T"
"""Such a value too, which a limit cuts before its half."""

CHECK = """
[[criterion]]
id = "says-nothing"
kind = "check"
command = ["sh", "-c", "cat planted.txt; cat planted.txt >&2; exit 1"]
"""


def carriers(secret: str) -> list[str]:
    """Texts that carry a secret, each of which must be gone afterwards."""
    raw = secret.encode()
    return [
        secret,
        base64.b64encode(b"key: " + raw + b" and so on").decode(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(b"k=" + raw + b" and so on").decode(),
        "".join(f"%{byte:02X}" for byte in raw),
        quote("".join(f"%{byte:02x}" for byte in raw)),
        "".join(f"\\u{ord(char):04x}" for char in secret),
        f"\\u{ord(secret[0]):04x}" + secret[1:],
        f"{secret[:8]}\x1b[0m{secret[8:]}",
        json.dumps(json.dumps({"a": f'"{secret}"\n'})),
    ]


PLANTED = (
    "\n".join(f"line {number}: {form} ;" for s in BOTH for number, form in enumerate(carriers(s)))
    + f"\n{PEM}\n"
)


def traces(secret: str) -> Iterator[bytes]:
    """What must stand nowhere: either half of the secret, in every coding."""
    raw = secret.encode()
    forms = [
        secret,
        raw.hex(),
        "".join(f"%{byte:02x}" for byte in raw),
        "".join(f"\\u{byte:04x}" for byte in raw),
    ]
    forms += [
        base64.b64encode(bytes(shift) + raw).decode()[4 * bool(shift) : -4] for shift in range(3)
    ]
    for form in forms:
        yield form[: len(form) // 2].encode()
        yield form[len(form) // 2 :].encode()


def written_contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        yield path, str(path).encode()
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            yield from (
                (path, section) for section in unpack_patch(data) if path.suffix == ".patch"
            )
            yield path, gzip.decompress(data) if path.suffix == ".gz" else data


def unpack_patch(patch: bytes) -> Iterator[bytes]:
    """The contents of the binary sections of a patch."""
    for section in re.findall(rb"^(?:literal|delta) [0-9]+\n((?:.+\n)+)", patch, re.MULTILINE):
        if b"[redacted" not in section:
            lines = [line for line in section.splitlines() if line]
            packed = b"".join(
                base64.b85decode(line[1:])[: line[0] - (64 if line[0] <= 90 else 70)]
                for line in lines
            )
            yield zlib.decompress(packed).replace(b"\0", b"")


def assert_clean(folder: Path) -> None:
    marks = [mark for secret in BOTH for mark in traces(secret)] + [
        b"BAQEFAASCBKcwggSj",
        LONG[:12].encode(),
    ]
    leaks = [
        (path, mark)
        for path, data in written_contents(folder)
        for mark in marks
        if mark.lower() in data.lower()
    ]
    assert leaks == []


def planted_repo(path: Path, environ: dict[str, str]) -> Repo:
    repo = Repo(path, environ)
    repo.write(".vibe-gate/gate.toml", GATE)
    repo.write(".vibe-gate/rubrics/quality.toml", RUBRIC + CHECK)
    repo.write("planted.txt", "before\n" + PLANTED)
    repo.write("wide.txt", PLANTED.encode("utf-16"))
    repo.write("src/load.py", "pass\n")
    repo.commit("First")
    repo.write("planted.txt", PLANTED + "after\n")
    repo.write("wide.txt", (PLANTED + "after\n").encode("utf-16"))
    repo.write("large.txt", PLANTED * 20)
    repo.write("src/load.py", SWALLOWS)
    repo.write(f"src/{TOKEN}.py", "x = 1\n")
    repo.write(f"src/{HELD}.py", "x = 1\n")
    repo.commit(f"Say {TOKEN} and {HELD}\n\n{PLANTED}")
    return repo


def script() -> list[Any]:
    """A judge that says and does everything with the secrets in it."""
    verdict = fails(reason=f"It drops {TOKEN} and {HELD}.", counterexample=f"{HELD} -> {TOKEN}")
    other = answer_to("names-are-clear", reason=60 * "so " + LONG)
    return [
        Turn(
            Thinking(f"so {TOKEN} {HELD}"),
            Text(f"I see\n{PLANTED}"),
            ToolUse("Read", {"file_path": "planted.txt"}),
            ToolUse("Grep", {"pattern": TOKEN, "path": f"src/{HELD}"}),
            ToolUse("Glob", {"pattern": f"**/{HELD}*", "unknown": {"password": HELD, "id": TOKEN}}),
            ToolUse("Bash", {"command": f"echo {carriers(HELD)[5]}"}),
            characters_per_delta=5,
        ),
        answer(answers(verdict, other), characters_per_delta=3),
    ]


@pytest.fixture
def environ(environ: dict[str, str]) -> dict[str, str]:
    return environ | {"SERVICE_TOKEN": HELD, "DEPLOY_TOKEN": LONG}


def test_nothing_secret_is_left_on_disk_by_a_review(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = planted_repo(tmp_path / "repo", environ)
    with answering(*script(), repeat_last=True) as model:
        review = run_review(repo.path, environ | model.environ)
    assert review.summary.outcome == "fail"
    assert LONG[:12] not in to_json(review.summary)
    assert_clean(repo.path / ".vibe-artifacts")
    assert (repo.path / ".git/vibe-gate/state.db").exists()
    assert_clean(repo.path / ".git/vibe-gate")
    bundle = repo.path / review.summary.bundle
    run = json.loads((bundle / "summary.json").read_bytes())["redacted"]
    turn = json.loads(next(bundle.glob("nodes/*/turn-001/summary.json")).read_bytes())["redacted"]
    assert (
        run["count"]
        == sum(run["kinds"].values())
        > turn["count"]
        == sum(turn["kinds"].values())
        > 0
    )
    assert {"environment", "github-token", "private-key"} <= set(run["kinds"])


@pytest.mark.usefixtures("quick_agents")
def test_nothing_secret_is_left_by_a_review_whose_model_fails(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = planted_repo(tmp_path / "repo", environ)
    with answering(
        ApiError(400, message=f"no {TOKEN} for {HELD}: {PLANTED}"), repeat_last=True
    ) as model:
        review = run_review(repo.path, environ | model.environ)
    assert review.summary.outcome in ("error", "fail")
    assert_clean(repo.path / ".vibe-artifacts")
    assert_clean(repo.path / ".git/vibe-gate")


def test_neither_a_bundle_nor_its_archive_tells_where_its_judges_read(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    home = tmp_path / "home-of-ada Löve"
    environ |= {"XDG_STATE_HOME": str(home)}
    repo = planted_repo(tmp_path / "repo", environ)
    seen_texts: list[str] = []

    def look(_request: MessagesRequest) -> Turn:
        folder = judged_folder(home)
        return Turn(
            Text(f"I read {folder}/after/src/load.py, not file://{quote(str(folder.parent))}."),
            ToolUse("Read", {"file_path": f"{folder}/after/src/load.py"}),
            ToolUse("Read", {"file_path": f"{folder.parent}/tree"}),
            ToolUse("Grep", {"pattern": "x", "path": str(home)}),
        )

    def judge(request: MessagesRequest) -> Turn:
        folder = judged_folder(home)
        seen_texts.extend(result.text for result in request.tool_results)
        reason = f"{folder}/after/src/load.py drops the error, {folder.parent} and {home} do not."
        handler = HANDLER | {"path": f"{folder}/after/src/load.py"}
        return answer(answers(fails(handler, reason=reason), answer_to("names-are-clear")))

    with answering(look, judge, repeat_last=True) as model:
        review = run_review(repo.path, environ | model.environ)
    assert any("except OSError" in text for text in seen_texts)
    assert errors_criterion(review.summary).outcome == "fail"
    bundle = repo.path / review.summary.bundle
    (log,) = bundle.glob("nodes/*/turn-001/turn.log")
    assert "I read ./after/src/load.py, not file://…." in log.read_text("utf-8")
    summary = (bundle / "summary.json").read_text("utf-8")
    reason = "./after/src/load.py drops the error, … and … do not."
    assert json.dumps(reason) in summary

    archive = tmp_path / "run.tar.xz"
    command = ("bundles", "export", review.summary.run_id, "-o", str(archive))
    assert vibe_gate(*command, cwd=repo.path, environ=environ).code == 0
    subprocess.run(["tar", "xf", archive, "-C", home], check=True)
    unpacked_bundle = home / bundle.relative_to(repo.path / ".vibe-artifacts")
    assert (unpacked_bundle / "summary.json").exists()
    marks = [b"home-of-ada", judged_folder(home).parents[1].name.encode()]
    for folder in (bundle, unpacked_bundle):
        for file in [path for path in folder.rglob("*") if path.is_file()]:
            data = file.read_bytes()
            content = gzip.decompress(data) if file.suffix == ".gz" else data
            assert [mark for mark in marks if mark in content] == [], file


@pytest.mark.usefixtures("quick_agents")
def test_a_line_that_names_the_home_of_the_reviewer_can_be_quoted(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    home = tmp_path / "home-of-ada"
    environ |= {"XDG_STATE_HOME": str(home)}
    repo = planted_repo(tmp_path / "repo", environ)
    line = f'NOTES = "{home}/notes"'
    repo.write("src/notes.py", f"{line}\n")
    repo.commit("Say where the notes are")
    evidence = {"path": "src/notes.py", "line": 1, "quote": line, "side": "after"}
    with answering(answers(fails(evidence), answer_to("names-are-clear"))) as model:
        review = run_review(repo.path, environ | model.environ)
    assert errors_criterion(review.summary).outcome == "fail"


def errors_criterion(summary: Summary) -> CriterionResult:
    return summary.rubrics[0].criteria[0]


def judged_folder(home: Path) -> Path:
    """Where a judge reads whose clone keeps its export in this home."""
    (folder,) = home.glob("vibe-gate/workspaces/*/kept-export/trees")
    return folder


def test_a_binary_file_without_a_secret_keeps_its_place_in_the_patch(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = planted_repo(tmp_path / "repo", environ)
    repo.write("logo.bin", bytes(range(256)) * 300)
    repo.write("wide.txt", b"\0" + PLANTED.encode())
    repo.commit("Add a logo")
    review = run_review(repo.path, environ, judge="never")
    patch = (repo.path / review.summary.bundle / "change.patch").read_bytes()
    assert [section.count(bytes(range(1, 256))) for section in unpack_patch(patch)].count(300) == 1
    assert patch.count(b"[redacted:binary-patch]") == 2
    assert_clean(repo.path / ".vibe-artifacts")


@pytest.mark.usefixtures("quick_agents")
def test_a_secret_below_its_name_is_left_neither_in_the_patch_nor_in_what_a_judge_is_shown(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    values = [
        [f"E4lBYOvfZ8Uz19Q{number}wErTyUi{side}pBs" for number in range(3)]
        for side in ("Old", "New")
    ]
    repo = planted_repo(tmp_path / "repo", environ)
    for in_json, in_python, behind_colon in values:
        repo.write("src/a.json", f'{{\n  "api_key":\n    "{in_json}"\n}}\n')
        repo.write("src/b.py", f'key = foo(\n  password=\n    "{in_python}",\n)\n')
        repo.write("src/c.json", f'{{\n  "token"\n  :\n  "{behind_colon}"\n}}\n')
        repo.commit("Set keys")
    with answering(script()[-1]) as model:
        review = run_review(
            repo.path, environ | model.environ, wire=Wire("record", tmp_path / "cassette")
        )
    assert "src/a.json" in (repo.path / review.summary.bundle / "change.patch").read_text()
    assert_clean(tmp_path / "cassette")
    contents = [
        data
        for folder in (repo.path / ".vibe-artifacts", tmp_path / "cassette")
        for _, data in written_contents(folder)
    ]
    assert [
        value for side in values for value in side for data in contents if value.encode() in data
    ] == []


def test_the_search_of_these_tests_finds_every_carrier(tmp_path: Path) -> None:
    for secret in BOTH:
        for number, form in enumerate(carriers(secret)):
            place = tmp_path / f"{number}"
            place.mkdir(exist_ok=True)
            (place / "file").write_text(form)
            if number not in (
                2,
                5,
            ):  # seen by their neighbours: the same base64, and percent signs encoded again
                with pytest.raises(AssertionError):
                    assert_clean(place)
