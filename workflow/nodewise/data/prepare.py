"""Prepare a dataset of the registry: write its four arrays, checked, and their manifest."""

import logging
from pathlib import Path
from tarfile import TarError
from zipfile import BadZipFile

from nodewise.core.errors import UserError
from nodewise.core.files import check_writable
from nodewise.core.progress import progress
from nodewise.data.fetch import Fetched, Fetcher, Source, UnobtainableError
from nodewise.data.formats import Release
from nodewise.data.manifest import MANIFEST, Manifest, ManifestFile
from nodewise.data.prepared import write
from nodewise.data.registry import Entry, find
from nodewise.data.synthetic import draw

log = logging.getLogger(__name__)

SEED = 1
"""Seed of synthetic data."""


def prepare(
    name: str, *, registry: Path, cache: Path, mirror: str | None, source: Source, out: Path
) -> Manifest:
    """Fetch, check and unpack the dataset `name` into `out`, or generate synthetic data.

    It writes x and y of the training set and of the test set and, last, `manifest.json`.
    Sources are tried in this order: `cache` and `mirror`, the official addresses, synthetic data.
    If a source has several releases of the dataset, the first one in the registry is taken.

    Args:
        name: key of the dataset in the registry.
        registry: registry file, see `read_registry`.
        cache: folder of the fetched files, see `Fetcher`.
        mirror: folder that has `<dataset>/<file>`; None for none.
        source: "official" forbids synthetic data and releases with other than the official content.
            Checksums then guarantee that every byte is the official one.
        out: folder to write to.

    Returns:
        The manifest that was written.

    Raises:
        UserError: an argument or the registry is wrong, the data is not available, a source has a
            corrupt file and no other source has the right one.
        OSError: a folder cannot be written.
    """
    entry = find(registry, name, Entry)
    check_writable(out / MANIFEST)
    try:
        release, fetched = _obtain(name, entry, source, Fetcher(name, cache, mirror))
    except UnobtainableError as error:
        allowed = source == "any" and entry.synthetic
        error.check_replaceable(name, "generating synthetic data", allowed=allowed)
        with progress(f"generating {name}", None):
            drawn = [
                draw(entry.shape, len(entry.classes), examples, seed=SEED, split=split)
                for split, examples in enumerate((entry.train_examples, entry.test_examples))
            ]
        title = f"Synthetic data in place of {entry.title}"
        manifest = write(out, *drawn, dataset=name, origin="generated", title=title, seed=SEED)
    else:
        manifest = _read(name, entry, release, fetched, out)
    log.info("%s: written to %s, data is %s", name, out, manifest.origin)
    return manifest


def _obtain(
    name: str, entry: Entry, source: Source, fetcher: Fetcher
) -> tuple[Release, dict[str, Fetched]]:
    """Return a release and its fetched files.

    Releases that are completely in the cache or the mirror come first, then those that have to be
    downloaded.

    Raises:
        UnobtainableError: no release is completely available.
        UserError: `source` permits none of the releases.
    """
    releases = [r for r in entry.releases if source == "any" or r.note is None]
    if not releases:
        notes = "; ".join(str(release.note) for release in entry.releases)
        raise UserError(
            f"{name}: no release of it is the official content ({notes}); allowed with source 'any'"
        )
    for near in (True, False):
        failures: list[UnobtainableError] = []
        for release in releases:
            try:
                files = {f.name: fetcher.fetch(f, near=near) for f in release.files_needed()}
            except UnobtainableError as error:
                failures.append(error)
            else:
                return release, files
    raise UnobtainableError(
        "; ".join(map(str, failures)), corrupt=any(error.corrupt for error in failures)
    )


def _read(
    name: str, entry: Entry, release: Release, fetched: dict[str, Fetched], out: Path
) -> Manifest:
    """Read a release and write its arrays.

    Raises:
        UserError: the files do not agree with the registry. The registry is wrong then, because the
            checksums of the files are right.
    """
    paths = {name: file.path for name, file in fetched.items()}
    try:
        with progress(f"reading {name}", None):
            train, test = release.read(entry, paths)
        for split, (_, labels) in (("train", train), ("test", test)):
            if labels.max() >= len(entry.classes):
                raise ValueError(f"y_{split}: label {labels.max()} is not of a class")
    except (ValueError, OSError, BadZipFile, TarError) as error:
        raise UserError(f"{name}: {error}; the registry does not fit it") from error
    files = tuple(
        ManifestFile(
            name=file.name, content_sha256=file.content_sha256, origin=fetched[file.name].origin
        )
        for file in release.files_needed()
    )
    return write(
        out,
        train,
        test,
        dataset=name,
        origin="mirror" if any(file.origin == "mirror" for file in files) else "official",
        title=entry.title,
        note=release.note,
        files=files,
    )
