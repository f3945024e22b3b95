# SPDX-License-Identifier: MIT
"""`python -m kernelwright_toolchain.wheel REQUEST`: the build backend, run where scikit-build-core is importable.

REQUEST is a JSON object; the last line of standard output names the wheel.
"""

from __future__ import annotations

import json
import sys

from kernelwright_toolchain.errors import KwError

ANSWER = "wheel: "


def main(text: str) -> int:
    from scikit_build_core.build import build_wheel

    from kernelwright_toolchain import pep517
    from kernelwright_toolchain.request import restored
    from kernelwright_toolchain.targets import load

    given = json.loads(text)
    table = load()
    try:
        request = restored(table, given["settings"])
        theirs = {"build-dir": given["build_dir"]}
        name = pep517.make(build_wheel, given["out"], table, request, theirs=theirs, jobs=given["jobs"])
    except KwError as error:
        print(f"error: {error}")
        return error.exit_code
    print(ANSWER + name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
