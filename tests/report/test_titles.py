"""Titles of strategies, of a study's own variants, and of experiments."""

from pathlib import Path

import make_records as make
from nodewise.report.titles import (
    Variant,
    named_variants,
    short_title,
    title_of_strategy,
)
from nodewise.study.config import Config, read_config


def test_the_variants_of_a_configuration_have_the_titles_of_their_cells():
    config = read_config(Path("config/study.yaml"))
    variants = {
        cell.variant: Variant(cell.strategy, title_of_strategy(cell))
        for cell in config.cells()
        if cell.variant
    }
    assert {"driver", "top_k"} <= set(variants)
    assert named_variants(config) == variants


def test_a_variant_measured_before_has_the_title_of_its_records_whatever_its_study_says_now(
    tmp_path,
):
    of = {"n": 2, "experiment": "ways"}
    pipelines = {"strategy": "hybrid", "options": {"groups": 1, "micro_batches": 1}}
    cells = [
        make.cell(**of, **pipelines, variant="hybrid_one_group"),
        make.cell(**of, strategy="custom_loop", variant="my_own"),
        make.cell(**of, strategy="custom_loop"),
    ]
    make.write(map(make.record, cells), tmp_path)
    config = Config.model_construct(records=[str(tmp_path)], experiments={})
    assert named_variants(config) == {
        "hybrid_one_group": Variant("hybrid", f"{short_title('hybrid')} (1 group)"),
        "my_own": Variant("custom_loop", f"{short_title('custom_loop')} (my own)"),
    }
