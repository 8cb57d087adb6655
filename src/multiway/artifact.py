"""What a store keeps: artifacts, described so that they can be computed and found again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from multiway.identity import describe_fields, digest

if TYPE_CHECKING:
    from multiway.store import Store

__all__ = ["Artifact", "BuildContext", "Record", "artifacts_of"]


@dataclass(frozen=True)
class BuildContext:
    """Where an artifact is made.

    Attributes:
        store: where the artifacts it is made from are.
        folder: what it writes; after a kill the next attempt finds what was left there.
        device: for torch.
        progress: called now and then with the share that is done, 0 to 1.
    """

    store: Store
    folder: Path
    device: str = "cpu"
    progress: Callable[[float], None] = field(default=lambda share: None, compare=False)

    def counter(self, total: int) -> Callable[[int], None]:
        """For work that says how many more of `total` it has done."""
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            self.progress(done / total)

        return count


class Artifact(ABC):
    """Something that can be computed from its description alone: a model, an attack, a measurement.

    Artifacts are frozen dataclasses, and their fields say what they are: every field that is
    compared counts, other artifacts by their keys. Two with the same `key` are the same artifact,
    whoever asks for it. `kind` is the name of the class, in small letters.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()

    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def seconds(self) -> float:
        """About how long one core takes; only for plans and their order."""

    @abstractmethod
    def make(self, context: BuildContext) -> dict[str, Any]:
        """Compute it into `context.folder`; returns what its record should hold."""

    def identity(self) -> Any:
        """For whatever is made from it: its key."""
        return self.key

    def parents(self) -> tuple[Artifact, ...]:
        """The artifacts in its fields, from which it is made."""
        return artifacts_of(self)

    def content(self) -> dict[str, Any]:
        """Everything that determines the result, as JSON."""
        return describe_fields(self)

    @cached_property
    def key(self) -> str:
        """The name of the artifact in a store: a hash of kind and content. Code is not in it."""
        return digest([self.kind, self.content()])


def artifacts_of(record: Any) -> tuple[Artifact, ...]:
    """The artifacts in those fields of a dataclass that are compared, each once."""
    values = (getattr(record, each.name) for each in fields(record) if each.compare)
    return tuple({each.key: each for value in values for each in _artifacts(value)}.values())


def _artifacts(value: Any) -> Iterator[Artifact]:
    """The artifacts in a field, which may hold several."""
    if isinstance(value, Artifact):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _artifacts(item)


@dataclass(frozen=True)
class Record:
    """What is known of a finished artifact.

    Attributes:
        folder: where its files are.
        seconds: that it took.
        versions: of the code that made it.
        notes: what `make` returned, and under `warnings` what it warned of, by kind.
    """

    folder: Path
    seconds: float
    versions: dict[str, str]
    notes: dict[str, Any]
