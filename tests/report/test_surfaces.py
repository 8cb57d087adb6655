"""Surfaces and their outlines, drawn and on a page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from playwright.sync_api import Browser, expect

from browser import silent_page
from multiway.analysis import Landscape
from multiway.errors import MultiwayError
from multiway.report.landscape_page import interactive, write_landscape_page
from multiway.report.style import save_both
from multiway.report.surfaces import UNFAIR, cells, draw_landscape, floor_of, outlines

AXIS = torch.linspace(-0.2, 0.2, 9, dtype=torch.float64)
E1, E2 = torch.meshgrid(AXIS, AXIS, indexing="ij")


def plane(offset: float = -0.13, model: str = "a", sample: int = 0, **changes: object) -> Landscape:
    """margin = offset + 3 e1 - 2 e2."""
    margins = offset + 3 * E1 - 2 * E2
    given = Landscape(
        model=model, sample=sample, label=7, objective="margin", quantity="margin",
        values_are="margin (logits)", eps=0.2, clamped=True, seed=0, axis=AXIS, values=margins,
        margins=margins, zero_gradient=False,
    )  # fmt: skip
    return replace(given, **changes)  # type: ignore[arg-type]


def test_the_outline_of_a_plane_is_its_zero_line() -> None:
    (line,) = outlines(plane())
    assert line.shape[1] == 3
    np.testing.assert_allclose(-0.13 + 3 * line[:, 0] - 2 * line[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(line[:, 2], 0, atol=1e-12)
    # It runs from edge to edge: e2 from -0.2 to 0.2 along e1 = (0.13 + 2 e2) / 3.
    assert sorted([line[0, 1], line[-1, 1]]) == pytest.approx([-0.2, 0.2])


def test_the_outline_lies_on_the_surface_of_another_quantity() -> None:
    (line,) = outlines(plane(quantity="paper", values=5 + 10 * E1))
    np.testing.assert_allclose(line[:, 2], 5 + 10 * line[:, 0], atol=1e-12)


def test_a_curved_outline_is_closed_where_the_region_is() -> None:
    (line,) = outlines(plane(margins=0.01 - E1**2 - E2**2))
    radii = np.hypot(line[:, 0], line[:, 1])
    # Linear between points 0.05 apart, the circle of 0.1 is met within a tenth.
    assert radii == pytest.approx(0.1, abs=0.01)
    assert line[0] == pytest.approx(line[-1])


@pytest.mark.parametrize("offset", [-9.0, 9.0])
def test_no_outline_where_the_decision_never_changes(offset: float) -> None:
    assert outlines(plane(offset)) == []


@pytest.mark.filterwarnings("error")
def test_the_surface_is_cut_at_the_outline(tmp_path: Path) -> None:
    figure = draw_landscape([plane()], "One plane")
    axes: Any = figure.axes[0]
    # The axes end where the surface does, whatever the number of corners of its polygons.
    assert axes.get_xlim() == pytest.approx((-0.2, 0.2))
    assert axes.dataLim.max == pytest.approx([0.2, 0.2])
    assert axes.get_zlim() == pytest.approx((floor_of(plane()), float(plane().values.max())))
    (surface,) = [c for c in axes.collections if isinstance(c, Poly3DCollection)]
    colours = np.asarray(surface.get_facecolor())
    red = colours[:, 0] > colours[:, 2]
    # Each cell in one colour, or cut in two.
    crossed = len(red) - 64
    assert 8 <= crossed <= 16
    assert 0 < red.sum() < len(red)
    assert floor_of(plane()) < float(plane().values.min())
    files = save_both(figure, tmp_path / "landscape")
    assert all(file.stat().st_size > 5000 for file in files)


@pytest.mark.parametrize(("offset", "share"), [(0.0, 0.5), (0.4, 0.13 / 0.16), (9.0, 1.0)])
def test_the_red_area_is_what_is_misclassified(offset: float, share: float) -> None:
    areas = {True: 0.0, False: 0.0}
    for polygon, colour in zip(*cells(plane(offset)), strict=True):
        x, y = polygon[:, 0], polygon[:, 1]
        area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
        areas[bool(colour[0] > colour[2])] += area
    assert areas[True] == pytest.approx(0.16 * share)
    assert areas[False] == pytest.approx(0.16 * (1 - share), abs=1e-12)


def test_every_model_and_sample_has_a_panel_with_its_warnings() -> None:
    some = [
        plane(model=model, sample=sample, zero_gradient=model == "b")
        for model in "ab"
        for sample in (3, 8)
    ]
    figure = draw_landscape(some, "Four")
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 4
    assert titles[0].startswith("a, sample 3 (class 7)")
    assert "margin (logits)" in titles[0]
    assert sum("zero gradient" in title for title in titles) == 2
    words = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert UNFAIR not in words
    unfair = draw_landscape([plane(quantity="paper", clamped=False)], "Paper")
    words = " ".join(text.get_text() for text in unfair.texts).replace("\n", " ")
    assert UNFAIR in words
    assert "not clamped" in words


def test_the_menu_shows_one_sample_at_a_time() -> None:
    some = [
        plane(model=model, sample=sample, objective=objective)
        for objective in ("own", "margin")
        for model in "ab"
        for sample in (3, 8)
    ]
    figure = interactive(some)
    buttons = figure.layout.updatemenus[0].buttons
    assert [button.label for button in buttons] == [
        "sample 3 (class 7), gradient: own",
        "sample 8 (class 7), gradient: own",
        "sample 3 (class 7), gradient: margin",
        "sample 8 (class 7), gradient: margin",
    ]
    shown = np.array([button.args[0]["visible"] for button in buttons])
    assert (shown.sum(axis=0) == 1).all()
    surfaces = [trace for trace in figure.data if trace.type == "surface"]
    assert len(surfaces) == 8
    # x is e1: the plane rises by 3 along it.
    first = np.asarray(surfaces[0].z)
    assert first[0, 1] - first[0, 0] == pytest.approx(3 * 0.05)
    assert first[1, 0] - first[0, 0] == pytest.approx(-2 * 0.05)
    with pytest.raises(MultiwayError, match="8 models at most, not 9"):
        interactive([plane(model=str(number)) for number in range(9)])


def test_classes_are_shown_by_name() -> None:
    classes = [f"<{number}>" for number in range(10)]
    (axes,) = draw_landscape([plane()], "Named", classes).axes
    assert "(class <7>)" in axes.get_title()
    buttons = interactive([plane()], classes).layout.updatemenus[0].buttons
    assert "(class <7>)" in buttons[0].label


def page(folder: Path, name: str = "a") -> Path:
    some = [plane(model=model, sample=sample) for model in (name, "b") for sample in (3, 8)]
    return write_landscape_page(folder / "landscape.html", some, "Landscapes", {"seed": 0})


def test_the_page_holds_everything_and_escapes_names(tmp_path: Path) -> None:
    text = page(tmp_path, "</script><script>alert(1)</script>").read_text(encoding="utf-8")
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?https?:", text)
    assert "<script>alert(1)" not in text
    assert text.count('<img src="data:image/png;base64,') == 1
    assert "sendChartToCloud" not in text.split('"modeBarButtons"')[1]


# Where the scenes stand, once there are two that were moved apart in the given direction.
SCENES = """(along) => {
    const scenes = [...document.querySelectorAll('.gl-container > div')];
    const boxes = scenes.map((one) => one.getBoundingClientRect().toJSON());
    return boxes.length === 2 && boxes[0][along] + 200 < boxes[1][along] && boxes;
}"""


def test_a_browser_draws_the_scenes_without_overlap(chromium: Browser, tmp_path: Path) -> None:
    with silent_page(chromium) as browser:
        browser.goto(page(tmp_path).as_uri())
        expect(browser.locator(".gl-container canvas")).to_have_count(2)
        menu = browser.locator("#landscapes")
        expect(menu).to_contain_text("sample 3 (class 7), gradient: margin")
        left, right = browser.wait_for_function(SCENES, arg="x").json_value()
        assert left["right"] <= right["left"] + 1
        assert left["top"] == pytest.approx(right["top"])
        # On a narrow screen they stand below each other.
        browser.set_viewport_size({"width": 600, "height": 900})
        above, below = browser.wait_for_function(SCENES, arg="y").json_value()
        assert above["bottom"] <= below["top"] + 1
        assert above["left"] == pytest.approx(below["left"])
        assert browser.evaluate("document.documentElement.scrollWidth") <= 600
