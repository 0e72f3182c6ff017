"""`python -m ablations.generate run=FOLDER prompt=TEXT [tokens=100] [temperature=1] [top_k=N] [top_p=1] [seed=0]
[cache=no]`: text from a trained run, a folder of the ledger.
"""

import os
import sys
from pathlib import Path
from typing import Any

from ablations.settings import ROOT, InputError, command, options
from ablations.study.fingerprint import fingerprint
from ablations.study.ledger import read
from ablations.study.trust import trusted

DEFAULTS: dict[str, Any] = {"tokens": 100, "temperature": 1.0, "top_k": None, "top_p": 1.0, "seed": 0, "cache": "yes"}
COLDEST = 1e-6  # temperature that scores are divided by, but for 0: the largest takes all long before
NUMBERS = {"tokens": int, "temperature": float, "top_k": int, "top_p": float, "seed": int}
OPTIONS = ("run=FOLDER", "prompt=TEXT", *(f"{name}=NUMBER" for name in NUMBERS), "cache=yes|no")


@command
def main(arguments: list[str]) -> None:
    """Prints the prompt and what follows it."""
    given = _given(arguments)
    config, weights = _trained(given["run"])
    import torch
    from tokenizers import Tokenizer

    from ablations.model.generation import generate
    from ablations.training.build import build_model

    file = ROOT / config["data"]["tokens"] / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # which is all that the library raises
        raise InputError(f"data.tokens: {file} cannot be read; allowed: as `tokenize` writes it") from error
    model = build_model(config, tokenizer.get_vocab_size())
    try:
        model.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    except Exception as error:  # whatever a damaged file, or one with code in it, makes torch say
        os.replace(weights, f"{weights}.corrupt")
        aside = f"{weights.name} is damaged and set aside as {weights.name}.corrupt"
        raise InputError(f"run: {given['run']}: {aside}; allowed: a run trained here, as it was written") from error
    prompt = torch.tensor(tokenizer.encode(given["prompt"]).ids, dtype=torch.long)
    sampling = {name: given[name] for name in ("temperature", "top_k", "top_p", "seed")}
    try:
        follows = generate(model, prompt, given["tokens"], cached=given["cache"] == "yes", **sampling)
    except ValueError as error:
        raise InputError(str(error)) from error
    except TypeError as error:  # a mixer that knows of no past
        raise InputError(f"cache: {given['cache']}; allowed: no, since this model keeps no past") from error
    print(tokenizer.decode(torch.cat((prompt, follows)).tolist()))


def _given(arguments: list[str]) -> dict[str, Any]:
    texts = options(arguments, *OPTIONS)
    given = DEFAULTS | texts
    for key in NUMBERS.keys() & texts.keys():
        try:
            given[key] = NUMBERS[key](texts[key])
            if key == "seed" and not 0 <= given[key] < 2**63:
                raise ValueError
        except ValueError as error:
            raise InputError(f"{key}: {texts[key]}; allowed: a number") from error
    if 0 < given["temperature"] < COLDEST:
        raise InputError(f"temperature: {texts['temperature']}; allowed: 0, or at least {COLDEST}")
    if any("\ud800" <= letter <= "\udfff" for letter in given.get("prompt", "")):  # how Python reads other bytes
        raise InputError(f"prompt: {given['prompt']}; allowed: UTF-8 text")
    for key in ("run", "prompt"):
        if key not in given:
            raise InputError(f"{key}: missing; allowed: {key}={'FOLDER of the ledger' if key == 'run' else 'TEXT'}")
    return given


def _trained(run: str) -> tuple[dict[str, Any], Path]:
    """The run's config and its weights."""
    try:
        record = read(ROOT / run, aside=False)
    except (OSError, ValueError):  # no folder, or no name of one
        record = None
    if record is None or record.get("status") != "done":
        raise InputError(
            f"run: {run} is no finished run; allowed: a folder like results/quick/ladder/layer_norm/seed-0"
        )
    trusted(record["config"])
    if "tokens" not in record["config"]["data"]:
        raise InputError(f"run: {run} was not trained on text; allowed: a run whose data has tokens")
    if fingerprint(record["config"]) != record["fingerprint"]:
        raise InputError(f"run: {run} was trained by other code or on another text; allowed: a run of today's")
    weights = ROOT / ".work" / "runs" / record["fingerprint"] / "weights.pt"
    if not weights.exists():
        raise InputError(f"run: {run} was trained elsewhere, its weights are not here; allowed: a run trained here")
    return record["config"], weights


if __name__ == "__main__":
    sys.exit(main())
