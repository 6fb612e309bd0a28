"""The verdict screen: what it says first, what it cuts last, and that nothing in it acts on a
terminal.
"""

from __future__ import annotations

import pytest
from fail_votes import fail_vote
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from rich.cells import cell_len
from summaries import (
    changed,
    criterion,
    failed,
    finding,
    open_question,
    policy,
    rubric,
    summary,
    unseen,
    waived,
    waiver,
    weighed,
)

from vibe_gate.domain.cause import ApiStatus, ManyAnswers, NoCredit, NoJudge, NoKey
from vibe_gate.domain.escape import safe
from vibe_gate.domain.summary import CacheUse, Cost, Trusted
from vibe_gate.domain.verdict import CheckedEvidence, Proof, SecondLook, Vote
from vibe_gate.judging.findings import policy_approval
from vibe_gate.report import sentences
from vibe_gate.report.verdict_screen import ScreenReader, render_screen

UNANSWERED = Vote(
    outcome="error", said=None, reason="HTTP 400", turn="nodes/judge-quality/turn-001"
)


def screen(summary, notes=(), width=80, every=True) -> str:
    return render_screen(summary, notes, width, every=every).plain


NEITHER = Vote(outcome="not_applicable", said="not_applicable", reason="r")


def first_line(summary) -> str:
    return screen(summary, width=200).splitlines()[0]


@pytest.mark.parametrize(
    ("run_summary", "line"),
    [
        (summary(), "✓ PASS · quality"),
        (failed(), "✗ FAIL · quality: errors-not-swallowed failed (must)"),
        (
            summary(
                outcome="fail",
                exit_code=1,
                rubrics=(rubric(criterion("x", "fail", must=False), outcome="fail", score=0.25),),
            ),
            "✗ FAIL · quality: score 0.25 is under the threshold: x failed (weight 1 of 1)",
        ),
        (
            summary(
                outcome="fail",
                exit_code=1,
                rubrics=(
                    weighed(
                        criterion("x", "fail", must=False, weight=2), criterion("y", must=False)
                    ),
                ),
            ),
            "✗ FAIL · quality: score 0.33 is under the threshold of 0.70: x failed (weight 2 of 3)",
        ),
        (
            summary(
                outcome="inconclusive",
                exit_code=3,
                rubrics=(rubric(criterion("x", "abstain"), outcome="inconclusive"),),
            ),
            "? NOT REVIEWED (inconclusive) · quality: x undecided (must)",
        ),
        (
            summary(
                outcome="inconclusive",
                exit_code=3,
                rubrics=(rubric(outcome="inconclusive", coverage=0.25),),
            ),
            "? NOT REVIEWED (inconclusive) · quality: only 25% could be decided",
        ),
        (
            summary(
                outcome="error",
                exit_code=3,
                rubrics=(rubric(criterion("x", "error"), outcome="error"),),
            ),
            "! ERROR · quality: x could not be decided (must)",
        ),
        (
            summary(exit_code=4),
            "! NEEDS APPROVAL · this change edits .vibe-gate, which controls the gate; everything else: pass",
        ),
        (summary(exit_code=5), "! INTEGRITY · the files changed during the review"),
        (
            summary(
                rubrics=(
                    rubric(criterion("x"), criterion("y", "abstain"), criterion("z", "error")),
                )
            ),
            "✓ PASS · quality; undecided: y, z",
        ),
        (
            summary(rubrics=(rubric(open_question("x", NoJudge(), "not_applicable")),)),
            "· NOTHING REVIEWED · 1 question not asked: --no-judge",
        ),
        (
            summary(rubrics=(rubric(criterion("x", "not_applicable")),)),
            "· NOTHING REVIEWED · no criterion applies to this change",
        ),
        (
            summary(rubrics=(rubric(criterion("x", "not_applicable", votes=(NEITHER,))),)),
            "✓ PASS · no criterion applies to this change, says the judge",
        ),
        (summary(rubrics=(), workflow="fixer"), "✓ DONE · no rubric judged it"),
        (summary(rubrics=()), "· NOTHING REVIEWED · no rubric of the gate is for these files"),
    ],
)
def test_the_first_line_is_the_verdict_and_its_reason(run_summary, line):
    assert first_line(run_summary) == line


