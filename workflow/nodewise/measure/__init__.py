"""Measure cells, calibrations and noise scales.

`cell.measure` starts the processes of a cell and writes its record. In each process that trains,
`worker.train_cell` warms up, trains the timed steps and evaluates. A step is timed where it is
trained: in `Strategy.train` of `strategies.api`. `combine` makes one measurement of all reports.
"""
