# SPDX-License-Identifier: MIT
"""`python -I -S inside.py JSON`: runs a command in a mount namespace where directories lie at fixed paths below /kw.

It imports nothing of this project. No rights are needed where the kernel lets users make namespaces; where it does not,
this ends with REFUSED and says why, and nothing was run.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

REFUSED = 97
_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *words: object) -> None:
    if getattr(_LIBC, name)(*words):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _mount(source: str, target: str, flags: int, kind: str | None = None) -> None:
    _call("mount", source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), None)


def _namespace(kinds: int) -> None:
    """New namespaces: by root's own rights, or inside a user namespace in which this user is root."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            _call("unshare", kinds)
        except OSError:
            pass
        else:
            return
    _call("unshare", kinds | _NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _put(source: str, target: str) -> None:
    """A directory, a file or a link of the old root at the same name of the new one."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.mkdir(target)
        _mount(source, target, _BIND | _RECURSIVE)
    elif os.path.isfile(source):
        os.close(os.open(target, os.O_CREAT))
        _mount(source, target, _BIND)


def enter(root: str, places: dict[str, str], *, network: bool) -> None:
    """A new root with all that the old one has, and the places below /kw; in the order they are given.

    Without a network nothing can come into the build that no lock names.
    """
    _namespace(_NEWNS if network else _NEWNS | _NEWNET)
    _mount("none", "/", _RECURSIVE | _PRIVATE)
    _mount("tmpfs", root, 0, "tmpfs")
    for name in sorted(os.listdir("/")):
        if name != "kw":
            _put(f"/{name}", f"{root}/{name}")
    for target, source in places.items():
        to = root + target
        if os.path.isdir(source):
            os.makedirs(to, exist_ok=True)
        elif not os.path.exists(to):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            os.close(os.open(to, os.O_CREAT))
        _mount(source, to, _BIND | _RECURSIVE)
    os.chroot(root)


def main(text: str) -> None:
    given = json.loads(text)
    try:
        enter(given["root"], given["places"], network=given["network"])
    except OSError as error:
        print(f"no namespaces: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    os.chdir(given["cwd"])
    os.umask(0o022)
    environment = {**given["env"], "PWD": given["cwd"]}  # which compilers believe, where it is the same directory
    os.execvpe(given["command"][0], given["command"], environment)  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[1])