def test_a_whole_screen():
    failure = failed(2, 1, policy_changes=(policy(),), unreviewed=(unseen(),))
    assert screen(failure, ("The first note.",)) == (
        "✗ FAIL · quality: errors-not-swallowed failed (must)\n"
        "  change  abcdef012345 · 1 file +4 −1 · src/a.py\n"
        "  gate    .vibe-gate at 5d401b900000\n"
        "\n"
        "✗ quality  fail · score 0.50 · coverage 100%\n"
        "  ✗ errors-not-swallowed  must  fail     2 findings below\n"
        "  ✓ check-0               must  pass\n"
        "\n"
        "✗ src/a.py:1  errors-not-swallowed  inferred\n"
        "    the handler hides the error\n"
        "✗ src/a.py:2  errors-not-swallowed  inferred\n"
        "    the handler hides the error\n"
        "\n"
        "  policy  .vibe-gate/gate.toml (modified): needs approval\n"
        "  judge   not judged: src/big.py:1-400 (the budget was reached)\n"
        "  cost    $0.0123 · 12,345 tokens in, 321 out\n"
        "  run     20260102T030405.006Z-abc123 · vibe-gate report --open\n"
        "  note    The first note.\n"
        "  next    fix what is marked ✗ (or: vibe-gate run --fix 20260102T030405.006Z),\n"
        "          then review again"
    )
    keyless = rubric(open_question("asked", NoKey()))
    assert "run --fix" not in screen(replace(failure, bundle="")) + screen(
        replace(failure, rubrics=(keyless,))
    )


def test_what_failed_stays_when_passed_criteria_are_left_out():
    text = screen(failed(1, 50), every=False)
    assert "errors-not-swallowed  must  fail" in text
    assert "… and 32 more criteria: see summary.json in the bundle" in text
    assert "src/a.py:1  errors-not-swallowed  inferred\n    the handler" in text


def test_the_gravest_findings_stay_and_the_rest_is_counted():
    notices = tuple(finding("only a notice", level="notice", path=f"f{n}") for n in range(50))
    text = screen(failed(0, 0, first_findings=(*notices, finding("the grave one"))), every=False)
    assert "✗ src/a.py:41  errors-not-swallowed  inferred\n    the grave one" in text
    assert "… and 43 more findings: vibe-gate report --open, or --json" in text


def test_of_one_level_those_of_a_must_come_first_and_next_names_one_of_them():
    rows = (criterion("soft", "fail", must=False), criterion("hard", "fail"))
    findings = (
        finding("soft one", criterion="soft", fingerprint="a" * 16),
        finding("x", criterion="hard", fingerprint="b" * 16),
    )
    text = screen(
        failed(0, 0, first_findings=findings, rubrics=(rubric(*rows, outcome="fail", score=0.0),)),
        width=200,
    )
    assert text.index("src/a.py:41  hard") < text.index("src/a.py:41  soft")
    words = " ".join(text.split())
    assert words.endswith("to accept one: vibe-gate override bbbbbbbb --reason ...")


def test_an_agent_is_named_no_command_that_it_may_not_use():
    failing = failed(0, 0, first_findings=(finding("x", fingerprint="b" * 16, basis="inferred"),))
    words = " ".join(screen(failing, width=500).split())
    assert words.endswith("if it is wrong: vibe-gate label bbbbbbbb wrong")
    agent_screen = render_screen(failing, (), 500, reader=ScreenReader(is_agent=True)).plain
    assert agent_screen.endswith("why: vibe-gate explain bbbbbbbb; to accept one: ask the user")


def test_a_fail_that_no_change_of_files_repairs_names_no_fixer():
    failing = failed(
        0, 0, first_findings=(finding("x", criterion="tests-ran", fingerprint="b" * 16),)
    )
    reader = ScreenReader(session_criteria=frozenset({"tests-ran"}))
    text = render_screen(failing, (), 500, reader=reader).plain
    assert "next    no change of files repairs it: have the agent run what is missing" in text
    assert "--fix" not in text


