"""Stage `tokenize`: byte-level byte-pair encoding (Sennrich et al. 2016; GPT-2's pre-split), trained here.

The trainer is ours, since the chapter's token count hangs on how ties between equally frequent pairs break: the pair
that a left-to-right count over the distinct words meets first wins. Encoding, decoding and the file are the
`tokenizers` library's.
"""

import hashlib
import heapq
import itertools
import json
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from omegaconf import DictConfig
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from ablations.data.corpus import CORPUS
from ablations.data.meta import TOKENS, meta_digest
from ablations.settings import InputError, command, parameters

BYTES = 256
HELD_OUT = 0.1
PATIENCE = 5.0  # seconds between two words about how far it is

Pair = tuple[str, str]


def train(text: str, vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer.

    Args:
        text: what to count on.
        vocabulary: tokens wanted, the 256 bytes included. Fewer result where the text has no more repeated pairs.

    Raises:
        InputError: a vocabulary under 256, or over what 16 bits can number.
    """
    if not isinstance(vocabulary, int) or not BYTES <= vocabulary <= 2**16:
        raise InputError(f"tokenizer.vocabulary: {vocabulary}; allowed: {BYTES} to {2**16}")
    split = ByteLevel(add_prefix_space=False, use_regex=True)
    counts = Counter(word for word, _ in split.pre_tokenize_str(text))
    alphabet = _byte_alphabet()
    merges = learn_merges(list(counts.items()), vocabulary - BYTES, alphabet)
    tokens = alphabet + [left + right for left, right in merges]
    tokenizer = Tokenizer(BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer


def learn_merges(word_counts: list[tuple[str, int]], merges: int, known: list[str]) -> list[Pair]:
    """The most frequent pairs, one merge after the other, counted incrementally.

    Args:
        word_counts: distinct words in the order in which the text has them, with their counts.
        merges: how many to learn at most.
        known: tokens that are there already; a merge that spells one of them again is passed over.
    """
    words = [list(word) for word, _ in word_counts]
    counts = [count for _, count in word_counts]
    total: dict[Pair, int] = defaultdict(int)
    where: dict[Pair, set[int]] = defaultdict(set)
    for i, word in enumerate(words):
        for pair in itertools.pairwise(word):
            total[pair] += counts[i]
            where[pair].add(i)
    heap = [(-count, pair) for pair, count in total.items()]
    heapq.heapify(heap)
    spelled = set(known)
    learned: list[Pair] = []
    began = said = time.monotonic()
    while len(learned) < merges and (best := _pop_best(heap, total, where, words)):
        if time.monotonic() - said > PATIENCE and learned:  # long words take long: a text without spaces is one
            said = time.monotonic()
            left = (said - began) * (merges / len(learned) - 1)
            print(f"tokens: {len(learned)} of {merges} merges learned, about {left:.0f} s left", file=sys.stderr)
        changed: set[Pair] = set()
        for i in where.pop(best):
            before = words[i]
            for pair in itertools.pairwise(before):
                total[pair] -= counts[i]
                if pair != best:
                    where[pair].discard(i)
                changed.add(pair)
            after = words[i] = _merge(before, best)
            for pair in itertools.pairwise(after):
                total[pair] += counts[i]
                where[pair].add(i)
                changed.add(pair)
        for pair in changed:
            if total[pair]:
                heapq.heappush(heap, (-total[pair], pair))
        if "".join(best) not in spelled:
            spelled.add("".join(best))
            learned.append(best)
    return learned


def _pop_best(
    heap: list[tuple[int, Pair]], total: dict[Pair, int], where: dict[Pair, set[int]], words: list[list[str]]
) -> Pair | None:
    """The pair counted most often, at least twice; of several, the one that stands first in the words."""
    ties: set[Pair] = set()
    most = 0
    while heap and (not ties or -heap[0][0] == most):
        count, pair = heapq.heappop(heap)
        if -count == total[pair] and count < -1:  # else: an entry that a later merge outdated
            ties.add(pair)
            most = -count
    if not ties:
        return None
    first = words[min(min(where[pair]) for pair in ties)]
    best = next(pair for pair in itertools.pairwise(first) if pair in ties)
    for pair in ties - {best}:
        heapq.heappush(heap, (-most, pair))
    return best


def _merge(word: list[str], pair: Pair) -> list[str]:
    merged: list[str] = []
    for token in word:
        if merged and (merged[-1], token) == pair:
            merged[-1] = merged[-1] + token
        else:
            merged.append(token)
    return merged


def _byte_alphabet() -> list[str]:
    """The 256 printable characters that stand for the bytes, in byte order (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    character = {byte: chr(byte) for byte in printable} | {byte: chr(BYTES + i) for i, byte in enumerate(others)}
    return [character[byte] for byte in range(BYTES)]


def write(text: str, vocabulary: int, folder: Path) -> dict[str, int | str]:
    """Tokenizes `text` into `folder`: `tokenizer.json`, `tokens.npy` (uint16) and `meta.json`, which is returned."""
    tokenizer = train(text, vocabulary)
    tokens = np.array(tokenizer.encode(text).ids, dtype=np.uint16)
    heldout = round(len(tokens) * HELD_OUT)
    meta: dict[str, int | str] = {
        "characters": len(text),
        "tokens": len(tokens),
        "vocabulary": tokenizer.get_vocab_size(),
        "asked": vocabulary,
        "train_tokens": len(tokens) - heldout,
        "heldout_tokens": heldout,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "tokens_sha256": hashlib.sha256(tokens.tobytes()).hexdigest(),
    }
    meta["digest"] = meta_digest(meta)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    tokenizer.save(str(part / "tokenizer.json"))
    np.save(part / "tokens.npy", tokens)
    (part / "meta.json").write_text(json.dumps(meta, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(part, folder)
    return meta


def make(params: DictConfig) -> None:
    """Writes `data/tokens/` as `params.yaml` wants it, and says how many there are.

    Raises:
        InputError: no corpus yet, or a vocabulary that cannot be.
    """
    if not CORPUS.is_file():
        raise InputError("data/corpus.txt: not there; allowed: run `python -m ablations.data.corpus` first")
    meta = write(CORPUS.read_bytes().decode(), params.tokenizer.vocabulary, TOKENS)
    print(
        f"tokens: {meta['tokens']:,} of {meta['vocabulary']:,} kinds, {meta['heldout_tokens']:,} held out",
        file=sys.stderr,
    )


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.data.tokenizer [tokenizer.vocabulary=N]` writes `data/tokens/`."""
    make(parameters(arguments))


if __name__ == "__main__":
    sys.exit(main())
