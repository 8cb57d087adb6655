"""Recipes: everything about a training that is not the network, the encoding or the data."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from multiway.errors import MultiwayError, UnusableFile, choose, nearest, one_line
from multiway.files import check_plain, read_text
from multiway.training.adversary import Adversary
from multiway.validate import problem_of

__all__ = ["Recipe", "Schedule", "load_recipe", "read_fields", "recipe_names", "recipe_of"]

# Bytes: a recipe has about a thousand; a parser of YAML takes seconds for a megabyte.
LARGEST = 2**16


class Schedule(BaseModel):
    """The learning rate over a training, as a factor of the recipe's `lr`.

    - `constant`: 1 throughout.
    - `steps`: multiplied by `factor` at each of `at`, given as fractions of the training.
    - `ramp`: from 0 up to 1 at the fraction `peak`, then down to 0, both linearly.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["constant", "steps", "ramp"] = "constant"
    at: tuple[float, ...] = ()
    factor: float = Field(default=0.1, gt=0)
    peak: float = Field(default=0.4, gt=0, lt=1)

    @model_validator(mode="after")
    def _fields_belong_to_the_kind(self) -> Schedule:
        allowed = {"constant": set(), "steps": {"at", "factor"}, "ramp": {"peak"}}[self.kind]
        given = set(self.model_dump(exclude_defaults=True))
        foreign = given - allowed - {"kind"}
        if foreign:
            raise ValueError(f"a '{self.kind}' schedule has no {', '.join(sorted(foreign))}")
        if any(not 0 < point < 1 for point in self.at) or list(self.at) != sorted(self.at):
            raise ValueError(f"'at' takes rising fractions between 0 and 1, not {list(self.at)}")
        if self.kind == "steps" and not self.at:
            raise ValueError("a 'steps' schedule needs 'at'")
        return self

    def factor_at(self, step: int, total: int) -> float:
        """The factor of step `step` (from 0) in a training of `total` steps.

        Example:
            >>> [Schedule(kind="ramp", peak=0.5).factor_at(step, 8) for step in (0, 2, 4, 6)]
            [0.0, 0.5, 1.0, 0.5]
        """
        done = step / total
        if self.kind == "steps":
            return math.prod(self.factor for point in self.at if done >= point)
        if self.kind == "ramp":
            return done / self.peak if done < self.peak else (1 - done) / (1 - self.peak)
        return 1.0


class Recipe(BaseModel):
    """How a network is trained; validated, and written whole into a run's configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str = Field(default="the user's own", description="who trains like this")
    changed: str = Field(default="nothing", description="what differs from the source")
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = Field(gt=0, le=1e6)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(default=0.0, ge=0, le=1e6)
    batch_size: int = Field(ge=1)
    epochs: int | None = Field(default=None, ge=1)
    steps: int | None = Field(default=None, ge=1)
    schedule: Schedule = Schedule()
    augment: Literal["none", "pad-crop-flip"] = "none"
    scale: Literal["matched", "paper"] = Field(
        default="matched",
        description="of a squared error: 'matched' sizes outputs, losses and the head's first "
        "weights as with one-hot labels; 'paper' is the mean over the L outputs",
    )
    adversary: Adversary | None = Field(
        default=None, description="who attacks the batches; nobody when left out"
    )

    @field_validator("scale", mode="before")
    @classmethod
    def _not_the_old_scale(cls, value: Any) -> Any:
        if value == "unit":
            raise ValueError(
                "the scale 'unit' of earlier versions is gone: take 'matched', which trains as "
                "one-hot labels do, or 'paper'"
            )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either 'epochs' or 'steps'")
        if self.optimizer == "adam" and (self.momentum or self.nesterov):
            raise ValueError("'adam' has no momentum or nesterov; leave them out")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    @property
    def code_scale(self) -> str:
        """The scale of codes that `scale` means with this optimiser, one of `SCALES`."""
        adam = self.scale == "matched" and self.optimizer == "adam"
        return "matched-adam" if adam else self.scale

    def identity(self) -> dict[str, Any]:
        """What counts of it, for a key; its name and where it comes from are for readers.

        What is left open is resolved: a default that changes must not be served from an old store.
        """
        counted = self.model_dump(mode="json", exclude={"name", "source", "changed"})
        if self.adversary is not None:
            counted["adversary"] |= {
                "steps": self.adversary.step_count,
                "step_size": self.adversary.step,
            }
        return counted

    def total_steps(self, images: int) -> int:
        """The number of optimiser steps on a training set of `images` images."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return self.epochs * self.steps_per_epoch(images)

    def steps_per_epoch(self, images: int) -> int:
        """The number of batches in which every image is seen once."""
        return math.ceil(images / self.batch_size)

    def override(self, **changes: Any) -> Recipe:
        """This recipe with the changes that are not None, said so in `changed`."""
        changes = {
            key: value
            for key, value in changes.items()
            if value is not None and value != getattr(self, key)
        }
        if not changes:
            return self
        said = ", ".join(f"{key} {getattr(self, key)} -> {value}" for key, value in changes.items())
        if "epochs" in changes:
            changes["steps"] = None
        return self._with(said, **changes)

    def with_adversary(self, kind: str | None, **changes: Any) -> Recipe:
        """This recipe with another adversary, or with changes to its own.

        Args:
            kind: `none`, `pgd`, `fgsm` or `n-fgsm`; None keeps the recipe's.
            changes: fields of `Adversary`; those that are None are left as they are.

        Example:
            >>> load_recipe("wong-mnist").with_adversary("pgd", eps=0.2, steps=7).adversary.step
            0.05
        """
        changes = {key: value for key, value in changes.items() if value is not None}
        if kind is not None:
            choose("adversary", kind, ("none", "pgd", "fgsm", "n-fgsm"))
        if kind == "none" or (kind is None and self.adversary is None):
            if changes:
                option = next(iter(changes)).replace("clean_weight", "lambda").replace("_", "-")
                raise MultiwayError(
                    f"--{option} is the adversary's, and there is none; say which: --adversary pgd"
                )
            return self if self.adversary is None else self._with("no adversary", adversary=None)
        before = {} if self.adversary is None else self.adversary.model_dump(exclude_unset=True)
        if kind is not None and before.get("kind", kind) != kind:
            # The steps of one kind are not those of another.
            before = _without_keys(before, "steps", "step_size")
        if changes.get("outer") == "trades" and before.get("outer") != "trades":
            # TRADES brings its own clean loss and its own ascent.
            before = _without_keys(before, "clean_weight", "objective", "start")
        if changes.get("outer") == "eq4":
            before = _without_keys(before, "trades_weight")
        if "eps" in changes and before.get("step_size") is not None:
            # The same attack in a ball of another size.
            before = {**before, "step_size": before["step_size"] * changes["eps"] / before["eps"]}
        fields = {**before, **changes} if kind is None else {**before, **changes, "kind": kind}
        if fields == before:
            return self
        said = ", ".join(f"{key} {value}" for key, value in fields.items())
        return self._with(f"adversary: {said}", adversary=fields)

    def _with(self, said: str, **changes: Any) -> Recipe:
        """This recipe with `changes`, which `said` puts into words for `changed`."""
        changed = said if self.changed == "nothing" else f"{self.changed}; {said}"
        try:
            return Recipe.model_validate({**self.model_dump(), **changes, "changed": changed})
        except ValidationError as error:
            raise MultiwayError(
                f"recipe '{self.name} with your options': {_problem_of(error)}"
            ) from None


