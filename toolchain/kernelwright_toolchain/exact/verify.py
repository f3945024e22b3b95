# SPDX-License-Identifier: MIT
"""Makes a wheel again from the recipe in it, and says of each member: same, or what differs and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright_toolchain import providers, source
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.exact import conditions, rebuild, text, wheel
from kernelwright_toolchain.exact.compare import compare
from kernelwright_toolchain.exact.wheel import Difference, Wheel
from kernelwright_toolchain.request import DEFAULT_PROVIDER
from kernelwright_toolchain.targets import load


@dataclass(frozen=True)
class Verdict:
    """Empty `found` means the same bytes."""

    theirs: Wheel
    ours: Wheel
    found: tuple[Difference, ...]

    def lines(self) -> Iterator[str]:
        """One line for each member that is the same, or that both leave out; a word and a reason for each other."""
        different = {difference.member for difference in self.found}
        for name in sorted(self.theirs.members):
            if name not in different:
                yield text.printable(f"same       {name}")
        ours = wheel.left_out(self.ours)
        for name, serving in sorted(wheel.left_out(self.theirs).items()):
            if ours.get(name) == serving and serving not in different:
                yield text.printable(f"left out   {name}: what is loaded of it equals {serving}")
        for difference in self.found:
            yield text.printable(f"different  {difference}")


def _settings(given: Wheel, tree: Path) -> dict[str, str]:
    """The settings of the build, out of the wheel's statement; refused if this machine cannot build so."""
    found, table = {"provider": DEFAULT_PROVIDER, **given.recipe["build"]}, load(tree / "targets.toml")
    toolkit = table.toolkits.get(found["toolkit"])
    if toolkit is None:
        raise RequestError(
            f"{given.name} was made with toolkit {found['toolkit']!r:.60}; the table of {tree} has "
            f"{', '.join(table.toolkits)}. Name the sources of its commit with --source"
        )
    able, machine = toolkit.hosts.get(found["provider"], ()), providers.machine_of(table)
    if machine not in able:
        where = f"verify it on one of {', '.join(able)}" if able else f"there are {', '.join(toolkit.hosts)}"
        raise RequestError(
            f"{given.name} was made by {found['provider']!r:.60} with toolkit {toolkit.name}, which build machines of "
            f"{machine} do not have; {where}"
        )
    return found


def _tree_note(tree: Path, given: Wheel, commit: str) -> str:
    """Whether the tree is the one that the wheel was made from; `commit`: what the statement beside it says."""
    stated, here = given.recipe["source"]["sha256"], source.state(tree)
    if stated == here.sha256:
        return f"sources: {tree} is what the wheel was made from{f' ({commit})' if commit else ''}"
    where = f"commit {commit}" if commit else "the commit that the statement beside it named"
    return (
        f"sources: {tree} is NOT what the wheel was made from: that has the sha256 {stated:.64}, this {here.sha256} "
        f"(commit {here.commit or 'unknown'}{' with changes' if here.dirty else ''}); "
        f"check out {where} and name it with --source"
    )


def verify(path: Path, tree: Path, *, cached: bool, jobs: int | None) -> Verdict:
    """The verdict on one wheel. `cached`: images may come out of this tree's cache instead of the compiler."""
    theirs = wheel.read(path)
    settings = _settings(theirs, tree)
    print(text.printable(_tree_note(tree, theirs, wheel.commit_of(path, theirs.sha256))), file=sys.stderr, flush=True)
    first, second = conditions.pair(jobs=jobs, quick=True, provider=settings["provider"])
    at = replace(first, jobs=second.jobs)
    with rebuild.scratch() as base:
        tools = rebuild.provision(tree, settings, at.python)
        copy = rebuild.lay_out(tree, base, tools, at, backwards=False)
        made = rebuild.build(copy, settings, at, tools, base / "out", cached=cached)
        ours = wheel.read(made)
    found = [*wheel.false_claims(theirs), *compare(theirs, ours)]
    return Verdict(theirs, ours, tuple(found))
