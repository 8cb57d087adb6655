"""Models as artifacts: what studies train."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact, BuildContext
from multiway.classifier import EncodedClassifier
from multiway.encoding import Encoding
from multiway.identity import hash_tensors
from multiway.store import Store
from multiway.studies.cost import ATTACK, pass_seconds
from multiway.studies.images import Images
from multiway.training import Job, Recipe, Run, load_run, open_run, prepare, run_job

__all__ = ["Model", "Untrained"]


@dataclass(frozen=True)
class Model(Artifact):
    """A network trained by a recipe from its own seed; its folder `run` is a run directory.

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

    @property
    def name(self) -> str:
        """What it is called in the titles of what is measured on it."""
        length = f" l={self.code_length}" if self.code_length else ""
        adversary = f" {self.recipe.adversary.kind}" if self.recipe.adversary else ""
        network = f"{self.backbone} {self.encoding}{length}{adversary}"
        return f"{network} on {self.images.data}, seed {self.seed}"

    @property
    def image_count(self) -> int:
        """How many images it is trained on."""
        return len(self.images)

    @property
    def codes(self) -> dict[str, Any]:
        """What `Encoding.make` is asked for beside the encoding's name."""
        return {"code_length": self.code_length, "beta": self.beta, "code_seed": self.code_seed}

    @property
    def pass_seconds(self) -> float:
        """About how long one image takes to go forward."""
        return pass_seconds(self.backbone)

    def title(self) -> str:
        return f"train {self.name}"

    def seconds(self) -> float:
        # A training step is 3 passes (forward, backward); clean images beside others are as many.
        passes = 3.0
        adversary = self.recipe.adversary
        if adversary is not None:
            passes += 3 * (adversary.clean_weight > 0) + ATTACK * adversary.step_count
        images = self.recipe.total_steps(self.image_count) * self.recipe.batch_size
        return passes * images * self.pass_seconds

    def content(self) -> dict[str, Any]:
        """With the codewords themselves: the default length and norm may change."""
        fields = super().content()
        for name in self.codes:
            del fields[name]
        classes = len(self.images.load().classes)
        return {
            **fields,
            "codewords": _codewords(
                self.encoding, classes, *self.codes.values(), self.recipe.code_scale
            ),
        }

    def job(self, store: Store) -> Job:
        """Its training, ready to start."""
        data = self.images.load()
        return prepare(
            data, self.backbone, self.encoding, self.recipe, seed=self.seed, **self.codes
        )

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Train, from the last state if there is one."""
        job = self.job(context.store)
        run = open_run(context.folder / "run", job.config, resume=True)
        if not run.finished:
            run_job(job, run, device=context.device, observer=_Steps(context))
        last = run.metrics()[-1]
        return {"seconds": last["seconds"], "loss": last["loss"], "recipe": self.recipe.name}

    def collapsed(self, store: Store) -> bool:
        """Whether its training saw at its end that it has overfitted to its adversary."""
        if self.recipe.adversary is None:
            return False
        last = Run(store.read(self).folder / "run").metrics()[-1:]
        return any("watch" in line and line["watch"]["collapsed"] for line in last)

    def load(self, store: Store, device: str = "cpu") -> EncodedClassifier:
        """The classifier, in eval mode."""
        return _load_model(store.read(self).folder / "run", device)


@dataclass(frozen=True)
class Untrained(Model):
    """A network as it is before its training; the control of what training does."""

    @property
    def name(self) -> str:
        return f"untrained {super().name}"

    def title(self) -> str:
        return f"begin {self.name}"

    def seconds(self) -> float:
        return 0.1

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Its seed is all that there is of it."""
        return {"recipe": self.recipe.name}

    def load(self, store: Store, device: str = "cpu") -> EncodedClassifier:
        return self.job(store).model.to(device).eval()


class _Steps:
    """Passes a training's progress on."""

    def __init__(self, context: BuildContext) -> None:
        self._context = context

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        self._context.progress(step / total)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Kept by the run itself, in metrics.jsonl."""


@lru_cache(maxsize=256)
def _codewords(
    encoding: str, classes: int, length: int | None, beta: float | None, seed: int, scale: str
) -> dict[str, Any]:
    """The codewords by their bits, which are the same on every machine, and their scale."""
    code = Encoding.make(encoding, classes, length, beta, seed, scale)
    book = code.codebook
    return {
        "length": book.length,
        "sha256": hash_tensors(book.vectors),
        "scale": None if code.scale is None else asdict(code.scale),
    }


@lru_cache(maxsize=4)
def _load_model(folder: Path, device: str) -> EncodedClassifier:
    """The model of a run; the same one is often needed several times in a row."""
    model, _ = load_run(folder)
    return model.to(device)
