"""Studies: their configuration and cells, estimates of run time, missing results, publishing."""
