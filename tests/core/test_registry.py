"""A registry contains what its folder and other packages register; unknown names are reported."""

import sys

import pytest

import plugins
from nodewise.core.errors import UserError

MODULE = "from {package} import THINGS\n\nTHINGS.add({name!r}, {value})\n"
GROUP = "toys.things"


@pytest.fixture
def things(tmp_path, monkeypatch):
    """Return the registry of a package `toys` in `tmp_path` whose modules register values."""
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from nodewise.core.registry import Registry\n"
        f"THINGS = Registry('thing', 'toys', {GROUP!r})\n"
    )
    (folder / "b.py").write_text(MODULE.format(package="toys", name="b", value=2))
    (folder / "a.py").write_text(MODULE.format(package="toys", name="a", value=1))
    monkeypatch.syspath_prepend(tmp_path)
    import toys

    yield toys.THINGS
    for name in [one for one in sys.modules if one.partition(".")[0] in ("toys", "plugin")]:
        del sys.modules[name]


def install(tmp_path, module, text):
    """Install a package that declares `module` as a plug-in."""
    (tmp_path / f"{module}.py").write_text(text)
    plugins.declare(tmp_path, GROUP, module)


def test_it_has_what_the_modules_of_its_folder_register(things):
    assert dict(things) == {"a": 1, "b": 2}
    assert list(things) == ["a", "b"]


def test_of_a_folder_of_packages_it_imports_no_other_modules(things, tmp_path):
    (tmp_path / "toys" / "c").mkdir()
    text = MODULE.format(package="toys", name="c", value=3)
    (tmp_path / "toys" / "c" / "__init__.py").write_text(text)
    assert list(things) == ["c"]


def test_a_plugin_that_fails_is_named_in_one_line(things, tmp_path):
    install(tmp_path, "plugin", "1 / 0\n")
    for _ in range(2):  # The second read must not return a part of the list.
        with pytest.raises(UserError, match=r"^thing plug-in plugin: .*division by"):
            dict(things)


def test_a_name_that_is_there_twice_is_an_error(things, tmp_path):
    install(tmp_path, "plugin", MODULE.format(package="toys", name="a", value=3))
    with pytest.raises(UserError, match=r"^thing a: appears twice"):
        dict(things)


def test_an_unknown_name_is_answered_by_those_that_are_known(things):
    with pytest.raises(UserError, match=r"^thing c: unknown; allowed: a, b$"):
        things.find("c")
    assert things.find("a") == 1
