"""Do codes train as well as one-hot labels? Twins of one seed, one optimiser, one order of images.

    python benchmarks/parity.py "small conv" 0 1 2              # an experiment and its seeds
    python benchmarks/parity.py "small conv" 0 1 2 padded simplex   # and other labels than RO

Each training is a line of JSON on stdout; benchmarks/parity.json holds what was measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import multiway as mw


def small_conv(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((3, 24, 2), (24, 48, 1), (48, 48, 2), (48, 96, 1)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, classes))


def vit(classes: int) -> nn.Module:
    import transformers

    kind: Any = transformers.ViTConfig
    config = kind(
        image_size=28, patch_size=7, num_channels=1, hidden_size=64, num_hidden_layers=3,
        num_attention_heads=4, intermediate_size=128, num_labels=classes, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def backbone(name: str, channels: int, size: int) -> Callable[[int], nn.Module]:
    return lambda classes: mw.backbones.build_backbone(name, classes, channels, size)


SGD: dict[str, Any] = {"optimizer": torch.optim.SGD, "momentum": 0.9}
# data, training images, test images, network, epochs, batch, cycle of the rate, optimiser
EXPERIMENTS: dict[str, tuple[Any, ...]] = {
    "small conv": ("cifar10", 20000, 4000, small_conv, 3, 128, True,
                   {**SGD, "lr": 0.1, "weight_decay": 5e-4}),
    "small conv, Adam": ("cifar10", 20000, 4000, small_conv, 3, 128, True,
                         {"optimizer": torch.optim.Adam, "lr": 2e-3}),
    "small conv, 100 classes": ("cifar100", 10000, 4000, small_conv, 10, 128, True,
                                {**SGD, "lr": 0.1, "weight_decay": 5e-4}),
    "wong, Adam": ("mnist", 10000, 10000, backbone("wong", 1, 28), 5, 100, True,
                   {"optimizer": torch.optim.Adam, "lr": 5e-3}),
    "A": ("mnist", 10000, 10000, backbone("a", 1, 28), 2, 64, False, {**SGD, "lr": 0.01}),
    "resnet-8-strided": ("cifar10", 20000, 4000, backbone("resnet-8-strided", 3, 32), 3, 128, True,
                         {**SGD, "lr": 0.1, "weight_decay": 5e-4}),
    "resnet-8-strided, Adam": ("cifar10", 20000, 4000, backbone("resnet-8-strided", 3, 32), 3, 128,
                               True, {"optimizer": torch.optim.Adam, "lr": 2e-3}),
    "resnet-8": ("cifar10", 20000, 4000, backbone("resnet-8", 3, 32), 3, 128, True,
                 {**SGD, "lr": 0.1, "weight_decay": 5e-4}),
    "resnet-8, Adam": ("cifar10", 20000, 4000, backbone("resnet-8", 3, 32), 3, 128, True,
                       {"optimizer": torch.optim.Adam, "lr": 2e-3}),
    "ViT, AdamW": ("mnist5k", 4000, 1000, vit, 8, 64, False,
                   {"optimizer": torch.optim.AdamW, "lr": 1e-3}),
}  # fmt: skip


def measure(experiment: str, encoding: str, seed: int) -> int:
    """How many test images a network gets right after its training."""
    data, number, tested, build, epochs, batch, cycle, options = EXPERIMENTS[experiment]
    train = mw.data.load(data, "train").limit(number)
    test = mw.data.load(data, "test").limit(tested)
    classes = len(train.classes)
    torch.manual_seed(seed)
    network = build(classes)
    code = mw.Encoding.make(encoding, classes)
    one_hot = encoding == "1ofk"
    model = mw.EncodedClassifier(network, code) if one_hot else mw.encode_model(network, code)
    options = dict(options)
    optimizer = options.pop("optimizer")(model.parameters(), **options)
    steps = epochs * -(-len(train) // batch)
    schedule = None
    if cycle:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options["lr"], total_steps=steps)
    order = torch.Generator().manual_seed(seed + 1)
    model.train()
    for _ in range(epochs):
        for chosen in torch.split(torch.randperm(len(train), generator=order), batch):
            optimizer.zero_grad()
            model(train.images[chosen] / 255, train.labels[chosen]).backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
    return round(mw.training.accuracy(model, test).value * len(test))


if __name__ == "__main__":
    name, *words = sys.argv[1:] or ["ViT, AdamW", "0"]
    labels = [word for word in words if not word.isdecimal()] or ["1ofk", "ro"]
    for seed in (int(word) for word in words if word.isdecimal()):
        for encoding in labels:
            right = measure(name, encoding, seed)
            line = {"experiment": name, "labels": encoding, "seed": seed, "right": right}
            print(json.dumps(line), flush=True)
