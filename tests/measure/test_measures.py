"""A change of the measuring code makes its author decide whether old measurements still hold."""

from make_measures import DIGESTS, code_sha256, digests


def test_a_change_of_the_measuring_code_is_one_of_measures_or_changes_no_number():
    changed = set(digests().splitlines()) ^ set(DIGESTS.read_text().splitlines())
    files = sorted({line.split("  ")[1] for line in changed})
    assert not files, (
        f"changed: {', '.join(files)}. If measured numbers change, raise MEASURES in "
        "workflow/nodewise/study/measures.py. Then run: python tests/make_measures.py"
    )


def test_only_a_change_of_the_code_changes_its_digest():
    code = "def f(x):\n    return x + 1\n"
    told = '"""Docs."""\n\n\ndef f(x):\n    """Add."""\n    return (x + 1)  # one more\n'
    assert code_sha256(code) == code_sha256(told) != code_sha256(code.replace("1", "2"))
