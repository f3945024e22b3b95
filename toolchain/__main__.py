# SPDX-License-Identifier: MIT
"""`python -m toolchain VERB …`: each verb is a file of toolchain/commands/, found by its name."""

from __future__ import annotations

import argparse
import ast
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from toolchain.errors import KwError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = Path(__file__).resolve().parent / "commands"


def _about(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def verbs() -> dict[str, str]:
    """verb -> what it does. Read, not imported: one verb's needs are not another's."""
    files = sorted(path for path in COMMANDS.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem.replace("_", "-"): _about(path) for path in files}


def usage() -> str:
    known = verbs()
    width = max(map(len, known), default=0)
    lines = [f"  {verb:<{width}}  {about}" for verb, about in known.items()]
    return "\n".join(["usage: python -m toolchain VERB [-h] ...", "", *lines])


def _terminated(number: int, _frame: object) -> NoReturn:
    """Unwinds, so that what was started is ended and what was half done is cleaned up."""
    sys.exit(128 + number)


def main(argv: Sequence[str]) -> int:
    verb = argv[0] if argv else ""
    if verb in {"-h", "--help"}:
        print(usage())
        return 0
    if verb not in verbs():
        print(f"{f'no verb {verb!r}' if verb else 'no verb given'}\n{usage()}", file=sys.stderr)
        return 2
    command = import_module(f"toolchain.commands.{verb.replace('-', '_')}")
    parser = argparse.ArgumentParser(prog=f"python -m toolchain {verb}", description=command.__doc__)
    command.add_arguments(parser)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return int(command.run(parser.parse_args(argv[1:])))
    except KwError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
