"""Basics that all other packages use: errors, files, validation, units, intervals and cells."""
