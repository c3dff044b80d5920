"""A change of the measuring code makes its author decide whether old measurements still hold."""

from make_measures import DIGESTS, MEASURING, PACKAGE, digests


def test_a_change_of_the_measuring_code_is_one_of_measures_or_changes_no_number():
    changed = set(digests().splitlines()) ^ set(DIGESTS.read_text().splitlines())
    files = sorted({line.split("  ")[1] for line in changed})
    assert not files, (
        f"changed: {', '.join(files)}. If measured numbers change, raise MEASURES in "
        "workflow/nodewise/measure/version.py. Then run: python tests/make_measures.py"
    )


def test_every_part_of_the_measuring_code_is_there():
    assert all(list(PACKAGE.glob(pattern)) for pattern in MEASURING)
