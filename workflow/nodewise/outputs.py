"""A folder of generated files that is brought up to date, not written anew."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from nodewise.files import atomic, write_text

MANIFEST = ".written"
_MADE_OF = ".made_of"
DONE = ".done"
"""Stands for the folder in the workflow, which removes what a job makes before that job runs."""


def digest(*texts: str) -> str:
    """Return what tells a file that is made of `texts` from one that is made of others."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def unchanged(folder: Path, made_of: Mapping[str, str]) -> set[str]:
    """Return those of the files (relative path -> what it is made of) that need not be made again.

    They are there, and the last `update_folder` was told that they are made of the same.
    """
    before = {}
    with suppress(FileNotFoundError):
        before = json.loads((folder / _MADE_OF).read_text(encoding="utf-8"))
    same = {name for name, of in made_of.items() if before.get(name) == of}
    return {name for name in same if (folder / name).is_file()}


def update_folder(
    folder: Path, files: Mapping[str, str | bytes | None], made_of: Mapping[str, str] | None = None
) -> int:
    """Make `folder` hold `files` (relative path -> content); return how many were written.

    A file whose content is there already is left alone, time stamp and all; so is one without
    content, which is `unchanged`. What an earlier update wrote and this one no longer has is
    removed; files that are not ours are never touched.

    `DONE` is written last, with a checksum of the whole.

    Args:
        folder: where they are; made if it is not there.
        files: relative path -> content.
        made_of: relative path -> what it is made of, of those that `unchanged` is asked about.

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
    (folder / _MADE_OF).unlink(missing_ok=True)  # nor one that is made of something else than told
    for name in set(before) - set(files):
        (folder / name).unlink(missing_ok=True)
    contents = {name: content for name, content in files.items() if content is not None}
    written = sum(_write(folder / name, content) for name, content in contents.items())
    _list(manifest, files)
    if made_of is not None:
        write_text(folder / _MADE_OF, json.dumps(made_of))
    write_text(folder / DONE, f"{_checksum(files, made_of or {})}\n")
    return written


def _checksum(files: Mapping[str, str | bytes | None], made_of: Mapping[str, str]) -> str:
    """Return what differs wherever a folder does, by what files are made of if that is told."""
    whole = hashlib.sha256()
    for name, content in sorted(files.items()):
        told = made_of.get(name) or hashlib.sha256(_bytes(content)).hexdigest()
        whole.update(f"{name}\0{told}\n".encode())
    return whole.hexdigest()


def _bytes(content: str | bytes | None) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content or b""


def _list(manifest: Path, names: Iterable[str]) -> None:
    write_text(manifest, "".join(f"{name}\n" for name in sorted(names)))


def _write(path: Path, content: str | bytes) -> bool:
    data = _bytes(content)
    if path.is_file() and path.read_bytes() == data:
        return False
    with atomic(path) as temporary:
        temporary.write_bytes(data)
    return True
