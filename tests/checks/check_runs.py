"""Asking a check about a change made of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.changes import change, read

from vibe_gate.checks import CHECKS, run_check
from vibe_gate.checks.check_contract import CheckInput, CheckResult, CommandRun, Conduct
from vibe_gate.domain.change import FileDiff, FileVersion, Side
from vibe_gate.domain.document import to_json
from vibe_gate.domain.rubric import Criterion
from vibe_gate.domain.session_record import CapturedRecord
from vibe_gate.domain.tables import read_table


def _no_command(argv: tuple[str, ...], timeout_s: float, side: Side) -> CommandRun:
    raise AssertionError(f"{argv} was run")


def ask(
    check: str,
    *files: FileDiff,
    only: tuple[str, ...] = (),
    must: bool = True,
    policy: tuple[str, ...] = (),
    command: tuple[str, ...] | None = None,
    run_command: Callable[[tuple[str, ...], float, Side], CommandRun] = _no_command,
    redact: Callable[[str], str] = str,
    conduct: Sequence[Conduct] = (),
    record: CapturedRecord | None = None,
    suggest: bool = False,
    reach: tuple[str, ...] = (),
    gitleaks: bytes = b"",
    read_path: Callable[[str], bytes | None] = lambda path: None,
    is_binary: Callable[[FileVersion], bool] = lambda version: False,
    **options: object,
) -> CheckResult:
    """The check's answer (`only`: the criterion's own paths); what every answer promises is
    asserted on the way.
    """
    criterion = Criterion(
        id="asked", kind="check", check=None if command else check, command=command, must=must, paths=only,
        options=options,
    )  # fmt: skip
    assert read_table(CHECKS[check].options, options, []) is not None
    result = run_check(
        CheckInput(
            change=change(*files), criterion=criterion, read=read, run_command=run_command,
            policy=policy, redact=redact, conduct=lambda: tuple(conduct), suggest=suggest, reach=reach,
            record=record,
            gitleaks=gitleaks, read_path=read_path, is_binary=is_binary,
        )
    )  # fmt: skip
    assert 0 < len(result.reason) <= 280
    assert result.reason.isprintable()
    assert any(finding.level != "notice" for finding in result.findings) == (
        result.outcome == "fail"
    )
    for finding in result.findings:
        assert finding.criterion == "asked"
        assert finding.level in ("failure" if must else "warning", "notice")
        assert finding.message.isprintable()
        assert to_json(finding)
        assert all(evidence.standing == "holds" for evidence in finding.evidence)
    return result


def places(result: CheckResult) -> list[tuple[str, int]]:
    """Where the findings point."""
    lines = []
    for finding in result.findings:
        for place in finding.places:
            lines += [(place.path, line) for line in range(place.line, place.end_line + 1)]
    return lines
