# SPDX-License-Identifier: MIT
"""Which pages stand where in the site's navigation: the order in which people ask."""

from __future__ import annotations

START = "index"
# Caption -> pages. Sphinx ends the build by the name of a page that is in none of them.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("start", "five-minutes"),
    "Use": ("use", "fusing", "distributed"),
    "Quantize": ("quantization", "fp8", "bitsandbytes"),
    "Train": ("train", "optimizers"),
    "Attention": ("attention",),
    "BitNet": ("bitnet",),
    "Your own project": ("own-project", "c-api", "building", "options", "environments", "wheels", "hub", "faults"),
    "Exactness": ("exactness",),
    "Diagnosis": ("errors", "own-causes", "xray", "json"),
    "API": ("api/operators", "api/modules"),
    "Causes": ("causes",),
    "Evidence": ("evidence", "benchmark", "results/index"),
    "Contribute": ("contributing", "architecture", "profiling", "releasing", "changes", "security", "conduct"),
}
# Files of the tree that are pages of the site under another name.
BESIDE = {
    "README.md": "readme",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changes",
    "SECURITY.md": "security",
    "CODE_OF_CONDUCT.md": "conduct",
}
# Pages that no caption leads to, with where they are linked from instead.
ORPHANS = ("readme",)  # docs/index.md


def toctrees() -> str:
    """The navigation as MyST: hidden on the page, shown by the theme beside every page."""
    parts = []
    for caption, names in SECTIONS.items():
        lines = "\n".join(names)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n")
    return "\n" + "\n".join(parts)
