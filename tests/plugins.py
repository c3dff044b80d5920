"""Another package's plug-ins, as an installation leaves them."""

from pathlib import Path


def declare(folder: Path, group: str, module: str) -> None:
    """Declare the module `module` of `folder` as an entry point of `group`."""
    info = folder / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{module} = {module}\n")
