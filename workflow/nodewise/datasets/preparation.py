"""From a name of the registry to four checked arrays and their manifest."""

import logging
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodewise.datasets import idx
from nodewise.datasets.fetching import Fetcher, UnobtainableError, parse_mirror
from nodewise.datasets.folders import exclusive
from nodewise.datasets.prepared import (
    ARRAY_FILES,
    MANIFEST,
    Manifest,
    ManifestFile,
    combined_sha256,
    overall_origin,
)
from nodewise.datasets.progress import progress
from nodewise.datasets.registry import ROLES, Entry, Role, SourceFile, StandIn, find
from nodewise.errors import UserError
from nodewise.files import atomic, write_json
from nodewise.records import Origin

log = logging.getLogger(__name__)

Arrays = dict[Role, NDArray[np.uint8]]
Origins = dict[Role, Origin]
Source = Literal["any", "official"]


def prepare(
    name: str,
    *,
    registry: Path,
    cache: Path,
    mirror: str | None,
    source: Source,
    out: Path,
    seed: int,
) -> Manifest:
    """Fetch (or draw), check and unpack the dataset `name` into `out`.

    Writes `x_train.npy`, `y_train.npy`, `x_test.npy`, `y_test.npy` and, last, `manifest.json`.
    Sources in order: `cache`, `mirror`, the official addresses, a drawn stand-in.

    Args:
        name: a key of the registry.
        registry: the registry file, see `read_registry`.
        cache: folder of the files as they came, `<dataset>/<file>`.
        mirror: a folder or an http(s) prefix that has `<dataset>/<file>`; None for none.
        source: "official" forbids the stand-in; every byte then is the official one by checksum.
        out: folder to write to.
        seed: of the stand-in, 0 or above.

    Returns:
        The manifest that was written.

    Raises:
        UserError: an argument or the registry is wrong; the data cannot be had; a source has a
            corrupt file and no other has a right one; or a folder cannot be written.
    """
    if seed < 0:
        raise UserError(f"seed: {seed}; allowed: 0 and above")
    entry = find(registry, name)
    place = parse_mirror(mirror) if mirror else None
    try:
        with exclusive(cache / name), exclusive(out):
            fetcher = Fetcher(name, cache / name, place)
            try:
                arrays, origins = _real(name, entry, fetcher)
            except UnobtainableError as error:
                stand_in = _permitted_stand_in(name, entry, source, error)
                log.warning("%s: the real data cannot be had; drawing a stand-in", name)
                arrays, origins = _drawn(name, entry, stand_in, seed)
            manifest = _manifest(name, entry, arrays, origins, seed)
            _write(out, arrays, manifest)
    except OSError as error:
        raise UserError(f"{error.filename or out}: {error.strerror or error}") from error
    log.info("%s: written to %s, data is %s", name, out, manifest.origin)
    return manifest


def _real(name: str, entry: Entry, fetcher: Fetcher) -> tuple[Arrays, Origins]:
    """Return the real data, all of it.

    Raises:
        UnobtainableError: a file cannot be had.
        UserError: the registry does not fit a file.
    """
    arrays: Arrays = {}
    origins: Origins = {}
    for file in entry.files:
        shape = entry.array_shape(file.role)
        fetched = fetcher.fetch(file, idx.size(shape))
        arrays[file.role] = _parse(name, entry, file, fetched.content, shape)
        origins[file.role] = fetched.origin
    return arrays, origins


def _permitted_stand_in(
    name: str, entry: Entry, source: Source, error: UnobtainableError
) -> StandIn:
    """Return what to draw in place of the real data; or say what to do if that is not allowed.

    A corrupt file is never passed over in silence: somebody meant to use the real data.
    """
    if error.corrupt:
        raise UserError(f"{name}: {error}; mend or remove the bad file, then run again") from error
    if source == "official" or entry.stand_in is None:
        choice = "" if entry.stand_in is None else ", or allow a stand-in with source 'any'"
        raise UserError(
            f"{name}: {error}; put the files into a folder DIR/{name} and set "
            f"NODEWISE_DATASETS=DIR{choice}"
        ) from error
    return entry.stand_in


def _parse(
    name: str, entry: Entry, file: SourceFile, content: bytes, shape: tuple[int, ...]
) -> NDArray[np.uint8]:
    """Unpack `content`. Its checksum is right, so a misfit is the registry's and meets no mercy."""
    try:
        array = idx.parse(content, shape)
    except ValueError as error:
        raise UserError(f"{name}: {file.name}: {error}; the registry does not fit it") from error
    if file.role.endswith("labels") and array.max() >= len(entry.classes):
        raise UserError(
            f"{name}: {file.name}: label {array.max()}, expected 0 … {len(entry.classes) - 1}"
        )
    return array


def _drawn(name: str, entry: Entry, stand_in: StandIn, seed: int) -> tuple[Arrays, Origins]:
    """Return a stand-in for the whole dataset."""
    from nodewise.datasets import standins  # scipy and Pillow are not needed for real data

    if entry.shape != standins.SHAPE or len(entry.classes) != standins.CLASSES:
        wanted = "×".join(map(str, standins.SHAPE))
        raise UserError(f"{name}: stand_in: only for {standins.CLASSES} classes of {wanted}")
    arrays: Arrays = {}
    total = entry.train_examples + entry.test_examples
    with progress(f"drawing {name}", total) as advance:
        for split, examples in enumerate((entry.train_examples, entry.test_examples)):
            drawn = standins.draw(stand_in, examples, seed, split, advance)
            arrays[ROLES[2 * split]], arrays[ROLES[2 * split + 1]] = drawn
    return arrays, dict.fromkeys(ROLES, "generated")


def _manifest(name: str, entry: Entry, arrays: Arrays, origins: Origins, seed: int) -> Manifest:
    by_role = {file.role: file for file in entry.files}
    files = tuple(
        ManifestFile(
            role=role,
            name=by_role[role].name,
            content_sha256=idx.sha256(arrays[role]),
            origin=origins[role],
        )
        for role in ROLES
    )
    origin = overall_origin(files)
    drawn = origin == "generated"
    return Manifest(
        dataset=name,
        title=f"Drawn stand-in for {entry.title}" if drawn else entry.title,
        origin=origin,
        seed=seed if drawn else None,
        sha256=combined_sha256(files),
        files=files,
        train_examples=entry.train_examples,
        test_examples=entry.test_examples,
        shape=entry.shape,
        classes=entry.classes,
        licence="drawn by nodewise, no rights of others" if drawn else entry.licence,
        licence_url=None if drawn else entry.licence_url,
    )


def _write(out: Path, arrays: Arrays, manifest: Manifest) -> None:
    """Write the arrays and then the manifest; until then there is none, not even an old one."""
    (out / MANIFEST).unlink(missing_ok=True)
    for role, file_name in ARRAY_FILES.items():
        with atomic(out / file_name) as temporary:
            np.save(temporary, arrays[role], allow_pickle=False)
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))
