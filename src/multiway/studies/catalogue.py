"""All studies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from multiway.errors import choose
from multiway.studies.result import SCALES, StudyResult
from multiway.studies.scales import Scale
from multiway.studies.study import Study

__all__ = ["STUDIES", "declare", "in_order"]

# In the paper's order, then what it lacks. Each is a module of this package with a `declare`.
STUDIES = (
    "intro",
    "length",
    "correlation",
    "saliency",
    "transfer",
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
    "autoattack",
)


def declare(name: str, scale: Scale) -> Study:
    """The study called `name` at that scale."""
    module = import_module(f"multiway.studies.{choose('study', name, STUDIES)}")
    build: Callable[[Scale], Study] = module.declare
    return build(scale)


def in_order(results: Iterable[StudyResult]) -> list[StudyResult]:
    """As the paper has them; of one study the largest scale first."""

    def place(result: StudyResult) -> tuple[int, str, int]:
        known = STUDIES.index(result.name) if result.name in STUDIES else len(STUDIES)
        return known, result.name, -SCALES.index(result.scale)

    return sorted(results, key=place)
