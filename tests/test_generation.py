"""Generation: the cache changes nothing, sampling is what it says, and the command gives text."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.measure.generation import MIXERS, build, expected_bytes, measure
from ablations.model.generation import generate, probabilities
from ablations.model.past import Past
from ablations.model.position.rotary import Rotary
from tests.conftest import SMALL, Command, records
from tests.test_modern import PARTS
from tests.test_stacks import encoder_decoder

TEXT = torch.arange(9)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_with_and_without_the_cache_the_tokens_are_the_same(name: str, temperature: float) -> None:
    cached = generate(PARTS[name], TEXT, 20, temperature=temperature, seed=5)
    assert torch.equal(cached, generate(PARTS[name], TEXT, 20, temperature=temperature, seed=5, cached=False))
    assert len(cached) == 20


def test_a_model_with_an_encoder_keeps_nothing() -> None:
    made = encoder_decoder(position=Rotary)
    cached = generate(made, TEXT, 12, seed=5)
    assert torch.equal(cached, generate(made, TEXT, 12, seed=5, cached=False)) and len(cached.unique()) > 3


def test_greedy_takes_the_largest_and_a_seed_draws_the_same() -> None:
    model = PARTS["rms_norm"]
    (first,) = generate(model, TEXT, 1, temperature=0).tolist()
    assert first == model(TEXT[None])[0, -1].argmax().item()
    one, same, other = (generate(model, TEXT, 30, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(generate(model, TEXT, 30, top_k=1), generate(model, TEXT, 30, temperature=0))


def test_probabilities_by_hand() -> None:
    """Of 0.4, 0.3, 0.2, 0.1: the two likeliest; those within 0.65, and the one that crosses it; a hotter mix."""
    logits = torch.tensor([0.2, 0.4, 0.1, 0.3]).double().log()
    assert probabilities(logits, 1, None, 1).tolist() == pytest.approx([0.2, 0.4, 0.1, 0.3])
    assert probabilities(logits, 1, 2, 1).tolist() == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert probabilities(logits, 1, None, 0.65).tolist() == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert probabilities(logits, 1, None, 0.75).tolist() == pytest.approx([2 / 9, 4 / 9, 0, 3 / 9])
    roots = torch.tensor([0.2, 0.4, 0.1, 0.3]).double().sqrt()
    assert probabilities(logits, 2, None, 1).tolist() == pytest.approx((roots / roots.sum()).tolist())


def test_draws_follow_the_probabilities() -> None:
    """A model of one place: 1,500 first tokens against its own probabilities."""
    model = PARTS["relu"]
    expected = model(TEXT[None])[0, -1].softmax(dim=-1)
    drawn = torch.cat([generate(model, TEXT, 1, seed=seed) for seed in range(1500)])
    found = torch.bincount(drawn, minlength=50) / 1500
    assert (found - expected).abs().max() < 4 * (expected.max() / 1500).sqrt()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"count": 0}, "tokens: 0"),
        ({"temperature": -1.0}, "temperature: -1"),
        ({"top_k": 0}, "top_k: 0"),
        ({"top_p": 0.0}, "top_p: 0"),
        ({"top_p": 1.5}, "top_p: 1.5; allowed: above 0, at most 1"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        generate(PARTS["relu"], TEXT, **({"count": 1} | given))


@pytest.mark.parametrize("name", MIXERS)
def test_the_cache_takes_the_bytes_of_its_formula(name: str) -> None:
    for n in (16, 64):
        pasts = [Past()]
        with torch.no_grad():
            build(name)(torch.zeros(1, n, dtype=torch.long), pasts)
        assert pasts[0].bytes == expected_bytes(name, n)


def test_the_measurement_says_that_tokens_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablations.measure.generation.LENGTHS", (16, 32))
    (result,) = measure()
    assert len(result.rows) == 2 * len(MIXERS) and {row["same_tokens"] for row in result.rows} == {"yes"}
    assert all(row["cached_ms"] > 0 and row["read_again_ms"] > 0 for row in result.rows)


def test_a_trained_run_goes_on_with_a_text(run: Command, project: Path) -> None:
    assert run("ablations.train", *SMALL, "model/position=rotary").returncode == 0
    (folder,) = records(project)
    asked = (f"run=results/{folder}", "prompt=the old king", "tokens=12", "seed=3")
    said = run("ablations.generate", *asked)
    assert said.returncode == 0 and said.stdout.startswith("the old king"), said.stderr
    assert said.stdout == run("ablations.generate", *asked, "cache=no").stdout != ""
    for wrong, says in (
        ((f"run=results/{folder}",), "prompt: missing"),
        (("run=results/nowhere", "prompt=a"), "run: results/nowhere is no finished run"),
        ((*asked, "top_p=2"), "top_p: 2.0; allowed: above 0, at most 1"),
        ((*asked, "tokens=many"), "tokens: many; allowed: a number"),
        ((*asked, "temperature=1e-320"), "temperature: 1e-320; allowed: 0, or at least 1e-06"),
        ((*asked[:1], "prompt=a\udcff"), "prompt: a\\udcff; allowed: UTF-8 text"),
        ((*asked, "heat=1"), "heat=1: not known; allowed: run=FOLDER, prompt=TEXT, tokens=NUMBER"),
    ):
        found = run("ablations.generate", *wrong)
        assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and says in found.stderr, found.stderr
    for damage in ("{", None):
        file = project / "data/tokens/tokenizer.json"
        file.write_text(damage) if damage else file.unlink()
        found = run("ablations.generate", *asked)
        assert found.returncode == 2 and len(found.stderr.splitlines()) == 1 and "data.tokens: " in found.stderr
