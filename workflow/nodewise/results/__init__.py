"""Measured and published results: records, calibrations, and the tables built from them.

- **Files**: `record` is the schema of the record of a cell. `calibration`, `noise_scale` and
  `model_description` are the schemas of other files.
- **Tables**: `tables` builds them from records, with cautions where they may mislead, and
  `curve_points` the points of curves from all sources. `columns.yaml` names, types and explains
  every column.
- **Imported curves**: `importers/` reads files of other tools. `log_format` reads text logs, whose
  kinds are declared in `log_formats.yaml`, `csv_file` CSV files of users, and
  `posted_numbers` single numbers. `curves` checks the rows of a file and turns them into curves.
  `published` reads the numbers of the studies, and `studies` what they claim.
- **Queries** of figures, pages and answers: `queries` and `comparisons` select and join rows.
"""
