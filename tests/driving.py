"""A real browser that is driven: keys are pressed, and what is then visible is asked for."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from browsing import CHROMIUM

# Seconds after which a browser that does not answer has failed.
PATIENCE = 60


class Browser:
    """Headless Chromium with one page, driven through its own protocol over two pipes.

    Attributes:
        console: what the page complained of: errors, warnings and exceptions.
        requests: addresses it asked for, other than itself and what is inside it.
    """

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._folder, self._size = folder, (width, height)
        self._left, self._number, self._session, self._loaded = b"", 0, "", False
        self._page = ""

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        words = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
            f"--user-data-dir={self._folder / 'profile'}", "about:blank",
        ]  # fmt: skip
        # The browser takes its orders from descriptor 3 and answers on 4.
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "browser", *words],
            pass_fds=(to_read, to_write),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def resize(self, width: int, height: int = 900) -> None:
        """Take on the size of another screen; a narrow one is a phone's."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def open(self, page: Path) -> None:
        """Load a file, and wait until it is there."""
        self._page, self._loaded = page.resolve().as_uri(), False
        self._ask("Page.navigate", url=self._page)
        while not self._loaded:
            self._take()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        told = self._ask(
            "Runtime.evaluate",
            expression=script, returnByValue=True, awaitPromise=True, userGesture=True,
        )  # fmt: skip
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str) -> None:
        """Press one of the keys that are no letters, such as Tab, ArrowDown or Enter."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "ArrowUp": 38, "ArrowDown": 40}[key]
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        common = {"key": key, "windowsVirtualKeyCode": code, "code": key}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **common, **more)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type where the cursor is."""
        self._ask("Input.insertText", text=text)

    def downloads(self, folder: Path) -> None:
        """Put what the page saves into `folder`."""
        self._ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def photograph(self, path: Path) -> None:
        """The whole page, top to bottom, as a picture."""
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        told = self._ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))

    def _ask(self, method: str, **values: Any) -> dict[str, Any]:
        self._number += 1
        order: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session and not method.startswith(("Target.", "Browser.")):
            order["sessionId"] = self._session
        os.write(self._write, json.dumps(order).encode() + b"\0")
        number = self._number
        while True:
            told = self._take()
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                result: dict[str, Any] = told["result"]
                return result

    def _take(self) -> dict[str, Any]:
        """The next message from the browser; events are noted on the way."""
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        text, self._left = self._left.split(b"\0", 1)
        told: dict[str, Any] = json.loads(text)
        self._note(told.get("method", ""), told.get("params", {}))
        return told

    def _note(self, event: str, values: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.console.append(str(values["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.console.append(str(values["args"]))
        elif event == "Log.entryAdded":
            self.console.append(values["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            address = values["request"]["url"]
            if not address.startswith(("data:", "blob:", "about:", self._page)):
                self.requests.append(address)
