# SPDX-License-Identifier: MIT
"""`python -m docs.site OUT`: the site, from this tree alone; `./kw docs` runs it with what locks/docs.txt lists."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from docs.site.stage import stage


def main() -> int:
    """Sphinx's exit code; its warnings are errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="emptied first")
    parser.add_argument("--version", required=True)
    parser.add_argument("--commits", default="", help="address that a commit's page begins with")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelwright-docs-") as scratch:
        source = Path(scratch) / "source"
        stage(source, given.commits)
        os.environ |= {"KW_DOCS_VERSION": given.version, "KW_DOCS_EXTRA": str(source / "extra")}
        shutil.rmtree(given.out, ignore_errors=True)
        words = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(Path(__file__).parent)]
        return int(sphinx([*words, "-d", str(Path(scratch) / "read"), str(source), str(given.out)]))


if __name__ == "__main__":
    raise SystemExit(main())
