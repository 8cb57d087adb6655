"""Line charts show each cell at its x and its value."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from multiway.errors import MultiwayError
from multiway.report.line_chart import draw_lines
from multiway.report.style import series_style
from multiway.results import Cell
from multiway.statistics import mean
from study_results import accuracy, length, plain


def panels(figure: Figure) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_title()]


def points(axes: Any, name: str) -> list[tuple[float, float]]:
    """The points of a line, those at infinity left out."""
    (line,) = [each for each in axes.lines if each.get_label() == name]
    return [(float(x), float(y)) for x, y in line.get_xydata()]


def ticks(axes: Any) -> dict[str, float]:
    """Where each label of the x axis stands."""
    labels = [label.get_text() for label in axes.get_xticklabels()]
    return {label: x for label, x in zip(labels, axes.get_xticks(), strict=True) if label}


def at_infinity(axes: Any) -> list[float]:
    """The values that stand at the edge, in the order of the lines."""
    edge = ticks(axes)["no limit"]
    beyond = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert all(line.get_xdata()[-1] == edge for line in beyond)
    return [float(line.get_ydata()[-1]) for line in beyond]


def approximately(expected: list[tuple[float, float]]) -> Any:
    return [pytest.approx(point) for point in expected]


def test_ours_and_the_papers_stand_at_their_values() -> None:
    own, margin = panels(draw_lines(length()))
    assert own.get_title() == "Accuracy, attacker ascends own"
    assert points(own, "white-box") == approximately([(10, 30), (200, 42.5), (2000, 55)])
    assert points(margin, "white-box") == approximately([(10, 10), (200, 22.5), (2000, 35)])
    for axes, last in ((own, 67.5), (margin, 47.5)):
        # The paper's figures and the clean ones are repeated beside the other objective.
        edge = ticks(axes)["no limit"]
        assert points(axes, "paper: white-box") == approximately(
            [(10, 30), (200, 40), (2000, 50), (edge, 60)]
        )
        assert points(axes, "clean") == approximately([(10, 95), (200, 95.5), (2000, 96)])
        assert at_infinity(axes) == [pytest.approx(last), pytest.approx(96.5)]
        assert edge > 2000
        assert axes.get_xlim()[0] < 10 < edge < axes.get_xlim()[1]


def test_series_differ_in_colour_and_marker_and_the_paper_in_its_line() -> None:
    figure = draw_lines(length())
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["white-box", "paper: white-box", "clean", "paper: clean"]
    looks = dict(zip(names, legend.get_lines(), strict=True))
    assert looks["clean"].get_color() != looks["white-box"].get_color()
    assert looks["clean"].get_marker() != looks["white-box"].get_marker()
    for name in ("clean", "white-box"):
        paper = looks[f"paper: {name}"]
        assert paper.get_color() == looks[name].get_color()
        assert (paper.get_linestyle(), paper.get_markerfacecolor()) == ("--", "white")


def test_bands_are_the_intervals() -> None:
    cells = [accuracy("a", "white-box", right, x=x) for x, right in ((1.0, 100), (2.0, 40))]
    (axes,) = panels(draw_lines(plain(*cells, chart="lines")))
    (band,) = axes.collections
    drawn = {tuple(np.round(corner, 6)) for corner in band.get_paths()[0].vertices}
    for cell in cells:
        assert cell.low is not None
        assert cell.high is not None
        assert (cell.x, round(100 * cell.low, 6)) in drawn
        assert (cell.x, round(100 * cell.high, 6)) in drawn


def test_a_value_without_an_interval_has_no_band() -> None:
    cell = Cell.of("a", "b", mean([0.25]), "correlation", x=1.0)
    (axes,) = panels(draw_lines(plain(cell, chart="lines")))
    assert len(axes.collections) == 0
    assert points(axes, "b") == [(1.0, 0.25)]


@pytest.mark.parametrize(
    ("numbers", "scale"),
    [((2, 4, 20), "linear"), ((0, 0.1, 0.3), "linear"), ((1, 100), "log"), ((0, 1, 100), "symlog")],
)
def test_numbers_far_apart_have_a_logarithmic_axis(numbers: tuple[float, ...], scale: str) -> None:
    cells = [accuracy("a", "white-box", 100, x=float(number)) for number in numbers]
    (axes,) = panels(draw_lines(plain(*cells, chart="lines")))
    assert axes.get_xscale() == scale


def test_infinity_is_beyond_a_gap_on_a_linear_axis_too() -> None:
    cells = [accuracy("a", "white-box", 100, x=x) for x in (0.1, 0.2, math.inf)]
    (axes,) = panels(draw_lines(plain(*cells, chart="lines")))
    where = ticks(axes)
    assert where["no limit"] - where["0.2"] > 0.04
    assert at_infinity(axes) == [50]


def test_panels_are_of_targets_and_objectives() -> None:
    cells = [
        accuracy(target, source, right, objective, x=x, panel=target, series=f"from {source}")
        for target in "ab"
        for source in "cd"
        for objective in ("own", "margin")
        for x, right in ((1.0, 100), (5.0, 60))
    ]
    clean = [
        accuracy(target, source, 199, None, x=0.0, panel=target, series=f"from {source}")
        for target in "ab"
        for source in "cd"
    ]
    shown = panels(draw_lines(plain(*cells, *clean, chart="lines", x_name="PGD steps")))
    assert [axes.get_title() for axes in shown] == [
        f"{target}: Accuracy, attacker ascends {objective}"
        for target in "ab"
        for objective in ("own", "margin")
    ]
    for axes in shown:
        for name in ("from c", "from d"):
            assert points(axes, name) == approximately([(0, 99.5), (1, 50), (5, 30)])
        assert axes.get_xlabel() == "PGD steps"


def test_what_has_no_x_is_left_to_the_table() -> None:
    cells = [accuracy("a", "white-box", 100, x=1.0), accuracy("a", "mean", 3)]
    figure = draw_lines(plain(*cells, chart="lines"))
    assert "Only in the table: a, mean." in figure.get_supxlabel()
    (axes,) = panels(figure)
    assert all(line.get_label() != "mean" for line in axes.lines)
    with pytest.raises(MultiwayError, match="need cells with an x, and toy has none"):
        draw_lines(plain(cells[1], chart="lines"))


def test_two_figures_at_one_place_are_refused() -> None:
    cells = [accuracy(row, "white-box", 100, x=1.0) for row in "ab"]
    with pytest.raises(MultiwayError, match=r"two figures stand at 1 on the line 'white-box'"):
        draw_lines(plain(*cells, chart="lines"))


def test_labels_that_have_no_room_are_left_out_and_the_last_one_stays() -> None:
    numbers = [0.001 * number for number in range(40)]
    cells = [accuracy("a", "white-box", 100, x=x) for x in (*numbers, math.inf)]
    figure = draw_lines(plain(*cells, chart="lines"))
    (axes,) = panels(figure)
    figure.draw_without_rendering()
    shown = [label for label in axes.get_xticklabels() if label.get_text()]
    assert shown[-1].get_text() == "no limit"
    assert len(shown) >= 10
    # At a slant of 60 degrees the anchors must be a letter's height apart.
    anchors = [axes.transData.transform((tick, 0))[0] for tick in ticks(axes).values()]
    height = shown[0].get_fontsize() * figure.dpi / 72
    assert min(right - left for left, right in pairwise(anchors)) > 0.9 * height


def test_labels_side_by_side_do_not_meet() -> None:
    cells = [accuracy("a", "white-box", 100, x=x) for x in (0.0, 0.1, 0.2, math.inf)]
    figure = draw_lines(plain(*cells, chart="lines"))
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in panels(figure)[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_no_two_lines_look_alike() -> None:
    names = [f"line {number}" for number in range(20)]
    looks = [tuple(series_style(name, names).values()) for name in names]
    assert len(set(looks)) == len(names)
