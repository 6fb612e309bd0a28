"""Figures of a terminal: bars and sparklines, at any width, for anybody's names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from rich.cells import cell_len

from vibe_gate.domain.agent_hint import AddressHint, RunAgentHint, TrailerHint, VariableHint
from vibe_gate.domain.bundles import OUTCOMES, STATES, RunEntry
from vibe_gate.domain.event import NODE_STATUSES
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.provenance import agents_named, hints_of_run
from vibe_gate.domain.verdict import LookOutcome, Outcome
from vibe_gate.faces.cli.output import ASCII
from vibe_gate.report import charts, run_list
from vibe_gate.report.feedback import CriterionFeedback
from vibe_gate.report.outcome_words import OUTCOME_WORDS
from vibe_gate.report.statistics import AuthorRuns, Statistics, compute_statistics, draw_statistics

HOSTILE = "\x1b[31m\u202egnp\u200b\n" + "名" * 60


def entry(day: int, outcome: str, author: str = "human") -> RunEntry:
    code = {"pass": 0, "fail": 1}.get(outcome, 3)
    details = {
        "outcome": outcome,
        "exit_code": code,
        "author": author,
        "workflow": "review",
        "cost_usd": 0.5,
    }
    return RunEntry(f"202601{day:02}T120000000Z-0000000{day % 10}", "k", **details)


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0, 0], "  "), ([1, 2, 4, 8, 0], "▁▂▄█ "), ([0.001, 100], "▁█"), ([5], "█")],
)
def test_a_sparkline_has_a_character_a_value(values, line):
    assert charts.draw_sparkline(values) == line


def test_a_bar_is_as_long_as_its_share_and_what_is_there_is_seen():
    assert [charts.draw_bar(value, 100, 10) for value in (0, 0.1, 50, 100)] == [
        "",
        "█",
        "█████",
        "██████████",
    ]
    assert charts.draw_bar(0, 0, 10) == ""
    parts = [("pass", 3), ("fail", 1)]
    assert [line.plain for line in charts.draw_stacked_bar(parts, 8)] == ["██████▓▓"]
    assert charts.draw_key(parts).plain == "█ 3 pass, ▓ 1 fail"
    assert charts.draw_stacked_bar([], 8) == []


def test_runs_are_added_up_by_day_author_and_agent():
    runs = [entry(5, "fail", "agent"), entry(5, "pass", "agent"), entry(3, "fail")]
    total = compute_statistics(runs, {}, lambda run: None)
    assert total.outcomes_by_day == {
        "2026-01-05": {"fail": 1, "pass": 1},
        "2026-01-03": {"fail": 1},
    }
    assert total.authors == {"agent": AuthorRuns(2, 1, 1.0), "human": AuthorRuns(1, 1, 0.5)}
    trailer = TrailerHint(name="Co-Authored-By", agent="Claude")
    variable = VariableHint(name="CLAUDECODE", agent="Claude Code")
    assert agents_named([variable, trailer]) == ("Claude Code",)
    bot = AddressHint(role="author", address="x", agent="a coding bot")
    assert agents_named([bot, TrailerHint(name="Assisted-by", value="Codex")]) == ("Codex",)
    other_trailer = TrailerHint(name="x", value="y")
    assert agents_named((*hints_of_run(["codex-fixer", "a.b"]), other_trailer)) == (
        "a.b",
        "codex-fixer",
    )
    hostile_names = ("\x1b[31mx", "x\n", "")
    assert agents_named(RunAgentHint(agent=name) for name in hostile_names) == ()
    text = draw_statistics(total, 80).plain
    assert text.startswith("3 runs: █ 2 fail, ▓ 1 pass\n█████")
    assert "by day, 2026-01-03 to 2026-01-05\nruns    ▄ █  most 2\nfailed  █ █  most 1\n" in text
    assert f"agent   1 of 2, $1.00  {'█' * 20}{'░' * 20}\n" in text


@pytest.mark.parametrize("columns", [20, 40, 52, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_name_breaks_one(columns):
    total = Statistics(
        runs=9,
        outcomes={"pass": 9, "fail": 1_000, "inconclusive": 20, "approval": 3},
        would_have_blocked={"r" * 90: 3, "general/types": 2},
        usd_by_model={HOSTILE: 1.0, "m": 0.0},
        usd_by_rubric={"": 1.0},
        outcomes_by_day={
            "2020-01-01": {"pass": 1},
            "2026-01-02": {"fail": 8},
            "2026-02-30": {"pass": 1},
        },
        authors={"agent": AuthorRuns(9, 8, 1.0)},
        criteria=[
            CriterionFeedback(
                "r" * 90, "c" * 90, 2, 1, 1, 0, Interval(value=0.5, low=0.0, high=1.0)
            )
        ],
        usd_per_right={"r" * 90: 0.5},
    )
    lines = draw_statistics(total, columns).plain.split("\n")
    assert max(map(cell_len, lines)) <= max(columns, 40)
    assert not set("".join(lines)) & {"\x1b", "\u202e", "\u200b"}
    assert "".join(lines).translate(ASCII).replace("名", "").replace("…", "").isascii()
    assert any(line.endswith("0% to 100%)") for line in lines) == (columns >= 80), (
        "intervals go before names are cut"
    )
    nothing = "0 runs\nfindings: 0 kept, 0 overridden, 0 suppressed\ncost: $0.0000"
    assert draw_statistics(Statistics(), columns).plain.split() == nothing.split()


def test_a_run_id_that_is_no_date_has_no_age():
    run = RunEntry("20260230T120000000Z-00000001", "k", "corrupt")
    (row,) = run_list.render_run_table([run], datetime(2026, 3, 1, tzinfo=UTC), {}, is_screen=False)
    assert list(filter(None, row)) == ["?", "corrupt", run.run_id]


@pytest.mark.parametrize(
    ("width", "heads"),
    [(75, "ago by change found"), (60, "ago by found"), (46, "ago by"), (40, "ago"), (10, "ago")],
)
def test_in_a_narrow_terminal_columns_go_before_a_run_id_is_cut(width, heads):
    facts = {"outcome": "inconclusive", "author": "human", "files": 120, "added": 1_234}
    runs = [RunEntry(f"20260101T120000{at}00Z-00000001", "tree-k", **facts) for at in (1, 2)]
    rows = run_list.render_run_table(runs, datetime(2026, 3, 1, tzinfo=UTC), {}, is_screen=True)
    first, run, _ = run_list.drop_wide_columns(rows, width)
    assert (
        " ".join(
            heading.strip()
            for heading in first
            if heading.strip() not in ("outcome", "run", "title")
        )
        == heads
    )
    assert run[-2:] == ["20260101T120000100", "(uncommitted)"]


def test_every_outcome_state_and_answer_has_one_colour():
    answers = {*get_args(Outcome), *get_args(LookOutcome)}
    assert {*OUTCOMES, *STATES, *answers, *map(str.lower, NODE_STATUSES)} <= OUTCOME_WORDS.keys()


def test_a_legend_explains_the_words_that_stand_in_the_list():
    runs = [
        entry(1, "pass"),
        entry(2, "inconclusive"),
        RunEntry("20260101T120000000Z-00000001", "k", "foreign"),
    ]
    (line,) = run_list.render_run_legend(runs, 400)
    assert "inconclusive: no verdict" in line and "foreign: " in line and "corrupt" not in line
