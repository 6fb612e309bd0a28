"""The site of all runs: what its index and pictures say, and what stands in them of others'
texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from lxml import html
from msgspec.structs import replace
from summaries import HEAD, criterion, finding, rubric, summary, waiver
from written_runs import ATTACK

from vibe_gate.domain.agent_hint import TrailerHint
from vibe_gate.domain.bundles import RunEntry
from vibe_gate.domain.calibration import Baseline, LabelledAnswers, count_cases
from vibe_gate.domain.gate import Trust
from vibe_gate.domain.interval import Interval
from vibe_gate.domain.label import Label
from vibe_gate.domain.summary import AgentAuthored, CacheUse, Cost, Summary
from vibe_gate.domain.verdict import TrustBadge
from vibe_gate.receipts.commit_status import ChangeIdentity, CommitStatus
from vibe_gate.receipts.verify_range import Verification
from vibe_gate.report.run_figures import RunFigures, extract_figures, pack_figures, unpack_figures
from vibe_gate.report.site import CommitTime, Site, SiteRun, commits_before, render_index_page
from vibe_gate.report.site.site_runs import build_script_data, split_days
from vibe_gate.report.statistics import compute_statistics

FIRST = datetime(2026, 10, 5, 12, tzinfo=UTC)
MARK = "0123456789abcdef"


def entry(number: int, **fields: Any) -> RunEntry:
    at = FIRST + timedelta(days=number)
    values = {
        "outcome": "pass",
        "author": "human",
        "workflow": "review",
        "rubrics": (("quality", "pass"),),
    } | fields
    return RunEntry(f"{at:%Y%m%dT%H%M%S}000Z-{number:08x}", HEAD, **values)


def site_of(
    *runs_with_summaries: tuple[RunEntry, Summary], labels: Sequence[Label] = (), **fields: Any
) -> Site:
    figures = {run.run_id: extract_figures(run_summary) for run, run_summary in runs_with_summaries}
    runs = sorted((run for run, _ in runs_with_summaries), reverse=True)
    total = compute_statistics(runs, {}, lambda run: figures[run.run_id], labels)
    title, people = fields.pop("title", ""), fields.pop("people", {})
    site_runs = (
        SiteRun(run, figures[run.run_id], title, person=people.get(run.run_id, "")) for run in runs
    )
    return Site(tuple(site_runs), total, tuple(labels), **fields)


def failed(mark: str = MARK, agent: str = "Claude Code", **fields: Any) -> Summary:
    blocker = finding(criterion="types", fingerprint=mark, **fields)
    bad = criterion("types", "fail", kind="judge")
    return summary(
        rubrics=(rubric(bad, outcome="fail"),), findings=(blocker,),
        agent_authored=AgentAuthored(decision=True, hints=(TrailerHint(name="Co-Authored-By", agent=agent),)),
        cost=Cost(usd=0.25, basis="known", by_model={"a-model": 0.25}), cache=CacheUse(hits=1, misses=3),
    )  # fmt: skip


def label(right: bool, **fields: Any) -> Label:
    values = {"ts": FIRST, "finding": MARK, "rubric": "quality", "criterion": "types", "by": "Ada", "digest": "",
              "source": "cli"}  # fmt: skip
    return Label(right=right, **(values | fields))


def page_of(site: Site) -> html.HtmlElement:
    return html.fromstring(render_index_page(site))


def table_of(page: html.HtmlElement, figure: str) -> list[list[str]]:
    return [
        [cell.text_content() for cell in row] for row in page.xpath(f"//figure[@id='{figure}']//tr")
    ]


BOTH = (
    (entry(0, cost_usd=0.5, cost_basis="known", duration_ms=2_250), summary()),
    (
        entry(
            2,
            outcome="fail",
            exit_code=1,
            author="agent",
            cost_usd=0.25,
            cost_basis="known",
            findings=1,
        ),
        failed(),
    ),
)


def test_the_pictures_tell_the_runs_and_lead_to_them():
    page = page_of(site_of(*BOTH))
    assert table_of(page, "runs-over-time") == [
        ["Days", "pass", "fail"],
        ["2026-10-05", "1", ""],
        ["2026-10-07", "", "1"],
    ]
    assert table_of(page, "usd-over-time") == [
        ["Days", "a-model", "other", "total"], ["2026-10-05", "", "0.5000", "0.5000"],
        ["2026-10-07", "0.2500", "", "0.2500"],
    ]  # fmt: skip
    assert table_of(page, "seconds")[1] == [
        "2026-10-05",
        "2.3 s",
        "2.3 s",
        "",
    ]  # as the list says it
    assert table_of(page, "reuse")[1] == ["2026-10-07", "1", "3"]
    assert [row[:3] for row in table_of(page, "authors")[1:]] == [
        ["agents", "1 of 1 failed", "1 of 1 failed"], ["people", "0 of 1 failed", "0 of 1 failed"],
        ["Claude Code", "1 of 1 failed", "1 of 1 failed"],
    ]  # fmt: skip
    links = page.xpath("//figure//table//a/@href")
    assert "#from=2026-10-07&to=2026-10-07&outcome=fail" in links
    assert "#from=2026-10-07&to=2026-10-07&model=a-model" in links
    assert "#agent=Claude%20Code&outcome=fail" in links
    texts = [part.text_content() for part in page.xpath("//p[@class='sentence']")]
    assert texts == [
        f"Most was spent on 2026-10-05: $0.5000, $0.5000 of it on review {BOTH[0][0].run_id}.",
        "1 of 4 answers (25%) from earlier runs, in 1 run.",
    ]  # fmt: skip
    ticks = page.xpath("//figure[@id='runs-over-time']//text[contains(@class, 'tick end')]")
    assert [tick.text for tick in ticks] == ["0", None, "1"]


def test_a_pass_that_no_judge_gave_is_named_and_drawn_as_another_outcome():
    passes = (
        (entry(0), summary()),
        (entry(1, extent="checks"), summary()),
        (entry(2, extent="nothing"), summary()),
    )
    page = page_of(site_of(*passes))
    assert table_of(page, "runs-over-time")[0] == ["Days", "pass", "checks-only", "nothing"]
    [keys] = page.xpath("//figure[@id='runs-over-time']//ul")
    assert [key.get("class") for key in keys.xpath(".//span")] == ["key pass", "key s0", "key s7"]
    assert "nothing: nothing was reviewed" in page.xpath("string(//figure[@id='runs-over-time'])")
    assert [link.get("href") for link in page.xpath("//header//dd/a")] == [
        "#outcome=checks-only", "#outcome=nothing", "#outcome=pass",
    ]  # fmt: skip
    assert [word.text for word in page.xpath("//table[@id='list']//span[contains(@class, 'badge')]")] == [
        "nothing", "checks-only", "pass",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "waiver", "word"),
    [
        ([], "", "no word yet"),
        ([label(right=True)], "", "right"),
        ([label(right=True), label(right=False, ts=FIRST + timedelta(1))], "", "wrong"),
        ([label(right=True, source="override")], "", "accepted"),
        ([], "overridden by Ada until 2027-01-01: agreed", "overridden"),
        ([label(right=True)], "overridden by Ada until 2027-01-01: agreed", "accepted"),
        (
            [label(right=False, source="override")],
            "overridden by Ada until 2027-01-01: wrong",
            "wrong",
        ),
    ],
)
def test_what_people_said_of_a_finding_counts_once(labels, waiver, word):
    failure = failed(**({"waiver": waiver} if waiver else {}))
    page = page_of(site_of((entry(0), failure), (entry(1), failure), labels=labels))
    head, row = table_of(page, "findings")
    assert dict(zip(head, row, strict=True)) == dict.fromkeys(head, "") | {
        "Criterion": "quality/types", "Found": "1", word: "1",
    }  # fmt: skip
    data = json.loads(page.xpath("//script[@id='data']")[0].text)
    assert [data["words"][word] for run in data["runs"] for _, word in run[14]] == [word, word]


def test_calibration_has_intervals_of_labels_and_of_cases():
    counted = count_cases(
        "types", [LabelledAnswers(True, ("pass",)), LabelledAnswers(False, ("fail",))]
    )
    measured = Baseline(
        schema=1,
        rubric="quality",
        digest="0" * 64,
        model="m",
        template=1,
        created_at="2026",
        criterion=(counted,),
    )
    page = page_of(site_of(*BOTH, labels=[label(right=True)], baselines=(measured,)))
    for name, percentage in (("precision", "100%"), ("recall", "100%"), ("false-blocks", "0%")):
        assert table_of(page, name)[1][:3] == [
            "quality/types",
            "0 of 1" if name == "false-blocks" else "1 of 1",
            percentage,
        ]


def test_sentences_name_what_stands_out_and_lead_there():
    other = failed(agent="Codex")
    entries = []
    for number in range(6):
        for run_summary, outcome, at in (
            (failed(), "pass" if number else "fail", 0),
            (other, "fail", 1),
            (failed(), "pass", 34),
        ):
            took = 30_000 if at < 28 else 60_000  # ends with a Sunday
            cost = {"cost_usd": 0.25, "cost_basis": "known", "duration_ms": took}
            run = entry(at, outcome=outcome, author="agent", paths=("a.py", f"{number}.py"), **cost)
            key = (
                f"tree-{HEAD}" if run_summary is other and number == 5 else HEAD
            )  # what is staged is no commit
            entries.append(
                (replace(run, run_id=f"{run.run_id[:-1]}{number}", key=key), run_summary)
            )
    site = site_of(*entries, labels=[label(right=False)])
    page = page_of(site)
    sentences = " ".join(part.text_content() for part in page.xpath("//p[@class='sentence']"))
    assert (
        "Wrong most often: quality/types, 1 of 1 finding that people labelled, in 18 runs."
        in sentences
    )
    assert "Of agents, Codex fails most: 6 of 6 runs (100%), and 1 of 1 commits." in sentences
    assert (
        "60.0 s from 2026-11-02 to 2026-11-08, 30.0 s from 2026-10-05 to 2026-10-11: 100% slower."
        in sentences
    )
    assert "Most: a.py, changed by 7 failed runs." in sentences
    links = page.xpath("//p[@class='sentence']//a/@href")
    assert "#criterion=quality%2Ftypes&said=wrong" in links
    assert "#agent=Codex&outcome=fail" in links
    assert "#from=2026-11-02&to=2026-11-08&workflow=review" in links
    titles = page.xpath("//figure[@id='runs-over-time']//title/text()")
    assert titles[0] == "2026-10-05, pass: 5"
    assert table_of(page, "files")[1] == ["a.py", "7 of 18 failed", "7", "11"]
    assert "#path=a.py&outcome=fail" in page.xpath("//figure[@id='files']//td//a/@href")


def test_whether_a_judge_may_block_is_told_with_the_sum_of_cases_and_labels():
    counts = {
        "state": "calibrated",
        "sentence": "4 of 213 clean blocked",
        "clean": 213,
        "blocked": 4,
        "wrong": 3,
    }
    recall = Interval(0.8, 0.7, 0.9)
    badges = {
        "lost": TrustBadge(**counts, blocks=False, needed=225, defective=10, found=8, recall=recall),
        "new": TrustBadge(state="uncalibrated", sentence="uncalibrated, 1 change wrongly blocked", clean=1, blocked=1,
                          wrong=1),
        "shaky": TrustBadge(state="unsteady", sentence="", clean=9, flips=2),
    }  # fmt: skip
    judges = {("quality", name): badge for name, badge in badges.items()}
    page = page_of(site_of(*BOTH, judges=judges, trust=Trust(block="earned")))
    until = "no, only advises until 12 more clean changes are labelled"
    assert table_of(page, "judges")[1:] == [
        ["quality/lost", f"{until}. It would block without the 3 changes labelled wrong",
         "4 of 213: 1 of 210 cases and 3 changes labelled wrong", "8 of 10: 80% (70% to 90%)", "calibrated"],
        ["quality/new", "yes", "1 change labelled wrong", "", "uncalibrated, 1 change wrongly blocked"],
        ["quality/shaky", "yes", "0 of 9 cases", "", "unsteady: 2 cases flipped"],
    ]  # fmt: skip
    rules = {}
    for trust in (
        Trust(block="earned", max_false_blocks=0.025),
        Trust(uncalibrated="advise"),
        Trust(),
    ):
        sentence = (
            page_of(site_of(*BOTH, judges=judges, trust=trust))
            .xpath("//figure[@id='judges']//p")[0]
            .text
        )
        rules[trust.block, trust.uncalibrated] = sentence.partition(". ")[0]
    assert rules == {
        (
            "earned",
            "block",
        ): "A fail blocks while labelled answers show that the judge blocks at most 2.5% of clean "
        "changes",
        ("always", "advise"): "A fail blocks if its judge is calibrated",
        (
            "always",
            "block",
        ): "Every fail blocks, whatever is known of its judge ([trust] in gate.toml can change that)",
    }


def test_what_people_let_pass_stands_open_with_who_until_when_and_why():
    agreed, disputed = (
        waiver("Bo", reason, expires=date(2027, 1, 1)) for reason in ("agreed", "no defect")
    )
    passed = failed(waiver=agreed.sentence, allowed_by=agreed)
    other, both_failure = (
        failed("f" * 16),
        failed("e" * 16, waiver=disputed.sentence, allowed_by=disputed),
    )
    runs = (
        (entry(0), failed()),
        (entry(1), passed),
        (entry(2), passed),
        (entry(3), other),
        (entry(4), both_failure),
    )
    labels = [
        label(right=False, finding=mark * 16, reason="no", by="Ada <ada@example.org>")
        for mark in "ef"
    ]
    page = page_of(site_of(*runs, labels=labels))
    parts = page.xpath("//section[@id='said']/details")
    assert [(part.get("id"), part.get("open") is not None) for part in parts] == [
        ("said-let-pass", True),
        ("said-wrong", False),
    ]
    rows = [[cell.text_content() for cell in part.xpath(".//tbody/tr/td")] for part in parts]
    wrong = [
        "2026-10-05",
        "quality/types",
        "src/a.py",
        "wrong",
        "Bo until 2027-01-01: no defect",
        runs[4][0].run_id,
    ]
    assert rows == [
        [
            "2026-10-06",
            "quality/types",
            "src/a.py",
            "overridden",
            "Bo until 2027-01-01: agreed",
            runs[1][0].run_id,
            *wrong,
        ],
        [*wrong, "2026-10-05", "quality/types", "src/a.py", "wrong", "Ada: no", runs[3][0].run_id],
    ]
    heads = [part.find("summary").text for part in parts]
    assert heads == ["let pass: 2 findings (1 overridden, 1 wrong)", "wrong: 2 findings"]
    assert dict(zip(*table_of(page, "findings"), strict=True))["wrong"] == "2"
    assert page.xpath("//section[@id='said']//a/@href")[0] == f"#run={runs[1][0].run_id}"


def test_runs_are_listed_with_the_author_of_their_commit():
    people = {"human": (), "agent": ("Codex",), "agent ": ()}
    runs = [SiteRun(entry(at, author=kind.strip()), RunFigures(agents=agents), person="Ada\u202e")
            for at, (kind, agents) in enumerate(people.items())]  # fmt: skip
    site = Site(tuple(runs), compute_statistics([run.entry for run in runs], {}, lambda run: None))
    assert [run.by for run in runs] == ["Ada\\u202e", "Ada\\u202e (Codex)", "Ada\\u202e (agent)"]
    page = page_of(site)
    assert [row[2].text_content() for row in page.xpath("//table[@id='list']//tbody/tr")] == [
        run.by for run in runs
    ]
    data = json.loads(page.xpath("//script[@id='data']")[0].text)
    assert (data["people"], data["workflows"], [run[17:19] for run in data["runs"]]) == (
        ["Ada\\u202e"],
        ["review"],
        [[0, 0]] * 3,
    )


def test_commits_that_were_never_reviewed_stand_open():
    commits = tuple(
        (
            ChangeIdentity(name * 40, "", "", "", title=f"title {name}"),
            CommitStatus(word, why=f"why {word}"),
        )
        for name, word in (
            ("a", "reviewed"),
            ("b", "missing"),
            ("c", "bypassed"),
            ("d", "overridden"),
        )
    )
    authorship = {"b" * 40: ("2026-10-05", "Ada")}
    page = page_of(
        site_of(
            *BOTH,
            coverage=Verification(commits, "", "", strict=False),
            commits="main",
            authorship=authorship,
        )
    )
    assert table_of(page, "coverage")[1:] == [
        ["reviewed", "1"], ["overridden", "1"], ["missing", "1"], ["bypassed", "1"],
    ]  # fmt: skip
    sentence = page.xpath("//figure[@id='coverage']//p")[0].text
    assert sentence.startswith(
        "vibe-gate verify accepts 2 of 4 commits: 1 reviewed, 1 overridden. Overridden: reviewed, and"
    )
    parts = page.xpath("//section[@id='commits']/details")
    assert [(part.get("id"), part.get("open") is not None) for part in parts] == [
        ("commits-bypassed", True), ("commits-missing", True), ("commits-overridden", False),
        ("commits-reviewed", False),
    ]  # fmt: skip
    cells = [[cell.text_content() for cell in part.xpath(".//tbody//td")] for part in parts[:2]]
    assert [row[1:5] for row in cells] == [
        ["title c", "", "", "why bypassed"], ["title b", "2026-10-05", "Ada", "why missing"],
    ]  # fmt: skip


def status_of(word: str) -> CommitStatus:
    return CommitStatus(word, why=word)


def coverage_of(*words: str) -> Verification:
    """Commits a, b, c ... with these statuses, the newest first."""
    commits = [
        ChangeIdentity(chr(97 + at) * 40, "", "", "", title=f"title {at}")
        for at in range(len(words))
    ]
    return Verification(
        tuple(zip(commits, map(status_of, words), strict=True)), "", "", strict=False
    )


def read_coverage(*words: str, older: str, first_run: str) -> tuple[str, list[str], list[str]]:
    """The section's sentence, the heads of its folds, and the statuses of its picture."""
    site = site_of(
        *BOTH, coverage=coverage_of(*words), commits="main", first_run=first_run,
        older=frozenset(letter * 40 for letter in older),
    )  # fmt: skip
    section = page_of(site).xpath("//section[@id='commits']")[0]
    folds = [head.text_content() for head in section.xpath("./details/summary")]
    texts = [item.text_content() for item in section.xpath(".//ul[@class='keys-of']/li")]
    return section.xpath(".//p[@class='sentence']")[0].text, folds, texts


