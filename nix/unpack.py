# SPDX-License-Identifier: MIT
"""`unpack.py DIRECTORY WHEEL…`: lays out wheels as `pip install --target` does those without scripts of their own."""

import sys
import zipfile
from pathlib import Path


def main(place: Path, wheels: list[str]) -> None:
    place.mkdir(parents=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                path = Path(archive.extract(info, place))  # without the mode, by which zig is a program
                if info.external_attr >> 16 & 0o111 and not info.is_dir():
                    path.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
