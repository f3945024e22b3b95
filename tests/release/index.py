# SPDX-License-Identifier: MIT
"""A package index of this machine alone (PEP 503), served while a rehearsal asks it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: what pip says is enough."""


def name_of(file: str) -> str:
    """The project of a wheel or an sdist, as an index writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"-\d", file, maxsplit=1)[0]).lower()


def add(place: Path, *files: Path) -> None:
    """Offers these; a name that is offered already keeps its bytes, as on PyPI."""
    for file in files:
        folder = place / "simple" / name_of(file.name)
        folder.mkdir(parents=True, exist_ok=True)
        assert not (folder / file.name).exists(), f"{file.name} is offered already"
        shutil.copy(file, folder)
        lines = []
        for one in sorted(path for path in folder.iterdir() if path.name != "index.html"):
            digest = hashlib.sha256(one.read_bytes()).hexdigest()
            lines.append(f'<a href="{html.escape(one.name)}#sha256={digest}">{html.escape(one.name)}</a><br>')
        (folder / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(lines) + "\n", encoding="utf-8")


def yank(place: Path, file: str, why: str) -> None:
    """Withdraws a file: it stays, and who asks for exactly its version still gets it (PEP 592)."""
    page = place / "simple" / name_of(file) / "index.html"
    text = page.read_text(encoding="utf-8")
    link = f'">{file}</a>'
    assert text.count(link) == 1
    page.write_text(text.replace(link, f'" data-yanked="{html.escape(why)}{link}'), encoding="utf-8")


@contextlib.contextmanager
def served(place: Path) -> Iterator[str]:
    """The index' address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(place)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
