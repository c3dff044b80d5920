"""Reviews become tokens as BERT's tokenizer makes them; expected values were derived by hand."""

import numpy as np
import pytest

import make_datasets as make
from nodewise.data.formats.review_zip import _CONTROL, tokens

VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "##ff"]
VOCABULARY += ["a", "cafe", "today", "##s", "s", "it", "'", ",", ".", "!", "the", "##a"]
VOCABULARY += ["12", "##3", "é", "中"]


def read(*texts, length=12):
    ids = tokens(list(texts), VOCABULARY, length)
    assert ids.dtype == np.uint16
    assert ids.shape == (len(texts), length)
    return [[VOCABULARY[number] for number in row] for row in ids.tolist()]


def told(*pieces, length=12):
    return ["[CLS]", *pieces, "[SEP]"] + ["[PAD]"] * (length - 2 - len(pieces))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ["un", "##aff", "##able"]),  # the longest piece first, from left to right
        ("Unaffable THE", ["un", "##aff", "##able", "the"]),  # lower case
        ("Café cafe\u0301", ["cafe", "cafe"]),  # without accents, precomposed or combining
        # Punctuation marks are separate words.
        ("it's, today!", ["it", "'", "s", ",", "today", "!"]),
        ("todays", ["today", "##s"]),
        ("thex a", ["[UNK]", "a"]),  # A word with an unknown piece is unknown as a whole.
        ("123 12 3", ["12", "##3", "12", "[UNK]"]),
        ("a中a", ["a", "中", "a"]),  # Chinese characters are separate words.
        ("a\t\n  a\u00a0a", ["a", "a", "a"]),  # All kinds of white space count alike.
        ("", []),
        ("a" * 300, ["[UNK]"]),  # longer than the longest word
    ],
)
def test_the_rules_of_word_pieces(text, pieces):
    assert read(text) == [told(*pieces)]


def test_long_texts_are_cut_and_still_end():
    assert read("a " * 50, length=6) == [told("a", "a", "a", "a", length=6)]
    assert read("a a a", length=6) == [told("a", "a", "a", length=6)]


def test_many_texts_come_out_in_their_order():
    texts = [" ".join(["a"] * (number % 7)) for number in range(600)]
    ids = tokens(texts, VOCABULARY, 9)
    assert (ids != 0).sum(axis=1).tolist() == [2 + number % 7 for number in range(600)]


def test_control_characters_are_dropped_before():
    assert "to\x12day\x05s\x7f\x9f a\tb\nc\r".translate(_CONTROL) == "todays a\tb\nc\r"


def test_a_prepared_corpus(tmp_path):
    change = {"reviews/pos/cv005.txt": b"The go\x12od FILM"}
    data = make.Sample(tmp_path, *make.review_sample(change, make.vocabulary())).load()
    assert data.train[0].shape == (9, make.REVIEW_TOKENS)
    assert data.train[0].dtype == np.uint16
    assert [file.name for file in data.manifest.files] == ["reviews.zip", "vocab.txt"]
    x = np.concatenate([data.train[0], data.test[0]])
    y = np.concatenate([data.train[1], data.test[1]])
    assert y.sum() == 6
    found = {
        " ".join(make.WORDS[number] for number in row): label
        for row, label in zip(x, y, strict=True)
    }
    expected = {
        " ".join(told("the", word, "film", "##s", *["."] * dots, length=8)): label
        for label, word in enumerate(("bad", "good"))
        for dots in range(3)  # Texts with more dots are cut to the same tokens.
    }
    expected["[CLS] the good film [SEP] [PAD] [PAD] [PAD]"] = 1
    assert found == expected
