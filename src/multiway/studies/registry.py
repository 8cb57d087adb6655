"""All studies by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from multiway.errors import choose
from multiway.studies.scales import Scale
from multiway.studies.study import Study

__all__ = ["STUDIES", "declare"]

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
