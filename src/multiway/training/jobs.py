"""From names and numbers to a model, its data and its run directory."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from multiway.backbones import build_backbone
from multiway.classifier import EncodedClassifier, encode_model, load_classifier
from multiway.data import ImageSet, check_confirmed, image_set, load, stratified_split
from multiway.encoding import Encoding
from multiway.errors import MultiwayError, MultiwayWarning
from multiway.files import kind_of
from multiway.heads import copy_start, find_head, get_head
from multiway.machine import check_memory
from multiway.randomness import isolated, seeded
from multiway.results import versions
from multiway.training.adversary import check_objective
from multiway.training.loop import Job, run_job
from multiway.training.observers import Lines, Observer
from multiway.training.recipe import Recipe, load_recipe
from multiway.training.run import Run, open_run
from multiway.weights import load_tensors, read_tensors

__all__ = [
    "Job",
    "check_class_names",
    "check_weights",
    "default_backbone",
    "default_recipe",
    "first_weights",
    "load_run",
    "load_trained_on",
    "make_job",
    "prepare",
    "train",
    "trained_size",
]


def prepare(
    data: ImageSet,
    backbone: str,
    encoding: str,
    recipe: Recipe,
    *,
    seed: int = 0,
    code_length: int | None = None,
    beta: float | None = None,
    code_seed: int = 0,
    validation: float = 0.0,
) -> Job:
    """Build the network and say everything that its training depends on.

    Args:
        data: the training images.
        backbone: a name, or `package.module:function`.
        encoding: a name, see `Encoding`.
        seed: of weights, order, dropout and augmentation. The codes have a seed of their own.
        validation: share of the training images held out, stratified, and never trained on.
    """
    classes = len(data.classes)
    code = Encoding.make(encoding, classes, code_length, beta, code_seed, recipe.code_scale)
    size, outputs = _square_size(data), code.codebook.length
    architecture = {"name": backbone, "outputs": outputs, "channels": data.channels, "size": size}
    network = first_weights(architecture, code, seed, "weights")
    model = EncodedClassifier(network, code, architecture=architecture)
    return make_job(model, data, recipe, seed=seed, code_seed=code_seed, validation=validation)


def first_weights(
    architecture: dict[str, Any], encoding: Encoding, seed: int, purpose: str
) -> nn.Module:
    """The backbone of `architecture` as it starts; at the matched scale, as its one-hot twin does.

    The twin is drawn from the same seed, so networks of one seed differ in their labels alone.
    """
    with isolated():
        seeded(seed, purpose)
        network = build_backbone(**architecture)
        if encoding.scale is not None and encoding.scale.start is not None:
            seeded(seed, purpose)
            twin = build_backbone(**{**architecture, "outputs": encoding.codebook.classes})
            copy_start(network, twin, encoding)
    return network


def make_job(
    model: EncodedClassifier,
    data: ImageSet,
    recipe: Recipe,
    *,
    seed: int = 0,
    code_seed: int | None = None,
    validation: float = 0.0,
) -> Job:
    """The training of a model that is there already, with all that it depends on.

    Args:
        code_seed: of the codebook, for the reader; None where it is not known.
        validation: share of the training images held out, stratified, and never trained on.
    """
    if model.classes != len(data.classes):
        raise MultiwayError(
            f"the model tells {model.classes} classes apart, and {data.name} has "
            f"{len(data.classes)}: encode the network for as many"
        )
    if not len(data):
        raise MultiwayError(f"{data.name} has no images to train on")
    check_weights(model, "the network")
    size = min(recipe.batch_size, len(data))
    check_memory(
        4 * size * data.images[:1].numel(), f"a batch of {size} images", "lower --batch-size"
    )
    if recipe.adversary is not None:
        check_objective(model, recipe.adversary)
    if not 0 <= validation < 1:
        raise MultiwayError(
            f"--validation is a share of the images from 0 to below 1, not {validation}"
        )
    train, held_out = data, None
    if validation:
        rest, chosen = stratified_split(data.labels, validation, seed)
        left = len(set(data.labels[rest].tolist()))
        if not len(chosen) or left < len(set(data.labels.tolist())):
            raise MultiwayError(
                f"--validation {validation:g} of {len(data)} images holds out {len(chosen)} and "
                f"trains on {len(rest)}, of {left} of {len(data.classes)} classes; hold out at "
                "least one image, and leave some of every class"
            )
        train, held_out = data.take(rest), data.take(chosen)
    config = {
        "classifier": model.describe(),
        "data": {
            "name": data.name,
            "sha256": data.sha256,
            "images": len(data),
            "classes": list(data.classes),
        },
        "recipe": recipe.model_dump(mode="json"),
        "seed": seed,
        "code_seed": code_seed,
        "validation": validation,
        "versions": versions(),
    }
    return Job(model, train, held_out, recipe, seed, config)


def check_weights(model: nn.Module, name: str) -> None:
    """Refuse a network with weights that are not finite: nothing could be trained from them."""
    for path, tensor in model.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise MultiwayError(
                f"{name} holds NaN or infinity in {path} before any training; its file is damaged, "
                "or its own training diverged"
            )


def train(
    model: nn.Module,
    data: Any,
    recipe: Recipe | str,
    out: Path | str | None = None,
    *,
    encoding: Encoding | str = "ro",
    seed: int = 0,
    validation: float = 0.0,
    device: torch.device | str = "cpu",
    observer: Observer | None = None,
) -> EncodedClassifier:
    """Train a network on `data` by a recipe; with `out` the run is kept in that folder.

    A run that was killed goes on from its last state when it is called again with the same
    arguments, and ends in the very weights of one that was left alone.

    Args:
        model: an EncodedClassifier, trained in place; or any network with a head of K outputs,
            of which a copy is encoded at the recipe's scale (`encode_model`), trained and returned.
        data: an ImageSet, a pair of arrays (images, labels), or a DataLoader; see `image_set`.
        recipe: a `Recipe`, or the name or YAML file of one (`multiway.training.recipe_names()`).
        out: where weights, metrics and state are kept; a new folder, or that of this training.
        encoding: of a network that has none yet.
        seed: of order, dropout and augmentation.
        validation: share of the images held out; the best weights on it are kept too.
        observer: called after each step and epoch; without one a line an epoch goes to stderr.

    Example:
        >>> import tempfile
        >>> import multiway as mw
        >>> from torch import nn
        >>> images = torch.randint(0, 256, (32, 1, 8, 8), dtype=torch.uint8)
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
        >>> recipe = mw.training.Recipe(name="mine", lr=0.01, batch_size=16, epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trained = mw.train(network, (images, torch.arange(32) % 2), recipe, folder)
        ...     again, config = mw.load_run(folder, network)
        >>> torch.equal(trained(images / 255), again(images / 255)), config["seed"]
        (True, 0)
    """
    plan = load_recipe(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(model, EncodedClassifier):
        if isinstance(encoding, str):
            classes = get_head(model, find_head(model)).out_features
            encoding = Encoding.make(encoding, classes, scale=plan.code_scale)
        with isolated():
            seeded(seed, "head")  # where one is drawn
            model = encode_model(model, encoding)
    images = image_set(data, model.classes)
    job = make_job(model, images, plan, seed=seed, validation=validation)
    observer = observer or Lines()
    with tempfile.TemporaryDirectory() as temporary:
        run = open_run(Path(temporary if out is None else out), job.config, resume=True)
        run = replace(run, temporary=out is None)
        if run.finished:
            load_tensors(model, read_tensors(run.weights), run.weights)
            return model
        return run_job(job, run, device=device, observer=observer)


def default_backbone(data: ImageSet) -> str:
    """The network for those who name none: the one that the default recipe is for."""
    return "a" if data.channels == 1 else "resnet-8"


def default_recipe(data: ImageSet) -> Recipe:
    """The recipe for those who name none."""
    if data.name == "mnist5k":
        return load_recipe("digits")
    return load_recipe("paper-mnist" if data.channels == 1 else "cifar-cpu")


def load_run(
    directory: Path | str, backbone: nn.Module | str | None = None, *, best: bool = False
) -> tuple[EncodedClassifier, dict[str, Any]]:
    """The trained model of a run, in eval mode, and its configuration.

    Args:
        backbone: a network of the user's own, or `package.module:function` that builds it and is
            trusted with that; not needed for the backbones of multiway.
        best: the weights of the best validation accuracy instead of the last.

    Example:
        >>> load_run("nowhere")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: there is no run nowhere; make one with multiway train --out
    """
    directory = Path(directory)
    run = Run(directory)
    if kind_of(directory) != "folder":
        raise MultiwayError(f"there is no run {directory}; make one with multiway train --out")
    config = run.config()
    if not run.finished:
        raise MultiwayError(
            f"{directory} is not finished; go on with the same multiway train command and --resume"
        )
    if best and kind_of(run.best) is None:
        raise MultiwayError(
            f"{directory} has no best weights; train with --validation to keep them"
        )
    return load_classifier(directory, backbone, weights=run.best.name if best else None), config


def load_trained_on(
    config: dict[str, Any], split: str, data_dir: Path | str | None, data: str | None = None
) -> ImageSet:
    """The data a run was trained on, in `split`.

    Args:
        data: its name, given by the user; needed where the configuration names a path, which is
            never followed on its word alone.
    """
    if data is None:
        data = str(config["data"]["name"])
        check_confirmed(data, "the run's configuration")
    size = trained_size(config) if data.startswith("folder:") else None
    images = load(data, split, data_dir, size)
    check_class_names(config, images)
    return images


def trained_size(config: dict[str, Any]) -> int | None:
    """The side of the images that a run was trained on; None where the network was the user's."""
    size = (config["classifier"]["backbone"] or {}).get("size")
    return None if size is None else int(size)


def check_class_names(config: dict[str, Any], data: ImageSet, name: str = "the run") -> None:
    """Refuse images of other classes than those a run was trained on, by the names of both.

    Numbers are no names: where one side has nothing else, a warning says so.

    Args:
        config: of the run.
        name: of the run, for the message.
    """
    trained, given = tuple(config["data"].get("classes") or ()), data.classes
    if not trained or trained == given:
        return
    # From the first that differs, where there are many.
    pairs = enumerate(itertools.zip_longest(trained, given))
    start = next(number for number, (one, other) in pairs if one != other) // 10 * 10
    one, other = (", ".join(some[start : start + 10]) or "none" for some in (trained, given))
    both = f"{name} was trained on the classes {one} (from {start}); {data.name} has {other}"
    numbers = {tuple(str(number) for number in range(len(some))) for some in (trained, given)}
    if len(trained) == len(given) and not numbers.isdisjoint((trained, given)):
        warnings.warn(
            MultiwayWarning(f"{both}: make sure that they are the same, in this order"),
            stacklevel=2,
        )
        return
    raise MultiwayError(f"{both}: take images of the same classes, in the same order")


def _square_size(data: ImageSet) -> int:
    """The side of the images, which must be square."""
    height, width = data.size
    if height != width:
        advice = "give --image-size" if data.name.startswith("folder:") else "crop or pad them"
        raise MultiwayError(
            f"{data.name} has images of {height}x{width}; backbones take square ones: {advice}"
        )
    return height
