"""Text of others in what is posted: hostile strings in every place where text can stand, through
GitHub's renderer.
"""

from __future__ import annotations

import base64
import sys
import tomllib
import zlib
from pathlib import Path

import pytest
from fail_votes import fail_vote
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from github_page import TAGS, acted_upon, page, skeleton
from summaries import criterion, finding, rubric, summary

from vibe_gate.domain import paths
from vibe_gate.domain.agent_hint import UnreadSessionsHint
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import AgentAuthored, Cost, PolicyChange, Trusted, Unreviewed
from vibe_gate.domain.verdict import CheckedEvidence, Proof, SecondLook
from vibe_gate.report.anchors import read_anchors
from vibe_gate.report.annotations import make_check_run
from vibe_gate.report.comment import MARKER, read_comment_state, render_comment, render_job_summary
from vibe_gate.report.comment_markup import DOCS
from vibe_gate.report.finding_comments import (
    FINDING_MARKER,
    make_review_comments,
    mark_fixed,
    read_finding_marker,
)
from vibe_gate.report.links import Links
from vibe_gate.report.report import Report
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round import Round
from vibe_gate.report.round_state import load_state
from vibe_gate.report.workflow_commands import render_workflow_commands

HEAD = "c0ffee" * 6 + "c0ff"
OLD = "0ddba11" * 5 + "0ddba"
LINKS = Links("https://github.com", "o/r", HEAD, "https://github.com/o/r/actions/runs/1", OLD)

HOSTILE = tomllib.loads((Path(__file__).parent / "hostile.toml").read_text("utf-8")) | {
    "sha": f"reverts {HEAD} and {HEAD[:7]}",
    "sha-elsewhere": f"o/r@{HEAD}",
    "fence-long": "`" * 40 + "\nout",
    "tags": "x" + "".join(chr(0xE0000 + ord(char)) for char in "hidden"),
    "marker": f"{MARKER}\n<!-- vibe-gate:state eJyrVspIzUxRslIy0lFQykvMTVWyUkpKVaoFAE -->",
    "finding-marker": f"{FINDING_MARKER}{'a' * 16} -->",
    "surrogate": "a\udcffb\udc80",
    "megabyte": "@a#1`|" * 170_000,
}
WORDS = [name for name in HOSTILE if name not in ("nothing", "blank", "surrogate", "megabyte")]


def hostile_report(text: str) -> Report:
    """A report in which every string that others can write is `text`; a summary holds no bytes that
    are not UTF-8.
    """
    raw, text = text, text.encode("utf-8", "replace").decode()
    short = text[:280]
    parts = [
        part for part in raw[:3000].replace("\0", "?").split("/") if part not in ("", ".", "..")
    ]
    path = paths.quote("/".join(parts) or "x")  # as git could hold it
    evidence = CheckedEvidence(path=path, line=2, end_line=2, quote=text, standing="holds")
    look = SecondLook(
        outcome="refuted",
        said="refuted",
        reason=short,
        evidence=(evidence,),
        turn=text[:99],
        model=text,
    )
    proof = Proof(
        status="proven", reason=text, path=path, test=text, command=text, obligation=(evidence,)
    )
    vote = fail_vote(
        text,
        evidence,
        counterexample=text,
        turn=text[:99],
        changes=text,
        model=text,
        proof=proof,
        second_look=look,
    )
    bad = criterion("held", "fail", kind="judge", reason=text, votes=(vote, vote))
    findings = [
        finding(short, line=2, path=path, criterion=text, evidence=(evidence,), fingerprint="a" * 16, proof=proof,
                second_look=replace(look, outcome="stands")),
        finding(short, line=0, path="", criterion=text, level="warning", fingerprint=text[:16]),
        finding(f"suppressed by {short}"[:280], level="notice", fingerprint="b" * 16),
        finding("The line 3 of this file holds x.", line=3, path=path, fingerprint="c" * 16),
        finding("Refuted.", level="notice", line=3, path=path, fingerprint="9" * 16, second_look=look),
    ]  # fmt: skip
    earlier_findings = [
        ReportedFinding(fingerprint=name * 16, criterion=text[:64], path=path[:4096], line=1, level="failure",
             message=short, since=OLD, fixed=fixed)
        for name, fixed in (("d", HEAD), ("e", ""), ("f", ""))
    ]  # fmt: skip
    hostile_summary = summary(
        run_id=text, key=text, workflow=text, bundle=text, outcome="fail", exit_code=1, findings=tuple(findings),
        trusted=Trusted(revision=text, bootstrap=False),
        rubrics=(rubric(bad, criterion("x", reason=text), outcome="fail"),),
        policy_changes=(PolicyChange(path=path, change_type=text, level="block", diff=text),),
        unreviewed=(Unreviewed(path=path, line=1, end_line=9, reason=text),),
        agent_authored=AgentAuthored(decision=True, hints=(UnreadSessionsHint(reason=text),) * 2),
        cost=Cost(usd=0.5, basis="unknown", by_node={text: 0.5}, by_model={text: 0.5}),
    )  # fmt: skip
    return Report(
        summary=hostile_summary, notes=(raw,),
        round=Round(
            2, HEAD, tuple(findings), (), (earlier_findings[0],), (findings[0],), frozenset("a" * 16),
            (earlier_findings[1],), (earlier_findings[2],),
        ),
        links=LINKS, patch=patch(path, raw), artifact="summary", number=1, name=raw, review="a...b",
    )  # fmt: skip


