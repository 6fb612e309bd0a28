"""`override` and `suppress`: who may let something pass, for how long, and that nothing is hidden
by it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from command import on_a_terminal
from standing import CODE, TIDY, Gated, predicate

from vibe_gate.domain import CI_VARIABLES
from vibe_gate.domain.gate import Override
from vibe_gate.store.clone_state import open_state

pytestmark = pytest.mark.slow

BAD = CODE + "# TODO\n"
ALSO_BAD = BAD + "# TODO more\n"
SOON = str((datetime.now(UTC) + timedelta(days=5)).date())


@pytest.fixture
def gated(tmp_path, environ) -> Gated:
    return Gated(tmp_path / "repo", environ)


def fail(gated: Gated, text: str = BAD) -> list[str]:
    """A failing review of what is staged; the fingerprints of its failures."""
    gated.write("src/pay.py", text)
    gated.git("add", "-A")
    summary = gated.review("--staged")
    assert summary["exit_code"] == 1
    return [
        finding["fingerprint"] for finding in summary["findings"] if finding["level"] == "failure"
    ]


def review_overridden(
    gated: Gated, name: str, reason: str = "the marker is meant"
) -> dict[str, Any]:
    """The review after an override until SOON."""
    result = gated.run("override", name, "--reason", reason, "--expires", SOON)
    assert result.code == 0, result.err
    return gated.review("--staged")


def criterion(summary, name):
    return next(
        entry
        for rubric in summary["rubrics"]
        for entry in rubric["criteria"]
        if entry["id"] == name
    )


def test_an_overridden_finding_no_longer_blocks_and_stays_visible(gated):
    [name] = fail(gated)
    result = gated.run("override", name[:8], "--reason", "the marker is meant", "--expires", SOON)
    assert (
        f"{name} is overridden by Ada <ada@example.org> until {SOON}: the marker is meant"
        in result.out
    )
    assert "(Covers this line of text wherever it stands in the file.)" in result.out
    summary = gated.review("--staged")
    assert (summary["exit_code"], summary["outcome"]) == (0, "pass")
    sentence = f"overridden by Ada <ada@example.org> until {SOON}: the marker is meant"
    assert criterion(summary, "no-todo")["outcome"] == "fail"
    [finding] = summary["findings"]
    assert (finding["level"], finding["waiver"]) == ("notice", sentence)
    screen = gated.run("review", "--staged")
    assert sentence in screen.out


def test_the_receipt_says_who_let_it_pass_verify_shows_it_and_the_bundle_carries_a_remark(gated):
    [name] = fail(gated)
    [bundle] = gated.bundles()
    review_overridden(gated, name)
    assert "the marker is meant" in (bundle / "annotations.ndjson").read_text()
    assert gated.run("bundles", "verify").code == 0
    gated.git("commit", "-q", "-m", "Change")
    waiver = {"finding": name, "reason": "the marker is meant", "by": "Ada <ada@example.org>"}
    assert predicate(gated.bundles()[-1])["waivers"] == [waiver | {"expires": SOON, "local": True}]
    code, [row] = gated.verify()
    assert (code, row["status"]) == (0, "overridden")
    assert row["why"] == f"overridden by Ada <ada@example.org> until {SOON}: the marker is meant"
    assert gated.stand("--strict")[:2] == (1, "failed")


def test_a_secret_in_a_reason_is_in_no_receipt_and_on_no_screen(gated):
    [name] = fail(gated)
    token = "ghp_" + "5FaBzX9qLm" * 3 + "tR2vW8"
    review_overridden(gated, name, f"as {token} says")
    [waiver] = predicate(gated.bundles()[-1])["waivers"]
    assert waiver["reason"].startswith("as [redacted:github-token:")
    assert waiver["reason"].endswith("] says")
    screen = gated.run("review", "--staged").out
    assert "[redacted:github-token:" in screen
    assert token not in screen.replace("\n", "").replace(" ", "")


def record_override(gated: Gated, name: str, **other: Any) -> None:
    """An override of Ada's, as it is not made today."""
    ada = {"by": "Ada <ada@example.org>", "email": "ada@example.org", "expires": date(2099, 1, 1)}
    override = Override(ts="2026-01-01", finding=name, reason="x", **(ada | other))
    open_state(gated.path / ".git").overrides.append(override)


