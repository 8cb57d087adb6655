"""Networks of the transformers library: known by what they have, built again from their words.

The library itself is imported only where a saved model asks for it.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.heads import swap_head

__all__ = ["describe_pretrained", "is_pretrained", "rebuild_pretrained"]


def is_pretrained(network: nn.Module) -> bool:
    """Whether `network` is a transformers model, by the methods that every one of them has."""
    return hasattr(network, "get_input_embeddings") and hasattr(
        getattr(network, "config", None), "model_type"
    )


def describe_pretrained(network: nn.Module) -> dict[str, Any] | None:
    """How `rebuild_pretrained` makes a transformers network again; None for any other."""
    if not is_pretrained(network):
        return None
    return {"transformers": type(network).__name__, "config": network.config.to_dict()}  # type: ignore[union-attr, operator]


def rebuild_pretrained(
    architecture: dict[str, Any] | None, encoding: Encoding, head: str | None
) -> nn.Module | None:
    """The transformers network of a description, with a head for `encoding`; None for others.

    Only classes of the library itself are built: a configuration never makes foreign code run.
    """
    if not isinstance(architecture, dict) or "transformers" not in architecture:
        return None
    try:
        import transformers
    except ImportError:
        raise MultiwayError(
            "the saved model is a network of transformers: pip install transformers"
        ) from None
    name, values = str(architecture["transformers"]), dict(architecture["config"])
    kind = getattr(transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise MultiwayError(f"the saved model is '{name}', which is no network of transformers")
    try:
        config = transformers.CONFIG_MAPPING[values["model_type"]].from_dict(values)
        network: nn.Module = kind(config)
    except (KeyError, TypeError, ValueError) as error:
        raise MultiwayError(
            f"the saved configuration of {name} cannot be read by transformers "
            f"{transformers.__version__}: {error!r}"
        ) from error
    swap_head(network, encoding, head)
    return network
