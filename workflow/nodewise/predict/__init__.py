"""What distribution costs: laws of the step time, their fits, their optima, and how wrong they are.

Nothing here needs TensorFlow. The workflow calls `study.fit_study` and `study.judge_study`. In a
notebook:

    >>> from nodewise.predict.fit import fit
    >>> from nodewise.predict.points import Points
    >>> from nodewise.predict.law import At
    >>> from nodewise.predict.laws.ring import RingAllReduce
    >>> points = Points.of(nodes=[1, 2, 4], batch=64, payload=5e6, step_s=[0.020, 0.118, 0.159])
    >>> fitted = fit(RingAllReduce(), points)
    >>> fitted.evaluate(At.of(nodes=[8, 16], batch=64, payload=5e6)).round(2).tolist()
    [0.19, 0.2]
"""
