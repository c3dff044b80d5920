"""Results of the launches in words."""

from medians import Results, Run, SameWork, medians

from nodewise.core.units import counted


def work_line(work: SameWork) -> str:
    """Return the check as text."""
    loss = f"loss {work.losses[0]:.4f} to {work.losses[-1]:.4f}"
    nodes = counted(work.nodes, "node")
    return f"{work.model}, {work.way}, {nodes}: {loss}, off by {work.off:.1e}"


def run_line(run: Run) -> str:
    """Return the run as text."""
    where = f"round {run.round}: {run.model}, {counted(run.nodes, 'node')}, {run.way}"
    return "; ".join([f"{where}: {1000 * run.step_s:.0f} ms a step", *run.outside])


def lines(results: Results) -> list[str]:
    """Return the medians as text, one per line."""
    found = medians(results)
    return [
        f"{one['model']}, {counted(one['nodes'], 'node')}, "
        f"{one['way']}{one['peer'] and ' / ' + one['peer']}: "
        f"{one['what']} {one['median']:.3f} ({one['low']:.3f} to {one['high']:.3f}, "
        f"{counted(one['rounds'], 'round')})"
        for one in found.to_dict("records")
    ]
