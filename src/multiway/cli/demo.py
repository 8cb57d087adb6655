"""`multiway demo`: the main job on the embedded digits."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli.console import command_line, print_json, print_text, say
from multiway.cli.examine import collected_warnings, print_result
from multiway.cli.options import BACKBONES, Choice, Count, Device, Json, Limit, Seed
from multiway.cli.progress import bar
from multiway.cli.train import fit

if TYPE_CHECKING:
    import torch

    from multiway.analysis import Diagnosis
    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet
    from multiway.report import DemoFindings
    from multiway.results import Result

__all__ = ["demo"]

EPS = 0.2  # the paper's, for clean networks on MNIST
RADII = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, float("inf"))
# Each with a seed of its own. Networks of one seed begin with the same weights, and RO and padded
# even learn the same up to a rotation: what is crafted on one would be no black-box attack on it.
NETWORKS = ("1ofk", "1ofk", "ro", "ro", "padded")
COMPARED = (0, 2)  # the places of those that are looked at more closely
STEPS, RESTARTS = 100, 3  # of the attack by which all networks are judged
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
    backbone: Annotated[
        str, Choice("--backbone", of=BACKBONES, help="The network of all.")
    ] = "wong",
    epochs: Annotated[int | None, Count("--epochs", help="Instead of the recipe's.", min=1)] = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train 1ofK, RO and padded networks on the embedded digits and find out what they differ in.

    Accuracy in the worst case of many attacks, transfer, correlation and pictures of gradients,
    accuracy against eps and under corruptions, and a diagnosis, all in one page. What is trained
    already in --out is used again.
    """
    started = time.monotonic()
    where = mw.machine.choose_device(device)
    mw.files.check_writable(out)
    test = mw.data.load("mnist5k", "test")
    test = test if limit is None else test.limit(limit)
    models: dict[str, EncodedClassifier] = {}
    seeds: dict[str, int] = {}
    for number, encoding in enumerate(NETWORKS, start=seed):
        name = f"{encoding}-{number}"
        models[name] = _network(encoding, backbone, out / name, epochs, number, where)
        seeds[name] = number
    with collected_warnings():
        findings = _measure(models, seeds, test, backbone, seed, where)
    document = findings.as_dict()
    mw.files.write_json(out / "demo.json", document)
    page = mw.report.demo_page(out / "report.html", findings)
    if json:
        print_json(document)
    else:
        print_result(findings.worst)
        print_result(findings.transfer)
        for name, diagnosis in findings.diagnoses.items():
            print_text(f"{name}: {diagnosis.verdict}")
    say(f"page: {page}   figures: {out / 'demo.json'}   ({time.monotonic() - started:.0f} s)")
    pair = shlex.join(str(out / list(models)[place]) for place in COMPARED)
    say(f"play with what was trained: {_program()} explore {pair}")


def _program() -> str:
    """How a shell finds this program: by its path, unless its name alone leads here."""
    called = Path(sys.argv[0])
    found = shutil.which("multiway")
    by_name = found is not None and Path(found).resolve() == called.resolve()
    return "multiway" if by_name or called.name != "multiway" else shlex.quote(str(called))


def _network(
    encoding: str, backbone: str, out: Path, epochs: int | None, seed: int, device: torch.device
) -> EncodedClassifier:
    """The network of that encoding and seed, trained, or loaded if it is there already."""
    data = mw.data.load("mnist5k", "train")
    recipe = mw.training.default_recipe(data).override(epochs=epochs)
    job = mw.training.prepare(data, backbone, encoding, recipe, seed=seed)
    run = fit(job, out, f"training {out.name}", True, 60.0, device)
    return mw.load_run(run.directory)[0].to(device)


