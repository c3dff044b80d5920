"""How cautions are joined, and which cautions of its launches a point keeps."""

import pytest

from nodewise.results.cautions import cautions_of_launches, join_cautions


def test_cautions_are_joined_each_once():
    assert join_cautions("a", "", "b", "a") == "a; b"
    assert join_cautions() == join_cautions("") == ""


@pytest.mark.parametrize(
    ("launches", "kept"),
    [
        ([""], ""),
        (["a"], "a"),
        (["a", ""], "a"),
        (["a", "", ""], ""),
        (["a; b", "", "b; c"], "a; b; c"),
    ],
)
def test_a_point_keeps_the_cautions_of_half_of_its_launches(launches, kept):
    assert cautions_of_launches(launches) == kept
