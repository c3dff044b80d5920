"""Lists of models and strategies are complete."""

import projects
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.strategies import STRATEGIES


def listed(command):
    """Return the lines that a command prints, as words."""
    printed = projects.python("-m", "nodewise", command)
    return [line.split() for line in printed.splitlines() if line.strip()]


def test_every_model_is_listed_with_its_operations_per_byte():
    rows = {words[0]: words for words in listed("models")}
    for name in registry():
        assert f"{facts(name).trainable:,}" in rows[name]
        assert rows[name][-1] == f"{64 * facts(name).flops_per_payload_byte:,.0f}"


def test_every_strategy_is_listed_with_its_options():
    rows = listed("strategies")
    assert {*STRATEGIES} <= {words[0] for words in rows}
    options = {word.partition("=")[0] for words in rows for word in words if "=" in word}
    assert options == {name for one in STRATEGIES.values() for name in one.options.model_fields}
