"""The diagnosis as a page: verdict, checklist, and the evidence in one figure."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from multiway.analysis.diagnosis import Diagnosis, Item, Trial
from multiway.report.page import Block, Html, Picture, Section
from multiway.report.style import BLUE, COLOURS, GREEN, GREY, MARKERS, RED, figure_style
from multiway.statistics import Interval, proportion

__all__ = ["BADGES", "diagnosis_section", "draw_diagnosis"]

# How a status is shown: never by colour alone.
BADGES = {"pass": "✓ pass", "fail": "✗ FAIL", "not applicable": "– n/a"}
_BADGE_COLOURS = {"pass": "#00664b", "fail": "#b34700", "not applicable": "#5a5a5a"}

_FAMILY_COLOURS = {
    "one-step": COLOURS[5],
    "iterative": BLUE,
    "transfer": COLOURS[4],
    "noise": GREY,
    "gradient-free": GREEN,
}

# Dashes tell the curves of objectives apart where colours do not.
_DASHES = {"own": "-", "ce": "--", "margin": "-.", "dlr": ":"}


def diagnosis_section(diagnosis: Diagnosis, title: str = "Is this robustness real?") -> Section:
    """The verdict, the checklist and the figure, to stand in a page."""
    blocks: list[Block] = [
        Html(f'<p class="strong">{_marked_up(diagnosis.verdict)}</p>'),
        Html(f"<p>{_marked_up(_summary(diagnosis))}</p>"),
        Html("".join(map(_item, diagnosis.items))),
        Picture(
            draw_diagnosis(diagnosis, title),
            alt="Accuracy against eps, accuracy by objective, loss curves, and the accuracy left "
            "after each attack",
            caption=f"The evidence. n={diagnosis.clean.n}, {diagnosis.threat}, attack seed "
            f"{diagnosis.seed}; bars are "
            "95 % intervals. The attacker is white-box but for transfer, noise, Square and "
            "NAttack.",
        ),
    ]
    return Section(title, blocks)


def _summary(diagnosis: Diagnosis) -> str:
    return (
        f"Accuracy without an attack {diagnosis.clean}; under {diagnosis.claim.attack}, as an "
        f"ordinary evaluation might report it, {diagnosis.claim.value}; when every image meets "
        f"what is worst for it, {diagnosis.robust}. Threat model: {diagnosis.threat}; attack seed "
        f"{diagnosis.seed}; in brackets 95 % intervals."
    )


def draw_diagnosis(diagnosis: Diagnosis, title: str) -> Figure:
    """Four panels: accuracy by eps and by objective, loss curves, and what each attack left."""
    heading = (
        f"{title}: {diagnosis.threat}, n={diagnosis.clean.n}, attack seed {diagnosis.seed}; "
        "error bars are 95 % intervals"
    )
    with figure_style():
        lines = textwrap.wrap(heading, 120)
        height = 8.2 + 0.25 * len(lines)
        figure = Figure(figsize=(11, height))
        by_eps, by_objective, curves, after = figure.subplots(2, 2).flat
        _draw_sweep(by_eps, diagnosis)
        _draw_objectives(by_objective, diagnosis)
        _draw_curves(curves, diagnosis)
        _draw_after(after, diagnosis)
        # A name is not mathematics.
        figure.suptitle("\n".join(lines), fontsize=11, y=1 - 0.05 / height, parse_math=False)
        top = 1 - (0.1 + 0.25 * len(lines)) / height
        figure.tight_layout(h_pad=2.5, w_pad=2.5, rect=(0, 0, 1, top))
        return figure


def _draw_sweep(axes: Any, diagnosis: Diagnosis) -> None:
    """Accuracy against eps; the attacker without a bound stands apart at the right."""
    finite = [one for one in diagnosis.sweep if math.isfinite(one.eps)]
    eps = [0.0, *(one.eps for one in finite)]
    values = [diagnosis.clean, *(one.accuracy for one in finite)]
    far = 1.18 * eps[-1]
    _error_line(axes, eps, values, color=BLUE, marker="o")
    axes.plot(
        [eps[-1], far],
        [100 * values[-1].value, 100 * diagnosis.sweep[-1].accuracy.value],
        color=BLUE,
        ls=":",
    )
    _error_line(axes, [far], [diagnosis.sweep[-1].accuracy], color=BLUE, marker="D")
    here = float(diagnosis.threat.eps)
    axes.axvline(here, color=GREY, lw=1, ls="--")
    axes.annotate(
        f"eps {here:.3g}", (here, 103), xytext=(3, 0), textcoords="offset points", color="#5a5a5a"
    )
    # Small radii stand close together.
    names = [*(f"{one:.3g}" for one in eps), "no bound"]
    axes.set_xticks([*eps, far], names, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set(ylim=(-3, 109), xlabel="eps", ylabel="accuracy (%)")
    axes.set_title(f"Accuracy against eps (PGD on {finite[0].objective})", fontsize=10)


def _draw_objectives(axes: Any, diagnosis: Diagnosis) -> None:
    """One-step and iterative attacks by objective, with the worst case of all as a line."""
    trials = {trial.name: trial for trial in diagnosis.trials}
    names = [str(one.objective) for one in diagnosis.trials if one.family == "one-step"]
    styles = (("FGSM", COLOURS[5], "", -0.2), ("PGD", BLUE, "//", 0.2))
    for family, colour, hatch, shift in styles:
        for place, name in enumerate(names):
            value = _accuracy(diagnosis, trials[f"{family.lower()}-{name}"])
            axes.bar(
                place + shift,
                100 * value.value,
                0.38,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                label=family if place == 0 else None,
                yerr=_spread([value]),
                ecolor="black",
                capsize=3,
            )
            axes.text(
                place + shift,
                100 * value.high + 1.5,
                f"{100 * value.value:.1f}",
                ha="center",
                fontsize=8,
            )
    robust = 100 * diagnosis.robust.value
    label = f"worst case over all: {robust:.1f}"
    axes.axhline(robust, color=RED, lw=1.5, ls="--", label=label)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylim=(0, 112), ylabel="accuracy (%)")
    axes.set_title("Accuracy by the objective ascended", fontsize=10, pad=24)
    axes.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def _draw_curves(axes: Any, diagnosis: Diagnosis) -> None:
    """Loss curves of PGD, each as a share of its own rise; they must flatten out."""
    for trial in diagnosis.trials:
        longer = trial.name.endswith("-longer")
        if trial.name != f"pgd-{trial.objective}" and not longer:
            continue
        colour = "black" if longer else COLOURS[list(_DASHES).index(str(trial.objective))]
        curve = trial.loss_curve
        rise = float(curve[-1] - curve[0])
        label = f"{trial.objective}{', longer' if longer else ''}"
        if rise > 0:
            shares = (100 * (curve - curve[0]) / rise).tolist()
        else:
            shares, label = [0.0] * len(curve), f"{label}: does not rise"
        # A run in which every image broke early has a short curve; its end is marked.
        axes.plot(shares, color=colour, ls=_DASHES[str(trial.objective)], label=label, lw=1.6)
        axes.plot(len(shares) - 1, shares[-1], color=colour, marker=MARKERS[0], ms=4)
    axes.set(xlabel="step", ylabel="share of the loss's rise (%)", ylim=(-5, 109))
    axes.set_title("Loss curves of PGD, by objective", fontsize=10)
    axes.legend(fontsize=8, loc="center right")


def _draw_after(axes: Any, diagnosis: Diagnosis) -> None:
    """The accuracy left after each attack and all before it, in the order they ran."""
    trials = [trial for trial in diagnosis.trials if trial.name in diagnosis.after]
    shown = set()
    for place, trial in enumerate(trials):
        value = diagnosis.after[trial.name]
        label = None if trial.family in shown else trial.family
        shown.add(trial.family)
        axes.barh(
            place,
            100 * value.value,
            color=_FAMILY_COLOURS[trial.family],
            label=label,
            xerr=_spread([value]),
            error_kw={"elinewidth": 0.8, "capsize": 2},
        )
        text = f"{100 * value.value:.1f}"
        axes.text(100 * value.high + 1.5, place, text, va="center", fontsize=7)
    names = [trial.name for trial in trials]
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xlim=(0, 112), xlabel="accuracy (%)")
    axes.invert_yaxis()
    axes.set_title("Worst case so far, attack by attack", fontsize=10, pad=24)
    axes.legend(
        fontsize=7.5, ncols=5, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False,
        columnspacing=1, handlelength=1.2,
    )  # fmt: skip


def _accuracy(diagnosis: Diagnosis, trial: Trial) -> Interval:
    """Of the model under a trial that met every image it gets right."""
    n = diagnosis.clean.n
    return proportion(round(diagnosis.clean.value * n) - int(trial.broken.sum()), n)


def _error_line(axes: Any, x: Sequence[float], values: Sequence[Interval], **style: Any) -> None:
    axes.errorbar(
        x, [100 * value.value for value in values], _spread(values), capsize=3, lw=1.6, **style
    )


def _spread(values: Sequence[Interval]) -> list[list[float]]:
    """How far 95 % intervals reach below and above their values, in percent."""
    below = [100 * (value.value - value.low) for value in values]
    return [below, [100 * (value.high - value.value) for value in values]]


def _item(item: Item) -> str:
    """One line of the checklist; everything in it is escaped."""
    badge = (
        f'<span style="color:#fff;background:{_BADGE_COLOURS[item.status]};border-radius:4px;'
        'padding:.05rem .5rem;margin-right:.6rem;font-size:.85rem;white-space:nowrap">'
        f"{BADGES[item.status]}</span>"
    )
    return (
        '<div style="border-bottom:1px solid var(--line);padding:.7rem 0;max-width:56rem">'
        f"{badge}<strong>{_marked_up(item.question)}</strong> {_marked_up(item.meaning)}"
        '<div style="color:var(--soft);font-size:.9rem;margin-top:.25rem">'
        f"Measured: {_marked_up(item.measured)}.<br>Fails if {_marked_up(item.threshold)}."
        "</div></div>"
    )


def _marked_up(text: str) -> str:
    """Escaped, with what stands between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))