@pytest.mark.parametrize(("base", "onto"), [("a" * 40, "a" * 12), ("", "--root")])
def test_of_a_secret_in_commits_next_says_to_rewrite_them(base, onto):
    failure = failed(0, 0, first_findings=(finding("a key", criterion="no-secrets"),))
    change = replace(failure.change, base_commit=base, head_commit="b" * 40)
    assert "next    fix what is marked" in screen(failure, width=300)
    last = screen(replace(failure, change=change), width=300).splitlines()[-1]
    assert "revoke it" in last
    assert f"git rebase -i {onto};" in last


def test_a_place_that_is_too_long_keeps_its_line_number():
    for depth, is_whole in ((12, True), (90, False)):
        path = "src/" + "deep/" * depth + "load.py"
        text = screen(failed(0, 0, first_findings=(finding(path=path, line=1234),)), width=60)
        place = (
            text.partition("✗ src/")[2]
            .partition("\n    errors-not-swallowed  inferred\n")[0]
            .replace("\n", "")
        )
        assert place.endswith("deep/load.py:1234")
        assert (f"src/{place}" == f"{path}:1234") is is_whole


def test_many_findings_of_one_kind_hide_no_other_kind():
    marks = tuple(finding("a mark", line=n) for n in range(1, 99))
    other_marks = tuple(finding("another mark", path="src/b.py", line=n) for n in range(1, 99))
    keys = tuple(
        finding("a private key", criterion="no-secrets", path=f"{n}.pem", line=1) for n in range(4)
    )
    text = screen(failed(0, 0, first_findings=(*marks, *other_marks, *keys)), every=False)
    assert text.count("a private key") == 4
    assert text.index("a private key") < text.index("a mark")
    assert "… and 192 more findings: vibe-gate report --open, or --json" in text


def test_a_finding_shows_the_quoted_line_and_once_what_would_go_wrong():
    lines = tuple(
        CheckedEvidence(path="a.py", line=n, end_line=n, quote=f"\tline {n}", standing="holds")
        for n in (7, 9)
    )
    vote = fail_vote("it is wrong", *lines, counterexample="f(0) -> crash")
    findings = [
        finding(
            "it is wrong", line.line, criterion="q", path="a.py", basis="inferred", evidence=(line,)
        )
        for line in lines
    ]
    failure = failed(0, 0, first_findings=tuple(findings))
    judged = rubric(
        criterion("q", "fail", kind="judge", reason="it is wrong", votes=(vote,)), outcome="fail"
    )
    text = screen(replace(failure, rubrics=(judged,)))
    assert "✗ q  must  fail     2 findings below" in text
    assert (
        "✗ a.py:7  q  inferred\n      7 |     line 7\n    it is wrong\n    e.g. f(0) -> crash\n"
        "✗ a.py:9  q  inferred\n      9 |     line 9\n    it is wrong\n\n"
    ) in text


def test_a_commands_failure_is_told_once():
    row = criterion("lint", "fail", kind="check", reason="make lint exited with 2.")
    message = "make lint exited with 2: no rule"
    run = failed(0, 0, first_findings=(finding(message, criterion="lint"),))
    text = screen(replace(run, rubrics=(rubric(row, outcome="fail"),)))
    assert "lint  must  fail     1 finding below" in text
    assert text.count("make lint exited with 2") == 1


def test_a_rubric_whose_questions_all_wait_for_one_reason_is_one_line():
    waiting = rubric(*(open_question(f"q{n}", NoKey()) for n in range(3)), coverage=0)
    text = screen(summary(rubrics=(waiting,)))
    assert "pass · nothing decided · 3 questions not asked: no API key\n\n" in text


def test_spaces_in_a_row_are_written_out_in_a_path():
    """A terminal breaks the wide line of a pipe: what follows many spaces would begin a line of its
    own.
    """
    forged = f"a{' ' * 74}✓ PASS · quality"
    text = screen(failed(0, 0, first_findings=(finding(path=forged),)), width=1000)
    assert "✗ a" + r"\u0020" * 74 + "✓ PASS · quality:41  errors-not-swallowed" in text


def test_in_a_pipe_only_findings_beyond_fifty_are_counted():
    text = screen(failed(200, 100))
    assert "more criteria" not in text
    assert text.count("the handler hides the error") == 50
    assert "… and 150 more findings: vibe-gate report --open, or --json" in text


