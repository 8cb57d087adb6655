"""`multiway diagnose`: is this robustness real?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

import multiway as mw
from multiway.cli import attack_options
from multiway.cli.console import command_line, print_rich, print_table, say, shown
from multiway.cli.examine import Examination, Outcome, examines, part_of
from multiway.cli.options import Choice, Count
from multiway.cli.progress import progress_bar
from multiway.errors import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from multiway.analysis import Diagnosis
    from multiway.results import Result

__all__ = ["diagnose"]

_COLOURS = {"pass": "green", "fail": "bold red", "not applicable": "dim"}


@examines(out=Path("diagnosis"), limit=200, writes_runs=True)
def diagnose(
    examination: Examination,
    eps: attack_options.Eps = None,
    norm: attack_options.Norm = None,
    substitute: Annotated[
        list[Path] | None,
        typer.Option(
            "--substitute",
            help="A run to transfer attacks from. One is distilled from the network in any case, "
            "and networks diagnosed together serve each other.",
        ),
    ] = None,
    effort: Annotated[
        str,
        Choice("--effort", of=("quick", "standard", "thorough"), help="{}.", what="effort"),
    ] = "standard",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a check fails.")
    ] = False,
    batch_size: Annotated[
        int, Count("--batch-size", help="Images at a time: fewer need less memory.", min=1)
    ] = 250,
) -> None:
    """Is this robustness real? Ten checks, a verdict in words, and the evidence on one page.

    For runs of multiway train and for any other classifier: --network package.module:function
    --weights FILE.safetensors --data npz:FILE --eps 8/255.
    """
    images = examination.load(beside=substitute)
    seed, chosen = examination.seed, examination.examined
    threat = attack_options.choose_threat(["pgd"], images.name, norm, eps)
    pixels = mw.data.to_float(images.images, examination.device)
    labels = images.labels.to(examination.device)
    diagnoses: dict[str, Diagnosis] = {}
    for subject in chosen:
        company = {
            other.name: other.model for other in examination.subjects if other is not subject
        }
        with _progress(subject.name) as progress:
            diagnoses[subject.name] = mw.diagnose(
                subject.model, pixels, labels, threat,
                substitutes=company, budget=mw.analysis.BUDGETS[effort], seed=seed,
                batch_size=batch_size, progress=progress,
            )  # fmt: skip
    result = examination.enrich(_result(diagnoses, images.name, len(images), effort, seed))
    for subject in chosen:
        if subject.run is not None:
            own = {subject.name: result.details["diagnoses"][subject.name]}
            subject.run.write_result("diagnosis", part_of(subject, result, diagnoses=own))
    page, figures = _write_page(examination.out or Path("diagnosis"), diagnoses, result)
    if not examination.json:
        for name, diagnosis in diagnoses.items():
            _show(name, diagnosis)
    notes = [*examination.same_start(), f"page: {page}"]
    examination.finish(Outcome(result, "diagnosis", figures, notes, tables=False))
    if strict and any(diagnosis.failed for diagnosis in diagnoses.values()):
        raise typer.Exit(1)


def _result(diagnoses: dict[str, Diagnosis], data: str, n: int, effort: str, seed: int) -> Result:
    """All figures of the diagnoses, with their checklists in the details."""
    first = next(iter(diagnoses.values()))
    documents = {name: diagnosis.as_dict() for name, diagnosis in diagnoses.items()}
    for document in documents.values():
        document.pop("cells", None)
    return mw.results.Result(
        name="diagnose",
        title=f"Is the robustness of {', '.join(diagnoses)} real? {first.threat}",
        chart="table",
        cells=tuple(cell for name, each in diagnoses.items() for cell in each.cells(name)),
        provenance=mw.results.Provenance.now(data, diagnoses, n, seed),
        column_name="attack",
        details={"effort": effort, "diagnoses": documents},
    )


def _write_page(
    out: Path, diagnoses: dict[str, Diagnosis], result: Result
) -> tuple[Path, dict[str, Figure]]:
    """Write the page; returns its path, and its figures by the names of their files."""
    sections = []
    figures: dict[str, Figure] = {}
    for name, diagnosis in diagnoses.items():
        section = mw.report.diagnosis_section(diagnosis, title=name)
        sections.append(section)
        pictures = [block for block in section.blocks if isinstance(block, mw.report.Picture)]
        # A run's name may hold its parent's folder.
        stem = f"diagnosis-{name.replace('/', '-')}"
        for number, picture in enumerate(pictures, 1):
            figures[stem if number == 1 else f"{stem}-{number}"] = picture.figure
    first = next(iter(diagnoses.values()))
    page = mw.report.write_page(
        out / "diagnosis.html",
        f"Is the robustness of {', '.join(diagnoses)} real?",
        "Ten checks that a robust network passes and a network with masked gradients does not. "
        "Each says what was measured, when it fails, and what that means.",
        sections,
        {
            "data": f"{result.provenance.data}, the first {first.clean.n} test images",
            "threat model": f"{type(first.threat).__name__}, eps {float(first.threat.eps):.6g}",
            "effort": result.details["effort"],
            "seed of attacks": first.seed,
            "seconds": ", ".join(f"{each.seconds:.0f}" for each in diagnoses.values()),
            "command": command_line(),
            **mw.results.versions(),
        },
    )
    return page, figures


def _show(name: str, diagnosis: Diagnosis) -> None:
    """The checklist as a table on stdout, and the verdict below it."""
    print_table(
        f"{name}: {diagnosis.threat}, n={diagnosis.clean.n}, seed {diagnosis.seed}; "
        "in brackets 95 % intervals",
        ("check", "", "measured", "fails if", "what it means"),
        [
            (
                item.question,
                shown(mw.report.BADGES[item.status], _COLOURS[item.status]),
                *(item.measured, item.threshold, item.meaning),
            )
            for item in diagnosis.items
        ],
        sentences=("check", "measured", "fails if", "what it means"),
        rest=("fails if",),
        lines=True,
    )
    print_rich(shown(diagnosis.verdict, "bold"))
    for kind, text in diagnosis.warnings.items():
        say(f"warning: {kind}: {text}")


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    """A bar on a terminal, with what is being done; a line a step elsewhere."""
    step = TextColumn("{task.fields[what]}", markup=False)
    with progress_bar(MofNCompleteColumn(), TimeElapsedColumn(), step) as progress:
        task = progress.add_task(f"diagnosing {visible(name)}", total=None, what="")

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, what=what, completed=done, total=total)
            if progress.disable:
                say(f"diagnosing {name}: {done} of {total}, {what}")

        yield show
