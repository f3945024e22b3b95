# SPDX-License-Identifier: MIT
"""The pages of --html, read by a parser: what they say is what --json says, and nothing in them runs or is fetched."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.html.report import report
from kernelwright.doctor.report.facts import gather
from tests.doctor import cuda_files
from tests.doctor.cuda_files import Library, container, ptx, sass
from tests.doctor.made_up import H100, WORKSTATION, torch

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=y>&amp;\u202e\x1b[2J"
_EMPTY = {"meta", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """The texts by the class of the innermost tag that has one; every tag and attribute that occurs."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.lines: list[list[str]] = []
        self._open: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self._open == [], "tags that are not closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in _EMPTY:
            return
        known = dict(attrs)
        name = known.get("id") or known.get("class", "")
        self._open.append((tag, name))
        if name:
            self.texts.setdefault(name, []).append("")
        if tag == "tr":
            self.lines.append([])
        if tag in {"td", "th"}:
            self.lines[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self._open:
            if name:
                self.texts[name][-1] += data
        if any(tag in {"td", "th"} for tag, _ in self._open):
            self.lines[-1][-1] += data


def look(text: str) -> Page:
    """What holds for every page."""
    page = Page(text)
    assert text.startswith("<!doctype html>\n")
    assert not {"script", "img", "iframe", "object", "embed", "link", "base", "form"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert names <= {"class", "id", "style", "scope", "lang", "charset", "name", "content", "http-equiv"}, names
    assert not any(word in text.lower() for word in ("url(", "@import", "javascript:"))
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text
    assert page.tags.count("main") == 1
    assert ("scope", "row") in page.attributes, "header cells"
    assert re.search(r"made on \d{4}-\d\d-\d\d$", page.texts["soft date"][0])
    return page


def sick(root, **variables):
    gpus = [H100, {"name": EVIL, "capability": 35, "memory": 12 << 30}]
    return WORKSTATION.but(
        driver={"level": 12020, "init": 0, "library": "/usr/lib/libcuda.so.1", "gpus": gpus},
        variables={"BNB_CUDA_VERSION": EVIL, **variables},
        files=torch("2.8.0+cpu", None),
    ).at(root)


def test_the_report(tmp_path):
    told = gather(sick(tmp_path))
    page = look(report(told))
    assert json.loads(page.texts["data"][0]) == json.loads(json.dumps(told))
    found = {each["code"]: each for each in told["findings"]}
    assert {"KW-074", "KW-085", "KW-021"} <= set(found)
    assert sorted(page.texts["code"]) == sorted(each["code"] for each in told["findings"])
    own = [each for each in told["findings"] if not each["explained_by"]]
    grades = [each["grade"] for each in own]
    assert grades == sorted(grades)  # what fails comes first
    assert [code for code in page.texts["code"] if not found[code]["explained_by"]] == [each["code"] for each in own]
    assert page.texts["fix"] == [seen(each["fix"]) for each in own]
    for part in ("title", "evidence"):
        assert sorted(page.texts[part]) == sorted(seen(each[part]) for each in told["findings"])
    assert page.texts["result"] == ["FAILED: 1 of the checks and operators"]
    first, second = (line for line in page.lines if line[:1] in (["0"], ["1"]))
    assert first[1:4] == ["NVIDIA H100", "9.0", "80 GiB"]
    assert second[1:4] == [seen(EVIL), "3.5", "12 GiB"]
    assert [first[4], second[4]] == [f"{gpu['image'] or 'none'}: {gpu['why']}" for gpu in told["gpus"]]
    for each in told["operators"]:
        assert [each["name"], "ok", each["right"]] in page.lines
    facts = dict(line for line in page.lines if len(line) == 2)
    assert facts["python"].startswith(f"{told['python']['version']}, {told['python']['executable']} (")
    assert facts["python"].endswith("), NumPy is not installed")


def seen(text: str) -> str:
    """As a page shows it: what turns text around, or is not to be seen, as its number."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def test_a_report_of_which_parts_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.doctor.machine.system.glibc", lambda _: 1 / 0)
    monkeypatch.setattr("kernelwright.doctor.machine.driver.libraries", lambda _: 1 / 0)
    told = gather(sick(tmp_path))
    page = look(report(told))
    assert ["system", "ZeroDivisionError: division by zero"] in page.lines


def xray(tmp_path, capsys, *options):
    page = tmp_path / "page.html"
    code = program.main(["xray", "--json", "--html", str(page), *options])
    return json.loads(capsys.readouterr().out), look(page.read_text(encoding="utf-8")), code


def test_a_wheel(tmp_path, capsys):
    good = Library(fat=container(*sass("80", "87"), ptx("90")), texts=b"/builds/me/x.cu\0")
    wheel = cuda_files.wheel(
        tmp_path / "made-1.0-py3-none-any.whl", {"made/a.so": good.bytes(), f"made/{'<b>&'}.so": good.bytes()}
    )
    told, page, code = xray(tmp_path, capsys, "--for", "l4t-r36", str(wheel))
    assert code == 1
    assert json.loads(page.texts["data"][0]) == told
    answer = told["verdicts"][0]["answer"]
    assert page.texts["word"][0] == answer["word"]
    head = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<main>")[2]
    assert -1 < head.find('"word"') < head.find("<table")
    assert page.texts["place"] == [one["place"] for one in told["verdicts"]]
    codes = {each["code"] for one in told["verdicts"] for part in one["parts"] for each in part["findings"]}
    assert set(page.texts["code"]) == codes | {each["code"] for each in told["findings"]}
    rows = {line[0]: line for line in page.lines if len(line) == 6}
    for row in told["code"]:
        assert rows[row["code"]][4] == str(row["images"])
    assert [text.split("  ")[0] for text in page.texts["file"]] == [file["name"] for file in told["files"]]


def test_a_page_that_cannot_be_written(tmp_path, capsys):
    assert program.main(["doctor", "--self", "--html", str(tmp_path)]) == 2
    assert "the page cannot be written: " in capsys.readouterr().err
    assert program.main(["doctor", "--html"]) == 2
    assert program.main(["xray", str(tmp_path), "--html"]) == 2


@pytest.mark.parametrize("verb", [["doctor", "--self"], ["xray"]])
def test_a_reader_of_the_text_that_goes_away(tmp_path, verb):
    """`… --html page | head -1`: the page is whole all the same."""
    page = tmp_path / "page.html"
    wheel = cuda_files.wheel(tmp_path / "a.whl", {"a.so": Library(fat=container(*sass("80"))).bytes()})
    command = [sys.executable, "-m", "kernelwright", *verb, "--html", str(page)]
    with subprocess.Popen([*command, *([str(wheel)] if verb == ["xray"] else [])], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.close()
        started.wait(timeout=60)
    look(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", ["--html=", "--html"])
def test_the_option(tmp_path, form):
    page = tmp_path / "report.html"
    given = [f"--html={page}"] if form.endswith("=") else ["--html", str(page)]
    assert program.main(["doctor", "--self", *given]) == 0
    assert look(page.read_text(encoding="utf-8")).texts["result"] == ["SUCCESS"]
