"""What the commands of `multiway watermark` share: training, measuring, checking, telling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiway.cli.console import TrainingProgress, print_json, print_table, say
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch

    from multiway.data import ImageSet
    from multiway.subjects import Subject
    from multiway.training import Job, Recipe
    from multiway.watermark import Detection, Key, Measured

__all__ = [
    "check_classes",
    "check_unmarked",
    "draw_found",
    "rate_of",
    "show_found",
    "start_of",
    "tell",
    "theft_recipe",
    "trained",
]

# A thief who starts from stolen weights moves them by smaller steps than the owner did.
FINE_TUNING = 0.1


def trained(
    job: Job,
    measuring: ImageSet,
    held_out: ImageSet | None,
    out: Path,
    label: str,
    resume: bool,
    save_every: float,
    place: torch.device,
    trusted: str | None,
) -> dict[str, Any]:
    """Train through the ordinary loop, then measure the task and, where it is known, the mark."""
    from multiway import training
    from multiway.watermark import mark_accuracy

    run = training.open_run(out, job.config, resume)
    if run.finished:
        say(f"{out} is finished already")
    else:
        progress = TrainingProgress(label)
        with progress.shown():
            training.train(job, run, device=place, save_every=save_every, observer=progress)
    model, _ = training.load_run(out, trusted)
    model.to(place)
    result: dict[str, Any] = {
        "run": str(out),
        "seed": job.seed,
        "weights": "last",
        "test": training.accuracy(model, measuring, place).as_dict(),
    }
    if held_out is not None:
        result["mark"] = mark_accuracy(model, held_out, place).as_dict()
    run.write_result("watermark", result)
    return result


def tell(result: dict[str, Any], json: bool) -> None:
    """What `trained` measured, for a person or as JSON."""
    from multiway.statistics import Interval

    if json:
        print_json(result)
        return
    say(f"on the half of the test images that measures, seed {result['seed']}:")
    say(f"  accuracy on the task: {Interval(**result['test'])}")
    if "mark" in result:
        say(f"  held-out marked images given the target class: {Interval(**result['mark'])}")
    say(f"written to {result['run']}")


def theft_recipe(config: dict[str, Any], name: str | None, lr: float | None, start: str) -> Recipe:
    """The owner's recipe or the one named, without an adversary, with a rate of its own."""
    from multiway.training import Recipe, load_recipe

    plan = load_recipe(name) if name else Recipe.model_validate(config["recipe"])
    plan = plan.with_adversary("none")
    if lr is None and start != "scratch":
        lr = FINE_TUNING * plan.lr
    return plan.override(lr=lr)


def check_classes(folder: Path, owner: Path, key: Key) -> None:
    """The same number of classes is not enough: a mark is about certain ones."""
    from multiway.training import Run

    theirs = tuple(Run(folder).config()["data"].get("classes", ()))
    ours = key.held_out.classes
    if theirs != ours:
        raise MultiwayError(
            f"{folder} was trained on the classes {', '.join(theirs[:3])}, ... ({len(theirs)}), "
            f"and the mark of {owner} is for {', '.join(ours[:3])}, ... ({len(ours)}): it says "
            "nothing of this network"
        )


def check_unmarked(folders: list[Path]) -> None:
    """Refuse runs that are known to be marked or stolen."""
    from multiway.training import Run

    for folder in folders:
        config = Run(folder).config()
        if "watermark" in config or config.get("theft", {}).get("start") in ("frozen", "free"):
            what = "was marked itself" if "watermark" in config else "was stolen"
            raise MultiwayError(
                f"--unmarked {folder} {what}; take networks trained with multiway train, or by a "
                "thief from scratch"
            )


def start_of(subject: Subject) -> str:
    """Where a network's weights come from, see `Measured`."""
    config = {} if subject.run is None else subject.run.config()
    if "theft" in config:
        return str(config["theft"]["start"])
    return "owner" if "watermark" in config else "unmarked" if config else "unknown"


def rate_of(subject: Subject) -> float | None:
    """The learning rate of a run; None for a network from elsewhere."""
    return None if subject.run is None else float(subject.run.config()["recipe"]["lr"])


def draw_found(
    out: Path,
    key: Key,
    points: list[Measured],
    judged: list[Detection],
    result: dict[str, Any],
    seeds: str,
) -> list[str]:
    """Write the figures and the numbers; the names of the figures."""
    from multiway.report.style import save_both
    from multiway.report.watermark import draw_marked, draw_watermark, mark_title
    from multiway.training.run import write_report

    title = (
        f"{mark_title(key.mark, key.held_out.classes)}; {key.measuring.name}, "
        f"n={len(key.measuring)} test and {len(key.held_out)} marked images, training seeds {seeds}"
    )
    figure = draw_watermark(points, title, base_rate=judged[0].base_rate, needed=judged[0].needed)
    files = [*save_both(figure, out / "watermark"), *save_both(draw_marked(key), out / "marked")]
    write_report(out / "watermark.json", result)
    say(f"written: {', '.join(map(str, files))}, {out / 'watermark.json'}")
    return [str(file) for file in files]


def show_found(key: Key, accused: list[Measured], judged: list[Detection]) -> None:
    """A table on stdout, and a sentence for each suspect on stderr."""
    columns = ["suspect", "encoding", "start", "test accuracy", "mark", "p-value", "verdict"]
    rows = [
        [
            one.name, one.encoding, one.start, str(one.test), str(one.mark),
            f"{found.p_value:.2g}", found.verdict.partition(" (")[0],
        ]
        for one, found in zip(accused, judged, strict=True)
    ]  # fmt: skip
    title = (
        f"Is the mark there? {key.measuring.name}, second half of the test images, 95 % intervals"
    )
    print_table(title, columns, rows)
    for found in judged:
        say(f"{found.suspect}: {found.verdict}")
