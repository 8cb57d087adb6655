"""`multiway diagnose`: is this robustness real?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

import multiway as mw
from multiway.cli.attack_options import NORMS, Eps, Norm, choose_threat
from multiway.cli.choices import Choice
from multiway.cli.console import Bar, command_line, print_json, print_rich, say, shown
from multiway.cli.examine import Examination, examines
from multiway.cli.options import MOST
from multiway.cli.tables import print_table
from multiway.errors import MultiwayError, choose, visible

if TYPE_CHECKING:
    from multiway.analysis import Diagnosis
    from multiway.cli.models import Subject
    from multiway.results import Result

__all__ = ["diagnose"]

_COLOURS = {"pass": "green", "fail": "bold red", "not applicable": "dim"}


@examines(out=Path("diagnosis"), limit=200, writes_runs=True)
def diagnose(
    examination: Examination,
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
        str, Choice("--effort", ("quick", "standard", "thorough"), "{}.")
    ] = "standard",
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a check fails.")
    ] = False,
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size", help="Images at a time: fewer need less memory.", min=1, max=MOST
        ),
    ] = 250,
) -> None:
    """Is this robustness real? Ten checks, a verdict in words, and the evidence on one page.

    For runs of multiway train and for any other classifier: --network package.module:function
    --weights FILE.safetensors --data npz:FILE --eps 8/255.
    """
    budgets = mw.analysis.BUDGETS
    budget = budgets[choose("effort", effort, budgets)]
    if norm is not None:
        choose("norm", norm, NORMS)
    images = examination.load(more=substitute or [])
    for each in examination.runs:
        mw.training.Run(each).check_writable()
    subjects, seed = examination.subjects, examination.seed
    threat = choose_threat(["pgd"], images.name, norm, eps)
    chosen = _without_substitutes(subjects, len(examination.runs), len(substitute or []))
    pixels = mw.data.to_float(images.images, examination.device)
    labels = images.labels.to(examination.device)
    diagnoses: dict[str, Diagnosis] = {}
    for subject in chosen:
        company = {other.name: other.model for other in subjects if other is not subject}
        with _progress(subject.name) as progress:
            diagnoses[subject.name] = mw.diagnose(
                subject.model, pixels, labels, threat,
                substitutes=company, budget=budget, seed=seed, batch_size=batch_size,
                progress=progress,
            )  # fmt: skip
    result = examination.enrich(_result(diagnoses, images.name, len(images), effort, seed))
    for subject in chosen:
        if subject.run is not None:
            subject.run.write_result("diagnosis", _of(subject, result))
    page = _write(examination.out or Path("diagnosis"), diagnoses, result)
    if examination.json:
        print_json(result.as_dict())
    else:
        for name, diagnosis in diagnoses.items():
            _show(name, diagnosis)
    for note in examination.same_start():
        say(note)
    say(f"page: {page}")
    if strict and any(diagnosis.failed for diagnosis in diagnoses.values()):
        raise typer.Exit(1)


def _without_substitutes(subjects: Sequence[Subject], runs: int, substitutes: int) -> list[Subject]:
    """Those to diagnose; the substitutes are the runs that follow the first `runs` subjects."""
    chosen = [*subjects[:runs], *subjects[runs + substitutes :]]
    if not chosen:
        raise MultiwayError("name a network to diagnose beside the --substitute")
    return chosen


def _result(diagnoses: dict[str, Diagnosis], data: str, n: int, effort: str, seed: int) -> Result:
    """All figures of the diagnoses, with their checklists in the details."""
    first = next(iter(diagnoses.values()))
    said: dict[str, Any] = {}
    for name, diagnosis in diagnoses.items():
        document = diagnosis.as_dict()
        document.pop("cells", None)
        said[name] = document
    return mw.results.Result(
        name="diagnose",
        title=f"Is the robustness of {', '.join(diagnoses)} real? {first.threat}",
        chart="table",
        cells=tuple(cell for name, each in diagnoses.items() for cell in each.cells(name)),
        provenance=mw.results.Provenance.now(data, diagnoses, n, seed),
        column_name="attack",
        details={"effort": effort, "diagnoses": said},
    )


def _of(subject: Subject, result: Result) -> Result:
    """The part of a result that is about one run."""
    own = result.only(lambda cell: cell.row == subject.name)
    kept = {subject.name: result.details["diagnoses"][subject.name]}
    return replace(own, details={**own.details, "models": [subject.as_dict()], "diagnoses": kept})


def _write(out: Path, diagnoses: dict[str, Diagnosis], result: Result) -> Path:
    """The page, the figures of each network, and all numbers; returns the page's path."""
    mw.files.make_directory(out)
    sections = []
    for name, diagnosis in diagnoses.items():
        section = mw.report.diagnosis_section(diagnosis, title=name)
        sections.append(section)
        pictures = [block for block in section.blocks if isinstance(block, mw.report.Picture)]
        # A run's name may hold its parent's folder.
        stem = f"diagnosis-{name.replace('/', '-')}"
        for number, picture in enumerate(pictures, 1):
            mw.report.save_both(picture.figure, out / (stem if number == 1 else f"{stem}-{number}"))
    mw.results.write_result(out / "diagnosis.json", result)
    first = next(iter(diagnoses.values()))
    return mw.report.write_page(
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
    progress_bar = Bar(
        MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[what]}", markup=False)
    )
    with progress_bar.progress as progress:
        task = progress.add_task(f"diagnosing {visible(name)}", total=None, what="")

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, what=what, completed=done, total=total)
            if not progress_bar.live:
                say(f"diagnosing {name}: {done} of {total}, {what}")

        yield show
