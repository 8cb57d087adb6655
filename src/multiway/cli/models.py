"""What is to be examined: runs trained here, and classifiers from anywhere else."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from multiway.backbones import build_named
from multiway.checks import output_tensor
from multiway.classifier import EncodedClassifier, load_classifier
from multiway.classifier_config import CONFIG
from multiway.data import ImageSet, load, to_float
from multiway.errors import MultiwayError, MultiwayWarning, reason, visible
from multiway.files import kind_of, read_json
from multiway.training import Run, check_class_names, load_run, load_trained_on, trained_size
from multiway.weights import load_tensors, read_tensors

__all__ = [
    "Subject", "is_saved", "load_network", "load_saved", "load_subjects", "names_apart",
]  # fmt: skip


# In the place of a file: the weights that a network's function gives it.
OWN_WEIGHTS = Path("own")


_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True)
class Subject:
    """A classifier under examination.

    Attributes:
        name: what tables and figures call it; unique among its company.
        model: images [N, C, H, W] in [0, 1] to scores [N, K], in eval mode.
        encoding: the name of its encoding; None where nothing is known of it.
        seed: of its training; None where nothing is known of it.
        run: the folder it comes from; None for a network that was not trained here.
        path: `package.module:function` of such a network, or the folder that it was saved in.
    """

    name: str
    model: nn.Module
    encoding: str | None = None
    seed: int | None = None
    run: Run | None = None
    path: str = ""

    @property
    def longer_name(self) -> str:
        """The name with that of the run's folder, or of the network's module, in front."""
        if self.run is None:
            return self.path.replace(":", ".") or self.name
        return visible(f"{self.run.directory.resolve().parent.name}/{self.name}")

    def as_dict(self) -> dict[str, Any]:
        """What a result says of it."""
        return {
            "name": self.name,
            "encoding": self.encoding,
            "trained_with_seed": self.seed,
            "run": None if self.run is None else str(self.run.directory),
        }


def load_network(path: str, weights: Path | None) -> nn.Module:
    """A classifier that was not trained here, in eval mode.

    Args:
        path: `package.module:function`; the function takes no arguments and returns a network from
            images in [0, 1] to logits, with its normalisation inside.
        weights: a safetensors file for it; None when the function loads its own.
    """
    network = build_named(path)
    if weights is not None:
        if weights.suffix in (".pt", ".pth", ".bin", ".ckpt"):
            raise MultiwayError(
                f"{weights} looks like a pickle, which can run code when it is read; save the "
                "state_dict with safetensors.torch.save_file and pass that file"
            )
        load_tensors(network, read_tensors(weights), weights)
    return network.eval()


def load_subjects(
    runs: Sequence[Path],
    networks: Sequence[str] = (),
    weights: Sequence[Path] = (),
    *,
    data: str | None = None,
    split: str = "test",
    data_dir: Path | None = None,
    image_size: int | None = None,
    limit: int | None = None,
    backbone: Sequence[str] | None = None,
    best: bool = False,
    device: torch.device | str = "cpu",
) -> tuple[list[Subject], ImageSet]:
    """Classifiers to examine side by side, and the images to examine them on.

    Args:
        runs: folders made by `multiway train`, or by `save_pretrained` in Python; what those are to
            be examined on must be said.
        networks: see `load_network`.
        weights: a file for each of `networks`; `Path("own")` for a function that loads its own.
        data: the images; the runs' own when not given.
        limit: how many images, from the first.
        backbone: code outside multiway that is trusted to build the runs' networks, see
            `load_run`.

    Raises:
        MultiwayError: nothing was named, or the models do not fit each other or the images.
    """
    if not runs and not networks:
        raise MultiwayError(
            "name something to examine: a folder made by multiway train, or --network "
            "package.module:function with --weights and --data"
        )
    if len(weights) != len(networks):
        raise MultiwayError(
            f"{len(networks)} --network and {len(weights)} --weights were given; give a file for "
            "each network, in the same order (--weights own for a function that loads its own)"
        )
    twice = [str(run) for run in runs if [r.resolve() for r in runs].count(run.resolve()) > 1]
    if twice:
        raise MultiwayError(f"{twice[0]} was named twice; name each run once")
    if image_size is not None and data is None:
        raise MultiwayError(
            f"--image-size {image_size} goes with --data; the runs' own images have their size"
        )
    for name in backbone or ():
        if ":" not in name:
            raise MultiwayError(f"--backbone {name}: write package.module:function")
    subjects: list[Subject] = []
    trained_on: list[dict[str, Any]] = []
    for directory in runs:
        name = visible(directory.name)
        if is_saved(directory):
            saved = load_saved(directory, backbone)
            subjects.append(Subject(name, saved, saved.encoding.name, path=str(directory)))
            trained_on.append({})
            continue
        model, config = _loaded(directory, backbone, partial(load_run, best=best))
        encoding = str(config["classifier"]["encoding"]["name"])
        subjects.append(Subject(name, model, encoding, config["seed"], Run(directory)))
        trained_on.append(config)
    for index, path in enumerate(networks):
        file = None if weights[index] == OWN_WEIGHTS else weights[index]
        subjects.append(Subject(path.partition(":")[2], load_network(path, file), path=path))
    images = _images([each for each in trained_on if each], data, split, data_dir, image_size)
    images = images if limit is None else images.limit(limit)
    if split == "test" and len(images) > 1:  # one is no measurement
        _warn_of_thieves(subjects, trained_on)
    for subject in subjects:
        subject.model.to(device)
    _check_fit(subjects, images, device)
    for subject, config in zip(subjects, trained_on, strict=False):
        if config:
            check_class_names(config, images, subject.name)
    return names_apart(subjects), images


def _warn_of_thieves(subjects: list[Subject], configs: list[dict[str, Any]]) -> None:
    """A thief has fine-tuned on half of the test set, see `multiway.watermark.halves`."""
    thieves = [
        one.name for one, config in zip(subjects, configs, strict=False) if "theft" in config
    ]
    if thieves:
        warnings.warn(
            MultiwayWarning(
                f"{', '.join(thieves)} was trained on half of the test images, so figures on all "
                "of them flatter it; multiway watermark detect measures on the other half"
            ),
            stacklevel=3,
        )


def is_saved(directory: Path) -> bool:
    """Whether `directory` was made by `save_pretrained`: it holds no training."""
    if kind_of(directory / CONFIG) != "file":
        return False
    config = read_json(directory / CONFIG)
    return isinstance(config, dict) and "classifier" in config and "recipe" not in config


def load_saved(directory: Path, backbone: Sequence[str] | None) -> EncodedClassifier:
    """A classifier that `save_pretrained` kept, in eval mode; of `backbone` see `_loaded`."""
    return _loaded(directory, backbone, load_classifier)


def _loaded(
    directory: Path,
    backbone: Sequence[str] | None,
    load: Callable[[Path, nn.Module | str | None], _Loaded],
) -> _Loaded:
    """What `load` finds in a folder, with one of the trusted `backbone`s where it needs that.

    Args:
        backbone: code outside multiway that the folder may name; where it does not say how its
            network is built, functions without arguments, of which the first that fits does it.
    """
    config = read_json(directory / CONFIG) if (directory / CONFIG).exists() else {}
    described = config.get("classifier") if isinstance(config, dict) else None
    if not isinstance(described, dict) or "backbone" not in described:
        return load(directory, None)  # which says what is wrong with it
    if (architecture := described["backbone"]) is not None:
        name = architecture.get("name") if isinstance(architecture, dict) else None
        return load(directory, name if name in (backbone or ()) else None)
    if not backbone:
        raise MultiwayError(
            f"{directory} does not say how its network is built: name a function without arguments "
            "that returns it, --backbone package.module:function"
        )
    *others, last = backbone
    for path in others:
        with contextlib.suppress(MultiwayError):
            return load(directory, load_network(path, None))
    return load(directory, load_network(last, None))


def _images(
    configs: list[dict[str, Any]],
    data: str | None,
    split: str,
    data_dir: Path | None,
    image_size: int | None,
) -> ImageSet:
    if data is not None:
        if data.startswith("folder:") and image_size is None and configs:
            image_size = trained_size(configs[0])
        return load(data, split, data_dir, image_size)
    if not configs:
        raise MultiwayError(
            "what was not trained by multiway train needs --data: the images to examine it on"
        )
    names = list(dict.fromkeys(str(config["data"]["name"]) for config in configs))
    if len(names) > 1:
        raise MultiwayError(
            f"the runs were trained on {' and '.join(names)}; say with --data which images to use"
        )
    return load_trained_on(configs[0], split, data_dir)


@torch.no_grad()
def _check_fit(subjects: list[Subject], data: ImageSet, device: torch.device | str) -> None:
    """One image through each of them: it must fit, and give a score for each class."""
    image = to_float(data.images[:1], device)
    classes = {}
    for subject in subjects:
        try:
            scores = output_tensor(subject.model(image), len(image))
        except MultiwayError:
            raise
        except (Exception, SystemExit) as error:  # whatever a stranger's network may raise
            shape = "x".join(str(side) for side in image.shape[1:])
            raise MultiwayError(
                f"{subject.name} does not take the {shape} images of {data.name}: {reason(error)}"
            ) from error
        classes[subject.name] = scores.shape[1]
    first = subjects[0].name
    for name, count in classes.items():
        if count != classes[first]:
            raise MultiwayError(
                f"{name} has {count} classes and {first} has {classes[first]}; only models over "
                "the same classes can be compared"
            )
    for subject in subjects:
        if subject.run is not None and classes[subject.name] != len(data.classes):
            raise MultiwayError(
                f"{subject.name} was trained on {classes[subject.name]} classes, and {data.name} "
                f"has {len(data.classes)} ({', '.join(data.classes[:3])}, ...); take images of the "
                "same classes"
            )
    if len(data) and int(data.labels.max()) >= classes[first]:
        raise MultiwayError(
            f"{data.name} has labels up to {int(data.labels.max())}, but {first} tells "
            f"{classes[first]} classes apart"
        )


def names_apart(subjects: list[Subject]) -> list[Subject]:
    """Models of the same name get that of their folder or module too, then a number."""
    longer: dict[str, set[str]] = {}
    for subject in subjects:
        longer.setdefault(subject.name, set()).add(subject.longer_name)
    # A longer name that is the same for all of them tells nothing.
    names = [
        subject.longer_name if len(longer[subject.name]) > 1 else subject.name
        for subject in subjects
    ]
    seen: dict[str, int] = {}
    apart = []
    for subject, name in zip(subjects, names, strict=True):
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        apart.append(dataclasses.replace(subject, name=unique))
    return apart
