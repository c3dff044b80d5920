"""What readers are told that the columns of a figure's data are; files keep the columns' names."""

_TITLES = {
    "accuracy": "Training accuracy",
    "batch": "Batch per worker",
    "batch_per_worker": "Batch per worker",
    "cell_id": "Cell",
    "cluster": "Node",
    "efficiency_high": "90 % interval to",
    "efficiency_low": "90 % interval from",
    "examples_per_s": "Examples per second",
    "fitted_s": "Step time by the formula (s)",
    "flags": "Caution",
    "flops_per_byte": "FLOP per byte of payload",
    "high": "90 % interval to",
    "high_s": "90 % interval to (s)",
    "ideal": "Examples per second, ideal",
    "line": "Strategy",
    "loss": "Training loss",
    "low": "90 % interval from",
    "low_s": "90 % interval from (s)",
    "machine": "Machine",
    "observed_s": "Observed step time (s)",
    "payload_bytes": "Payload (bytes)",
    "rate_bit_s": "Link rate (bit/s)",
    "repeat": "Launch",
    "repeats": "Launches",
    "role": "Observed or by the formula",
    "saved": "Time saved, share of one node's",
    "seconds": "Time (s)",
    "speedup": "Speed-up",
    "step_time_high_s": "90 % interval to (s)",
    "step_time_low_s": "90 % interval from (s)",
    "step_time_s": "Step time, median over launches (s)",
    "title": "Model",
    "training_flops": "Training one example (FLOP)",
    "wall_s": "Wall time (s)",
}


def title_of_column(name: str) -> str:
    """Return the title of a column: its name in words, if it needs no other."""
    return _TITLES.get(name, name.replace("_", " ").capitalize())
