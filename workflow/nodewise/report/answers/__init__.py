"""The answers of the findings page: each module here answers one question and registers itself.

To add an answer, write such a module; the page shows it in the place that `order` says.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nodewise.core.registry import Registry
from nodewise.report.context import ReportContext
from nodewise.report.finding import Finding, complete

Ask = Callable[[ReportContext], Finding]


@dataclass(frozen=True)
class Answer:
    """A registered answer: its place on the page, and the function that gives it."""

    order: int
    ask: Ask


ANSWERS: Registry[Answer] = Registry("answer", "nodewise.report.answers")


def answer(name: str, *, order: int) -> Callable[[Ask], Ask]:
    """Register the decorated function: it takes a study and returns its `Finding`."""

    def register(ask: Ask) -> Ask:
        ANSWERS.add(name, Answer(order, ask))
        return ask

    return register


def give_answers(study: ReportContext) -> Iterator[dict[str, Any]]:
    """Yield every answer in its order."""
    for one in sorted(ANSWERS.values(), key=lambda one: one.order):
        yield complete(study, one.ask(study))
