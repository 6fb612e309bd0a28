"""Rounds: nothing is said twice, what is gone is fixed at a commit, and a state from a comment is
hostile.
"""

from __future__ import annotations

import base64
import json
import zlib
from datetime import date

import pytest
import summaries
from fail_votes import fail_vote
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vibe_gate.domain.summary import ChangedFile, ChangeSummary, Summary, Trusted, Unreviewed
from vibe_gate.domain.verdict import (
    MAX_FINDINGS,
    CheckedEvidence,
    CriterionResult,
    Finding,
    RubricResult,
    SecondLook,
)
from vibe_gate.report import queries, sentences
from vibe_gate.report.reported_finding import ReportedFinding
from vibe_gate.report.round import Round, answered_by, first_round, next_round
from vibe_gate.report.round_state import (
    MAX_STATE,
    RoundState,
    dump_state,
    explain_state,
    load_state,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40


def named_finding(name: str, level: str = "failure", **fields) -> Finding:
    values = {
        "path": "src/a.py",
        "line": 3,
        "end_line": 3,
        "criterion": "x",
        "message": f"finding {name}",
    }
    return Finding(level=level, **{"fingerprint": name * 16} | values | fields)


def follow(before: Round, findings, head=B, touched=True, **options) -> Round:
    def blocking(finding):
        return finding.level == "failure"

    return next_round(before.state, findings, head, lambda _: touched, blocking, **options)


def names(findings) -> str:
    return "".join(finding.fingerprint[0] for finding in findings)


def test_in_the_first_round_everything_is_new():
    opening = first_round([named_finding("1"), named_finding("2", "warning")], A)
    assert (
        opening.number,
        names(opening.new),
        opening.open,
        opening.fixed,
        opening.withheld,
    ) == (
        1,
        "12",
        (),
        (),
        (),
    )


def test_what_is_still_there_is_open_and_what_is_gone_is_fixed_at_this_commit():
    next_state = follow(
        first_round([named_finding("1"), named_finding("2")], A),
        [named_finding("2"), named_finding("3")],
    )
    assert (next_state.number, names(next_state.new), names(next_state.open)) == (2, "3", "2")
    assert [
        (fixed_finding.fingerprint[0], fixed_finding.since, fixed_finding.fixed)
        for fixed_finding in next_state.fixed
    ] == [("1", A, B)]


def test_what_is_fixed_keeps_its_commit_in_later_rounds():
    second = follow(first_round([named_finding("1")], A), [])
    assert [
        (fixed_finding.since, fixed_finding.fixed) for fixed_finding in follow(second, [], C).fixed
    ] == [(A, B)]


def test_what_was_fixed_and_is_there_again_is_new_and_said_to_be_back():
    next_state = follow(follow(first_round([named_finding("1")], A), []), [named_finding("1")], C)
    assert (names(next_state.new), next_state.reappeared, next_state.fixed) == ("1", {"1" * 16}, ())
    assert next_state.state.findings[0].since == C


@pytest.mark.parametrize(
    ("level", "touched", "new", "withheld"),
    [
        ("failure", False, "2", ""),
        ("warning", True, "2", ""),
        ("warning", False, "", "2"),
        ("notice", False, "", "2"),
    ],
)
def test_only_blockers_and_what_stands_on_touched_lines_is_said_later(
    level, touched, new, withheld
):
    next_state = follow(
        first_round([named_finding("1")], A),
        [named_finding("1"), named_finding("2", level)],
        touched=touched,
    )
    assert (names(next_state.new), names(next_state.withheld), names(next_state.open)) == (
        new,
        withheld,
        "1",
    )


def test_what_is_held_back_is_held_back_again_and_said_once_its_lines_change():
    withholding = follow(first_round([], A), [named_finding("1", "warning")], touched=False)
    assert (
        names(follow(withholding, [named_finding("1", "warning")], C, touched=False).withheld)
        == "1"
    )
    assert names(follow(withholding, [named_finding("1", "warning")], C, touched=True).new) == "1"


def test_what_nobody_could_look_for_is_not_fixed():
    next_state = follow(
        first_round([named_finding("1"), named_finding("2")], A),
        [],
        answered=lambda reported: reported.fingerprint[0] == "1",
    )
    assert (names(next_state.fixed), names(next_state.unanswered)) == ("1", "2")
    assert names(follow(next_state, [named_finding("2")], C).open) == "2"


def test_what_is_gone_although_its_lines_did_not_change_was_fixed_by_nobody():
    first = first_round([named_finding("1"), named_finding("2", line=8)], A)
    next_state = follow(first, [], replaced=lambda reported: reported.line == 8)
    assert (names(next_state.fixed), names(next_state.unraised), next_state.unanswered) == (
        "2",
        "1",
        (),
    )
    assert load_state(dump_state(next_state.state)) == next_state.state
    third = follow(next_state, [named_finding("1")], C, replaced=lambda reported: False)
    assert (names(third.open), third.new, third.reappeared) == ("1", (), frozenset()), (
        "it is not called back"
    )
    assert third.state.findings[0].last == ""


def test_what_was_not_raised_again_is_compared_with_where_it_was_found_last():
    second = follow(first_round([named_finding("1")], A), [named_finding("1", line=9, end_line=11)])
    third = follow(second, [], C, replaced=lambda unraised: False)
    (unraised,) = third.unraised
    assert (unraised.since, unraised.last, unraised.places) == (A, B, (("src/a.py", 9, 11),))
    questions = []
    follow(
        third,
        [],
        "d" * 40,
        replaced=lambda unraised: questions.append((unraised.last, unraised.places)) or True,
    )
    assert questions == [(B, (("src/a.py", 9, 11),))]


def refuted(name: str) -> Finding:
    return named_finding(
        name, "notice", second_look=SecondLook(outcome="refuted", said="refuted", reason="a guard")
    )


def test_a_refuted_finding_is_never_called_fixed():
    second = follow(
        first_round([named_finding("1"), refuted("2")], A), [refuted("1"), refuted("2")]
    )
    assert (names(second.open), second.fixed) == ("12", ()), "neither when it is refuted"
    third = follow(second, [], C)
    assert (third.fixed, third.unanswered, third.state.findings) == ((), (), ()), (
        "nor when it is not raised again"
    )
    back = follow(second, [named_finding("1"), refuted("2")], C)
    assert (names(back.new), names(back.open), back.reappeared) == ("1", "2", {"1" * 16}), (
        "and it can come back"
    )
    refuted_summary = summaries.summary(findings=(refuted("1"),))
    (reported,) = explain_state(first_round([refuted("1")], A).state, refuted_summary, 1).findings
    assert reported.second_look == "Second look: refuted. a guard"


def test_the_same_commit_again_fixes_nothing_and_is_no_further_round():
    next_state = follow(
        first_round([named_finding("1"), named_finding("2")], A), [named_finding("2")], A
    )
    assert (
        next_state.number,
        next_state.fixed,
        names(next_state.unanswered),
        names(next_state.open),
    ) == (1, (), "1", "2")
    assert names(follow(next_state, [named_finding("1"), named_finding("2")], B).open) == "12"


def test_findings_without_a_fingerprint_are_told_apart_by_their_words():
    plain = replace(named_finding("1"), fingerprint="")
    hostile = replace(named_finding("1"), fingerprint="--> @user")
    opening = first_round([plain, replace(plain, line=4), hostile], A)
    assert len({reported.fingerprint for reported in opening.state.findings}) == 2
    assert load_state(dump_state(opening.state)) == opening.state


def summary(outcome, kind="judge", unreviewed=(), path="src/a.py"):
    criterion_result = CriterionResult(
        id="x", kind=kind, must=True, weight=1, outcome=outcome, decided_by="none"
    )
    files = (
        ChangedFile(
            path=path, old_path=None, change_type="modified", added=1, deleted=0, binary=False
        ),
    )
    change = ChangeSummary(
        before="1",
        after="2",
        base_commit="",
        head_commit=A,
        patch_id="",
        range_patch_id="",
        files=files,
    )
    rubrics = (
        RubricResult(
            id="r", digest="", outcome="pass", score=1, coverage=1, criteria=(criterion_result,)
        ),
    )
    places = tuple(Unreviewed(path=name, line=0, end_line=0, reason="") for name in unreviewed)
    return Summary(
        run_id="r", key=A, workflow="review", outcome="pass", exit_code=0, bundle="", change=change, rubrics=rubrics,
        trusted=Trusted(revision="", bootstrap=False), unreviewed=places,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("later_summary", "answered"),
    [
        (summary("pass"), True),
        (summary("fail"), True),
        (summary("abstain"), False),
        (summary("error"), False),
        (summary("not_applicable"), False),  # --no-judge reads like that
        (summary("not_applicable", kind="check"), False),
        (summary("error", kind="check"), False),
        (summary("pass", unreviewed=["src/a.py"]), False),
        (summary("pass", kind="check", unreviewed=["src/a.py"]), True),
        (summary("pass", path="src/b.py"), True),  # no longer part of the change
        (summary("abstain", path="src/b.py"), False),
    ],
)
def test_a_run_can_tell_only_about_what_it_decided(later_summary, answered):
    before = first_round([named_finding("1")], A).state
    assert answered_by(later_summary, before)(before.findings[0]) is answered


@pytest.mark.parametrize(
    ("before", "after", "fixed"),
    [
        (
            {"path": "", "line": 0},
            {"path": "", "line": 0},
            False,
        ),  # a command that fails is named by what it prints
        ({}, {"path": "", "line": 0}, False),  # as where the program is missing now
        ({"path": "", "line": 0}, {}, False),
        ({"path": "src/old.py"}, {}, False),  # git mv
        (
            {"path": "src/old.py"},
            {"fingerprint": "3" * 16},
            True,
        ),  # what is still there was said before
        ({}, {}, True),
    ],
)
def test_what_a_criterion_that_still_fails_may_have_found_elsewhere_is_not_fixed(
    before, after, fixed
):
    state = first_round(
        [named_finding("1", **before), named_finding("3", path="src/b.py")], A
    ).state
    later_summary = replace(summary("fail", kind="check"), findings=(named_finding("2", **after),))
    later_round = next_round(
        state,
        later_summary.findings,
        B,
        lambda _: True,
        lambda _: True,
        answered=answered_by(later_summary, state),
    )
    assert ("1" * 16 in {fixed_finding.fingerprint for fixed_finding in later_round.fixed}) is fixed
    passed = replace(summary("pass", kind="check"), findings=())
    later_round = next_round(
        later_round.state,
        (),
        C,
        lambda _: True,
        lambda _: True,
        answered=answered_by(passed, later_round.state),
    )
    assert not later_round.unanswered, "once it passes, all is fixed"


def test_a_word_about_the_gates_change_leaves_open_nothing_about_the_gate():
    state = first_round([named_finding("1", criterion="policy", path="AGENTS.md")], A).state
    override = summaries.waiver("Ada", "meant", of="policy-0123456789abcdef")
    let_pass = summaries.waived(named_finding("2", criterion="policy", path="", line=0), override)
    assert answered_by(replace(summary("pass"), findings=(let_pass,)), state)(state.findings[0])


def test_a_check_with_as_many_findings_as_it_keeps_answers_nothing_about_the_rest():
    before = first_round([named_finding("1")], A).state
    (missing,) = before.findings
    many = [
        named_finding("2", line=number, fingerprint=f"{number:016x}")
        for number in range(1, MAX_FINDINGS + 1)
    ]
    later_summary = replace(summary("fail", kind="check"), findings=tuple(many))
    later_round = next_round(
        before, many, C, lambda _: True, lambda _: True, answered=answered_by(later_summary, before)
    )
    assert (
        later_round.fixed,
        [unanswered_finding.fingerprint for unanswered_finding in later_round.unanswered],
    ) == ((), ["1" * 16])
    assert answered_by(replace(later_summary, findings=tuple(many[1:])), before)(missing)


def test_a_criterion_that_is_asked_no_more_answers_nothing():
    before = first_round([named_finding("1", criterion="y")], A).state
    assert not answered_by(summary("pass"), before)(before.findings[0])
    assert not answered_by(summary("pass", path="src/b.py"), before)(before.findings[0])


def state(number: int, fixed: bool = False) -> RoundState:
    reported_findings = [
        ReportedFinding(fingerprint=f"{index:016x}", criterion="x", path=f"src/{index}.py", line=index, level="warning",
             message=f"{index} " + "é" * 200, since=A, fixed=B if fixed and index >= number // 2 else "")
        for index in range(number)
    ]  # fmt: skip
    return RoundState(number=3, head=A, findings=tuple(reported_findings))


@pytest.mark.parametrize("number", [0, 1, 50, 400])
def test_a_state_travels_unharmed(number):
    text = dump_state(state(number))
    assert load_state(text) == state(number)
    assert len(text) <= MAX_STATE
    assert "--" not in text
    assert text == dump_state(state(number))


def random_message(index: int) -> str:
    return base64.b64encode(zlib.compress(str(index).encode() * 3) * 12).decode()[:280]


@pytest.mark.slow
@pytest.mark.parametrize("number", [400, 10_000])
def test_a_state_that_is_too_large_loses_fixed_ones_then_words_and_the_last_ones_at_the_end(number):
    plain = state(number, fixed=True)
    hostile = tuple(
        replace(reported, message=random_message(n)) for n, reported in enumerate(plain.findings)
    )
    text = dump_state(replace(plain, findings=hostile))
    assert len(text) <= MAX_STATE
    loaded = load_state(text)
    assert loaded is not None
    assert loaded.findings[0].fingerprint == f"{0:016x}"
    if number == 400:
        assert [reported.fingerprint for reported in loaded.findings[:200]] == [
            f"{n:016x}" for n in range(200)
        ]


def packed(value) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


GOOD = {"schema": 1, "number": 1, "head": A, "findings": []}
SEEN = {"fingerprint": "1" * 16, "criterion": "x", "path": "a", "line": 1, "level": "failure", "message": "m",
        "since": A, "fixed": ""}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "====",
        "é",
        "A" * (MAX_STATE + 4),
        base64.b64encode(b"{}").decode(),
        packed([]),
        packed(None),
        packed(GOOD | {"schema": 2}),
        packed(GOOD | {"head": "HEAD"}),
        packed(GOOD | {"head": A + "\n"}),
        packed(GOOD | {"number": 0}),
        packed(GOOD | {"extra": 1}),
        packed(GOOD | {"findings": [SEEN | {"fingerprint": "z" * 16}]}),
        packed(GOOD | {"findings": [SEEN | {"since": "--> @user"}]}),
        packed(GOOD | {"findings": [SEEN | {"line": -1}]}),
        packed(GOOD | {"findings": [SEEN, SEEN]}),
        packed(GOOD)[:-8],
        base64.b64encode(zlib.compress(json.dumps(GOOD).encode()) + b"more").decode(),
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        base64.b64encode(zlib.compress(b" " * (4 << 20) + json.dumps(GOOD).encode())).decode(),
    ],
)
def test_what_is_not_ours_is_no_state(text):
    assert load_state(packed(GOOD | {"findings": [SEEN]})) is not None
    assert load_state(text) is None


HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 1 << 40), st.floats(), st.text(max_size=20),
    st.sampled_from(["\ud800", 1_000_000, "2" * 16, A, B, A + "\n", "src/a.py", "notice", [], {}]),
)  # fmt: skip


def spoilt(valid: dict) -> st.SearchStrategy[dict]:
    """The document with any of its values replaced."""
    return st.fixed_dictionaries(
        {name: st.one_of(st.just(value), HOSTILE) for name, value in valid.items()}
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    document=spoilt(GOOD | {"number": 1_000_000}),
    reported=st.lists(st.one_of(st.just(SEEN), spoilt(SEEN)), max_size=3),
    head=st.sampled_from([A, B]),
)
def test_over_no_state_a_round_stumbles(document, reported, head):
    state = load_state(packed(document | {"findings": reported}))
    if state is None:
        return
    local_findings = [named_finding("1"), named_finding("2", line=1 << 40, end_line=1 << 40)]
    later_round = next_round(state, local_findings, head, lambda _: True, lambda _: True)
    assert load_state(dump_state(later_round.state)) is not None
    assert {finding.fingerprint for finding in later_round.reportable} == {
        "1" * 16,
        "2" * 16,
    }


def test_the_count_of_rounds_stays_at_its_end():
    state = load_state(packed(GOOD | {"number": 1_000_000}))
    assert follow_state(state, []).state.number == 1_000_000


