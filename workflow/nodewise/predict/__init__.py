"""Predict step times: fit a cost model to measured curves and find the best number of nodes.

Nothing here needs TensorFlow. A cost model is called a law. The modules, in the order in which a
curve passes through them:

- **Laws** give the step time as a formula of nodes, batch and payload. `law` reads them
  from `laws.yaml`, and `points` has the points that they are evaluated at and fitted to.
- **Fitting**: `fit_curves` decides which points are fitted together, `known_links` collects what is
  known before the fit, and `fit` estimates the coefficients.
- **Answers**: `curve_predictions` draws step times, by the law or as `similar_curves` among the
  published ones went on. `answers` makes one table of them: time, cost, energy, speed-up and
  efficiency by number of nodes, the best number for each objective and the best batch for each
  number. `steps_to_accuracy` models how many steps a training needs.

These modules are used by:

- The tables of a study: `study` builds them, and computes errors on held-out points.
- The commands: `fit_file` writes and reads the fits, `question_files` answers tables of questions,
  and `next_measurement` recommends what to measure. `forecast` and `machines` need no fit, nor does
  `explain`, which tells the likeliest of the `causes` of a slow training.

In a notebook:

    >>> from nodewise.predict.fit import fit
    >>> from nodewise.predict.points import Points
    >>> from nodewise.predict.law import LAWS
    >>> points = Points.of(nodes=[1, 2, 4], batch=64, payload=5e6, step_s=[0.020, 0.118, 0.159])
    >>> fitted = fit(LAWS["ring"], points)
    >>> fitted.draw(Points.of(nodes=[8, 16], batch=64, payload=5e6))[0].round(2).tolist()
    [0.19, 0.2]
"""
