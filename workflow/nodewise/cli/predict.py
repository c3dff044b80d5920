"""Commands that fit cost models to measurements and predict other numbers of nodes."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from nodewise.cli import options
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.units import counted, write_plain

_COMPARED = 5  # curves that are compared with published ones


@options.app.command("fit")
def fit_measurements(
    measurements: Annotated[Path, Argument(help="A table or another file, or results/STUDY.")],
    out: Annotated[Path, Option("--out", "-o", help="JSON file to write.")],
    file_format: options.FileFormat = None,
) -> None:
    """Fit cost models to your own step times, from any framework.

    Columns of the CSV file: curve, nodes, batch_per_worker, and one of
    step_time_s, samples_per_s (over all workers), steps_per_s and epoch_time_s
    (which needs examples, the examples per epoch). Or those of published curves:
    curve, n_devices, quantity (throughput, step_time, run_time or epoch_time),
    value, unit, and as far as known n_nodes, devices_per_node, scaling (weak or
    strong), batch_per_device, global_batch and algorithm (ring, tree or ps).
    Beside devices_per_node, nodes are machines, and a worker is a device.

    Optional: payload_bytes (of one gradient); compute_s, communicate_s, wait_s;
    collective (ring, tree, star, parameter_server, none; default: ring);
    cluster (its curves share latency and bandwidth). Rows with the same curve,
    nodes and batch are repeats.

    Example: nodewise fit measurements.csv -o fit.json
    """
    from nodewise.cli import prediction
    from nodewise.predict import fit_file, published_efficiency
    from nodewise.results.importers import import_curves

    if out.exists() and out.samefile(measurements):
        raise UserError(f"--out {out}: holds the measurements; name another file")
    of_study = measurements.is_dir() or measurements.name == "curve_points.csv"
    read = None if of_study else import_curves(measurements, file_format)
    check_writable(out)
    fitted = fit_file.fit_measurements(read) if read else fit_file.fit_study(measurements)
    fit_file.write_fit(out, fitted)
    prediction.print_curves(fitted)
    prediction.print_notes(fitted, err=False)
    for curve in read.curves[:_COMPARED] if read else ():
        found = published_efficiency.standing_of_curve(curve)
        prediction.print_standing(found, f"{curve.name}: ")
    typer.echo(f"{out}: {counted(len(fitted.curves), 'curve')}")


@options.app.command("import")
def import_files(
    files: Annotated[list[Path], Argument(help="Logs, each of one run.")],
    *,
    out: Annotated[Path, Option("--out", "-o", help="CSV file to write.")],
    file_format: options.FileFormat = None,
    devices: Annotated[int | None, Option(help="Devices, where the logs do not say it.")] = None,
    batch: Annotated[float | None, Option(help="Examples per device and step, likewise.")] = None,
    global_batch: Annotated[float | None, Option(help="Or: all devices together.")] = None,
    curve: Annotated[str | None, Option(help="Its name (default: model or folder).")] = None,
    name: Annotated[str | None, Option(help="What names of files and folders say.")] = None,
    pattern: Annotated[str | None, Option(help="Of the lines of any other log.")] = None,
) -> None:
    r"""Convert logs of other tools to a table for `nodewise fit`.

    It recognises the output of Keras, tf_cnn_benchmarks, Horovod's synthetic
    benchmarks and TensorFlow's Estimator, TensorBoard event files, metrics.csv of
    PyTorch Lightning, output and trainer_state.json of Hugging Face's Trainer, logs
    of MLPerf, and the files of the callback data/templates/step_times.py. What
    launchers put before every line is found and skipped.

    --name says what names of files or folders mean, as 'run_{devices}.log' or
    '{curve}/{devices}gpu/*': {curve}, {devices}, {batch}, {global_batch} and *.

    --pattern is a regular expression of the lines of any other log, such as
    'time (?P<step_ms>[\d.]+)ms', with named groups: step_s, step_ms, steps_per_s,
    samples_per_s, samples_per_s_per_device, epoch_s, or steps and run_s; curve,
    devices, batch, global_batch, examples, hosts, devices_per_host.

    Example: nodewise import run_*.log --name 'run_{devices}.log' -o mine.csv
    """
    from nodewise.results.convert import check_output, convert

    given = {"curve": curve, "devices": devices, "batch": batch, "global_batch": global_batch}
    check_output(out, files)
    table = convert(files, given, name=name, pattern=pattern, file_format=file_format)
    write_text(out, table.to_csv(index=False))
    for note in table.attrs["notes"]:
        typer.echo(note)
    curves = table["curve"].nunique()
    typer.echo(f"{out}: {counted(len(table), 'row')} of {counted(curves, 'curve')}")


@options.app.command("predict")
def predict_nodes(
    context: typer.Context,
    fit: options.FitFile,
    *,
    nodes: options.NodeNumbers = "1-64",
    batch: options.AskedBatch = None,
    global_batch: options.AskedGlobalBatch = None,
    examples: options.EpochExamples = None,
    epochs: options.Epochs = 1,
    price: options.NodePrice = None,
    at: Annotated[Path | None, Option(help="CSV file of points; see below.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Predict times, costs and efficiencies on other numbers of nodes.

    The 90 % intervals are those of the cost model. A single measurement scatters
    around it by the noise that `nodewise fit` prints. Curves of which no more is
    known than step times or rates are continued as similar published ones do.

    With --at the answer has a row per point of the file, in its order, in the
    quantity and unit of the curve. Columns: curve, n_devices, batch_per_device,
    global_batch. Its intervals are those of one more measurement.

    Example: nodewise predict fit.json --nodes 1-64
    """
    from nodewise.cli import prediction
    from nodewise.predict import answers, fit_file, question_files
    from nodewise.predict.curve_predictions import find_answers

    fitted = fit_file.read_fit(fit)
    if at is not None:
        options.only_options(context, "at", "fit", "as_json")
        points = question_files.predict_points(fitted, at)
        prediction.print_values(points, "curve", as_json=as_json)
        return
    counts, rows = prediction.parse_nodes(nodes), []
    job = prediction.job_of(context.params)
    for curve, one in find_answers(fitted, counts, job, batch=batch, global_batch=global_batch):
        about = {"curve": curve.name, "job": one.job.name, "cost_unit": one.job.units["cost"]}
        rows += [about | row for row in one.rows(answers.STEP_TIME) if row["nodes"] in counts]
        if not as_json:
            typer.echo(f"{curve.name}:")
            prediction.print_answers(one, counts)
    if as_json:
        options.print_json(rows)
    prediction.print_notes(fitted, err=as_json)
    answered = {(row["curve"], row["nodes"]) for row in rows}
    for curve in fitted.curves:
        if left := [n for n in counts if (curve.name, n) not in answered]:
            less = f"no rows from {left[0]:,} {curve.node}s on, as its global batch is smaller"
            typer.echo(f"{curve.name}: {less}", err=as_json)


