# SPDX-License-Identifier: MIT
"""Rules about the tree, checked without a compiler, a GPU or torch.

The layers meet through names, globs and one table. What would break quietly when a name is misspelt or a
number is typed a second time is a rule here; its docstring says why. A rule is a function of a tree, and
yields one line for each place that breaks it. The tests apply every rule to this project, and to small trees
with a violation planted in them (`plants*.py`), so that a rule that has stopped seeing is noticed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.layout import (
    plants,
    plants_operators,
    plants_torch,
    plants_words,
    rules_documents,
    rules_files,
    rules_native,
    rules_python,
    rules_torch,
    rules_values,
    rules_words,
)
from tests.layout.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
MODULES = (rules_documents, rules_files, rules_native, rules_python, rules_torch, rules_values, rules_words)
PLANTS = [*plants.PLANTS, *plants_operators.PLANTS, *plants_torch.PLANTS, *plants_words.PLANTS]
Rule = Callable[[Tree], Iterator[str]]
RULES: dict[str, Rule] = {
    name: rule
    for module in MODULES
    for name, rule in inspect.getmembers(module, inspect.isfunction)
    if rule.__module__ == module.__name__ and not name.startswith("_")
}


def plant(root: Path, files: dict[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Tree(root)


@pytest.fixture(scope="module")
def project() -> Tree:
    return Tree(ROOT)


@pytest.mark.parametrize("name", RULES)
def test_the_project_keeps(name: str, project: Tree):
    broken = sorted(RULES[name](project))
    assert not broken, "\n".join([f"{name}: {RULES[name].__doc__}", *broken])


@pytest.mark.parametrize("case", PLANTS, ids=lambda case: f"{case.rule}-{case.says[:40]}")
def test_a_planted_violation_is_seen(case, tmp_path: Path):
    seen = list(RULES[case.rule](plant(tmp_path, case.files)))
    assert len(seen) == 1, seen
    assert case.says in seen[0]


@pytest.mark.parametrize("case", PLANTS, ids=lambda case: f"{case.rule}-{case.says[:40]}")
def test_nothing_is_seen_once_it_is_put_right(case, tmp_path: Path):
    assert list(RULES[case.rule](plant(tmp_path, {**case.files, **case.right}))) == []


def test_every_rule_has_a_plant_and_a_reason():
    assert {case.rule for case in PLANTS} == set(RULES)
    assert [name for name, rule in RULES.items() if not inspect.getdoc(rule)] == []


def test_rules_look_at_this_project_and_not_at_nothing(project: Tree):
    assert "targets.toml" in project.files
    assert "toolchain/kernelwright_toolchain/targets/read.py" in project.sources()
    assert {path for path, _ in project.python("toolchain")} >= {"toolchain/kernelwright_toolchain/errors.py"}


def test_a_tree_without_git_has_the_same_files(project: Tree, tmp_path: Path):
    copied = {path: project.text(path) for path in project.files}
    assert plant(tmp_path, copied).files == project.files


def test_a_machine_without_git_sees_the_same_files(project: Tree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert Tree(project.root).files == project.files
