"""Predict step times: fit a law to measured curves, judge it, and answer how many nodes are best.

Nothing here needs TensorFlow. The path of a curve, module by module:

- **A law** is a formula of nodes, batch and payload: `law` has the interface, `parts_law` that of
  laws with parts (compute, wait, input, communicate), `laws/` one file per law, and `functions`
  what has no closed form.
- **A curve is fitted** in `fit_curves`: `curve_groups` says which points are fitted together,
  `priors` what is known beforehand, `choose_law` which law, and `fit` finds the coefficients,
  by `least_squares`.
- **A fit is judged** in `judge`, by points that were left out. `published_accuracy` has the errors
  on published curves.
- **A question is answered** in `optimum`: `question` has the objectives and their values,
  `steps_to_accuracy` the steps of a training.
- **An answer is worded** in `wording`.

Who uses these:

- The tables of a study, in `study`: `objectives` (optima), `bottleneck`, `link_rates`, `savings`
  and `published_bandwidth`. `calibration` has those of a calibrated cluster, with `all_reduce_law`.
- The commands, of a file that `fit_file` writes: `ask` (predict, optimum), `points_file` (predict
  --at) and `next_measurement`; `ask_options` reads what they are asked about. `curve_predictions`
  decides whether a curve follows its law or goes on as `similar_curves` among the
  `published_curves` did. `forecast` needs no fit.
- Figures and pages: `fit_queries` selects and joins rows of the tables of fits.

In a notebook:

    >>> from nodewise.predict.fit import fit
    >>> from nodewise.predict.points import Points
    >>> from nodewise.predict.law import At
    >>> from nodewise.predict.laws.ring import RingAllReduce
    >>> points = Points.of(nodes=[1, 2, 4], batch=64, payload=5e6, step_s=[0.020, 0.118, 0.159])
    >>> fitted = fit(RingAllReduce(), points)
    >>> fitted.evaluate(At.of(nodes=[8, 16], batch=64, payload=5e6)).round(2).tolist()
    [0.19, 0.2]
"""