def test_what_a_state_cannot_hold_is_not_remembered():
    many = tuple(
        ReportedFinding(**SEEN | {"fingerprint": f"{number:016x}", "fixed": A})
        for number in range(10_000)
    )
    next_state = follow_state(RoundState(number=1, head=A, findings=many), [named_finding("f")])
    assert next_state.state.findings[0].fingerprint == "f" * 16
    assert len(next_state.state.findings) == 10_000


def follow_state(state: RoundState | None, findings) -> Round:
    return next_round(state, findings, B, lambda _: True, lambda _: True)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.sets(st.sampled_from("123456789")), min_size=1, max_size=6))
def test_over_any_rounds_each_finding_is_in_one_place_and_nothing_is_new_twice_in_a_row(history):
    current, before = None, set()
    for index, present in enumerate(history):
        head = f"{index:040x}"
        findings = [named_finding(name) for name in sorted(present)]
        current = (
            first_round(findings, head) if current is None else follow(current, findings, head)
        )
        groups = [
            names(current.new),
            names(current.open),
            names(current.fixed),
            names(current.withheld),
        ]
        assert sorted("".join(groups)) == sorted(set("".join(groups)))
        assert set(names(current.reportable)) == present
        assert not set(names(current.new)) & before
        assert set(names(current.open)) == before & present
        before = present


