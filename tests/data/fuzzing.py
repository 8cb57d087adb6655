"""Random damage to sound files: a reader may refuse them in its own words, and nothing else.

`make test` tries a few; `make fuzz` goes on for ten minutes: `python tests/data/fuzzing.py 600`.
"""

from __future__ import annotations

import functools
import json
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from readers import READERS, Reader

from multiway.errors import MultiwayError

# Numbers at which lengths, offsets and counts overflow; in a header they ask for all memory.
EDGES = [0, 1, 2, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]

tried: Counter[str] = Counter()
accepted: Counter[str] = Counter()


@functools.cache
def sound(name: str) -> tuple[Path, bytes]:
    """A folder with the sound file of a reader, and what is in that file."""
    folder = Path(tempfile.mkdtemp(prefix="multiway-fuzz-"))
    READERS[name].make(folder)
    READERS[name].read(folder)
    return folder, (folder / READERS[name].file).read_bytes()


def attempt(name: str, content: bytes) -> None:
    """Read `content` in place of the sound file: it is read, or refused in one line."""
    reader: Reader = READERS[name]
    folder, _ = sound(name)
    (folder / reader.file).write_bytes(content)
    tried[name] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(folder)
        accepted[name] += 1
    except MultiwayError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 2000


# Small numbers and not: a size that no machine has is refused where networks are built.
whole = st.one_of(st.integers(-3, 70), st.sampled_from([10**30, -(10**30)]))
scalars = st.one_of(st.none(), st.booleans(), whole, st.floats(), st.text(max_size=8))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    return [path] + [each for key, item in pairs for each in _paths(item, (*path, key))]


def _changed(value: Any, path: tuple[Any, ...], new: Any, how: str) -> Any:
    if not path:
        return new
    copied = value.copy()
    if len(path) == 1 and how == "drop":
        del copied[path[0]]
    elif len(path) == 1 and how == "add" and isinstance(copied, dict):
        copied[str(new)[:8]] = new
    else:
        copied[path[0]] = _changed(value[path[0]], path[1:], new, how)
    return copied


@st.composite
def documents(draw: st.DrawFn, document: Any) -> Any:
    """The JSON `document` with one to three of its values changed, dropped or added."""
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_paths(document)))
        document = _changed(
            document, path, draw(values), draw(st.sampled_from(["", "drop", "add"]))
        )
        if not isinstance(document, dict | list):
            break
    return document


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with one to four places overwritten, cut out or filled in; rather near the front."""
    content = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        limit = max(1, min(len(content), draw(st.sampled_from([16, 160, 1000, len(data)]))))
        at = draw(st.integers(0, limit - 1))
        if draw(st.booleans()) and len(content) > limit:
            at = len(content) - 1 - at  # as directories of archives are
        new = draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.builds(
                    lambda value, size, order: (value % 256**size).to_bytes(size, order),
                    st.sampled_from(EDGES),
                    st.sampled_from([1, 2, 4, 8]),
                    st.sampled_from(["little", "big"]),
                ),
            )
        )
        how = draw(st.sampled_from(["overwrite", "insert", "cut", "truncate"]))
        if how == "overwrite":
            content[at : at + len(new)] = new
        elif how == "insert":
            content[at:at] = new
        elif how == "cut":
            del content[at : at + len(new)]
        else:
            del content[at:]
    return bytes(content)


@st.composite
def headers(draw: st.DrawFn, data: bytes) -> bytes:
    """A safetensors file with another header."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    texts = head.get("__metadata__", {})
    if texts and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(texts)))
        texts = {**texts, name: json.dumps(draw(documents(json.loads(texts[name]))))}
        head = {**head, "__metadata__": texts}
    else:
        head = draw(documents(head))
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


@st.composite
def arrays(draw: st.DrawFn, data: bytes) -> bytes:
    """A .npy or .npz file with another description of an array, of the same length."""
    start = data.index(b"{'descr'")
    for _ in range(draw(st.integers(0, 2))):
        start = max(start, data.find(b"{'descr'", start + 1))
    end = data.index(b"\n", start)
    descr = draw(st.sampled_from(["'|u1'", "'<i8'", "'|O'", "'<f4'", "'<U5'", "'>M8[s]'", "'V8'",
                                  "[('a', 'O')]", "3", "'nonsense'", "'|S0'"]))  # fmt: skip
    shape = draw(st.lists(st.one_of(whole, st.sampled_from(EDGES)), max_size=5).map(tuple))
    order = draw(st.sampled_from(["True", "False", "0", "None"]))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return data[:start] + text.ljust(end - start)[: end - start] + data[end:]


def strategy(name: str) -> st.SearchStrategy[bytes]:
    """Files for that reader."""
    data = sound(name)[1]
    kinds: list[st.SearchStrategy[bytes]] = [damaged(data), damaged(data), st.binary(max_size=64)]
    if READERS[name].file.endswith(".json"):
        document = json.loads(data)
        kinds += [documents(document).map(lambda value: json.dumps(value).encode())] * 3
    if name == "metrics":
        lines = [json.loads(line) for line in data.splitlines()]
        kinds += [documents(lines).map(_lines)] * 3
    if name == "recipe":
        fields = yaml.safe_load(data)
        kinds += [documents(fields).map(lambda value: json.dumps(value).encode())] * 2
        kinds += [st.text("lr:0.1 \n-[]{}*&!<'\"#%,e?|>~x", max_size=40).map(str.encode)]
    if READERS[name].file.endswith(".safetensors"):
        kinds += [headers(data)] * 3
    if READERS[name].file.endswith((".npy", ".npz")):
        kinds += [arrays(data)] * 2
    return st.one_of(kinds)


def _lines(value: Any) -> bytes:
    lines = value if isinstance(value, list) else [value]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


NAMES = [name for name in READERS if not READERS[name].any_content]


def fuzz(name: str, examples: int, start: int | None = None) -> None:
    """Try so many files on a reader; `start` is the seed, or the same files are tried each time.

    Raises:
        Exception: whatever a reader raised beside a `MultiwayError`, at the smallest such file.
    """

    def one(content: bytes) -> None:
        attempt(name, content)

    test: Callable[[], None] = given(strategy(name))(one)
    if start is not None:
        test = seed(start)(test)
    settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=start is None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )(test)()


def main(seconds: float) -> int:
    """Fuzz all readers by turns for so long; the number of those that failed."""
    # What asks for more than this is a mistake, and should not end the machine.
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
    failed: dict[str, str] = {}
    started, turn = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        turn += 1
        for name in NAMES:
            if name in failed or time.monotonic() - started > seconds:
                continue
            try:
                fuzz(name, 100, start=turn)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"[:500]
                sys.stdout.write(f"{name}: {failed[name]}\n")
                traceback.print_exc()
            sys.stdout.flush()
    for name in NAMES:
        what = failed.get(name, "sound")[:60]
        sys.stdout.write(f"{name:16} {tried[name]:8,} tried, {accepted[name]:6,} read; {what}\n")
    sys.stdout.write(f"{sum(tried.values()):,} inputs, {len(failed)} readers failed\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
