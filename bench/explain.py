"""Score `nodewise explain` on posted set-ups with a known cause.

A case scores 2 if its cause is named first, −2 if a wrong cause is stated as certain, and else 1 if
the measurement that would decide is asked for. The known cause is used for the score alone. The
columns are id, framework, model, parameters, precision,
batch_per_device, devices_per_node, device, link, one, many, many_n, cause, after, decidable, note.

python bench/explain.py cases.csv
"""

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from nodewise.cli.options import app
from nodewise.predict import causes as c

NAMES = {
    "communication_bytes": c.BYTES,
    "communication_latency_or_many_small_tensors": c.MESSAGES,
    "input_pipeline": c.INPUT,
    "weak_vs_strong_misread": c.CONFUSED,
    "steps_too_short": c.SHORT,
    "cpu_oversubscription": c.CORES,
    "stragglers": c.STRAGGLERS,
    "parameter_server_bottleneck": c.SERVERS,
    "no_overlap": c.NO_OVERLAP,
    "wrong_interface_or_transport": c.LINK,
    "other:sparse gradients gathered": c.SPARSE,
    "other:only one device used": c.ALONE,
    "other:data not sharded": c.WHOLE,
    "other:synchronisation in each step": c.LOGGING,
}
"""Causes by their names in the file; others are compared by words."""

_NUMBER = r"(\d[\d.,]*) ?"
_UNIT = r"((?:images|samples|steps|examples|sentences|tokens|s|ms|min|h)(?:/\w+)?)( per device)?"
_VALUE = re.compile(_NUMBER + _UNIT)
_OTHER = re.compile(r"\b(\d+): " + _NUMBER + r"(?:(?:s|ms|images)/\w+)?")
_DEVICES = re.compile(r"\bon (\d+)\b")
_EMBEDDINGS = re.compile(
    "transformer|bert|gpt|lstm|word|embedding|recommend|dlrm|llm", re.IGNORECASE
)
_ASKED = re.compile(
    r"synthetic|nccl|iperf|link|transport|parameters|tensors|servers|layout|threads?|cores|trace|"
    "batch|examples|images per step|device use|busy|without exchang|one node|steps of each",
    re.IGNORECASE,
)
_SAME = {"iperf": "nccl", "link": "nccl", "transport": "nccl", "layout": "servers",
         "threads": "cores", "thread": "cores", "images per step": "examples",
         "batch": "examples", "device use": "busy", "tensors": "parameters"}  # fmt: skip
_CARDS = {"connectx-3": 56, "fdr": 56, "connectx-4": 100, "connectx-5": 100, "edr": 100,
          "connectx-6": 200, "hdr": 200, "ndr": 400, "infiniband": 100}  # fmt: skip


def link_of(text: str) -> str | None:
    """Return the value of --between for a posted link; None if it has no rate between nodes."""
    low = text.lower()
    transport = "-rdma" if re.search("infiniband|rdma|roce|connectx", low) else ""
    transport = transport or ("-tcp" if re.search("tcp|ethernet|gbe|sockets", low) else "")
    found = re.search(r"(\d+(?:\.\d+)?) ?(gb/s|gbit/s|gbps|gbe|gigabit|gbit)", low)
    if found:
        # GB/s is bytes, Gb/s is bits: only the case of the letter says which.
        size = 8 if "GB/s" in text[found.start() : found.end()] else 1
        return f"{float(found[1]) * size:g}gbit{transport}"
    return next((f"{rate}gbit-rdma" for card, rate in _CARDS.items() if card in low), None)


def arguments(row: Mapping[str, str]) -> list[str]:
    """Return the options for a case."""
    numbers = {name: _VALUE.search(row[name]) for name in ("one", "many")}
    texts = {
        name: f"{found[1]} {found[2]}{'/device' if found[3] else ''}"
        for name, found in numbers.items()
        if found is not None
    }
    devices, many = _DEVICES.search(row["one"]), int(row["many_n"])
    first = min(int(devices[1]), many) if devices else 1
    per_node = int(row["devices_per_node"] or many)
    software = row["framework"].lower()
    servers = re.search("parameter server|byteps", software)
    summed = re.search("horovod|ddp", software)
    options = {
        "--one": texts["one"],
        "--many": texts["many"],
        "--devices": f"{many}",
        "--one-devices": f"{first}",
        "--one-nodes": "1" if "in 1 node" in row["one"] else "",
        "--parameters": row["parameters"],
        "--precision": "amp" if re.search("fp16|bf16|amp|mixed", row["precision"]) else "",
        "--batch": row["batch_per_device"],
        "--devices-per-node": f"{per_node}",
        "--between": link_of(row["link"]) if many > per_node else "",
        "--within": "pcie3" if "pcie" in row["link"].lower() else "",
        "--sums": "servers" if servers else "all-reduce" if summed else "",
    }
    unit = texts["many"].split(" ", 1)[1]
    flat = [text for name, value in options.items() if value for text in (name, value)]
    for count, value in _OTHER.findall(row["many"].partition("(")[2]):
        if first < int(count) < many:
            flat += ["--at", f"{count}={value.strip(',')} {unit}"]
    flat += ["--cpu"] if "CPU" in row["device"] else []
    flat += ["--embedding"] if _EMBEDDINGS.search(row["model"]) else []
    return ["explain", "--json", *flat]


def asked(text: str) -> set[str]:
    """Return what a text asks to measure."""
    words = (word.lower() for word in _ASKED.findall(text))
    return {_SAME.get(word, word) for word in words}


def judged(rows: Iterable[Mapping[Any, str]]) -> Iterator[dict[str, Any]]:
    """Yield the score of each case, and that of `exchange by bytes` for everything."""
    for row in rows:
        options = arguments(row)
        found = CliRunner().invoke(app, options, catch_exceptions=False)
        answer = json.loads(found.stdout)
        right = {NAMES.get(row["cause"], row["cause"].removeprefix("other:"))}
        for accepted in re.findall(r"accept ([\w: ]+)", row["note"]):
            right.add(NAMES.get(accepted.strip(), accepted.strip().removeprefix("other:")))
        names = [one["name"] for one in answer["causes"]]
        measure = answer["measure"] or ""
        asks = bool(asked(measure) & asked(row["decidable"])) or not asked(row["decidable"])
        if any(name.startswith(names[0]) for name in right):
            score = 2
        elif answer["decided"]:
            score = -2
        else:
            score = int(asks)
        yield {
            "case": row["id"],
            "score": score,
            "bytes": 2 if c.BYTES in right else -2,
            "cause": " / ".join(sorted(right)),
            "first": f"{names[0]} {answer['causes'][0]['probability']:.0%}",
            "second": f"{names[1]} {answer['causes'][1]['probability']:.0%}",
            "measure": measure[:45],
            "best": next((f"{x['name'][:20]} {x['value']:.4g}" for x in answer["remedies"]), ""),
            "after": row["after"][:30],
        }


def main() -> None:
    """Print a row per case and the sum."""
    parser = argparse.ArgumentParser(prog="bench/explain.py", description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path, help="CSV file of set-ups")
    rows = pd.read_csv(parser.parse_args().cases, dtype=str, keep_default_na=False)
    table = pd.DataFrame(judged(rows.to_dict("records")))
    print(table.to_string(index=False))
    most = 2 * len(table)
    print(f"\nScore {table['score'].sum()} of {most}; exchange by bytes for all: ", end="")
    print(f"{table['bytes'].sum()}; wrong but certain: {(table['score'] < 0).sum()}")


if __name__ == "__main__":
    main()