def test_an_expired_override_has_no_effect_and_is_told(gated):
    [name] = fail(gated)
    record_override(gated, name, expires=date(2026, 1, 1))
    result = gated.run("review", "--staged")
    assert result.code == 1
    assert f"The override of {name} by Ada <ada@example.org> expired on 2026-01-01." in result.out


def test_one_finding_overridden_for_thirty_days_leaves_the_others_blocking(gated):
    gated.write("src/cart.py", BAD)
    first, second = fail(gated)
    until = (datetime.now(UTC) + timedelta(days=30)).date()
    assert f"until {until}" in gated.run("override", first, "--reason", "x").out
    summary = gated.review("--staged")
    assert summary["exit_code"] == 1
    assert sorted(finding["level"] for finding in summary["findings"]) == ["failure", "notice"]
    gated.run("override", second, "--reason", "x")
    assert gated.review("--staged")["exit_code"] == 0


def test_overrides_are_listed_and_taken_back(gated):
    assert gated.run("override", "list").out == "No overrides in this clone.\n"
    [name] = fail(gated)
    review_overridden(gated, name)
    listed = gated.run("override", "list").out
    assert listed == f"{name}         until {SOON}    Ada <ada@example.org>: the marker is meant\n"
    assert gated.run("override", "remove", "ffff").code == 2
    assert gated.run("override", "remove", name[:6]).out.startswith(
        f"{name} is not overridden any more."
    )
    assert gated.review("--staged")["exit_code"] == 1
    assert gated.run("override", name).err.startswith(
        "vibe-gate: say why the finding is acceptable"
    )


def test_a_change_of_the_gate_can_be_approved_until_it_changes_again(gated):
    softer = TIDY.replace("TODO", "FIXME")
    gated.write(".vibe-gate/rubrics/tidy.toml", softer)
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 4
    result = gated.run("override", "policy", "--reason", "agreed in the meeting")
    assert "changes of .vibe-gate/rubrics/tidy.toml" in result.out
    summary = gated.review("--staged")
    assert summary["exit_code"] == 0
    assert any("agreed in the meeting" in finding["message"] for finding in summary["findings"])
    assert summary["policy_changes"][0]["level"] == "block"
    gated.write("src/pay.py", CODE.replace("> 0", ">= 0"))
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 0
    gated.write(".vibe-gate/rubrics/tidy.toml", softer + "# softer\n")
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 4


def test_an_agent_is_refused_with_a_sentence_and_in_the_state_ignored(gated):
    [name] = fail(gated)
    for command, environment, sign in (
        ("override", {"CLAUDECODE": "1"}, "CLAUDECODE is set"),
        ("suppress", {"CODEX_SANDBOX": "seatbelt"}, "CODEX_SANDBOX is set"),
        (
            "override",
            {"GIT_AUTHOR_EMAIL": "cursoragent@cursor.com"},
            "cursoragent@cursor.com is Cursor",
        ),
    ):
        result = gated.run(command, name, "--reason", "trust me", **environment)
        assert result.code == 2
        assert f"Only a person can accept a finding, and {sign}" in result.err
    record_override(gated, name, email="cursoragent@cursor.com")
    assert gated.review("--staged")["exit_code"] == 1


def stored_labels(gated: Gated) -> list[tuple[str, bool, str, str]]:
    return [
        (label.finding, label.right, label.reason, label.source)
        for label in open_state(gated.path / ".git").labels.all()
    ]


