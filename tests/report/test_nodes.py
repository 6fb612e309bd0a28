"""The picture of a run's graph, and what its time and cost were."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from urllib.parse import unquote

import pytest
from drawn_runs import looked_again, review, rounds, workflow
from fail_votes import fail_vote
from lxml import html
from msgspec.structs import replace
from summaries import criterion, rubric, summary
from written_runs import ATTACK

from vibe_gate.domain.event import Graph, Node
from vibe_gate.domain.node_names import repeat_suffix
from vibe_gate.domain.verdict import SecondLook, Vote
from vibe_gate.report.html import render_page
from vibe_gate.report.html.graph_drawing import NodeBox, draw_layout
from vibe_gate.report.html.stage_figures import collect_stages, find_critical_path, format_seconds
from vibe_gate.report.html.view import NodeTime, View
from vibe_gate.report.node_outcomes import add_outcomes
from vibe_gate.report.round_record import RoundRecord
from vibe_gate.report.text_graph import draw_graph
from vibe_gate.report.waits import find_waits


@pytest.fixture(scope="module")
def large() -> html.HtmlElement:
    """299 nodes: too many for a picture."""
    return html.fromstring(render_page(workflow(18)))


@pytest.fixture(scope="module")
def usual() -> html.HtmlElement:
    """57 nodes in 24 boxes."""
    return html.fromstring(render_page(workflow(3)))


def boxes(picture: html.HtmlElement) -> list[tuple[float, ...]]:
    """Left, top, width, height of each box."""
    return [
        tuple(float(box.get(side)) for side in ("x", "y", "width", "height"))
        for box in picture.findall("svg")
    ]


def texts(element: html.HtmlElement, name: str) -> list[str]:
    return ["".join(part.itertext()) for part in element.iter(name)]


def test_no_two_boxes_overlap(usual: html.HtmlElement) -> None:
    pictures = usual.xpath("//svg[contains(@class, 'nodes')]")
    assert [len(boxes(picture)) for picture in pictures] == [24, 12, 12, 12]
    for picture in pictures:
        placed = sorted(boxes(picture), key=lambda box: (box[1], box[0]))
        for (x, top, width, high), (next_x, below, *_) in itertools.pairwise(placed):
            assert below >= top + high if below != top else next_x >= x + width


@pytest.mark.slow
def test_a_run_of_many_nodes_is_an_open_list_with_the_reason(large: html.HtmlElement) -> None:
    assert not large.xpath("//svg[contains(@class, 'nodes')]")
    assert "Too many to draw: a picture has at most 30 boxes." in texts(large, "p")
    (nodes,) = large.xpath("//details[summary = 'All nodes as a list']")
    assert nodes.get("open") is not None
    assert len(nodes.xpath(".//tr[starts-with(@id, 'n=')]")) == 299


def test_a_run_without_nodes_has_neither_a_picture_nor_a_reason() -> None:
    page = html.fromstring(render_page(View(None, graph=Graph("run"))))
    assert not page.xpath("//svg[contains(@class, 'nodes')]")
    assert not [text for text in texts(page, "p") if "Too many" in text]


def test_each_link_of_the_picture_leads_to_what_is_there(usual: html.HtmlElement) -> None:
    ids = {element.get("id") for element in usual.xpath("//*[@id]")}
    links = {unquote(link.get("href")[1:]) for link in usual.xpath("//section[@id='run']//a")}
    assert {link.split("=")[0] for link in links} >= {"n", "e", "loop"}
    assert links <= ids
    assert len(ids) == len(usual.xpath("//*[@id]"))


def test_a_box_says_what_its_node_came_to_and_the_list_says_the_same() -> None:
    view = workflow(1)
    page = html.fromstring(render_page(view))
    fix, plan = (
        next(box for box in page.xpath("//svg[@x]") if name in texts(box, "text"))
        for name in ("fix-00", "plan")
    )
    assert texts(fix, "text") == ["fix-00", "3 iterations · pass", "6 turns · $0.2250 · 5 min 27 s"]
    assert texts(plan, "text") == ["plan", "pass · 42.0 s", "fixer · 1 turn · $0.0125", "+12 −3"]
    assert plan.get("class") == "critical"
    line = page.get_element_by_id("n=plan")
    assert texts(line, "td")[1:6] == ["pass", "fixer", "turn-001", "$0.0125", "42.0 s"]


def alike(outcomes: list[str]) -> html.HtmlElement:
    """The page of checks, and judges that are alike, with these outcomes."""
    nodes = [
        Node(id=f"a{repeat_suffix(at)}", kind="judge", outcome=outcome)
        for at, outcome in enumerate(outcomes)
    ]
    edges = tuple(("checks", node.id) for node in nodes)
    graph = Graph("run", (Node(id="checks", kind="checks"), *nodes), edges)
    return html.fromstring(render_page(View(None, graph=graph)))


def test_nodes_that_are_alike_say_how_many_came_to_what_in_full() -> None:
    page = alike(["error"] * 29 + ["abstain", "inconclusive"] + ["done"] * 11)
    _, fold = page.xpath("//section[@id='run']/div/svg/svg")
    assert (
        " ".join(texts(fold, "text")) == "a 42 alike 29 error, 1 inconclusive, 1 abstain, 11 done"
    )
    assert texts(page.xpath("//details[@class='fold-of']")[0], "p") == [
        "42 nodes: too many to draw; the list has them."
    ]


def test_nodes_that_are_alike_stand_five_in_a_row() -> None:
    page = alike(["done"] * 12)
    rows = Counter(top for _, top, *_ in boxes(page.xpath("//details[@class='fold-of']//svg")[0]))
    assert sorted(rows.values()) == [2, 5, 5], "so many can be read at usual width"


def test_three_nodes_stand_one_below_the_other_without_folds() -> None:
    page = html.fromstring(render_page(review()))
    (picture,) = page.xpath("//svg[contains(@class, 'nodes')]")
    assert [len(boxes(picture)), len({x for x, *_ in boxes(picture)})] == [3, 1]
    assert not page.xpath("//details[@class='fold-of']")
    assert texts(page.xpath("//section[@id='run']/ul")[0], "li") == [
        "pass",
        "done",
        "waited for by the run's end",
    ]


def test_what_colours_and_borders_of_boxes_stand_for_is_said_once(usual: html.HtmlElement) -> None:
    (keys,) = usual.xpath("//section[@id='run']//ul[@class='keys-of']")
    assert texts(keys, "li") == ["pass", "fail", "done", "waited for by the run's end", "opens"]


def test_checks_judges_and_second_looks_show_what_they_answered() -> None:
    look = SecondLook(
        outcome="refuted", said="refuted", reason="", turn="nodes/second-look-quality/turn-001"
    )
    vote = fail_vote("", turn="nodes/judge-quality/turn-001", second_look=look)
    earlier = Vote(
        outcome="error",
        said=None,
        reason="",
        turn=".vibe-artifacts/k/r/nodes/judge-quality/turn-001",
    )
    judged = criterion("types", kind="judge", votes=(earlier, vote))
    run_summary = summary(
        rubrics=(rubric(criterion(), criterion("none", "not_applicable"), judged),)
    )
    plain = Graph("run", tuple(replace(node, outcome="") for node in review().graph.nodes))
    came_to = {node.id: node.outcome for node in add_outcomes(plain, run_summary).nodes}
    assert came_to == {"checks": "pass", "judge-quality": "fail", "second-look-quality": "refuted"}
    assert {stage.outcome for stage in collect_stages(replace(review(), graph=plain)).values()} == {
        "done"
    }
    several = workflow(1).graph
    assert add_outcomes(several, run_summary) == several, "whose checks they were is not known"
    late = criterion(
        "types", kind="judge", votes=(replace(vote, turn="nodes/until-00-c-quality/turn-001"),)
    )
    run_summary = summary(rubrics=(rubric(late),))
    page = html.fromstring(
        render_page(
            replace(workflow(1), summary=run_summary, graph=add_outcomes(several, run_summary))
        )
    )
    assert ["fix-00", "3 iterations · pass"] in [
        texts(box, "text")[:2] for box in page.xpath("//svg[@x]")
    ]


def unanswered_review() -> View:
    """A review whose log does not say what its checks and judges answered."""
    view = review()
    return replace(
        view, graph=Graph("run", tuple(replace(node, outcome="") for node in view.graph.nodes))
    )


@pytest.mark.parametrize(
    ("rubrics", "outcome"),
    [
        ([("pass", ["fail", "pass"])], "warning"),
        ([("pass", ["pass", "not_applicable"])], "pass"),
        ([("fail", ["fail", "pass"])], "fail"),
        ([("inconclusive", ["fail"])], "fail"),
        ([("pass", ["fail"]), ("fail", ["pass", "fail"])], "fail"),
        ([("pass", ["fail"]), ("pass", ["error"])], "error"),
    ],
)
def test_checks_fail_in_the_graph_only_if_a_rubric_did_not_pass_with_them(
    rubrics: list[tuple[str, list[str]]], outcome: str
) -> None:
    results = [
        rubric(
            *(criterion(f"c{number}", word) for number, word in enumerate(words)), outcome=came_to
        )
        for came_to, words in rubrics
    ]
    run_summary = summary(rubrics=tuple(results))
    outcomes = add_outcomes(unanswered_review().graph, run_summary)
    assert {node.id: node.outcome for node in outcomes.nodes}["checks"] == outcome
    assert any(f" {outcome}" in line for line in draw_graph(outcomes, 80))


def test_a_warning_of_checks_has_a_colour_of_its_own_and_is_explained() -> None:
    run_summary = summary(rubrics=(rubric(criterion("x", "fail")),))
    view = unanswered_review()
    page = html.fromstring(
        render_page(replace(view, summary=run_summary, graph=add_outcomes(view.graph, run_summary)))
    )
    box = next(box for box in page.xpath("//svg[@x]") if texts(box, "text")[0] == "checks")
    assert texts(box, "text")[1].startswith("warning")
    assert box.xpath(".//rect[@class='s3']") != []
    keys = page.xpath("//ul[@class='keys-of']/li[span[contains(@class, 's3')]]")
    assert "warning: failed, and its rubric passed" in [key.text_content() for key in keys]


LONG = "review-of-the-payment-service-and-its-tests"


@pytest.mark.parametrize(
    ("names", "visible"),
    [
        (["checks"], "checks"),
        ([LONG], LONG),
        ([LONG, "b"], LONG),
        ([LONG, *"bcde"], "review-of-th…nd-its-tests"),
    ],
)
def test_a_name_is_cut_only_if_the_boxes_beside_it_leave_no_room(
    names: list[str], visible: str
) -> None:
    boxes = {name: NodeBox(name, (), "pass", "", name) for name in names}
    drawing = draw_layout(
        Graph("run", tuple(Node(id=name, kind="stage") for name in names)), boxes, []
    )
    picture = html.fromstring(str(drawing))
    assert visible in [text.text for text in picture.xpath(".//text[@class='name']")]
    assert float(picture.get("width")) <= max(1_010, 5 * 240)


def test_the_end_of_a_run_waited_for_the_last_to_end_before_it() -> None:
    names, edges = (
        ("a", "b", "c", "d", "own"),
        (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "own")),
    )
    graph = Graph(
        "run",
        tuple(Node(id=name, kind="judge" if name == "own" else "stage") for name in names),
        edges,
    )
    ends = {"a": 10, "b": 20, "c": 50, "d": 90, "own": 90}
    times = {name: NodeTime(0, 0, end) for name, end in ends.items()}
    assert find_critical_path(graph, times) == ["a", "c", "d"]
    assert find_critical_path(graph, {}) == []
    skipped = {name: time for name, time in times.items() if name != "c"}
    assert find_critical_path(Graph("run", graph.nodes, (("a", "c"), ("c", "d"))), skipped) == [
        "a",
        "d",
    ]
    gated = workflow(1)
    assert find_critical_path(gated.graph, gated.times)[-4:-1] == [
        "until-00-c-quality",
        "until-00-c",
        "join-0",
    ]
    circle = Graph("run", graph.nodes, (*edges, ("d", "a")))
    assert find_critical_path(circle, times) == ["a", "c", "d"]


def test_cost_is_stacked_by_kind_and_tokens_by_what_they_were_paid_as(
    large: html.HtmlElement,
) -> None:
    stages, models, tokens = (
        large.get_element_by_id(name) for name in ("cost-stages", "cost-models", "tokens")
    )
    assert texts(stages, "li") == ["judge", "agent"]
    rows = [texts(row, "td") for row in stages.iter("tr")][1:]
    assert rows[0][0].startswith("fix-")
    assert [sum(float(cell[1:]) for cell in row[1:3]) for row in rows] == pytest.approx(
        [float(row[3][1:]) for row in rows]
    )
    assert "others" in "".join(stages.find("svg").itertext())
    assert len(models.xpath(".//svg//rect")) == 6
    assert texts(tokens, "li") == ["input", "read from cache", "output"]
    assert "plan, read from cache: 6,000" in texts(
        html.fromstring(render_page(workflow(1))), "title"
    )


def test_time_waited_is_apart_from_the_model_and_tools() -> None:
    element = html.fromstring(render_page(review())).get_element_by_id("time")
    bars = [
        text.split(", ")[1]
        for text in texts(element, "title")
        if text.startswith("second-look-quality,")
    ]
    assert bars == ["waiting: 3.0 s", "model: 27.0 s"]
    built = html.fromstring(render_page(workflow(1))).get_element_by_id("time")
    spans = [text.split(", ")[1] for text in texts(built, "title") if text.startswith("build-00,")]
    assert spans == ["waiting: 1.5 s", "model: 21.0 s", "tools: 21.0 s", "model: 42.0 s"]
    line = next(texts(row, "td") for row in built.iter("tr") if "build-00" in texts(row, "td"))
    assert line == ["build-00", "1 min 3 s", "21.0 s", "", "", "1 min 24 s", "1.5 s"]
    assert "gate-00" not in texts(built, "td")
    view = review()
    judge = view.turns[0]
    busy = replace(
        judge, waits=[(judge.started + 2_000, judge.started + 7_000), (judge.started - 90_000, 0)]
    )
    element = html.fromstring(
        render_page(replace(view, turns=[busy, *view.turns[1:]]))
    ).get_element_by_id("time")
    bars = [
        text.split(", ")[1] for text in texts(element, "title") if text.startswith("judge-quality,")
    ]
    assert bars == ["waiting: 1.5 s", "model: 2.0 s", "waiting: 5.0 s", "model: 11.0 s"]


def test_a_node_takes_as_long_in_the_graph_as_in_the_lanes_and_what_it_waited_to_start_is_apart() -> (
    None
):
    view = review()
    name = "second-look-quality"
    page = html.fromstring(
        render_page(replace(view, summary=replace(view.summary, duration_ms=98_800)))
    )
    box = next(box for box in page.xpath("//svg[@x]") if name in texts(box, "text"))
    assert texts(box, "text")[1:] == [
        "done · 27.0 s",
        "judge · 1 turn · $0.0375",
        "waited 3.0 s to start",
    ]
    assert texts(page.get_element_by_id(f"n={name}"), "td")[5:7] == ["27.0 s", "3.0 s"]
    time = page.get_element_by_id("time")
    assert "27.0 s" in texts(time.find("svg"), "text") and "30.0 s" not in texts(time, "text")
    took = "50.3 s of the run's 1 min 39 s."
    assert took in texts(time, "p")[0]
    assert (
        f"Added up over 3 nodes: model 45.0 s, checks 800 ms. {name} waited 3.0 s to start, the longest."
        in texts(time, "p")[0]
    )
    path = (
        f"checks → judge-quality (waited 1.5 s to start) → {name} (waited 3.0 s to start): {took}"
    )
    assert path in "".join(page.xpath("//p[contains(@class, 'critical-path')]")[0].itertext())
    assert "1 min 39 s" in "".join(page.xpath("//header")[0].itertext()), "in the same form"


def test_a_log_tells_what_the_gateway_and_the_agents_program_waited() -> None:
    log_events = [
        (
            10,
            {
                "type": "system",
                "subtype": "api_retry",
                "data": {"attempt": 1, "retry_delay_ms": 500},
            },
        ),
        (20, {"type": "system", "subtype": "init", "data": {"retry_delay_ms": 500}}),
        (30, {"type": "system", "subtype": "api_retry", "data": {"retry_delay_ms": -1}}),
        (40, {"type": "system", "subtype": "api_retry", "data": []}),
        (50, {"type": "usage", "waits": "no list"}),
        (
            900,
            {
                "type": "usage",
                "tokens": {},
                "waits": [[600, 700], [690, 800], [5], [3, 2], ["a", 9], 7],
            },
        ),
    ]
    assert find_waits(log_events) == [(10, 510), (600, 800)]
    assert find_waits([(9, {"type": "usage", "tokens": {}})]) == []


@pytest.mark.parametrize(
    ("value", "duration"),
    [(None, ""), (0, "0 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"),
     (3_599.6, "1 h 0 min"), (90_000, "25 h 0 min")],
)  # fmt: skip
def test_a_time_is_never_written_as_sixty_of_its_unit(value: float | None, duration: str) -> None:
    assert format_seconds(value) == duration


@pytest.mark.slow
def test_names_of_others_are_text_in_every_picture() -> None:
    text = render_page(workflow(1, ATTACK))
    page = html.fromstring(text)
    scripts = page.xpath("//script[not(@id) and not(@data-blob)]")
    assert len(scripts) == 2
    assert not page.xpath("//img | //@onerror | //@onload")
    assert not re.search(
        "[\u202e\u2066\u200b\x1b]",
        text.split("<main")[1].split('<script type="application/json"')[0],
    )
    assert render_page(workflow(1, ATTACK)) == text


def test_a_gate_that_failed_leads_to_its_findings_or_to_its_round_if_they_are_gone() -> None:
    view = rounds()
    page = html.fromstring(render_page(view))
    assert [texts(box, "text")[-1] for box in page.xpath("//svg[@x]")] == [
        "2 findings",
        "gate",
        "1 finding",
    ]
    assert page.xpath("//svg[@x]//a[contains(., ' finding')]/@href") == ["#x-1", "#x-1"]
    missing_page = html.fromstring(
        render_page(replace(view, summary=replace(view.summary, findings=())))
    )
    assert "#round=review" in missing_page.xpath("//svg[@x]//a/@href")
    assert missing_page.get_element_by_id("round=review").tag == "li"
    forked = replace(
        view,
        rounds=(
            looked_again(),
            {"review": looked_again()["review"], "other": RoundRecord(number=2)},
        ),
    )
    ids = html.fromstring(render_page(forked)).xpath("//@id")
    assert len(ids) == len(set(ids))


def test_a_graph_that_is_too_large_is_listed() -> None:
    nodes = tuple(Node(id=f"n{number}", kind="gate") for number in range(1_001))
    page = html.fromstring(render_page(View(None, graph=Graph("run", nodes))))
    assert not page.xpath("//svg[contains(@class, 'nodes')]")
    assert len(page.xpath("//tr[starts-with(@id, 'n=')]")) == 1_001
