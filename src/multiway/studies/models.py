"""Models as artifacts: what studies train."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact, BuildContext
from multiway.classifier import EncodedClassifier
from multiway.store import Store
from multiway.studies.cost import pass_seconds
from multiway.studies.images import Images
from multiway.training import Job, Recipe, load_run, open_run, prepare, run_job

__all__ = ["Model", "Trained", "train_in"]


class Model(Artifact):
    """An artifact that is a classifier: its folder `run` is a run directory."""

    @property
    @abstractmethod
    def network(self) -> str:
        """The name of its backbone, for estimates of time."""

    def load(self, store: Store, device: str = "cpu") -> EncodedClassifier:
        """The classifier, in eval mode."""
        return _load_model(store.read(self).folder / "run", device)


@dataclass(frozen=True)
class Trained(Model):
    """A network trained by a recipe from its own seed.

    Attributes:
        images: what it is trained on.
        backbone: a name of the registry.
        encoding: see `Encoding`.
        recipe: with everything that differs from the named one in it.
        seed: of weights, order, dropout and augmentation.
        code_length: None for the encoding's own.
        beta: None for sqrt(500 * length).
        code_seed: of the codebook. The paper's substitutes share the target's codebook.
    """

    images: Images
    backbone: str
    encoding: str
    recipe: Recipe
    seed: int = 0
    code_length: int | None = None
    beta: float | None = None
    code_seed: int = 0

    kind = "model"

    @property
    def network(self) -> str:
        """See `Model`."""
        return self.backbone

    def title(self) -> str:
        """Network, encoding, data and seed."""
        length = f" l={self.code_length}" if self.code_length else ""
        how = f" {self.recipe.adversary.kind}" if self.recipe.adversary else ""
        return f"train {self.backbone} {self.encoding}{length}{how} on {self.images.data}, seed {self.seed}"

    def seconds(self) -> float:
        """A training step is 3 passes (forward, backward), a step of its adversary too."""
        images = self.recipe.total_steps(len(self.images)) * self.recipe.batch_size
        adversary = self.recipe.adversary
        passes = 3.0 if adversary is None else 3.0 * (1 + (adversary.clean_weight > 0))
        passes += 0 if adversary is None else 3.0 * adversary.step_count
        return images * passes * pass_seconds(self.backbone)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Train, from the last state if there is one."""
        data = self.images.load()
        job = prepare(
            data, self.backbone, self.encoding, self.recipe,
            seed=self.seed, code_length=self.code_length, beta=self.beta, code_seed=self.code_seed,
        )  # fmt: skip
        return {**train_in(context, job), "recipe": self.recipe.name}


def train_in(context: BuildContext, job: Job) -> dict[str, Any]:
    """Train in the folder `run`, from the last state if there is one; what the record tells."""
    run = open_run(context.folder / "run", job.config, resume=True)
    if not run.finished:
        run_job(job, run, device=context.device, observer=_Teller(context))
    last = run.metrics()[-1]
    return {"seconds": last["seconds"], "loss": last["loss"]}


class _Teller:
    """Passes a training's progress on."""

    def __init__(self, context: BuildContext) -> None:
        self._context = context

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        self._context.progress(step / total)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Nothing: metrics.jsonl has it."""


@lru_cache(maxsize=4)
def _load_model(folder: Path, device: str) -> EncodedClassifier:
    """The model of a run; the same one is often wanted several times in a row."""
    model, _ = load_run(folder)
    return model.to(device)