def test_a_person_labels_a_finding_and_no_verdict_changes(gated):
    [name] = fail(gated)
    result = gated.run("label", name[:6], "wrong", "--reason", "a marker  of the format")
    assert (result.code, result.err) == (0, "")
    assert (
        result.out.splitlines()[0]
        == f"{name} is labelled wrong by Ada <ada@example.org>: a marker of the format"
    )
    assert gated.review("--staged")["exit_code"] == 1
    [label] = open_state(gated.path / ".git").labels.all()
    rubric = gated.review("--staged")["rubrics"][0]
    assert (label.rubric, label.criterion, label.digest, label.model) == (
        "tidy",
        "no-todo",
        rubric["digest"],
        "",
    )
    assert gated.run("label", name, "right").out.startswith(
        f"{name} is labelled right (was wrong) by Ada"
    )
    assert stored_labels(gated) == [(name, True, "", "cli")]
    assert gated.run("label", "list").out == f"{name}  right  tidy/no-todo  Ada <ada@example.org>\n"
    for argv, environment, sentence in (
        ([name, "wrnog"], {}, "'wrnog' is not right or wrong; did you mean 'wrong'?"),
        ([name], {}, "say whether it is right or wrong: vibe-gate label FINDING right|wrong"),
        (["zzzz", "right"], {}, "in brackets at each finding in the output of a review"),
        (["lst"], {}, "did you mean 'list'?"),
        (["0000", "right"], {}, "No run found with a finding 0000."),
        (["remove"], {}, "name the finding"),
        (["remove", "0000"], {}, "no labelled finding matches 0000"),
        (
            [name, "wrong"],
            {"CLAUDECODE": "1"},
            "Only a person can label a finding, and CLAUDECODE is set",
        ),
        (["remove", name], {"CLAUDECODE": "1"}, "Only a person can label a finding"),
    ):
        result = gated.run("label", *argv, **environment)
        assert (result.code, sentence in result.err) == (2, True), (argv, result.err)
    assert gated.run("label", "remove", name[:4]).out == f"{name} is not labelled any more.\n"
    assert gated.run("label", "list").out == "No labels in this clone.\n"
    assert (
        "to take a label back: vibe-gate label remove FINDING"
        in gated.run("label", "list", name).err
    )
    for altered in gated.path.glob(".vibe-artifacts/*/*/summary.json"):
        altered.write_text(altered.read_text().replace('"must":true', '"must":false'))
    assert f"No run found with a finding {name}." in gated.run("label", name, "right").err


def test_who_lets_a_finding_pass_may_say_whether_it_is_wrong_and_no_answer_is_no_label(gated):
    [name] = fail(gated)
    reason = ("--reason", "meant")
    assert gated.run("override", name, *reason).code == 0
    assert stored_labels(gated) == []
    code, screen = on_a_terminal(gated.path, gated.environ, "override", name, *reason, typed=b"w\n")
    assert (code, "Is the finding wrong, or right and accepted?" in screen) == (0, True)
    assert f"{name} is labelled wrong: `vibe-gate stats`" in " ".join(screen.split())
    assert stored_labels(gated) == [(name, False, "meant", "override")]
    code, screen = on_a_terminal(gated.path, gated.environ, "suppress", name, *reason, typed=b"a\n")
    assert (code, stored_labels(gated)) == (0, [(name, True, "meant", "override")])


