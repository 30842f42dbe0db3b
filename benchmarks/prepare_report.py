"""What the benchmark of preparing text found, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from projection import Measured, Projection, Summary, powers, summarize
from recipe_cost import StepCost, by_stage, peak_mib, total_seconds

from fairseq_aiayn.evaluation.text_table import aligned_lines

TARGET_PAIRS = 4_500_000
TARGET_HOURS = 2
TARGET_GIB = 2

Steps = Sequence[StepCost]


def report(small: Measured, large: Measured, projections: Sequence[Projection]) -> str:
    """Return all tables, what dominates, and whether the target is met."""
    parts = [measured_table(run) for run in (small, large)]
    for projection in projections:
        parts += [projection_table(small, large, projection), verdict(projection)]
    return "\n\n".join(parts)


def measured_table(run: Measured) -> str:
    """Return a row for each stage, one for each of its steps where it has several, and the sum."""
    rows = [["stage", "seconds", "pairs/s", "lines/s", "peak MiB", "share"]]
    total = total_seconds(run.steps)
    for stage, steps in by_stage(run.steps).items():
        rows.append(_measured_row(stage, steps, run.pairs, total))
        if len(steps) > 1:
            rows += [_measured_row(f"  {s.step}", [s], run.pairs, total) for s in steps]
    rows.append(_measured_row("all", run.steps, run.pairs, total))
    return f"{run.pairs:,} pairs, {run.types:,} types\n" + "\n".join(aligned_lines(rows))


def _measured_row(name: str, steps: Steps, pairs: int, total: float) -> list[str]:
    seconds = total_seconds(steps)
    rate = pairs / seconds
    costs = f"{peak_mib(steps):,.0f}", f"{seconds / total:.1%}"
    return [name, f"{seconds:,.1f}", f"{rate:,.0f}", f"{2 * rate:,.0f}", *costs]


def projection_table(small: Measured, large: Measured, projection: Projection) -> str:
    """Return a row for each step: both projections, and the power of the pairs behind one."""
    rows = [["stage: step", "power", "h linear", "h power", "power", "GiB linear", "GiB power"]]
    grown = powers(small, large)
    for linear, power, exponents in zip(projection.linear, projection.power, grown, strict=True):
        name = f"{linear.stage}: {linear.step}" if linear.step else linear.stage
        time, memory = (f"{exponent:.2f}" for exponent in exponents)
        rows.append([name, *_cells(time, memory, [linear], [power])])
    rows.append(["all", *_cells("", "", projection.linear, projection.power)])
    title = (
        f"projected to {projection.pairs:,} pairs, {projection.pairs / large.pairs:,.0f} times as "
        f"many as measured, and {projection.types:,} types (how: benchmarks/projection.py)"
    )
    return f"{title}\n" + "\n".join(aligned_lines(rows))


def _cells(time: str, memory: str, linear: Steps, power: Steps) -> list[str]:
    hours = (f"{total_seconds(steps) / 3600:.2f}" for steps in (linear, power))
    gib = (f"{peak_mib(steps) / 1024:.2f}" for steps in (linear, power))
    return [time, *hours, memory, *gib]


def verdict(projection: Projection) -> str:
    """Say which stages dominate and, for TARGET_PAIRS, whether both projections meet the target."""
    lines = [
        f"{name}: {found.hours:.2f} hours, {found.slowest_share:.0%} of them in "
        f"{found.slowest_stage}; {found.gib:.2f} GiB, in {found.largest_stage}"
        for name, found in _summaries(projection).items()
    ]
    if projection.pairs == TARGET_PAIRS:
        words = ["missed", "met"]
        met = target_met(projection)
        lines.append(
            f"target for {TARGET_PAIRS:,} pairs: {TARGET_HOURS} hours {words[met['hours']]}, "
            f"{TARGET_GIB} GiB {words[met['gib']]}"
        )
    return "\n".join(lines)


def target_met(projection: Projection) -> dict[str, bool]:
    """Say whether both projections stay within the hours and the memory of the target."""
    found = _summaries(projection).values()
    return {
        "hours": all(summary.hours <= TARGET_HOURS for summary in found),
        "gib": all(summary.gib <= TARGET_GIB for summary in found),
    }


def _summaries(projection: Projection) -> dict[str, Summary]:
    return {"linear": summarize(projection.linear), "power": summarize(projection.power)}


def figures(
    small: Measured, large: Measured, projections: Sequence[Projection]
) -> dict[str, object]:
    """Return all figures of the tables as JSON has them."""
    target = {"pairs": TARGET_PAIRS, "hours": TARGET_HOURS, "gib": TARGET_GIB}
    for projection in projections:
        if projection.pairs == TARGET_PAIRS:
            target["met"] = target_met(projection)
    return {
        "measured": [asdict(run) for run in (small, large)],
        "powers": [
            {"step": step.step or step.stage, "seconds": round(time, 3), "memory": round(memory, 3)}
            for step, (time, memory) in zip(large.steps, powers(small, large), strict=True)
        ],
        "projected": [asdict(p) | {"summary": _as_json(p)} for p in projections],
        "target": target,
    }


def _as_json(projection: Projection) -> dict[str, object]:
    return {
        name: {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(found).items()}
        for name, found in _summaries(projection).items()
    }
