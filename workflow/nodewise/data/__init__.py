"""Datasets: fetch, check and unpack them. Synthetic data replaces missing datasets.

manifest = prepare("mnist", registry=…, cache=…, mirror=…, source="any", out=…)
data = load(out / "manifest.json")
"""

from nodewise.data.manifest import Manifest
from nodewise.data.prepare import prepare
from nodewise.data.prepared import Dataset, check_arrays, load

__all__ = ["Dataset", "Manifest", "check_arrays", "load", "prepare"]
