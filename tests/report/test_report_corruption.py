"""Figures of corruptions hold what was measured."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from multiway.report.corruption import (
    corruption_rows,
    corruption_title,
    draw_corruption,
    draw_corruption_examples,
    draw_corruption_severity,
)

from multiway.analysis import CorruptionRow, CorruptionTable, corruption_examples
from multiway.analysis.corruption import CorruptionCell
from multiway.data import ImageSet
from multiway.statistics import Interval, proportion

KINDS = ("fog", "gaussian_noise")


def row(name: str, right: int) -> CorruptionRow:
    accuracy = proportion(right, 200)
    cells = tuple(CorruptionCell(kind, level, accuracy) for kind in KINDS for level in (1, 4))
    leads = {} if name == "first" else {"these 2": Interval(-0.05, -0.1, 0.0, 200)}
    return CorruptionRow(
        model=name,
        clean=proportion(200, 200),
        cells=cells,
        kinds={"fog": accuracy, "gaussian_noise": proportion(right - 10, 200)},
        severities={1: accuracy, 4: proportion(right - 20, 200)},
        averages={"these 2": proportion(right - 5, 200)},
        leads=leads,
    )


@pytest.fixture
def table() -> CorruptionTable:
    rows = (row("first", 160), row("second", 150))
    return CorruptionTable("toys", "CIFAR-10-C-style corruptions", 3, 200, KINDS, (1, 4), rows)


def axes_of(figure: Figure) -> Any:
    (axes,) = figure.axes
    return axes


def test_the_title_says_what_was_measured(table: CorruptionTable) -> None:
    title = corruption_title(table)
    for part in ("CIFAR-10-C-style", "toys", "severities 1, 4", "n=200", "seed 3", "95 %"):
        assert part in title


def test_rows_have_intervals_and_leads(table: CorruptionTable) -> None:
    columns, rows = corruption_rows(table)
    assert columns[1:] == ["first", "second"]
    by_name = {name: cells for name, *cells in rows}
    assert by_name["clean"] == [str(proportion(200, 200))] * 2
    assert by_name["Gaussian noise *"] == [str(proportion(150, 200)), str(proportion(140, 200))]
    assert by_name["fog"][0] == str(proportion(160, 200))
    assert by_name["mean of these 2"][1] == str(proportion(145, 200))
    lead = by_name["  ahead of first, in points"]
    assert lead == ["-", "-5.0 [-10.0, +0.0] (n=200)"]


def test_bars_are_as_high_as_the_accuracies(table: CorruptionTable) -> None:
    axes = axes_of(draw_corruption(table))
    heights = [[bar.get_height() for bar in group] for group in axes.containers if len(group) == 4]
    assert heights == [pytest.approx([100, 80, 75, 77.5]), pytest.approx([100, 75, 70, 72.5])]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "clean", "fog", "Gaussian noise *", "these 2 (mean)",
    ]  # fmt: skip
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "second"]
    # Told apart without colour.
    assert len({group[0].get_hatch() for group in axes.containers if len(group) == 4}) == 2


def test_error_bars_end_where_the_intervals_end(table: CorruptionTable) -> None:
    axes = axes_of(draw_corruption_severity(table))
    first = axes.containers[0]
    (bars,) = first.lines[2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    expected = [table.rows[0].clean, *table.rows[0].severities.values()]
    for (low, high), value in zip(ends, expected, strict=True):
        assert (low, high) == pytest.approx((100 * value.low, 100 * value.high))
    assert axes.get_ylim()[0] < 100 * table.rows[1].severities[4].low


@pytest.mark.parametrize("channels", [1, 3])
def test_the_grid_shows_every_version(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2, channels, 9, 11), generator=generator).to(torch.uint8)
    data = ImageSet("toys", "test", images, torch.tensor([0, 0]), ("toy",))
    examples = corruption_examples(data, 1, ("fog", "snow", "contrast"), (2, 5))
    axes = axes_of(draw_corruption_examples(examples))
    shown = torch.from_numpy(axes.images[0].get_array().data).view(3 * 9 + 4, 3 * 11 + 4, channels)
    for column in range(3):
        for line, version in enumerate([images[1], *examples.images[column]]):
            part = shown[line * 11 : line * 11 + 9, column * 13 : column * 13 + 11]
            assert torch.equal(part, version.permute(1, 2, 0))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["clean", "2", "5"]
