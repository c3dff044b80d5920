"""What distribution costs: laws of the step time, their fits, and how wrong they are.

`study.fit_study` is the entry. This package itself imports nothing, so that it costs nothing.
"""
