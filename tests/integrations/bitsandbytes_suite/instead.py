# SPDX-License-Identifier: MIT
"""A pytest plugin: kernelwright's package under bitsandbytes' name; an installed bitsandbytes is not seen."""

import importlib.machinery
import importlib.metadata
import inspect

from tests.integrations.bitsandbytes_suite import reached
from tests.integrations.bitsandbytes_suite.reached import pytest_runtest_logfinish

__all__ = ["pytest_runtest_logfinish"]

_find = importlib.machinery.PathFinder.find_spec
_distributions = importlib.metadata.MetadataPathFinder.find_distributions
_every = importlib.metadata.DistributionFinder.Context()


def _find_spec(name, *rest):
    return None if name.partition(".")[0] == "bitsandbytes" else _find(name, *rest)


def _find_distributions(context=_every):
    return (found for found in _distributions(context) if found.metadata["Name"] != "bitsandbytes")


# Static, since some call it on an instance (dill).
importlib.machinery.PathFinder.find_spec = staticmethod(_find_spec)
importlib.metadata.MetadataPathFinder.find_distributions = staticmethod(_find_distributions)
reached.count_operators()

import kernelwright.compat.bitsandbytes as ours

for _name in ours.functional.__all__:
    _function = getattr(ours.functional, _name)
    if inspect.isfunction(_function):
        setattr(ours.functional, _name, reached.counted(_function))
ours.install()
