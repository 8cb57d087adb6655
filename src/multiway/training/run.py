"""Run directories: config.json, model.safetensors, metrics.jsonl, results/, and state to resume."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from multiway.classifier_config import CONFIG, WEIGHTS, ClassifierFields
from multiway.errors import MultiwayError, UnusableFile
from multiway.files import (
    check_writable,
    decode_json,
    forget_leftovers,
    kind_of,
    list_folder,
    make_directory,
    read_json,
    read_text,
    write_atomic,
    write_json,
)
from multiway.machine import locked
from multiway.results import Result, write_result
from multiway.validate import Fields, validated

__all__ = ["Run", "open_run"]

STATE = "state.safetensors"
METRICS = "metrics.jsonl"
BEST = "best.safetensors"
GOOD = "good.safetensors"
LOCK = ".lock"

# What a run's result depends on; the rest of config.json is for the reader. Not every run has the
# last three: the mark put in, what a thief started from, bfloat16.
DETERMINING = (
    "classifier", "data", "recipe", "seed", "validation", "watermark", "theft", "precision",
)  # fmt: skip
# Words about a recipe, which may be put better in another version.
PROSE = ("source", "changed")


class _DataFields(Fields):
    name: str
    sha256: str
    images: int = Field(ge=1)
    classes: list[str] = Field(min_length=2)


class _AdversaryFields(Fields):
    stop_on_collapse: bool = False


class _RecipeFields(Fields):
    """What is read of a recipe that may be another version's; `recipe_of` reads all of it."""

    lr: float = Field(gt=0)
    adversary: _AdversaryFields | None = None


class _TheftFields(Fields):
    start: str
    stolen_sha256: str | None = None


class _RunFields(Fields):
    """What config.json holds, as far as it is used again."""

    classifier: ClassifierFields
    data: _DataFields
    recipe: _RecipeFields
    seed: int
    validation: float = Field(ge=0, lt=1)
    watermark: dict[str, Any] | None = None
    theft: _TheftFields | None = None
    precision: str = ""


class _WatchFields(Fields):
    collapsed: bool


class _MetricsFields(Fields):
    """A line of metrics.jsonl, as far as it is used again."""

    step: int = Field(ge=0)
    epoch: int = Field(ge=0)
    accuracy: float = Field(ge=0, le=1)
    watch: _WatchFields | None = None


@dataclass(frozen=True)
class Collapse:
    """How a training ended that was watched for catastrophic overfitting, and collapsed.

    Attributes:
        epoch: in which it was seen.
        kept: the epoch whose weights were kept; None where none was good.
    """

    epoch: int
    kept: int | None

    def __str__(self) -> str:
        if self.kept is None:
            return (
                f"warning: it collapsed in epoch {self.epoch} and ended there, with no good epoch "
                "before: these weights have overfitted to their adversary; take more --steps"
            )
        return (
            f"warning: it collapsed in epoch {self.epoch} and ended there; the weights are those "
            f"of epoch {self.kept}"
        )

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)


