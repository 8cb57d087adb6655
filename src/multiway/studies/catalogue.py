"""All studies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from multiway.encoding import ENCODINGS
from multiway.errors import choose
from multiway.studies.artifacts import Decided
from multiway.studies.fresh import FRESH, judged_claims, restricted_study
from multiway.studies.images import Images
from multiway.studies.models import Model
from multiway.studies.result import SCALES, StudyResult
from multiway.studies.scale import Scale
from multiway.studies.study import Learned, Study

__all__ = ["STUDIES", "declare", "headings", "in_order", "studies_at"]

# In the paper's order, then what it lacks. Each is a module of this package, with underscores for
# hyphens: a `declare`, its `TITLE`, and in `PAPER` where the paper has it.
STUDIES = (
    "intro",
    "signs",
    "length",
    "correlation",
    "saliency",
    "transfer",
    "undefended",
    "benchmark",
    "corruption",
    "iterations",
    "landscape",
    "watermark",
    "ablation",
    "confidence",
    "epsilon",
    "controls",
    "objectives",
    "autoattack-mnist",
    "autoattack-cifar-10",
)


def _module(name: str) -> ModuleType:
    return import_module(f"multiway.studies.{name.replace('-', '_')}")


def declare(name: str, scale: Scale) -> Study:
    """The study called `name` at that scale."""
    build: Callable[[Scale], Study] = _module(choose("study", name, STUDIES)).declare
    study = restricted_study(name, build, scale) if scale.like else build(scale)
    return replace(
        study,
        claims=judged_claims(name, scale.name),
        differs=(*study.differs, *_code_scales(study)),
        learned=_learned(study, scale),
    )


def studies_at(scale: str) -> tuple[str, ...]:
    """The studies that a scale has."""
    return tuple(name for name in STUDIES if scale != "fresh" or name in FRESH)


def headings() -> list[tuple[str, str, str]]:
    """Name, place in the paper and title of each study; unlike `declare` it needs no data."""
    modules = {name: _module(name) for name in STUDIES}
    return [(name, module.PAPER, module.TITLE) for name, module in modules.items()]


# By the name of a recipe's scale; 1ofK and `ro-softmax` have none.
_WORDS = {
    "paper": "codes are trained at the paper's scale (beta 1000 at length 2000, the mean over "
    "outputs)",
    "matched": "codes are trained at the matched scale, with one-hot's settings, not at the "
    "paper's",
}


def _code_scales(study: Study) -> list[str]:
    """At which scale its networks learn their codes."""
    scales = {
        record.recipe.scale
        for record in _reached(study)
        if isinstance(record, Model) and ENCODINGS[record.encoding].loss == "mse"
    }
    return [_WORDS[name] for name in sorted(scales)]


def _learned(study: Study, scale: Scale) -> tuple[Learned, ...]:
    """Every network of the study that has a one-hot twin, beside it on clean images."""
    # Thieves and untrained networks are not expected to have learned.
    models = [each for each in _reached(study) if type(each) is Model and each.encoding != "1ofk"]
    pairs = []
    for model in dict.fromkeys(models):
        twin = scale.twin(model)
        if twin is not None:
            images = Images(model.images.data, "test", scale.images)
            pairs.append(Learned(Decided(model, images), Decided(twin, images)))
    return tuple(pairs)


def _reached(study: Study) -> Iterator[Any]:
    """All records that the study's figures and pictures are made from.

    By their fields, not as a store finds them: that needs the data, which may not be here yet.
    """
    waiting: list[Any] = [*(cell.measure for cell in study.cells), *study.pictures.values()]
    seen: set[int] = set()
    while waiting:
        record = waiting.pop()
        if id(record) in seen:
            continue
        seen.add(id(record))
        if is_dataclass(record):
            yield record
            waiting += [getattr(record, field.name) for field in fields(record)]
        elif isinstance(record, (tuple, list)):
            waiting += record
        elif isinstance(record, Mapping):
            waiting += record.values()


def in_order(results: Iterable[StudyResult]) -> list[StudyResult]:
    """As the paper has them; of one study the largest scale first."""

    def place(result: StudyResult) -> tuple[int, str, int]:
        known = STUDIES.index(result.name) if result.name in STUDIES else len(STUDIES)
        return known, result.name, -SCALES.index(result.scale)

    return sorted(results, key=place)
