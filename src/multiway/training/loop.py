"""The training loop: one way to train every network on every encoding."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, flip, pad_crop, to_float
from multiway.errors import MultiwayError
from multiway.files import kind_of
from multiway.randomness import generator, isolated, seeded
from multiway.training.adversary import InnerAttack
from multiway.training.collectives import ASKED, WorkerLost, weigh_norms
from multiway.training.distributed import Team, check_shares
from multiway.training.layout import laid_out
from multiway.training.losses import outer_loss
from multiway.training.measure import Watch, accuracy, robust_accuracy, watched_images
from multiway.training.observers import Observer
from multiway.training.recipe import Recipe
from multiway.training.run import Run, config_digest
from multiway.training.state import TrainingState, load_state, save_state
from multiway.weights import load_tensors, read_tensors, save_weights

__all__ = ["Job", "run_job"]

# A loss this many times that of constant output has left the region where it could come back.
DIVERGED = 1000.0


@dataclass(frozen=True)
class Job:
    """A training that is ready to start."""

    model: EncodedClassifier
    train: ImageSet
    validation: ImageSet | None
    recipe: Recipe
    seed: int
    config: dict[str, Any]


def run_job(
    job: Job,
    run: Run,
    *,
    device: torch.device | str = "cpu",
    save_every: float = 60.0,
    observer: Observer | None = None,
    team: Team | None = None,
) -> EncodedClassifier:
    """Train the job's model in place, from the run's state if it has one.

    Every draw depends on the seed and the step alone. So a run that was killed at any moment and
    resumed ends in the very weights of a run that was left alone.

    Args:
        job: model, data and recipe, from `prepare`.
        run: where the state is saved, every `save_every` seconds and after each epoch, and where
            the weights of the last step are written. With a validation split, the weights that
            were best on it are written beside them.
        team: processes that share every batch; the batch size is that of all of them together.
            The first one writes and is observed.

    Raises:
        MultiwayError: the loss diverged, the disk is full, a worker is gone, or another process
            trains in the same directory; the last good state is kept.
    """
    team = team or Team()
    device = team.device if team.size > 1 else device
    alone = run.alone() if team.first else contextlib.nullcontext()
    with isolated(), alone, laid_out(job.model, device):
        _Training(job, run, device, observer, team).go(save_every)
    return job.model


class _Training:
    """One training under way."""

    def __init__(
        self, job: Job, run: Run, device: torch.device | str, observer: Observer | None, team: Team
    ) -> None:
        check_shares(team.size, job.recipe.batch_size)
        self.team = team
        self.model, self.recipe, self.seed = job.model.to(device), job.recipe, job.seed
        self.validation, self.run = job.validation, run
        self.device, self.observer = device, observer
        self.optimizer = _optimizer(self.model, self.recipe)
        self.total = self.recipe.total_steps(len(job.train))
        self.per_epoch = self.recipe.steps_per_epoch(len(job.train))
        # The whole set lies on the device as bytes; a batch at a time becomes float there.
        self.images, self.labels = job.train.images.to(device), job.train.labels.to(device)
        self.limit = DIVERGED * self.model.encoding.silence
        self.progress = TrainingState.first(config_digest(job.config))
        # The model's buffers at the beginning of a step in hand; empty between two steps.
        self.means_before: list[Tensor] = []
        self.adversary = self.recipe.adversary
        self.inner: InnerAttack | None = None
        if self.adversary is not None:
            self.inner = InnerAttack(self.model, self.adversary)
            self.watched = watched_images(job.train, self.seed, device)
        self.network = team.setup(self.model)

    def go(self, save_every: float) -> None:
        """Train to the last step."""
        try:
            self._go(save_every)
        except WorkerLost as error:
            # A step in hand was not taken, so what is here is whole but for its running means.
            for buffer, value in zip(self.model.buffers(), self.means_before, strict=False):
                buffer.copy_(value)
            self._save()
            # All are asked at once, and one that is quick breaks off what the others are at.
            why = ASKED if self.team.asked_to_end else error
            raise WorkerLost(
                f"{why} at step {self.progress.step + 1} of {self.total}; the state is kept in "
                f"{self.run.state}: go on with --resume"
            ) from error

    def _go(self, save_every: float) -> None:
        if kind_of(self.run.state) is not None:
            self.progress = load_state(
                self.run.state, self.model, self.optimizer, self.progress.fingerprint
            )
        # All have read the same state before it is written anew.
        self.team.agree(
            self.progress.step,
            f"the workers found different states of the training in {self.run.directory}; on "
            "several hosts it must be the same folder, on a disk that all of them see",
        )
        if self.team.first:
            self.run.forget_metrics_after(self.progress.step)
        self._save()
        self.model.train()
        progress = self.progress
        clock = saved = shown = time.monotonic()
        order = self._order(progress.step // self.per_epoch)
        while progress.step < self.total and not progress.ended:
            epoch, position = divmod(progress.step, self.per_epoch)
            if position == 0:
                order = self._order(epoch)
                progress.loss_sum, progress.correct, progress.seen = 0.0, 0, 0
            size = self.recipe.batch_size
            self._step(order[position * size : (position + 1) * size])
            now = time.monotonic()
            progress.seconds, clock = progress.seconds + now - clock, now
            if progress.step % self.per_epoch == 0 or progress.step == self.total:
                self._end_epoch()
                clock = time.monotonic()  # what is measured meanwhile is no training
            if progress.step % self.per_epoch == 0 or now - saved > save_every:
                self._save()
                saved = now
            due = now - shown > 0.2 or progress.step == self.total
            if self.observer is not None and self.team.first and due:
                self.observer.step(progress.step, self.total, *self._means())
                shown = now
        if not self.team.first:
            return
        if progress.ended and self.run.good.exists():
            load_tensors(self.model, read_tensors(self.run.good), self.run.good)
        save_weights(self.model, self.run.weights)
        self.run.state.unlink(missing_ok=True)
        self.run.good.unlink(missing_ok=True)

    def _order(self, epoch: int) -> Tensor:
        """The images of one epoch in their random order."""
        draw = generator(self.seed, "order", epoch)
        return torch.randperm(len(self.labels), generator=draw).to(self.device)

    def _step(self, chosen: Tensor) -> None:
        progress, team = self.progress, self.team
        # Dropout: every worker has a stream of its own, and the first the one of a run alone.
        seeded(self.seed, "step", progress.step, *([team.rank] if team.rank else []))
        images = self.images[chosen]
        if self.recipe.augment == "pad-crop-flip":
            draw = generator(self.seed, "augment", progress.step)
            images = flip(pad_crop(images, 4, draw), draw)
        # All draws are the whole batch's, so that sharing it changes nothing.
        start = self._noise(len(chosen))
        mine = team.shard(torch.arange(len(chosen), device=images.device))
        share = len(mine) / len(chosen)
        if team.size > 1:
            self.means_before = [buffer.clone() for buffer in self.model.buffers()]
            weigh_norms(self.model, float(share > 0))
        if not len(mine):
            mine = mine.new_zeros(1)  # an epoch's last batch may be too small for all: of no weight
        images, labels = images[mine], self.labels[chosen[mine]]
        start = None if start is None else start[mine.cpu()].to(images.device)
        allowed = self.adversary.share_at(progress.step, self.total) if self.adversary else 1.0
        with team.passes():
            loss, codes = outer_loss(
                self.network, self.inner, to_float(images), labels, start, allowed
            )
        right = int((self.model.encoding.decode(codes.detach()) == labels).sum())
        part = share * len(chosen)
        total, correct = team.sum(float(loss.detach()) * part, right if part else 0)
        value = total / len(chosen)
        if not value <= self.limit:  # written so that NaN fails too
            kept = "" if self.run.temporary else f" (its last good state is in {self.run.state})"
            raise MultiwayError(
                f"the loss is {value:.4g} at step {progress.step + 1} of {self.total}: training "
                f"diverged at lr {self._lr():.4g}{kept}; start anew with a lower lr"
            )
        self.optimizer.zero_grad()
        # The team averages gradients, whatever the size of each share.
        team.backward(loss if team.size == 1 else share * team.size * loss)
        for group in self.optimizer.param_groups:
            group["lr"] = self._lr()
        self.optimizer.step()
        self.means_before = []
        progress.step += 1
        progress.loss_sum += total
        progress.correct += int(correct)
        progress.seen += len(chosen)

    def _noise(self, n: int) -> Tensor | None:
        """Where the adversary starts in a batch of n images: uniform in [-1, 1], [n, C, H, W]."""
        if self.adversary is None or not self.adversary.noise:
            return None
        draw = generator(self.seed, "start", self.progress.step)
        return 2 * torch.rand((n, *self.images.shape[1:]), generator=draw) - 1

    def _lr(self) -> float:
        return self.recipe.lr * self.recipe.schedule.factor_at(self.progress.step, self.total)

    def _means(self) -> tuple[float, float]:
        """Loss and accuracy of the epoch so far."""
        return (
            self.progress.loss_sum / self.progress.seen,
            self.progress.correct / self.progress.seen,
        )

    def _end_epoch(self) -> None:
        if self.team.first:
            self._measure()
        self.progress.ended = bool(self.team.sum(float(self.progress.ended))[0])

    def _measure(self) -> None:
        """The epoch's line in metrics.jsonl."""
        loss, correct = self._means()
        metrics: dict[str, Any] = {
            "step": self.progress.step,
            "epoch": math.ceil(self.progress.step / self.per_epoch),
            "loss": loss,
            "accuracy": correct,
            "images": self.progress.seen,
            "lr": self._lr(),
            "seconds": round(self.progress.seconds, 3),
        }
        if self.inner is not None:
            self._watch(self.inner, metrics)
        if self.validation is not None:
            measured = accuracy(self.model, self.validation, self.device)
            metrics["validation"] = measured.as_dict()
            if self.adversary is not None:
                # The best weights are those that are most robust.
                images = to_float(self.validation.images, self.device)
                labels = self.validation.labels.to(self.device)
                eps = self.adversary.eps
                measured = robust_accuracy(self.model, images, labels, eps, self.seed)
                metrics["validation_robust"] = measured.as_dict()
            best = self.progress.best_accuracy
            if best is None or measured.value > best:
                self.progress.best_accuracy = measured.value
                save_weights(self.model, self.run.best)
        self.run.append_metrics(metrics)
        if self.observer is not None:
            self.observer.epoch(metrics)

    def _watch(self, inner: InnerAttack, metrics: dict[str, Any]) -> None:
        """Look out for catastrophic overfitting; end the training there if that was asked for."""
        # That of the epoch's last step.
        share = inner.adversary.share_at(self.progress.step - 1, self.total)
        if share == 0:
            return
        watch = Watch.look(
            self.model, inner, *self.watched, self.seed, share,
            batch_size=min(self.recipe.batch_size, len(self.labels)),
        )  # fmt: skip
        metrics["watch"] = watch.as_dict()
        if not inner.adversary.stop_on_collapse:
            return
        if watch.collapsed:
            self.progress.ended = True
        else:
            save_weights(self.model, self.run.good)

    def _save(self) -> None:
        if self.team.first:
            save_state(self.run.state, self.model, self.optimizer, self.progress)


def _optimizer(model: EncodedClassifier, recipe: Recipe) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise MultiwayError("the network has no weights that may be trained")
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.lr, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(
        parameters,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
    )