@options.app.command("optimum")
def best_nodes(
    context: typer.Context,
    fit: options.FitFile,
    *,
    nodes: options.NodeNumbers = "1-64",
    batch: options.AskedBatch = None,
    global_batch: options.AskedGlobalBatch = None,
    batches: options.Batches = None,
    objective: Annotated[str | None, Option(help="What the sentence is about.")] = None,
    examples: options.EpochExamples = None,
    epochs: options.Epochs = 1,
    price: options.NodePrice = None,
    converges_like: options.ConvergesLike = None,
    samples_to_target: options.SamplesToTarget = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    watts: Annotated[float | None, Option(help="Power of a node (or a device).")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the best number of nodes: the fastest, the cheapest, and where more hardly pays.

    The fastest is often the largest number, and the cheapest one node. The knee
    is where each further node adds less than half of itself to the speed-up.
    Without --batch and --global-batch, the measured batches are used. If machines
    have several devices, numbers that fill whole machines are compared.
    Objectives: knee, fastest, cheapest, deadline, budget, energy.

    Example: nodewise optimum fit.json --price "1.2 EUR" --examples 50000
    """
    from nodewise.cli import prediction
    from nodewise.predict.curve_predictions import find_answers
    from nodewise.predict.fit_file import read_fit

    fitted, counts = read_fit(fit), prediction.parse_nodes(nodes)
    job = prediction.job_of(context.params, counted=all(one.in_seconds for one in fitted.curves))
    asked: dict[str, Any] = {"batch": batch, "global_batch": global_batch, "whole_machines": True}
    asked["batches"] = prediction.parse_batches(batches)
    answered = [*find_answers(fitted, counts, job, **asked)]
    rows = [
        {"curve": curve.name, "job": one.job.name, "units": one.job.units}
        | {"answer": one.sentence(objective), "best": one.best_for, "nodes": one.rows()}
        for curve, one in answered
    ]
    if as_json:
        options.print_json(rows)
    else:
        for row, (_, answers) in zip(rows, answered, strict=True):
            typer.echo(f"{row['curve']}: {row['answer']}")
            prediction.print_answers(answers)
        # the global batch of a curve with strong scaling stays the same
        if global_batch is None and any(one.batch[-1] == one.batch[0] for _, one in answered):
            prediction.print_target(job, converges_like)
    prediction.print_notes(fitted, err=as_json)


@options.app.command("next")
def next_measurement(
    fit: options.FitFile,
    *,
    nodes: options.NodeNumbers = "1-64",
    batch: options.AskedBatch = None,
    global_batch: options.AskedGlobalBatch = None,
    as_json: options.AsJson = False,
) -> None:
    """Name the measurement that would narrow down the fastest number of nodes most.

    Gains count per minute of machine time, summed over all nodes. Without --batch
    and --global-batch, there is an answer for each measured batch.

    Example: nodewise next fit.json --nodes 1-32
    """
    from nodewise.cli.prediction import parse_nodes
    from nodewise.predict.fit_file import read_fit
    from nodewise.predict.next_measurement import next_rows

    rows = next_rows(read_fit(fit), parse_nodes(nodes), batch=batch, global_batch=global_batch)
    if as_json:
        options.print_json(rows)
    for row in [] if as_json else rows:
        size = row["batch_per_worker"]
        of_size = f", batch {write_plain(size)}" if size else ""
        typer.echo(f"{row['curve']}{of_size}: {row['answer']}")
