# SPDX-License-Identifier: MIT
"""The site's pages as they are laid out for Sphinx: links, navigation, API and figures. No Sphinx, no browser."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from docs.site import figures
from docs.site.docstrings import escaped, markdown
from docs.site.navigation import BESIDE, ORPHANS, SECTIONS, START
from docs.site.pages import Staging
from tests.tree import ROOT

MADE = {"api/operators", "api/modules", "results/index"}
_LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:href|src|srcset)=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """In a process of its own: it imports the records of src/, and tests see the installed package."""
    out = tmp_path_factory.mktemp("site") / "source"
    command = [sys.executable, "-m", "docs.site.stage", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return out


def missing(staged: Path) -> list[str]:
    """Links of the staged pages to what is neither a page nor a file that comes along, nor a row of the page."""
    found = []
    for page in sorted(staged.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        prose = re.sub(r"^```(?!``\{raw\}).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"`[^`\n]+`", "", prose)
        for link in (html.unescape(one or two) for one, two in _LINK.findall(prose)):
            if "://" in link or link.startswith("mailto:"):
                continue
            file, _, anchor = link.partition("#")
            if not file:
                if f'id="{anchor}"' not in text and anchor not in headings(text):
                    found.append(f"{page.relative_to(staged)}: {link}")
                continue
            place = Path(os.path.normpath(page.parent / file))
            kept = staged / "extra" / os.path.relpath(place, staged)
            if not place.is_file() and not kept.is_file() and not place.with_suffix(".md").is_file():
                found.append(f"{page.relative_to(staged)}: {link}")
    return found


def headings(text: str) -> set[str]:
    lines = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def test_every_link_leads_to_a_page_or_a_file_that_comes_along(staged):
    assert missing(staged) == []


def test_a_link_that_leads_nowhere_is_seen(staged, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(staged, broken)
    (broken / "extra/tree/benchmarks/ops/norm/results/rms_norm-h200.json").unlink()
    page = broken / "use.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[x](no-page.md) [y](#no-heading)\n", encoding="utf-8")
    found = missing(broken)
    assert {"use.md: no-page.md", "use.md: #no-heading"} <= set(found)
    assert "results/norm.md: ../tree/benchmarks/ops/norm/results/rms_norm-h200.json" in found


def test_every_page_has_one_place_in_the_navigation():
    placed = [name for names in SECTIONS.values() for name in names]
    assert len(placed) == len(set(placed))
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | set(BESIDE.values())
    assert {*placed, *ORPHANS, START} == pages | MADE


def test_links_are_told_from_code(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "data.json").write_text("{}", encoding="utf-8")
    staging = Staging(tmp_path, tmp_path / "out")
    text = "[`a`\nb](../data.json) `[c](../data.json)`\n```sh\n[d](../data.json)\n```\n"
    assert staging._linked(text, "page", "docs/page.md") == (
        '<a href="./tree/data.json">`a`\nb</a> `[c](../data.json)`\n```sh\n[d](../data.json)\n```\n'
    )
    assert staging.files == {"data.json"}


def test_docstrings_become_markdown():
    said = markdown(
        """Adds `a_b` to *x.

        x     a tensor,
              of any shape
        eps   added

        >>> add(x)
        """
    )
    assert (
        said == "Adds `a_b` to \\*x.\n\n`x`\n: a tensor, of any shape\n\n`eps`\n: added\n\n\n```pycon\n>>> add(x)\n```"
    )
    assert escaped("a|b <c> `d|e`") == "a\\|b \\<c\\> `d|e`"


def test_every_operator_is_in_the_api_with_its_schemas(staged):
    page = (staged / "api/operators.md").read_text(encoding="utf-8")
    names = [path.stem for path in (ROOT / "src/kernelwright/ops").glob("*/[!_]*.py")]
    assert len(names) > 20
    for name in names:
        assert f"{{py:function}} kernelwright.{name}(" in page, name
    assert (
        "| `rms_norm.residual_` | `(Tensor x, Tensor(a!) residual, Tensor? weight=None, float eps=1e-6) -> Tensor` |"
        in page
    )


@pytest.mark.torch
def test_every_public_name_is_in_the_api(staged):
    kernelwright = pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")
    page = (staged / "api/modules.md").read_text(encoding="utf-8")
    there = set(re.findall(r"\{py:\w+\} (kernelwright\.[\w.]+)", page))
    for module in ("nn", "optim", "functional"):
        public = getattr(kernelwright, module).__all__
        assert {f"kernelwright.{module}.{name}" for name in public} - there <= UNDOCUMENTED, module


# Functions of torch's tensors that optim hands on from the operators' folder, documented there.
UNDOCUMENTED: set[str] = set()


def test_every_record_is_drawn_or_says_why_not(staged):
    paths = [p.relative_to(ROOT).as_posix() for p in (ROOT / "benchmarks").glob("**/results/*.json")]
    pages = "".join(path.read_text(encoding="utf-8") for path in (staged / "results").glob("*.md"))
    for path in paths:
        assert f'href="../tree/{path}"' in pages, path
        data = json.loads((ROOT / path).read_text(encoding="utf-8"))
        assert path in figures.NOT_DRAWN or html.escape(data["commit"]) in pages, path
    assert set(figures.NOT_DRAWN) <= set(paths)


@pytest.mark.parametrize("name", ["four_bit/results/matmul_4bit-h200", "norm/results/rms_norm-h200"])
def test_the_tables_have_every_figure_of_the_record(staged, name):
    """Not one more, not one less, and each beside its limit."""
    path = ROOT / "benchmarks/ops" / f"{name}.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"].values()
    page = (staged / "results" / f"{name.partition('/')[0]}.md").read_text(encoding="utf-8")
    rows = re.findall(rf'<tr id="{path.stem.replace("_", "-")}-[^"]*">.*?</tr>', page)
    assert len(rows) == len(cases)
    found = Counter(float(value) for row in rows for value in re.findall(r'data-value="([^"]+)"', row))
    limits = [float(f"{case['us']['kernelwright'] * case['limit']:.4g}") for case in cases]
    assert found == Counter([*(value for case in cases for value in case["us"].values()), *limits])


def test_a_record_of_unknown_shape_is_refused(tmp_path):
    path = tmp_path / "new-h200.json"
    path.write_text(json.dumps({"device": "x", "commit": "abc"}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"new-h200\.json: .*no reader"):
        figures.read(tmp_path, path)


def test_the_pages_fetch_nothing():
    """What the theme is told, and what is written here: no address of anybody else's."""
    for path in (ROOT / "docs/site").rglob("*"):
        if path.suffix in (".py", ".js", ".css"):
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "://" not in text.replace('"://"', ""), path


def test_staging_needs_no_sphinx():
    assert importlib.util.find_spec("docs.site.stage")
    said = "import sys; import docs.site.stage; assert 'sphinx' not in sys.modules"
    subprocess.run([sys.executable, "-c", said], cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
