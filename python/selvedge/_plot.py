"""Plots as in the report of a run: the same colours, marks and intervals."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._frames import load

# As in the report's style sheet and script.
COLOURS = ["#0067a8", "#d05a00", "#008a66", "#b24f8c", "#b38600", "#3b9bd4", "#6b4fb8", "#55606e"]
MARKS = ["o", "s", "^", "D"]
DASHES = ["-", (0, (7, 3)), (0, (2, 3)), (0, (9, 3, 2, 3))]
OWN = {"point", "scheme", "metric", "unit", "mean", "ci95_half_width", "min", "max", "runs"}


def plot(
    results: Union[str, "os.PathLike[str]", Any], metric: str, axis: Optional[str] = None, *, ax: Any = None
) -> Any:
    """Draws a metric's mean over the seeds with its 95% interval and returns the matplotlib ``Axes``.

    ``results`` is a directory that ``run`` or ``sweep`` wrote, or its table ``summary``, from which rows can be left out first. Lines
    run over ``axis``, by default the only axis of the sweep; without an axis there is a bar for each scheme.
    """
    import matplotlib.pyplot as pyplot

    table = load(results, "summary") if isinstance(results, (str, os.PathLike)) else results
    columns = list(table.columns)
    rows = table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records")
    rows = [row for row in rows if row["metric"] == metric]
    if not rows:
        known = sorted(set(table["metric"]))
        raise ValueError(f"there is no metric {metric!r}: there are {', '.join(known[:40])}")
    axes = [column for column in columns if column not in OWN]
    if axis is None and len(axes) > 1:
        raise ValueError(f"the sweep has the axes {', '.join(axes)}: choose one, and leave out rows of other values")
    axis = axis if axis is not None else (axes[0] if axes else None)
    if axis is not None and axis not in axes:
        raise ValueError(f"there is no axis {axis!r}: there are {', '.join(axes) or 'none'}")
    ax = ax if ax is not None else pyplot.subplots()[1]
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    for n, scheme in enumerate(schemes):
        own = [row for row in rows if row["scheme"] == scheme]
        spread = [_half(row["ci95_half_width"]) for row in own]
        means = [row["mean"] for row in own]
        style = {"color": COLOURS[n % len(COLOURS)], "label": scheme}
        if axis is None:
            ax.bar([scheme], means, yerr=spread, capsize=4, **style)
            continue
        places = [row[axis] for row in own]
        if len(set(places)) < len(places):
            raise ValueError(f"several points have one value of {axis!r}: leave out rows of other axes' values")
        mark, dash = MARKS[n % len(MARKS)], DASHES[n % len(DASHES)]
        ax.errorbar(places, means, yerr=spread, marker=mark, linestyle=dash, capsize=4, linewidth=2.2, **style)
    unit = rows[0]["unit"]
    ax.set_ylabel(f"{metric} ({unit})" if unit else metric)
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    if axis is not None:
        ax.set_xlabel(axis)
        ax.legend()
    return ax


def _half(width: Any) -> float:
    """Nothing of a single seed, whose interval is not known."""
    return 0.0 if width is None or width != width else float(width)
