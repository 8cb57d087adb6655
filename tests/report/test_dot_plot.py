"""Dot plots show each cell beside its name, with its interval."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from matplotlib.figure import Figure

from multiway.report.dot_plot import draw_dots
from multiway.results import Cell
from multiway.statistics import Interval, mean
from study_results import accuracy, correlation, plain, result


def panels(figure: Figure) -> dict[str, Any]:
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def dots(axes: Any) -> dict[tuple[str, str], Any]:
    """The value of each dot by the name at its left and its series."""
    names = [label.get_text() for label in axes.get_yticklabels()]
    found = {}
    for line in axes.lines:
        if len(line.get_xdata()) == 1:
            (x,), (y,) = line.get_xdata(), line.get_ydata()
            found[names[round(y)], str(line.get_label())] = pytest.approx(float(x))
    return found


def bars(axes: Any) -> list[Any]:
    """The ends of each interval."""
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    return [pytest.approx(list(each.get_xdata())) for each in lines if each.get_linewidth() == 2]


def legend(figure: Figure) -> list[str]:
    (only,) = figure.legends
    return [text.get_text() for text in only.get_texts()]


CELLS = (
    accuracy("RO", "white-box", 120, "own", reported=0.62, white_box=True),
    accuracy("RO", "white-box", 40, "margin", white_box=True),
    accuracy("1ofK", "white-box", 100, "own", white_box=True),
    accuracy("RO", "clean", 198, None, reported=0.98),
)


def test_a_panel_a_column_and_a_colour_an_objective() -> None:
    figure = draw_dots(result(cells=CELLS))
    shown = panels(figure)
    assert [*shown] == ["white-box", "clean"]
    assert dots(shown["white-box"]) == {
        ("RO", "own"): 60, ("RO", "margin"): 20, ("1ofK", "own"): 50, ("RO", "the paper"): 62,
    }  # fmt: skip
    assert dots(shown["clean"]) == {("RO", "no attack"): 99, ("RO", "the paper"): 98}
    assert legend(figure) == ["own", "margin", "no attack", "the paper"]


def test_bars_are_the_intervals() -> None:
    shown = panels(draw_dots(result(cells=CELLS)))["white-box"]
    expected = [[100 * c.interval.low, 100 * c.interval.high] for c in CELLS[:3]]
    assert bars(shown) == expected


def test_the_cross_stands_beside_the_attack_that_it_belongs_to() -> None:
    axes = panels(draw_dots(result(cells=CELLS)))["white-box"]
    height = {
        (line.get_label(), round(line.get_xdata()[0])): line.get_ydata()[0]
        for line in axes.lines
        if len(line.get_xdata()) == 1
    }
    assert height["the paper", 62] == height["own", 60] != height["margin", 20]


def test_a_star_stands_beyond_each_white_box_figure() -> None:
    axes = panels(draw_dots(result(cells=CELLS)))["white-box"]
    assert [text.get_text() for text in axes.texts] == ["*"] * 3
    assert [text.xy[0] for text in axes.texts] == [
        pytest.approx(100 * max(c.interval.high, c.reported or 0)) for c in CELLS[:3]
    ]


def test_without_objectives_all_is_in_one_panel() -> None:
    kinds = ("fog", "snow", "frost")
    cells = [
        accuracy(code, kind, 90 + place, None)
        for code in ("RO", "1ofK")
        for place, kind in enumerate(kinds)
    ]
    lead = Cell.of("1ofK", "fog", Interval(-0.05, -0.1, 0.02, 200), "lead")
    shown = panels(draw_dots(plain(*cells, lead)))
    assert dots(shown["Accuracy"]) == {
        (kind, code): 45 + place / 2 for code in ("RO", "1ofK") for place, kind in enumerate(kinds)
    }
    # Names at the left and colours mean the same in all panels.
    assert dots(shown["Lead"]) == {("fog", "1ofK"): -5}
    assert bars(shown["Lead"]) == [[-10, 2]]


def test_panels_and_series_that_are_given_are_kept() -> None:
    cells = [
        accuracy("RO", f"{who} {loss}", 90, loss, panel=who)
        for who in ("white-box", "black-box")
        for loss in ("own", "ce")
    ]
    cells.append(accuracy("RO", "any", 10, "own", panel="black-box", series="substitute"))
    shown = panels(draw_dots(plain(*cells)))
    assert dots(shown["white-box"]) == {("RO", "own"): 45, ("RO", "ce"): 45}
    assert dots(shown["black-box"]) == {
        ("RO", "own"): 45, ("RO", "ce"): 45, ("RO", "substitute"): 5,
    }  # fmt: skip


def test_columns_that_are_objectives_share_a_panel() -> None:
    cells = [accuracy("RO", loss, 90, loss) for loss in ("own", "ce", "margin")]
    (axes,) = panels(draw_dots(plain(*cells))).values()
    assert [*dots(axes)] == [("RO", "own"), ("RO", "ce"), ("RO", "margin")]


def test_a_value_without_an_interval_has_no_bar() -> None:
    cell = Cell.of("a", "b", mean([0.25]), "correlation")
    (axes,) = panels(draw_dots(plain(cell))).values()
    assert dots(axes) == {("a", "b"): 0.25}
    assert bars(axes) == []


def test_all_panels_of_a_metric_have_one_axis_that_holds_everything() -> None:
    cells = (
        correlation("Input", "RO, RO'", -0.2),
        correlation("Input", "1ofK, 1ofK'", 0.6, reported=0.9),
        correlation("Input", "RO, RO'", 0.3, "margin"),
    )
    first, second = panels(draw_dots(plain(*cells))).values()
    assert first.get_xlim() == second.get_xlim()
    low, high = first.get_xlim()
    assert low < -0.25
    assert high > 0.9


def test_names_and_panels_do_not_meet() -> None:
    cells = [
        accuracy(f"a network with a long name, {row}", f"column {column}", 90, objective)
        for row in range(4)
        for column in range(3)
        for objective in ("own", "margin")
    ]
    figure = draw_dots(plain(*cells))
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in panels(figure).values()]
    assert all(box is not None and box.x0 >= 0 for box in boxes)
    for left, right in pairwise(boxes):
        assert left is not None
        assert right is not None
        assert left.x1 <= right.x0 + 1 or left.y0 >= right.y1 - 1
