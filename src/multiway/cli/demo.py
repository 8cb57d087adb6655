"""`multiway demo`: the main job on the embedded digits."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.cli.console import TrainingProgress, bar, print_json, print_table, say
from multiway.cli.options import Device, Json, Limit, Seed, choose_device

if TYPE_CHECKING:
    import torch

    from multiway.analysis import Diagnosis
    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet
    from multiway.report.demo import DemoFindings

__all__ = ["demo"]

EPS = 0.2  # the paper's, for clean networks on MNIST
RADII = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, float("inf"))
ENCODINGS = ("1ofk", "ro")
OBJECTIVES = ("own", "margin")
SHOWN = 3  # images whose gradients are drawn

# Images for what takes many passes.
FEW = 200
FEWER = 100
SEVERITIES = (1, 3, 5)


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for all it makes.")] = Path(
        "multiway-demo"
    ),
    backbone: Annotated[str, typer.Option("--backbone", help="The network of all.")] = "wong",
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Instead of the recipe's.", min=1)
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train two 1ofK and two RO networks on the embedded digits and find out what they differ in.

    Transfer of attacks, correlation and pictures of gradients, accuracy against eps and under
    corruptions, and a diagnosis, all in one page. What is trained already in --out is used again.
    """
    from multiway.data import load
    from multiway.files import write_json
    from multiway.report.demo import demo_page

    started = time.monotonic()
    place = choose_device(device)
    test = load("mnist5k", "test")
    test = test if limit is None else test.limit(limit)
    models: dict[str, EncodedClassifier] = {}
    for encoding in ENCODINGS:
        for number in range(2):
            name = f"{encoding}-{seed + number}"
            models[name] = _network(encoding, backbone, out / name, epochs, seed + number, place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what attacks warn of is part of the diagnosis
        found = _find(models, test, backbone, seed, place)
    result = found.as_dict()
    write_json(out / "demo.json", result)
    page = demo_page(out / "report.html", found)
    if json:
        print_json(result)
    else:
        _show(found, len(test), seed)
    say(f"page: {page}   figures: {out / 'demo.json'}   ({time.monotonic() - started:.0f} s)")


def _network(
    encoding: str,
    backbone: str,
    out: Path,
    epochs: int | None,
    seed: int,
    device: torch.device,
) -> EncodedClassifier:
    """The network of that encoding and seed, trained, or loaded if it is there already."""
    from multiway import training
    from multiway.data import load

    data = load("mnist5k", "train")
    recipe = training.default_recipe(data).override(epochs=epochs)
    job = training.prepare(data, backbone, encoding, recipe, seed=seed)
    run = training.open_run(out, job.config, resume=True)
    if not run.finished:
        progress = TrainingProgress(f"training {out.name}")
        with progress.shown():
            training.train(job, run, device=device, observer=progress)
    return training.load_run(run.directory)[0].to(device)


def _find(
    models: dict[str, EncodedClassifier],
    data: ImageSet,
    backbone: str,
    seed: int,
    device: torch.device,
) -> DemoFindings:
    """Everything that is measured."""
    from multiway import analysis
    from multiway.attacks import FGSM, PGD
    from multiway.data import to_float
    from multiway.data.corruptions import KINDS
    from multiway.report.demo import DemoFindings
    from multiway.threat import Linf
    from multiway.training.run import versions

    matrices = []
    for objective in OBJECTIVES:
        attack = FGSM(Linf(EPS), objective=objective)
        with bar(f"transfer, objective {objective}", 2 * len(data) * len(models)) as advance:
            matrices.append(
                analysis.transfer_matrix(
                    models, data, attack, seed=seed, device=device, progress=advance
                )
            )
    with bar("correlation of gradients", 2 * len(data) * len(models)) as advance:
        correlations = analysis.correlate(models, data, OBJECTIVES, device=device, progress=advance)
    few = data.limit(FEW)
    images, labels = to_float(few.images, device), few.labels.to(device)
    gradients = {
        objective: analysis.saliency(models, images[:SHOWN], labels[:SHOWN], objective)
        for objective in OBJECTIVES
    }
    pair = {name: models[name] for name in (f"{one}-{seed}" for one in ENCODINGS)}
    curves = []
    for objective in OBJECTIVES:
        pgd = PGD(Linf(EPS), steps=20, objective=objective)
        work = len(few) * len(RADII) * len(pair)
        with bar(f"PGD at rising eps, objective {objective}", work) as advance:
            curves += analysis.accuracy_against_eps(
                pair, images, labels, pgd, RADII, substitutes={}, seed=seed, progress=advance
            )
    with bar("corruptions", len(few) * len(KINDS) * len(SEVERITIES)) as advance:
        corruption = analysis.corruption_accuracy(
            models, few, severities=SEVERITIES, seed=seed, device=device, progress=advance
        )
    return DemoFindings(
        data=data.name,
        training=f"{seed}, {seed + 1}",
        encodings={name: model.encoding.name for name, model in models.items()},
        matrices=matrices,
        correlations=correlations,
        images=images[:SHOWN].cpu(),
        labels=[data.classes[int(label)] for label in labels[:SHOWN]],
        gradients=gradients,
        curves=curves,
        corruption=corruption,
        diagnoses=_diagnoses(pair, models, images, labels, seed),
        provenance={
            "data": f"{data.name}, {len(data)} test images",
            "network": backbone,
            "seeds of training": f"{seed} and {seed + 1}; both RO networks share one codebook",
            "seed of attacks": seed,
            "attacks": f"FGSM at L-inf {EPS} on all images; PGD-20 and corruptions on {len(few)}; "
            f"diagnosis on {min(FEWER, len(few))}",
            "command": f"multiway {' '.join(sys.argv[1:])}",
            **versions(),
        },
    )


def _diagnoses(
    pair: dict[str, EncodedClassifier],
    models: dict[str, EncodedClassifier],
    images: torch.Tensor,
    labels: torch.Tensor,
    seed: int,
) -> dict[str, Diagnosis]:
    """Is what is left under attack real? Asked of one network of each encoding."""
    from multiway import analysis
    from multiway.analysis.diagnosis import BUDGETS
    from multiway.threat import Linf

    found = {}
    for name, model in pair.items():
        others = {other: one for other, one in models.items() if other != name}
        say(f"diagnosis of {name}")
        found[name] = analysis.diagnose(
            model, images[:FEWER], labels[:FEWER], Linf(EPS),
            substitutes=others, budget=BUDGETS["quick"], seed=seed,
        )  # fmt: skip
    return found


def _show(found: DemoFindings, n: int, seed: int) -> None:
    from multiway.report.matrix import transfer_rows

    for matrix in found.matrices:
        print_table(
            f"Accuracy (%) under FGSM at L-inf eps {EPS} on the objective {matrix.objective}, "
            f"n={n}, attack seed {seed}, training seeds {found.training}; * white-box; in brackets "
            "95 % intervals; ρ: the correlation of the signs of the input gradients",
            *transfer_rows(matrix),
        )
    for name, diagnosis in found.diagnoses.items():
        sys.stdout.write(f"{name}: {diagnosis.verdict}\n")
