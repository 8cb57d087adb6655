"""What the words on a page of results mean, for a reader who has not read the paper."""

from __future__ import annotations

from multiway.studies.evidence import (
    FALLS_SHORT,
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    WORST,
)

__all__ = ["LEGEND"]

LEGEND = (
    (
        "1ofK",
        "the usual one-hot labels: a network with one output for each of the K classes.",
    ),
    (
        "RO",
        "random orthogonal codes, the paper's encoding: each class has a long random vector, all "
        "at right angles, and the network learns to put out the vector of the class. The nearest "
        "one decides.",
    ),
    (
        "padded, 1ofK-MSE, RO-softmax",
        "controls: one-hot labels followed by zeros, as long as the codes, and one-hot labels as "
        "they are, both with the squared error of RO; random orthogonal codes with a softmax.",
    ),
    (
        "A and C",
        "the paper's two networks for MNIST. At scale cpu a small convolutional one (wong) "
        "stands for A and a dense one (d) for C, which is a convolutional network in the paper.",
    ),
    (
        "Madry et al.",
        "the paper's baseline: one-hot labels trained on attacked images alone; at scale cpu a "
        "network of ours trained so, not the one they released.",
    ),
    (
        "FGSM, PGD-100, AutoAttack",
        "attacks: one step along the signs of a gradient; a hundred small ones; a fixed suite of "
        "four strong attacks, one of them without gradients. eps is the most by which a pixel "
        "(0 to 1) may change.",
    ),
    (
        "l, beta, kappa",
        "the length of a code and the norm of each codeword (the paper's: 2,000 and 1000), where "
        "beta^2 / l sets the size of the mean squared error; the lead of the wrong class beyond "
        "which an attack gains nothing.",
    ),
    (
        "matched scale",
        "a scale of the squared error, ours, at which codes train with the settings of one-hot "
        "labels.",
    ),
    (
        "white-box, black-box",
        "the attacker has the very network (marked *), or crafts the images on another one and "
        "hopes that they transfer.",
    ),
    (
        "own",
        "the attacker raises the loss the network was trained with, as in the paper's one-step "
        "attacks.",
    ),
    (
        "margin",
        "the attacker raises the lead of the best wrong class over the true one, which is what "
        "decides. A defence is at most as good as its accuracy here: more steps, AutoAttack or "
        "another objective may leave less. The paper's attacks of many steps do so, too.",
    ),
    (
        "ours, paper, difference",
        "what was measured here, with its 95 % interval in brackets; what the paper prints; ours "
        "minus the paper's, in percentage points where the figures are percentages. The paper's "
        "figures stand beside the objective of the paper's attack.",
    ),
    (
        HOLDS,
        "the 95 % interval of the difference lies above the claim's margin (0 where none is named) "
        "for every comparison of the claim; of white-box attacks also in the worst case of each "
        "image over all attacks and objectives that were run.",
    ),
    (
        ONLY_OWN,
        "it does so for the paper's attack; a stronger one takes it away (the loss is above 0 with "
        "its whole interval), and what is left is below the effect of note, or below the margin "
        "where there is one. Of gradients and of the loss around an image: so on the training "
        "loss, not on the margin.",
    ),
    (
        OPPOSITE,
        "for some comparison the whole interval lies below 0, widened so that it does so in all "
        "comparisons of the claim at once; the reason says in how many, and how many hold. In "
        "part: others of its comparisons hold.",
    ),
    (
        FALLS_SHORT,
        "a claim that is made of several comparisons is shown not to hold in one of them (no "
        "effect of note there), or the difference is shown to be less than the margin claimed.",
    ),
    (
        NO_EFFECT,
        "of every comparison the whole interval is nearer to 0 than the effect of note: half the "
        "paper's effect in that comparison, at most 2 points (0.05 for a correlation), which it is "
        "where the paper has no figure; of white-box attacks, of the worst case.",
    ),
    (
        WORST,
        "an image counts as recognised if no white-box attack of the study on that network, on "
        "whatever objective, changed its class.",
    ),
    (
        UNDECIDED,
        "none of these: the reason says the smallest effect that this size detects 4 times of 5, "
        "and how many seeds would decide.",
    ),
    (
        NOT_JUDGED,
        "a figure is missing, or a network did not learn its task (its interval lies below 90 % "
        "of the clean accuracy of the best one-hot network by its recipe); smoke never judges.",
    ),
    (
        "literal, matched",
        "what the paper says of its own comparison (RO trained with clean images beside one-hot "
        "labels trained without), by its own attack and also on the margin or in the worst case, "
        "which the paper does not use; and what must be so if its explanation is right: "
        "the same recipe for RO, one-hot labels, and one-hot labels with a squared error or padded "
        "with zeros.",
    ),
    (
        "power",
        "the chance that an effect of that size, were it there, would have been seen, estimated "
        "from the spread of the trainings: with three of them roughly.",
    ),
    (
        "scale",
        "smoke: minutes, judges nothing. cpu: smaller networks or fewer images than the paper's, "
        "several seeds. fresh: claims that cpu left undecided, on other trainings, whose number "
        "was fixed before the first was made; their verdicts count in place of undecided at cpu. "
        "paper: its own networks, epochs and images; it counts before the others.",
    ),
)
