# SPDX-License-Identifier: MIT
"""The places that a command line asks about: GPUs by the names people use, with a driver, a JetPack, a torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.doctor.xray._place import Gpu, Place, Torch, UnknownTarget, table
from kernelwright.doctor.xray._serve import Capability, capability

if TYPE_CHECKING:
    from collections.abc import Iterator

# CUDA levels of drivers between those that the table names, by their branch.
_BRANCHES = {
    450: (11, 0),
    455: (11, 1),
    460: (11, 2),
    465: (11, 3),
    470: (11, 4),
    495: (11, 5),
    510: (11, 6),
    515: (11, 7),
    520: (11, 8),
    525: (12, 0),
    530: (12, 1),
    545: (12, 3),
    555: (12, 5),
    565: (12, 7),
    575: (12, 9),
    590: (13, 1),
}
# GPUs that are older than the table's rows.
_OLDER = {
    "k80": (3, 7),
    "gtx 9": (5, 2),
    "m40": (5, 2),
    "m60": (5, 2),
    "jetson nano": (5, 3),
    "p100": (6, 0),
    "gtx 10": (6, 1),
    "p4": (6, 1),
    "p40": (6, 1),
    "titan x": (6, 1),
    "jetson tx2": (6, 2),
    "quadro rtx": (7, 5),
    "gb10": (12, 1),
    "spark": (12, 1),
}
_XAVIER, _ORIN, _THOR = (7, 2), (8, 7), (11, 0)
_BOARDS = {_XAVIER: 5, _ORIN: 6, _THOR: 7}  # and the JetPack that is meant where none is named
_OF_JETPACK = {5: (_XAVIER, _ORIN), 6: (_ORIN,), 7: (_THOR, _ORIN)}


@dataclass(frozen=True)
class Asked:
    """The values of --gpu, --driver, --jetpack and --torch, as they were given."""

    gpus: tuple[str, ...] = ()
    driver: str = ""
    jetpack: str = ""
    torch: str = ""

    def __bool__(self) -> bool:
        return bool(self.gpus or self.driver or self.jetpack or self.torch)


def _plain(name: str) -> str:
    return re.sub(r"\b\d+ ?gb\b.*|[\s_-]+|nvidia|geforce|tesla", "", name.lower())


def _names() -> Iterator[tuple[str, Capability]]:
    for code in table()["codes"].values():
        for board in code.get("boards", []) if code["kind"] == "cubin" else []:
            yield board, capability(code["runs_on"][0])
    yield from _OLDER.items()


def _is(name: str, board: str) -> bool:
    """Whether a name is a board's, one of its series (RTX 40, GTX 10), or its last word (orin)."""
    given, known = _plain(name), _plain(board)
    if given == known:
        return True
    if re.search(r"x\d{1,2}$", known) and re.match(rf"{known}\d{{2,3}}(?!\d)", given):
        return True
    left = given.removeprefix(known)
    if left != given and not re.match(r"[a-z]?\d|s$", left):  # an L40 is no L4, and an L40S neither
        return True
    return len(given) > 3 and (known.endswith(given) or given in board.lower().split())


def gpu_of(name: str) -> Gpu:
    """By its name, its compute capability (9.0) or its code."""
    number = re.fullmatch(r"(?:sm_|compute_|cc ?)?(\d{1,2})\.?(\d)[af]?", name.strip().lower())
    if number:
        return Gpu(name, (int(number[1]), int(number[2])))
    digits = re.fullmatch(r"\d{4}(ti|super|d)?", _plain(name))
    fit = [(board, found) for board, found in _names() if _is(f"rtx{name}" if digits else name, board)]
    if not fit:
        known = ", ".join(dict.fromkeys(board for board, _ in _names()))
        raise UnknownTarget(
            f"there is no GPU {name!r} in the table: it has {known}; a compute capability such as 9.0 goes too"
        )
    return Gpu(name, max(fit, key=lambda one: len(one[0]))[1])


