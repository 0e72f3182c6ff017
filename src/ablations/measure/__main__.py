"""`python -m ablations.measure name=NAME [out=FOLDER]`: one of the chapter's tables that need no training, as JSON."""

import dataclasses
import importlib
import json
import sys

from ablations.data.prepare import prepare
from ablations.measure.catalogue import MEASUREMENTS
from ablations.settings import ROOT, InputError, command


@command
def main(arguments: list[str]) -> None:
    """Writes `<out>/<name>.json`, or prints it."""
    options = {}
    for argument in arguments:
        key, _, options[key] = argument.partition("=")
        if key not in ("name", "out"):
            raise InputError(f"{argument}: not known; allowed: name=NAME, out=FOLDER")
    name = options.get("name")
    if name not in MEASUREMENTS:
        raise InputError(f"name: {name}; allowed: {', '.join(MEASUREMENTS)}")
    if options.get("out") == "":
        raise InputError("out: empty; allowed: a folder")
    prepare()
    results = importlib.import_module(MEASUREMENTS[name].module).measure()
    text = json.dumps([dataclasses.asdict(result) for result in results], indent=1, allow_nan=False) + "\n"
    if "out" not in options:
        print(text, end="")
        return
    folder = ROOT / options["out"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
