"""Models on the site: figures and pages."""

import json
from html import unescape

import pytest

import make_architectures as make
import make_records
import rendering
from nodewise.models.facts import refuse_own


def test_a_model_has_a_page_with_its_numbers_and_its_description_escaped(docs):
    page = (docs / "models/fashion-cnn.md").read_text()
    described = make.fashion_cnn()
    assert f'<data value="{described.payload_bytes:.6g}"' in page
    assert f'<data value="{described.flops_per_payload_byte:.6g}"' in page
    assert page.count("<tr>") > len(described.layers)
    written = json.loads((docs / "models/fashion_cnn.json").read_text())
    assert written == described.model_dump(mode="json")
    for size in (described.memory.optimizer_bytes, *described.memory.measured.values()):
        assert f'<data value="{size:.6g}"' in page
    index = (docs / "models/index.md").read_text()
    assert "&#60;b&#62;two" in page and "<b>two" not in page + index


@pytest.mark.slow
def test_a_user_s_own_model_has_a_page_even_if_its_layers_are_not_known(tmp_path):
    own = {"model": "mine", "dataset": "mine", "build": "mine.py:build", "load": "mine.py:load"}
    records = [make_records.record(make_records.cell(n=nodes, **own)) for nodes in (1, 2)]
    make_records.write_study(tmp_path, records)
    about = {"model": "own_mine_12345678", "about": ["The model of mine.py:build."]}
    totals = {"trainable": 100, "total": 100, "payload_bytes": 400, "stages": 1}
    flops = {"flops_per_example": 300, "training_flops_per_example": 900}
    whole = make.fashion_cnn().layers[0].model_copy(update={"uncounted": ["FFT2D"]})
    described = make.fashion_cnn().model_copy(
        update=about | totals | flops | {"input_shape": [], "layers": [whole]}
    )
    path = make.write([described], tmp_path / "own") / "own_mine_12345678.json"
    given = {"models_dir": tmp_path / "models", "own_models": {"mine": path}}
    docs = rendering.render(tmp_path, **given)
    page = (docs / "models/mine.md").read_text()
    assert "The model of mine.py:build." in unescape(page)
    assert "<dd>Own data, mine.py:load</dd>" in unescape(page)
    assert "<dd>of several parts or sizes</dd>" in page
    assert "<code>FFT2D</code> are not counted" in page
    assert "Its results" in page
    refuse_own(path, "mine.py:build: must return a keras.Model, not nothing")
    docs = rendering.render(tmp_path, **given)
    assert not (docs / "models/mine.md").exists()
