"""Measure cells, calibrations and noise scales.

`cell.measure` starts the processes of a cell and writes its record. In each process that trains,
`worker.train_cell` warms up, trains the timed steps and evaluates the model. Steps are timed where
they are trained, in `Strategy.train` of `strategies.api`; `stopwatch` measures everything else.
`combine` merges the reports of all processes into one measurement. `block_job` watches the machine
and repeats a block of work if it was not quiet.
"""
