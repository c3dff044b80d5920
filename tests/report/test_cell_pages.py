"""What the pages of cells call their strategies."""

import make_records as make
from nodewise.report.strategy_words import trained_by


def test_a_variant_of_a_strategy_is_told_by_its_setting():
    options = {"period": 20}
    of = {"n": 2, "strategy": "parameter_averaging", "options": options}
    plain, variant = make.cell(**of), make.cell(**of, variant="rarely")
    assert trained_by(variant) == f"{trained_by(plain)} (every 20 steps)"
