# SPDX-License-Identifier: MIT
"""`python -m docs.site.stage OUT`: the site's pages as Sphinx is to find them; this needs no Sphinx itself."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.site import api, plots
from docs.site.pages import Staging

ROOT = Path(__file__).resolve().parents[2]


def stage(out: Path, commits: str = "") -> None:
    """Pages, and in extra/ the files they link to."""
    (out / "extra").mkdir(parents=True)
    staging = Staging(ROOT, out)
    plots.stage(staging, commits)
    api.stage(ROOT, out)
    staging.all()


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
