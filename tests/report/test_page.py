"""The report in Chromium: what scripts add to it, for the mouse, the keyboard and a screen
reader.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from checked_page import COLOURS, find_violations
from drawn_runs import rounds, workflow
from playwright.sync_api import Browser, Page, expect, sync_playwright
from written_runs import ATTACK, authors, path_of, write

from vibe_gate.report.html import render_page
from vibe_gate.report.html import render_run_page as report_of
from vibe_gate.report.html.authors import no_authors
from vibe_gate.store.run_result import read_bundle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed here"),
]

JUDGE, FIXER = "nodes/judge-quality/turn-001", "nodes/fix/turn-001"

TABS = ("verdict", "changes", "activity", "cost", "run")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of reports: "small", "big", "tall", "hostile", "voided", and "written", which says
    who wrote the lines.

    Also of workflows, without a bundle: "loop", "graph", "large", "rounds", and "marked", where
    each name is hostile.
    """
    folder = tmp_path_factory.mktemp("pages")
    kinds = {
        "small": {},
        "big": {"files": 40, "calls": 120},
        "tall": {"files": 1, "lines": 1_500},
        "hostile": {"attack": ATTACK, "spread": True},
        "spread": {"spread": True},
        "voided": {"voided": True},
        "written": {},
    }
    wrote = {"written": lambda _: authors(), "hostile": lambda _: authors(ATTACK)}
    addresses = {}
    for name, options in kinds.items():
        (folder / name).mkdir()
        bundle = write(folder / name, **options)
        file = folder / f"{name}.html"
        file.write_text(
            asyncio.run(report_of(read_bundle(bundle), wrote.get(name, no_authors))), "utf-8"
        )
        addresses[name] = file.as_uri()
    drawn_runs = {
        "graph": workflow(2),
        "loop": workflow(1),
        "large": workflow(3),
        "marked": workflow(1, ATTACK),
        "rounds": rounds(ATTACK),
    }
    for name, run in drawn_runs.items():
        file = folder / f"{name}.html"
        file.write_text(render_page(run), "utf-8")
        addresses[name] = file.as_uri()
    return addresses


@pytest.fixture(scope="module")
def browser(pages: dict[str, str]) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"))


def number(text: str) -> int:
    return int(re.sub(r"\D", "", text.split(" of ")[0]))