SINCE = "Reviewed since 2026-10-05, the first run stored here: "


@pytest.mark.parametrize(
    ("words", "older", "sentence", "folds"),
    [
        (
            ("reviewed", "missing", "missing", "missing"), "cd",
            SINCE + "vibe-gate verify accepts 1 of 2 commits: 1 reviewed. 1 was never reviewed. "
            "2 older commits without a review are not counted.",
            ["missing: 1 commit", "reviewed: 1 commit", "older than the first run: 2 commits"],
        ),
        (
            ("missing", "empty"), "ab",
            SINCE + "no commit yet. 2 older commits without a review are not counted.",
            ["older than the first run: 2 commits"],
        ),
        (  # what was reviewed afterwards, or seen to be bypassed, counts whatever its age
            ("reviewed", "bypassed", "missing"), "abc",
            SINCE + "vibe-gate verify accepts 1 of 2 commits: 1 reviewed. 1 was never reviewed, 1 of them bypassed. "
            "1 older commit without a review is not counted.",
            ["bypassed: 1 commit", "reviewed: 1 commit", "older than the first run: 1 commit"],
        ),
        (
            ("reviewed", "missing"), "",
            "vibe-gate verify accepts 1 of 2 commits: 1 reviewed. 1 was never reviewed.",
            ["missing: 1 commit", "reviewed: 1 commit"],
        ),
    ],
)  # fmt: skip
def test_commits_that_are_older_than_the_first_run_are_no_gap(words, older, sentence, folds):
    caption, heads, bars = read_coverage(*words, older=older, first_run="2026-10-05")
    assert (caption, heads) == (sentence, folds)
    assert sorted(bars) == sorted(
        head.partition(":")[0] for head in folds if not head.startswith("older")
    )


