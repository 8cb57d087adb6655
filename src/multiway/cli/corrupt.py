"""`multiway corrupt`: accuracy under common corruptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli.examine import Examination, Outcome, examines, part_of
from multiway.cli.options import DATASETS, Choice
from multiway.cli.progress import bar
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.results import Result

__all__ = ["corrupt"]

PUBLISHED = "cifar10-c"


@examines(writes_runs=True)
def corrupt(
    examination: Examination,
    kinds: Annotated[
        str | None,
        typer.Option(
            "--kinds", help="Such as fog,jpeg_compression; paper: its 10. [default: all 19]"
        ),
    ] = None,
    severities: Annotated[
        str, typer.Option("--severities", help="Which of 1 to 5, such as 1,3.")
    ] = "1,2,3,4,5",
    example: Annotated[
        int, typer.Option("--example", help="The image that is drawn under each corruption.")
    ] = 0,
    data: Annotated[
        str | None,
        Choice(
            "--data",
            of=DATASETS,
            help="Clean images, which are corrupted here; or cifar10-c, the published files. "
            "[default: those the runs were trained on]",
        ),
    ] = None,
) -> Outcome:
    """Accuracy on 19 kinds of corruption at 5 severities, with 95 % intervals over images.

    The corruptions are CIFAR-10-C-style: made here with its constants, for images of any size.
    With --data cifar10-c they are the published files themselves. What is finished is kept in the
    runs' folders (for --network in --out): after a kill the same command goes on there.
    """
    chosen, levels = parse_kinds(kinds), parse_severities(severities)
    out = examination.out
    if data is not None and data.startswith(f"{PUBLISHED}/"):
        raise MultiwayError(
            f"--data {data}: write --data {PUBLISHED}, and choose with --kinds and --severities"
        )
    published = data == PUBLISHED
    if published:
        # Before anything takes time.
        mw.data.corruptions.check_official(chosen, examination.data_dir)
    images = examination.load(data="cifar10" if published else None)
    source: dict[str, Any] = {
        "seed": examination.seed, "published": published, "data_dir": examination.data_dir,
    }  # fmt: skip
    figures = {}
    if out is not None:
        examples = mw.analysis.corruption_examples(images, example, chosen, levels, **source)
        figures["corruption-examples"] = mw.report.draw_corruption_examples(examples)
    with bar("corruptions", len(images) * len(chosen) * len(levels)) as advance:
        result = mw.analysis.corruption_accuracy(
            examination.models, images, chosen, levels,
            device=examination.device, directories=_folders(examination), progress=advance,
            **source,
        )  # fmt: skip
    _write_runs(examination, result, chosen, levels)
    if out is not None:
        by_severity = examination.enrich(
            result.only(lambda cell: cell.panel == "by severity", chart="lines")
        )
        figures["corruption-severity"] = mw.report.draw(by_severity)[0].figure
    notes = [f"note: {text}" for text in result.details.get("notes", ())]
    summary = result.only(lambda cell: not cell.panel)
    if examination.json:
        summary = result
    return Outcome(summary, stem="corruption", figures=figures, notes=notes)


def parse_kinds(text: str | None) -> tuple[str, ...]:
    """The kinds of corruption that `--kinds` names."""
    known = mw.data.corruptions.KINDS
    if text is None:
        return tuple(known)
    if text.strip() == "paper":
        return mw.data.corruptions.PAPER_KINDS
    names = [name.strip() for name in text.split(",")]
    return tuple(dict.fromkeys(choose("corruption", name, known) for name in names))


def parse_severities(text: str) -> tuple[int, ...]:
    """The severities that `--severities` names, in order.

    Example:
        >>> parse_severities("3, 1")
        (1, 3)
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in {"1", "2", "3", "4", "5"}:
            raise MultiwayError(
                f"--severities {text}: '{name}' is no severity; write some of 1,2,3,4,5"
            )
    return tuple(sorted({int(name) for name in names}))


def _folders(examination: Examination) -> dict[str, Path]:
    """Where what is finished is kept."""
    homes = {
        subject.name: examination.out if subject.run is None else subject.run.directory
        for subject in examination.subjects
    }
    return {name: home / "batches" for name, home in homes.items() if home is not None}


def _write_runs(
    examination: Examination, result: Result, kinds: Sequence[str], levels: Sequence[int]
) -> None:
    """Each run's own figures, in its folder."""
    # How far a run is ahead of another is no result of this one.
    whole = examination.enrich(result.only(lambda cell: cell.metric != "lead"))
    name = f"{_file_name(result, kinds, levels)}-{'best' if examination.best else 'last'}"
    for subject in examination.subjects:
        if subject.run is not None:
            subject.run.write_result(name, part_of(subject, whole))


def _file_name(result: Result, kinds: Sequence[str], levels: Sequence[int]) -> str:
    """What tells one result of a run from another, in the name of its file."""
    corruptions = mw.data.corruptions
    known = {frozenset(corruptions.KINDS): "all", frozenset(corruptions.PAPER_KINDS): "paper"}
    names = "+".join(kinds)
    if len(kinds) > 3:
        names = f"{len(kinds)}kinds-{mw.identity.digest(list(kinds))[:6]}"
    seed = result.provenance.attack_seed
    label = known.get(frozenset(kinds), names)
    level = "".join(str(each) for each in levels)
    source = "published" if seed is None else f"seed{seed}"
    return f"corruption-{label}-s{level}-n{result.provenance.n}-{source}"
