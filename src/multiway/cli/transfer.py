"""`multiway transfer`: every model attacks every model."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from multiway.cli.attack_options import (
    Eps,
    Kappa,
    Norm,
    Queries,
    Restarts,
    Steps,
    StepSize,
    check_options,
    choose_threat,
)
from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Out,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import training_seeds

__all__ = ["transfer"]


def transfer(
    runs: Runs = None,
    attack: Annotated[str, typer.Option("--attack", help="Any attack of multiway evaluate.")] = (
        "fgsm"
    ),
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective", help="own, ce, margin or dlr; a matrix each. [default: own and margin]"
        ),
    ] = None,
    eps: Eps = None,
    norm: Norm = None,
    steps: Steps = None,
    step_size: StepSize = None,
    restarts: Restarts = None,
    kappa: Kappa = None,
    queries: Queries = None,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: Out = None,
    limit: Limit = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Craft adversarial images on each model and show them to all.

    Each cell has the accuracy with its 95 % interval and the correlation of the input gradients.
    With --out, finished batches are kept there: after a kill the same command goes on.
    """
    from multiway.analysis import default_objectives, transfer_matrix
    from multiway.attacks import AttackWarning, build_attack, has_objective
    from multiway.cli.models import load_subjects
    from multiway.files import check_writable
    from multiway.report.matrix import draw_matrices, transfer_rows
    from multiway.report.style import save_both
    from multiway.training.run import write_report

    if out is not None:
        check_writable(out)  # what cannot be written is told before the work
    place = choose_device(device)
    options = {
        "steps": steps, "step_size": step_size, "restarts": restarts, "kappa": kappa,
        "queries": queries,
    }  # fmt: skip
    check_options([attack], {**options, "eps": eps, "norm": norm})
    subjects, images = load_subjects(
        runs or [], network or [], weights or [], data=data, data_dir=data_dir, limit=limit,
        image_size=image_size, backbone=backbone, best=best, device=place,
    )  # fmt: skip
    models = {subject.name: subject.model for subject in subjects}
    threat = choose_threat([attack], images.name, norm, eps)
    wanted: list[str | None] = [*(objective or default_objectives(models))]
    if not has_objective(attack) and objective is None:
        wanted = [None]  # it does not ascend anything
    matrices = []
    for name in wanted:
        chosen = build_attack(attack, threat, objective=name, **options)
        with (
            warnings.catch_warnings(record=True) as caught,
            bar(f"{attack} {name or ''}", 2 * len(images) * len(models)) as advance,
        ):
            warnings.simplefilter("always", AttackWarning)
            matrices.append(
                transfer_matrix(
                    models, images, chosen,
                    encodings={subject.name: subject.encoding for subject in subjects},
                    seed=seed, device=place, progress=advance,
                    directory=None if out is None else out / "batches",
                )
            )  # fmt: skip
        for text in dict.fromkeys(str(one.message) for one in caught):
            say(f"warning: {text}")
    result = {
        "data": images.name,
        "models": [subject.as_dict() for subject in subjects],
        "matrices": [matrix.as_dict() for matrix in matrices],
    }
    title = (
        f"Accuracy (%) on {images.name}, {threat}, n={len(images)}, attack seed {seed}, "
        f"training seeds {training_seeds(subjects)}"
    )
    if out is not None:
        write_report(out / "transfer.json", result)
        files = save_both(draw_matrices(matrices, title), out / "transfer")
        say(f"written: {out / 'transfer.json'}, {', '.join(str(file) for file in files)}")
    if json:
        print_json(result)
        return
    for matrix in matrices:
        head = (
            f"{matrix.name}: {title}; in brackets 95 % intervals; * white-box, otherwise with ρ, "
            f"the correlation of the signs of the input gradients (objective {matrix.objective})"
        )
        print_table(head, *transfer_rows(matrix))
    say("A transfer table is weak evidence for a defence: attack it white-box as well.")
