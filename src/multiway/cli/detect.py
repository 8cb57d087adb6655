"""`multiway watermark detect`: does a network carry the owner's mark?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli import options
from multiway.cli.console import print_table, say
from multiway.cli.examine import Examination, Outcome, examines
from multiway.cli.progress import bar
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from multiway.cli.models import Subject
    from multiway.results import Result
    from multiway.watermark import Detection, Key, Measured

__all__ = ["detect", "unlike"]

# How far from all unmarked networks' a suspect's accuracy on the task makes it another kind of
# network.
FAR = 0.1


@examines(
    runs=Annotated[
        list[Path] | None,
        typer.Argument(metavar="suspects", help="Folders with runs that may carry the mark."),
    ],
    leave_out=("image_size", "best", "limit", "seed"),
)
def detect(
    examination: Examination,
    owner: Annotated[
        Path, typer.Option("--owner", help="The run made by multiway watermark embed.")
    ],
    unmarked: Annotated[
        list[Path] | None,
        typer.Option("--unmarked", help="A run known to carry no mark; repeat it, best 3 or more."),
    ] = None,
    data: options.OwnerData = None,
    other: options.OwnerOther = None,
) -> Outcome:
    """Say whether networks carry the owner's mark, and how sure that is.

    The share of held-out marked images that get the mark's target class is compared with that of
    networks which never saw the mark: the p-value is the probability that such a network shows as
    much (docs/watermark.md). Below 0.01 the verdict is that the mark is there.
    """
    watermark, innocent_runs = mw.watermark, unmarked or []
    if not examination.runs and not examination.networks:
        raise MultiwayError("name a suspect: the folder of a run, or --network and --weights")
    config = mw.training.Run(owner).config()
    key = watermark.load_key(config, examination.data_dir, data, other)
    for folder in [*examination.runs, *innocent_runs]:
        _check_classes(folder, owner, key)
    _check_unmarked(innocent_runs)
    examination.limit = 1  # what they are measured on are the images of the key
    examination.load(beside=innocent_runs, data=data or str(config["data"]["name"]))
    points = _measure(examination, key)
    accused, innocent = examination.examined, [subject.name for subject in examination.beside]
    plain = key.plain()
    marks = {name: points[name].mark for name in innocent}
    detections = [
        watermark.detect(
            subject.name, points[subject.name].mark, marks,
            watermark.mark_accuracy(subject.model, plain, examination.device),
            two_peaks=key.mark.two_peaks,
        )
        for subject in accused
    ]  # fmt: skip
    warning = unlike(
        [points[subject.name] for subject in accused], [points[name] for name in innocent]
    )
    result = _result(owner, key, points, innocent, detections, warning)
    if not examination.json:
        _show(key, [points[subject.name] for subject in accused], detections)
    figures = {} if examination.out is None else {"marked": mw.report.draw_marked(key)}
    notes = [] if warning is None else [f"warning: {warning}"]
    return Outcome(result, "watermark", figures, notes, tables=False)


def _check_classes(folder: Path, owner: Path, key: Key) -> None:
    """The same number of classes is not enough: a mark is about certain ones."""
    if mw.models.is_saved(folder):
        return  # it does not say
    theirs = tuple(mw.training.Run(folder).config()["data"].get("classes", ()))
    ours = key.held_out.classes
    if theirs != ours:
        raise MultiwayError(
            f"{folder} was trained on the classes {', '.join(theirs[:3])}, ... ({len(theirs)}), "
            f"and the mark of {owner} is for {', '.join(ours[:3])}, ... ({len(ours)}): it says "
            "nothing of this network"
        )


def _check_unmarked(folders: list[Path]) -> None:
    """Refuse runs that are known to be marked or stolen."""
    for folder in folders:
        if mw.models.is_saved(folder):
            continue  # it does not say
        config = mw.training.Run(folder).config()
        if "watermark" in config or config.get("theft", {}).get("start") in ("frozen", "free"):
            what = "was marked itself" if "watermark" in config else "was stolen"
            raise MultiwayError(
                f"--unmarked {folder} {what}; take networks trained with multiway train, or by a "
                "thief from scratch"
            )


def _measure(examination: Examination, key: Key) -> dict[str, Measured]:
    """What each network makes of the task and of the mark."""
    points = {}
    with bar("networks", len(examination.subjects)) as advance:
        for subject in examination.subjects:
            points[subject.name] = mw.watermark.Measured(
                subject.name,
                subject.encoding or "unknown",
                _start_of(subject),
                mw.training.accuracy(subject.model, key.measuring, examination.device),
                mw.watermark.mark_accuracy(subject.model, key.held_out, examination.device),
                None if subject.run is None else float(subject.run.config()["recipe"]["lr"]),
            )
            advance(1)
    return points


def _start_of(subject: Subject) -> str:
    """Where a network's weights come from, see `Measured`."""
    config = {} if subject.run is None else subject.run.config()
    if "theft" in config:
        return str(config["theft"]["start"])
    return "owner" if "watermark" in config else "unmarked" if config else "unknown"