def _without_keys(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def recipe_of(config: dict[str, Any]) -> Recipe:
    """The recipe in a run's configuration."""
    try:
        return Recipe.model_validate_json(json.dumps(config.get("recipe")), strict=True)
    except ValidationError as error:
        raise MultiwayError(
            f"the stolen run's recipe cannot be read: {problem_of(error)}; name one with --recipe"
        ) from None


def recipe_names() -> list[str]:
    """The names of the recipes that come with the package."""
    folder = resources.files("multiway.training") / "recipes"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".yaml"))


def load_recipe(name: str) -> Recipe:
    """The recipe of that name, or in the YAML file of that path.

    Example:
        >>> load_recipe("paper-mnist").momentum
        0.5
    """
    path = Path(name)
    return _read(path) if path.suffix in (".yaml", ".yml") else _named(name)


# A study at full size asks for the same few recipes thousands of times.
@cache
def _named(name: str) -> Recipe:
    """The recipe of that name among those of the package."""
    choose("recipe", name, recipe_names())
    return _read(Path(str(resources.files("multiway.training") / "recipes" / f"{name}.yaml")))


def _read(path: Path) -> Recipe:
    values = {"name": path.stem, **read_fields(path)}
    try:
        # A file's numbers are numbers: nothing is guessed at, and `true` is not 1.
        return Recipe.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise UnusableFile(path, f"recipe '{path.stem}': {_problem_of(error)}") from None


def _problem_of(error: ValidationError) -> str:
    """The first thing that is wrong; a misspelt field with what may have been meant."""
    for problem in error.errors(include_url=False):
        if problem["type"] == "extra_forbidden":
            field = ".".join(str(part) for part in problem["loc"])
            parts: dict[str, type[BaseModel]] = {"schedule": Schedule, "adversary": Adversary}
            owner = parts.get(field.partition(".")[0], Recipe)
            hint = nearest(field.rpartition(".")[2][:80], owner.model_fields)
            return f"unknown field '{field[:80]}': {hint}"
    return problem_of(error)


class _PlainLoader(yaml.SafeLoader):
    """YAML without what a list of fields does not need: aliases, keys that hide each other."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            # A few aliases of aliases stand for billions of values.
            raise ValueError("it uses an alias (*); write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ValueError(f"'{twice[0][:60]}' is there twice; keep one of them")
        return super().construct_mapping(node, deep=True)


# YAML 1.1 takes 1e-3 for a text, as it lacks a dot.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_fields(path: Path) -> dict[str, Any]:
    """The fields in a YAML file: names with texts, numbers, yes or no, lists and more fields.

    Raises:
        UnusableFile: it is no YAML or holds something else; "FILE: what; what to do".
    """
    text = read_text(path, LARGEST)
    try:
        values = yaml.load(text, Loader=_PlainLoader)  # which is a SafeLoader
        check_plain(values)
    # Beside YAML's own errors: dates that do not exist, tags without a value, endless nesting.
    except Exception as error:
        said = one_line(error)
        raise UnusableFile(
            path, f"the recipe {path} is not valid YAML: {said}; compare it with docs/training.md"
        ) from error
    if not isinstance(values, dict) or not _is_plain(values):
        raise UnusableFile(
            path,
            f"the recipe {path} is not a mapping of fields to values; write one 'name: value' a "
            "line, with texts, numbers, true or false and lists of them",
        )
    return values


def _is_plain(value: Any) -> bool:
    """Whether JSON could hold it: no dates, no sets, no numbers as names."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
