"""The demo's page: what two encodings did to four networks, in pictures and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from multiway.analysis import Diagnosis
from multiway.report.diagnosis import diagnosis_section
from multiway.report.dot_plot import draw_dots
from multiway.report.figures import saliency_pictures
from multiway.report.heat_map import draw_heat_map
from multiway.report.labels import facts, unique
from multiway.report.line_chart import draw_lines
from multiway.report.page import Block, Picture, Section, Text, write_page
from multiway.report.tables import result_tables
from multiway.results import Result

__all__ = ["DemoFindings", "demo_page"]

LEAD = (
    "Five small networks learned the same digits: two with one-hot labels (1ofK), two with random "
    "orthogonal codes (RO) of length 2,000, and as a control one with one-hot labels that are "
    "padded with zeros to that length. Each was attacked, by itself and by the others. What "
    "follows is one run on a small data set, not a study; every figure has its 95 % interval."
)


@dataclass(frozen=True)
class DemoFindings:
    """All that the demo measured.

    Attributes:
        worst: accuracy clean, under one step, and in the worst case of each image over all attacks.
        transfer: what `multiway.transfer` returned; so `correlation`, `curves` and `corruption`.
        encodings: of each network, by name.
        images: [N, C, H, W], at which gradients are shown.
        labels: the name of each one's class.
        gradients: by objective, then by network, [N, C, H, W].
        diagnoses: by network.
        provenance: how it was made, shown at the end.
    """

    worst: Result
    transfer: Result
    correlation: Result
    curves: Result
    corruption: Result
    encodings: Mapping[str, str]
    images: Tensor
    labels: Sequence[str]
    gradients: Mapping[str, Mapping[str, Tensor]]
    diagnoses: Mapping[str, Diagnosis]
    provenance: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of all figures."""
        results = ("worst", "transfer", "correlation", "curves", "corruption")
        return {
            "encodings": dict(self.encodings),
            **{name: getattr(self, name).as_dict() for name in results},
            "diagnoses": {name: each.as_dict() for name, each in self.diagnoses.items()},
            "provenance": dict(self.provenance),
        }


def demo_page(path: Path | str, findings: DemoFindings) -> Path:
    """Write the page."""
    sections = [
        _worst(findings.worst),
        _transfer(findings.transfer),
        _correlation(findings.correlation, findings.encodings),
        _saliency(findings),
        _curves(findings.curves),
        _corruption(findings.corruption),
        *(
            Section(f"Diagnosis of {name}", diagnosis_section(each, name).blocks)
            for name, each in findings.diagnoses.items()
        ),
    ]
    return write_page(
        path, "Is a network with codes more robust?", LEAD, sections, findings.provenance
    )


def _worst(measured: Result) -> Section:
    blocks: list[Block] = [
        Text(
            "What one step of an attacker who has the network leaves of it, by the loss that the "
            "step ascends, and what is left of each image in the worst case over these and many "
            f"steps with restarts: {facts(measured)}. In brackets 95 % intervals over images."
        )
    ]
    for name in unique(measured.cells, "row"):
        cells = {cell.column: cell for cell in measured.cells if cell.row == name}
        last = cells.get("worst case")
        single = [cell for cell in cells.values() if cell.white_box and cell is not last]
        best = max(single, key=lambda cell: cell.value, default=None)
        if best is not None and last is not None and last.interval.high < best.interval.low:
            words = (
                f"One step ({best.column}) leaves {name} {best.interval}; in the worst case "
                f"{last.interval} is left."
            )
            blocks.append(Text(words, strong=True))
    return Section("What is left of each network?", [*result_tables(measured), *blocks])


