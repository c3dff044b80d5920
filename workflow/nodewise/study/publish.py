"""Copy the measurements of a study into a folder of records from which a site is built.

Only reliable measurements are copied: complete experiments, without the points whose times carry a
caution. A manifest in the same folder says which machine measured them, when, with which code and
calibration, and what was left out.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.core.folders import replaced, write_files
from nodewise.core.schema import json_text
from nodewise.core.units import counted
from nodewise.models.facts import own_description, own_models, read_own
from nodewise.results.columns import CURVE_KEY
from nodewise.results.manifest import MANIFEST, LeftOut, Manifest, PublishedExperiment
from nodewise.results.record import Record, record_json, recorded
from nodewise.results.tables import build_tables
from nodewise.study.config import CALIBRATION, Config

_DONE = ("ok", "refused")  # a refusal is a result, too: it says what the machine cannot do


def publish(study: Config, records: Path, out: Path) -> Manifest:
    """Copy the records of a study and the files that belong to them to `out`.

    These files are its calibration, its noise scales and the descriptions of users' own models.

    Args:
        study: the configuration. Its cells determine which experiments are complete.
        records: folder of its records. The other files are in folders next to it.
        out: usually data/records/MACHINE/STUDY. What was published there before is replaced.

    Returns:
        The manifest.

    Raises:
        UserError: nothing can be published, the records are from several machines, or `out`
            contains other files.
    """
    whole, left_out = _whole_experiments(study, records)
    if not whole:
        raise UserError(f"{records}: no experiment of {study.name} is measured whole")
    kept, cautious = _without_cautions(whole, records)
    if not kept:
        raise UserError(f"{records}: every point carries a caution: {cautious[0].why}")
    others = _beside(records.parent, kept)
    calibration = others.get(CALIBRATION.name)
    manifest = _manifest(
        study.name,
        kept,
        calibration_sha256=file_sha256(calibration) if calibration else None,
        left_out=[*left_out, *cautious],
    )
    with replaced(out) as folder:
        write_files(folder, {f"{one.cell.id}.json": record_json(one) for one in kept})
        write_files(folder, {name: path.read_bytes() for name, path in others.items()})
        write_files(folder, {MANIFEST: json_text(manifest)})
    return manifest


def _beside(results: Path, records: Sequence[Record]) -> dict[str, Path]:
    """Return the files that belong to records, by the path at which each is published."""
    files = {f"noise_scale/{path.name}": path for path in results.glob("noise_scale/*.json")}
    if (results / CALIBRATION).is_file():
        files[CALIBRATION.name] = results / CALIBRATION
    for name, cell in own_models(record.cell for record in records).items():
        if read_own(path := own_description(cell)):
            files[f"models/{name}.json"] = path
    return files


def _whole_experiments(study: Config, folder: Path) -> tuple[list[Record], list[LeftOut]]:
    """Return the records of complete experiments, and the experiments that are left out."""
    found: list[Record] = []
    left_out = []
    cells = study.cells()
    for experiment in study.experiments:
        of = [cell for cell in cells if cell.experiment == experiment]
        records = [record for cell in of if (record := recorded(cell, folder))]
        done = [record for record in records if record.status in _DONE]
        if len(done) == len(of):
            found += done
        else:
            why = f"{len(done)} of {counted(len(of), 'cell')} measured"
            left_out.append(LeftOut(what=experiment, why=why))
    return found, left_out


def _without_cautions(records: list[Record], folder: Path) -> tuple[list[Record], list[LeftOut]]:
    """Return the records of points without a caution, and the points that are left out.

    Cells that train whole epochs are kept. They are measured for their accuracy, and a caution only
    concerns times.
    """
    tables = build_tables([folder / f"{record.cell.id}.json" for record in records])
    with_caution = tables["curves"].query("flags != '' and not whole_epochs")
    launches = tables["cells"].merge(with_caution[CURVE_KEY], "inner", CURVE_KEY)
    dropped = set(launches["cell_id"])
    kept = [record for record in records if record.cell.id not in dropped]
    return kept, [
        LeftOut(what=cell_id.rpartition("/")[0], why=flags)
        for cell_id, flags in with_caution[["cell_id", "flags"]].to_numpy()
    ]


def _manifest(
    study: str, records: Sequence[Record], calibration_sha256: str | None, left_out: list[LeftOut]
) -> Manifest:
    machines = sorted({record.provenance.cpu for record in records})
    if len(machines) > 1:
        raise UserError(f"several machines measured: {', '.join(machines)}; publish one at a time")
    launches = Counter(record.cell.experiment for record in records)
    points = {(one.cell.experiment, one.cell.id.rpartition("/")[0]) for one in records}
    of_experiment = Counter(experiment for experiment, _ in points)
    return Manifest(
        study=study,
        machine=machines[0],
        cores=records[0].provenance.cores,
        memory_bytes=records[0].provenance.memory_bytes,
        commits=sorted({record.provenance.commit or "unknown" for record in records}),
        calibration_sha256=calibration_sha256,
        first_started_at=min(record.started_at for record in records),
        last_finished_at=max(record.finished_at for record in records),
        measured_s=sum((one.finished_at - one.started_at).total_seconds() for one in records),
        experiments=[
            PublishedExperiment(name=name, points=of_experiment[name], launches=count)
            for name, count in launches.items()
        ],
        left_out=left_out,
    )
