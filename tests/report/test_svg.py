"""Pictures: what stands in the SVG of some figures."""

from __future__ import annotations

import itertools
import math

import pytest
from lxml import etree
from written_runs import ATTACK

from vibe_gate.domain.interval import Interval
from vibe_gate.report import svg
from vibe_gate.report.svg import Bar, Dot, Lane, Part, Range, Series, Span

SERIES = (Series("pass", "pass"), Series("fail", "fail"))
DAYS = (
    Bar("10-01", (Part(3, "3 runs", "#day=1"), Part(1, "1 run"))),
    Bar("10-02", ()),
    Bar("10-03", (Part(0, "0 runs"), Part(8, "8 runs"))),
)


def parsed(svg: str) -> etree._Element:
    return etree.fromstring(svg)


def boxes(svg: str) -> list[tuple[str, float]]:
    return [(box.get("class"), float(box.get("height"))) for box in parsed(svg).iter("rect")]


def test_columns_are_as_high_as_their_figures_and_lead_to_what_they_count() -> None:
    columns = svg.draw_columns(DAYS, SERIES, lambda value: f"{value:.0f}")
    (passed, three_high), (_, one_high), (failed, eight_high) = boxes(columns)
    assert (passed, failed) == ("pass", "fail")
    assert (three_high / one_high, eight_high / one_high) == pytest.approx((3, 8), rel=0.01)
    assert [link.get("href") for link in parsed(columns).iter("a")] == ["#day=1"]
    assert "10-01, pass: 3 runs" in [title.text for title in parsed(columns).iter("title")]


def test_rows_lines_and_ranges_have_names_and_figures() -> None:
    rows = svg.draw_rows(
        [Bar("quality/types", (Part(2, "2 right"), Part(1, "1 wrong")), "3 findings", "#c=1")],
        SERIES,
    )
    widths = [float(box.get("width")) for box in parsed(rows).iter("rect")]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert "3 findings" in "".join(parsed(rows).itertext())
    lines = parsed(svg.draw_lines(DAYS, SERIES, str))
    assert [len(line.get("points").split()) for line in lines.iter("polyline")] == [2, 2]
    (reach,) = (line for line in parsed(svg.draw_ranges([Range("a", Interval(0.5, 0.25, 0.75), "")])).iter("line")
                if line.get("class") == "reach")  # fmt: skip
    assert (
        float(reach.get("x2")) - float(reach.get("x1")) == (svg.WIDTH - svg.NAME - svg.FIGURE) / 2
    )


def test_what_stands_in_one_column_has_one_middle() -> None:
    (dot,), (box,) = (parsed(of(DAYS[:1], SERIES[:1], str)).xpath(f"//*[local-name() = '{name}']")
                      for of, name in ((svg.draw_lines, "circle"), (svg.draw_columns, "rect")) )  # fmt: skip
    (day,) = (
        text
        for text in parsed(svg.draw_lines(DAYS[:1], SERIES[:1], str)).iter("text")
        if text.text == "10-01"
    )
    assert float(dot.get("cx")) == float(day.get("x"))
    assert float(box.get("x")) + float(box.get("width")) / 2 == pytest.approx(float(day.get("x")))


def test_names_of_dots_do_not_touch() -> None:
    models = {
        "claude-haiku-4-5": 0.0057,
        "claude-sonnet-5": 0.0115,
        "claude-haiku-4-5 (cached)": 0.0058,
    }
    parsed_picture = parsed(
        svg.draw_dots([Dot(name, usd, Interval(1.0, 0.3, 1.0), "") for name, usd in models.items()])
    )
    names = [text for text in parsed_picture.iter("text") if text.text in models]
    ends = [(float(name.get("x")), -1 if name.get("class") == "end" else 1) for name in names]
    reach = [
        sorted((x, x + side * 6.5 * len(name.text)))
        for name, (x, side) in zip(names, ends, strict=True)
    ]
    for (entry, (left_edge, right_edge)), (other, (start, end)) in itertools.combinations(
        zip(names, reach, strict=True), 2
    ):
        assert entry.get("y") != other.get("y") or right_edge < start or end < left_edge


@pytest.mark.parametrize(
    ("most", "last"), [(0, 0), (0.0003, 0.0003), (1, 1), (7, 8), (999, 1000), (math.inf, 0)]
)
def test_an_axis_ends_at_a_round_figure(most: float, last: float) -> None:
    assert svg.axis_ticks(most)[-1] == pytest.approx(last)
    assert len(svg.axis_ticks(most)) <= 6


@pytest.mark.parametrize(
    ("seconds", "last"), [(0.011, "10 ms"), (1.5, "1500 ms"), (50, "40 s"), (9_000, "2 h")]
)
def test_a_time_axis_has_the_unit_that_people_would_take(seconds: float, last: str) -> None:
    lanes = svg.draw_lanes([Lane("a", (Span(0, seconds, 0, "all"),), "all")], SERIES, seconds)
    assert [text.text for text in parsed(lanes).iter("text") if text.get("class") == "tick middle"][
        -1
    ] == last


@pytest.mark.slow
def test_names_of_others_are_text_cut_and_visible() -> None:
    name = ATTACK * 2_000
    bars = [Bar(name, (Part(1, name, f"#{name}"),), name)]
    for drawing in (
        svg.draw_columns(bars, [Series(name, "s0")], lambda _: name),
        svg.draw_rows(bars, [Series(name, "s0")]),
    ):
        assert [
            element.tag for element in parsed(drawing).iter() if element.tag in {"script", "img"}
        ] == []
        assert "\u202e" not in drawing
        titles = [title.text for title in parsed(drawing).iter("title")]
        assert max(map(len, titles)) == svg.MOST_TITLE
    assert svg.draw_columns([], SERIES, str) == svg.draw_columns([], SERIES, str)


PATH = "src/services/payments/adapters/stripe.py"


@pytest.mark.parametrize(
    ("names", "visible"),
    [
        (["short.py", PATH], ["short.py", PATH]),
        (["a" * 28, "b" * 29], ["a" * 28, "b" * 29]),
        (
            [f"{'r' * 60}/first", f"{'r' * 60}/second"],
            [f"{'r' * 21}…{'r' * 16}/first", f"{'r' * 21}…{'r' * 15}/second"],
        ),
        (["x" * 5_000], ["x" * 21 + "…" + "x" * 22]),
    ],
)
def test_a_name_beside_a_bar_takes_the_room_that_it_needs_and_keeps_its_end(
    names: list[str], visible: list[str]
) -> None:
    interval = Interval(0.5, 0.25, 0.75)
    pictures = [
        svg.draw_rows([Bar(name, (Part(1, "1"),), "1") for name in names], SERIES),
        svg.draw_ranges([Range(name, interval, "1 of 2") for name in names]),
        svg.draw_lanes([Lane(name, (Span(0, 1, 0, "all"),), "1 s") for name in names], SERIES, 1),
    ]
    for picture in pictures:
        texts = [text.text for text in parsed(picture).iter("text") if text.get("class") == "end"]
        assert texts == visible
        ends = [
            float(box.get("x")) + float(box.get("width")) for box in parsed(picture).iter("rect")
        ]
        assert all(end <= svg.WIDTH - svg.FIGURE + 0.1 for end in ends)
