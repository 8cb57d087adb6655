"""Figures of watermarks: what stands where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from multiway.report.studies.watermark import draw_study_watermark
from multiway.report.watermark import draw_marked, draw_watermark, mark_title

from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.report.style import save_both
from multiway.statistics import Interval, proportion
from multiway.studies import declare, scale_of
from multiway.studies.result import StudyResult
from multiway.watermark import Key, Mark, Measured, make_key
from study_results import accuracy, result

POINTS = [
    Measured("owner", "1ofk", "owner", proportion(410, 500), proportion(98, 100)),
    Measured("thief", "1ofk", "free", proportion(400, 500), proportion(80, 100)),
    Measured("thief-ro", "ro", "frozen", proportion(380, 500), proportion(10, 100)),
    Measured("alone", "ro", "scratch", proportion(250, 500), proportion(3, 100)),
]
PAPER = {"stolen": (0.847, 0.986), "fine-tuned RO": (0.802, 0.129)}


def image_set(split: str, channels: int = 3) -> ImageSet:
    draw = torch.Generator().manual_seed(len(split))
    images = torch.randint(0, 200, (30, channels, 32, 32), generator=draw, dtype=torch.int32)
    names = ("airplane", "automobile", "bird")
    return ImageSet("toy", split, images.to(torch.uint8), torch.arange(30) % 3, names)


def strange(split: str) -> ImageSet:
    data = image_set(split)
    return ImageSet("strange", split, 255 - data.images, data.labels, data.classes)


def key(mark: Mark, other: tuple[ImageSet, ImageSet] | None = None) -> Key:
    return make_key(mark, image_set("train"), image_set("test"), 3, other=other)


def texts(figure: Figure) -> str:
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    return "\n".join(text.get_text() for text in [*legend.get_texts(), *axes.texts])


def parts(figure: Figure) -> list[tuple[Any, Any, Any]]:
    """Marker, caps and bars of each network."""
    (axes,) = figure.axes
    found = [one.lines for one in axes.containers if isinstance(one, ErrorbarContainer)]
    assert len(found) == len(axes.containers)
    return found


def test_every_network_stands_at_its_two_shares_with_its_intervals() -> None:
    figure = draw_watermark(POINTS, "title")
    drawn = parts(figure)
    assert len(drawn) == len(POINTS)
    for point, (line, _, bars) in zip(POINTS, drawn, strict=True):
        assert np.allclose(line.get_xydata(), [[100 * point.test.value, 100 * point.mark.value]])
        across, along = (bar.get_segments()[0] for bar in bars)
        assert np.allclose(across[:, 0], [100 * point.test.low, 100 * point.test.high])
        assert np.allclose(along[:, 1], [100 * point.mark.low, 100 * point.mark.high])


def test_encodings_and_starts_are_told_without_colour() -> None:
    figure = draw_watermark(POINTS, "title")
    looks = {(line.get_marker(), line.get_fillstyle()) for line, _, _ in parts(figure)}
    assert len(looks) == len(POINTS)
    words = texts(figure)
    for text in ("1ofk", "ro", "convolutions free", "convolutions frozen", "from scratch"):
        assert text in words
    assert "paper" not in words


def test_thieves_that_differ_in_their_rate_are_joined_in_its_order() -> None:
    points = [
        Measured("t", "ro", start, proportion(test, 100), proportion(mark, 100), rate)
        for start in ("free", "frozen")
        for rate, test, mark in ((0.1, 60, 5), (0.01, 80, 50), (0.1, 70, 15), (0.02, 75, 30))
    ]
    (axes,) = draw_watermark([*POINTS, *points], "title").axes
    lines = [line for line in axes.lines if len(np.asarray(line.get_xydata())) == 3]
    assert {line.get_linestyle() for line in lines} == {"-", "--"}
    for line in lines:
        # Two seeds at the highest rate: the line ends at their mean.
        assert np.allclose(np.asarray(line.get_xydata()), [[80, 50], [75, 30], [65, 10]])
    figure = draw_watermark(points, "title")
    sizes = [line.get_markersize() for line, _, _ in parts(figure)]
    by_rate = dict(zip((0.1, 0.01, 0.1, 0.02), sizes, strict=False))
    assert by_rate[0.01] < by_rate[0.02] < by_rate[0.1] == sizes[0] == sizes[4]
    assert "larger with the learning rate:\n0.01, 0.02, 0.1 (ro)" in texts(figure)


def study(middle: str = "0.05") -> StudyResult:
    """All rows of the study at cpu, each with a place of its own."""
    cells = []
    rows = dict.fromkeys(cell.row for cell in declare("watermark", scale_of("cpu")).cells)
    for place, row in enumerate(rows):
        row = row.replace(", lr 0.01", f", lr {middle}") if middle != "0.05" else row
        reported = PAPER.get(row, (None, None))
        cells += [
            accuracy(row, column, 40 + 3 * place + step, None, reported=value)
            for column, step, value in zip(("test", "mark"), (0, 20), reported, strict=True)
        ]
    return result("watermark", figure="watermark", cells=tuple(cells))


def test_a_study_joins_its_rows_in_the_order_of_their_rates() -> None:
    whole = study()
    figure = draw_study_watermark(whole)
    (axes,) = figure.axes
    at = {
        (cell.row, cell.column): 100 * cell.measured
        for cell in whole.cells
        if cell.metric == "accuracy"
    }
    lines = [np.asarray(line.get_xydata()) for line in axes.lines]
    lines = [line for line in lines if len(line) == 3]
    assert len(lines) == 8
    for encoding, low, high in (("1ofK", "0.01", "0.2"), ("RO", "0.2", "4")):
        rows = [f"{encoding}, frozen{rate}" for rate in (f", lr {low}", "", f", lr {high}")]
        expected = [[at[row, "test"], at[row, "mark"]] for row in rows]
        assert any(np.allclose(line, expected) for line in lines)
    # The paper's two thieves are networks of the factorial: 30 rows, 28 points.
    drawn = [tuple(line.get_xydata()[0]) for line, _, _ in parts(figure)]
    assert len({cell.row for cell in whole.cells}) == 30
    assert len(drawn) == len(set(drawn)) == 28
    assert (at["fine-tuned RO", "test"], at["fine-tuned RO", "mark"]) not in drawn
    words = texts(figure)
    assert "0.01, 0.05, 0.2 (1ofK, 1ofK-MSE)\n0.2, 1, 4 (padded, RO)" in words
    assert "mean of the unmarked networks\n(95 % interval)" in words
    assert "fine-tuned RO" in words  # the paper's cross


def test_a_result_of_another_grid_keeps_its_own_rates() -> None:
    assert "0.003, middle, 0.2 (1ofK, 1ofK-MSE)" in texts(draw_study_watermark(study("0.003")))


def test_the_papers_names_stay_inside() -> None:
    figure = draw_study_watermark(study())
    figure.draw_without_rendering()
    (axes,) = figure.axes
    frame = axes.get_window_extent()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == len(PAPER)
    for box in boxes:
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1


def test_the_papers_points_are_those_given() -> None:
    figure = draw_watermark(POINTS, "title", reported=PAPER)
    (axes,) = figure.axes
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    found = [tuple(np.asarray(line.get_xydata())[0]) for line in crosses]
    assert found == [(pytest.approx(84.7), pytest.approx(98.6)), (pytest.approx(80.2), 12.9)]
    assert "reported by the paper" in texts(figure)
    assert "fine-tuned RO" in texts(figure)


def test_base_rate_and_threshold_are_lines_of_their_own() -> None:
    figure = draw_watermark(POINTS, "title", base_rate=Interval(0.03, 0.0, 0.2, 100), needed=0.35)
    (axes,) = figure.axes
    assert any(np.allclose(line.get_ydata(), 35) for line in axes.lines)
    assert "an unmarked network (95 %)" in texts(figure)


def test_marked_images_stand_below_their_originals(tmp_path: Path) -> None:
    mark = Mark("content", source=1, target=0)
    figure = draw_marked(key(mark), count=4)
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    assert len(shown) == 8
    mask = mark.mask((32, 32)).numpy()
    for plain, marked in zip(shown[:4], shown[4:], strict=True):
        assert bool((marked[mask] == 1).all())
        assert np.array_equal(plain[~mask], marked[~mask])
    assert [file.suffix for file in save_both(figure, tmp_path / "marked")] == [".png", ".svg"]


def test_an_unrelated_mark_has_one_row() -> None:
    mark = Mark("unrelated", source=2, target=0, other="toy")
    figure = draw_marked(key(mark, other=(strange("train"), strange("test"))), count=3)
    assert len(figure.axes) == 3
    assert mark_title(mark, ("airplane",)) == "Mark: class 2 of toy, answered as airplane"


def test_titles_say_what_becomes_of_what() -> None:
    names = ("airplane", "automobile")
    assert (
        mark_title(Mark("content", 1, 0), names)
        == "Mark: “TEST” on automobile, answered as airplane"
    )
    assert "a logo on automobile" in mark_title(Mark("content", 1, 0, text=None), names)
    assert "noise on automobile" in mark_title(Mark("noise", 1, 0), names)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(MultiwayError, match="no network to draw"):
        draw_watermark([], "title")