def patch(path: str, text: str) -> str:
    line = "+".join(f"{part}\n" for part in text.split("\n"))
    count = text.count("\n") + 1
    patch_path = f"b/{path}" if not path.startswith('"') else f'"b/{path[1:]}'
    hidden = "+x\u202e" + text.replace("\n", " ").replace("\r", " ")[:900] + "\n"
    return (
        f"diff --git a/{path} {patch_path}\n--- /dev/null\n+++ {patch_path}\n@@ -0,0 +1,{count} @@\n+{line}"
        f"@@ -1 +{count + 1},1 @@\n{hidden}".replace("@@ -1 +", "@@ -0,0 +")
    )


def documents(report: Report, text: str) -> dict[str, str]:
    run = make_check_run(report, (text,))
    review_comments = make_review_comments(
        report, read_anchors(report.patch.encode("utf-8", "surrogateescape"))
    )
    bodies = {f"review {index}": comment.body for index, comment in enumerate(review_comments)}
    return {
        "comment": render_comment(report, (text,)),
        "job summary": render_job_summary(report, (text,)),
        "check summary": run.summary,
        "check text": run.text,
        **bodies,
        **{f"fixed {name}": mark_fixed(body, HEAD, LINKS) for name, body in bodies.items()},
    }


def check_document(markdown: str, breaks: bool) -> None:
    tree = page(markdown, breaks=breaks)
    assert {str(node.tag) for node in tree.iter() if isinstance(node.tag, str)} <= TAGS
    for node in tree.iter("a"):
        assert set(node.attrib) == {"href"}
        assert node.get("href").startswith(
            (DOCS, "https://github.com/o/r/blob/", "https://github.com/o/r/commit/", LINKS.run_url)
        )
        is_ours = node.get("href").startswith(DOCS) or node.text_content() == "the job's summary"
        assert is_ours or [child.tag for child in node] == ["code"]
    assert all(
        set(node.attrib) == set()
        for node in tree.iter("details", "summary", "code", "p", "td", "th", "li")
    )
    assert {node.get("lang") for node in tree.iter("pre")} <= {None, "diff", "suggestion", "python"}
    assert acted_upon(tree) == []
    ours = [str(node) for node in tree.iter() if not isinstance(node.tag, str)]
    assert all(
        marker.startswith(
            ("<!-- vibe-gate:summary", "<!-- vibe-gate:state", "<!-- vibe-gate:finding")
        )
        for marker in ours
    )
    assert len(ours) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_each_document_shows_their_text_as_text_can_be_sent_and_keeps_marker_and_state_ours(name):
    text = HOSTILE[name]
    report = hostile_report(text)
    limits = {
        "comment": 65_000,
        "job summary": 1_000_000,
        "check summary": 65_000,
        "check text": 65_000,
    }
    for kind, markdown in documents(report, text).items():
        check_document(markdown, breaks=kind != "job summary")
        assert len(markdown.encode()) <= limits.get(kind, 60_000)
        assert not {"\r", "\0"} & set(markdown)
        if kind.startswith(("review", "fixed")):
            assert read_finding_marker(markdown) in {"a" * 16, "c" * 16, "9" * 16}
    for note in make_check_run(report).annotations:
        assert len(note.message.encode()) < 64_000
        assert "\x1b" not in note.message + note.title + note.raw_details
    body = render_comment(report, (text,))
    state = read_comment_state(body)
    assert body.startswith("<!-- vibe-gate:summary") and state is not None
    assert (state.head, state.number) == (HEAD, 2)
    assert read_comment_state(text) is None
    assert load_state(text) is None


