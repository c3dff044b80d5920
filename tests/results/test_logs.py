"""Logs are read as launchers and terminals write them, and a log of two runs is refused."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from mistakes import user_error
from nodewise.results.importers import IMPORTERS, import_curves, read_rows

FILES = Path("tests/results/files")
LOGS = {"horovod.txt": "horovod_benchmark", "tf_cnn.txt": "tf_cnn_benchmarks"}
LOGS |= {"mlperf.txt": "mlperf_log"}
HOROVOD = (FILES / "horovod.txt").read_text()
TF_CNN = (FILES / "tf_cnn.txt").read_text()
TAGS = {
    "mpirun": "[1,{}]<stdout>:",
    "a newer mpirun": "[1,{}]<stdout>: ",
    "mpirun with times": "Fri Nov 27 13:18:24 2026[1,{}]<stdout>:",
    "horovodrun": "[{}]<stdout>:",
    "short tags": "[{}] ",
    "mpirun of SageMaker": "[1,mpirank:{},algo-1]<stdout>:",
    "srun --label": "{:2d}: ",
    "mpirun 5": "[prterun-host-12@1,{}]<stdout>: ",
    "Ray": "\x1b[36m(TorchRunner pid=123{0}, ip=192.0.2.{0})\x1b[0m ",
    "torchrun": "[default{}]:",
    "pdsh": "node-{:03d}: ",
    "docker compose": "worker-{}  | ",
    "kubectl --prefix": "[pod/run-worker-{}/main] ",
    "a logger on each rank": "2026-11-27 13:18:24,5 [{}] ",
}
AROUND = {
    "indentation": "    {}",
    "tabulators": "\t{}",
    "a quote": "> {}",
    "kubectl logs --timestamps": "2026-11-27T13:18:{at}.123456789Z {}",
    "a logger": "2026-11-27 13:18:{at},123 - INFO - train.py:1{at} - {}",
    "glog": "I1127 13:18:{at}.123456 4242 train.cc:{at}] {}",
    "syslog": "Nov 27 13:18:{at} host-1 python[4242]: {}",
    "seconds since 1970": "17000000{at}.25 {}",
    "numbers of lines": "{at:4d}  {}",
    "names of functions": "[{word}] {at}: {}",
    "Estimator": "INFO:tensorflow:{}",
    "colours": "\x1b[32m{}\x1b[0m[0m^[[0m\ufffd[1m",
    "line ends of Windows": "{}\r",
}


def written(folder: Path, text: str, name: str = "run.log") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def refused(folder: Path, text: str, name: str | None = None) -> str:
    return user_error(read_rows, written(folder, text), name)


@pytest.mark.parametrize("form", TAGS.values(), ids=TAGS)
@pytest.mark.parametrize("name", LOGS)
def test_of_ranks_with_tags_the_lowest_is_read(tmp_path, name, form):
    lines = (FILES / name).read_text().splitlines()
    tagged = [form.format(rank) + line for line in lines for rank in (3, 2, 10)]
    path = written(tmp_path, "\n".join(tagged))
    assert [one for one in IMPORTERS if IMPORTERS[one].sniff(path)] == [LOGS[name]]
    assert read_rows(path).equals(read_rows(FILES / name))


@pytest.mark.parametrize("form", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("name", LOGS)
def test_what_stands_around_every_line_is_not_read(tmp_path, name, form):
    lines = (FILES / name).read_text().splitlines()
    words = itertools.cycle(("main", "run", "train"))
    lines = [form.format(line, at=at, word=next(words)) for at, line in enumerate(lines, 10)]
    path = written(tmp_path, "\ufeff" + "a warning of a library\n" * 50_000 + "\n".join(lines))
    assert read_rows(path).equals(read_rows(FILES / name))


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("form", ["{}", "2026-11-27 13:18:{at},123 {}"], ids=["bare", "times"])
def test_lines_of_ranks_without_tags_count_once(tmp_path, name, form):
    lines = enumerate((FILES / name).read_text().splitlines(), 10)
    twice = [form.format(line, at=at + rank) for at, line in lines for rank in (0, 1)]
    rows = read_rows(written(tmp_path, "\n".join(twice)))
    assert rows.equals(read_rows(FILES / name))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HOROVOD * 2, 11),
        (HOROVOD.splitlines(keepends=True)[1] + HOROVOD.replace("size: 32", "size: 64"), 3),
        (TF_CNN + TF_CNN.replace("256 global", "512 global"), 28),
    ],
    ids=["twice", "one that failed", "a larger batch"],
)
def test_two_runs_in_one_log_are_refused(tmp_path, text, line):
    said = refused(tmp_path, text)
    assert f"run.log: line {line}: another run begins; give each its own file" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("images/sec:", "frames/sec:", "total images/sec"),
        *(
            ("Mode:        training", f"Mode:        {mode}", "line 4: a run of inference only")
            for mode in ("forward-only", "forward only", "evaluation")
        ),
        ("TensorFlow:", "$ run.py --forward_only=True\nTensorFlow:", "line 1: a run of inf"),
        ("7.608\n", "0.000\n", "line 21: a run of inference only"),
        ("64 per device", "60 per device", "60 examples on each device are no part of 256"),
    ],
)
def test_a_log_of_tf_cnn_benchmarks_that_cannot_be_read_is_refused(tmp_path, old, new, said):
    assert said in refused(tmp_path, TF_CNN.replace(old, new), "tf_cnn_benchmarks")


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("GPUs: 4", "GPUs: 0", "nodes"),
        ("GPUs: 4", f"GPUs: {'9' * 400}", "nodes"),
        ("size: 32", "size: 0", "batch_per_worker"),
        ("150.0", "0.0", "samples_per_s_per_device"),
        ("ResNet50", "R" * 300, "curve"),
        ("256 global", "0 global", "nodes"),
        ("64 per device", "0 per device", "batch_per_worker"),
    ],
)
def test_impossible_values_of_a_log_are_refused(tmp_path, old, new, column):
    path = written(tmp_path, (HOROVOD if old in HOROVOD else TF_CNN).replace(old, new))
    assert user_error(import_curves, path).startswith(f"{path}, {column}: ")


def mlperf(events: Sequence[Sequence[Any]], second: int) -> str:
    """Return a log of events: how many, if not one; the key, the value and the metadata."""
    repeated = [[one] if isinstance(one[0], str) else [one[1:]] * one[0] for one in events]
    lines = ""
    for at, (key, *rest) in enumerate(itertools.chain.from_iterable(repeated)):
        value, metadata = [*rest, None, {}][:2]
        event = {"time_ms": 1000 * second * at, "key": key, "value": value, "metadata": metadata}
        lines += f":::MLLOG {json.dumps(event)}\n"
    return lines


EVENTS = yaml.safe_load((FILES / "mlperf_events.yaml").read_text())


@pytest.mark.parametrize("case", EVENTS.values(), ids=EVENTS)
def test_events_of_mlperf_say_what_a_person_reads(tmp_path, case):
    text = case.get("before", "") + mlperf(case["events"], case["seconds"])
    if "refused" in case:
        assert case["refused"] in refused(tmp_path, text)
        return
    rows = read_rows(written(tmp_path, text))
    for column in case.keys() - {"before", "events", "seconds", "note"}:
        assert (rows[column].tolist() if column in rows else None) == case[column], column
    assert case.get("note", "") in " ".join(rows.attrs["notes"])


@pytest.mark.parametrize("update", ["parameter_server", "distributed_replicated"])
def test_asynchronous_servers_are_named(tmp_path, update):
    servers = f"Variables:   {update}\nSync:        False\n"
    rows = read_rows(written(tmp_path, TF_CNN.replace("Optimizer:", f"{servers}Optimizer:")))
    assert set(rows["collective"]) == {"parameter_server"}
    for note in ("asynchronous", "that of one worker"):
        assert any(note in one for one in rows.attrs["notes"])
    assert "collective" not in read_rows(FILES / "tf_cnn.txt")