def test_a_finding_is_explained_by_the_votes_of_its_own_rubric_where_two_share_an_id():
    def voted(name: str) -> RubricResult:
        vote = fail_vote(f"in {name}", counterexample=name)
        return summaries.rubric(
            summaries.criterion("x", "fail", kind="judge", votes=(vote,), must=name == "a"),
            id=name,
            outcome="fail",
        )

    finding, two = named_finding("1", rubrics=("a",)), named_finding("2", rubrics=("b",))
    voted_summary = summaries.summary(rubrics=(voted("a"), voted("b")), findings=(two, finding))
    explained = explain_state(first_round([finding, two], A).state, voted_summary, 1)
    assert [
        [vote.reason for vote in explained_finding.votes]
        for explained_finding in explained.findings
    ] == [
        ["in a"],
        ["in b"],
    ]
    assert [
        name.fingerprint for name in queries.worst_first(voted_summary.findings, voted_summary)
    ] == [
        "1" * 16,
        "2" * 16,
    ]


SENTENCE = "overridden by @ada until 2026-03-01: meant"
OVERRIDE = summaries.waiver("@ada", "meant", expires=date(2026, 3, 1))
SUPPRESSION = summaries.waiver("@ada", "meant", local=False)


@pytest.mark.parametrize(
    ("fields", "waiver", "grounds", "is_overridden"),
    [
        ({"message": f"{SENTENCE} | bad"}, "", "", False),  # a judge can begin with the same words
        ({"waiver": SENTENCE}, SENTENCE, "", True),  # whose act it was is not said
        (
            {"waiver": SENTENCE, "allowed_by": OVERRIDE},
            SENTENCE,
            "by @ada until 2026-03-01: meant",
            True,
        ),
        (
            {"waiver": SUPPRESSION.sentence, "allowed_by": SUPPRESSION},
            "suppressed by @ada: meant",
            "by @ada: meant",
            False,
        ),
    ],
)
def test_who_let_a_finding_pass_is_a_value_of_it_and_no_words_of_its_message(
    fields, waiver, grounds, is_overridden
):
    finding = named_finding("1", **{"level": "notice"} | fields)
    assert (queries.waiver_text(finding), queries.waiver_grounds(finding)) == (waiver, grounds)
    assert queries.is_overridden(finding) is is_overridden


