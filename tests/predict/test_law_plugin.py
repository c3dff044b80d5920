"""Another package's law is there, in Python and in JavaScript, without a change of nodewise."""

import os
import subprocess
import sys

import plugins

ASK = (
    "from nodewise.predict.law import LAWS; from nodewise.report.laws_js import laws_script; "
    "assert LAWS['one_to_all'].title == 'One to all'; "
    "assert '\"one_to_all\": (known)' in laws_script()"
)


def test_a_law_of_another_package_is_registered_and_generated(tmp_path):
    (tmp_path / "toylaw.py").write_text(plugins.example("my_law.py"))
    plugins.declare(tmp_path, "nodewise.laws", "toylaw")
    subprocess.run(
        [sys.executable, "-c", ASK], check=True, env=os.environ | {"PYTHONPATH": str(tmp_path)}
    )
