"""The diagnosis as a page: verdict, checklist, and the evidence in two figures."""

from __future__ import annotations

from dataclasses import replace

from multiway.analysis.diagnosis import Diagnosis, Item
from multiway.report.dot_plot import draw_dots
from multiway.report.line_chart import draw_lines
from multiway.report.page import Html, Picture, Section, coded
from multiway.results import Cell, Result

__all__ = ["BADGES", "diagnosis_charts", "diagnosis_section"]

# How a status is shown: never by colour alone.
BADGES = {"pass": "✓ pass", "fail": "✗ FAIL", "not applicable": "– n/a"}
_BADGE_COLOURS = {"pass": "#00664b", "fail": "#b34700", "not applicable": "#5a5a5a"}


def diagnosis_section(diagnosis: Diagnosis, title: str = "Is this robustness real?") -> Section:
    """The verdict, the checklist and the figures, to stand in a page."""
    lines, dots = diagnosis_charts(diagnosis, title)
    return Section(
        title,
        [
            *diagnosis_text(diagnosis),
            Picture(
                draw_lines(lines),
                alt="Accuracy against eps, and the loss curves of PGD",
                caption="Accuracy must fall as eps grows and reach 0 without a bound; the loss of "
                "PGD must flatten out.",
            ),
            Picture(
                draw_dots(dots),
                alt="Accuracy by objective, and the accuracy left after each attack",
                caption="Accuracy under each attack with the model's gradients, which must not "
                "depend on the objective; and after each attack and all before it. The attacker "
                "is white-box but for transfer, noise, Square and NAttack.",
            ),
        ],
    )


def diagnosis_text(diagnosis: Diagnosis) -> list[Html]:
    """The verdict, the figures behind it in a sentence, and the checklist; all escaped."""
    claim = diagnosis.claim
    summary = (
        f"Accuracy without an attack {diagnosis.clean.interval}; under {claim.attack} on "
        f"`{claim.objective}`, as an ordinary evaluation might report it, {claim.interval}; with "
        f"each image in its worst case {diagnosis.robust.interval}. Threat model: "
        f"{diagnosis.threat}; attack seed {diagnosis.seed}; in brackets 95 % intervals."
    )
    return [
        Html(f'<p class="strong">{coded(diagnosis.verdict)}</p>'),
        Html(f"<p>{coded(summary)}</p>"),
        Html("".join(map(_item, diagnosis.items))),
    ]


def diagnosis_charts(diagnosis: Diagnosis, title: str) -> tuple[Result, Result]:
    """What is drawn: lines over eps and over the steps of PGD, and a dot for each attack."""
    result = diagnosis.result(title)
    panels: dict[str, list[Cell]] = {}
    for cell in result.cells:
        # What all attacks have in common; the names of the rows and the caption say the rest.
        drawn = replace(cell, attack=str(diagnosis.threat), white_box=False)
        panels.setdefault(cell.panel, []).append(drawn)
    # Curves of all objectives belong in one panel, and their series names the objective.
    curves = [replace(cell, objective=None, attack=None) for cell in panels["loss curves"]]
    # One network is drawn, so that its attacks are the rows.
    attacks = [
        replace(cell, row=cell.column, column=panel)
        for panel in ("by objective", "worst case so far")
        for cell in panels[panel]
    ]
    result = replace(result, title=title, details={})
    lines = replace(result, chart="lines", x_name="eps; for the loss curves the step")
    return (
        replace(lines, cells=(*panels["against eps"], *curves)),
        replace(result, chart="dots", row_name="attack", cells=tuple(attacks)),
    )


def _item(item: Item) -> str:
    """One line of the checklist."""
    badge = (
        f'<span style="color:#fff;background:{_BADGE_COLOURS[item.status]};border-radius:4px;'
        'padding:.05rem .5rem;margin-right:.6rem;font-size:.85rem;white-space:nowrap">'
        f"{BADGES[item.status]}</span>"
    )
    return (
        '<div style="border-bottom:1px solid var(--line);padding:.7rem 0;max-width:56rem">'
        f"{badge}<strong>{coded(item.question)}</strong> {coded(item.meaning)}"
        '<div style="color:var(--soft);font-size:.9rem;margin-top:.25rem">'
        f"Measured: {coded(item.measured)}.<br>Fails if {coded(item.threshold)}."
        "</div></div>"
    )
