# SPDX-License-Identifier: MIT
"""A Chromium without a window, driven by the protocol of its own tools over two pipes: no driver, no package."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 120.0  # for one answer, on a machine that does much else


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser. `requests` has the address of everything that any page asked for."""

    def __init__(self, program: str, profile: Path) -> None:
        self.requests: list[str] = []
        self.said: list[str] = []  # errors of scripts, and what they print
        self._numbers = itertools.count(1)
        self._rest = b""
        self._events: list[dict[str, Any]] = []
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--allow-file-access-from-files",
            "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip

        def pipes() -> None:  # in the child: 3 is what it reads, 4 what it writes
            spare = [os.dup(to_read), os.dup(to_write)]
            os.dup2(os.dup(spare[0]), 3)
            os.dup2(os.dup(spare[1]), 4)

        self._process = subprocess.Popen(
            [program, *options], pass_fds=(3, 4, to_read, to_write), preexec_fn=pipes,  # noqa: PLW1509
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            if not ready:
                raise TimeoutError("the browser did not answer")
            piece = os.read(self._read, 1 << 16)
            if not piece:
                raise EOFError("the browser has ended")
            self._rest += piece
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.said.append(params["entry"]["text"])
        elif method:
            self._events.append(message)

    def _call(self, method: str, params: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        body = {"id": number, "method": method, "params": params or {}, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(body).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            message = self._message(until)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol to the page."""
        return self._call(method, params, self._session)

    def open(self, address: str) -> None:
        """Goes there, and waits until the page and its scripts have run."""
        self._events.clear()
        self.send("Page.navigate", url=address)
        until = time.monotonic() + SECONDS
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(self._message(until))

    def run(self, script: str) -> Any:
        """The value of an expression, or of the promise it gives."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:1000])
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until the expression is true."""
        until = time.monotonic() + SECONDS
        while not self.run(script):
            if time.monotonic() > until:
                raise TimeoutError(script)
            time.sleep(0.1)

    def look(self, *, width: int = 1280, dark: bool = False) -> None:
        """The size of the window, and what the system is said to prefer."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        wish = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=wish)
