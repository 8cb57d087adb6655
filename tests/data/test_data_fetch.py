"""Downloads from a real server on this machine: whole, cut, resumed, refused."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from data_files import cifar10_records, pixels

from multiway.data import DATASETS, fetch, load, verify
from multiway.data.catalog import DataFile, Dataset, Download
from multiway.errors import MultiwayError

CONTENT = os.urandom(300_000)
PAGE = b"<html><body>Please sign in</body></html>"


class Server(ThreadingHTTPServer):
    """Serves `files`; cuts the connection at the offsets in `cuts`, one a request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = True
        self.encoding = ""
        self.requests: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append(asked)
        content = self.server.files.get(self.path.strip("/"))
        if content is None:
            self.send_error(404)
            return
        start = int(asked[6:-1]) if asked and self.server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            end = f"{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", f"bytes {start}-{end}")
        if self.server.encoding:
            self.send_header("Content-Encoding", self.server.encoding)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = self.server.cuts.pop(0) if self.server.cuts else len(content)
        self.wfile.write(content[start:stop])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def offer(
    monkeypatch: pytest.MonkeyPatch, server: Server, content: bytes = CONTENT, md5: str = ""
) -> None:
    """Make `svhn` a set of one file that the local server holds."""
    server.files["train_32x32.mat"] = content
    checksum = md5 or hashlib.md5(content).hexdigest()
    dataset = Dataset(
        "svhn",
        "toy",
        tuple("0123456789"),
        layouts=((DataFile("sub/train_32x32.mat", "train", 4, checksum),),),
        downloads=(Download(f"{server.url}/train_32x32.mat", checksum, "sub"),),
    )
    monkeypatch.setitem(DATASETS, "svhn", dataset)


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_file_is_fetched_once(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["sub/train_32x32.mat"]
    assert fetch("svhn", tmp_path) == [path]
    assert server.requests == [None]


def test_a_cut_download_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    server.cuts = [140_000, 210_000]
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["sub/train_32x32.mat"]
    first, second, third = server.requests
    assert first is None
    assert second is not None
    assert third is not None
    assert 0 < int(second[6:-1]) < int(third[6:-1])


def test_what_arrived_is_kept_for_the_next_run(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    server.cuts = [140_000] * 5
    with pytest.raises(MultiwayError, match=r"was cut .*`multiway data fetch svhn` again"):
        fetch("svhn", tmp_path)
    assert names(tmp_path) == ["sub/train_32x32.mat.part"]
    server.requests.clear()
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert server.requests[0] is not None


def test_a_server_without_ranges_sends_the_whole_again(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    server.ranges = False
    server.cuts = [140_000]
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_a_part_longer_than_the_file_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train_32x32.mat.part").write_bytes(CONTENT + b"more")
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_file_called_encoded_is_stored_as_it_is(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    server.encoding = "gzip"
    (path,) = fetch("svhn", tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_web_page_is_refused(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server, PAGE)
    with pytest.raises(MultiwayError, match=r"answered with a web page .*refused.*put it into"):
        fetch("svhn", tmp_path)
    assert names(tmp_path) == []


def test_a_wrong_checksum_is_refused(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server, md5="0" * 32)
    with pytest.raises(MultiwayError, match=r"fails the published checksum \(MD5 0+\).*refused"):
        fetch("svhn", tmp_path)
    assert names(tmp_path) == []


def test_a_refused_download_leaves_the_old_file_alone(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server, md5="0" * 32)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train_32x32.mat").write_bytes(b"a subset of my own")
    with pytest.raises(MultiwayError, match="checksum"):
        fetch("svhn", tmp_path)
    assert (tmp_path / "sub/train_32x32.mat").read_bytes() == b"a subset of my own"


def test_refused_connections_and_errors_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    offer(monkeypatch, server)
    server.files.clear()
    with pytest.raises(MultiwayError, match=r"cannot download train_32x32.mat \(HTTPError: 404"):
        fetch("svhn", tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(MultiwayError) as caught:
        fetch("svhn", tmp_path)
    message = str(caught.value)
    assert "ConnectionError" in message
    assert f"{server.url}/train_32x32.mat" in message
    assert f"put it into {tmp_path / 'sub'}" in message
    assert names(tmp_path) == []


def archive(entries: dict[str, bytes], link: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        if link is not None:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
            tar.addfile(member)
    return buffer.getvalue()


STEMS = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
BATCHES = [f"cifar-10-batches-bin/{stem}.bin" for stem in STEMS]
BATCH = cifar10_records(pixels(4, 3, 32, 32), np.arange(4, dtype=np.uint8))


def offer_archive(monkeypatch: pytest.MonkeyPatch, server: Server, content: bytes) -> None:
    server.files["cifar-10-binary.tar.gz"] = content
    url = f"{server.url}/cifar-10-binary.tar.gz"
    known = DATASETS["cifar10"]
    files = tuple(DataFile(path, "train" if "data" in path else "test", 4) for path in BATCHES)
    download = Download(url, hashlib.md5(content).hexdigest())
    changed = Dataset("cifar10", known.about, known.classes, (files,), (download,))
    monkeypatch.setitem(DATASETS, "cifar10", changed)


def test_only_the_known_files_leave_an_archive(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    extra = {"../escaped": b"x", "/absolute": b"x", "cifar-10-batches-bin/readme.html": b"x"}
    offer_archive(monkeypatch, server, archive(dict.fromkeys(BATCHES, BATCH) | extra))
    paths = fetch("cifar10", root)
    assert names(tmp_path) == sorted(f"data/{path}" for path in BATCHES)
    assert [str(path.relative_to(root)) for path in paths] == BATCHES
    assert len(load("cifar10", "train", root)) == 20
    fetch("cifar10", root)
    assert len(server.requests) == 1


def test_links_in_an_archive_are_not_followed(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    content = archive(dict.fromkeys(BATCHES[:-1], BATCH), link=BATCHES[-1])
    offer_archive(monkeypatch, server, content)
    with pytest.raises(MultiwayError, match=r"does not hold .*/test_batch\.bin"):
        fetch("cifar10", tmp_path)
    assert not (tmp_path / BATCHES[-1]).exists()


def test_an_archive_put_there_by_hand_is_used(
    monkeypatch: pytest.MonkeyPatch, server: Server, tmp_path: Path
) -> None:
    content = archive(dict.fromkeys(BATCHES, BATCH))
    offer_archive(monkeypatch, server, content)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
    fetch("cifar10", tmp_path)
    assert server.requests == []
    assert all(row.state == "plausible" for row in verify("cifar10", tmp_path))


def test_what_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MultiwayError, match="did you mean 'svhn'"):
        fetch("svnh", tmp_path)
    with pytest.raises(MultiwayError, match="your own data: there is nothing to fetch"):
        fetch("npz:own.npz", tmp_path)
    assert [path.name for path in fetch("mnist5k", tmp_path)] == ["mnist_5k.csv.gz"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MultiwayError, match=r"multiway\[demo\]"):
        fetch("mnist5k", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(MultiwayError, match="cannot create the folder"):
        fetch("mnist", tmp_path / "file" / "below")
