"""Six stops that tell the paper's claim and its flaw, in figures of the models at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from multiway.classifier import EncodedClassifier
from multiway.decisions import decisions
from multiway.errors import MultiwayError
from multiway.explore.compute import EpsLine, View, breaking, look, outputs_and_scores, remarked
from multiway.explore.settings import Settings, make_attack, objectives_of

__all__ = ["Stop", "make_tour"]

MANY = 200  # images behind the percentages


@dataclass(frozen=True)
class Stop:
    """A state of the page, and what can be seen in it.

    Attributes:
        title: a few words.
        text: sentences; every figure in them was computed.
        settings: what the page shows.
        focus: the part of the page that it is about: picture or eps.
    """

    title: str
    text: str
    settings: Settings
    focus: str


@dataclass(frozen=True)
class _Counts:
    """Who is right, [N] each: on clean images, and under FGSM crafted on one of the two."""

    plain: Tensor
    coded: Tensor
    plain_own: Tensor
    coded_own: Tensor
    coded_margin: Tensor
    plain_to_coded: Tensor
    coded_to_plain: Tensor

    @property
    def story(self) -> Tensor:
        """Where all of it can be seen: `own` breaks the one, not the other; `margin` does."""
        seen = self.plain & self.coded & ~self.plain_own & self.coded_own
        return seen & ~self.coded_margin

    def best(self) -> int:
        """The first image in which most of it can be seen."""
        both = (self.plain & self.coded).long()
        parts = (~self.plain_own).long() + self.coded_own.long() + (~self.coded_margin).long()
        # The first of the largest, whatever `argmax` does about ties.
        seen = both * (1 + parts + self.plain_to_coded.long())
        return int((seen == seen.max()).nonzero()[0, 0])


def make_tour(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    classes: Sequence[str],
    eps: float,
    largest: float,
) -> tuple[Stop, ...]:
    """The stops for a network trained by cross-entropy and one trained to codes.

    Args:
        images: float [N, C, H, W]; the first `MANY` are counted.
        labels: [N].
        classes: their names.
        eps: of all stops but the last.
        largest: up to which eps the last one goes.

    Raises:
        MultiwayError: one of the two is not there.
    """
    plain = next((name for name, one in models.items() if _loss(one) == "cross-entropy"), None)
    coded = next((name for name, one in models.items() if _loss(one) == "mse"), None)
    if plain is None or coded is None:
        raise MultiwayError(
            "the tour compares a network trained by cross-entropy (1ofk) with one trained to codes "
            f"(ro): start with a run of each; {'the first' if plain is None else 'the second'} is "
            "not there"
        )
    few = min(MANY, len(images))
    own = objectives_of(models[plain])[0]
    first = Settings(0, plain, coded, "fgsm", own, eps, 10)
    counts = _count(models, images[:few], labels[:few], first)
    first = replace(first, image=counts.best())
    image, label = images[first.image], int(labels[first.image])

    def seen(settings: Settings) -> View:
        return look(models, image, label, settings)

    settings = [
        replace(first, eps=0.0),
        first,
        replace(first, on=coded, other=plain, objective="own"),
        replace(first, on=coded, other=plain, objective="margin"),
        first,
        replace(first, on=coded, other=plain, objective="own", attack="pgd"),
    ]
    says = _Says(classes, few, counts, label)
    lines = breaking(models, image, label, settings[5], largest)
    texts = [
        says.clean(seen(settings[0])),
        says.plain_own(seen(settings[1])),
        says.coded_own(seen(settings[2])),
        says.coded_margin(seen(settings[3])),
        says.transfer(seen(settings[4])),
        says.breaks(lines, settings[5]),
    ]
    titles = [
        "The clean image",
        f"FGSM on {plain}",
        f"The same on {coded}",
        f"The margin of {coded}",
        "Transfer",
        "Where each breaks",
    ]
    parts = ["picture"] * 5 + ["eps"]
    return tuple(Stop(*stop) for stop in zip(titles, texts, settings, parts, strict=True))


def _loss(model: nn.Module) -> str:
    """The kind of its training loss; a network from elsewhere is attacked by cross-entropy."""
    return model.encoding.kind if isinstance(model, EncodedClassifier) else "cross-entropy"


def _count(
    models: Mapping[str, nn.Module], images: Tensor, labels: Tensor, settings: Settings
) -> _Counts:
    plain, coded = models[settings.on], models[settings.other]

    def right(model: nn.Module, given: Tensor) -> Tensor:
        return (decisions(outputs_and_scores(model, given)[1]) == labels).cpu()

    def crafted(model: nn.Module, objective: str) -> Tensor:
        with remarked():
            attack = make_attack(settings, objective=objective)
            return attack(model, images, labels).adversarial

    on_plain = crafted(plain, settings.objective)
    on_coded = {name: crafted(coded, name) for name in ("own", "margin")}
    return _Counts(
        plain=right(plain, images),
        coded=right(coded, images),
        plain_own=right(plain, on_plain),
        coded_own=right(coded, on_coded["own"]),
        coded_margin=right(coded, on_coded["margin"]),
        plain_to_coded=right(coded, on_plain),
        coded_to_plain=right(plain, on_coded["margin"]),
    )


@dataclass(frozen=True)
class _Says:
    """The sentences of the stops."""

    classes: Sequence[str]
    few: int
    counts: _Counts
    label: int

    def clean(self, view: View) -> str:
        count = int(self.counts.story.sum())
        first = f"Of the first {self.few} test images, the whole story can be seen in {count}"
        one, two = view.models
        return (
            f"Test image {view.settings.image} is of class {self._name(self.label)}. "
            f"{one.name} says {self._name(one.decision[0])} with a margin of {one.margin[0]:.1f}, "
            f"{two.name} {self._name(two.decision[0])} with {two.margin[0]:.1f}. The margin is the "
            "lead of the true class over the best wrong one; the decision changes where it is 0. "
            f"{first}{': this is one of them' if count else '; this one shows most of it'}."
        )

    def plain_own(self, view: View) -> str:
        return (
            f"One step of {view.settings.eps:g} in every pixel, along the sign of the gradient of "
            f"the cross-entropy: {self._moved(view)} "
            f"{self._share(view.models[0].name, self.counts.plain_own, self.counts.plain)}"
        )

    def coded_own(self, view: View) -> str:
        ours, theirs = self._percent(self.counts.coded_own), self._percent(self.counts.plain_own)
        claim = (
            f"That is more than the {theirs} of {view.models[1].name}: the paper's claim."
            if self.counts.coded_own.sum() > self.counts.plain_own.sum()
            else f"That is no more than the {theirs} of {view.models[1].name}: on these images the "
            "paper's claim does not show."
        )
        return (
            "The same step along the gradient of its own training loss, the distance to the "
            f"codeword: {self._moved(view)} Of the first {self.few} images {view.models[0].name} "
            f"is right on {ours}. {claim}"
        )

    def coded_margin(self, view: View) -> str:
        before, after = int(self.counts.coded_own.sum()), int(self.counts.coded_margin.sum())
        verdict = (
            "So `own` misled the attacker: its gradient follows what is left of the distance to "
            "the codeword, not the decision."
            if after < before
            else "So here `own` did not mislead the attacker."
        )
        return (
            "The same image, the same eps, again one step, but up the margin of the paper's own "
            f"Eq. 5: {self._moved(view)} Of the first {self.few} images it is right on "
            f"{self._percent(self.counts.coded_margin)}, and was on "
            f"{self._percent(self.counts.coded_own)} at the stop before. {verdict}"
        )

    def transfer(self, view: View) -> str:
        one, two = view.models
        kept = two.decision[1] == self.label
        agree = "" if view.agreement is None else f"{100 * view.agreement:.0f} %"
        return (
            f"The image that was crafted on {one.name}, shown to {two.name}: it "
            f"{'still says' if kept else 'says'} {self._name(two.decision[1])}. The signs of the "
            f"two gradients agree at {agree} of the pixels; 50 % is chance. Of the first "
            f"{self.few} images {two.name} is right on {self._percent(self.counts.plain_to_coded)} "
            f"of those crafted on {one.name}, and {one.name} on "
            f"{self._percent(self.counts.coded_to_plain)} of those crafted on the margin of "
            f"{two.name}. Transfer alone is weak evidence for a defence."
        )

    def breaks(self, lines: Sequence[EpsLine], settings: Settings) -> str:
        largest = float(lines[0].eps[-1])
        own = {line.model: line for line in lines if line.model == line.crafted_on}
        weakest: dict[str, float | None] = {}
        parts = []
        for name in own:
            each = [line for line in lines if line.model == line.crafted_on == name]
            words = ", ".join(
                f"on {line.objective} "
                + (f"at {line.breaks_at:.3g}" if line.breaks_at else f"at none up to {largest:g}")
                for line in each
            )
            parts.append(f"{name} breaks {words}")
            found = [line.breaks_at for line in each if line.breaks_at is not None]
            weakest[name] = min(found) if found else None
        known = {name: at for name, at in weakest.items() if at is not None}
        if len(known) == 2 and len(set(known.values())) == 2:
            first = min(known, key=lambda name: known[name])
            verdict = f"Under the stronger of the two objectives {first} breaks first."
        elif len(known) == 2:
            verdict = "Under the stronger of the two objectives both break at the same eps."
        else:
            verdict = f"{next(iter(known))} alone breaks." if known else "Neither breaks."
        return (
            f"{settings.attack.upper()}-{settings.steps} on this image at {len(lines[0].eps) - 1} "
            f"values of eps: {'; '.join(parts)}. {verdict} One image proves nothing: `multiway "
            "evaluate` and `multiway diagnose` measure it on all."
        )

    def _moved(self, view: View) -> str:
        one = view.models[0]
        before, after = one.margin
        held = one.decision[1] == one.decision[0]
        verb = "still says" if held else "now says"
        return (
            f"{one.name} {verb} {self._name(one.decision[1])}, and its margin goes from "
            f"{before:.1f} to {after:.1f}."
        )

    def _share(self, name: str, right: Tensor, clean: Tensor) -> str:
        return (
            f"Of the first {self.few} images {name} is right on {self._percent(right)} under this "
            f"attack, on {self._percent(clean)} without one."
        )

    def _name(self, label: int) -> str:
        return self.classes[label] if 0 <= label < len(self.classes) else "nothing"

    @staticmethod
    def _percent(right: Tensor) -> str:
        return f"{100 * float(right.float().mean()):.0f} %"
