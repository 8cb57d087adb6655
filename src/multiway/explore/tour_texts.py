"""The sentences of the tour: each says what its figures show, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr
from torch import Tensor

from multiway.explore.compute import EpsLine, View
from multiway.explore.settings import Settings
from multiway.explore.words import margin_words
from multiway.statistics import proportion

__all__ = ["TourCounts", "TourTexts", "sign_test"]


def sign_test(first: Tensor, second: Tensor) -> int:
    """Which of two networks or attacks leaves more of the same images right, [N] each.

    Returns:
        1 or -1 if `first` leaves more or fewer, by the exact sign test over the images on which
        they differ at the 5 % level (McNemar's, two-sided); 0 if chance alone would explain it.
    """
    more, fewer = int((first & ~second).sum()), int((second & ~first).sum())
    if more + fewer == 0 or 2 * float(bdtr(min(more, fewer), more + fewer, 0.5)) > 0.05:
        return 0
    return 1 if more > fewer else -1


@dataclass(frozen=True)
class TourCounts:
    """Which images are right, [N] each: clean, and under FGSM made on one of the two networks.

    `plain` was trained by cross-entropy and `coded` to codewords. `plain_own` is `plain` under an
    attack on its own loss, `plain_to_coded` is `coded` on images made on `plain`, and
    `coded_to_plain` is `plain` on images made on the margin of `coded`.
    """

    plain: Tensor
    coded: Tensor
    plain_own: Tensor
    plain_margin: Tensor
    coded_own: Tensor
    coded_margin: Tensor
    plain_to_coded: Tensor
    coded_to_plain: Tensor

    @property
    def n(self) -> int:
        """How many images were counted."""
        return len(self.plain)

    @property
    def story(self) -> Tensor:
        """Where `own` breaks `plain` and not `coded`, and `margin` breaks `coded`, [N]."""
        seen = self.plain & self.coded & ~self.plain_own & self.coded_own
        return seen & ~self.coded_margin


@dataclass(frozen=True)
class TourTexts:
    """The text of each stop.

    Attributes:
        classes: their names.
        counts: over many images.
        label: the true class of the image that the tour shows.
        plain: how the network without codes was trained, in words.
        coded: the same of the other.
    """

    classes: Sequence[str]
    counts: TourCounts
    label: int
    plain: str
    coded: str

    @property
    def misled(self) -> int:
        """Whether `own` leaves the coded network more than `margin`, see `sign_test`."""
        return sign_test(self.counts.coded_own, self.counts.coded_margin)

    def clean(self, view: View) -> str:
        """Stop 1: who the two networks are, and what a margin is."""
        story = int(self.counts.story.sum())
        one, two = view.models
        shown = "this is one of them" if story else "this one shows most of it"
        return (
            f"Two networks learned the same classes: {one.name} ({self.plain}) and {two.name} "
            f"({self.coded}). Image {view.settings.image} is of class {self._name(self.label)}. "
            f"{one.name} says {self._name(one.decision[0])} with a margin of "
            f"{margin_words(one.margin[0])}, {two.name} says {self._name(two.decision[0])} with "
            f"{margin_words(two.margin[0])}. The margin is the lead of the true class over the "
            "best wrong one, on each network's own scale: below 0 the decision is wrong. All that "
            f"follows can be seen in {story} of the first {self.counts.n} images; {shown}."
        )

    def plain_own(self, view: View) -> str:
        """Stop 2: the paper's attack on the network trained by cross-entropy."""
        one = view.models[0]
        return (
            f"FGSM changes every pixel by at most {view.settings.eps:g} (black is 0, white 1), to "
            f"raise the loss that the network was trained on: {self._moved(view)} "
            f"{self._of_many(one.name, self.counts.plain_own)}, and on "
            f"{self._share(self.counts.plain)} without it."
        )

    def coded_own(self, view: View) -> str:
        """Stop 3: the same on the network trained to codes; the paper's claim."""
        one, two = view.models
        theirs = f"the {self._share(self.counts.plain_own)} of {two.name}"
        claim = {
            1: f"That is more than {theirs}: by this attack the codes look robust, as the paper "
            "claims.",
            0: f"Beside {theirs} that is no clear difference: on these images the paper's claim "
            "does not show.",
            -1: f"That is less than {theirs}: on these images the paper's claim does not show.",
        }[sign_test(self.counts.coded_own, self.counts.plain_own)]
        return (
            "The same step, up the training loss of this network, the distance to the codeword of "
            f"the true class: {self._moved(view)} "
            f"{self._of_many(one.name, self.counts.coded_own)}. {claim}"
        )

    def coded_margin(self, view: View) -> str:
        """Stop 4: the margin instead of the loss; the flaw of the claim."""
        one, two = view.models
        counts = self.counts
        verdict = {
            1: "So `own` misled the attacker: this network is weaker than the stop before showed.",
            0: "No clear difference: here `own` did not mislead the attacker.",
            -1: "So here `margin` is the weaker of the two, and `own` did not mislead.",
        }[self.misled]
        plain, coded = (
            counts.plain_own & counts.plain_margin,
            counts.coded_own & counts.coded_margin,
        )
        beside = {1: "more than", 0: "not clearly different from", -1: "less than"}
        return (
            "The same image and eps, again one step, but up the lead of the best wrong class: "
            f"{self._moved(view)} {self._of_many(one.name, counts.coded_margin)}, after "
            f"{self._share(counts.coded_own)} at the stop before. {verdict} Counting what neither "
            f"of the two steps breaks, {one.name} keeps {self._share(coded)}, "
            f"{beside[sign_test(coded, plain)]} the {self._share(plain)} of {two.name}."
        )

    def transfer(self, view: View) -> str:
        """Stop 5: the image made on one network, shown to the other."""
        one, two = view.models
        counts = self.counts
        kept = two.decision[1] == self.label
        agree = "" if view.agreement is None else f"{100 * view.agreement:.0f} %"
        direct = (
            f" An attack on {two.name} itself leaves it {self._share(counts.coded_margin)} (stop "
            "4): what an image made elsewhere leaves says little about it."
            if sign_test(counts.plain_to_coded, counts.coded_margin) > 0
            else ""
        )
        return (
            f"The image made on {one.name}, shown to {two.name}: it "
            f"{'still says' if kept else 'says'} {self._name(two.decision[1])}. The signs of the "
            f"two gradients agree at {agree} of the pixels; 50 % is chance. "
            f"{self._of_many(two.name, counts.plain_to_coded, f'made on {one.name}')}, and "
            f"{one.name} on {self._share(counts.coded_to_plain)} of those made on the margin of "
            f"{two.name}.{direct}"
        )

    def breaks(self, lines: Sequence[EpsLine], settings: Settings) -> str:
        """Stop 6: where each network breaks on the image, attacked in many steps."""
        largest = float(lines[0].eps[-1])
        own = {line.model: line for line in lines if line.model == line.crafted_on}
        weakest: dict[str, float | None] = {}
        parts = []
        for name in own:
            each = [line for line in lines if line.model == line.crafted_on == name]
            words = ", ".join(
                f"on `{line.objective}` "
                + (f"at {line.breaks_at:.3g}" if line.breaks_at else f"at none up to {largest:g}")
                for line in each
            )
            parts.append(f"{name} breaks {words}")
            found = [line.breaks_at for line in each if line.breaks_at is not None]
            weakest[name] = min(found) if found else None
        known = {name: at for name, at in weakest.items() if at is not None}
        if len(known) == 2 and len(set(known.values())) == 2:
            first = min(known, key=lambda name: known[name])
            verdict = f"By the stronger of the two objectives {first} breaks first."
        elif len(known) == 2:
            verdict = "By the stronger of the two objectives both break at the same eps."
        else:
            verdict = f"{next(iter(known))} alone breaks." if known else "Neither breaks."
        return (
            f"Now {settings.steps} steps (PGD) at {len(lines[0].eps) - 1} values of eps, the most "
            f"that a pixel may change: {'; '.join(parts)}. {verdict} This is one image: `multiway "
            "evaluate` and `multiway diagnose` measure all of them, with the strongest attacks."
        )

    def _moved(self, view: View) -> str:
        one = view.models[0]
        before, after = one.margin
        held = one.decision[1] == one.decision[0]
        verb = "still says" if held else "now says"
        return (
            f"{one.name} {verb} {self._name(one.decision[1])}, and its margin goes from "
            f"{margin_words(before)} to {margin_words(after)}."
        )

    def _of_many(self, name: str, right: Tensor, which: str = "attacked like this") -> str:
        return (
            f"Of the first {self.counts.n} images {which}, {name} is right on {self._share(right)}"
        )

    def _name(self, label: int) -> str:
        return self.classes[label] if 0 <= label < len(self.classes) else "nothing"

    @staticmethod
    def _share(right: Tensor) -> str:
        """A share with its 95 % interval: `5 % [3, 9]`."""
        found = proportion(int(right.sum()), len(right))
        low, high = (f"{100 * end:.0f}" for end in (found.low, found.high))
        return f"{100 * found.value:.0f} % [{low}, {high}]"
