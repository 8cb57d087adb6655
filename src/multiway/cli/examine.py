"""One body for all commands that examine models: what is examined, and what becomes of the result.

A command is a function of an `Examination` and of its own options that returns an `Outcome`. The
decorator `examines` gives it the options that all of them have, writes and draws its result, and
prints it as tables or as JSON.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

import multiway as mw
from multiway.cli import options
from multiway.cli.console import print_json, print_table, say
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure
    from torch import nn

    from multiway.cli.models import Subject
    from multiway.data import ImageSet
    from multiway.results import Result

__all__ = ["Examination", "Outcome", "collected_warnings", "examines", "part_of", "print_result"]

# The options that an examination holds under their own names.
HELD = ("data", "image_size", "backbone", "best", "data_dir", "json", "out", "limit", "seed")


@dataclass(frozen=True)
class Outcome:
    """What a command found.

    Attributes:
        result: the figures, from `multiway.analysis`.
        stem: the name of its files; that of the result when empty.
        figures: drawings beside the result's own charts, by the name of their files.
        notes: lines to say at the end.
        tables: whether the result is printed as tables; not where the command has its own.
    """

    result: Result
    stem: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: bool = True


@dataclass
class Examination:
    """What a command was asked to examine; nothing is loaded before `load`.

    Attributes:
        runs: folders made by multiway train.
        networks: `package.module:function`, with a file of `weights` for each.
        out: a folder for figures and numbers; None for none.
        subjects: the models, once they are loaded.
        beside: those of them that are not examined themselves, such as substitutes.
    """

    runs: list[Path]
    networks: list[str]
    weights: list[Path]
    device: torch.device
    data: str | None = None
    image_size: int | None = None
    backbone: list[str] | None = None
    best: bool = False
    data_dir: Path | None = None
    json: bool = False
    out: Path | None = None
    limit: int | None = None
    seed: int = 0
    subjects: list[Subject] = field(default_factory=list)
    beside: list[Subject] = field(default_factory=list)

    def load(self, beside: Sequence[Path] | None = None, data: str | None = None) -> ImageSet:
        """Load the models into `subjects`; returns the images to examine them on.

        Args:
            beside: further runs, which are not examined themselves.
            data: in place of the data that the options name.
        """
        beside = beside or []
        if beside and not self.runs and not self.networks:
            raise MultiwayError("name a model to examine beside the --substitute")
        self.subjects, images = self._load([*self.runs, *beside], self.networks, self.weights, data)
        self.beside = self.subjects[len(self.runs) : len(self.runs) + len(beside)]
        return images

    def load_each(self) -> list[tuple[Subject, ImageSet]]:
        """Every model with images of its own: runs on different data may stand in one table."""
        alone: list[tuple[list[Path], list[str], list[Path]]] = [
            ([run], [], []) for run in self.runs
        ]
        alone += [
            ([], [network], self.weights[index : index + 1])
            for index, network in enumerate(self.networks)
        ]
        if not alone or len(self.weights) != len(self.networks):
            alone = [(self.runs, self.networks, self.weights)]  # refused, with the reason
        loaded = [self._load(*one) for one in alone]
        self.subjects = mw.models.names_apart([subject for (subject, *_), _ in loaded])
        return list(zip(self.subjects, (images for _, images in loaded), strict=True))

    def _load(
        self, runs: list[Path], networks: list[str], weights: list[Path], data: str | None = None
    ) -> tuple[list[Subject], ImageSet]:
        return mw.models.load_subjects(
            runs, networks, weights, data=data or self.data, data_dir=self.data_dir,
            limit=self.limit, image_size=self.image_size, backbone=self.backbone, best=self.best,
            device=self.device,
        )  # fmt: skip

    @property
    def examined(self) -> list[Subject]:
        """The models but for those beside them."""
        return [subject for subject in self.subjects if subject not in self.beside]

    @property
    def models(self) -> dict[str, nn.Module]:
        """The models by name."""
        return {subject.name: subject.model for subject in self.subjects}

    @property
    def encodings(self) -> dict[str, str | None]:
        """The name of each model's encoding; None where nothing is known of it."""
        return {subject.name: subject.encoding for subject in self.subjects}

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the models were trained with, as far as they are known."""
        return tuple(sorted({s.seed for s in self.subjects if s.seed is not None}))

    def same_start(self) -> list[str]:
        """A note for every group of runs that began with the same weights: no strangers."""
        groups: dict[tuple[str, int], list[str]] = {}
        for subject in self.subjects:
            if subject.run is not None and subject.seed is not None:
                backbone = subject.run.config()["classifier"]["backbone"] or {}
                if "name" in backbone:  # the weights of a user's network are not drawn from it
                    key = (str(backbone["name"]), subject.seed)
                    groups.setdefault(key, []).append(subject.name)
        return [
            f"warning: {', '.join(names)} were trained from the same seed {seed} and so began with "
            "the same weights below the head: what passes between them says little of strangers; "
            "train one with another --seed"
            for (_, seed), names in groups.items()
            if len(names) > 1
        ]

    def enrich(self, result: Result) -> Result:
        """The result with what only the command knows: the trainings behind each model."""
        by_name = {subject.name: subject.seed for subject in self.subjects}

        def seeds(names: Sequence[str]) -> tuple[int, ...]:
            known = {by_name.get(name) for name in names}
            return tuple(sorted(seed for seed in known if seed is not None))

        return replace(
            result,
            cells=tuple(replace(cell, seeds=seeds((cell.row,))) for cell in result.cells),
            provenance=replace(result.provenance, seeds=self.seeds),
            details={
                "models": [subject.as_dict() for subject in self.subjects],
                "weights": "best" if self.best else "last",
                **result.details,
            },
        )

    def finish(self, outcome: Outcome) -> None:
        """Write, draw and print what was found."""
        result = self.enrich(outcome.result)
        stem = outcome.stem or result.name
        files: list[Path] = []
        failure: MultiwayError | None = None
        if self.out is not None:
            pictures = mw.report.draw(result)
            names = [stem] + [f"{stem}-{number}" for number in range(2, len(pictures) + 1)]
            charts = {name: each.figure for name, each in zip(names, pictures, strict=False)}
            try:
                for name, figure in {**charts, **outcome.figures}.items():
                    files += mw.report.save_both(figure, self.out / name)
                written = {"files": [str(file) for file in files]}
                result = replace(result, details={**result.details, **written})
                files.append(mw.results.write_result(self.out / f"{stem}.json", result))
            except MultiwayError as error:
                failure = error  # said after the result, which is not lost by it
        if self.json:
            print_json(result.as_dict())
        elif outcome.tables:
            print_result(result)
        for note in outcome.notes:
            say(note)
        if files:
            say(f"written: {', '.join(str(file) for file in files)}")
        if failure is not None:
            raise failure


def part_of(subject: Subject, result: Result, **details: Any) -> Result:
    """What a result says of one model, with `details` in place of those of all."""
    own = result.only(lambda cell: cell.row == subject.name)
    return replace(own, details={**own.details, "models": [subject.as_dict()], **details})


def print_result(result: Result) -> None:
    """The tables of a result on stdout."""
    title = result.title if result.title.endswith("?") else f"{result.title}."
    for table in mw.report.result_tables(result):
        print_table(
            f"{title} {table.title}; {table.caption}", table.columns, table.rows,
            rest=("other encoding", "difference", "n", "seeds"), keep=("ours", "attack"),
        )  # fmt: skip


@contextmanager
def collected_warnings() -> Iterator[None]:
    """What attacks warn of inside the block is said at the end, each kind once."""
    with mw.attacks.collect_warnings() as notes:
        yield
    for note in notes.values():
        say(f"warning: {note}")


def examines(
    *,
    out: Path | None = None,
    limit: int | None = None,
    runs: Any = options.Runs,
    leave_out: Sequence[str] = (),
    writes_runs: bool = False,
) -> Callable[[Callable[..., Outcome | None]], Callable[..., None]]:
    """A command over the options that all examining commands have.

    Args:
        out: the default of `--out`.
        limit: the default of `--limit`.
        runs: what is said of the folders that it takes as arguments.
        leave_out: options that say nothing to this command.
        writes_runs: whether what it finds of a run is kept in the run's own folder.
    """

    def decorate(body: Callable[..., Outcome | None]) -> Callable[..., None]:
        own = _parameters(body)[1:]  # the first is the examination
        shared = {each.name: each for each in _parameters(_shared)}
        shared["out"] = shared["out"].replace(default=out)
        shared["limit"] = shared["limit"].replace(default=limit)
        shared["runs"] = shared["runs"].replace(annotation=runs)
        for name in leave_out:
            del shared[name]
        first = shared.pop("runs")
        for each in own:
            shared.pop(each.name, None)  # the command has its own
        whole = [first, *own, *shared.values()]

        def command(**given: Any) -> None:
            folder = given.get("out")
            if folder is not None:
                mw.files.check_writable(folder)  # what cannot be written is said before the work
            for run in (given["runs"] or []) if writes_runs else []:
                if run.is_dir():
                    mw.files.check_writable(run / "results")
            examination = Examination(
                runs=given["runs"] or [],
                networks=given["network"] or [],
                weights=given["weights"] or [],
                device=mw.machine.choose_device(given["device"]),
                **{name: given[name] for name in HELD if name in given},
            )
            started = time.monotonic()
            outcome = body(examination, **{each.name: given[each.name] for each in own})
            if outcome is not None:
                minutes = round((time.monotonic() - started) / 60, 3)
                made = replace(outcome.result.provenance, minutes=minutes)
                examination.finish(
                    replace(outcome, result=replace(outcome.result, provenance=made))
                )

        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in whole]
        )
        command.__annotations__ = {each.name: each.annotation for each in whole}
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        return command

    return decorate


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function with their annotations resolved."""
    hints = get_type_hints(function, include_extras=True)
    return [
        each.replace(annotation=hints.get(each.name, Any))
        for each in inspect.signature(function).parameters.values()
    ]


def _shared(
    runs: options.Runs = None,
    network: options.Network = None,
    weights: options.Weights = None,
    data: options.DataName = None,
    image_size: options.ImageSize = None,
    backbone: options.TrustedBackbone = None,
    best: options.Best = False,
    out: options.Out = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """The options that every examining command has, with their defaults."""
    raise typer.Abort  # never called: it is a signature