def unlike(accused: list[Measured], unmarked: list[Measured]) -> str | None:
    """What to warn of where suspects do the task far better or worse than all unmarked networks.

    Detection asks how often an unmarked network *like the suspect* shows as much of the mark.
    """
    values = [point.test.value for point in unmarked]
    low, high = min(values), max(values)
    far = [point for point in accused if not low - FAR <= point.test.value <= high + FAR]
    if not far:
        return None
    names = ", ".join(f"{point.name} ({100 * point.test.value:.1f} %)" for point in far)
    known = f"{100 * low:.1f}" + (f" to {100 * high:.1f}" if high > low else "")
    return (
        f"the task accuracy of {names} is more than {100 * FAR:.0f} points from that of all "
        f"unmarked networks ({known} %), so the p-value compares unlike networks: add unmarked "
        "ones trained from scratch like the suspect (multiway watermark steal --start scratch)"
    )


def _result(
    owner: Path,
    key: Key,
    points: dict[str, Measured],
    innocent: list[str],
    detections: list[Detection],
    warning: str | None,
) -> Result:
    """Test accuracy and mark of each network, and what the owner can prove."""
    made = mw.results.Provenance.now(key.measuring.name, points, len(key.measuring))
    return mw.results.Result(
        name="watermark",
        title=f"Is the mark there? {key.mark.words(key.held_out.classes)}",
        chart="trade-off",
        cells=tuple(cell for point in points.values() for cell in point.cells()),
        provenance=replace(made, warnings=() if warning is None else (warning,)),
        column_name="accuracy on",
        x_name="learning rate",
        details={
            "owner": str(owner),
            "watermark": key.as_dict(),
            "detections": [each.as_dict() for each in detections],
            "unmarked": sorted(innocent),
            "needed": detections[0].needed,
            "base_rate": detections[0].base_rate.as_dict(),
        },
    )


def _show(key: Key, accused: list[Measured], detections: list[Detection]) -> None:
    """A table on stdout, and a sentence for each suspect on stderr."""
    columns = ["suspect", "encoding", "start", "test accuracy", "mark", "p-value", "verdict"]
    rows = [
        [
            point.name, point.encoding, point.start, str(point.test), str(point.mark),
            f"{detection.p_value:.2g}", detection.verdict.partition(" (")[0],
        ]
        for point, detection in zip(accused, detections, strict=True)
    ]  # fmt: skip
    title = (
        f"Is the mark there? {key.measuring.name}, second half of the test images, 95 % intervals"
    )
    print_table(title, columns, rows, rest=("encoding", "start"), keep=("mark", "verdict"))
    for detection in detections:
        say(f"{detection.suspect}: {detection.verdict}")
