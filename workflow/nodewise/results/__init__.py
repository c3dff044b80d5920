"""Measured and published results: records, calibrations, and the tables built from them.

- **Files**: `record` is the schema of the record of a cell. `calibration`, `noise_scale` and
  `model_description` are the schemas of other files.
- **Tables**: `tables` builds them. `cell_rows` builds the rows of a record, `curve_points` the
  points of curves from all sources, and `cautions` the reasons why they may mislead.
  `columns.yaml` names, types and explains every column.
- **Imported curves**: `importers/` reads files of other tools. `log_format` reads text logs, whose
  kinds are declared in `log_formats.yaml`, and `csv_file` CSV files of users. `curve_rows` checks
  the rows of a file and turns them into `curves`. `published` reads the numbers of the
  studies, and `studies` what they claim.
- **Queries** of figures, pages and answers: `queries` and `comparisons` select and join rows.
"""