def test_without_a_run_no_commit_is_called_never_reviewed():
    caption, heads, bars = read_coverage("missing", "missing", older="ab", first_run="")
    assert caption == "No run is stored here yet; commits count from the first run on."
    assert (heads, bars) == (["without a run: 2 commits"], [])


@pytest.mark.parametrize(
    ("times", "older"),
    [
        ({"c": 30, "b": 20, "a": 10}, "ab"),  # the run began at 25
        ({"c": 30, "b": 25, "a": 10}, "a"),
        (
            {"d": 10, "c": 30, "b": 20},
            "b",
        ),  # a date that was set back, after a commit since the run
        ({"c": 20, "b": None, "a": 10}, "ac"),
        ({"c": 20, "b": 4_000, "a": 10}, "ac"),  # a clock that was wrong
        ({"c": 30, "b": None, "a": None}, ""),
    ],
)
def test_a_commit_is_older_by_its_date_unless_it_follows_one_that_is_not(times, older):
    names = list(times)
    parents = dict(zip(names, [*names[1:], ""], strict=True))
    commit_times = {name: CommitTime(time, tuple(parents[name])) for name, time in times.items()}
    assert commits_before(25, 100, names, commit_times) == frozenset(older)


def test_a_branch_from_before_the_first_run_that_is_merged_after_it_is_older():
    commit_times = {
        "m": CommitTime(40, ("new", "branch")), "new": CommitTime(30, ("base",)),
        "branch": CommitTime(20, ("base",)), "base": CommitTime(10, ()),
    }  # fmt: skip
    assert commits_before(25, 100, ["m", "branch", "new", "base"], commit_times) == {
        "branch",
        "base",
    }


