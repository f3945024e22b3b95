# SPDX-License-Identifier: MIT
"""The pages of the recorded results: tables that can be read as they are, of which static/plots.js makes bars."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from docs.site.api import FAMILIES
from docs.site.docstrings import escaped
from docs.site.figures import NOT_DRAWN, OURS, Figures, Record, Row, results
from docs.site.pages import Staging, write

MODELS = "models"  # the page of what belongs to no family
TITLES = {**FAMILIES, MODELS: "Whole models and calls"}
LIMIT = "limit"


def _slug(*parts: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def shown(value: float | None) -> str:
    """Four digits at most, as the records have them."""
    return "" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _cells(row: Row, who: list[str], better: bool) -> Iterator[str]:
    best = (max if better else min)(row.values.values())
    for name in who:
        value = row.values.get(name)
        data = "" if value is None else f' data-value="{value:g}"'
        text = shown(value) or "-"
        yield f"<td{data}>{f'<strong>{text}</strong>' if value == best else text}</td>"


def _row(row: Row, number: int, figures: Figures, record: Record, limits: bool) -> str:
    place = record.figures.index(figures)  # titles that differ by an underscore are one slug
    name = _slug(Path(record.path).stem, str(place), str(number))
    cells = "".join(_cells(row, figures.who(), figures.more_is_better))
    if limits:
        data = "" if row.limit is None else f' data-value="{row.limit:.4g}"'
        cells += f"<td{data}>{shown(row.limit) or '-'}</td>"
    source = f'<a href="#{_slug(record.path)}">{html.escape(record.commit[:10])}</a>'
    return f'<tr id="{name}"><th scope="row">{html.escape(row.case)}</th>{cells}<td>{source}</td></tr>'


def table(figures: Figures, record: Record) -> str:
    """One table, with what the script needs to draw it."""
    who = figures.who()
    limits = any(row.limit is not None for row in figures.rows)
    heads = "".join(f'<th scope="col" data-who="{html.escape(name)}">{html.escape(name)}</th>' for name in who)
    if limits:
        heads += f'<th scope="col" data-who="{LIMIT}">{LIMIT}</th>'
    rows = "\n".join(_row(row, number, figures, record, limits) for number, row in enumerate(figures.rows))
    device = html.escape(record.facts.get("device", ""))
    caption = f"{html.escape(figures.title)}, {figures.unit}, {device}"
    more = " data-more" if figures.more_is_better else ""
    return (
        f'<div class="kw-figures" data-unit="{figures.unit}" data-ours="{OURS}"{more}>\n'
        f'<div class="kw-scroll" role="region" tabindex="0" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n"
        f'<thead><tr><th scope="col">case</th>{heads}<th scope="col">record</th></tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>\n</div>"
    )


def _source(record: Record, staging: Staging, commits: str) -> str:
    """Where the figures of a record come from: file, commit, command, machine."""
    file = f"../{staging.file(record.path)}"
    commit = html.escape(record.commit)
    linked = (
        f'<a href="{html.escape(commits)}/{commit}"><code>{commit}</code></a>' if commits else f"<code>{commit}</code>"
    )
    commands = "<br>".join(f"<code>{html.escape(command)}</code>" for command in record.commands) or "not recorded"
    facts = "; ".join(f"{key} {html.escape(value)}" for key, value in record.facts.items())
    return (
        f'<dl class="kw-source" id="{_slug(record.path)}">\n'
        f'<dt>record</dt><dd><a href="{file}">{html.escape(record.path)}</a></dd>\n'
        f"<dt>commit</dt><dd>{linked}</dd>\n<dt>command</dt><dd>{commands}</dd>\n<dt>machine</dt><dd>{facts}</dd>\n</dl>"
    )


def _raw(text: str) -> str:
    return f"`````{{raw}} html\n{text}\n`````"


def family_page(name: str, records: list[Record], staging: Staging, commits: str) -> str:
    """One page: each record, what it says of itself, its tables."""
    parts = [f"# {TITLES.get(name, name)}: results"]
    parts.append(
        "Each case has its own scale; its shortest bar is the fastest (the longest where tokens a second are counted). "
        "A bar leads to its figure in the table, and from there to record, commit and command."
    )
    for record in records:
        parts += (
            [f"## {Path(record.path).stem}", escaped(record.what)] if record.what else [f"## {Path(record.path).stem}"]
        )
        parts.append(_raw(_source(record, staging, commits)))
        for figures in record.figures:
            parts += [f"### {escaped(figures.title)}", _raw(table(figures, record))]
    return "\n\n".join(parts) + "\n"


def stage(staging: Staging, commits: str) -> None:
    """The page of every family, and one that lists them."""
    found = {family or MODELS: records for family, records in results(staging.root).items()}
    names = sorted(found, key=lambda name: (name == MODELS, name))
    for name in names:
        write(staging.out / "results" / f"{name}.md", family_page(name, found[name], staging, commits))
    lines = [
        "# Results",
        "",
        "What was timed, on which machine, at which commit; [evidence](../evidence.md) says what it shows.",
        "",
    ]
    for name in names:
        devices = ", ".join(dict.fromkeys(record.facts["device"] for record in found[name]))
        lines.append(f"* [{TITLES.get(name, name)}]({name}.md): {devices}")
    lines += ["", "Records without a plot:", ""]
    lines += [f'* <a href="../{staging.file(path)}">{path}</a>: {why}' for path, why in NOT_DRAWN.items()]
    lines += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    write(staging.out / "results" / "index.md", "\n".join(lines))
