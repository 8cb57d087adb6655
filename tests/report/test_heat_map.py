"""Heat maps show each cell at its place, in its colour, with its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from multiway.errors import MultiwayError
from multiway.report.heat_map import draw_heat_map
from study_results import accuracy, correlation, plain, transfer


def maps(figure: Figure) -> dict[str, Any]:
    """The panels by their titles; colour bars and empty places have none."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def values(axes: Any) -> np.ndarray:
    """The drawn values, NaN where a map is empty."""
    shown: np.ndarray = np.ma.filled(axes.images[0].get_array(), np.nan)
    return shown


def written(axes: Any, x: int, y: int) -> list[str]:
    """The lines in a cell, from top to bottom."""
    inside = [t for t in axes.texts if round(t.get_position()[0]) == x]
    inside = [t for t in inside if abs(t.get_position()[1] - y) < 0.5 and t.get_text()]
    return [t.get_text() for t in sorted(inside, key=lambda text: text.get_position()[1])]


def names(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


def test_each_cell_has_its_figure_its_interval_and_the_papers() -> None:
    shown = maps(draw_heat_map(transfer()))
    own = shown["Accuracy, attacker ascends own"]
    assert names(own.get_yticklabels()) == ["A-1ofK", "A-RO"]
    assert names(own.get_xticklabels()) == ["A-1ofK", "A-RO", "AVG BB"]
    np.testing.assert_allclose(values(own), [[20, 27.5, 40], [35, 42.5, 55]])
    assert written(own, 0, 0) == ["20.0*", "[15.0, 26.1]", "paper 23.1"]
    assert written(own, 0, 1) == ["35.0", "[28.7, 41.8]", "paper 38.1"]
    assert written(own, 2, 1) == ["55.0", "[48.1, 61.7]"]
    margin = shown["Accuracy, attacker ascends margin"]
    np.testing.assert_allclose(values(margin), [[10, 17.5, 30], [25, 32.5, 45]])
    assert written(margin, 0, 0) == ["10.0*", "[6.6, 14.9]"]
    assert (own.get_xlabel(), own.get_ylabel()) == ("crafted on", "attacked")


def test_where_nothing_was_measured_a_map_is_empty() -> None:
    rho = maps(draw_heat_map(transfer()))["Correlation of gradient signs, gradients of own"]
    np.testing.assert_allclose(values(rho), [[np.nan, 0.2], [0.2, np.nan]])
    assert written(rho, 0, 0) == []


def test_half_a_matrix_has_a_panel_for_each_layer() -> None:
    pairs = [("b", "a", 0.1), ("c", "a", 0.2), ("c", "b", -0.3)]
    cells = [
        correlation(row, column, value, objective, panel=layer)
        for layer in ("input", "conv1")
        for objective in ("own", "margin")
        for row, column, value in pairs
    ]
    shown = maps(draw_heat_map(plain(*cells, chart="heat map")))
    assert [*shown] == [
        f"{layer}: Correlation of gradient signs, gradients of {objective}"
        for layer in ("input", "conv1")
        for objective in ("own", "margin")
    ]
    for axes in shown.values():
        np.testing.assert_allclose(values(axes), [[0.1, np.nan], [0.2, -0.3]])


@pytest.mark.parametrize(("largest", "limit"), [(0.3, 0.5), (0.6, 1.0)])
def test_colours_of_correlations_are_even_around_zero(largest: float, limit: float) -> None:
    cells = (correlation("a", "b", largest), correlation("b", "a", -0.1))
    (axes,) = maps(draw_heat_map(plain(*cells, chart="heat map"))).values()
    assert axes.images[0].get_clim() == (-limit, limit)


def test_percentages_use_all_of_one_scale() -> None:
    for axes in list(maps(draw_heat_map(transfer())).values())[:2]:
        assert axes.images[0].get_clim() == (0, 100)


def test_writing_can_be_read_on_every_colour() -> None:
    cells = [accuracy("a", f"{share}", 2 * share) for share in range(0, 101, 5)]
    cells += [correlation("a", f"{share}", share / 100) for share in range(-90, 91, 10)]
    for axes in maps(draw_heat_map(plain(*cells, chart="heat map"))).values():
        image = axes.images[0]
        for text in axes.texts:
            x, y = (round(part) for part in text.get_position())
            cell = image.to_rgba(values(axes)[y, x])
            assert contrast(to_rgb(text.get_color()), cell[:3]) > 4


def contrast(one: Any, other: Any) -> float:
    """The ratio of contrast of two colours, as WCAG defines it: from 1 to 21."""

    def luminance(colour: Any) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_clean_figures_stand_at_the_right_of_every_objective() -> None:
    clean = accuracy("A-1ofK", "clean", 199, None)
    shown = maps(draw_heat_map(replace(transfer(), cells=(clean, *transfer().cells))))
    for objective in ("own", "margin"):
        axes = shown[f"Accuracy, attacker ascends {objective}"]
        assert names(axes.get_xticklabels()) == ["A-1ofK", "A-RO", "AVG BB", "clean"]
        assert written(axes, 3, 0) == ["99.5", "[97.2, 99.9]"]
        assert np.isnan(values(axes)[1, 3])


def test_a_name_is_not_mathematics() -> None:
    name = r"$\foo$"
    cells = (accuracy(name, name, 3), accuracy(name, name, 3, None, panel=name))
    figure = draw_heat_map(plain(*cells, chart="heat map", title=name, row_name=name))
    figure.draw_without_rendering()  # as mathematics it would be an error
    (first, second) = maps(figure).values()
    assert names(first.get_yticklabels()) == [name]
    assert second.get_title() == rf"{name}: Accuracy"


def test_the_title_and_the_note_say_how_it_came_about() -> None:
    figure = draw_heat_map(transfer())
    title = " ".join(figure.get_suptitle().split())
    assert title == (
        "The title of transfer toys, scale cpu, n=200, training seeds 0, 1, 2; FGSM, Linf 0.2"
    )
    note = " ".join(figure.get_supxlabel().split())
    assert note == (
        "* white-box. In brackets 95 % intervals. Below them the paper's figures, whose attack "
        "ascends own."
    )
    noted = draw_heat_map(replace(transfer(), details={"notes": ["Beware."]}))
    assert noted.get_supxlabel().endswith("Beware.")


def test_nothing_to_draw() -> None:
    with pytest.raises(MultiwayError, match="nothing to draw: toy has no figures"):
        draw_heat_map(plain(chart="heat map"))
