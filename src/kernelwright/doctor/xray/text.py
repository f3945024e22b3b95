# SPDX-License-Identifier: MIT
"""What was found, as lines for a person."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._told import afterwards
from kernelwright.doctor.xray._torch import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTCOMES = {
    "runs": "RUNS",
    "compiles": "RUNS, once the driver has compiled it (JIT)",
    "partly": "PARTLY: it depends on the GPU, or on which of its files is loaded",
    "fails": "FAILS",
    "unknown": "UNKNOWN: no GPU to judge by",
}
NOTHING = "UNKNOWN: nothing in it can be judged"
PURE = "RUNS: nothing in it is compiled"
GETS = {
    "runs": "runs ({codes})",
    "compiles": "runs ({codes}), once the driver has compiled the PTX",
    "partly": "gets {codes}, and nothing for a part of it",
    "fails": "no code for it",
}
_KINDS = {"sass": "machine code", "ptx": "PTX", "lto": "for linking", "other": "of an unknown kind"}
_SHOWN = 5  # of a long list


def outcome_of(verdict: dict[str, Any]) -> str:
    if verdict["parts"]:
        return OUTCOMES[verdict["outcome"]]
    return PURE if verdict["outcome"] == "runs" else NOTHING


def plain(text: str) -> str:
    """Without what would steer a terminal: names in a file may be anything."""
    return "".join(each if each.isprintable() else "?" for each in text)


def amount(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB" if size >= 1000 else f"{size} B"


def _code(rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        packed = ", ".join(f"{count} {name}" for name, count in sorted(row["packing"].items()) if name != "none")
        unpacked = f", {amount(row['unpacked'])} unpacked ({packed})" if packed else ", not packed"
        kind = "relocatable code" if row["relinked"] else _KINDS[row["kind"]]
        version = f" {' '.join(row['versions'])}" if row["kind"] == "ptx" else ""
        yield f"{row['code']:<12} {kind + version:<32} {row['images']:>5} images {amount(row['bytes']):>10}{unpacked}"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return " ".join(texts[:_SHOWN]) + more


_THERE = {True: "is here", False: "is not here", None: "depends on the place"}
_FLOORS = {"glibc": "glibc", "GLIBCXX": "glibcxx", "CXXABI": "cxxabi"}


def _path(entry: dict[str, Any]) -> str:
    return f"{entry['path']} ({'in the wheel' if entry['inside'] else _THERE[entry['exists']]})"


def _built(file: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The GPU code and what made it."""
    loaded, anew = ([row["code"] for row in file["code"] if row["relinked"] == relinked] for relinked in (False, True))
    if loaded:
        yield "GPU code", f"{' '.join(loaded)} in {file['modules']} module{'s' if file['modules'] != 1 else ''}"
    if anew:
        yield "relocatable", f"{' '.join(anew)} (not loaded at run time)"
    if file["toolkit"]:
        yield "built with", "CUDA " + ", ".join(f"{one['release']} ({one['from']})" for one in file["toolkit"])