@dataclass(frozen=True)
class Run:
    """A directory that holds one training; a temporary one is gone after it."""

    directory: Path
    temporary: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", Path(self.directory))

    @property
    def state(self) -> Path:
        """What an unfinished training goes on from."""
        return self.directory / STATE

    @property
    def weights(self) -> Path:
        """The weights after the last step; there once the training is finished."""
        return self.directory / WEIGHTS

    @property
    def best(self) -> Path:
        """The weights of the best validation accuracy, if a validation split was asked for."""
        return self.directory / BEST

    @property
    def good(self) -> Path:
        """The weights of the last epoch without a collapse, while an adversary is watched."""
        return self.directory / GOOD

    @property
    def finished(self) -> bool:
        """Whether the training went to its end."""
        return kind_of(self.weights) is not None and kind_of(self.state) is None

    def config(self) -> dict[str, Any]:
        """What config.json says; every field that is used again is of its type."""
        path = self.directory / CONFIG
        if kind_of(path) is None:
            raise MultiwayError(
                f"{self.directory} is not a run (it has no {CONFIG}); name a folder made by "
                "multiway train"
            )
        config: dict[str, Any] = read_json(path)
        validated(
            _RunFields,
            config,
            path,
            "it does not describe a multiway run: take the file as multiway train wrote it, or "
            "train again",
        )
        return config

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else trains in this directory inside the block; what a kill left half is removed.

        Raises:
            MultiwayError: another process does so already; nothing is touched.
        """
        with locked(self.directory / LOCK, needed=False) as mine:
            if not mine:
                raise MultiwayError(
                    f"another process is training in {self.directory}; wait for its end, or choose "
                    "another --out"
                )
            forget_leftovers(self.directory)
            yield

    def check_writable(self) -> None:
        """Say before the work that its results cannot be written here."""
        check_writable(self.directory / "results")

    def write_result(self, name: str, result: Result) -> Path:
        """Write `results/NAME.json`."""
        return write_result(self.directory / "results" / f"{name}.json", result)

    def append_metrics(self, values: dict[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        try:
            with (self.directory / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(values, allow_nan=False) + "\n")
        except OSError as error:
            raise MultiwayError(
                f"cannot write {self.directory / METRICS}: {error.strerror}; free some space and "
                "go on with --resume"
            ) from error

    def metrics(self) -> list[dict[str, Any]]:
        """The whole lines of metrics.jsonl."""
        path = self.directory / METRICS
        if kind_of(path) is None:
            return []
        lines: list[dict[str, Any]] = []
        written = read_text(path).splitlines()
        for number, line in enumerate(written, 1):
            remedy = f"that is line {number}: take it out, or train again"
            try:
                value = decode_json(line)
            except ValueError as error:
                if number == len(written):
                    break  # a kill cut this line short
                raise UnusableFile(path, f"{path}: no valid JSON ({error}); {remedy}") from error
            validated(_MetricsFields, value, path, remedy)
            lines.append(value)
        return lines

    def ended_by_collapse(self) -> Collapse | None:
        """How the training ended, if --stop-on-collapse ended it before its time."""
        adversary = self.config()["recipe"].get("adversary") or {}
        watched = [line for line in self.metrics() if "watch" in line]
        if not (
            adversary.get("stop_on_collapse") and watched and watched[-1]["watch"]["collapsed"]
        ):
            return None
        good = [line["epoch"] for line in watched if not line["watch"]["collapsed"]]
        return Collapse(watched[-1]["epoch"], good[-1] if good else None)

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that a resumed training will take again."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        write_atomic(
            self.directory / METRICS, "".join(json.dumps(line) + "\n" for line in kept).encode()
        )


def open_run(directory: Path | str, config: dict[str, Any], resume: bool) -> Run:
    """The run directory for `config`: a new one, or with `resume` the one that is there.

    Raises:
        MultiwayError: something else is in the directory; nothing in it is touched.
    """
    directory = Path(directory)
    run = Run(directory)
    kind = kind_of(directory)
    if kind not in (None, "folder"):
        raise MultiwayError(f"{directory} is a file; --out takes a folder for the run")
    names = [path.name for path in list_folder(directory)] if kind else []
    entries = [name for name in names if not name.startswith(".")]
    if not entries:
        make_directory(directory)
        write_json(directory / CONFIG, config)
        return run
    if CONFIG not in entries:
        raise MultiwayError(
            f"{directory} is not empty and not a run (it holds {', '.join(entries[:3])}); choose "
            "another --out"
        )
    before = run.config()
    if not resume:
        standing = "a finished run" if run.finished else "an unfinished run"
        advice = "another --out" if run.finished else "--resume to go on, or another --out"
        raise MultiwayError(f"{directory} holds {standing} already; choose {advice}")
    different = _differences(before, config)
    if different:
        raise UnusableFile(
            directory / CONFIG,
            f"{directory} belongs to another configuration: {'; '.join(different)}; choose another "
            "--out or give the same options as before",
        )
    return run


def config_digest(config: dict[str, Any]) -> str:
    """A hash of what the result of a run depends on."""
    return hashlib.sha256(_determining(config).encode()).hexdigest()


def _determining(config: dict[str, Any]) -> str:
    """What the result of a run depends on, as JSON."""
    relevant = {key: config[key] for key in DETERMINING if key in config}
    recipe = {key: value for key, value in config["recipe"].items() if key not in PROSE}
    return json.dumps({**relevant, "recipe": recipe}, sort_keys=True)


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    old, new = (_flat(json.loads(_determining(config))) for config in (before, now))
    return [
        f"{key} was {old.get(key)!r}, now {new.get(key)!r}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {prefix: values}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return flat
