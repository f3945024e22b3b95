# SPDX-License-Identifier: MIT
"""Every way a build can be refused or fail, one class per cause, each with its own exit code.

A message says four things: what failed, on what, what was found there, and what to do next.
"""

from __future__ import annotations


class KwError(Exception):
    """Base of all errors that a person is meant to read; `exit_code` is what the process returns."""

    exit_code = 2


class TableError(KwError):
    """targets.toml is wrong; the message names the row."""

    exit_code = 10


class RequestError(KwError):
    """What was asked for does not exist or does not fit together: arch, toolkit, target, op."""

    exit_code = 11


class ToolMismatch(KwError):
    """A tool was found but is not the one that was asked for."""

    exit_code = 12


class ToolMissing(KwError):
    """A tool that is needed is not there, and this provider does not bring it."""

    exit_code = 13


class CompileError(KwError):
    """The compiler rejected a source; its whole output is in the message."""

    exit_code = 14


class DeterminismError(KwError):
    """A source or an option that would make the output depend on more than its inputs."""

    exit_code = 15


class GateError(KwError):
    """The built thing breaks a promise: glibc floor, exports, spills, a missing arch."""

    exit_code = 16


class ProvisionError(KwError):
    """The locked tools could not be installed."""

    exit_code = 17


class BusyError(KwError):
    """Another build holds this tree."""

    exit_code = 18


class WheelRefused(KwError):
    """A wheel on offer is not the one that its list, its name or the person says it is."""

    exit_code = 21


class DiskFull(KwError):
    """A file system has no room left for what is fetched or built."""

    exit_code = 22
