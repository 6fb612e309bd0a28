"""Which lines changed between two commits: those of a finding that is gone decide whether somebody
fixed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from repos import Repo

from vibe_gate.domain.environment import read_environment
from vibe_gate.domain.verdict import CheckedEvidence, Finding
from vibe_gate.faces.action.report_inputs import lines_since
from vibe_gate.git import Credentials
from vibe_gate.report.round import first_round
from vibe_gate.report.round_state import RoundState

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def finding(line: int, end_line: int = 0, *, path: str = "a.py", **fields: object) -> Finding:
    values = {"level": "failure", "criterion": "tidy", "message": "Untidy", "fingerprint": "f" * 16}
    return Finding(path=path, line=line, end_line=max(line, end_line), **(values | fields))


def quote(path: str, line: int, side: str = "after") -> CheckedEvidence:
    return CheckedEvidence(
        path=path, line=line, end_line=line, quote="x", side=side, standing="holds"
    )


@pytest.fixture
def replaced(tmp_path: Path, environ: dict[str, str]):
    """Whether a commit that writes this text replaces lines of the finding, which stood in ten
    lines.
    """
    repo = Repo(tmp_path / "r", environ)
    before = repo.commit("before", **{"a.py": TEN, "b.py": TEN, "run.sh": TEN})

    def is_replaced(of: Finding, *, path: str = "a.py", text: str | None = None) -> bool:
        if text is None:
            repo.git("rm", "-q", path)
        after = repo.commit("after", **({} if text is None else {path: text}))
        reported = first_round([of], before).state.findings[0]
        lines = lines_since(repo.path, read_environment(environ), after, Credentials())(before)
        assert lines is not None
        return lines.replaces(reported)

    return is_replaced


def written(*, instead: Mapping[int, str] = {}, above: Mapping[int, str] = {}) -> str:
    """The ten lines, some of them replaced, some with text above them."""
    lines = [
        above.get(number, "") + instead.get(number, f"line {number}\n") for number in range(1, 11)
    ]
    return "".join(lines) + above.get(11, "")


@pytest.mark.parametrize(
    ("of", "text", "expected"),
    [
        (finding(5), written(instead={5: "better\n"}), True),
        (finding(5), written(instead={5: ""}), True),
        (finding(4, 6), written(instead={6: "better\n"}), True),
        (finding(4, 6), written(above={5: "guard\n"}), True),
        (finding(5), written(instead={4: "other\n", 6: "other\n"}), False),
        (finding(5), written(above={1: "moved down\n" * 40}), False),
        (finding(10), written(above={11: "more\n"}), False),
        (finding(5), written(above={5: "above\n", 6: "below\n"}), False),
        (finding(0), written(above={11: "more\n"}), True),
        (finding(1, 10), None, True),
        (finding(0, path=""), written(instead={9: "other\n"}), True),
        (
            finding(5, evidence=(quote("a.py", 5), quote("a.py", 9))),
            written(instead={9: "better\n"}),
            True,
        ),
        (
            finding(5, evidence=(quote("a.py", 5), quote("a.py", 9))),
            written(instead={7: "other\n"}),
            False,
        ),
        (
            finding(3, evidence=(quote("a.py", 3, "before"),)),
            written(instead={8: "brought back\n"}),
            True,
        ),
    ],
)
def test_only_a_commit_that_changed_its_lines_can_have_fixed_a_finding(
    replaced, of, text, expected
):
    assert replaced(of, text=text) is expected


def test_a_commit_in_another_file_fixes_nothing(replaced):
    assert replaced(finding(5), path="b.py", text="other\n") is False


def test_a_line_that_a_finding_quotes_in_another_file_counts(replaced):
    of = finding(5, evidence=(quote("a.py", 5), quote("b.py", 2)))
    assert replaced(of, path="b.py", text=written(instead={2: "better\n"})) is True


def test_a_mode_alone_changes_no_line(tmp_path, environ):
    repo = Repo(tmp_path / "r", environ)
    before = repo.commit("before", **{"run.sh": TEN})
    repo.git("update-index", "--chmod=+x", "run.sh")
    repo.git("commit", "-q", "-m", "mode")
    lines = lines_since(
        repo.path, read_environment(environ), repo.git("rev-parse", "HEAD"), Credentials()
    )(before)
    assert lines is not None
    reported = first_round([finding(3, path="run.sh")], before).state.findings[0]
    assert not lines.replaces(reported)


def test_a_head_that_is_gone_says_nothing(tmp_path, environ):
    repo = Repo(tmp_path / "r", environ)
    head = repo.commit("only", **{"a.py": TEN})
    assert lines_since(repo.path, read_environment(environ), head, Credentials())("1" * 40) is None


def test_a_state_of_an_earlier_version_says_where_its_findings_stood():
    state = first_round([finding(5)], "a" * 40).state
    earlier: RoundState = replace(state, findings=(replace(state.findings[0], at=()),))
    assert earlier.findings[0].places == (("a.py", 5, 5),)