@pytest.mark.parametrize(
    ("finding", "headline", "meaning"),
    [
        ({"allowed_by": summaries.waiver("@bob", "x", of="policy-", local=False)}, "gate change approved by @bob",
         "approved by @bob"),
        ({"message": "approved by @bob: x"}, "", "let pass"),
        ({"allowed_by": summaries.waiver("Ada", "x", of="policy-")}, "", "let pass"),
        ({"allowed_by": summaries.waiver("@bob", "x", of="policy-")}, "1 finding overridden by @bob", "let pass"),
        ({"allowed_by": summaries.waiver("@bob x", "x", of="policy-", local=False)}, "", "let pass"),
        ({"level": "warning"}, "", "needs approval"),
    ],
)  # fmt: skip
def test_who_approved_a_change_of_the_gate_is_an_account_and_no_words(finding, headline, meaning):
    let_pass = named_finding(
        "1", **{"level": "notice", "criterion": "policy", "path": ""} | finding
    )
    run = summaries.summary(findings=(let_pass,), policy_changes=(summaries.policy(),))
    assert sentences.passed_by_words(run) == headline
    assert sentences.policy_meaning(run.policy_changes[0], run) == meaning


def quoting(name: str, *lines: str, **fields) -> Finding:
    """A judge's finding that quotes these lines of its file."""
    evidence = [
        CheckedEvidence(path="src/a.py", line=3, end_line=3, quote=line, standing="holds")
        for line in lines
    ]
    return named_finding(name, evidence=tuple(evidence), basis="inferred", **fields)


