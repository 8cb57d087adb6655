"""Output encodings for classifiers: swap the labels, attack, measure what it changed.

`import multiway as mw` gives what is listed in `__all__`; everything else is private to the
package. Names are loaded when they are first used, so that `multiway --help` does not wait for
torch: this is the one place where imports are lazy, and the command line uses it too.

Example:
    >>> import multiway as mw
    >>> model = mw.encode_model(mw.backbones.build_backbone("wong", outputs=10),
    ...                         mw.Encoding.make("ro", classes=10))
    >>> model.classes, "PGD" in dir(mw)
    (10, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiway import (  # noqa: F401
        analysis,
        attacks,
        backbones,
        classifier,
        data,
        engine,
        explore,
        files,
        identity,
        machine,
        objectives,
        ray_engine,
        report,
        results,
        schedule,
        statistics,
        store,
        studies,
        threat,
        training,
        watermark,
    )
    from multiway.analysis import correlate, diagnose, transfer
    from multiway.attacks import (
        APGD,
        CW,
        DDN,
        EAD,
        FAB,
        FGSM,
        PGD,
        AutoAttack,
        Boundary,
        DeepFool,
        NAttack,
        Noise,
        Square,
        TargetedAPGD,
        evaluate,
    )
    from multiway.backbones import Normalize
    from multiway.classifier import EncodedClassifier, encode_model
    from multiway.cli import models  # noqa: F401
    from multiway.codebook import Codebook
    from multiway.encoding import Encoding
    from multiway.errors import MultiwayError
    from multiway.threat import L1, L2, Linf
    from multiway.training import load_run, train

__version__ = "0.1.0"

# The public names, by the module that holds them.
_HOMES = {
    "multiway.analysis": ("correlate", "diagnose", "transfer"),
    "multiway.attacks": (
        "APGD", "CW", "DDN", "EAD", "FAB", "FGSM", "PGD", "AutoAttack", "Boundary", "DeepFool",
        "NAttack", "Noise", "Square", "TargetedAPGD", "evaluate",
    ),
    "multiway.backbones": ("Normalize",),
    "multiway.classifier": ("EncodedClassifier", "encode_model"),
    "multiway.codebook": ("Codebook",),
    "multiway.encoding": ("Encoding",),
    "multiway.errors": ("MultiwayError",),
    "multiway.threat": ("L1", "L2", "Linf"),
    "multiway.training": ("load_run", "train"),
}  # fmt: skip
_NAMES = {name: module for module, names in _HOMES.items() for name in names}
_PACKAGES = (
    "analysis", "attacks", "backbones", "data", "objectives", "report", "results", "statistics",
    "studies", "training", "watermark",
)  # fmt: skip
# Loaded like those above, but private: what the command line needs of the inside.
_PRIVATE = (
    "classifier", "engine", "explore", "files", "identity", "machine", "ray_engine", "schedule",
    "store", "threat",
)  # fmt: skip
_MODULES = {name: f"multiway.{name}" for name in (*_PACKAGES, *_PRIVATE)}
_MODULES["models"] = "multiway.cli.models"

__all__ = [
    "APGD",
    "CW",
    "DDN",
    "EAD",
    "FAB",
    "FGSM",
    "L1",
    "L2",
    "PGD",
    "AutoAttack",
    "Boundary",
    "Codebook",
    "DeepFool",
    "EncodedClassifier",
    "Encoding",
    "Linf",
    "MultiwayError",
    "NAttack",
    "Noise",
    "Normalize",
    "Square",
    "TargetedAPGD",
    "analysis",
    "attacks",
    "backbones",
    "correlate",
    "data",
    "diagnose",
    "encode_model",
    "evaluate",
    "load_run",
    "objectives",
    "report",
    "results",
    "statistics",
    "studies",
    "train",
    "training",
    "transfer",
    "watermark",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'multiway' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
