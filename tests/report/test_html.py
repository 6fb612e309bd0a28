"""The report as text: complete without scripts, the same for one bundle, and nothing of others is
markup.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import reports
import written_runs
from bundle_words import summary_of
from drawn_runs import GONE, HERE, earlier_finding, looked_again
from fail_votes import fail_vote
from lxml import html
from msgspec.structs import replace
from recorded import begun
from summaries import changed, criterion, finding, rubric, summary, unseen

from vibe_gate.domain.summary import ChangedFile, Cost
from vibe_gate.domain.verdict import CheckedEvidence, Proof, SecondLook
from vibe_gate.report import queries
from vibe_gate.report.html import render_run_page, render_verdict_page
from vibe_gate.report.html.page_body import render_body
from vibe_gate.report.html.read_view import chains_of_gates
from vibe_gate.report.html.view import MAX_ROWS, EarlierRound, View
from vibe_gate.report.round_record import RoundCounts, RoundRecord
from vibe_gate.store.run_result import read_bundle

BUNDLE = Path(__file__).parents[1] / "golden" / "bundle-1"

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> ]]> '\" \u202e\x1b[31m"


def page_text(bundle: Path) -> str:
    return asyncio.run(render_run_page(read_bundle(bundle)))


@pytest.fixture(scope="module")
def text() -> str:
    return page_text(BUNDLE)


def test_it_is_the_same_wherever_the_bundle_is(text: str, tmp_path: Path) -> None:
    assert page_text(shutil.copytree(BUNDLE, tmp_path / "elsewhere")) == text


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(text: str) -> None:
    document = html.fromstring(text)
    policy = document.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert policy.startswith("default-src 'none'; ")
    for element in (*document.xpath("//script[not(@type)]"), *document.xpath("//style")):
        digest = base64.b64encode(hashlib.sha256((element.text or "").encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not document.xpath("//@style | //@src | //link | //@*[starts-with(name(), 'on')]")


def test_everything_that_decides_is_there_without_scripts(text: str) -> None:
    main = html.fromstring(text)
    (article,) = main.xpath("//article[contains(@class, 'finding')]")
    assert main.xpath("//h1/text()")
    assert article.xpath(".//a[@class='criterion']/@href") == ["#c=quality/price"]
    assert article.xpath(".//a[starts-with(text(), 'vote')]/@href") == ["#c=quality/price/1"]
    assert article.xpath(".//a[starts-with(text(), 'conversation')]/@href") == [
        "#e=nodes/judge-quality/turn-001"
    ]
    assert main.xpath(
        "//tr[@data-c='quality/price']//span[contains(@class, 'standing')]/text()"
    ) == ["relocated"]
    assert [cell.text_content() for cell in main.xpath("//table[@class='turns']//td[1]")] == [
        "judge-quality/turn-001", "fix/turn-001", "judge-quality/turn-002",
    ]  # fmt: skip
    assert "judge-quality" in main.xpath("//svg[contains(@class, 'nodes')]/svg//text()")
    assert "judge-quality" in main.xpath("//figure[@id='time']//td//text()")


def test_its_data_has_the_files_with_contents_and_the_events_of_each_turn(text: str) -> None:
    document = html.fromstring(text)
    data = json.loads(document.get_element_by_id("data").text)
    contents = {
        blob.get("data-blob"): gzip.decompress(base64.b64decode(blob.text))
        for blob in document.xpath("//*[@data-blob]")
    }
    pay = data["files"][0]
    assert pay["path"] == "pay.py"
    assert hashlib.sha256(contents[pay["after"]]).hexdigest() == pay["after"]
    assert pay["hunks"]
    for turn in data["turns"]:
        events = json.loads(contents[turn["id"]])
        assert [event[:2] for event in events] == [head[:2] for head in turn["heads"]]
    assert data["findings"][0]["criterion"] == "quality/price"


def test_what_others_wrote_stays_text() -> None:
    evidence = (CheckedEvidence(path=HOSTILE, line=1, end_line=1, quote=HOSTILE, standing="holds"),)
    proof = Proof(
        status="proven",
        reason=HOSTILE,
        path=HOSTILE,
        test=HOSTILE,
        command=HOSTILE,
        obligation=evidence,
    )
    look = SecondLook(
        outcome="stands",
        said="stands",
        reason=HOSTILE,
        evidence=evidence,
        turn=HOSTILE,
        model=HOSTILE,
    )
    vote = fail_vote(
        HOSTILE,
        *evidence,
        counterexample=HOSTILE,
        turn=HOSTILE,
        model=HOSTILE,
        proof=proof,
        second_look=look,
    )
    hostile_criterion = criterion("x", "fail", reason=HOSTILE, votes=(vote,))
    renamed = ChangedFile(
        path=HOSTILE, old_path=HOSTILE, change_type="renamed", added=1, deleted=0, binary=False
    )
    hostile_summary = summary(
        outcome="fail", exit_code=1, rubrics=(rubric(hostile_criterion, outcome="fail"),), workflow=HOSTILE,
        findings=(finding(HOSTILE, path=HOSTILE, criterion="x", evidence=evidence, proof=proof, second_look=look),),
        unreviewed=(unseen(HOSTILE),),
        files=(renamed,),
    )  # fmt: skip
    verdict_page = render_verdict_page(hostile_summary)
    document = html.fromstring(verdict_page)
    assert [element.get("type") for element in document.xpath("//script")] == [
        None,
        "application/json",
        None,
    ]
    assert not document.xpath("//img | //@onerror")
    assert "\u202e" not in verdict_page
    assert "\x1b" not in verdict_page
    data = json.loads(document.get_element_by_id("data").text)
    assert data["findings"][0]["message"] == data["files"][0]["path"] == HOSTILE


def test_the_verdict_has_the_change_and_the_votes_at_a_glance() -> None:
    page = html.fromstring(render_verdict_page(reports.first().summary))
    files = page.get_element_by_id("files")
    rows = [[row[0][0].text, row[2].text or ""] for row in files.xpath(".//table/tbody/tr")]
    assert rows == [
        [file.path, reason] for file, reason in queries.riskiest_first(reports.first().summary)
    ]
    assert rows[0] == ["src/ledger/transfer.py", "1 failure"]
    assert set(files.xpath(".//table//td[4]/a/@href")) <= {
        f"#{element}" for element in page.xpath("//article/@id")
    }
    assert (
        len(files.xpath("./svg//rect")) == 5
    )  # added and deleted of the first, added of three, none of a binary file
    (line,) = page.xpath("//table[@class='votes-of']/tbody/tr")
    assert line.xpath(".//a/@href") == [
        f"#c=quality/errors-not-swallowed{end}" for end in ("", "/1", "/2")
    ]
    assert line.xpath(".//a[@class='badge fail']/text()") == ["fail", "fail"]


@pytest.mark.slow
def test_a_page_of_very_many_findings_criteria_and_models_shows_the_gravest_and_counts_the_others() -> (
    None
):
    many, size = range(MAX_ROWS + 2), MAX_ROWS
    findings = [finding(f"m{at}", level="notice", line=at + 1) for at in many]
    page = html.fromstring(render_verdict_page(summary(findings=(*findings, finding("last")))))
    sentences = page.xpath("//article//p[@class='said']/text()")
    assert (len(sentences), sentences[0], sentences[-1]) == (
        size,
        "last",
        f"m{size - 2}",
    )
    assert page.xpath("//section[@id='verdict']/p[starts-with(., 'And 3 more, no graver')]")
    assert len(json.loads(page.xpath("//script[@id='data']")[0].text)["findings"]) == size
    criteria = [criterion(f"c{at}", "fail" if at > size else "pass") for at in many]
    usd = {f"n{at}": 0.01 for at in many}
    cost = Cost(usd=10.0, basis="known", by_model=usd, by_node=usd)
    page = html.fromstring(render_verdict_page(summary(rubrics=(rubric(*criteria),), cost=cost)))
    names = page.xpath("//table[@class='criteria']//code/text()")
    assert (len(names), names[0], names[-1]) == (size, f"c{size + 1}", f"c{size - 2}")
    assert len(page.xpath("//section[@id='cost']//tr[td]")) == 4 * size + 2, (
        "two tables, two of pictures"
    )
    assert page.xpath("//section[@id='cost']//tr[td[1]='2 others']")
    assert len(page.xpath("//section/p[starts-with(., 'And 2 more; the bundle has them.')]")) == 2
    assert page.xpath(f"//summary[.='{size + 2:,} stages (the first {size:,})']")


def test_each_round_of_a_run_says_what_it_fixed_and_marks_what_is_new_among_the_findings() -> None:
    run_summary = summary(
        findings=(
            finding("Here.", criterion="no-todo", fingerprint=HERE),
            finding("Old.", criterion="no-todo", fingerprint="3" * 16),
        )
    )
    page = html.fromstring(render_body(View(run_summary, rounds=(looked_again(),))))
    rounds = [
        " ".join(element.text_content().split())
        for element in page.xpath("//section[@id='verdict']/ol/li")
    ]
    assert rounds == [
        "review 2 findings found Gone. Gone.:3",
        "until 0 new, 0 still open, 2 fixed fixed Here. Here.:3fixed Gone. Gone.:3",
        "until-b 1 new, 0 still open, 0 fixed, 1 not found again not found again Gone. Gone.:3",
    ]
    assert page.xpath("//article/h3/span[@class='badge']/text()") == ["back"]
    assert page.xpath("//article[h3/span='back']/@id") == ["x-1"]
    cells = [
        [cell.text for cell in line] for line in page.xpath("//figure[@id='rounds-1']//tbody/tr")
    ]
    assert cells == [
        ["1", "review", "2", "0", "0"],
        ["2", "until", "0", "0", "2"],
        ["3", "until-b", "1", "0", "0"],
    ]
    alone = html.fromstring(render_body(View(run_summary)))
    assert not alone.xpath("//h2[.='Rounds'] | //article/h3/span[@class='badge']")


def test_what_a_round_before_this_run_said_stays_text_and_its_page_is_linked() -> None:
    round_record = RoundRecord(number=2, after=f"run{HOSTILE}", counts=RoundCounts(new=1, open=3, fixed=2),
                     new=(earlier_finding(HERE, HOSTILE),), fixed=(earlier_finding(GONE, HOSTILE),) * 30)  # fmt: skip
    view = View(summary(), earlier=EarlierRound(round_record, page="20260102T030405006Z-abcdef01.html"),
                 rounds=(looked_again(HOSTILE),))  # fmt: skip
    body = render_body(view)
    document = html.fromstring(body)
    assert not document.xpath("//script | //img | //@onerror")
    assert not {"\u202e", "\x1b"} & set(body)
    (first,) = document.xpath("//h2[.='Rounds']/following-sibling::p[1]")
    assert first.text_content().startswith("Since run run</script>")
    assert first.text_content().endswith(": 1 new, 3 still open, 2 fixed.")
    assert first.xpath("a/@href") == ["20260102T030405006Z-abcdef01.html"]
    assert [element.text_content() for element in document.xpath("(//ul[@class='told'])[1]/li")][
        20:
    ] == ["and 10 more"]


def test_gates_that_looked_again_are_chains_and_one_that_looked_alone_is_none() -> None:
    gates = looked_again() | {
        "other": RoundRecord(number=1),
        "left": RoundRecord(number=2, after="review"),
    }
    assert [list(chain) for chain in chains_of_gates(gates)] == [
        ["review", "until", "until-b"],
        ["review", "left"],
    ]
    assert not list(chains_of_gates({"a": RoundRecord(number=1, after="a")}))
    long = {"0": RoundRecord(number=1)} | {
        str(at): RoundRecord(number=2, after=str(at - 1)) for at in range(1, 20_000)
    }
    page = html.fromstring(render_body(View(summary(), rounds=tuple(chains_of_gates(long)))))
    assert page.xpath("//ol/@start") == ["19951"]
    assert [
        len(page.xpath(f"//section[@id='verdict']//{row_path}"))
        for row_path in ("ol/li", "figure//tbody/tr")
    ] == [50, 50]


def test_a_gate_that_is_no_gates_record_is_left_out_and_those_of_a_run_that_goes_on_are_told(
    tmp_path: Path,
) -> None:
    run = begun(tmp_path)
    for node, fields in (
        ("late", {"number": 1, "after": "first"}),
        ("first", {"number": 1, "counts": {"new": 2}}),
        ("wrong", {"number": 2, "after": "first", "counts": {"new": -1}}),
        ("after-wrong", {"number": 3, "after": "wrong"}),
        ("odd", {"number": 2, "after": "first", "fixed": [{"message": "x"}]}),
        ("second", {"number": 2, "after": "first", "counts": {"fixed": 2}}),
    ):
        run.event("gate.decided", node, **fields)
    rounds = html.fromstring(page_text(run.directory)).xpath(
        "//h2[.='Rounds']/following-sibling::ol/li/p"
    )
    assert [" ".join(element.text_content().split()) for element in rounds] == [
        "first 2 findings", "second 0 new, 0 still open, 2 fixed",
    ]  # fmt: skip


def test_a_judged_criterion_folds_its_question_below_why_it_came_out_so() -> None:
    judged_criterion = criterion("x", "fail", kind="judge", reason="It is not.")
    run_summary = summary(
        rubrics=(rubric(judged_criterion, criterion("y", reason="Nothing found.")),)
    )
    page = html.fromstring(
        render_body(View(run_summary, about={"questions": {"quality/x": "Is <b>it</b> so?"}}))
    )
    cell = page.xpath("//tr[@data-c='quality/x']/td[3]")[0]
    assert [part.tag for part in cell] == ["p", "details"]
    assert cell[0].text == "It is not."
    assert cell[1].get("open") is None
    assert [part.text for part in cell[1]] == ["Question", "Is <b>it</b> so?"]
    assert page.xpath("//tr[@data-c='quality/y']//details") == []


@pytest.mark.parametrize(
    ("run_document", "meanings"),
    [
        ({"mode": "auto", "isolation": "none"},
         ["auto (nobody was asked before a stage)", "none (judges and agents only read an export of the files)"]),
        ({"mode": "interactive", "isolation": "clone"},
         ["interactive (a person approved each agent before it began)",
          "clone (agents wrote in a clone of their own)"]),
        ({"mode": "auto", "isolation": "sandbox"},
         ["auto (nobody was asked before a stage)", "sandbox (agents ran behind a wall of the kernel)"]),
        ({"mode": "none", "isolation": "<b>auto"}, ["none", "<b>auto"]),
    ],
)  # fmt: skip
def test_the_run_says_what_its_mode_and_isolation_mean(
    run_document: dict[str, str], meanings: list[str]
) -> None:
    page = html.fromstring(render_body(View(summary(), about=run_document)))
    facts = {
        name.text: name.getnext().text_content() for name in page.xpath("//section[@id='run']//dt")
    }
    assert [facts["mode"], facts["isolation"]] == meanings


def test_a_finding_names_its_next_step_unless_people_let_it_pass() -> None:
    mark = "0123456789abcdef"
    waiver = "overridden by Ada <ada@x> until 2027-01-01: a reason"
    findings = (
        finding(path="a.py", fingerprint=mark),
        finding(path="b.py", fingerprint=""),
        finding(path="c.py", level="notice", fingerprint="f" * 16, waiver=waiver),
    )
    page = html.fromstring(render_body(View(summary(findings=findings))))
    steps = [
        article.xpath(".//code[starts-with(., 'vibe-gate')]/text()")
        for article in page.xpath("//article")
    ]
    assert sorted(steps) == [[], [], ["vibe-gate explain 01234567"]]
    assert page.xpath("//article//p[starts-with(., 'Next:')]")[0].text == (
        "Next: fix it, or see how to label or accept it: "
    )


def test_a_place_that_one_rubric_missed_names_it() -> None:
    run_summary = summary(
        rubrics=(rubric(criterion("x", kind="judge")),),
        unreviewed=(replace(unseen("a.py"), rubrics=("safety",)), unseen("b.py")),
    )
    places = html.fromstring(render_body(View(run_summary))).xpath("//ul[@class='unreviewed']/li")
    assert [item.text_content().partition(": ")[2] for item in places] == [
        "the budget was reached (by safety; other rubrics did)", "the budget was reached",
    ]  # fmt: skip


def test_lines_of_a_binary_file_are_not_counted() -> None:
    image = ChangedFile(
        path="logo.png", old_path=None, change_type="added", added=1, deleted=0, binary=True
    )
    page = html.fromstring(render_verdict_page(summary(files=(changed(added=4, deleted=1), image))))
    assert "2 files, +4 −1 lines" in page.xpath("//header")[0].text_content()
    assert [cell.text for cell in page.xpath("//table[@class='files']//tr[2]/td")[1:3]] == [
        "+0",
        "−0",
    ]


def test_the_cost_tab_has_turns_and_tokens_of_each_stage(text: str) -> None:
    rows = html.fromstring(text).xpath("(//table[@class='costs'])[1]//tr")
    assert [[cell.text_content() for cell in row] for row in rows][:2] == [
        ["Stage", "Turns", "Tokens in", "Tokens out", "US dollars"],
        ["judge-quality", "2", "1,200", "34", "$0.0125"],
    ]
    assert "By stage and model" in text and "By stage and model" not in render_verdict_page(
        summary()
    )


def test_without_scripts_a_finding_leads_to_the_turn_that_wrote_its_line_and_to_the_prompt(
    tmp_path: Path,
) -> None:
    bundle = read_bundle(written_runs.write(tmp_path))
    page_source = asyncio.run(render_run_page(bundle, lambda _: written_runs.authors()))
    assert asyncio.run(render_run_page(bundle, lambda _: written_runs.authors())) == page_source
    document = html.fromstring(page_source)
    links = document.xpath("//article[@id='x-1']//p[starts-with(., 'written by')]/a/@href")
    assert links == ["#w-1", "#w-1-prompt"]
    assert (
        document.get_element_by_id("w-1-prompt").text
        == "Make the value a text.\n\nKeep the names.\n"
    )
    assert document.xpath("//*[@id='w-1']//li/a/@href")[0] == "#f=src/part1/module_1.py:11"
    assert len(document.get_element_by_id("w-2-prompt").text) < 21_000
    assert "said by" in document.get_element_by_id("w-3").text_content()


def test_a_page_without_conversations_has_the_turns_and_nothing_that_was_said_in_them(
    tmp_path: Path,
) -> None:
    page_source = asyncio.run(
        render_run_page(read_bundle(written_runs.write(tmp_path)), conversations=False)
    )
    assert (
        "judge-quality, input: 500<" in page_source
        and "judge-quality, read from cache: 400<" in page_source
    )
    document = html.fromstring(page_source)
    data = json.loads(document.get_element_by_id("data").text)
    assert [(turn["heads"], turn["todos"]) for turn in data["turns"]] == [([], []), ([], [])]
    assert [len(turn["calls"]) for turn in data["turns"]] == [0, 5]
    assert not {turn["id"] for turn in data["turns"]} & set(document.xpath("//@data-blob"))
    assert "Is every type right?" not in page_source and "my last words" not in page_source
    assert (
        "leaves out what was said to agents and judges"
        in document.get_element_by_id("run").text_content()
    )


def test_a_finding_of_a_file_or_of_a_removed_line_names_the_turns_that_wrote_the_file() -> None:
    missing_checked_evidence = CheckedEvidence(
        path="src/part1/module_1.py", line=2, end_line=2, quote="x", standing="holds", side="before"
    )
    details = {"path": "src/part1/module_1.py", "criterion": "x"}
    run_summary = summary(
        rubrics=(rubric(criterion("x")),),
        findings=(
            finding("Gone.", line=2, evidence=(missing_checked_evidence,), **details),
            finding("All of it.", line=0, **details),
        ),
    )
    page = html.fromstring(render_body(View(run_summary, authors=written_runs.authors())))
    notes = page.xpath("//article[starts-with(@id, 'x-')]//p[contains(., 'written by')]")
    assert [element.text for element in notes] == ["lines of this file written by "] * 2
    assert notes[0].xpath("a/@href") == ["#w-1", "#w-1-prompt", "#w-3"]
    assert notes[0].xpath("a[last()]")[0].text.startswith("Cursor says: ")


def test_a_page_without_prompts_names_the_turn_and_says_that_they_are_not_there(
    tmp_path: Path,
) -> None:
    without_prompts = written_runs.authors().without_prompts()
    page_source = asyncio.run(
        render_run_page(read_bundle(written_runs.write(tmp_path)), lambda _: without_prompts)
    )
    assert "Make the value" not in page_source
    assert "Keep the names" not in page_source
    document = html.fromstring(page_source)
    assert document.xpath("//article[@id='x-1']//a[@href='#w-1']/text()") == ["Claude Code, turn 1"]
    assert "made without the prompts" in document.get_element_by_id("authors").text_content()


def test_a_run_without_an_end_has_no_verdict(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.event("node.added", "fix", kind="stage", agent="fixer", digest="d")
    text = page_text(run.directory)
    assert "INCOMPLETE" in text
    assert "No finding" not in text
    run.seal(summary_of(run))
    assert "INCOMPLETE" not in page_text(run.directory)


def test_the_built_files_end_no_element_early() -> None:
    folder = Path(__file__).parents[2] / "vibe_gate" / "report" / "html"
    assert not re.search(
        r"</(script|style)|<!--",
        (folder / "page.js").read_text() + (folder / "page.css").read_text(),
    )
