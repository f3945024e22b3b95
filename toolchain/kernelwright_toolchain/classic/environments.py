# SPDX-License-Identifier: MIT
"""What `kwt init` writes of Nix and conda: a shell and an environment with a project's toolkit and libraries."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kernelwright_toolchain.classic import toolkit
from kernelwright_toolchain.locking import conda
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Table, Target, Toolkit
from kernelwright_toolchain.workflows.render import fill

FLAKE = "flake.nix"
_TEMPLATE = Path(__file__).resolve().parent / f"{FLAKE}.in"
_TOOLS = ("python=3.11", "cmake", "ninja", "pip")
_HEAD = "# Written by `kwt init`; yours from here on.\n"
_INSIDE = "# In the environment: pip install kernelwright-toolchain=={version}, then kwt build --provider system\n"


def _released(table: Table) -> list[Target]:
    """What a flake of kernelwright has a shell for without being told which: one target a kind of machine."""
    return [target for target in table.targets.values() if target.release]


def flake_text(settings: Settings, table: Table) -> str:
    """A shell for each kind of machine; for a device-only package its wheel too, where the locked compilers are."""
    names = " ".join(json.dumps(library.name) for library in toolkit.libraries_of(table, settings.libraries))
    lines = []
    for target in _released(table):
        system, kit = f"{target.machine}-linux", table.toolkits[target.toolkit]
        if settings.kernels and target.machine in kit.hosts["pip"]:
            lines += [f"packages.{system}.default = kernelwright.lib.buildWheel {{"]
            lines += [f'  system = "{system}";', "  src = self;", "};"]
        lines += [f"devShells.{system}.default = kernelwright.lib.mkKernelShell {{", f'  system = "{system}";']
        lines += [*([f"  libraries = [ {names} ];"] if names else []), "};"]
    reference = conda.toolkit(table)
    values = {
        "name": re.sub(r'["\\$]', "", settings.name), "outputs": "\n".join(f"      {line}" for line in lines),
        "toolkit": reference.name, "release": str(reference.release),
    }  # fmt: skip
    text = _TEMPLATE.read_text(encoding="utf-8").partition("\n")[2]  # whose licence it is, its author says
    return fill(text, values, FLAKE)


def kit_of(settings: Settings, table: Table) -> Toolkit:
    """The toolkit of the conda environment: the project's own. Whether the channel has it, nobody was asked."""
    return table.toolkits.get(settings.toolkit or "") or toolkit.row_of(None, table)


def conda_texts(settings: Settings, table: Table, version: str) -> dict[str, str]:
    """An environment for each kind of machine, and virtual-packages.yml; conda-lock reads all."""
    kit = kit_of(settings, table)
    libraries = [library.conda for library in toolkit.libraries_of(table, settings.libraries)]
    head = _HEAD + _INSIDE.format(version=version)
    head += f"name: {re.sub(r'[^a-z0-9._-]+', '-', settings.name.lower())}\n"
    found = {conda.VIRTUAL: _HEAD + conda.virtual_body(table, kit)}
    for one in conda.platforms(table):
        wanted = [*conda.specs(table, kit, one), *libraries, *_TOOLS]
        found[one.environment] = head + conda.environment_body([one.subdir], wanted)
    return found
