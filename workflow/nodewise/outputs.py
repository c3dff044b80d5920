"""A folder of generated files that is brought up to date, not written anew."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from nodewise.files import atomic, remove_leftovers, write_text

MANIFEST = ".written"


def update_folder(folder: Path, files: Mapping[str, str | bytes]) -> int:
    """Make `folder` hold `files` (relative path -> content); return how many were written.

    A file whose content is there already is left alone, time stamp and all. What an earlier update
    wrote and this one no longer has is removed; files that are not ours are never touched.

    Raises:
        ValueError: a path would leave the folder.
    """
    manifest = folder / MANIFEST
    before = manifest.read_text(encoding="utf-8").splitlines() if manifest.is_file() else []
    for name in {*before, *files}:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name:
            raise ValueError(f"{name!r} is not a plain path inside the folder")
    _list(manifest, {*before, *files})  # a run that is killed leaves no file that is not listed
    for name in set(before) - set(files):
        (folder / name).unlink(missing_ok=True)
    for parent in {(folder / name).parent for name in {*before, *files}}:
        remove_leftovers(parent)  # also where nothing is to be written
    written = sum(_write(folder / name, content) for name, content in files.items())
    _list(manifest, files)
    return written


def _list(manifest: Path, names: Iterable[str]) -> None:
    write_text(manifest, "".join(f"{name}\n" for name in sorted(names)))


def _write(path: Path, content: str | bytes) -> bool:
    data = content.encode("utf-8") if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data:
        return False
    with atomic(path) as temporary:
        temporary.write_bytes(data)
    return True