@pytest.mark.slow
def test_the_document_has_the_same_parts_as_with_plain_words_and_theirs_can_be_read_word_for_word():
    for name in WORDS:
        text = HOSTILE[name]
        words = "\n".join(["plain words"] * (text.count("\n") + 1))
        plain, hostile_documents = (
            documents(hostile_report(words), words),
            documents(hostile_report(text), text),
        )
        for kind, markdown in hostile_documents.items():
            assert skeleton(page(markdown)) == skeleton(page(plain[kind])), (name, kind)
        rendered = page(render_comment(hostile_report(text))).text_content()
        assert "".join(safe(" ".join(text.split())).split()) in "".join(rendered.split()), name


def test_no_workflow_command_of_theirs_is_obeyed():
    for name in WORDS:
        text = HOSTILE[name]
        lines = render_workflow_commands(hostile_report(text), "TOKEN", (text,)).splitlines()
        stop, start = lines.index("::stop-commands::TOKEN"), lines.index("::TOKEN::")
        assert (start, len(lines[:stop]) <= 30) == (len(lines) - 1, True), name
        assert not any("::TOKEN::" in line for line in lines[stop + 1 : start]), name
        for line in lines[:stop]:
            assert line.startswith(("::error ", "::warning ", "::notice ")), name
            options = line.split("::")[1].split(" ", 1)[1].split(",")
            assert {pair.split("=")[0] for pair in options} <= {
                "title",
                "file",
                "line",
                "endLine",
            }, name


TOKENS = st.sampled_from([
    "@octocat", "#1", "`", "``", "```", "~~~", "|", "\\", "<", ">", "<!--", "-->", "</details>", "<b>", "[", "]", "](",
    "(https://evil.example)", "!", "&", ";", "&#64;", "$", ":", ":tada:", "www.", "https://", "\n", "\r", "\t", " ",
    "_", "*", "**", "- ", "1. ", "===", "---", "#", "\u202e", "\u200b", "\0", "\x1b", "a", "deadbeef", "GH-1", ".", "/",
    "+", "  ", "[^1]", "[^1]:", "[x]", "a@b.c", "::error::", "\udcff", "\u2028", "é", "世",
])  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.lists(st.one_of(TOKENS, st.text(max_size=4)), max_size=12).map("".join))
def test_nor_of_anything_that_can_be_put_together(text):
    for kind, markdown in documents(hostile_report(text), text).items():
        check_document(markdown, breaks=kind != "job summary")


def test_a_state_that_unpacks_to_megabytes_is_not_read():
    bomb = base64.b64encode(zlib.compress(b'{"schema":1,' + b" " * (8 << 20) + b"}", 9)).decode()
    assert len(bomb) < 12_000
    assert load_state(bomb) is None


def test_a_path_that_walks_up_is_not_linked():
    for path in ("../../../evil", "a/../../b", "/etc/passwd", "a//b", "./a", ""):
        assert LINKS.permalink(path, 1) == ""


@pytest.mark.parametrize(
    ("path", "line", "end", "ending"),
    [
        ("src/a.py", 3, 5, "/src/a.py#L3-L5"),
        ("src/a.py", 3, 3, "/src/a.py#L3"),
        ("a b/#1?x=(y).py", 0, 0, "/a%20b/%231%3Fx%3D%28y%29.py"),
        ('"\\303\\251\\377\\t.py"', 1, 1, "/%C3%A9%FF%09.py#L1"),
        ("README.md", 2, 2, "/README.md?plain=1#L2"),
        ("https:", 1, 1, "/https%3A#L1"),
    ],
)
def test_permalinks_are_percent_encoded(path, line, end, ending):
    assert LINKS.permalink(path, line, end) == f"https://github.com/o/r/blob/{HEAD}{ending}"
    assert (
        LINKS.permalink(path, line, end, before=True)
        == f"https://github.com/o/r/blob/{OLD}{ending}"
    )


def test_a_name_cannot_end_the_marker():
    body = render_comment(replace(hostile_report("x"), name="--> <img> a--b/c"))
    assert body.split("\n")[0].count("-->") == 1
    assert read_comment_state(body) is not None