def test_texts_of_others_are_text_cut_and_visible():
    name = ATTACK + "\ud800" + "x" * 1_000_000
    hostile = summary(
        rubrics=(rubric(criterion(name, "fail"), outcome="fail", id=name),),
        findings=(finding(criterion=name, fingerprint=MARK, waiver=f"overridden by {name}"[:280]),),
        cost=Cost(usd=1.0, basis="known", by_model={name: 1.0}),
    )
    commit = (ChangeIdentity("a" * 40, "", "", "", title=name), CommitStatus("missing", why=name))
    site = site_of(
        (entry(0, outcome="fail", cost_usd=1.0, author=name, workflow=name, paths=(name,) * 200), hostile),
        title=name, only=name, commits=name, people={entry(0).run_id: name},
        coverage=Verification((commit,), "", "", strict=False),
    )  # fmt: skip
    text = render_index_page(site)
    assert len(text) < 300_000
    page = html.fromstring(text)
    assert page.xpath("//img") == []
    assert len(page.xpath("//script")) == 2
    assert "\u202e" not in text
    assert text.encode()


def test_figures_that_are_kept_are_the_same():
    figures = extract_figures(failed())
    assert unpack_figures(pack_figures(figures)) == figures
    spent = {
        "judge-general-ap": 0.2,
        "second-look-general": 0.1,
        "judge-general-x": 1.0,
        "else": 2.0,
    }
    rubrics = tuple(
        replace(failed().rubrics[0], id=name, criteria=()) for name in ("general", "general-x")
    )
    of_review = replace(
        failed(), rubrics=rubrics, cost=Cost(by_node=spent)
    )  # whose budget was reached, say
    assert extract_figures(of_review).usd_by_rubric == {
        "general": pytest.approx(0.3),
        "general-x": 1.0,
        "": 2.0,
    }
    assert extract_figures(replace(of_review, workflow="fix")).usd_by_rubric == {
        "": pytest.approx(3.3)
    }
    assert pack_figures(extract_figures(summary(cost=Cost(by_model={"\ud800": 1.0})))) == ""
    assert [unpack_figures(text) for text in ("", "[", "[1]")] == [None, None, None]


