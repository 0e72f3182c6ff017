"""Corpus and tokens, made where a command finds none, or others: a fresh clone trains without a word about stages."""

import contextlib
import hashlib
import json
import sys
from typing import Any

from ablations.data.meta import TOKENS, meta_digest
from ablations.settings import ROOT, TINYSHAKESPEARE, command, parameters


def prepare() -> None:
    """Makes `data/corpus.txt` and `data/tokens/` where they are missing or not what `params.yaml` asks for. Damaged
    ones are left for what reads them to tell.
    """
    params = parameters([])
    text = _text(params)
    with contextlib.suppress(FileNotFoundError):
        try:
            meta = json.loads((TOKENS / "meta.json").read_text())
            damaged = meta["digest"] != meta_digest(meta)
        except (ValueError, LookupError, TypeError, AttributeError):
            damaged = True
        if damaged or (text in (None, meta["sha256"]) and meta.get("asked") == params.tokenizer.vocabulary):
            return
    from ablations.data import corpus, tokenizer  # their libraries are of no use to a command that has its tokens

    if not corpus.CORPUS.exists() or text not in (None, hashlib.sha256(corpus.CORPUS.read_bytes()).hexdigest()):
        corpus.make(params)
    tokenizer.make(params)


def _text(params: Any) -> str | None:
    """The SHA-256 of the text that is asked for; None where it is not known, or the text is not here any more."""
    if params.corpus.sha256 is not None:
        return str(params.corpus.sha256)
    file = ROOT / params.corpus.path
    own = params.corpus.path != TINYSHAKESPEARE and file.is_file()
    return hashlib.sha256(file.read_bytes()).hexdigest() if own else None


@command
def main(arguments: list[str]) -> None:
    """`python -m ablations.data.prepare`, before a pipeline that starts from the tokens."""
    prepare()


if __name__ == "__main__":
    sys.exit(main())
