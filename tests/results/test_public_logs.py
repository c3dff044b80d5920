"""Logs in the forms in which people publish them say what a person would read from them."""

from pathlib import Path

import pytest
import yaml

from nodewise.core.errors import UserError
from nodewise.results.convert import pattern_of_user
from nodewise.results.importers import read_rows

LOGS = yaml.safe_load(Path("tests/results/files/public_logs.yaml").read_text())


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_published_log_says_what_a_person_reads(tmp_path, log):
    path = tmp_path / log.get("name", "run.log")
    path.write_text(log["text"], encoding=log.get("encoding", "utf-8"))
    read = pattern_of_user(log["pattern"]).read if "pattern" in log else read_rows
    refused, notes = log.get("refused"), log.get("notes", [])
    if refused:
        with pytest.raises(UserError, match=refused):
            read(path)
        return
    rows = read(path)
    for column in log.keys() - {"name", "text", "encoding", "pattern", "notes"}:
        assert rows[column].tolist() == pytest.approx(log[column], rel=1e-4)
    for note, words in zip(rows.attrs["notes"], notes, strict=True):
        assert words in note