def test_an_uncommitted_change_says_so_and_what_comes_next():
    text = screen(summary(key="tree-" + "2" * 40))
    assert "change  tree-222222222222 (uncommitted)" in text
    assert "next    git commit" in text


@pytest.mark.parametrize(
    ("run_summary", "line"),
    [
        (summary(), "cost    none: no model was asked"),
        (
            summary(
                rubrics=(
                    rubric(
                        criterion(
                            "q", "error", kind="judge", decided_by="majority", votes=(UNANSWERED,)
                        )
                    ),
                )
            ),
            "cost    none: no model answered",
        ),
        (
            summary(cost=Cost(usd=0.5, basis="unknown", input_tokens=10, output_tokens=2)),
            "cost    $0.5000 at most (a model without a listed price is counted at the highest price)",
        ),
        (
            summary(cache=CacheUse(hits=2)),
            "cost    none: no model was asked · 2 answers from earlier verdicts",
        ),
        (
            summary(trusted=Trusted(revision="", bootstrap=False)),
            "gate    built-in (no .vibe-gate/ before this change)",
        ),
        (
            summary(run_id="", trusted=Trusted(revision="", bootstrap=False)),
            "gate    not read (nothing to review)",
        ),
        (
            summary(trusted=Trusted(revision="", bootstrap=True)),
            "gate    this change's .vibe-gate/ (the first one; later changes are bound by it)",
        ),
        (summary(bundle=""), "run     not recorded"),
        (
            summary(files=tuple(changed(f"f{n}") for n in range(5))),
            "5 files +20 −5 · f0, f1, f2, …",
        ),
        (summary(findings=(finding(path="", line=0),)), "✗ the change  errors-not-swallowed"),
        (
            summary(policy_changes=tuple(policy(f".vibe-gate/{n}") for n in range(3))),
            "policy  .vibe-gate/0 (modified), .vibe-gate/1 (modified) and 1 more: needs approval",
        ),
        (
            summary(policy_changes=(policy("CLAUDE.md", "warn"),)),
            "policy  CLAUDE.md (modified): read this change yourself",
        ),
    ],
)
def test_it_says(run_summary, line):
    assert line in screen(run_summary, width=200)


LONG = (
    "after a time-out the transfer is sent once more although the bank may have booked it already; "
    * 2
)


def test_a_finding_is_wrapped_and_not_cut():
    assert LONG.strip() in " ".join(screen(failed(0, 0, first_findings=(finding(LONG),))).split())


def test_what_no_judge_saw_stands_in_the_first_line_of_a_pass():
    asks = rubric(criterion(kind="judge"))
    run_summary = summary(unreviewed=(unseen(), unseen()), rubrics=(asks,))
    assert first_line(run_summary) == "✓ PASS · quality; 2 places not judged"


def test_a_rubric_of_which_nothing_applies_is_not_said_to_have_passed():
    run_summary = summary(
        rubrics=(rubric(criterion()), rubric(criterion("x", "not_applicable"), id="other"))
    )
    assert first_line(run_summary) == "✓ PASS · quality"
    assert "· other  skipped" in screen(run_summary)


def test_a_rubric_without_a_verdict_has_no_score():
    run_summary = summary(
        outcome="inconclusive",
        exit_code=3,
        rubrics=(weighed(criterion(), criterion("x", "abstain")),),
    )
    assert "? quality  inconclusive · coverage 50%" in screen(run_summary)
    assert "score" not in screen(run_summary)


def test_what_another_program_said_is_no_headline_and_stands_in_the_details_once():
    reason = "HTTP 401: the model's API does not accept the key. Details: Failed to authenticate."
    rows = (criterion(name, "error", kind="judge", reason=reason) for name in ("a", "b"))
    run_summary = summary(
        outcome="error", exit_code=3, rubrics=(rubric(*rows, outcome="error", coverage=0.0),)
    )
    run_summary = replace(run_summary, unreviewed=(unseen(reason=reason),))
    assert first_line(run_summary) == "! ERROR · HTTP 401: the model's API does not accept the key"
    assert "  details Failed to authenticate" in screen(run_summary)
    assert (screen(run_summary).count("HTTP 401"), screen(run_summary).count("authenticate")) == (
        1,
        1,
    )