def _host(file: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What its code for the CPU needs and tells."""
    floors = [f"{name} {file[key]}" for name, key in _FLOORS.items() if file[key]]
    yield "needs", ", ".join(floors) or "no versioned symbols"
    if file["needed"]:
        yield "libraries", " ".join(file["needed"])
    if file["runpath"]:
        yield "RUNPATH", ", ".join(map(_path, file["runpath"]))
    if file["compilers"]:
        yield "CPU compiler", ", ".join(file["compilers"][:_SHOWN])
    if file["torch"]:
        torch = file["torch"]
        fits = f"; they fit {in_words(file)}" if in_words(file) else ""
        yield "torch", f"{torch['unstable']} symbols of its C++ interface, {torch['stable']} of its stable one{fits}"
    if file["leaks"]:
        yield "build paths", f"left in the file (harmless to you): {_some([leak['text'] for leak in file['leaks']])}"


def facts_of(file: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(word, what is so) of one file; the first word is empty, beside the file's name."""
    host = "machine" in file
    yield "", f"{file['name']}  {amount(file['size'])}" + (f", {file['machine']}" if host else "")
    yield from _built(file)
    if host:
        yield from _host(file)
    for code, names in file.get("kernels", {}).items():
        yield code, f"{len(names)} kernels: {' '.join(names)}"
    yield from (("problem", problem) for problem in file["problems"])
    yield from (("left out", skipped) for skipped in file["skipped"])


def _findings(findings: list[tuple[dict[str, Any], str]], *, say_where: bool) -> Iterator[str]:
    """Each cause once, with what was found and in which files."""
    by_code: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = defaultdict(list)
    for found, name in findings:
        by_code[found["grade"], found["code"]].append((found, name))
    for (grade, code), every in sorted(by_code.items()):
        yield f"  {grade} {code}  {every[0][0]['title']}"
        where: dict[str, list[str]] = defaultdict(list)
        for found, name in every:
            where[found["evidence"]].append(name)
        for evidence, names in where.items():
            yield f"    found: {evidence}" + (f" (in {_some(names)})" if say_where else "")
        yield f"    fix: {every[0][0]['fix']}"
        yield from [f"    then: {afterwards(every[0][0]['then'])}"] if every[0][0]["then"] else []


def _short(part: dict[str, Any]) -> str:
    return str(part["name"].rpartition("/")[2])


def _verdict(verdict: dict[str, Any]) -> Iterator[str]:
    yield f"{verdict['place']}: {outcome_of(verdict)}"
    several = len(verdict["parts"]) > 1
    same: dict[tuple[tuple[str, str, str, str], ...], list[str]] = defaultdict(list)
    for part in verdict["parts"]:
        gets = [(one["capability"], one["name"], one["outcome"], " ".join(one["codes"])) for one in part["gpus"]]
        same[tuple(gets)].append(_short(part))
    for gpus, names in same.items():
        if gpus and several:
            yield f"  {_some(names)}"
        for capability, name, outcome, codes in gpus:
            yield f"  {capability:<5} {name}: {GETS[outcome].format(codes=codes)}"
    findings = [(found, _short(part)) for part in verdict["parts"] for found in part["findings"]]
    yield from _findings(findings, say_where=several)


def gets(one: dict[str, Any]) -> str:
    """What one GPU gets, in words."""
    said = GETS[one["outcome"]].format(codes=" ".join(one["codes"]))
    others = f"; {one['others']} modules are for other GPUs" if one.get("others") and one["outcome"] != "fails" else ""
    files = f", in {one['files']} of {one['of']} files" if 0 < one.get("files", 0) < one.get("of", 0) else ""
    return said + others + files


def _head(told: dict[str, Any]) -> Iterator[str]:
    """The answers, then what it is."""
    for verdict in told["verdicts"]:
        yield f"{verdict['answer']['word']}: {verdict['answer']['text']}"
    wheel = told["wheel"]
    yield f"{told['path']}  {amount(told['size'])}, a {told['kind']}" + (
        f", tag {' '.join(wheel['tags'])}" if wheel else ""
    )


def _in_short(told: dict[str, Any]) -> Iterator[str]:
    """The GPUs that people know, what keeps it from running, what it requires."""
    if told["gpus"]:
        yield ""
    for one in told["gpus"]:
        yield f"{one['capability']:<5} {one['name']:<52} {gets(one)}"
    torch = next((words for file in told["files"] if (words := in_words(file))), "")
    required = [one for one in (told["wheel"] or {}).get("requires", []) if one.startswith("torch")]
    if torch or required:
        yield ""
    yield from [f"its symbols fit {torch}"] if torch else []
    yield from (f"it requires {one}" for one in required)
    failing = [
        (found, part["name"])
        for verdict in told["verdicts"]
        for part in [*verdict["parts"], {"name": "", "findings": verdict["findings"]}]
        for found in part["findings"]
        if found["grade"] == "fails"
    ]
    failing += [(found, "") for found in told["findings"] if found["grade"] == "fails"]
    if failing:
        yield ""
        yield from _findings(failing, say_where=False)
    yield from (f"problem: {problem}" for problem in told["problems"])
    yield ""
    yield "--all shows each file, its code and what it needs"


def lines(told: dict[str, Any], *, everything: bool = False) -> Iterator[str]:
    """The report. Each line is plain text, whatever the names in the file are."""
    every = list(_head(told))
    every += _whole(told) if everything else _in_short(told)
    yield from map(plain, every)


def _whole(told: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield from [*_code(told["code"])] or ["no GPU code"]
    for file in told["files"]:
        yield ""
        yield from (f"  {word:<13} {text}" if word else text for word, text in facts_of(file))
    yield from ["", f"{told['others']} other files were not looked into"] if told["others"] else []
    yield from (f"problem: {problem}" for problem in told["problems"])
    if told["findings"]:
        yield from ["", "wherever it is installed:"]
        yield from _findings([(found, "") for found in told["findings"]], say_where=False)
    for verdict in told["verdicts"]:
        yield from ["", *_verdict(verdict)]
        yield from _findings([(found, "") for found in verdict["findings"]], say_where=False)