def level_of(driver: str) -> Capability:
    """The CUDA level of a driver: of its release, its branch, or as it is written itself."""
    rows = {
        int(row["driver"]["linux"].split(".")[0]): capability(row["driver"]["cuda"])
        for row in table()["toolkits"].values()
    }
    known = {**_BRANCHES, **rows}
    level = re.fullmatch(r"(?:cuda ?)?(\d{1,2})\.(\d)", driver.lower())
    if level:
        return int(level[1]), int(level[2])
    branch = re.fullmatch(r"(\d{3})(\.\d+)*", driver)
    fit = [number for number in known if branch and number <= int(branch[1])]
    if not fit:
        raise UnknownTarget(
            f"--driver {driver!r} is neither a driver's release (535, 570.86.10) nor a CUDA level (11.8)"
        )
    return known[max(fit)]


def torch_of(text: str) -> Torch:
    found = re.fullmatch(r"v?(\d+)\.(\d+)((?:\.\d+)*)(?:\+(?:cu(\d{2})(\d)|cpu|[\w.]+))?", text)
    if not found:
        raise UnknownTarget(f"--torch {text!r} is no release of torch such as 2.9 or 2.9.1+cpu")
    release = tuple(int(part) for part in f"{found[1]}.{found[2]}{found[3]}".split("."))
    cuda = (int(found[4]), int(found[5])) if found[4] else None
    return Torch(release, cuda[0] if cuda else None, text, cuda)


def _on_board(place: Place, jetpack: int) -> Place:
    """What a JetPack has; that of the table's own target is read there."""
    newest = max(capability(row["release"]) for row in table()["toolkits"].values())
    own = next(row["system"] for row in table()["targets"].values() if row.get("system"))
    known = {
        5: ((11, 4), (2, 31), "tegra"),
        6: (capability(own["cuda"]), capability(own["glibc"]), own["userland"]),
        7: (newest, (2, 39), "sbsa"),
    }
    level, glibc, userland = known[jetpack]
    named = replace(place, name=f"{place.name}, JetPack {jetpack}", machine="aarch64", glibc=glibc, userland=userland)
    return replace(named, level=place.level or level)


def _jetpack(asked: Asked, name: str) -> int:
    """The JetPack that is meant; 0 for none."""
    given = re.fullmatch(r"jetpack ?(\d+)(\.\d+)*", name.lower()) or re.fullmatch(r"(\d+)(\.\d+)*", asked.jetpack)
    if asked.jetpack and not re.fullmatch(r"(\d+)(\.\d+)*", asked.jetpack):
        raise UnknownTarget(f"--jetpack {asked.jetpack!r} is no number; there are {', '.join(map(str, _OF_JETPACK))}")
    number = int(given[1]) if given else 0
    if number and number not in _OF_JETPACK:
        raise UnknownTarget(f"there is no JetPack {number} here; there are {', '.join(map(str, _OF_JETPACK))}")
    return number


def places(asked: Asked) -> list[Place]:
    """One for each GPU; with a JetPack alone one for each board that it is for."""
    level = level_of(asked.driver) if asked.driver else None
    torch = torch_of(asked.torch) if asked.torch else None
    names = asked.gpus or ((f"jetpack {asked.jetpack}",) if asked.jetpack else ())
    found = []
    for name in names:
        jetpack = _jetpack(asked, name)
        alone = name.lower().startswith("jetpack")
        boards = {number: board for board, number in reversed([*_names()]) if number in _BOARDS}
        gpus = [Gpu(boards[one], one) for one in _OF_JETPACK[jetpack]] if alone and jetpack else [gpu_of(name)]
        for gpu in gpus:
            driver = f", driver {asked.driver}" if asked.driver else ""
            with_torch = f", torch {asked.torch}" if asked.torch else ""
            place = Place(f"{gpu.name}{driver}", "", (gpu,), level=level, torch=torch)
            of_board = jetpack or _BOARDS.get(gpu.capability, 0)
            place = _on_board(place, of_board) if of_board else place
            found.append(replace(place, name=f"{place.name}{with_torch}"))
    return found or [
        Place(f"driver {asked.driver}" if asked.driver else f"torch {asked.torch}", "", (), level=level, torch=torch)
    ]
