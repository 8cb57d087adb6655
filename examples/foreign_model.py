# %% [markdown]
# # A foreign model: evaluate it, then ask whether the figure is real
#
# A network that `multiway` did not train: plain PyTorch, cross-entropy, images from a DataLoader.
# It is attacked three times: as it is; behind a **mask**, which rounds every pixel to one of six
# levels of grey and so has no gradient; and after adversarial training in five lines. PGD on
# cross-entropy, the usual first attack, flatters one of them.
#
# It takes about a minute and a half on one core; `MULTIWAY_SMALL=1` makes it seconds, and its
# figures meaningless.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import multiway as mw

SMALL = bool(os.environ.get("MULTIWAY_SMALL"))
EPOCHS = 1 if SMALL else 6
TRAINED, TESTED = (500, 20) if SMALL else (4000, 200)
THREAT = mw.Linf(0.15)

digits = {split: mw.data.load("mnist5k", split) for split in ("train", "test")}
loader = DataLoader(
    TensorDataset(digits["train"].images[:TRAINED] / 255, digits["train"].labels[:TRAINED]),
    batch_size=64,
    shuffle=True,
)
images, labels = digits["test"].images[:TESTED] / 255, digits["test"].labels[:TESTED]
test_loader = DataLoader(TensorDataset(images, labels), batch_size=50)

# %% [markdown]
# ## The models
#
# All that an attack asks of a model is that images in [0, 1] go in and scores [N, K] come out.
# Normalisation belongs inside (`mw.Normalize`), so that eps means the same to everybody.


# %%
class Rounded(nn.Module):
    """A network that sees its images in six levels of grey."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network((5 * images).round() / 5)


def trained(seed: int, eps: float = 0.0) -> nn.Module:
    """A network after `EPOCHS` of Adam, on images attacked by one step from noise if eps > 0."""
    torch.manual_seed(seed)
    network = nn.Sequential(
        mw.Normalize(0.13, 0.31),
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
    for _ in range(EPOCHS * (3 if eps else 1)):
        for clean, answers in loader:
            noisy = (clean + eps * (2 * torch.rand_like(clean) - 1)).requires_grad_(eps > 0)
            if eps:
                (gradient,) = torch.autograd.grad(F.cross_entropy(network(noisy), answers), noisy)
                noisy = mw.Linf(eps).project(noisy + 1.25 * eps * gradient.sign(), clean).detach()
            loss = F.cross_entropy(network(noisy), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


undefended = trained(seed=0)
models = {
    "undefended": undefended,
    "rounded": Rounded(undefended),
    "adversarial": trained(seed=1, eps=0.15),
}

# %% [markdown]
# ## Evaluate
#
# PGD on cross-entropy. At the rounded network every gradient is zero, and the library warns of it;
# here the warnings are kept for the end.

# %%
claims, said = {}, {}
for name, model in models.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = mw.evaluate(model, test_loader, attacks=mw.PGD(THREAT, steps=40, objective="ce"))
    claims[name] = found.robust
    said[name] = sorted(found.warnings)
    print(f"{name:12} clean {found.clean}, PGD on ce {found.robust}, warns of {said[name]}")

# %% [markdown]
# ## Diagnose
#
# Ten checks, each by attacks that a robust network survives no worse than the first one. The other
# networks serve as substitutes to transfer attacks from.

# %%
budget = mw.analysis.BUDGETS["quick"]
if SMALL:
    budget = mw.analysis.Budget(
        steps=3, more_steps=4, restarts=1, targeted_steps=2, draws=5, square_queries=10,
        nattack_queries=100, nattack_images=5, student_steps=1, readouts=2,
    )  # fmt: skip
diagnoses = {}
for name, model in models.items():
    others = {other: network for other, network in models.items() if other != name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mw.attacks.AttackWarning)
        diagnoses[name] = mw.diagnose(
            model, images, labels, THREAT, substitutes=others, budget=budget
        )
    print(f"{name}: {diagnoses[name].verdict}")

# %% [markdown]
# ## Look

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 3.4), layout="constrained", width_ratios=[1, 1.5]
)
for place, name in enumerate(models):
    pair = (diagnoses[name].clean, claims[name], diagnoses[name].robust)
    for share, marker, colour, shift in zip(
        pair, "o^s", ("#8C8C8C", "#0072B2", "#D55E00"), (-0.2, 0, 0.2), strict=True
    ):
        below, above = share.value - share.low, share.high - share.value
        left.errorbar(
            [place + shift], [100 * share.value], [[100 * below], [100 * above]],
            fmt=marker, color=colour, capsize=3,
        )  # fmt: skip
left.legend(["clean", "PGD on ce", "worst case"], fontsize="small")
left.set_xticks(range(len(models)), list(models))
left.set_ylabel("accuracy, %")
left.set_ylim(-5, 105)
left.set_title(f"L-inf eps 0.15, n={TESTED}, 95 % intervals", fontsize="medium")

keys = [item.key for item in diagnoses["undefended"].items]
for row, name in enumerate(models):
    for column, item in enumerate(diagnoses[name].items):
        mark, colour = {"pass": ("✓", "#009E73"), "fail": ("✗", "#D55E00")}.get(
            item.status, ("–", "#8C8C8C")
        )
        right.text(column, row, mark, color=colour, ha="center", va="center", fontsize=15)
right.set_xlim(-0.5, len(keys) - 0.5)
right.set_ylim(len(models) - 0.5, -0.5)
right.set_xticks(range(len(keys)), keys, rotation=45, ha="right")
right.set_yticks(range(len(models)), list(models))
right.tick_params(length=0)
right.set_title("the checks of the diagnosis", fontsize="medium")
figure.savefig("example-foreign-model.png", dpi=120)

# %% [markdown]
# ![Figures and checks of three networks](../docs/figures/example-foreign-model.png)
#
# | accuracy, %, one training each, n=200 | clean | PGD on ce | worst case of 17 attacks |
# |---|---|---|---|
# | undefended (seed 0) | 95.0 [91.0, 97.3] | 12.0 [8.2, 17.2] | 11.5 [7.8, 16.7] |
# | the same, rounded | 95.0 [91.0, 97.3] | 94.5 [90.4, 96.9] | 3.0 [1.4, 6.4] |
# | adversarial (seed 1) | 97.0 [93.6, 98.6] | 79.0 [72.8, 84.1] | 75.0 [68.6, 80.5] |
#
# PGD on cross-entropy leaves the rounded network almost as it was, and says `zero-gradients`. The
# diagnosis: *Robust accuracy 94.5 % [90.4, 96.9] under PGD on `ce` is not evidence*; 7 of 10 checks
# fail, and in the worst case rounding has not helped. The adversarially trained network passes all,
# and most of its accuracy stands: *Nothing speaks against it*, an upper bound all the same. The
# undefended one passes too: it is not robust, and it does not hide it.
