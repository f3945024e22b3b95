# SPDX-License-Identifier: MIT
"""`beside.py MADE OUT COMMIT DIRTY`: the statements of a build in a sandbox, with the commit that Nix knows.

The wheel is a function of its sources and is not touched: another commit with the same sources copies it, no more.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path


def main(made: Path, out: Path, commit: str, dirty: str) -> None:
    out.mkdir(parents=True)
    for wheel in made.glob("*.whl"):
        shutil.copyfile(wheel, out / wheel.name)
    for about in made.glob("*.intoto.json"):
        said = json.loads(about.read_text(encoding="utf-8"))
        if commit:
            said["predicate"]["made"] |= {"commit": commit, "dirty": dirty == "dirty"}
        (out / about.name).write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    (out / "SHA256SUMS").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
