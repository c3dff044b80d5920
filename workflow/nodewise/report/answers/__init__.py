"""The answers of the findings page; each module of this folder answers one question.

To add an answer, write a module with a function that is decorated with `@answer`. Nothing else has
to be changed. The page shows answers by their `order`.
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
    """A registered answer: its place on the page, and the function that returns its finding."""

    order: int
    ask: Ask


ANSWERS: Registry[Answer] = Registry("answer", "nodewise.report.answers")


def answer(name: str, *, order: int) -> Callable[[Ask], Ask]:
    """Register the decorated function, which takes a study and returns a `Finding`.

    Args:
        name: the name of the answer.
        order: its place on the page; lower numbers come first.
    """

    def register(ask: Ask) -> Ask:
        ANSWERS.add(name, Answer(order, ask))
        return ask

    return register


def give_answers(study: ReportContext) -> Iterator[dict[str, Any]]:
    """Yield the template variables of every answer, in the order of the page."""
    for one in sorted(ANSWERS.values(), key=lambda one: one.order):
        yield complete(study, one.ask(study))
