"""The version of the measuring code, an input of every rule that measures."""

MEASURES = 4
"""Raise this if a cell, a calibration or a noise scale would now give other numbers.

The next run then repeats all measurements. As a reminder, `tests/measure/test_measures.py` fails
when the measuring code changes.
"""