def test_a_defect_of_which_other_lines_are_quoted_is_still_open_and_keeps_its_thread():
    before = first_round([quoting("1", "except OSError:", "    pass")], A)
    after = follow(before, [quoting("2", "try:", "  pass")])
    assert (names(after.new), names(after.open), names(after.fixed)) == ("", "2", "")
    assert after.thread_names == {"2" * 16: "1" * 16}
    later = follow(after, [quoting("1", "except OSError:", "    pass")], C)
    assert (names(later.open), later.thread_names) == ("1", {"1" * 16: "1" * 16})


def test_a_defect_that_went_on_under_another_fingerprint_is_fixed_in_its_thread():
    before = first_round([quoting("1", "pass")], A)
    after = follow(follow(before, [quoting("2", "pass", "try:")]), [], C)
    assert [reported.thread_name for reported in after.fixed] == ["1" * 16]


@pytest.mark.parametrize(
    "other",
    [
        quoting("2", "raise"),
        quoting("2", "pass", criterion="y"),
        replace(quoting("2", "pass"), evidence=()),
    ],
)
def test_another_criterion_or_other_lines_are_another_defect(other):
    after = follow(first_round([quoting("1", "pass")], A), [other])
    assert (names(after.new), names(after.fixed)) == ("2", "1")


def test_one_earlier_finding_goes_on_as_one_finding():
    before = first_round([quoting("1", "pass")], A)
    after = follow(before, [quoting("2", "pass"), quoting("3", "pass", "x")])
    assert (names(after.open), names(after.new)) == ("2", "3")


def test_text_that_spoke_to_the_reviewer_and_is_gone_is_fixed():
    answered = answered_by(summaries.summary(), None)
    before = first_round([named_finding("1", level="warning", criterion="addressed")], A)
    assert names(follow(before, [], answered=answered).fixed) == "1"
