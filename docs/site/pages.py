# SPDX-License-Identifier: MIT
"""Lays the pages out as Sphinx is to find them, with links that lead to a page or to a file that comes along."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from docs.site.navigation import BESIDE, ORPHANS, START, toctrees

FILES = "tree"  # folder of the site for files of the tree: records, headers, examples
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_SOURCE = re.compile(r'(?P<key>\b(?:src|srcset))="(?P<target>[^":]+)"')
_FENCE = re.compile(r"^(?:```|~~~)")
_SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1")


@dataclass
class Staging:
    """One layout: pages that were written, and what links asked for."""

    root: Path
    out: Path
    files: set[str] = field(default_factory=set)
    waiting: list[tuple[str, str]] = field(default_factory=list)  # page of the site, file of the tree
    pages: dict[str, str] = field(default_factory=dict)  # file of the tree -> page of the site

    def all(self) -> None:
        """Every page of docs/, those beside it, and whatever these link to."""
        for path in sorted((self.root / "docs").glob("*.md")):
            self._want(f"docs/{path.name}", path.stem)
        for file, name in BESIDE.items():
            self._want(file, name)
        while self.waiting:
            self._page(*self.waiting.pop())
        for file in sorted(self.files):
            place = self.out / "extra" / FILES / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / file, place)

    def file(self, path: str) -> str:
        """The address of a file of the tree from the site's root; it is copied there."""
        self.files.add(path)
        return f"{FILES}/{path}"

    def _want(self, file: str, name: str) -> str:
        if file not in self.pages:
            self.pages[file] = name
            self.waiting.append((name, file))
        return self.pages[file]

    def _page(self, name: str, file: str) -> None:
        text = (self.root / file).read_text(encoding="utf-8")
        if name == START:
            text += toctrees()
        if name in ORPHANS or name.startswith(f"{FILES}/"):
            text = f"---\norphan: true\n---\n\n{text}"
        write(self.out / f"{name}.md", self._linked(text, name, file))

    def _linked(self, text: str, name: str, file: str) -> str:
        """The text with its links rewritten, but for what stands in a fence; a link may go on in the next line."""
        parts: list[tuple[bool, list[str]]] = [(False, [])]
        for line in text.split("\n"):
            inside = parts[-1][0]
            if _FENCE.match(line) and not inside:
                parts.append((True, [line]))
            elif _FENCE.match(line):
                parts[-1][1].append(line)
                parts.append((False, []))
            else:
                parts[-1][1].append(line)
        joined = ("\n".join(lines) if fenced else self._prose("\n".join(lines), name, file) for fenced, lines in parts)
        return "\n".join(joined)

    def _prose(self, text: str, name: str, file: str) -> str:
        spans = [found.span() for found in _SPAN.finditer(text)]

        def link(found: re.Match[str]) -> str:
            # A link may hold code, but one that stands within code is none.
            if any(start < found.start() and found.end() < end for start, end in spans):
                return found[0]
            return self._link(found, name, file)

        text = _LINK.sub(link, text)
        return _SOURCE.sub(lambda found: f'{found["key"]}="{self._address(found["target"], name, file)}"', text)

    def _link(self, found: re.Match[str], name: str, file: str) -> str:
        target, _, anchor = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = _inside(self.root, self.root / PurePosixPath(file).parent / target)
        if path.endswith(".md"):
            page = self._want(path, path.removesuffix(".md") if path in self.pages else f"{FILES}/{path[:-3]}")
            relative = os.path.relpath(f"{page}.md", PurePosixPath(name).parent)
            return f"[{found['text']}]({relative}{'#' + anchor if anchor else ''})"
        address = self._address(target, name, file)
        if found["picture"]:
            return f'<img src="{address}" alt="{found["text"]}">'
        return f'<a href="{address}">{found["text"]}</a>'

    def _address(self, target: str, name: str, file: str) -> str:
        """From the page to a copy of this file; to a list of its files for a folder."""
        path = _inside(self.root, self.root / PurePosixPath(file).parent / target)
        whole = self.root / path
        up = os.path.relpath(".", PurePosixPath(name).parent)
        if whole.is_dir():
            return f"{up}/{self._folder(path)}.html"
        return f"{up}/{self.file(path)}"

    def _folder(self, path: str) -> str:
        """The page that lists the files of a folder."""
        name = f"{FILES}/{path}/files"
        found = [p for p in sorted((self.root / path).rglob("*")) if p.is_file() and _shown(p, self.root / path)]
        lines = ["---\norphan: true\n---\n", f"# Files of {path}\n"]
        for one in found:
            relative = one.relative_to(self.root / path).as_posix()
            self.file(f"{path}/{relative}")
            lines.append(f'* <a href="{relative}">{relative}</a>')
        write(self.out / f"{name}.md", "\n".join(lines) + "\n")
        return name


def _shown(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return not any(part.startswith(".") or part in ("__pycache__", "build", "dist") for part in parts)


def _inside(root: Path, path: Path) -> str:
    return Path(os.path.normpath(path)).relative_to(root).as_posix()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
