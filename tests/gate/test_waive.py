"""`override` and `suppress` in this process: what is written down, for how long, and what is
refused.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from repos import Repo
from standing import CODE, GATE, TIDY
from walks import run_review

from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.gate import POLICY, Suppression
from vibe_gate.domain.summary import Summary
from vibe_gate.domain.verdict import FindingPlace
from vibe_gate.errors import DefinitionError, UsageError
from vibe_gate.gate.stored import stored_finding
from vibe_gate.gate.waive import (
    WaiverAsked,
    add_suppression,
    globs_of_finding,
    override,
    remove_override,
    suppress,
)
from vibe_gate.git import open_repository
from vibe_gate.secrets import Redactor
from vibe_gate.store.clone_state import open_state
from vibe_gate.store.run_result import read_bundle

NOW = datetime(2099, 3, 1, 22, 30, 15, 250, tzinfo=UTC)
TODAY = NOW.date()
BY = "Ada <ada@example.org>"
HEAD = "# What this repository has decided to live with. Read at the trusted revision; docs/reference/receipts.md.\n"


class Reviewed(Repo):
    """A repository whose last commit has a TODO, edits the gate and CLAUDE.md, and was reviewed."""

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        super().__init__(path, environ)
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        gate = {".vibe-gate/gate.toml": GATE, ".vibe-gate/rubrics/tidy.toml": TIDY}
        self.commit("Gate", **gate, **{"src/pay.py": CODE, "CLAUDE.md": "Be brief.\n"})
        edits = {
            ".vibe-gate/gate.toml": GATE + "[budget]\nmax_turns = 3\n",
            "CLAUDE.md": "Be long.\n",
        }
        self.commit("Edit", **edits, **{"src/pay.py": CODE + "# TODO\n"})
        self.summary: Summary = run_review(path, environ).summary
        self.finding = next(
            finding for finding in self.summary.findings if finding.criterion == "no-todo"
        )

    def override(
        self, target: str, reason: str = "meant", expires: date | None = None, **environ: str
    ):
        ask = WaiverAsked(target, reason, expires)
        with open_repository(self.path, read_environment(self.environ | environ)) as repository:
            return override(ask, repository, NOW)

    def suppress(
        self, target: str, reason: str = "meant", expires: date | None = None, **environ: str
    ):
        ask = WaiverAsked(target, reason, expires)
        with open_repository(self.path, read_environment(self.environ | environ)) as repository:
            return suppress(ask, repository, NOW)

    @property
    def overridden(self) -> list[str]:
        return [entry.finding for entry in self.overrides()]

    def overrides(self):
        with open_repository(self.path, read_environment(self.environ)) as repository:
            return open_state(repository.common_dir).overrides.all()

    def remove_override(self, name: str) -> str:
        with open_repository(self.path, read_environment(self.environ)) as repository:
            return remove_override(name, repository)


@pytest.fixture
def reviewed(tmp_path: Path, environ: dict[str, str]) -> Reviewed:
    return Reviewed(tmp_path / "repo", environ)


def test_an_override_has_who_why_until_when_and_of_which_run(reviewed: Reviewed) -> None:
    entry, details = reviewed.override(reviewed.finding.fingerprint[:8], " it\n is  meant ")
    assert details.startswith("no-todo, src/pay.py:6: ")
    assert entry.finding == reviewed.finding.fingerprint
    assert (entry.ts, entry.reason, entry.by, entry.email) == (
        "2099-03-01T22:30:15+00:00", "it is meant", BY, "ada@example.org",
    )  # fmt: skip
    assert entry.expires == date(2099, 3, 31)
    assert entry.run == reviewed.summary.run_id
    assert reviewed.overrides() == (entry,)


def test_the_run_carries_a_remark_of_its_override(reviewed: Reviewed) -> None:
    name = reviewed.finding.fingerprint
    reviewed.override(name, "meant", date(2099, 3, 2))
    place = reviewed.path / reviewed.summary.bundle
    (remark,) = read_bundle(place, redact=Redactor({}), clock=lambda: NOW).annotations()
    assert remark.message == f"{name} is overridden by {BY} until 2099-03-02: meant"
    assert remark.type == "override"


def test_a_change_of_the_gate_is_overridden_by_what_it_changes(reviewed: Reviewed) -> None:
    entry, details = reviewed.override("policy", expires=TODAY)
    assert details == "changes of .vibe-gate/gate.toml"
    assert entry.finding.startswith(POLICY)
    assert len(entry.finding) == len(POLICY) + 16
    assert (entry.expires, entry.run) == (TODAY, reviewed.summary.run_id)


def test_an_override_is_taken_back_by_the_beginning_of_its_finding(reviewed: Reviewed) -> None:
    name = reviewed.override(reviewed.finding.fingerprint)[0].finding
    policy = reviewed.override("policy")[0].finding
    assert reviewed.remove_override(name[:5]) == name
    assert reviewed.overridden == [policy]
    with pytest.raises(UsageError, match="no override matches"):
        reviewed.remove_override(name)


def test_what_cannot_be_let_pass_is_refused_and_nothing_is_written(
    reviewed: Reviewed, subtests: pytest.Subtests
) -> None:
    finding = reviewed.finding.fingerprint
    rows = [
        ({"target": finding, "reason": " \n"}, "The reason is empty"),
        ({"target": finding, "expires": date(2099, 2, 28)}, "2099-02-28 is in the past"),
        ({"target": finding, "CLAUDECODE": "1"}, "Only a person can accept a finding"),
        ({"target": finding[:3]}, "is not a fingerprint"),
        ({"target": "0000"}, "No run found with a finding 0000"),
    ]
    for arguments, sentence in rows:
        with subtests.test(arguments=arguments):
            with pytest.raises(UsageError, match=sentence):
                reviewed.override(**arguments)
            with pytest.raises(UsageError, match=sentence):
                reviewed.suppress(**arguments)
    assert reviewed.overridden == []
    assert not (reviewed.path / ".vibe-gate/suppressions.toml").exists()


def test_without_a_change_of_the_gate_there_is_no_policy_to_override(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    repo = Repo(tmp_path / "repo", environ)
    repo.git("config", "user.name", "Ada")
    repo.git("config", "user.email", "ada@example.org")
    repo.commit("First", a="a\n")
    repo.commit("Second", a="b\n")
    run_review(repo.path, environ)
    with open_repository(repo.path, read_environment(environ)) as repository:
        with pytest.raises(UsageError, match="No review here is about such a change of the gate"):
            override(WaiverAsked("policy", "meant"), repository, NOW)
        with pytest.raises(UsageError, match="there is none: run `vibe-gate init`"):
            suppress(WaiverAsked("no-todo:src/**", "meant"), repository, NOW)


def test_what_is_suppressed_is_a_finding_or_what_a_criterion_finds_at_paths(
    reviewed: Reviewed, subtests: pytest.Subtests
) -> None:
    finding = reviewed.finding.fingerprint
    rows = [
        (finding[:6], {"finding": finding, "criterion": "no-todo", "paths": ("src/pay.py",)}),
        ("no-todo:tests/**", {"criterion": "no-todo", "paths": ("tests/**",)}),
        ("policy:*.toml", {"criterion": "policy", "paths": ("*.toml",)}),
        ("addressed:docs/**", {"criterion": "addressed", "paths": ("docs/**",)}),
        ("*:vendor/**", {"paths": ("vendor/**",)}),
    ]
    for target, values in rows:
        with subtests.test(target=target):
            rule, path = reviewed.suppress(target, " it\n is  meant ", date(2099, 4, 1))
            assert path == ".vibe-gate/suppressions.toml"
            assert rule == Suppression(
                reason="it is meant", by=BY, expires=date(2099, 4, 1), **values
            )
    assert reviewed.suppress("no-tabs:a")[0].expires is None


def test_a_suppressed_finding_has_the_files_of_all_its_places(reviewed: Reviewed) -> None:
    with open_repository(reviewed.path, read_environment(reviewed.environ)) as repository:
        stored = stored_finding(repository, reviewed.finding.fingerprint, NOW)
    place = FindingPlace(path="src/b.py", line=2, end_line=2)
    spread = replace(reviewed.finding, other_places=(place,))
    assert globs_of_finding(replace(stored, finding=spread)) == ("src/pay.py", "src/b.py")


def test_what_names_no_criterion_or_no_glob_is_not_suppressed(
    reviewed: Reviewed, subtests: pytest.Subtests
) -> None:
    rows = [
        ("no-todo:", "no-todo: lacks a glob"),
        ("no-tod:src/**", "has no criterion 'no-tod'; did you mean 'no-todo'"),
        ("zzz:src/**", "there are: no-todo, no-tabs, policy"),
        ("no-todo:/", "cannot be suppressed: "),
    ]
    for target, sentence in rows:
        with subtests.test(target=target), pytest.raises(UsageError, match=sentence):
            reviewed.suppress(target)


RULE = Suppression(finding="0123456789abcdef", criterion="no-todo", reason="meant", by=BY)
ENTRY = f'[[suppression]]\nfinding = "0123456789abcdef"\ncriterion = "no-todo"\nreason = "meant"\nby = "{BY}"\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, HEAD + "schema = 1\n\n" + ENTRY),
        ("# ours\nschema = 1\n", "# ours\nschema = 1\n\n" + ENTRY),
        ("schema = 1", "schema = 1\n\n" + ENTRY),
    ],
)
def test_a_suppression_is_added_at_the_end_of_its_file(
    tmp_path: Path, old: str | None, new: str
) -> None:
    file = tmp_path / ".vibe-gate" / "suppressions.toml"
    if old is not None:
        file.parent.mkdir()
        file.write_text(old)
    assert add_suppression(tmp_path, RULE) == ".vibe-gate/suppressions.toml"
    assert file.read_text() == new
    assert [path.name for path in file.parent.iterdir()] == ["suppressions.toml"]


@pytest.mark.parametrize(
    "old", ["schema = \n", "schema = 1\nunknown = 2\n", "schema = 1\nsuppression = 3\n"]
)
def test_a_file_with_mistakes_stays_as_it_is(tmp_path: Path, old: str) -> None:
    file = tmp_path / ".vibe-gate" / "suppressions.toml"
    file.parent.mkdir()
    file.write_text(old)
    with pytest.raises(DefinitionError):
        add_suppression(tmp_path, RULE)
    assert file.read_text() == old


def test_no_link_is_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "suppressions.toml").write_text("schema = 1\n")
    linked_folder, linked_file = tmp_path / "one", tmp_path / "two"
    linked_folder.mkdir()
    (linked_folder / ".vibe-gate").symlink_to(elsewhere)
    (linked_file / ".vibe-gate").mkdir(parents=True)
    (linked_file / ".vibe-gate" / "suppressions.toml").symlink_to(elsewhere / "suppressions.toml")
    for root in (linked_folder, linked_file):
        with pytest.raises(UsageError, match="is a symbolic link"):
            add_suppression(root, RULE)
    assert (elsewhere / "suppressions.toml").read_text() == "schema = 1\n"
