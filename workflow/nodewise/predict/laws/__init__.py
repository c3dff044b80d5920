"""The laws of a step time."""
