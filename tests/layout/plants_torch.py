# SPDX-License-Identifier: MIT
"""As plants.py, for the rule about names of torch."""

from __future__ import annotations

from tests.layout.plants import SPDX, Plant
from tests.layout.torch_names import NAMES

RULE = "what_it_takes_from_torch_is_recorded"
PROJECT = 'torch = ["torch>=2.4"]\n'
LIST = "# torch 2.4.1 has these\n"


def plant(code: str, names: str, says: str, right: dict[str, str]) -> Plant:
    files = {"src/kernelwright/a.py": SPDX + code, NAMES: LIST + names, "pyproject.toml": PROJECT}
    return Plant(RULE, files, says, right)


def lacks(code: str, name: str, *others: str) -> Plant:
    """Code whose one name is not in the list."""
    rest = "".join(f"{other}\n" for other in others)
    return plant(code, rest, f"takes {name}, which", {NAMES: f"{LIST}{rest}{name}\n"})


GIVEN = "def a(torch: Any) -> None:\n"
LATER = f"{GIVEN}    keys = torch.Keys\n{{}}    keys().number()\n"
ASKED = f"{GIVEN}    keys = torch.Keys\n    if hasattr(keys, 'number'):\n        keys().number()\n"

PLANTS = [
    lacks("import torch\n\ntorch.rms(1)\n", "torch.rms", "torch"),
    lacks(f"{GIVEN}    torch.nn.functional.rms(1)\n", "torch.nn.functional.rms"),
    lacks("from torch.nn import functional as F\n\nF.rms(1)\n", "torch.nn.functional.rms", "torch.nn.functional"),
    lacks("from torch import nn\n", "torch.nn"),
    lacks(LATER.format(""), ".number", "torch.Keys"),
    lacks(
        f"import json\n{GIVEN}    json.dumps(str(torch.Keys).strip())\n    torch.Keys().json()\n", ".json", "torch.Keys"
    ),
    plant(
        LATER.format(""),
        "torch.Keys\n.number since 2.5\n",
        "came with torch 2.5",
        {"src/kernelwright/a.py": SPDX + ASKED},
    ),
    plant(
        f"{GIVEN}    torch.Keys()\n",
        "torch.Keys\ntorch.Gone\n",
        "nothing uses torch.Gone",
        {NAMES: f"{LIST}torch.Keys\n"},
    ),
    Plant(
        RULE,
        {
            "src/kernelwright/a.py": f"{SPDX}{GIVEN}    torch.Keys()\n",
            NAMES: f"{LIST}torch.Keys\n",
            "pyproject.toml": PROJECT.replace("2.4", "2.6"),
        },
        "made with torch 2.4, which is not",
        {"pyproject.toml": PROJECT},
    ),
]
