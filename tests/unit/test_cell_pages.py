"""The pages of cells: which are made anew, and that those that are not are as if they were."""

import shutil
from pathlib import Path

import pytest

import make_records as make
from nodewise import pages
from nodewise.pages import render_cells
from nodewise.pages.study import trained_by
from rendering import CONFIG

CELLS = [make.cell(batch=batch, repeat=repeat) for batch in (64, 128) for repeat in (0, 1)]
OTHER_LAUNCH = 1  # of the cell that is changed


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree("site/templates", tmp_path / "site/templates")
    make.write_study(tmp_path, [make.record(cell) for cell in CELLS])
    render(tmp_path)
    return tmp_path


def render(folder, out="cells"):
    """Render, and return the cells whose pages were made."""
    made = []
    page = pages.cells.page
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            pages.cells,
            "page",
            lambda study, row, *of: made.append(row["cell_id"]) or page(study, row, *of),
        )
        render_cells(
            CONFIG,
            tables_dir=folder / "tables",
            records_dir=folder / "records",
            site_dir=folder / "site",
            out_dir=folder / out,
        )
    return made


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    return {path.relative_to(folder): path.read_text() for path in files}


def test_pages_of_a_changed_record_and_of_its_point_are_made_anew(folder):
    assert render(folder) == []
    records = [make.failed(CELLS[0], "lost"), *map(make.record, CELLS[1:])]
    make.write_study(folder, records)
    assert sorted(render(folder)) == sorted(cell.id for cell in CELLS[: OTHER_LAUNCH + 1])
    assert len(render(folder, "all anew")) == len(CELLS)
    assert contents(folder / "cells") == contents(folder / "all anew")


def test_pages_of_a_changed_template_are_all_made_anew(folder):
    template = folder / "site/templates/cells/cell.html.j2"
    template.write_text(template.read_text() + "<p>new</p>\n")
    assert len(render(folder)) == len(CELLS)
    pages_of_cells = [
        text for path, text in contents(folder / "cells").items() if path.suffix == ".html"
    ]
    assert len(pages_of_cells) == len(CELLS)
    assert all("<p>new</p>" in text for text in pages_of_cells)


def test_a_page_or_record_that_was_deleted_is_made_anew(folder):
    whole = contents(folder / "cells")
    (folder / f"cells/cells/{CELLS[0].id}.html").unlink()
    (folder / f"cells/cells/{CELLS[2].id}.json").unlink()
    render(folder)
    assert contents(folder / "cells") == whole


def test_a_variant_of_a_strategy_is_told_by_its_setting():
    options = {"period": 20}
    of = {"n": 2, "strategy": "parameter_averaging", "options": options}
    plain, variant = make.cell(**of), make.cell(**of, variant="rarely")
    assert trained_by(variant) == f"{trained_by(plain)} (every 20 steps)"
