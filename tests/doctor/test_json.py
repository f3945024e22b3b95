# SPDX-License-Identifier: MIT
"""docs/json.md names every key that --json prints, with its type, and none that it does not print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.report.facts import gather
from tests.doctor import cuda_files, made_up
from tests.doctor.test_doctor_checks import BARE

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
TYPES = {str: "text", int: "number", bool: "yes or no", type(None): "null"}


def documented():
    """By heading: {key: type}."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            found[line.removeprefix("## ")] = keys = {}
        elif row := re.match(r"\| `([^`]+)` \| ([^|]*) \|", line):
            keys[row[1]] = row[2].strip()
    return found


REPORT, CAUSE, LOG, FILE = documented().values()


def leaves(told, at=""):
    """(key as the page writes it, value) of all that is neither a list nor an object."""
    if isinstance(told, dict):
        for key, value in told.items():
            yield from leaves(value, f"{at}.{key}" if at else key)
    elif isinstance(told, list):
        for value in told:
            yield from leaves(value, f"{at}[]")
    else:
        yield at, told


def with_causes(keys):
    """A list of causes has the keys of a cause."""
    lists = [key for key, kind in keys.items() if kind == "a cause"]
    return {key: kind for key, kind in keys.items() if kind != "a cause"} | {
        f"{one}.{key}": f"{kind}, may be left out" for one in lists for key, kind in CAUSE.items()
    }


def kind_of(keys, key):
    stars = [one for one in keys if "*" in one and key.startswith(one.partition("*")[0])]
    return keys.get(key) or (keys[stars[0]] if stars else None)


def compare(keys, reports):
    keys, seen = with_causes(keys), set()
    for told in reports:
        assert told["schema"] == 1
        for key, value in leaves(told):
            kind = kind_of(keys, key)
            assert kind is not None, f"{PAGE.name} does not have {key}"
            assert TYPES[type(value)] in kind or kind.startswith("anything"), f"{key} is {value!r}, not {kind}"
            seen.add(key)
    always = {
        key for key, kind in keys.items() if "left out" not in kind and not kind.startswith("null") and "*" not in key
    }
    assert always <= seen, f"{PAGE.name} has what is never printed: {sorted(always - seen)}"


def test_the_report(tmp_path):
    ran = [{"name": "a", "right": "x"}, {"name": "b", "error": "y"}]
    on_a_gpu = {"gpus": [{"ordinal": 0, "capability": 90, "operators": ran, "untried": "z"}]}
    machines = [
        made_up.WORKSTATION.but(operators=on_a_gpu),
        made_up.WORKSTATION.but(torch={"error": "no answer", "hung": True}, variables={"CUDA_HOME": "/opt"}),
        made_up.WORKSTATION.but(driver={"error": "ended by signal 11", "crashed": True, "before": {"said": 1}}),
        made_up.ORIN,
        BARE,
        made_up.Made(),
    ]
    compare(REPORT, [gather(made.at(tmp_path / str(number))) for number, made in enumerate(machines)])


def test_checks_that_fail(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.doctor.machine.driver.gpus_on_the_bus", lambda _: 1 / 0)
    told = gather(made_up.WORKSTATION.at(tmp_path))
    assert told["unlooked"][0].keys() == {"error", "codes"}
    assert {"unlooked[].error", "unlooked[].codes[]"} <= set(REPORT)


def test_of_itself_alone(tmp_path):
    told = gather(made_up.Made().at(tmp_path), only_self=True)
    assert set(told) == {"schema", "build", "library", "operators", "findings", "unlooked", "success"}


def test_a_log(tmp_path, capsys):
    logs = ["nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", "all is well\n"]
    for number, text in enumerate(logs):
        (tmp_path / str(number)).write_text(text)
    compare(LOG, [printed(capsys, "explain", "--json", str(tmp_path / str(number))) for number in range(len(logs))])


def printed(capsys, *arguments):
    program.main(list(arguments))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [(), ("--kernels",), ("--for", "l4t-r36")])
def test_a_file(tmp_path, capsys, options):
    library, cut = made_up.EXTENSION.bytes(), made_up.EXTENSION.bytes()[:-200]
    wheel = cuda_files.wheel(tmp_path / "made-1.0-py3-none-manylinux_2_28_x86_64.whl", {"made/_C.so": library})
    (tmp_path / "cut.so").write_bytes(cut)
    (tmp_path / "text.so").write_text("nothing")
    files = [wheel, tmp_path / "cut.so", tmp_path / "text.so", tmp_path]
    compare(FILE, [printed(capsys, "xray", "--json", *options, str(file)) for file in files])
