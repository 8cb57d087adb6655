"""Landscapes on a page of their own, to be turned and looked at from all sides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from multiway.analysis import Landscape
from multiway.errors import MultiwayError
from multiway.report.page import Html, Picture, Section, Text, write_page
from multiway.report.style import BLUE, RED
from multiway.report.surfaces import (
    BALL,
    UNFAIR,
    arrange,
    class_name,
    draw_landscape,
    floor_of,
    outlines,
)

__all__ = ["MOST_LANDSCAPES", "interactive", "write_landscape_page"]

# Each surface is a WebGL scene, of which browsers keep 16 alive, some only 8.
MOST_LANDSCAPES = 8

# In pixels, on a wide and on a narrow screen: a scene's height and the room above the first.
SCENE, SCENE_NARROW = 460, 340
TOP, TOP_NARROW = 90, 120
TITLE, NARROW = 30, 736  # a title's height, and up to where a screen is narrow

EYE = {"x": -1.4, "y": -1.6, "z": 0.85}  # from where a surface is looked at

# Named one by one: Plotly's own set has one that uploads the figure.
BUTTONS = [["toImage"], ["zoom3d", "pan3d", "orbitRotation"], ["resetCameraDefault3d"]]

READING = (
    "Every point is the image moved by e1 times the sign of the model's own gradient and by e2 "
    "times a random direction of -1 and 1, the same for all models. Orange is misclassified, and "
    "the black line, repeated on the floor, is where the decision changes. The dotted square on "
    "the floor is the L-inf ball: outside it a pixel may change by more than eps. Each surface has "
    "a height of its own, because the margins of different models have different units; compare "
    "shapes, and where the black line runs."
)


def write_landscape_page(
    path: Path | str,
    landscapes: Sequence[Landscape],
    title: str,
    provenance: Mapping[str, Any],
    classes: Sequence[str] | None = None,
) -> Path:
    """One self-contained page: a surface for each model that can be turned, and still pictures.

    Args:
        classes: the names of the classes, to be shown instead of their numbers.
    """
    lead = "What each model computes around an image. Drag to turn, scroll to come nearer."
    reading = [Text(READING)]
    if any(each.quantity == "paper" for each in landscapes):
        reading.append(Text(UNFAIR, strong=True))
    stills = []
    for objective in dict.fromkeys(each.objective for each in landscapes):
        group = [each for each in landscapes if each.objective == objective]
        heading = f"First direction: sign of the gradient of {objective}"
        figure = draw_landscape(group, heading, classes)
        stills.append(Picture(figure, alt=heading, format="png"))
    markup = interactive(landscapes, classes).to_html(
        full_html=False, include_plotlyjs=True, div_id="landscapes",
        default_height=f"{TOP + SCENE}px",
        post_script=_refit(len(arrange(landscapes)[1])),
        config={"displaylogo": False, "responsive": True, "modeBarButtons": BUTTONS},
    )  # fmt: skip
    sections = [
        Section("Surfaces to turn", [*reading, Html(f'<div class="wide">{markup}</div>')]),
        Section("The same, still", stills),
    ]
    return write_page(path, title, lead, sections, provenance)


def interactive(landscapes: Sequence[Landscape], classes: Sequence[str] | None = None) -> go.Figure:
    """A scene for each model; a menu chooses the sample and the gradient's objective.

    Raises:
        MultiwayError: more models than a browser can show at once.
    """
    _, models = arrange(landscapes)
    if len(models) > MOST_LANDSCAPES:
        raise MultiwayError(
            f"a page shows the landscapes of {MOST_LANDSCAPES} models at most, not {len(models)}; "
            "name fewer"
        )
    figure = make_subplots(
        rows=1, cols=len(models), specs=[[{"type": "scene"}] * len(models)],
        subplot_titles=models, horizontal_spacing=0.02,
    )  # fmt: skip
    chosen: list[tuple[str, int]] = []
    for landscape in landscapes:
        for trace in _traces(landscape):
            figure.add_trace(trace, row=1, col=models.index(landscape.model) + 1)
            chosen.append(_key(landscape))
    keys = list(dict.fromkeys(chosen))
    for trace, key in zip(figure.data, chosen, strict=True):
        trace.visible = key == keys[0]
    labels = {_key(each): class_name(each, classes) for each in landscapes}
    buttons = [
        {
            "label": f"sample {sample} (class {labels[objective, sample]}), gradient: {objective}",
            "method": "restyle",
            "args": [{"visible": [key == (objective, sample) for key in chosen]}],
        }
        for objective, sample in keys
    ]
    figure.update_layout(
        updatemenus=[{"buttons": buttons, "x": 0, "xanchor": "left", "yanchor": "top"}],
        font={"family": "system-ui, sans-serif", "color": "#1c1c1c"}, showlegend=False,
    )  # fmt: skip
    for number, model in enumerate(models, start=1):
        words = next(each.values_are for each in landscapes if each.model == model)
        figure.update_layout({_scene_name(number): _scene(words)})
    figure.update_layout(_places(len(models), narrow=False))
    return figure


def _scene_name(number: int) -> str:
    return f"scene{number if number > 1 else ''}"


def _places(models: int, narrow: bool) -> dict[str, Any]:
    """Where the scenes, their titles and the menu are, as Plotly's `relayout` takes it.

    Side by side; or on a narrow screen one below the other, with the menu below the buttons.
    """
    rows = models if narrow else 1
    columns = models // rows
    top = TOP_NARROW if narrow else TOP
    inner = (SCENE_NARROW if narrow else SCENE) * rows
    # Further away where a scene is narrower than high, or its sides are cut off.
    eye = {axis: (1.2 if narrow else 1.0) * value for axis, value in EYE.items()}
    places: dict[str, Any] = {
        "height": inner + top, "margin": {"l": 0, "r": 0, "t": top, "b": 0},
        "font.size": 9 if narrow else 12,
        "updatemenus[0].y": 1 + (top - (40 if narrow else 5)) / inner,
    }  # fmt: skip
    for index in range(models):
        row, column = (index, 0) if narrow else (0, index)
        left, right = column / columns, (column + 1) / columns
        high = 1 - row / rows
        # Titles stand above the scene: the first in the margin, others in the scene's own room.
        taken = 0 if row == 0 else TITLE / inner
        name = _scene_name(index + 1)
        places[f"{name}.camera.eye"] = eye
        places[f"{name}.domain.x"] = [left, right]
        places[f"{name}.domain.y"] = [1 - (row + 1) / rows, high - taken]
        places[f"annotations[{index}].x"] = (left + right) / 2
        places[f"annotations[{index}].y"] = high - taken
    return places


def _refit(models: int) -> str:
    """The script that moves the scenes whenever the screen becomes narrow or wide."""
    narrow, wide = (json.dumps(_places(models, narrow)) for narrow in (True, False))
    return (
        f"const small = window.matchMedia('(max-width: {NARROW}px)');"
        f"const fit = () => {{ const places = small.matches ? {narrow} : {wide};"
        "const plot = document.getElementById('landscapes');"
        "plot.style.height = plot.parentElement.style.height = places.height + 'px';"
        "Plotly.relayout(plot, places).then(() => Plotly.Plots.resize(plot)); };"
        "small.addEventListener('change', fit); if (small.matches) fit();"
    )


def _key(landscape: Landscape) -> tuple[str, int]:
    return landscape.objective, landscape.sample


def _scene(words: str) -> dict[str, Any]:
    return {
        "xaxis": {"title": {"text": "e1 (gradient)"}},
        "yaxis": {"title": {"text": "e2 (random)"}},
        "zaxis": {"title": {"text": words}},
        "aspectmode": "cube",
        "camera": {
            "eye": EYE,
            "center": {"x": 0, "y": 0, "z": -0.12},
        },
    }


def _traces(landscape: Landscape) -> list[Any]:
    """The surface, the outline on it and on the floor, and the image."""
    axis, values = landscape.axis.numpy(), landscape.values.numpy()
    margins = landscape.margins.numpy()
    reach = float(np.abs(margins).max()) or 1.0
    surface = go.Surface(
        # Plotly's rows are y, and those of a landscape are e1, its x.
        x=axis, y=axis, z=values.T, surfacecolor=margins.T, customdata=margins.T,
        cmin=-reach, cmax=reach, showscale=False,
        colorscale=[[0, BLUE], [0.5, BLUE], [0.5, RED], [1, RED]],
        lighting={"ambient": 0.65, "diffuse": 0.6, "specular": 0.05},
        hovertemplate="e1 %{x:.3f}<br>e2 %{y:.3f}<br>value %{z:.4g}<br>margin %{customdata:.4g}"
        "<extra></extra>",
    )  # fmt: skip
    gap = np.full((1, 3), np.nan)
    lines = [part for line in outlines(landscape) for part in (line, gap)]
    outline = np.concatenate([*lines, gap])
    floor, eps = floor_of(landscape), landscape.eps
    # A little above the surface, which would hide half of it.
    lifted = landscape.at_image + 0.02 * float(np.ptp(values))
    image = go.Scatter3d(
        x=[0], y=[0], z=[lifted], mode="markers",
        hovertemplate="the image<extra></extra>",
        marker={"size": 7, "color": "white", "line": {"color": "black", "width": 2}},
    )  # fmt: skip
    return [
        surface,
        _line(outline, {"color": "black", "width": 5}),
        _line(outline, {"color": "black", "width": 4}, floor),
        _line(eps * BALL, {"color": "#595959", "width": 3, "dash": "dot"}, floor),
        image,
    ]


def _line(points: np.ndarray, style: dict[str, Any], height: float | None = None) -> Any:
    """A line through `points` [M, 3], or at one height through their first two columns."""
    heights = points[:, 2] if height is None else np.full(len(points), height)
    return go.Scatter3d(
        x=points[:, 0], y=points[:, 1], z=heights, mode="lines", hoverinfo="skip", line=style
    )
