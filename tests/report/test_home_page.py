"""The home page answers its title in two sentences, based on points that count as evidence."""

import re

import pytest

import make_records as make
from rendering import Texts, render


@pytest.mark.slow
def test_the_answer_is_that_of_the_largest_and_the_smallest_batch(tmp_path):
    cells = [
        make.cell(n=n, batch=batch, repeat=repeat)
        for n in (1, 2)
        for batch in (32, 512)
        for repeat in range(3)
    ]
    tables = make.write_study(tmp_path, [make.record(cell) for cell in cells])
    home = (render(tmp_path) / "index.md").read_text()
    (lead,) = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', home, re.DOTALL)
    lead = Texts(lead).text
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])
    for batch in (32, 512):
        assert f"{curves.loc[(2, batch), 'speedup']:#.2g} times as fast" in lead
    assert lead.index("512 examples") < lead.index("With 32 examples")
    assert lead.count("interval") == 2


def test_too_few_launches_or_crowded_machines_are_too_little_evidence(tmp_path):
    launched_twice = [make.cell(n=n, repeat=repeat) for n in (1, 2) for repeat in (0, 1)]
    crowded = [make.cell(n=3, repeat=repeat) for repeat in range(3)]  # on two cores
    make.write_study(tmp_path, map(make.record, [*launched_twice, *crowded]))
    assert "too little evidence" in (render(tmp_path) / "index.md").read_text()
