"""Fetching the publishers' files: checked, resumed, and never half in place."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from multiway.data import mnist5k
from multiway.data.catalog import DATASETS, Dataset, Download, data_directory
from multiway.data.inventory import verify
from multiway.data.reading import is_web_page
from multiway.errors import MultiwayError, choose
from multiway.files import make_directory, write_atomic

__all__ = ["fetch"]

_ATTEMPTS = 5
_CHUNK = 1 << 16
_TIMEOUT = (10, 60)  # seconds: to connect, and of silence while reading


class _CutShort(Exception):
    """The connection ended before the file did; what arrived is kept."""


class _WebPage(Exception):
    """The server answered with HTML."""


def fetch(name: str, data_dir: Path | str | None = None) -> list[Path]:
    """Bring the files of the data set `name` into the data directory; return their paths.

    Files that are already there and right are kept. A download that was cut goes on where it
    stopped; one that fails its checksum, or is a web page, is refused and leaves nothing behind.
    """
    if name.startswith(("folder:", "npz:")):
        raise MultiwayError(f"{name} is your own data: there is nothing to fetch")
    dataset = DATASETS[choose("data set", name, DATASETS)]
    if not dataset.layouts:
        return [mnist5k.find()]
    root = make_directory(data_directory(data_dir))
    checks = verify(name, root)
    if all(check.state in ("ok", "plausible") for check in checks):
        return [Path(check.file) for check in checks]
    for download in dataset.downloads:
        path = _retrieve(download, name, make_directory(root / download.folder))
        if download.is_archive:
            _unpack(path, dataset, root)
            path.unlink()
    return [root / file.path for file in dataset.layouts[0]]


def _retrieve(download: Download, name: str, folder: Path) -> Path:
    """The checked file in `folder`; one that is there already and right is not fetched again."""
    import pooch
    import requests

    by_hand = (
        f"get {download.filename} from {download.url} by other means, put it into {folder}, "
        f"and run `multiway data fetch {name}` again"
    )
    pooch.get_logger().setLevel("WARNING")
    try:
        path: str = pooch.retrieve(
            download.url,
            known_hash=f"md5:{download.md5}",
            fname=download.filename,
            path=folder,
            downloader=partial(_receive, part=folder / f"{download.filename}.part"),
        )
    except _CutShort as error:
        raise MultiwayError(
            f"{download.filename}: the connection to {download.url} was cut ({error}); what "
            f"arrived is kept in {folder}: run `multiway data fetch {name}` again to go on"
        ) from error
    except _WebPage as error:
        raise MultiwayError(
            f"{download.url} answered with a web page instead of the file (a login or proxy "
            f"page?): it was refused and deleted; {by_hand}"
        ) from error
    except requests.RequestException as error:
        raise MultiwayError(
            f"cannot download {download.filename} ({_reason(error)}); {by_hand}"
        ) from error
    except ValueError as error:
        raise MultiwayError(
            f"what came from {download.url} fails the published checksum (MD5 {download.md5}): "
            f"it was refused and deleted; try once more, or {by_hand}"
        ) from error
    except OSError as error:
        raise MultiwayError(
            f"cannot write {download.filename} into {folder}: {error.strerror or error}; "
            "free some space or choose a writable --data-dir"
        ) from error
    return Path(path)


def _receive(url: str, output: str, _pooch: object, *, part: Path) -> None:
    """A pooch downloader that collects the file in `part` and goes on after a cut."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _append(url, part)
            break
        except _CutShort:
            if attempt == _ATTEMPTS:
                raise
    with part.open("rb") as file:
        head = file.read(512)
    if is_web_page(head):
        part.unlink()
        raise _WebPage
    # pooch checks this copy and only then gives it its name; a wrong one is gone with it.
    part.replace(output)


def _append(url: str, part: Path) -> None:
    """Ask for what `part` still lacks and add it; start over if the server cannot continue."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        partial_content = response.status_code == 206
        continues = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status_code == 416 or (partial_content and not continues):
            part.unlink(missing_ok=True)
            raise _CutShort("the server could not continue what had arrived")
        response.raise_for_status()
        # Some servers call every .gz "encoded"; unpacked on arrival it would fail its checksum.
        response.raw.headers.pop("Content-Encoding", None)
        start = have if partial_content else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if start else "wb") as file, _progress(url, start, total) as advance:
            try:
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
                    advance(len(chunk))
            except requests.RequestException as error:
                raise _CutShort(type(error).__name__) from error
    if total is not None and part.stat().st_size < total:
        raise _CutShort(f"{part.stat().st_size} of {total} bytes arrived")


@contextmanager
def _progress(url: str, start: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where a person watches; gives the function that moves it on by n bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, TransferSpeedColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(url.rsplit("/", 1)[-1], total=total, completed=start)
        yield lambda arrived: bar.advance(task, arrived)


def _unpack(archive: Path, dataset: Dataset, root: Path) -> None:
    """Take the files of the data set out of `archive`.

    Only regular files under the names we know are taken, so no path or link that an archive
    holds is ever followed.
    """
    wanted = {file.path for file in dataset.layouts[0]}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if name in wanted and member.isfile() and (content := tar.extractfile(member)):
                make_directory((root / name).parent)
                write_atomic(root / name, content.read())
                wanted.remove(name)
    if wanted:
        raise MultiwayError(f"{archive} does not hold {', '.join(sorted(wanted))}")


def _reason(error: Exception) -> str:
    """The innermost cause in one short line; the outer ones repeat it with object addresses."""
    cause: BaseException = error
    while inner := cause.__cause__ or cause.__context__:
        cause = inner
    return f"{type(error).__name__}: {cause}"
