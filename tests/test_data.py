"""Corpus, tokenizer, windows and coreference sentences."""

import json
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from ablations.data import tokenizer
from ablations.data.coreference import CROSSED, CROSSER, NOUNS, REFERENT, Coreference, pairs, sentence
from ablations.data.windows import Windows
from ablations.settings import InputError
from tests.conftest import TEXT, Command


def test_any_other_text_will_do(run: Command, project: Path) -> None:
    text = "Größe, ταχύς, 速い — each a word.\r\n" * 300
    (project / "mine.txt").write_bytes(text.encode())
    assert run("ablations.data.corpus", "corpus.path=mine.txt", "corpus.sha256=null").returncode == 0
    assert (project / "data" / "corpus.txt").read_bytes() == text.encode()
    assert run("ablations.data.tokenizer", "tokenizer.vocabulary=400").returncode == 0
    saved = Tokenizer.from_file(str(project / "data" / "tokens" / "tokenizer.json"))
    tokens = np.load(project / "data" / "tokens" / "tokens.npy")
    assert saved.decode(tokens.tolist()) == text
    meta = json.loads((project / "data" / "tokens" / "meta.json").read_text())
    assert meta["tokens"] == len(tokens) == meta["train_tokens"] + meta["heldout_tokens"]
    assert meta["characters"] == len(text) and meta["heldout_tokens"] == round(len(tokens) / 10)


def test_tokens_that_are_not_what_is_asked_for_are_made_anew(run: Command, project: Path) -> None:
    """An edit of the text, another text, another vocabulary; otherwise nothing is touched, and nothing said."""

    def meta() -> tuple[int, int]:
        made = json.loads((project / "data/tokens/meta.json").read_text())
        return made["characters"], made["vocabulary"]

    def plan() -> str:
        found = run("ablations.plan", "study=depth", "time=no")
        assert found.returncode == 0, found.stderr
        return found.stderr

    full = 286  # kinds: the text has no more repeated pairs for 300
    assert plan() == "" and meta() == (2 * len(TEXT), full)
    (project / "mine.txt").write_text(3 * TEXT)
    assert f"corpus: {3 * len(TEXT):,} characters from mine.txt" in plan() and meta() == (3 * len(TEXT), full)
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("vocabulary: 300", "vocabulary: 280"))
    assert plan().startswith("tokens: ") and meta() == (3 * len(TEXT), 280)
    (project / "other.txt").write_text(4 * TEXT)
    (project / "params.yaml").write_text(params.replace("mine.txt", "other.txt"))
    assert "from other.txt" in plan() and meta() == (4 * len(TEXT), full)
    (project / "other.txt").unlink()
    assert plan() == ""


def test_the_chapters_token_count(shakespeare: str) -> None:
    began = time.monotonic()
    trained = tokenizer.train(shakespeare, 1024)
    assert time.monotonic() - began < 5
    assert len(trained.encode(shakespeare).ids) == 459_760 and trained.get_vocab_size() == 1024


@pytest.mark.parametrize("vocabulary", [256, 257, 2000, 4096])
def test_vocabularies(shakespeare: str, vocabulary: int) -> None:
    trained = tokenizer.train(shakespeare, vocabulary)
    assert trained.get_vocab_size() == vocabulary
    assert trained.decode(trained.encode(shakespeare[:5000]).ids) == shakespeare[:5000]


def test_a_text_without_repeated_pairs_ends_early() -> None:
    assert tokenizer.train("abc", 1000).get_vocab_size() == 256


@pytest.mark.parametrize("vocabulary", ["255", "0", "-5", "70000", "many", "1.5"])
def test_vocabularies_that_cannot_be(run: Command, project: Path, vocabulary: str) -> None:
    found = run("ablations.data.tokenizer", f"tokenizer.vocabulary={vocabulary}")
    assert (
        found.returncode == 2 and found.stderr == f"error: tokenizer.vocabulary: {vocabulary}; allowed: 256 to 65536\n"
    )
    assert (project / "data" / "tokens" / "meta.json").exists()


def test_a_text_without_spaces_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tokenizer, "PATIENCE", 0.0)
    tokenizer.train("".join(random.Random(0).choices("0123456789", k=300)), 266)
    assert re.match(r"tokens: 1 of 10 merges learned, about \d+ s left\n", capsys.readouterr().err)


TRAINED = tokenizer.train(TEXT, 300)


@settings(max_examples=300)
@given(st.text() | st.text(alphabet="the king\n\t\x00é速🙂\u0301"))
def test_any_text_survives_the_round_trip(text: str) -> None:
    assert TRAINED.decode(TRAINED.encode(text).ids) == text