def test_a_labelled_finding_becomes_a_case_that_test_runs(gated):
    gated.commit("Mark", **{"src/pay.py": BAD})
    [name] = [finding["fingerprint"] for finding in gated.review("HEAD~1..HEAD")["findings"]]
    for argv, environment, sentence in (
        ([name], {}, f"There is no label of finding {name}"),
        (
            [name, "--expect", "fial"],
            {},
            'abstain, not_applicable; did you mean "fail"?',
        ),
        (
            [name, "--expect", "no-todos=fail"],
            {},
            "has no criterion 'no-todos'; did you mean \"no-todo\"?",
        ),
        (
            [name, "--expect", "fail", "--rubric", "tdy"],
            {},
            "has no rubric 'tdy'; did you mean \"tidy\"?",
        ),
        (["HEAD"], {}, "There is no label of any finding of run"),
        (["feed"], {}, "No run found for feed"),
        ([name], {"CLAUDECODE": "1"}, "Only a person can add a finding"),
    ):
        result = gated.run("cases", "add", *argv, **environment)
        assert (result.code, sentence in result.err) == (2, True), (argv, result.err)
    gated.run("label", name, "right", "--reason", "a\x1b[31m marker")
    result = gated.run("cases", "add", name[:6])
    folder = f".vibe-gate/cases/no-todo-{name[:8]}"
    assert result.out.splitlines()[0] == f"{folder}: rubric tidy, expected: no-todo fail"
    written = (gated.path / folder / "case.toml").read_text()
    base, head = gated.git("rev-parse", "HEAD~1"), gated.git("rev-parse", "HEAD")
    assert written.endswith(
        f"# {name} is right, says Ada <ada@example.org>: a\\x1b[31m marker\n"
        f'schema = 1\nrubric = "tidy"\nbase = "{base}"\nhead = "{head}"\n\n[expect]\nno-todo = "fail"\n'
    )
    result = gated.run("test")
    assert (result.code, result.out) == (0, f"no-todo-{name[:8]}: ok\n1 case: 1 ok\n"), result.err
    second = gated.run("cases", "add", name)
    assert (second.code, "is there already; rename or delete it." in second.err) == (2, True)
    gated.run("label", name, "wrong")
    (gated.path / folder).rename(gated.path / ".vibe-gate/cases/right")
    assert gated.run("cases", "add", name, "--patch").code == 0
    assert gated.run("test").code == 1, "the check finds it all the same"
    expectations = ("--expect", "pass", "--expect", "no-tabs=pass")
    result = gated.run("cases", "add", "HEAD", *expectations)
    assert result.code == 0, result.err
    whole_folder = result.out.partition(":")[0]
    assert 'outcome = "pass"' in (gated.path / whole_folder / "case.toml").read_text()


def test_a_case_of_an_uncommitted_change_is_a_patch_without_secrets(gated):
    token = f'KEY = "ghp_{"x7Qm2Rk9" * 4}4fLp"\n'
    [name] = fail(gated, BAD + token)
    gated.git("reset", "-q", "--hard")
    result = gated.run("cases", "add", name, "--expect", "fail")
    assert (result.code, "Secrets of the change are replaced in its patch." in result.out) == (
        0,
        True,
    ), result.err
    folder = gated.path / f".vibe-gate/cases/no-todo-{name[:8]}"
    assert b"x7Qm2Rk9" not in (folder / "change.patch").read_bytes()
    assert f'base = "{gated.first}"\n\n' in (folder / "case.toml").read_text()
    assert gated.run("test").code == 0
    assert gated.git("status", "--porcelain") == "?? .vibe-gate/cases/"


NONSENSE = [
    (["0000000000000000", "--reason", "x"], "No run found with a finding 0000000000000000."),
    (["ab", "--reason", "x"], "is not a fingerprint"),
    (["*", "--reason", "x"], "is not a fingerprint"),
    (["NAME", "--reason", "  "], "The reason is empty"),
    (["NAME"], "--reason"),
    (["NAME", "--reason", "x", "--expires", "2020-01-01"], "2020-01-01 is in the past"),
    (["NAME", "--reason", "x", "--expires", "soon"], "'soon' is not a date"),
    (["list", "extra"], "'extra' belongs to nothing"),
    (["remove"], "name the finding: vibe-gate override remove FINDING"),
    (["lst"], "did you mean 'list'?"),
    (
        ["policy", "--reason", "x"],
        "No review here is about such a change of the gate; run `vibe-gate review --commit REV` for its commit first.",
    ),
]


