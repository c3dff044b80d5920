"""What was measured or published: records, calibrations, and the tables made of them.

- **A record** of a cell is declared in `record`, what was measured in it in `measurement`.
  `calibration`, `noise_scale`, `model_description` and `peers` declare the other files.
- **Tables** are made in `tables`: `cell_rows` has a row per record, `curve_rows` a row per point of
  a curve, `curve_points` those of all sources alike; `curve_intervals` says how sure they are,
  `cautions` why they may mislead. `columns.yaml` names, types and explains every column.
- **Curves of others** are read by `importers/`, a file per format, into `curves`; `csv_file` reads
  any CSV file of a user.
- **Figures, pages and answers** ask `queries` and `comparisons`, which select and join rows.
"""
