"""What is served: models and images, and answers to what the page asks, one at a time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any
from urllib.parse import parse_qsl

import torch
from torch import nn

from multiway.classifier_config import WEIGHTS
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError, choose, visible
from multiway.explore.codes import clouds
from multiway.explore.commands import Source, command_lines, python_lines
from multiway.explore.compute import ModelView, View, breaking, look
from multiway.explore.draw import (
    MODEL_COLOURS,
    cloud_figure,
    eps_figure,
    image_address,
    line_style,
    path_figure,
    scores_figure,
    signed_address,
)
from multiway.explore.settings import (
    ATTACKS,
    MOST_STEPS,
    Settings,
    objectives_of,
    parse_settings,
)
from multiway.explore.tour import make_tour
from multiway.explore.words import ATTACK_WORDS, OBJECTIVE_WORDS, how_trained, margin_words
from multiway.objectives import OBJECTIVES

__all__ = ["Explorer"]

A_PAGE = 40  # thumbnails that are shown at once
KEPT = 256  # answers, so that the way back and a second page are instant

Answer = dict[str, Any]


@dataclass
class Explorer:
    """Answers for the page as JSON documents; safe to be asked by several threads.

    An attack puts the model into another mode while it runs, so that one attack runs at a time.

    Attributes:
        models: by name, in eval mode on `device`.
        sources: where each comes from.
        data: the images to choose from.
        eps: at which the page starts.
        data_python: an expression that loads the images.
        data_words: how the command line names the images.
    """

    models: Mapping[str, nn.Module]
    sources: Mapping[str, Source]
    data: ImageSet
    eps: float
    data_python: str
    data_words: str = ""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: OrderedDict[tuple[str, Any], Answer] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if not 0 < self.eps <= 1:
            raise MultiwayError(f"eps is how far a pixel may change, above 0 to 1, not {self.eps}")
        self.images = to_float(self.data.images, self.device)
        self.labels = self.data.labels.to(self.device)
        self.colours = dict(zip(self.models, cycle(MODEL_COLOURS), strict=False))

    @property
    def largest_eps(self) -> float:
        """Where the slider ends."""
        return min(1.0, 2.5 * self.eps)

    @property
    def default(self) -> Settings:
        """What the page shows first: FGSM, as in the paper, from the first model to the second."""
        first, *rest = self.models
        objective = objectives_of(self.models[first])[0]
        return Settings(0, first, rest[0] if rest else first, "fgsm", objective, self.eps, 10)

    def start(self, _: Mapping[str, str]) -> Answer:
        """What the controls offer."""
        unit = 1 / 255 if self.largest_eps < 0.25 else 0.01
        return {
            "models": [
                {"name": name, "objectives": objectives_of(model)}
                for name, model in self.models.items()
            ],
            "attacks": ATTACKS,
            "objectives": OBJECTIVES,
            "words": {"attack": ATTACK_WORDS, "objective": OBJECTIVE_WORDS},
            "classes": [visible(name) for name in self.data.classes],
            "images": len(self.data),
            "page": A_PAGE,
            "data": visible(self.data.name),
            "steps": MOST_STEPS,
            "eps": {"largest": self.largest_eps, "step": unit / 2 if unit < 0.01 else unit},
            "default": _as_query(self.default),
        }

    def thumbnails(self, query: Mapping[str, str]) -> Answer:
        """The images from `first` on, as many as a page holds."""
        start = query.get("first", "0")
        first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 0
        numbers = range(min(first, len(self.data) - 1), min(first + A_PAGE, len(self.data)))
        images = to_float(self.data.images[numbers.start : numbers.stop]).cpu()
        return {
            "images": [
                {
                    "number": number,
                    "class": visible(self.data.class_name(int(self.data.labels[number]))),
                    "source": image_address(image),
                }
                for number, image in zip(numbers, images, strict=True)
            ]
        }

    def look(self, query: Mapping[str, str]) -> Answer:
        """The image under attack, as both models see it."""
        settings = self._settings(query)
        answer = self._once("look", settings, lambda: self._look(settings))
        return {**answer, "missing": self.missing()}

    def breaking(self, query: Mapping[str, str]) -> Answer:
        """The margin against eps."""
        settings = self._settings(query)
        return self._once("breaking", settings, lambda: self._breaking(settings))

    def codes(self, query: Mapping[str, str]) -> Answer:
        """Outputs in three dimensions."""
        settings = self._settings(query)
        return self._once("codes", settings, lambda: self._codes(settings))

    def tour(self, _: Mapping[str, str]) -> Answer:
        """The six stops."""
        return self._once("tour", None, self._tour)

    def check(self, text: str) -> None:
        """Refuse what an address of the page cannot hold behind its `?`.

        Raises:
            MultiwayError: an unknown name, or a value that cannot be.
        """
        query = dict(parse_qsl(text, keep_blank_values=True))
        known = [*_as_query(self.default), "tour"]
        if not query:
            raise MultiwayError(f"'{text}' is not of the form image=3&eps=0.1")
        for name in query:
            choose("setting", name, known)
        self._settings(query)

    def missing(self) -> list[str]:
        """The runs that are no longer where they were loaded from."""
        return [
            name
            for name, source in self.sources.items()
            if source.run is not None and not (source.run / WEIGHTS).exists()
        ]

    def _settings(self, query: Mapping[str, str]) -> Settings:
        classes = self.data.classes
        return parse_settings(query, self.default, self.models, len(self.data), classes)

    def _once(self, kind: str, settings: Settings | None, make: Callable[[], Answer]) -> Answer:
        """What was answered before, or the new answer; one is made at a time."""
        key = (kind, settings)
        with self.lock:
            if key not in self._answers:
                started = time.perf_counter()
                self._answers[key] = make()
                self._answers[key]["milliseconds"] = round(1000 * (time.perf_counter() - started))
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
            return self._answers[key]

    def _look(self, settings: Settings) -> Answer:
        image, label = self.images[settings.image], int(self.labels[settings.image])
        view = look(self.models, image, label, settings)
        change = view.adversarial - view.clean
        return {
            "settings": _as_query(settings),
            "label": self._name(label),
            "clean": image_address(view.clean),
            "adversarial": image_address(view.adversarial),
            "difference": signed_address(change),
            "change": f"largest change {view.linf:.3g}, L2 norm {view.l2:.3g}",
            "verdict": self._verdict(view),
            "models": [
                # Where a card stands does not depend on who is attacked.
                self._model(each, view)
                for each in sorted(view.models, key=lambda one: self._place(one.name))
            ],
            "path": path_figure(view, self.colours),
            "agreement": None
            if view.agreement is None or math.isnan(view.agreement)
            else round(100 * view.agreement),
            "remarks": view.remarks,
            "command": command_lines(settings, self.sources, self.data_words),
            "python": python_lines(settings, self.sources, self.data_python),
        }

    def _model(self, each: ModelView, view: View) -> Answer:
        return {
            "name": each.name,
            "trained": how_trained(self.models[each.name]),
            "role": "attacked" if each.name == view.settings.on else "sees the same image",
            "colour": self.colours[each.name],
            "decisions": [self._name(one) for one in each.decision],
            "right": [one == view.label for one in each.decision],
            "margins": [margin_words(one) for one in each.margin],
            "gradient": signed_address(each.gradient),
            "objective": each.objective,
            "figure": scores_figure(each, self.data.classes, view.label, self.colours[each.name]),
        }

    def _breaking(self, settings: Settings) -> Answer:
        image, label = self.images[settings.image], int(self.labels[settings.image])
        lines = breaking(self.models, image, label, settings, self.largest_eps)
        return {
            "figure": eps_figure(lines, settings.eps, self.colours),
            "rows": [
                {
                    "model": line.model,
                    "crafted_on": line.crafted_on,
                    "objective": line.objective,
                    "colour": self.colours[line.model],
                    "line": line_style(line, lines),
                    "breaks": "not up to " + f"{self.largest_eps:g}"
                    if line.breaks_at is None
                    else f"{line.breaks_at:.3g}",
                }
                for line in lines
            ],
        }

    def _codes(self, settings: Settings) -> Answer:
        found = clouds(self.models, self.images, self.labels, settings)
        return {
            "clouds": [
                {
                    "model": cloud.model,
                    "images": len(cloud.labels),
                    "wrong": [int(frame.sum()) for frame in cloud.wrong],
                    "figure": cloud_figure(cloud, self.data.classes),
                }
                for cloud in sorted(found, key=lambda one: self._place(one.model))
            ]
        }

    def _tour(self) -> Answer:
        classes = [visible(name) for name in self.data.classes]
        stops = make_tour(
            self.models, self.images, self.labels, classes, self.eps, self.largest_eps
        )
        return {
            "stops": [
                {
                    "title": stop.title,
                    "text": stop.text,
                    "settings": _as_query(stop.settings),
                    "focus": stop.focus,
                }
                for stop in stops
            ]
        }

    def _verdict(self, view: View) -> str:
        """What happened, in a sentence."""
        settings = view.settings
        if settings.eps == 0:
            parts = [f"{each.name} says {self._name(each.decision[0])}" for each in view.models]
            return f"No attack (eps 0): {', '.join(parts)}."
        parts = []
        for each in view.models:
            before, after = (self._name(one) for one in each.decision)
            parts.append(
                f"{each.name} still says {after}"
                if before == after
                else f"{each.name} says {after} instead of {before}"
            )
        aim = "" if settings.target is None else f" towards {self._name(settings.target)}"
        return (
            f"{settings.attack_name}{aim}, against {settings.on} at eps {settings.eps:.3g}: "
            f"{', '.join(parts)}."
        )

    def _place(self, model: str) -> int:
        return list(self.models).index(model)

    def _name(self, label: int) -> str:
        return "no class" if label < 0 else visible(self.data.class_name(label))


def _as_query(settings: Settings) -> dict[str, str]:
    """The settings as the page keeps them: texts, as in an address."""
    values: Sequence[tuple[str, Any]] = [
        ("image", settings.image), ("on", settings.on), ("other", settings.other),
        ("attack", settings.attack), ("objective", settings.objective),
        ("eps", f"{settings.eps:g}"), ("steps", settings.steps),
        ("target", "" if settings.target is None else settings.target),
    ]  # fmt: skip
    return {key: str(value) for key, value in values}
