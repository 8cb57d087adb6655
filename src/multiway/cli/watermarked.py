"""What the commands of `multiway watermark` share: training, measuring, checking, telling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiway.cli.console import TrainingProgress, bar, print_json, print_table, say
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch

    from multiway.cli.models import Subject
    from multiway.data import ImageSet
    from multiway.training import Job, Recipe
    from multiway.watermark import Detection, Key, Measured

__all__ = [
    "check_classes",
    "check_options",
    "check_unmarked",
    "draw_found",
    "examine",
    "show_found",
    "tell",
    "theft_recipe",
    "trained",
    "unlike",
]

# A thief who starts from stolen weights moves them by smaller steps than the owner did.
FINE_TUNING = 0.1

# Which options describe a mark of each kind.
OPTIONS = {
    "content": ("text", "logo", "scale", "strength"),
    "unrelated": ("other",),
    "noise": ("strength",),
}

# How far from all unmarked networks' a suspect's accuracy on the task makes it another kind of
# network.
FAR = 0.1


def check_options(kind: str, **given: object) -> None:
    """Refuse an option that says nothing of a mark of this kind, rather than ignore it."""
    own = [f"--{name}" for name in OPTIONS[kind]]
    for name, value in given.items():
        if value is None or name in OPTIONS[kind]:
            continue
        kinds = " or ".join(other for other, names in OPTIONS.items() if name in names)
        raise MultiwayError(
            f"--{name} belongs to a mark of kind {kinds}, not {kind}, which takes "
            f"{', '.join(own)}: leave --{name} out, or give --kind {kinds}"
        )
    if given.get("text") is not None and given.get("logo") is not None:
        raise MultiwayError("--logo takes the place of --text: give one of the two")


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
    from multiway.training import load_recipe

    plan = load_recipe(name) if name else _recipe_of(config)
    plan = plan.with_adversary("none")
    if lr is None and start != "scratch":
        lr = FINE_TUNING * plan.lr
    return plan.override(lr=lr)


def _recipe_of(config: dict[str, Any]) -> Recipe:
    from pydantic import ValidationError

    from multiway.training import Recipe

    try:
        return Recipe.model_validate(config.get("recipe"))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise MultiwayError(
            f"the stolen run's recipe cannot be read: {field + ': ' if field else ''}"
            f"{problem['msg']}; name one with --recipe"
        ) from None


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


def examine(
    subjects: list[Subject], key: Key, place: torch.device
) -> list[tuple[Subject, Measured]]:
    """Each network with what it makes of the task and of the mark."""
    from multiway.training import accuracy
    from multiway.watermark import Measured, mark_accuracy

    found = []
    with bar("networks", len(subjects)) as advance:
        for subject in subjects:
            measured = Measured(
                subject.name,
                subject.encoding or "unknown",
                _start_of(subject),
                accuracy(subject.model, key.measuring, place),
                mark_accuracy(subject.model, key.held_out, place),
                _rate_of(subject),
            )
            found.append((subject, measured))
            advance(1)
    return found


def unlike(accused: list[Measured], unmarked: list[Measured]) -> str | None:
    """What to warn of where suspects do the task far better or worse than all unmarked networks.

    Detection asks how often an unmarked network *like the suspect* shows as much of the mark.
    """
    values = [one.test.value for one in unmarked]
    low, high = min(values), max(values)
    far = [one for one in accused if not low - FAR <= one.test.value <= high + FAR]
    if not far:
        return None
    names = ", ".join(f"{one.name} ({100 * one.test.value:.1f} %)" for one in far)
    known = f"{100 * low:.1f}" + (f" to {100 * high:.1f}" if high > low else "")
    return (
        f"the task accuracy of {names} is more than {100 * FAR:.0f} points from that of all "
        f"unmarked networks ({known} %), so the p-value compares unlike networks: add unmarked "
        "ones trained from scratch like the suspect (multiway watermark steal --start scratch)"
    )


def _start_of(subject: Subject) -> str:
    """Where a network's weights come from, see `Measured`."""
    config = {} if subject.run is None else subject.run.config()
    if "theft" in config:
        return str(config["theft"]["start"])
    return "owner" if "watermark" in config else "unmarked" if config else "unknown"


def _rate_of(subject: Subject) -> float | None:
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