def test_what_makes_no_sense_is_refused_with_a_sentence(gated):
    [name] = fail(gated)
    for argv, sentence in NONSENSE:
        result = gated.run("override", *(name if word == "NAME" else word for word in argv))
        assert (result.code, sentence in result.err) == (2, True), (argv, result.err)


def merge_suppression(gated: Gated, *argv: str) -> None:
    """A suppression, merged: on disk and committed, so that it is at the trusted revision."""
    result = gated.run("suppress", *argv)
    assert result.code == 0, result.err
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 1
    gated.git("reset", "-q")
    gated.git("add", ".vibe-gate")
    gated.git("commit", "-q", "-m", "Suppress")
    gated.git("add", "-A")


def test_a_suppression_has_an_effect_once_it_is_merged_and_is_shown(gated):
    [name] = fail(gated)
    merge_suppression(gated, name, "--reason", "a marker of the format")
    summary = gated.review("--staged")
    assert summary["exit_code"] == 0
    assert criterion(summary, "no-todo")["outcome"] == "fail"
    [finding] = summary["findings"]
    assert finding["waiver"] == "suppressed by Ada <ada@example.org>: a marker of the format"


def test_a_pattern_suppresses_what_a_criterion_finds_at_some_paths_only(gated):
    fail(gated)
    merge_suppression(gated, "no-todo:src/p*.py", "--reason", "generated")
    assert gated.review("--staged", CI="true")["exit_code"] == 0
    gated.write("src/log.py", "# TODO\n")
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 1


def test_a_suppression_without_a_gate_or_of_an_unknown_criterion_is_refused(gated):
    result = gated.run("suppress", "no-todos:src/**", "--reason", "x")
    assert (result.code, "no criterion 'no-todos'; did you mean 'no-todo'?" in result.err) == (
        2,
        True,
    )
    result = gated.run("suppress", "no-todo:", "--reason", "x")
    assert (result.code, "no-todo: lacks a glob" in result.err) == (2, True)
    gated.git("rm", "-rq", ".vibe-gate")
    result = gated.run("suppress", "no-todo:src/**", "--reason", "x")
    assert (result.code, "run `vibe-gate init` first" in result.err) == (2, True)
    assert not (gated.path / ".vibe-gate").exists()


def test_an_accepted_secret_lets_no_other_value_pass_that_is_shown_alike(gated):
    secrets = (
        '[[criterion]]\nid = "no-secrets"\nkind = "check"\ncheck = "no-secrets"\nmust = true\n'
    )
    gated.write(".vibe-gate/rubrics/tidy.toml", TIDY + secrets)
    gated.commit("Look for secrets")
    token = f'KEY = "ghp_{"x7Qm2Rk9" * 4}4fLp"\n'
    [name] = fail(gated, token)
    assert review_overridden(gated, name)["exit_code"] == 0
    assert fail(gated, token.replace("4fLp", "4fLq")) != [name]
    key = (
        "-----BEGIN "
        + "PRIVATE KEY-----\n"
        + ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "\n") * 5
    )
    assert fail(gated, key) != fail(gated, key.replace("QC7", "QD7"))


def test_an_accepted_remark_of_a_command_lets_no_other_remark_about_its_line_pass(gated):
    lint = '["sh", "-c", "cat lint.out; test ! -s lint.out"]'
    command = f'[[criterion]]\nid = "lint"\nkind = "check"\ncommand = {lint}\nmust = true\n'
    gated.write(".vibe-gate/rubrics/tidy.toml", TIDY + command)
    gated.commit("Lint")
    gated.write("lint.out", "src/pay.py:1:80: E501 line too long (84 > 79)\n")
    [name] = fail(gated, CODE + "\n")
    assert review_overridden(gated, name)["exit_code"] == 0
    gated.write("lint.out", "src/pay.py:2:7: E501 line too long (90 > 79)\n")
    gated.write("src/pay.py", "\n" + CODE)
    gated.git("add", "-A")
    assert gated.review("--staged")["exit_code"] == 0  # the line has moved
    gated.write("lint.out", "src/pay.py:1:80: S307 eval of untrusted input\n")
    [other] = fail(gated, CODE + "\n")
    assert other != name
    assert gated.run("suppress", name, "--reason", "long lines are fine").code == 0
    gated.commit("Suppress it")
    assert fail(gated, CODE + "\n\n") == [other]


