"""Texts in a zip archive, with one folder per class, read as WordPiece tokens for BERT."""

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease, Labelled, labelled
from nodewise.data.formats.image_zip import Folder

START, END = "[CLS]", "[SEP]"
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

    def read(self, facts: Facts, paths: Mapping[str, Path]) -> tuple[Labelled, Labelled]:
        """Read the texts; return their token ids and labels."""
        lines = paths[self.vocabulary.name].read_text(encoding="utf-8").removesuffix("\n")
        vocabulary = lines.split("\n")  # the line number of an entry, from 0, is its id
        if len(vocabulary) != self.vocabulary_size:
            raise ValueError(f"{self.vocabulary.name}: {len(vocabulary):,} entries")
        with ZipFile(paths[self.file.name]) as archive:

            def read(names: list[str], labels: list[int]) -> Labelled:
                texts = [archive.read(name).decode("utf-8").translate(_CONTROL) for name in names]
                ids = tokens(texts, vocabulary, facts.shape[0])
                return ids, np.array(labels, np.uint8)

            train, test = labelled(archive.namelist(), [self.folder], facts, ".txt")
            return read(*train), read(*test)


def tokens(texts: list[str], vocabulary: list[str], length: int) -> Tokens:
    """Convert texts to token ids: [CLS], WordPiece tokens and [SEP], truncated or padded with 0.

    Texts are converted to lower case without accents, as for bert-base-uncased (Devlin et al.,
    2018, https://arxiv.org/abs/1810.04805). This imports TensorFlow.

    Args:
        texts: the texts.
        vocabulary: entries of the vocabulary, in the order of their ids.
        length: number of tokens per text.

    Returns:
        Token ids, uint16 (texts, length).
    """
    import tensorflow_text

    tokenizer = tensorflow_text.FastBertTokenizer(vocabulary, lower_case_nfd_strip_accents=True)
    start, end = vocabulary.index(START), vocabulary.index(END)
    ids = np.zeros((len(texts), length), np.uint16)
    for row, pieces in enumerate(tokenizer.tokenize(texts).to_list()):
        whole = [start, *pieces[: length - 2], end]
        ids[row, : len(whole)] = whole
    return ids
