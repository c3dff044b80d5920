"""Prepare a dataset of the registry: write its four arrays, checked, and their manifest."""

import logging
from pathlib import Path
from tarfile import TarError
from typing import Literal
from zipfile import BadZipFile

from nodewise.core.errors import UserError
from nodewise.core.fetch import Fetched, Fetcher, UnobtainableError
from nodewise.core.files import check_writable
from nodewise.core.progress import progress
from nodewise.data.formats import Release
from nodewise.data.manifest import MANIFEST, Manifest, ManifestFile
from nodewise.data.prepared import write
from nodewise.data.registry import Entry, find
from nodewise.data.synthetic import draw

log = logging.getLogger(__name__)

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
        seed: seed of synthetic data, 0 or above.

    Returns:
        The manifest that was written.

    Raises:
        UserError: an argument or the registry is wrong, the data is not available, a source has a
            corrupt file and no other source has the right one.
        OSError: a folder cannot be written.
    """
    if seed < 0:
        raise UserError(f"seed: {seed}; allowed: 0 and above")
    entry = find(registry, name)
    check_writable(out / MANIFEST)
    fetcher = Fetcher(name, cache, mirror)
    try:
        release, fetched = _obtain(name, entry, source, fetcher)
    except UnobtainableError as error:
        # a corrupt file is never replaced silently: somebody wanted to use the real data
        if error.corrupt or source == "official" or not entry.synthetic:
            raise error.as_user_error(name) from error
        log.warning("%s: generating synthetic data: %s", name, error)
        manifest = _draw(name, entry, seed, out)
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
    failures: list[UnobtainableError] = []
    for near in (True, False):
        failures = []
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
    total = entry.train_examples + entry.test_examples
    paths = {name: file.path for name, file in fetched.items()}
    with progress(f"reading {name}", total) as advance:
        try:
            train, test = release.read(entry, paths, advance)
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
    mirrored = any(file.origin == "mirror" for file in files)
    return write(
        out,
        train,
        test,
        dataset=name,
        origin="mirror" if mirrored else "official",
        title=entry.title,
        note=release.note,
        files=files,
    )


def _draw(name: str, entry: Entry, seed: int, out: Path) -> Manifest:
    """Generate synthetic data for the whole dataset and write its arrays."""
    counts = (entry.train_examples, entry.test_examples)
    with progress(f"generating {name}", sum(counts)) as advance:
        drawn = [
            draw(entry.shape, len(entry.classes), n, seed=seed, split=split, advance=advance)
            for split, n in enumerate(counts)
        ]
    return write(
        out,
        *drawn,
        dataset=name,
        origin="generated",
        title=f"Synthetic data in place of {entry.title}",
        seed=seed,
    )