def _transfer(measured: Result) -> Section:
    # The gradients have a section of their own.
    shown = measured.only(lambda cell: cell.metric == "accuracy")
    blocks: list[Block] = [
        Text(
            "Each network (column) crafts adversarial images, and each (row) is shown them: "
            f"{facts(shown)}. The attacker ascends the network's own training loss, as in the "
            "paper, or the margin: the lead of the best wrong class, which is what decides. In "
            "brackets 95 % intervals."
        )
    ]
    for name in unique(shown.cells, "row"):
        white = {c.objective: c for c in shown.cells if c.row == name and c.white_box}
        worst = min(white.values(), key=lambda cell: cell.value, default=None)
        own = white.get("own")
        if own is not None and worst is not None and worst.interval.high < own.interval.low:
            words = (
                f"Under its own loss {name} seems to keep {own.interval}. Under the "
                f"{worst.objective} {worst.interval} is left: of the two its own loss is "
                "the poorer direction."
            )
            blocks.append(Text(words, strong=True))
    caption = (
        "Rows are attacked, columns attack; brackets are 95 % intervals. A transfer table is weak "
        "evidence for a defence: the white-box cells are what counts."
    )
    alt = "Two heat maps of accuracies, every network against every network"
    blocks.append(Picture(draw_heat_map(shown), alt, caption))
    return Section("Do attacks transfer?", [*blocks, *result_tables(shown)])


def _correlation(measured: Result, encodings: Mapping[str, str]) -> Section:
    blocks: list[Block] = [
        Text(
            "The paper explains the lack of transfer by gradients that point elsewhere. Here is "
            "the correlation of their signs, at the input and at each convolution, for both "
            "objectives."
        ),
        Text(_same_encoding(measured, encodings)),
        Picture(
            draw_heat_map(measured),
            "Heat maps of correlations between every two networks",
            "Mean over images of each image's coefficient.",
        ),
    ]
    return Section("Are their gradients alike?", [*blocks, *result_tables(measured)])


def _same_encoding(measured: Result, encodings: Mapping[str, str]) -> str:
    """What the objective does to the correlation between networks of one encoding."""
    parts = []
    for encoding in dict.fromkeys(encodings.values()):
        values = ", ".join(
            f"{cell.interval.number()} on {cell.objective}"
            for cell in measured.cells
            if cell.panel == "input"
            and encodings.get(cell.row) == encodings.get(cell.column) == encoding
        )
        if values:
            parts.append(f"between the two {encoding} networks it is {values}")
    return f"At the input, {'; '.join(parts)}. In brackets 95 % intervals." if parts else ""


def _saliency(findings: DemoFindings) -> Section:
    made = findings.transfer.provenance
    words = (
        "Where a brighter pixel would raise what the attacker ascends, and where lower it, on "
        f"{len(findings.images)} single images. No attack and no chance is in these pictures; the "
        f"seeds are those of training, {', '.join(map(str, made.seeds))}."
    )
    rows = [f"image {number}\nclass {name}" for number, name in enumerate(findings.labels)]
    title = f"Input gradients at test images of {made.data}"
    pictures = saliency_pictures(findings.images, findings.gradients, rows, title)
    return Section("What do the gradients look at?", [Text(words), *pictures])


def _curves(measured: Result) -> Section:
    words = (
        "A white-box attack with a growing radius. Accuracy must fall, and reach zero where "
        "nothing limits the attacker; where it does not, the attack fails and not the network "
        "resists."
    )
    alt = "Accuracy of each network against the radius of the attack"
    picture = Picture(draw_lines(measured), alt, "Bands are 95 % intervals.")
    return Section(
        "How far must an attacker go?", [Text(words), picture, *result_tables(measured)]
    )  # fmt: skip


def _corruption(measured: Result) -> Section:
    shown = measured.only(lambda cell: cell.x is None)
    # The averages are what one network can lead another in.
    averages = dict.fromkeys(cell.column for cell in shown.cells if cell.metric == "lead")
    parts = [
        f"Accuracy, {average}: "
        + "; ".join(
            f"{cell.row} {cell.interval}"
            for cell in shown.cells
            if cell.column == average and cell.metric == "accuracy"
        )
        for average in averages
    ]
    words = (
        "Corruptions that nobody crafted, CIFAR-10-C-style, made here. "
        f"{'. '.join([*parts, 'In brackets 95 % intervals over images'])}. A lead is that over "
        f"{shown.cells[0].row}, image by image."
    )
    alt = "Accuracy for each kind of corruption and each network"
    picture = Picture(draw_dots(shown), alt)
    return Section("Noise, blur, weather", [Text(words), picture, *result_tables(shown)])
