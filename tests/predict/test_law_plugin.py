"""Another package's law is there, in Python and in JavaScript, without a change of nodewise."""

import os
import subprocess
import sys

import plugins

TOY = """
from dataclasses import dataclass
from typing import ClassVar
from nodewise.predict.law import LAWS, PartsLaw, S, beta, n


@LAWS.register
@dataclass(frozen=True)
class Toy(PartsLaw):
    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy"
    source: ClassVar[str] = "a test"
    communicate = 7 * S * beta * (n - 1)
"""
ASK = (
    "from nodewise.predict.law import LAWS; from nodewise.report.laws_js import laws_script; "
    "assert LAWS['toy'].title == 'Toy'; assert '\"toy\": (known)' in laws_script()"
)


def test_a_law_of_another_package_is_registered_and_generated(tmp_path):
    (tmp_path / "toylaw.py").write_text(TOY)
    plugins.declare(tmp_path, "nodewise.laws", "toylaw")
    subprocess.run(
        [sys.executable, "-c", ASK], check=True, env=os.environ | {"PYTHONPATH": str(tmp_path)}
    )
