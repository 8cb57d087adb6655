"""Line charts show the figures they were given."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from multiway.report.curves import SLANTED, curve_tables, draw_curves

from multiway.analysis import Curve
from multiway.errors import MultiwayError
from multiway.report.style import save_both
from multiway.statistics import proportion


def curve(
    target: str = "a",
    source: str = "a",
    against: str = "eps",
    objective: str = "margin",
    x: tuple[float, ...] = (0, 0.1, 0.2, math.inf),
    right: tuple[int, ...] = (99, 60, 30, 0),
    unit: str = "",
) -> Curve:
    intervals = tuple(proportion(count, 100) for count in right)
    return Curve(
        against, source, target, objective, x, intervals, proportion(99, 100), unit, {}, 0
    )  # fmt: skip


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_a_line_has_its_values_and_its_intervals() -> None:
    one = curve()
    (axes,) = draw_curves([one], "Accuracy").axes
    line = lines(axes)["white-box"]
    np.testing.assert_allclose(line.get_xdata(), [0, 0.1, 0.2])
    np.testing.assert_allclose(line.get_ydata(), [99, 60, 30])
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)
    expected = {round(100 * one.intervals[1].low, 6), round(100 * one.intervals[1].high, 6)}
    assert set(band[np.isclose(band[:, 0], 0.1), 1].round(6)) == expected
    # Infinity has a place of its own, joined by a line that only leads there.
    (beyond,) = [line for line in axes.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(np.asarray(beyond.get_ydata()), [30, 0])
    assert np.asarray(beyond.get_xdata())[0] == 0.2
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["0", "0.1", "0.2", "unbounded"]
    assert axes.get_ylabel() == "accuracy of a (%)"
    assert "95 % intervals" in axes.figure.get_suptitle()


def test_rows_are_targets_and_columns_objectives() -> None:
    some = [
        curve(target, source, objective=objective)
        for target in "ab"
        for source in "ab"
        for objective in ("own", "margin")
    ]
    figure = draw_curves(some, "Accuracy")
    assert [axes.get_title() for axes in figure.axes] == [
        "attacker ascends: own", "attacker ascends: margin",
    ] * 2  # fmt: skip
    first, _, third, _ = figure.axes
    assert first.get_ylabel() == "accuracy of a (%)"
    assert third.get_ylabel() == "accuracy of b (%)"
    assert set(lines(first)) == {"white-box", "from b"}
    assert set(lines(third)) == {"white-box", "from a"}
    # A model keeps its colour and its marker; the dash tells what is crafted elsewhere.
    own, elsewhere = lines(first)["white-box"], lines(third)["from a"]
    assert own.get_color() == elsewhere.get_color()
    assert own.get_marker() == elsewhere.get_marker()
    assert (own.get_linestyle(), elsewhere.get_linestyle()) == ("-", "--")
    other = lines(first)["from b"]
    assert other.get_marker() != own.get_marker()
    assert other.get_color() != own.get_color()


def test_white_box_curves_stand_together() -> None:
    figure = draw_curves([curve("a", "a"), curve("b", "b")], "Accuracy")
    (axes,) = figure.axes
    assert set(lines(axes)) == {"a, white-box", "b, white-box"}
    assert axes.get_ylabel() == "accuracy (%)"


def test_units_of_kappa_do_not_share_an_axis() -> None:
    logits = curve("a", "b", "kappa", x=(1, 10, math.inf), right=(9, 5, 1), unit="logits")
    squares = curve(
        "b", "a", "kappa", x=(10, 300, math.inf), right=(9, 5, 1), unit="mean squared error"
    )
    figure = draw_curves([logits, squares], "Accuracy")
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "confidence kappa (logits)", "confidence kappa (mean squared error)",
    ]  # fmt: skip
    assert [axes.get_xscale() for axes in figure.axes] == ["symlog", "symlog"]


def test_radii_are_written_as_they_are_read() -> None:
    some = curve(x=(0, 8 / 255, 0.2), right=(9, 5, 1))
    ((heading, columns, rows),) = curve_tables([some])
    assert heading == "attacker ascends: margin"
    assert columns == ["eps", "a, white-box"]
    assert [row[0] for row in rows] == ["0", "8/255", "0.2"]
    assert rows[1][1] == str(proportion(5, 100))


def test_tables_have_a_place_for_what_was_not_measured() -> None:
    some = [curve("a", "a", x=(0, 0.1), right=(9, 5)), curve("a", "b", x=(0, 0.3), right=(9, 4))]
    ((_, _, rows),) = curve_tables(some)
    assert [row[1:] for row in rows][1] == [str(proportion(5, 100)), "-"]
    assert [row[1:] for row in rows][2] == ["-", str(proportion(4, 100))]


def test_labels_that_have_no_room_are_left_out_and_the_last_one_stays() -> None:
    x = (0.0, *(0.001 * number for number in range(1, 40)), math.inf)
    (axes,) = draw_curves([curve(x=x, right=(50,) * len(x))], "Many").axes
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels[-1] == "unbounded"
    shown = [at for at, label in zip(axes.get_xticks(), labels, strict=True) if label]
    left, right = axes.get_xlim()
    assert len(shown) >= 3
    assert np.diff(shown).min() / (right - left) >= 2 * SLANTED - 1e-9


def test_labels_that_do_not_fit_side_by_side_are_slanted() -> None:
    x = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, math.inf)
    (axes,) = draw_curves([curve(x=x, right=(50,) * len(x))], "Radii").axes
    ticks = axes.get_xticklabels()
    assert [tick.get_text() for tick in ticks] == [
        "0", "0.02", "0.05", "0.1", "0.15", "0.2", "0.3", "unbounded",
    ]  # fmt: skip
    assert {tick.get_rotation() for tick in ticks} == {60.0}


@pytest.mark.parametrize("against", ["steps", "eps", "kappa"])
def test_both_formats_are_written(against: str, tmp_path: Path) -> None:
    x = (0, 1, 10) if against == "steps" else (0, 0.5, math.inf)
    figure = draw_curves([curve(against=against, x=x, right=(9, 5, 1))], "A title " * 20)
    files = save_both(figure, tmp_path / "curves")
    assert sorted(file.suffix for file in files) == [".png", ".svg"]
    assert all(file.stat().st_size > 3000 for file in files)


def test_nothing_to_draw() -> None:
    with pytest.raises(MultiwayError, match="no curve to draw"):
        draw_curves([], "Nothing")
