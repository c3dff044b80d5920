"""Texts in a zip archive, with one folder per class, read as WordPiece tokens for BERT."""

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease
from nodewise.data.formats.archive import open_zip
from nodewise.data.formats.image_zip import Folder
from nodewise.data.formats.labelled import labelled
from nodewise.data.prepared import Arrays

PADDING, START, END, UNKNOWN = "[PAD]", "[CLS]", "[SEP]", "[UNK]"
_CHUNK = 250  # texts tokenised at a time
# BERT drops control characters, but the tokeniser would split words at them.
_CONTROL = dict.fromkeys(
    code
    for code in range(0xA0)
    if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\t\n\r"
)

Tokens = NDArray[np.uint16]


class ReviewZip(BaseRelease):
    """Texts in a zip archive, and the vocabulary of their tokens.

    `folder` contains one folder per class. It is split according to `split_seed`, see `labelled`.
    """

    format: Literal["review_zip"]
    file: SourceFile
    folder: Folder
    vocabulary: SourceFile
    vocabulary_size: int = Field(ge=4, le=2**16)

    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the archive and the vocabulary."""
        return (self.file, self.vocabulary)

    def check(self, facts: Facts) -> None:
        """Raise a ValueError unless the examples are texts and there is a seed."""
        if len(facts.shape) != 1 or facts.shape[0] < 3:
            raise ValueError("shape: review_zip has a number of tokens, 3 or more")
        if facts.split_seed is None:
            raise ValueError("split_seed: review_zip needs it")

    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Read the texts; return their token ids and labels."""
        try:
            vocabulary = _read_vocabulary(paths[self.vocabulary.name], self.vocabulary_size)
        except ValueError as error:
            raise ValueError(f"{self.vocabulary.name}: {error}") from error
        try:
            with open_zip(paths[self.file.name]) as (names, read):
                readme = f"{self.folder}/README"
                parts = labelled(names, [self.folder], facts, ".txt", besides=[readme])
                texts = [[_text(name, read(name)) for name, _ in items] for items in parts]
        except ValueError as error:
            raise ValueError(f"{self.file.name}: {error}") from error
        x_train, x_test = (tokens(t, vocabulary, facts.shape[0], advance) for t in texts)
        y_train, y_test = (np.array([label for _, label in items], np.uint8) for items in parts)
        return Arrays(x_train, y_train, x_test, y_test)


def _read_vocabulary(path: Path, size: int) -> list[str]:
    """Return the entries of a vocabulary file. The line number of an entry, from 0, is its id."""
    try:
        entries = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start:,}") from error
    if len(entries) != size:
        raise ValueError(f"{len(entries):,} entries, expected {size:,}")
    if len(set(entries)) != size:
        raise ValueError("an entry appears twice")
    missing = {PADDING, START, END, UNKNOWN} - set(entries)
    if missing or entries[0] != PADDING:
        raise ValueError(f"must begin with {PADDING} and have {START}, {END} and {UNKNOWN}")
    return entries


def _text(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8 at byte {error.start:,}") from error
    if not text.strip():
        raise ValueError(f"{name}: is empty")
    return text.translate(_CONTROL)


def tokens(
    texts: list[str], vocabulary: list[str], length: int, advance: Callable[[int], None]
) -> Tokens:
    """Convert texts to token ids: [CLS], WordPiece tokens and [SEP], truncated or padded with 0.

    Texts are converted to lower case without accents, as for bert-base-uncased (Devlin et al.,
    2018, https://arxiv.org/abs/1810.04805). This imports TensorFlow.

    Args:
        texts: the texts.
        vocabulary: entries of the vocabulary, in the order of their ids.
        length: number of tokens per text.
        advance: called with the number of texts just converted.

    Returns:
        Token ids, uint16 (texts, length).
    """
    import tensorflow_text

    tokenizer = tensorflow_text.FastBertTokenizer(vocabulary, lower_case_nfd_strip_accents=True)
    start, end = vocabulary.index(START), vocabulary.index(END)
    ids = np.zeros((len(texts), length), np.uint16)
    for first in range(0, len(texts), _CHUNK):
        chunk = texts[first : first + _CHUNK]
        for row, pieces in enumerate(tokenizer.tokenize(chunk).to_list(), first):
            whole = [start, *pieces[: length - 2], end]
            ids[row, : len(whole)] = whole
        advance(len(chunk))
    return ids