def _measure(
    models: dict[str, EncodedClassifier],
    seeds: dict[str, int],
    data: ImageSet,
    backbone: str,
    seed: int,
    device: torch.device,
) -> DemoFindings:
    """Everything that is measured."""

    def trained(result: Result) -> Result:
        """The result with the seeds of the trainings behind each figure."""
        cells = tuple(replace(cell, seeds=(seeds[cell.row],)) for cell in result.cells)
        known = tuple(sorted(set(seeds.values())))
        made = replace(result.provenance, seeds=known)
        return replace(result, cells=cells, provenance=made)

    attacks = [mw.FGSM(mw.Linf(EPS), objective=objective) for objective in OBJECTIVES]
    few = data.limit(FEW)
    images, labels = mw.data.to_float(few.images, device), few.labels.to(device)
    worst = _worst(models, few, images, labels, seed)
    with bar("transfer of FGSM", 2 * len(data) * len(models) * len(attacks)) as advance:
        transfer = mw.transfer(models, data, attacks, seed=seed, device=device, progress=advance)
    with bar("correlation of gradients", 2 * len(data) * len(models)) as advance:
        correlation = mw.correlate(models, data, OBJECTIVES, device=device, progress=advance)
    gradients = {
        objective: mw.analysis.saliency(models, images[:SHOWN], labels[:SHOWN], objective)
        for objective in OBJECTIVES
    }
    pair = {name: models[name] for name in (list(models)[place] for place in COMPARED)}
    pgd = [mw.PGD(mw.Linf(EPS), steps=20, objective=objective) for objective in OBJECTIVES]
    with bar("PGD at rising eps", len(few) * len(RADII) * len(pair) * len(pgd)) as advance:
        curves = mw.analysis.accuracy_against_eps(
            pair, few, pgd, RADII, substitutes={}, seed=seed, progress=advance
        )
    kinds = mw.data.corruptions.KINDS
    with bar("corruptions", len(few) * len(kinds) * len(SEVERITIES)) as advance:
        corruption = mw.analysis.corruption_accuracy(
            models, few, severities=SEVERITIES, seed=seed, device=device, progress=advance
        )
    return mw.report.DemoFindings(
        worst=trained(worst),
        transfer=trained(transfer),
        correlation=trained(correlation),
        curves=trained(curves),
        corruption=trained(corruption),
        encodings={name: model.encoding.name for name, model in models.items()},
        images=images[:SHOWN].cpu(),
        labels=[data.class_name(int(label)) for label in labels[:SHOWN]],
        gradients=gradients,
        diagnoses=_diagnoses(pair, models, images, labels, seed),
        provenance={
            "data": f"{data.name}, {len(data)} test images",
            "network": backbone,
            "seeds of training": f"{seed} to {seed + len(models) - 1}, one a network; both RO "
            "networks share one codebook",
            "seed of attacks": seed,
            "attacks": f"FGSM at L-inf {EPS} on all images; PGD-{STEPS} x {RESTARTS}, PGD-20 and "
            f"corruptions on {len(few)}; diagnosis on {min(FEWER, len(few))}",
            "command": command_line(),
            **mw.results.versions(),
        },
    )


def _worst(
    models: dict[str, EncodedClassifier],
    data: ImageSet,
    images: torch.Tensor,
    labels: torch.Tensor,
    seed: int,
) -> Result:
    """What one step and many leave of each network, and all of them together, image by image."""
    threat = mw.Linf(EPS)
    steps = [mw.FGSM(threat, objective=objective) for objective in OBJECTIVES]
    many = [
        mw.PGD(threat, steps=STEPS, restarts=RESTARTS, objective=objective)
        for objective in reversed(OBJECTIVES)  # the stronger one first: the other has less to do
    ]
    words = f"FGSM and PGD-{STEPS} x {RESTARTS}, Linf {EPS:g}, on {' and '.join(OBJECTIVES)}"
    cells = []
    with bar("the worst case of PGD", len(models)) as advance:
        for name, model in models.items():
            single = [mw.evaluate(model, images, labels, [each], seed=seed) for each in steps]
            last = mw.evaluate(model, images, labels, [*steps, *many], seed=seed)
            cells.append(mw.results.Cell.of(name, "clean", last.clean, "accuracy"))
            for attack, each in zip(steps, single, strict=True):
                cells.append(
                    mw.results.Cell.of(
                        name, f"FGSM, {attack.objective}", each.robust, "accuracy",
                        attack=each.rows[0].words, white_box=True,
                    )
                )  # fmt: skip
            cells.append(
                mw.results.Cell.of(
                    name, "worst case", last.robust, "accuracy", attack=words, white_box=True
                )
            )
            advance(1)
    return mw.results.Result(
        name="worst",
        title="What is left of each network",
        chart="dots",
        column_name="attacker",
        cells=tuple(cells),
        provenance=mw.results.Provenance.now(data.name, models, len(data), seed),
    )


def _diagnoses(
    pair: dict[str, EncodedClassifier],
    models: dict[str, EncodedClassifier],
    images: torch.Tensor,
    labels: torch.Tensor,
    seed: int,
) -> dict[str, Diagnosis]:
    """Is what is left under attack real? Asked of one network of each encoding."""
    diagnoses = {}
    for name, model in pair.items():
        others = {other: each for other, each in models.items() if other != name}
        say(f"diagnosis of {name}")
        diagnoses[name] = mw.diagnose(
            model, images[:FEWER], labels[:FEWER], mw.Linf(EPS),
            substitutes=others, budget=mw.analysis.BUDGETS["quick"], seed=seed,
        )  # fmt: skip
    return diagnoses