def test_names_that_are_shown_alike_are_one_name_of_the_filters():
    long = "m" * 200
    dear = summary(cost=Cost(usd=3.0, basis="known", by_model={f"{long}a": 1.0, f"{long}b": 2.0}))
    other = summary(cost=Cost(usd=1.0, basis="known", by_model={f"{long}c": 1.0}))
    script_data = build_script_data(
        site_of(
            (entry(0, paths=(f"{long}a", f"{long}b")), dear), (entry(1, paths=(f"{long}c",)), other)
        )
    )
    assert len(script_data["models"]) == len(script_data["paths"]) == 1
    assert [(run[13], run[19]) for run in script_data["runs"]] == [
        ([(0, 1.0)], [0]),
        ([(0, 3.0)], [0]),
    ]


def test_a_run_of_a_made_up_year_leaves_the_spans_as_they_are():
    runs = [SiteRun(entry(number)) for number in (9, 0)]
    old = SiteRun(replace(entry(0), run_id="00010101T000000000Z-00000000"))
    total = compute_statistics([run.entry for run in runs], {}, lambda run: None)
    assert Site((*runs, old), total).spans == Site(tuple(runs), total).spans


@pytest.mark.parametrize(
    ("days", "number", "name", "length"),
    [(0, 1, "10-05", 1), (61, 62, "10-05", 1), (100, 15, "10-05", 7), (900, 30, "2026-10", 31)],
)
def test_spans_cover_every_day_once(days, number, name, length):
    first = date(2026, 10, 5)
    day_spans = split_days(first, first + timedelta(days))
    assert day_spans[0].text == (
        f"{day_spans[0].first} to {day_spans[0].last}" if length > 1 else "2026-10-05"
    )
    assert (len(day_spans), day_spans[0].name, len(day_spans[0].days)) == (
        number,
        name,
        length,
    )
    every = [day for span in day_spans for day in span.days]
    assert every == [every[0] + timedelta(at) for at in range(len(every))]
    assert every[0] <= first and every[-1] >= first + timedelta(days)


def test_the_list_says_when_a_run_without_a_verdict_began() -> None:
    bare = RunEntry("20261006T120003000Z-00000001", HEAD, "incomplete")
    cells = page_of(site_of((bare, summary()))).xpath("//table[@id='list']//tbody//td")
    assert cells[0].text_content() == "2026-10-06 12:00:03"


def test_a_site_without_runs_has_no_heading_of_pictures():
    assert "Pictures" not in render_index_page(site_of())
    assert "Pictures" in render_index_page(site_of((entry(1), failed())))


def test_runs_without_a_verdict_or_with_a_made_up_id_are_listed():
    odd = [
        RunEntry("99991399T999999999Z-00000000", HEAD, "foreign"),
        RunEntry("00000000T000000000Z-00000000", HEAD, "corrupt"),
    ]
    site = Site(tuple(SiteRun(run) for run in odd), compute_statistics(odd, {}, lambda run: None))
    page = page_of(site)
    assert [row[1].text_content() for row in page.xpath("//table[@id='list']//tbody/tr")] == [
        "foreign",
        "corrupt",
    ]
    assert render_index_page(site) == render_index_page(site)
