"""`python -m ablations.measure name=NAME [out=FOLDER]`: one of the chapter's tables that need no training, as JSON."""

import dataclasses
import importlib
import json
import sys

from ablations.data.prepare import prepare
from ablations.measure.catalogue import MEASUREMENTS
from ablations.settings import ROOT, InputError, command, options


@command
def main(arguments: list[str]) -> None:
    """Writes `<out>/<name>.json`, or prints it."""
    given = options(arguments, "name=NAME", "out=FOLDER")
    name = given.get("name", "missing")
    if name not in MEASUREMENTS:
        raise InputError(f"name: {name}; allowed: {', '.join(MEASUREMENTS)}")
    prepare()
    results = importlib.import_module(MEASUREMENTS[name].module).measure()
    text = json.dumps([dataclasses.asdict(result) for result in results], indent=1, allow_nan=False) + "\n"
    if "out" not in given:
        print(text, end="")
        return
    folder = ROOT / given["out"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