def test_a_finding_leads_to_its_line_its_vote_and_the_conversation_and_back(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(pages["small"])
    first = tab.locator(".finding").first
    first.locator(".place").click()
    expect(tab.locator(".line.target code")).to_contain_text("function_1_10")
    expect(tab.locator(".line.target + .pinned")).to_contain_text("A number is no text.")
    expect(tab.locator(".line.add mark").first).to_have_text("str")
    tab.locator(".pinned").get_by_text("why").click()
    expect(first).to_be_focused()
    first.get_by_text("vote 1").click()
    expect(tab.locator("[data-vote='1']")).to_be_visible()
    first.get_by_text(re.compile("^conversation")).click()
    expect(tab.locator(".spoken[aria-current]")).to_contain_text("A number is no text.")
    detail = tab.locator(".detail")
    expect(detail).to_contain_text("900 tokens in, 60 out")
    expect(detail).to_contain_text("$0.0125")
    detail.get_by_role("link", name="types").click()
    expect(tab.locator("tr[data-c='quality/types'] [data-vote='1']")).to_be_focused()
    tab.go_back()
    expect(detail).to_be_visible()


def test_a_finding_with_several_places_is_told_in_full_at_the_first_which_the_others_lead_to(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(pages["spread"])
    first, second, third = tab.locator(".finding").first.locator(".place").all()
    first.click()
    expect(tab.locator(".line.target + .finding")).to_contain_text("A number is no text.")
    further = tab.locator(".line.target + .finding")
    tab.go_back()
    second.click()
    expect(further).to_have_text("failure also here; in full at src/part1/module_1.py:11 why")
    tab.go_back()
    third.click()
    expect(tab.locator(".viewer .path")).to_contain_text("src/part0/module_0.py")
    expect(further).to_have_text("failure also here; in full at src/part1/module_1.py:11 why")
    further.get_by_role("link", name="src/part1/module_1.py:11").click()
    expect(tab.locator(".viewer .path")).to_contain_text("src/part1/module_1.py")
    expect(further).to_contain_text("A number is no text.")
    expect(tab.locator(".file[aria-current] .badge")).to_have_text("1")


def test_a_finding_leads_to_its_line_the_turn_that_wrote_it_and_the_prompt_and_back(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(pages["written"])
    first = tab.locator(".finding").first
    expect(first).to_contain_text("written by Claude Code, turn 1")
    first.locator(".place").click()
    author = tab.locator(".line.target ~ .pinned.writer")
    expect(author).to_contain_text("Written by Claude Code, turn 1 of session 3f2a9c1e-aaaa · Edit")
    author.get_by_role("link", name="Claude Code, turn 1").click()
    turn = tab.locator("#w-1")
    expect(turn).to_be_focused()
    expect(turn.locator(".prompt")).to_contain_text("Keep the names.")
    turn.get_by_role("link", name="Make the value a text.").click()
    expect(turn.locator(".prompt")).to_be_focused()
    for back in ("#w-1", "#f=src/part1/module_1.py:11", ""):
        tab.go_back()
        assert tab.evaluate("location.hash") == back
    expect(first).to_be_visible()
    first.get_by_role("link", name="prompt").click()
    expect(turn.locator(".prompt")).to_be_focused()
    turn.get_by_role("link", name="src/part2/module_2.py:11").click()
    expect(tab.locator(".line.target code")).to_contain_text("function_2_10")


def test_a_line_says_who_wrote_it_and_the_keyboard_leads_to_the_prompt(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(f"{pages['written']}#f=src/part1/module_1.py:31")
    expect(tab.locator(".pinned.writer")).to_have_text(
        re.compile("^Cursor says: Cursor of session c-1$")
    )
    expect(tab.locator(".number.written")).to_have_count(2)
    tab.locator(".number.written").first.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".line.target + .finding + .writer")).to_contain_text("Claude Code, turn 1")
    for place in ("#w-1", "#w-1-prompt"):
        tab.keyboard.press("w")
        assert tab.evaluate("location.hash") == place
    tab.goto(f"{pages['written']}#f=src/part1/module_1.py:20")
    expect(tab.locator(".line.target")).to_be_visible()
    expect(tab.locator(".pinned.writer")).to_have_count(0)


def test_each_address_shows_its_place(tab: Page, pages: dict[str, str]) -> None:
    unseen = ".line:has(.unseen) code"
    places = {
        "c=quality/no-secrets": ("tr.target", "no-secrets"),
        "c=quality/types/1": ("[data-vote='1'].target", "A number is no text."),
        f"e={FIXER}": (".detail", "repair the type"),
        f"e={FIXER}/sdk-8": (".detail", "result 2"),
        f"e={FIXER}/hook-0": (".detail", "PreToolUse"),
        "e=run-1": (".detail", "run.created"),
        "f=src/part0/module_0.py:11": (".line.add.target code", "function_0_10"),
        "f=src/part0/module_0.py:-11": (".line.del.target code", "function_0_10"),
        "f=src/part0/module_0.py:20": (".line.same.target code", "function_0_19"),
        "f=src/part0/module_0.py:9": (f"{unseen} >> nth=0", "function_0_8"),
        f"e={FIXER}&f=repaired.py:1": (".line.add.target code", "new"),
        "x-2": ("#x-2.target", "module_2.py:51"),
        "nothing": ("#verdict h2 >> nth=0", "Findings"),
    }
    for place, (selector, text) in places.items():
        tab.goto(f"{pages['small']}#{place}")
        expect(tab.locator(selector), place).to_contain_text(text)


def test_files_and_events_are_filtered_and_the_axis_filters_too(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(f"{pages['big']}#changes")
    tab.get_by_label("Filter files").fill("module_23")
    expect(tab.locator(".file")).to_have_count(1)
    tab.goto(f"{pages['big']}#activity")
    count = tab.locator("#activity .count")
    assert tab.locator(".event .kind").first.inner_text() == "user"
    tab.get_by_label("Kind of event").select_option("failed or refused")
    expect(tab.locator(".event.failed").first).to_be_visible()
    assert tab.locator(".event:not(.failed)").count() == 0
    tab.get_by_label("Kind of event").select_option("hook")
    expect(tab.locator(".event .kind").first).to_have_text("hook")
    tab.get_by_label("Kind of event").select_option("everything")
    expect(tab.locator(".event .kind").first).to_have_text("run")
    everything = number(count.inner_text())
    tab.get_by_label("Filter events").fill("result 1")
    expect(count).to_have_text(f"31 of {everything:,} events")
    tab.get_by_label("Filter events").fill("")
    axis = tab.get_by_role("application")
    axis.focus()
    tab.keyboard.press("+")
    zoomed = number(count.inner_text())
    box = axis.bounding_box()
    tab.mouse.move(box["x"] + 500, box["y"] + 60)
    tab.mouse.wheel(0, -100)
    wheeled = number(count.inner_text())
    tab.mouse.down()
    tab.mouse.move(box["x"] + 600, box["y"] + 60)
    tab.mouse.up()
    assert everything > zoomed > wheeled > number(count.inner_text()) > 0
    axis.dblclick(position={"x": 5, "y": 5})
    expect(count).to_have_text(f"{everything:,} events")


def test_a_refused_call_is_refused_in_every_place(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(f"{pages['small']}#activity")
    expect(tab.locator(".detail .turns")).to_contain_text("5 (1 failed, 1 refused)")
    refused = tab.locator(".event:has(.took)").last
    expect(refused).to_contain_text("✗ Bash")
    expect(refused.locator(".took")).to_have_text("refused")
    expect(tab.locator(".event .took").first).to_have_text("21 ms")
    refused.click()
    expect(tab.locator(".detail")).to_contain_text("refused")
    tab.locator("#search").fill("bash refused")
    expect(tab.locator(".hits [role=option]").first).to_contain_text("Bash refused")


def test_a_place_that_does_not_exist_is_told(tab: Page, pages: dict[str, str]) -> None:
    for place, sentence in (
        ("f=src/part0/module_0.py:999", "There is no line 999."),
        ("f=src/part0/module_0.py:-999", "There is no line 999 before the change."),
        ("f=nothing.py:1", "This file is not part of the change."),
    ):
        tab.goto(f"{pages['small']}#{place}")
        expect(tab.locator(".viewer > .none")).to_contain_text(sentence)


def test_an_answer_that_did_not_count_says_so_in_the_conversation(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(f"{pages['voided']}#e={JUDGE}/sdk-2")
    expect(tab.locator(".detail .answer")).to_contain_text("fail types counted as abstain")


def test_search_finds_everything_and_opens_it(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["written"])
    tab.keyboard.press("/")
    field = tab.get_by_role("combobox", name="Search everything")
    expect(field).to_be_focused()
    for query, group, place in (
        ("a number is", "Findings", "#x-1"),
        ("no secret", "Criteria", "#c=quality/no-secrets"),
        ("module_2.py", "Findings", "#x-2"),
        ("FUNCTION_2_59", "Contents", "#f=src/part2/module_2.py:60"),
        ("repaired.py", "Files", f"#e={FIXER}&f=repaired.py"),
        ("result 3", "Events", f"#e={FIXER}/sdk-13"),
        ("keep the names", "Authors", "#w-1"),
        ("let me see", "Events", f"#e={JUDGE}/sdk-1"),
    ):
        field.fill(query)
        expect(tab.locator(".hits [aria-selected=true]"), query).to_be_visible()
        expect(tab.locator(".hits > [role=group]").first).to_have_attribute("aria-label", group)
        tab.keyboard.press("Enter")
        expect(tab.locator(".found")).to_be_hidden()
        assert tab.evaluate("location.hash") == place
    field.fill("nowhere to be found")
    expect(tab.locator(".found")).to_contain_text("Nothing found.")


def test_the_keyboard_reaches_everything(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(pages["small"])
    for key, name in enumerate(TABS, start=1):
        tab.keyboard.press(str(key))
        expect(tab.locator(f"#{name}")).to_be_visible()
        expect(tab.locator("main > section:visible")).to_have_count(1)
    tab.keyboard.press("1")
    for key, finding in (("j", "x-1"), ("j", "x-2"), ("j", "x-2"), ("k", "x-1")):
        tab.keyboard.press(key)
        expect(tab.locator(f"#{finding}")).to_be_focused()
    tab.keyboard.press("2")
    expect(tab.locator(".pinned")).to_be_visible()
    tab.keyboard.press("u")
    expect(tab.locator(".line.change").first).to_be_visible()
    tab.keyboard.press("j")
    expect(tab.locator(".line.target code.add")).to_contain_text("function_1_10")
    tab.locator(".fold button").first.click()
    expect(tab.locator(".line.same", has_text="function_1_0(").first).to_be_visible()
    tab.keyboard.press("3")
    for _ in range(3):
        tab.keyboard.press("j")
    expect(tab.locator(".event[aria-current]")).to_have_count(1)
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog")).to_contain_text("next finding or event")
    expect(tab.get_by_role("dialog")).to_contain_text("on the time axis")
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()


def test_nothing_of_a_hostile_bundle_runs_or_hides(tab: Page, pages: dict[str, str]) -> None:
    tab.add_init_script(
        "addEventListener('securitypolicyviolation', event => console.error(event.violatedDirective))"
    )
    repaired = f"e={FIXER}&f=repaired.py"
    without_texts = ("cost", repaired)
    events = (f"e={JUDGE}/sdk-2", f"e={FIXER}/sdk-9", f"e={FIXER}/hook-3", repaired)
    line = f"f={quote(path_of(1, ATTACK))}:11"
    for place in (
        *TABS,
        "authors",
        line,
        "w-1-prompt",
        "c=quality/types/1",
        *events,
        f"c={ATTACK}",
        f"f={ATTACK}:1",
    ):
        tab.goto(f"{pages['hostile']}#{place}")
        expect(tab.locator("body")).to_have_attribute("data-tab", re.compile("."))
        if place not in without_texts:
            expect(tab.locator("body")).to_contain_text("onerror=window.ran=1", use_inner_text=True)
        text = tab.evaluate("document.body.innerText")
        assert not set(text) & set("\u202e\u2066\u200b\x1b\U000e0041")
        assert tab.evaluate("[window.ran, document.querySelector('img, iframe, main script')]") == [
            None,
            None,
        ]
    tab.locator("#search").fill("onerror")
    expect(tab.locator(".hits [role=option]").first).to_be_visible()
    assert tab.evaluate("[window.ran, document.querySelector('img, iframe, main script')]") == [
        None,
        None,
    ]


def test_long_lists_build_only_the_rows_in_sight(tab: Page, pages: dict[str, str]) -> None:
    tab.goto(f"{pages['tall']}#f=src/part0/module_0.py")
    lines = tab.locator(".code")
    expect(tab.locator(".line").first).to_be_visible()
    tall = lines.evaluate("list => list.scrollHeight")
    row_texts = set()
    for part in (0.2, 0.9, 0.5, 1):
        lines.evaluate("(list, part) => list.scrollTop = list.scrollHeight * part", part)
        tab.wait_for_timeout(50)
        locator = tab.locator(".line code")
        assert locator.count() < 100
        row_texts.add(locator.last.inner_text())
        ends = tab.locator(".code .rows > *").evaluate_all(
            "rows => rows.map(row => row.getBoundingClientRect()).map(box => [box.top, box.bottom])"
        )
        assert all(bottom <= top + 1 for (_, bottom), (top, _) in itertools.pairwise(ends))
    assert len(row_texts) == 4
    assert tall > 10_000
    tab.goto(f"{pages['big']}#e={FIXER}/sdk-200")
    expect(tab.locator(".spoken[aria-current]")).to_be_in_viewport()
    assert tab.locator(".rows > *").count() < 300


def test_a_box_of_the_graph_leads_to_its_turn_its_diff_and_its_fold(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.goto(f"{pages['large']}#run")
    picture, frame = tab.locator(".nodes.picture").first, tab.locator(".scroll").first
    begun = picture.bounding_box()["width"]
    frame.focus()
    tab.keyboard.press("+")
    assert picture.bounding_box()["width"] == pytest.approx(1.25 * begun, rel=0.01)
    tab.get_by_role("button", name="Show all").first.click()
    assert picture.bounding_box()["width"] <= frame.bounding_box()["width"]
    assert frame.bounding_box()["width"] > 1_200
    frame.focus()
    for _ in range(4):
        tab.keyboard.press("-")
    expect(picture.get_by_text("plan", exact=True)).to_be_visible()
    expect(picture.get_by_text("pass · 42.0 s", exact=True).first).to_be_hidden()
    tab.get_by_role("button", name="Full size").first.click()
    expect(picture.get_by_text("pass · 42.0 s", exact=True).first).to_be_visible()
    box = picture.locator("svg", has_text="fix-02")
    box.locator("rect").first.click()
    expect(tab.locator('[id="loop=fix-02"]')).to_be_visible()
    expect(tab.locator("summary", has_text="fix-02: 3 iterations")).to_be_in_viewport(ratio=1)
    tab.locator('[id="loop=fix-02"] svg svg', has_text="fix-02-c").locator("text").nth(1).click()
    expect(tab.locator("body")).to_have_attribute("data-tab", "activity")
    tab.goto(f"{pages['large']}#run")
    picture.locator("svg", has_text="plan").get_by_text("+12 −3").click()
    expect(tab.locator(".viewer h3")).to_contain_text("src/part0.py")
    tab.goto(f"{pages['marked']}#run")
    assert tab.locator(".nodes svg").count() > 10
    assert tab.evaluate("window.ran") is None


def test_what_no_tab_shows_is_hidden_before_the_script_has_run(
    tab: Page, pages: dict[str, str]
) -> None:
    tab.add_init_script("""
        window.displays = [];
        new MutationObserver(() => {
            const run = document.getElementById("run");
            if (run && !document.body.dataset.tab) displays.push(getComputedStyle(run).display);
        }).observe(document, { childList: true, subtree: true });
    """)
    tab.goto(pages["graph"])
    assert set(tab.evaluate("displays")) == {"none"}


def test_without_scripts_a_box_of_the_graph_leads_to_its_turn_and_to_its_fold(
    bare: Page, pages: dict[str, str]
) -> None:
    bare.goto(pages["graph"])
    picture = bare.locator(".nodes.picture").first
    picture.locator("svg", has_text="fix-01").locator("text").first.click()
    expect(bare.locator('[id="loop=fix-01"]')).to_be_in_viewport()
    picture.locator("svg", has_text="plan").locator("text").first.click()
    expect(bare.locator("tr", has_text="plan/turn-001").first).to_be_in_viewport()
    bare.emulate_media(media="print")
    expect(picture).to_be_visible()
    assert picture.bounding_box()["width"] <= bare.viewport_size["width"]
    expect(picture.get_by_text("pass · 42.0 s", exact=True)).to_be_visible()
    bare.goto(pages["large"])
    assert picture.bounding_box()["width"] <= bare.viewport_size["width"]
    expect(picture.get_by_text("plan", exact=True)).to_be_visible()
    expect(picture.get_by_text("pass · 42.0 s", exact=True).first).to_be_hidden()
    bare.emulate_media(media="screen")


FULLEST = (
    ("written", "c=quality/types/1", "verdict"),
    ("written", "f=src/part1/module_1.py:11", "changes"),
    ("written", f"e={JUDGE}/sdk-2", "activity"),
    ("written", f"e={FIXER}/hook-1", "activity"),
    ("written", "w-2-prompt", "authors"),
    ("loop", "loop=fix-00", "run"),
    ("loop", "cost", "cost"),
    ("rounds", "verdict", "verdict"),
)
"""Pages, and the places of each tab where most of it is to be seen: axe takes a second for each."""


def test_it_has_no_serious_fault_of_accessibility(tab: Page, pages: dict[str, str]) -> None:
    faults = []
    for name, place, part in FULLEST:
        tab.emulate_media(color_scheme="light")
        tab.goto(f"{pages[name]}#{place}")
        expect(tab.locator("main > section:visible")).to_have_id(part)
        tab.wait_for_timeout(150)
        assert brightness_of_ground(tab) > 300
        violations = find_violations(tab)
        tab.emulate_media(color_scheme="dark")
        assert brightness_of_ground(tab) < 300
        violations += find_violations(tab, COLOURS)
        faults += [
            (
                place,
                violation["id"],
                violation["nodes"][0]["html"][:120],
                violation["nodes"][0]["failureSummary"][:300],
            )
            for violation in violations
            if violation["impact"] in ("serious", "critical")
        ]
    assert not faults, json.dumps(faults, indent=1)


def brightness_of_ground(tab: Page) -> int:
    """The sum of the three colours behind everything."""
    ground = tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(int, re.findall(r"\d+", ground)[:3]))


def test_all_of_it_is_on_paper_and_without_scripts(
    tab: Page, bare: Page, pages: dict[str, str]
) -> None:
    for page in (tab, bare):
        page.goto(f"{pages['written']}#activity")
        if page is tab:
            page.emulate_media(media="print")
            expect(page.locator(".app").first).to_be_hidden()
            assert page.locator("#verdict").bounding_box()["x"] >= 14
        for name in TABS:
            expect(page.locator(f"#{name} h2").first).to_be_visible()
        for text in ("A number is no text.", "No secret.", "budget", "src/part2/module_2.py", "judge-quality/turn-001",
                     "Keep the names.", "characters left out here"):  # fmt: skip
            expect(page.locator("main").get_by_text(text).first).to_be_visible()
        if page is bare:
            page.locator(".votes summary").first.click()
        expect(page.locator("[data-vote='1']")).to_be_visible()
        page.goto(pages["rounds"])
        for text in ("1 new, 0 still open, 1 fixed.", "not found again", "onerror=window.ran=1"):
            expect(page.locator("#verdict").get_by_text(text).first).to_be_visible()
        expect(page.locator("#rounds-1 svg")).to_be_visible()
