"""Sentences in which an adjective tells which noun "it" is (chapter, section K).

Two tasks. In the easy one the nouns are an animal and a place, so the bag of words gives the answer away. In the
closed one both come from one pool and either can stand in either slot, so only their order and the adjective tell.
"""

import itertools
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.data.interface import Batch

ANIMALS = ("fox", "hare", "goat", "cat", "mule", "deer", "hen", "crab")
PLACES = ("road", "bridge", "field", "river", "yard", "ford", "track", "lane")
NOUNS = (
    "fox",
    "cart",
    "hare",
    "train",
    "goat",
    "boat",
    "mule",
    "crowd",
    "river",
    "herd",
    "car",
    "parade",
    "stream",
    "tram",
    "flock",
    "barge",
)
CROSSER = ("tired", "scared", "slow", "weak")
CROSSED = ("wet", "wide", "busy", "steep")
FIRST, SECOND, ADJECTIVE, REFERENT = 1, 6, 11, 15  # places of the open words in a sentence
LENGTH = 18  # words of a sentence
HELD_OUT = 0.25  # share of the ordered pairs
SPLIT_SEED = 0  # the split is part of the task, the same for all seeds of a run

Pair = tuple[str, str]
Sentence = tuple[str, ...]


def sentence(first: str, second: str, adjective: str) -> Sentence:
    """The sentence, with the referent that its adjective decides: the crosser is the first noun."""
    referent = first if adjective in CROSSER else second
    words = f"the {first} did not cross the {second} because it was too {adjective} , so the {referent} waited ."
    return tuple(words.split())


def pairs(task: str) -> tuple[list[Pair], list[Pair]]:
    """Ordered noun pairs in training and held out. `closed`: each held-out pair's reverse is in training."""
    rng = np.random.default_rng(SPLIT_SEED)
    if task == "easy":
        everything = list(itertools.product(ANIMALS, PLACES))
        order = rng.permutation(len(everything))
        heldout = {everything[i] for i in order[: round(len(everything) * HELD_OUT)]}
    else:
        everything = list(itertools.permutations(NOUNS, 2))
        unordered = list(itertools.combinations(NOUNS, 2))
        order = rng.permutation(len(unordered))[: round(len(everything) * HELD_OUT)]
        heldout = {unordered[i] if rng.random() < 0.5 else unordered[i][::-1] for i in order}
    return [pair for pair in everything if pair not in heldout], [pair for pair in everything if pair in heldout]


class Coreference:
    """Next-word prediction on the sentences; judged at one position, the word after "so the".

    Args:
        task: `easy` or `closed`.
        window: T, words the model reads of a sentence; all but the last.
        batch: B, sentences per step.
        seed: of the order of the data.

    Raises:
        ValueError: another task, another window, or no sentence in a batch.
    """

    def __init__(self, task: str, window: int, batch: int, seed: int) -> None:
        if task not in ("easy", "closed"):
            raise ValueError(f"task: {task}; allowed: easy, closed")
        if window != LENGTH - 1:
            raise ValueError(f"window: {window}; allowed: {LENGTH - 1}, a sentence but its last word")
        if batch < 1:
            raise ValueError(f"batch: {batch}; allowed: at least 1")
        self.size, self.seed, self.task = batch, seed, task
        training, self.heldout_pairs = pairs(task)
        sentences = [sentence(*pair, adj) for pair in training for adj in CROSSER + CROSSED]
        heldout = [sentence(*pair, adj) for pair in self.heldout_pairs for adj in CROSSER + CROSSED]
        self.words = sorted({word for s in sentences + heldout for word in s})
        self.vocabulary = len(self.words)
        self.train, self.heldout = self.encode(sentences), self.encode(heldout)

    def encode(self, sentences: list[Sentence]) -> Tensor:
        """Word numbers, NxL."""
        number = {word: i for i, word in enumerate(self.words)}
        return torch.tensor([[number[word] for word in s] for s in sentences])

    def batch(self, index: int) -> Batch:
        """Inputs and next words, BxT each, of step `index`."""
        chosen = np.random.default_rng([self.seed, index]).integers(0, len(self.train), self.size)
        sentences = self.train[torch.from_numpy(chosen)]
        return sentences[:, :-1], sentences[:, 1:]

    def probe(self, windows: int) -> Tensor:
        """The first held-out sentences, NxT."""
        return self.heldout[:windows, :-1]

    def evaluate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """`accuracy` between the two nouns, `accuracy_vocabulary` over all words, `wrong_noun`: the share of sentences
        for which the pair's other noun is the most likely word of all; and held-out perplexity over all words.
        """
        sentences = self.heldout.to(device)
        with torch.no_grad():
            logits_NxTxV = model(sentences[:, :-1])
        loss = F.cross_entropy(logits_NxTxV.flatten(0, 1), sentences[:, 1:].flatten()).item()
        asked_NxV = logits_NxTxV[:, REFERENT - 1]
        right_N, nouns_Nx2 = sentences[:, REFERENT], sentences[:, [FIRST, SECOND]]
        between_N = nouns_Nx2.gather(1, asked_NxV.gather(1, nouns_Nx2).argmax(dim=1, keepdim=True))[:, 0]
        named_N = asked_NxV.argmax(dim=1)
        wrong_N = (nouns_Nx2 == named_N[:, None]).any(dim=1) & (named_N != right_N)
        return {
            "accuracy": _share(between_N == right_N),
            "accuracy_vocabulary": _share(named_N == right_N),
            "wrong_noun": _share(wrong_N),
            "heldout_loss": loss,
            "heldout_perplexity": math.exp(loss),
        }

    def details(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """Attention at the position that must name the referent, per adjective: `one` held-out pair, and the `mean`
        over all of them, each a nested list of blocks, heads and the 15 words it sees. Blocks that do not attend are
        None.
        """
        maps: dict[str, Any] = {"pair": list(self.heldout_pairs[0]), "one": {}, "mean": {}}
        for adjective in CROSSER + CROSSED:
            tokens = self.encode([sentence(*pair, adjective) for pair in self.heldout_pairs])[:, :REFERENT].to(device)
            with torch.no_grad():
                weights: list[Tensor | None] = model.attention(tokens)  # type: ignore[operator]
            rows = [None if w_BxHxTxT is None else w_BxHxTxT[:, :, -1] for w_BxHxTxT in weights]
            maps["one"][adjective] = [None if row is None else row[0].tolist() for row in rows]
            maps["mean"][adjective] = [None if row is None else row.mean(dim=0).tolist() for row in rows]
        return {"attention": maps}


def _share(hits: Tensor) -> float:
    return hits.double().mean().item()
