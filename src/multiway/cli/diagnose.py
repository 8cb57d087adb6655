"""`multiway diagnose`: is this robustness real?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.attack_options import NORMS, Eps, Norm, choose_threat
from multiway.cli.console import print_json, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.errors import choose

if TYPE_CHECKING:
    from multiway.analysis import Diagnosis
    from multiway.analysis.diagnosis.protocol import Progress
    from multiway.cli.models import Subject

__all__ = ["diagnose"]

_COLOURS = {"pass": "green", "fail": "bold red", "not applicable": "dim"}


def diagnose(
    runs: Runs = None,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    eps: Eps = None,
    norm: Norm = None,
    substitute: Annotated[
        list[Path] | None,
        typer.Option(
            "--substitute",
            help="A run to transfer attacks from. One is distilled from the network in any case, "
            "and networks diagnosed together serve each other.",
        ),
    ] = None,
    effort: Annotated[
        str, typer.Option("--effort", help="quick, standard or thorough.")
    ] = "standard",
    limit: Limit = 200,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for the page, its figures and numbers.")
    ] = Path("diagnosis"),
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a check fails.")
    ] = False,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Images at a time: fewer need less memory.", min=1)
    ] = 250,
    seed: Seed = 0,
    best: Best = False,
    backbone: TrustedBackbone = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Is this robustness real? Ten checks, a verdict in words, and the evidence on one page.

    For runs of multiway train and for any other classifier: --network package.module:function
    --weights FILE.safetensors --data npz:FILE --eps 8/255.
    """
    from multiway.analysis import BUDGETS
    from multiway.analysis import diagnose as examine
    from multiway.cli.models import load_subjects
    from multiway.data import to_float
    from multiway.files import check_writable

    budget = BUDGETS[choose("effort", effort, BUDGETS)]
    if norm is not None:
        choose("norm", norm, NORMS)
    place = choose_device(device)
    others = substitute or []
    subjects, images = load_subjects(
        [*(runs or []), *others], network or [], weights or [], data=data, data_dir=data_dir,
        image_size=image_size, limit=limit, backbone=backbone, best=best, device=place,
    )  # fmt: skip
    threat = choose_threat(["pgd"], images.name, norm, eps)
    chosen = _without_substitutes(subjects, len(runs or []), len(others))
    pixels = to_float(images.images, place)
    labels = images.labels.to(place)
    check_writable(out)  # what cannot be written is told before the work
    found = []
    for subject in chosen:
        company = {other.name: other.model for other in subjects if other is not subject}
        with _progress(subject.name) as progress:
            diagnosis = examine(
                subject.model, pixels, labels, threat,
                substitutes=company, budget=budget, seed=seed, batch_size=batch_size,
                progress=progress,
            )  # fmt: skip
        found.append((subject, diagnosis))
    rows = [
        {
            **subject.as_dict(),
            "data": images.name,
            "effort": effort,
            "weights": "best" if best else "last",
            **diagnosis.as_dict(),
        }
        for subject, diagnosis in found
    ]
    for (subject, _), row in zip(found, rows, strict=True):
        if subject.run is not None:
            subject.run.write_result("diagnosis", row)
    page = _write(out, found, rows)
    if json:
        print_json(rows)
    else:
        for subject, diagnosis in found:
            _show(subject, diagnosis)
    say(f"page: {page}")
    if strict and any(diagnosis.failed for _, diagnosis in found):
        raise typer.Exit(1)


def _without_substitutes(subjects: Sequence[Subject], runs: int, substitutes: int) -> list[Subject]:
    """Those to diagnose; the substitutes are the runs that follow the first `runs` subjects."""
    from multiway.errors import MultiwayError

    chosen = [*subjects[:runs], *subjects[runs + substitutes :]]
    if not chosen:
        raise MultiwayError("name a network to diagnose beside the --substitute")
    return chosen


def _write(out: Path, found: list[tuple[Subject, Diagnosis]], rows: list[dict[str, Any]]) -> Path:
    """The page, a figure for each network, and all numbers; returns the page's path."""
    from multiway.files import make_directory
    from multiway.report.diagnosis import diagnosis_section
    from multiway.report.page import Picture, write_page
    from multiway.report.style import save_both
    from multiway.training.run import versions, write_report

    make_directory(out)
    sections = [diagnosis_section(diagnosis, title=subject.name) for subject, diagnosis in found]
    for section in sections:
        # A run's name may hold its parent's folder.
        stem = section.title.replace("/", "-")
        for block in section.blocks:
            if isinstance(block, Picture):
                save_both(block.figure, out / f"diagnosis-{stem}")
    write_report(out / "diagnosis.json", {"diagnoses": rows})
    names = ", ".join(subject.name for subject, _ in found)
    first = found[0][1]
    return write_page(
        out / "diagnosis.html",
        f"Is the robustness of {names} real?",
        "Ten checks that a robust network passes and a network with masked gradients does not. "
        "Each says what was measured, when it fails, and what that means.",
        sections,
        {
            "data": f"{rows[0]['data']}, the first {first.clean.n} test images",
            "threat model": f"{type(first.threat).__name__}, eps {float(first.threat.eps):.6g}",
            "effort": rows[0]["effort"],
            "seed of attacks": first.seed,
            "seconds": ", ".join(f"{diagnosis.seconds:.0f}" for _, diagnosis in found),
            "command": f"multiway {' '.join(sys.argv[1:])}",
            **versions(),
        },
    )


def _show(subject: Subject, diagnosis: Diagnosis) -> None:
    """The checklist as a table on stdout, and the verdict below it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from multiway.report.diagnosis import BADGES

    table = Table(
        title=f"{subject.name}: {diagnosis.threat}, n={diagnosis.clean.n}, seed {diagnosis.seed}; "
        "in brackets 95 % intervals",
        title_justify="left",
        title_style="bold",
        show_lines=True,
        expand=True,
    )
    widths = {"check": 3, "": 0, "measured": 6, "fails if": 4, "what it means": 4}
    for column, ratio in widths.items():
        table.add_column(column, overflow="fold", no_wrap=not ratio, ratio=ratio or None)
    for item in diagnosis.items:
        # Text, because names of networks may hold what rich would take for markup.
        badge = Text(BADGES[item.status], _COLOURS[item.status])
        words = (item.measured, item.threshold, item.meaning)
        table.add_row(Text(item.question), badge, *map(Text, words))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    console.print(Text(diagnosis.verdict, "bold"))
    for kind, text in diagnosis.warnings.items():
        say(f"warning: {kind}: {text}")


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """A bar on a terminal, with what is being done; a line a step elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    live = sys.stderr.isatty()
    columns = (
        TextColumn(f"diagnosing {name}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), disable=not live, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)
            if not live:
                say(f"diagnosing {name}: {done} of {total}, {what}")

        yield show
