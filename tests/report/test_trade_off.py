"""The trade-off: what stands where, and what is told without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from multiway.report.trade_off import draw_trade_off
from multiway.results import Cell, Result
from multiway.statistics import proportion
from study_results import accuracy, plain

# Row, series, test and mark of 100, learning rate, and the paper's two figures.
Row = tuple[str, str, int, int, float | None, tuple[float, float] | None]
ROWS: list[Row] = [
    ("stolen", "1ofK, owner", 82, 98, None, (0.847, 0.986)),
    ("thief", "1ofK, free", 80, 70, None, None),
    ("thief RO", "RO, frozen", 76, 10, None, None),
    ("alone", "RO, scratch", 50, 3, None, None),
]


def trade(rows: Sequence[Row] = ROWS, **details: Any) -> Result:
    cells = []
    for row, series, test, mark, rate, paper in rows:
        for column, right, reported in zip(
            ("test", "mark"), (test, mark), paper or (None, None), strict=True
        ):
            cells.append(
                Cell.of(
                    row, column, proportion(right, 100), "accuracy", series=series, x=rate,
                    reported=reported,
                )
            )  # fmt: skip
    return plain(*cells, chart="trade-off", x_name="learning rate", details=details)


def parts(figure: Figure) -> list[tuple[Any, Any, Any]]:
    """Marker, caps and bars of each network."""
    (axes,) = figure.axes
    return [each.lines for each in axes.containers if isinstance(each, ErrorbarContainer)]


def places(figure: Figure) -> list[Any]:
    return [pytest.approx(tuple(line.get_xydata()[0])) for line, _, _ in parts(figure)]


def lines(figure: Figure, points: int) -> list[Any]:
    (axes,) = figure.axes
    drawn = [line for line in axes.lines if len(np.asarray(line.get_xydata())) == points]
    return [line for line in drawn if line.get_marker() != "x"]


def words(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def crosses(figure: Figure) -> list[Any]:
    (axes,) = figure.axes
    found = [line for line in axes.lines if line.get_marker() == "x"]
    return [pytest.approx(tuple(np.asarray(line.get_xydata())[0])) for line in found]


def test_every_network_stands_at_its_two_figures_with_their_intervals() -> None:
    drawn = parts(draw_trade_off(trade()))
    assert len(drawn) == len(ROWS)
    for (_, _, right, shown, *_), (line, _, bars) in zip(ROWS, drawn, strict=True):
        test, mark = proportion(right, 100), proportion(shown, 100)
        assert np.allclose(line.get_xydata(), [[right, shown]])
        across, along = (bar.get_segments()[0] for bar in bars)
        assert np.allclose(across[:, 0], [100 * test.low, 100 * test.high])
        assert np.allclose(along[:, 1], [100 * mark.low, 100 * mark.high])


def test_encodings_and_starts_are_told_without_colour() -> None:
    figure = draw_trade_off(trade())
    looks = [(line.get_marker(), line.get_fillstyle()) for line, _, _ in parts(figure)]
    assert len(set(looks)) == len(ROWS)
    owner, thief, frozen, scratch = looks
    assert owner[0] == thief[0] != frozen[0] == scratch[0]
    assert words(figure) == [
        "1ofK", "RO", "the marked network itself", "stolen, convolutions free",
        "stolen, convolutions frozen", "from scratch", "reported by the paper",
    ]  # fmt: skip


def test_thieves_that_differ_in_their_rate_are_joined_in_its_order() -> None:
    thieves: list[Row] = [
        (f"{start} {number}", f"RO, {start}", test, mark, rate, None)
        for start in ("free", "frozen")
        for number, (rate, test, mark) in enumerate(
            ((0.1, 60, 5), (0.01, 80, 50), (0.1, 70, 15), (0.02, 75, 30))
        )
    ]
    figure = draw_trade_off(trade(thieves))
    curves = lines(figure, points=3)
    assert {line.get_linestyle() for line in curves} == {"-", "--"}
    for line in curves:
        # Two seeds at the highest rate: the line ends at their mean.
        assert np.allclose(line.get_xydata(), [[80, 50], [75, 30], [65, 10]])
    sizes = [line.get_markersize() for line, _, _ in parts(figure)]
    highest, lowest, again, middle = sizes[:4]
    assert lowest < middle < highest == again
    assert "larger with the learning rate:\n0.01, 0.02, 0.1 (RO)" in words(figure)


def test_the_papers_figures_are_crosses_with_their_names() -> None:
    # A row without a series is another under a second name: no point of its own.
    twice: Row = ("fine-tuned RO", "", 76, 10, None, (0.802, 0.129))
    figure = draw_trade_off(trade([*ROWS, twice]))
    assert crosses(figure) == [(84.7, 98.6), (80.2, 12.9)]
    assert len(parts(figure)) == len(ROWS)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["stolen", "fine-tuned RO"]
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1


def test_the_band_is_the_interval_of_the_unmarked_network() -> None:
    unmarked: Row = ("unmarked", "1ofK, unmarked", 81, 4, None, None)
    figure = draw_trade_off(trade([*ROWS, unmarked]))
    expected = proportion(4, 100)
    assert band(figure) == pytest.approx((100 * expected.low, 100 * expected.high))
    assert words(figure)[-1] == "unmarked (95 % interval)"
    # Of several networks no single one is what to expect.
    several = [*ROWS, unmarked, ("another", *unmarked[1:])]
    assert band(draw_trade_off(trade(several))) is None


def test_what_is_expected_and_what_is_needed_may_be_given() -> None:
    figure = draw_trade_off(trade(needed=0.35, base_rate={"low": None, "high": 0.2}))
    assert band(figure) == pytest.approx((0, 20))
    (axes,) = figure.axes
    assert any(np.allclose(line.get_ydata(), 35) for line in lines(figure, points=2))
    assert words(figure)[-2:] == [
        "from here on it is evidence (p < 0.01)", "an unmarked network (95 %)",
    ]  # fmt: skip
    # Too few unmarked networks, and no share convinces.
    nothing = draw_trade_off(trade(needed=None))
    assert lines(nothing, points=2) == []
    assert axes.get_xlabel() == "test accuracy (%)"
    assert axes.get_ylabel() == "mark accuracy (%)"


def band(figure: Figure) -> tuple[float, float] | None:
    (axes,) = figure.axes
    patches = [patch.get_window_extent() for patch in axes.patches]
    if not patches:
        return None
    (box,) = patches
    (_, low), (_, high) = axes.transData.inverted().transform([(0, box.y0), (0, box.y1)])
    return float(low), float(high)


def test_rows_that_lack_one_of_the_two_are_dots() -> None:
    cells = (accuracy("a", "test", 180, None), accuracy("b", "mark", 20, None))
    figure = draw_trade_off(plain(*cells, chart="trade-off"))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
