# SPDX-License-Identifier: MIT
"""The site in a real browser: links, search, plots, light and dark, a phone's width, who can read it, what it fetches."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs import browser as chromium
from tests.tree import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not chromium.found(), reason="no Chromium on PATH (Debian's package chromium)"),
]
# MPL-2.0: fetched when it is wanted, run beside a page, and no part of the site or of this tree.
AXE = ("axe-core", "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")
PAGES = (
    "index",
    "start",
    "quantization",
    "use",
    "api/operators",
    "api/modules",
    "results/index",
    "results/norm",
    "search",
)
PLOTTED = "results/norm"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Made as `./kw docs` does, by the Python that it runs: a warning of Sphinx's ends it."""
    pythons = sorted(ROOT.glob(".kw/nox-*/bin/python"))
    if not pythons:
        pytest.skip("no environment of nox's in .kw/: `./kw` makes it")
    out = tmp_path_factory.mktemp("site") / "html"
    start = ROOT / "toolchain/kernelwright_toolchain/start.py"
    command = [str(pythons[-1]), "-I", str(start), str(ROOT), "kernelwright_toolchain", "docs", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def page(site, tmp_path_factory):
    with contextlib.closing(chromium.Browser(chromium.found(), tmp_path_factory.mktemp("profile"))) as browser:
        browser.look()
        yield browser


def address(site: Path, name: str) -> str:
    return (site / f"{name}.html").as_uri()


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.twice: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the parser's
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append(value)
            if key == "id" and value:
                self.twice += [value] if value in self.names else []
                self.names.add(value)


def test_every_link_of_every_page_leads_somewhere(site):
    read: dict[Path, Links] = {}
    for path in site.rglob("*.html"):
        read[path] = Links()
        read[path].feed(path.read_text(encoding="utf-8"))
    assert len(read) > 40
    wrong = [f"{path.relative_to(site)}: two have the id {name}" for path, one in read.items() for name in one.twice]
    for path, parsed in read.items():
        for link in parsed.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                if parts.scheme not in ("https", "mailto", "data"):
                    wrong.append(f"{path.name}: {link}")
                continue
            to = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            known = read[to].names if to in read else {parts.fragment}
            if not to.exists() or (parts.fragment and parts.fragment not in known):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []


def test_no_page_asks_for_anything_elsewhere(site, page):
    page.requests.clear()
    page.said.clear()
    for path in sorted(site.rglob("*.html")):
        page.open(path.as_uri())
    assert len(page.requests) > 100
    assert {urlsplit(url).scheme for url in page.requests} <= {"file", "data", "about"}
    assert page.said == []


def test_the_search_finds_an_operator_without_a_request(site, page):
    page.requests.clear()
    page.open(address(site, "search") + "?q=matmul_4bit")
    page.wait("document.querySelectorAll('#search-results li').length > 2")
    links = page.run("[...document.querySelectorAll('#search-results li a')].map((a) => a.getAttribute('href'))")
    assert any(link.startswith("api/operators.html#kernelwright.matmul_4bit") for link in links), links
    assert {urlsplit(url).scheme for url in page.requests} <= {"file", "data"}


def test_a_bar_leads_to_its_figure_and_that_to_record_commit_and_command(site, page):
    page.open(address(site, PLOTTED))
    first = "document.querySelector('.kw-plot a')"
    bar = page.run(f"({{to: {first}.getAttribute('href'), says: {first}.getAttribute('aria-label')}})")
    page.run(f"{first}.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))")
    page.wait(f"location.hash === '{bar['to']}'")
    row = page.run(
        "(() => { const r = document.querySelector('tr:target'); return [...r.cells].map((c) => c.textContent); })()"
    )
    value = re.search(r"kernelwright ([\d.,]+) µs", bar["says"])
    assert value
    assert value[1] in row
    page.run("document.querySelector('tr:target td:last-child a').click()")
    page.wait("document.querySelector('dl.kw-source:target') !== null")
    said = page.run("document.querySelector('dl.kw-source:target').textContent")
    assert row[-1] in said
    assert "benchmarks/ops/norm/results/" in said
    assert "python benchmarks/" in said
    record = page.run("document.querySelector('dl.kw-source:target dd a').href")
    cases = json.loads(Path(unquote(urlsplit(record).path)).read_text(encoding="utf-8"))["cases"]
    assert float(value[1].replace(",", "")) in [case["us"]["kernelwright"] for case in cases.values()]


def test_bars_are_as_long_as_their_figures(site, page):
    """Within one case, lengths are in the proportion of the values unless a bar is cut off, which it says."""
    page.look()
    page.open(address(site, PLOTTED))
    bars = page.run(
        "[...document.querySelectorAll('.kw-plot a')].map((a) => ({row: a.getAttribute('href'),"
        " width: Number(a.querySelector('rect').getAttribute('width')), says: a.textContent}))"
    )
    whole = [bar for bar in bars if "→" not in bar["says"]]
    assert len(whole) > 20
    values = [float(re.search(r"([\d.,]+) \S+$", bar["says"])[1].replace(",", "")) for bar in whole]
    for row in {bar["row"] for bar in whole}:
        rates = [bar["width"] / value for bar, value in zip(whole, values, strict=True) if bar["row"] == row]
        assert max(rates) <= 1.02 * min(rates), row


def test_the_filter_and_the_button_choose_cases(site, page):
    page.open(address(site, PLOTTED))
    count = "document.querySelectorAll('.kw-figures')[0].querySelectorAll('.kw-case').length"
    assert page.run(count) == 8
    page.run("document.querySelector('.kw-controls button').click()")
    rows = page.run("document.querySelectorAll('.kw-figures')[0].querySelectorAll('tbody tr').length")
    assert page.run(count) == rows > 8
    page.run(
        "(() => { const i = document.querySelector('.kw-controls input'); i.value = 'float16 4096x4096';"
        " i.dispatchEvent(new Event('input')); })()"
    )
    labels = page.run(
        "[...document.querySelector('.kw-figures').querySelectorAll('.kw-case')].map((t) => t.textContent)"
    )
    assert labels
    assert all("float16" in label and "4096x4096" in label for label in labels)


def test_without_scripts_every_figure_is_in_a_table(site, page):
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(address(site, PLOTTED))
        root = page.send("DOM.getDocument", depth=0)["root"]["nodeId"]
        rows = page.send("DOM.querySelectorAll", nodeId=root, selector=".kw-figures tbody tr")["nodeIds"]
        plots = page.send("DOM.querySelectorAll", nodeId=root, selector=".kw-plot")["nodeIds"]
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)
    assert len(rows) > 200
    assert plots == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_it_without_moving_sideways(site, page, name):
    page.look(width=360)
    try:
        page.open(address(site, name))
        wide = page.run("document.scrollingElement.scrollWidth")
        small = page.run("getComputedStyle(document.querySelector('article')).fontSize")
    finally:
        page.look()
    assert wide <= 360
    assert float(small.removesuffix("px")) >= 14


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """The text of axe-core, by its sha256."""
    name, version, digest = AXE
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("axe-core comes by npm, which is not on PATH")
    place = tmp_path_factory.mktemp("axe")
    done = subprocess.run([npm, "pack", f"{name}@{version}"], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm has no {name} {version} here: {done.stderr.strip().splitlines()[-1]}")
    package = next(place.glob("*.tgz"))
    assert hashlib.sha256(package.read_bytes()).hexdigest() == digest
    with tarfile.open(package) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_that_keeps_people_out(site, page, axe, name, dark):
    page.look(dark=dark)
    try:
        page.open(address(site, name))
        page.run(axe + "; true")
        rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
        found = page.run(f"axe.run(document, {json.dumps(rules)}).then((r) => JSON.stringify(r.violations))")
    finally:
        page.look()
    wrong = [
        f"{one['id']}: {one['help']}: {node['html'][:160]}: {node['failureSummary'][:300]}"
        for one in json.loads(found)
        for node in one["nodes"][:3]
    ]
    assert wrong == []
