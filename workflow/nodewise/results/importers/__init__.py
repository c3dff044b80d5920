"""Curves from other sources than records: published studies, users' tables, other tools."""