def test_an_override_of_a_finding_without_a_line_says_what_it_covers(gated):
    command = '[[criterion]]\nid = "lint"\nkind = "check"\ncommand = ["false"]\nmust = true\n'
    gated.write(".vibe-gate/rubrics/tidy.toml", TIDY + command)
    gated.commit("Lint")
    [name] = fail(gated, CODE + "\n")
    result = gated.run("override", name, "--reason", "broken")
    assert "(It quotes no line: whatever lint says there so is covered.)" in result.out


def test_overrides_have_no_effect_on_any_runner_of_ci(gated):
    [name] = fail(gated)
    assert review_overridden(gated, name)["exit_code"] == 0
    assert gated.review("--staged", CI="")["exit_code"] == 0
    for variable in CI_VARIABLES:
        assert gated.review("--staged", **{variable: "1"})["exit_code"] == 1


def test_of_two_suppressions_that_cover_nothing_the_expired_one_is_told(gated):
    gated.write(
        ".vibe-gate/suppressions.toml",
        'schema = 1\n[[suppression]]\ncriterion = "no-todo"\npaths = ["src/**"]\nreason = "x"\n'
        '[[suppression]]\ncriterion = "no-tabs"\nreason = "y"\nexpires = 2020-01-01\n',
    )
    gated.commit("Suppress")
    gated.write("src/pay.py", CODE.replace("> 0", ">= 0"))
    gated.git("add", "-A")
    result = gated.run("review", "--staged")
    assert result.code == 0
    assert "suppression of no-todo" not in result.out
    assert "The suppression of no-tabs expired on 2020-01-01 and has no effect." in result.out


MISTAKES = [
    ('[[suppression]]\nreason = "x"\n', "schema: write schema = 1"),
    ('schema = 1\n[[suppression]]\nreason = "x"\n', "needs a finding, a criterion or paths"),
    ('schema = 1\n[[suppression]]\ncriterion = "a"\nreasn = "x"\n', 'did you mean "reason"?'),
    ('schema = 1\n[[suppression]]\npaths = ["../x"]\nreason = "x"\n', "leaves the repository"),
]


def test_mistakes_in_the_file_are_told_with_file_and_key(gated):
    for text, sentence in MISTAKES:
        gated.write(".vibe-gate/suppressions.toml", text)
        result = gated.run("config", "check")
        assert result.code == 2
        assert ".vibe-gate/suppressions.toml" in result.out + result.err
        assert sentence in result.out + result.err


def test_suppressing_leaves_comments_and_follows_no_link(gated, tmp_path):
    gated.write(".vibe-gate/suppressions.toml", "# ours\nschema = 1\n")
    assert gated.run("suppress", "*:docs/**", "--reason", 'it says "TODO"\nand more').code == 0
    text = (gated.path / ".vibe-gate/suppressions.toml").read_text()
    assert text.startswith("# ours\nschema = 1\n")
    assert gated.run("config", "check").code == 0
    (tmp_path / "there.toml").write_text("schema = 1\n")
    (gated.path / ".vibe-gate/suppressions.toml").unlink()
    (gated.path / ".vibe-gate/suppressions.toml").symlink_to(tmp_path / "there.toml")
    assert gated.run("suppress", "*:docs/**", "--reason", "x").code == 2
    assert (tmp_path / "there.toml").read_text() == "schema = 1\n"
