"""The version of what nodewise measures, an input of every rule that measures."""

MEASURES = 3
"""Raise this when a cell, a calibration or a noise scale would now give other numbers.

The next run then measures everything again. `tests/measure/test_measures.py` fails when the
measuring code changes, as a reminder.
"""
