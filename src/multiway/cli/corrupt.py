"""`multiway corrupt`: accuracy under common corruptions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Out,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import training_seeds
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.analysis import CorruptionExamples, CorruptionTable
    from multiway.cli.models import Subject

__all__ = ["corrupt"]

PUBLISHED = "cifar10-c"


def corrupt(
    runs: Runs = None,
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
    network: Network = None,
    weights: Weights = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Clean images, which are corrupted here; or cifar10-c, the published files. "
            "[default: those the runs were trained on]",
        ),
    ] = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: Out = None,
    limit: Limit = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Accuracy on 19 kinds of corruption at 5 severities, with 95 % intervals over images.

    The corruptions are CIFAR-10-C-style: made here with its constants, for images of any size.
    With --data cifar10-c they are the published files themselves. What is finished is kept in the
    runs' folders (for --network in --out): after a kill the same command goes on there.
    """
    from multiway.analysis import corruption_accuracy, corruption_examples
    from multiway.cli.models import load_subjects
    from multiway.data.corruptions.official import check_official

    place = choose_device(device)
    chosen, levels = parse_kinds(kinds), parse_severities(severities)
    published = data == PUBLISHED
    if data is not None and data.startswith(f"{PUBLISHED}/"):
        raise MultiwayError(
            f"--data {data}: write --data {PUBLISHED}, and choose with --kinds and --severities"
        )
    if published:
        check_official(chosen, data_dir)  # before anything takes time
    subjects, images = load_subjects(
        runs or [], network or [], weights or [], data="cifar10" if published else data,
        data_dir=data_dir, limit=limit, image_size=image_size, backbone=backbone, best=best,
        device=place,
    )  # fmt: skip
    source: dict[str, Any] = {"seed": seed, "published": published, "data_dir": data_dir}
    examples = None
    if out is not None:
        examples = corruption_examples(images, example, chosen, levels, **source)
    with bar("corruptions", len(images) * len(chosen) * len(levels)) as advance:
        table = corruption_accuracy(
            {subject.name: subject.model for subject in subjects}, images, chosen, levels,
            device=place, directories=_folders(subjects, out), progress=advance, **source,
        )  # fmt: skip
    result = {
        "models": [subject.as_dict() for subject in subjects],
        "weights": "best" if best else "last",
        **table.as_dict(),
    }
    _write_runs(subjects, table, result)
    if out is not None and examples is not None:
        _write(out, table, result, examples, training_seeds(subjects))
    if json:
        print_json(result)
    else:
        _show(table, subjects)


def parse_kinds(text: str | None) -> tuple[str, ...]:
    """The kinds of corruption that `--kinds` names."""
    from multiway.data.corruptions import KINDS, PAPER_KINDS

    if text is None:
        return tuple(KINDS)
    if text.strip() == "paper":
        return PAPER_KINDS
    names = [name.strip() for name in text.split(",")]
    return tuple(dict.fromkeys(choose("corruption", name, KINDS) for name in names))


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


def _folders(subjects: list[Subject], out: Path | None) -> dict[str, Path]:
    """Where what is finished is kept."""
    homes = {
        subject.name: out if subject.run is None else subject.run.directory for subject in subjects
    }
    return {name: home / "batches" for name, home in homes.items() if home is not None}


def _write_runs(subjects: list[Subject], table: CorruptionTable, result: dict[str, Any]) -> None:
    """Each run's own figures, in its folder."""
    shared = {key: value for key, value in result.items() if key not in ("models", "rows")}
    for subject, row in zip(subjects, result["rows"], strict=True):
        if subject.run is not None:
            # How far it is ahead of another run is no result of this one.
            own = {key: value for key, value in row.items() if key != "leads"}
            subject.run.write_result(
                f"{_told(table)}-{result['weights']}", {**subject.as_dict(), **shared, **own}
            )


def _told(table: CorruptionTable) -> str:
    """What tells one result of a run from another, in the name of its file."""
    from multiway.data.corruptions import KINDS, PAPER_KINDS

    known = {frozenset(KINDS): "all", frozenset(PAPER_KINDS): "paper"}
    names = "+".join(table.kinds)
    if len(table.kinds) > 3:
        names = f"{len(table.kinds)}kinds-{hashlib.sha256(names.encode()).hexdigest()[:6]}"
    seed = "published" if table.seed is None else f"seed{table.seed}"
    levels = "".join(str(level) for level in table.severities)
    label = known.get(frozenset(table.kinds), names)
    return f"corruption-{label}-s{levels}-n{table.n}-{seed}"


def _write(
    out: Path,
    table: CorruptionTable,
    result: dict[str, Any],
    examples: CorruptionExamples,
    training: str,
) -> None:
    from multiway.report.corruption import (
        draw_corruption,
        draw_corruption_examples,
        draw_corruption_severity,
    )
    from multiway.report.style import save_both
    from multiway.training.run import write_report

    files = [write_report(out / "corruption.json", result)]
    files += save_both(draw_corruption(table, training), out / "corruption")
    files += save_both(draw_corruption_severity(table, training), out / "corruption-severity")
    files += save_both(draw_corruption_examples(examples), out / "corruption-examples")
    say(f"written: {', '.join(str(file) for file in files)}")


def _show(table: CorruptionTable, subjects: list[Subject]) -> None:
    from multiway.report.corruption import corruption_rows, corruption_title

    print_table(corruption_title(table, training_seeds(subjects)), *corruption_rows(table))
    for note in table.notes:
        say(f"note: {note}")
