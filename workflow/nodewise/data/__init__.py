"""Datasets: fetch, check, unpack and shard them. Synthetic data replaces missing datasets.

manifest = prepare("mnist", registry=…, cache=…, mirror=…, source="any", out=…, seed=1)
data = load(out / "manifest.json")
mine = shard(manifest.train_examples, workers=4, rank=0, seed=1)
"""

from nodewise.data.manifest import Manifest
from nodewise.data.prepare import prepare
from nodewise.data.prepared import Dataset, check_arrays, load
from nodewise.data.sharding import shard

__all__ = ["Dataset", "Manifest", "check_arrays", "load", "prepare", "shard"]
