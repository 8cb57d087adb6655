"""Records of the page as pictures and as plotly figures, ready to be sent as JSON."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from multiway.errors import visible
from multiway.explore.codes import Cloud
from multiway.explore.compute import EpsLine, ModelView, View
from multiway.report.style import BLUE, COLOURS, GREEN, GREY, RED

__all__ = [
    "MODEL_COLOURS",
    "cloud_figure",
    "eps_figure",
    "image_address",
    "line_style",
    "path_figure",
    "scores_figure",
    "signed_address",
]

MODEL_COLOURS = COLOURS[:6]  # the last is black, which is not seen on a dark screen
MOST_CLASSES = 10  # bars that can be read
# Seen on white and on black; the page sets the colour of the letters.
FAINT, LINE = "rgba(128,128,128,0.22)", "rgba(128,128,128,0.75)"
LOW, HIGH = (0.0, 0.447, 0.698), (0.835, 0.369, 0.0)  # BLUE and RED, for signed values

PLOTLY_DASH = {"solid": "solid", "dashed": "dash", "dotted": "dot"}

Figure = dict[str, Any]


def image_address(image: Tensor) -> str:
    """An image [C, H, W] in [0, 1] as a PNG in a data address; 1 or 3 channels."""
    pixels = image.clamp(0, 1).mul(255).round().byte()
    # Other numbers of channels have no colours of their own.
    pixels = pixels if len(pixels) in (1, 3) else pixels.float().mean(0, keepdim=True).byte()
    array = pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def signed_address(values: Tensor) -> str:
    """Values [C, H, W] of both signs: white is 0, blue the most negative, orange the most positive.

    Channels are added, and the largest absolute value has the full colour.
    """
    flat = values.sum(dim=0)
    largest = float(flat.abs().max())
    share = flat / largest if largest > 0 else flat
    ends = torch.where(
        (share < 0)[None], torch.tensor(LOW)[:, None, None], torch.tensor(HIGH)[:, None, None]
    )
    return image_address(1 + share.abs()[None] * (ends - 1))


def scores_figure(view: ModelView, classes: Sequence[str], label: int, colour: str) -> Figure:
    """Scores and distances to the codewords of the classes, before and after the attack.

    Of many classes, those with the highest scores and the true one.
    """
    count = view.scores.shape[1]
    shown = list(range(count))
    if count > MOST_CLASSES:
        top = view.scores.amax(dim=0).argsort(descending=True)[:MOST_CLASSES].tolist()
        shown = list(dict.fromkeys([label, *top]))[:MOST_CLASSES]
    shown = shown[::-1]  # plotly counts from below
    names = [_name(classes, one) + (" ✓" if one == label else "") for one in shown]
    data = []
    for axis, values in (("", view.scores), ("2", view.distances)):
        for moment, tint in ((1, colour), (0, GREY)):
            words = "attacked" if moment else "clean"
            data.append(
                {
                    "type": "bar", "orientation": "h", "y": names, "name": words,
                    "x": _round(values[moment][shown]), "xaxis": f"x{axis}", "yaxis": "y",
                    "marker": {"color": tint}, "legendgroup": words, "showlegend": axis == "",
                    "hovertemplate": "%{y}: %{x}<extra>" + words + "</extra>",
                }
            )  # fmt: skip
    away = "distance to<br>codeword" if view.codewords else "distance to<br>one-hot"
    layout = _layout(height=86 + 24 * len(shown))
    layout |= {
        "barmode": "group", "bargap": 0.25, "bargroupgap": 0,
        "xaxis": _axis("score", domain=[0, 0.52]),
        "xaxis2": _axis(away, domain=[0.6, 1], rangemode="tozero"),
        "yaxis": {"type": "category", "automargin": True, "ticksuffix": " ", "fixedrange": True},
    }  # fmt: skip
    layout["legend"] |= {"traceorder": "reversed"}
    return {"data": data, "layout": layout}


def path_figure(view: View, colours: Mapping[str, str]) -> Figure:
    """The margin of both models wherever the attack took a gradient, and where it ended.

    Args:
        colours: of the models, by name.
    """
    data = []
    for model in view.models:
        steps = list(range(len(model.path)))
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": _safe(model.name),
                "x": steps, "y": _round(model.path), "marker": {"size": 5},
                "line": {"color": colours[model.name], "width": 2},
                "hovertemplate": "step %{x}: margin %{y}<extra></extra>",
            }
        )  # fmt: skip
    layout = _layout(height=400)
    layout |= {
        "xaxis": _axis("step", dtick=max(1, (len(view.models[0].path) - 1) // 10)),
        "yaxis": _axis("margin"),
        "shapes": [_broken_line()],
    }
    return {"data": data, "layout": layout}


def eps_figure(lines: Sequence[EpsLine], eps: float, colours: Mapping[str, str]) -> Figure:
    """The margin against eps, a line for each model and objective; a mark where each breaks."""
    data: list[dict[str, Any]] = []
    for line in lines:
        colour, dash = colours[line.model], line_style(line, lines)
        name = f"{line.model}, {line.objective}, crafted on {line.crafted_on}"
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": _safe(name),
                "x": _round(line.eps), "y": _round(line.margin),
                "line": {"color": colour, "width": 2, "dash": PLOTLY_DASH[dash]},
                "hovertemplate": "eps %{x}: margin %{y}<extra>" + _safe(name) + "</extra>",
            }
        )  # fmt: skip
        if line.breaks_at is not None:
            data.append(
                {
                    "type": "scatter", "mode": "markers", "showlegend": False,
                    "x": _round(torch.tensor([line.breaks_at])), "y": [0],
                    "marker": {"color": colour, "size": 10, "symbol": "x"},
                    "hovertemplate": "breaks at eps %{x}<extra></extra>",
                }
            )  # fmt: skip
    now = {
        "type": "line", "x0": eps, "x1": eps, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": LINE, "width": 1, "dash": "dash"},
    }  # fmt: skip
    # Far below 0 there is nothing to see but lines.
    clean = [abs(float(line.margin[0])) for line in lines]
    top = 1.2 * max([value for value in clean if value < float("inf")], default=1.0) or 1.0
    layout = _layout(height=300) | {"showlegend": False}
    layout["margin"] |= {"t": 8}
    layout |= {
        "xaxis": _axis("eps", range=[0, float(lines[0].eps[-1])]),
        "yaxis": _axis("margin", range=[-top, top]),
        "shapes": [_broken_line(), now],
    }
    return {"data": data, "layout": layout}


def cloud_figure(cloud: Cloud, classes: Sequence[str]) -> Figure:
    """Points in three dimensions; a frame for each step from the clean to the attacked images."""
    names = [_name(classes, one) for one in cloud.classes]
    colours = (BLUE, RED, GREEN)
    frames = [
        {"name": str(number), "data": _points(cloud, number, names, colours)}
        for number in range(len(cloud.points))
    ]
    reach = cloud.points[cloud.points.isfinite()]
    low, high = (float(reach.min()), float(reach.max())) if len(reach) else (0.0, 1.0)
    room = 0.05 * (high - low) or 1.0
    layout = _layout(height=380)
    layout["margin"] = {"l": 0, "r": 0, "t": 24, "b": 0}
    layout["legend"] |= {"itemsizing": "constant"}
    layout["scene"] = {
        f"{axis}axis": {
            "title": {"text": f"class {name}", "font": {"size": 12}},
            "range": [low - room, high + room],
            "gridcolor": LINE, "zerolinecolor": LINE, "showbackground": False, "nticks": 5,
        }
        for axis, name in zip("xyz", names, strict=True)
    }  # fmt: skip
    layout["scene"] |= {
        "aspectmode": "cube", "dragmode": "orbit",
        "camera": {"eye": {"x": 1.85, "y": 1.85, "z": 1.15}, "center": {"z": -0.12}},
    }  # fmt: skip
    return {"data": frames[-1]["data"], "layout": layout, "frames": frames}


def _points(
    cloud: Cloud, frame: int, names: Sequence[str], colours: Sequence[str]
) -> list[dict[str, Any]]:
    """Right and wrong decisions of each class, as traces of their own."""
    traces = []
    for one, name, colour in zip(cloud.classes, names, colours, strict=True):
        # Plotly leaves a trace without points out of the legend.
        none_right = bool(cloud.wrong[frame][cloud.labels == one].all())
        for wrong in (False, True):
            chosen = (cloud.labels == one) & (cloud.wrong[frame] == wrong)
            x, y, z = (_round(column) for column in cloud.points[frame][chosen].T)
            traces.append(
                {
                    "type": "scatter3d", "mode": "markers", "x": x, "y": y, "z": z,
                    "name": name, "legendgroup": name, "showlegend": wrong == none_right,
                    "marker": {
                        "size": 4, "color": colour, "opacity": 0.85,
                        "symbol": "cross" if wrong else "circle",
                    },
                    "hovertemplate": f"{name}: %{{x}}, %{{y}}, %{{z}}<extra></extra>",
                }
            )  # fmt: skip
    return traces


def line_style(line: EpsLine, lines: Sequence[EpsLine]) -> str:
    """How a line is drawn, as CSS says it: solid for the chosen objective on the model itself."""
    if line.model != line.crafted_on:
        return "dotted"
    chosen = next(each for each in lines if each.model == each.crafted_on == line.model)
    return "solid" if line is chosen else "dashed"


def _broken_line() -> dict[str, Any]:
    """Where the decision changes."""
    return {
        "type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 0, "y1": 0,
        "line": {"color": LINE, "width": 1.5},
    }  # fmt: skip


def _layout(height: int) -> dict[str, Any]:
    return {
        "height": height, "margin": {"l": 48, "r": 10, "t": 30, "b": 42}, "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "font": {"size": 12}},
        "hoverlabel": {"font": {"size": 12}}, "dragmode": False,
    }  # fmt: skip


def _axis(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 6}, "gridcolor": FAINT, "zeroline": False,
        "linecolor": LINE, "ticks": "outside", "ticklen": 4, "tickcolor": LINE,
        "fixedrange": True, "automargin": True, **more,
    }  # fmt: skip


def _name(classes: Sequence[str], label: int) -> str:
    return _safe(classes[label] if label < len(classes) else str(label))


def _safe(name: str) -> str:
    """A name as plotly shows it: it reads some HTML in its texts."""
    return html.escape(visible(name), quote=False)


def _round(values: Tensor) -> list[float | None]:
    """Four digits are more than can be seen; what is not finite is a gap."""
    return [
        float(f"{value:.4g}") if abs(value) < float("inf") else None for value in values.tolist()
    ]