@pytest.mark.parametrize(
    ("cause", "step"),
    [
        (NoKey(), "set ANTHROPIC_API_KEY (in CI from a secret), then review again"),
        (
            ApiStatus(status=401),
            "replace the key in ANTHROPIC_API_KEY, check it with `vibe-gate doctor --ask`, then review again",
        ),
        (
            NoCredit(),
            "add credit to the account of the API key, then review again",
        ),
        (ManyAnswers(count=2), "review again; if that does not help, run vibe-gate doctor"),
    ],
)
def test_what_a_second_review_cannot_change_is_to_be_mended_first(cause, step):
    row = open_question("x", cause)
    run_summary = summary(
        outcome="inconclusive",
        exit_code=3,
        rubrics=(rubric(row, outcome="inconclusive", coverage=0.0),),
    )
    assert screen(run_summary, width=200).splitlines()[-1] == f"  next    {step}"


def test_an_approved_change_of_the_gate_says_once_who_approved_it():
    allowed = waiver("Ada", "agreed", of="policy-1")
    text = screen(summary(findings=(policy_approval(allowed),)))
    assert text.count("Ada: agreed") == 1


def test_a_waiver_is_a_sentence_of_its_own():
    rule = waiver("jo", "a key of the sandbox", local=False)
    run_summary = summary(
        rubrics=(rubric(criterion("x", "fail", reason="evaluates its input")),),
        findings=(
            waived(finding("evaluates its input", criterion="x", fingerprint="0" * 16), rule),
        ),
    )
    assert "evaluates its input. Accepted: suppressed by jo: a key of the sandbox." in screen(
        run_summary
    )
    claimed = replace(
        run_summary,
        findings=(
            replace(run_summary.findings[0], level="failure", waiver=UNSET, allowed_by=UNSET),
        ),
    )
    assert "Accepted" not in screen(claimed)
    text, two = "overridden by jo: a | b", "suppressed by al: c; d"
    both_criterion = criterion("x", "fail", reason="2 lines; e | f")
    findings = [
        finding("bad", level="notice", criterion="x", waiver=entry) for entry in (two, text)
    ]
    assert (
        sentences.criterion_reason("quality", both_criterion, findings)
        == f"2 lines; e | f. Accepted: {two}; {text}."
    )


def test_a_reason_that_repeats_is_told_once():
    rows = (criterion(name, "abstain", reason="there is no key") for name in ("a", "b", "c"))
    text = screen(summary(rubrics=(rubric(*rows, outcome="inconclusive", coverage=0.0),)))
    assert text.count("there is no key") == 1
    assert text.count("as above") == 2
    assert "quality  inconclusive · nothing decided" in text


def test_markup_and_escapes_of_others_are_shown_and_never_obeyed():
    hostile = "[bold red]x[/] \x1b[2J \u202e \u200b [link=http://x]y[/link]"
    reason = criterion("c", "fail", reason=hostile)
    look = SecondLook(outcome="stands", said="stands", reason=f"looked {hostile}")
    proof = Proof(status="proven", reason=f"ran {hostile}", test=hostile, command=hostile)
    hostile_finding = finding(hostile, path=hostile, proof=proof, second_look=look)
    failure = failed(
        0, 0, first_findings=(hostile_finding,), rubrics=(rubric(reason, outcome="fail"),)
    )
    text = screen(failure, (hostile,), width=400)
    assert text.count("[bold red]x[/] \\x1b[2J \\u202e \\u200b [link=http://x]y[/link]") == 7
    assert not set(text) & {"\x1b", "\u202e", "\u200b"}


@pytest.mark.slow
@settings(deadline=None)  # on a busy machine a screen may take its time
@given(
    st.text(max_size=280),
    st.integers(1, 200),
    st.booleans(),
)
def test_any_text_fits_the_width_and_stays_on_its_line(text, width, every):
    failure = failed(
        0, 0, first_findings=(finding(text, path=text),), bundle="", files=(changed(text),)
    )
    lines = screen(failure, (), width, every).split("\n")
    assert all(cell_len(line) <= max(width, 40) for line in lines)
    assert all(line == safe(line) for line in lines)
