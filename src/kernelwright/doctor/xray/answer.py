# SPDX-License-Identifier: MIT
"""The answer to what was asked: yes, no, or which file; and what each GPU that people know gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray import _serve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kernelwright.doctor.xray._judge import Subject

YES, NO, WHICH, PARTLY, UNKNOWN = "yes", "no", "which file", "partly", "unknown"
_GOOD = frozenset({"runs", "compiles"})
_SHOWN = 4


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _codes(parts: Iterable[dict[str, Any]]) -> str:
    found = dict.fromkeys(code for part in parts for one in part["gpus"] for code in one["codes"])
    return f" ({' '.join(found)})" if found else ""


def _taken(verdict: dict[str, Any], with_gpus: Sequence[dict[str, Any]]) -> str:
    """Where a package has builds for several releases of CUDA: the file that is meant."""
    return f", by {_listed([_short(part['name']) for part in with_gpus])}" if verdict["not_taken"] else ""


def _reason(verdict: dict[str, Any]) -> str:
    """The first thing that fails, in its own words."""
    every = [*verdict["findings"], *(found for part in verdict["parts"] for found in part["findings"])]
    return next((f"{found['evidence']} ({found['code']})" for found in every if found["grade"] == "fails"), "")


def answer(verdict: dict[str, Any]) -> dict[str, str]:
    """{"word", "text"} of one verdict."""
    outcome, place = verdict["outcome"], verdict["place"]
    with_gpus = [part for part in verdict["parts"] if part["gpus"]]
    word, text = UNKNOWN, f"{place} has no GPU to judge by; ask about one: --gpu h100"
    if outcome in _GOOD and not verdict["parts"]:
        word, text = YES, f"nothing in it is compiled, {place} or any other"
    elif outcome in _GOOD and not with_gpus:
        word, text = YES, f"nothing in it speaks against {place}; it has no GPU code of its own"
    elif outcome in _GOOD:
        how = ", once the driver has compiled it" if outcome == "compiles" else ""
        word, text = YES, f"it runs on {place}{how}{_codes(with_gpus)}{_taken(verdict, with_gpus)}"
    elif outcome == "partly":
        word, text = _partly(verdict, with_gpus)
    elif outcome == "fails":
        word, text = NO, f"it does not run on {place}: {_reason(verdict) or 'see below'}"
    elif verdict["has_gpus"] or not verdict["parts"]:
        text = f"nothing in it can be judged for {place}"
    return {"word": word, "text": text}


def _partly(verdict: dict[str, Any], with_gpus: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Which of its files, or that some of its modules have nothing."""
    good = [f"{_short(part['name'])}{_codes([part])}" for part in with_gpus if part["outcome"] in _GOOD]
    bad = [_short(part["name"]) for part in with_gpus if part["outcome"] == "fails"]
    if good and bad:
        verb = "runs" if len(good) == 1 else "run"
        return WHICH, f"on {verdict['place']} {_listed(good)} {verb}; not {_listed(bad)}"
    reason = _reason(verdict) or _some_lack(with_gpus)
    return PARTLY, f"{verdict['place']} gets code for a part of it alone: {reason}"


def _some_lack(parts: Iterable[dict[str, Any]]) -> str:
    found = [found["evidence"] for part in parts for found in part["findings"] if found["code"] == "KW-010"]
    return found[0] if found else "not all of its modules have code for it"


def gpus(subjects: Sequence[Subject], table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each GPU of the table gets of all files together, whatever its driver: one row for each capability."""
    with_code = [subject for subject in subjects if subject.modules and not subject.facts.get("cut")]
    if not with_code:
        return
    told: set[str] = set()
    for code in table["codes"].values():
        if code["kind"] != "cubin" or not code.get("boards") or code["runs_on"][0] in told:
            continue
        told.add(code["runs_on"][0])
        own = _serve.capability(code["runs_on"][0])
        found = [_serve.serve(subject.modules, own, None, table) for subject in with_code]
        good = [one for one in found if one.outcome in _GOOD]
        outcome = "fails" if not good else "runs" if any(one.outcome == "runs" for one in good) else "compiles"
        if found and any(one.outcome == "partly" for one in found) and not good:
            outcome = "partly"
        yield {
            "capability": code["runs_on"][0],
            "name": ", ".join(code["boards"]),
            "outcome": outcome,
            "codes": sorted({each for one in found for each in one.codes}),
            "files": len(good),
            "of": len(found),
            "others": sum(one.others for one in good),
        }