@settings(max_examples=40)
@given(st.text(alphabet="abcd  ", max_size=120), st.integers(0, 40))
def test_merges_are_those_of_a_recount_after_each(text: str, merges: int) -> None:
    """The textbook's loop: count all pairs anew, in order; the first of the most frequent wins."""
    words: dict[str, int] = {}
    for word, _ in ByteLevel(add_prefix_space=False).pre_tokenize_str(text):
        words[word] = words.get(word, 0) + 1
    learned: list[tuple[str, str]] = []
    split = {word: list(word) for word in words}
    while len(learned) < merges:
        counts: dict[tuple[str, str], int] = {}
        for word, tokens in split.items():
            for i in range(len(tokens) - 1):
                pair = (tokens[i], tokens[i + 1])
                counts[pair] = counts.get(pair, 0) + words[word]
        if not counts or max(counts.values()) < 2:
            break
        best = max(counts, key=lambda pair: counts[pair])
        if "".join(best) not in {left + right for left, right in learned}:
            learned.append(best)
        for word, tokens in split.items():
            merged, i = [], 0
            while i < len(tokens):
                if tuple(tokens[i : i + 2]) == best:
                    merged.append("".join(best))
                    i += 2
                else:
                    merged.append(tokens[i])
                    i += 1
            split[word] = merged
    assert tokenizer.learn_merges(list(words.items()), merges, []) == learned


def windows(tokens: Path, **changes: object) -> Windows:
    return Windows(**({"tokens": tokens, "window": 16, "batch": 4, "also_at": [], "seed": 1} | changes))  # type: ignore[arg-type]


def test_batch_i_is_a_function_of_seed_and_i(small_tokens: Path) -> None:
    one, other = windows(small_tokens), windows(small_tokens)
    for _ in range(3):
        other.batch(99)
    for i in (0, 1, 1000):
        assert torch.equal(one.batch(i)[0], other.batch(i)[0])
    assert not torch.equal(one.batch(0)[0], one.batch(1)[0])
    assert not torch.equal(one.batch(0)[0], windows(small_tokens, seed=2).batch(0)[0])


def test_batches_are_text_with_the_next_token_as_target_and_never_held_out(small_tokens: Path) -> None:
    data = windows(small_tokens, batch=500)
    text = torch.from_numpy(np.load(small_tokens / "tokens.npy").astype(np.int64))
    x, y = data.batch(0)
    assert x.shape == y.shape == (500, 16) and torch.equal(x[:, 1:], y[:, :-1])
    train = text[: len(data.train)].unfold(0, 17, 1)
    rows = {tuple(row) for row in train.tolist()}
    assert all((*a, b[-1]) in rows for a, b in zip(x.tolist(), y.tolist(), strict=True))
    assert torch.equal(torch.cat((data.train, data.heldout)), text)
    assert torch.equal(data.probe(2).flatten(), data.heldout[:32])


def test_altered_tokens_are_noticed(small_tokens: Path, tmp_path: Path) -> None:
    for name in ("meta.json", "tokens.npy"):
        (tmp_path / name).write_bytes((small_tokens / name).read_bytes())
    data = bytearray((tmp_path / "tokens.npy").read_bytes())
    data[-1] ^= 1
    (tmp_path / "tokens.npy").write_bytes(bytes(data))
    with pytest.raises(ValueError, match="was altered"):
        windows(tmp_path)
    (tmp_path / "tokens.npy").write_bytes(bytes(data[:50]))
    with pytest.raises(ValueError, match="cannot be read"):
        windows(tmp_path)


def test_the_closed_task_is_split_as_the_chapter_says() -> None:
    training, heldout = pairs("closed")
    assert len(training) + len(heldout) == 16 * 15 and len(heldout) == 60
    assert not set(training) & set(heldout)
    assert all(pair[::-1] in training for pair in heldout)
    assert {noun for pair in heldout for noun in pair} == set(NOUNS)


def test_the_easy_task_holds_out_pairs_of_animal_and_place() -> None:
    training, heldout = pairs("easy")
    assert len(heldout) == 16 and not set(training) & set(heldout)
    assert {a for a, _ in heldout} <= {a for a, _ in training} and {p for _, p in heldout} <= {p for _, p in training}


def test_a_sentence_names_the_noun_that_its_adjective_decides() -> None:
    words = sentence("fox", "cart", "tired")
    assert " ".join(words) == "the fox did not cross the cart because it was too tired , so the fox waited ."
    for adjective in CROSSER + CROSSED:
        assert sentence("fox", "cart", adjective)[REFERENT] == ("fox" if adjective in CROSSER else "cart")


class Names(torch.nn.Module):
    """Stands for a model: at the asked position it names the first noun."""

    def __init__(self, data: Coreference) -> None:
        super().__init__()
        self.data = data

    def forward(self, x_BxT: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(x_BxT[:, [1]].expand_as(x_BxT), self.data.vocabulary).float()


@pytest.mark.parametrize("task", ["easy", "closed"])
def test_scores_of_a_model_that_always_names_the_first_noun(task: str) -> None:
    data = Coreference(task, 17, 64, seed=0)
    found = data.evaluate(Names(data), torch.device("cpu"))
    assert found["accuracy"] == found["accuracy_vocabulary"] == found["wrong_noun"] == 0.5
    x, y = data.batch(3)
    assert x.shape == (64, 17) and torch.equal(x[:, 1:], y[:, :-1])


@pytest.mark.parametrize(
    ("changes", "says"), [({"task": "hard"}, "task: hard"), ({"window": 20}, "window: 20"), ({"batch": 0}, "batch: 0")]
)
def test_coreference_refuses(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Coreference(**({"task": "easy", "window": 17, "batch": 8, "seed": 0} | changes))  # type: ignore[arg-type]


def test_the_trainer_refuses_by_name() -> None:
    with pytest.raises(InputError, match=r"tokenizer\.vocabulary: 255"):
        tokenizer.train("text", 255)
