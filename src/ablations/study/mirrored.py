"""What lies in wandb's folder: which run each of its folders mirrors, and whether that was sent."""

import dataclasses
import functools
import re
from pathlib import Path

from ablations.settings import CONF, ROOT
from ablations.study.mirror import WHOLE

MARK = b":W&B"  # at the beginning of each log of wandb's


@dataclasses.dataclass(frozen=True)
class Mirrored:
    """A folder of wandb's, and the run that its name tells of (`study/mirror.py` gives it).

    Args:
        folder: of wandb's.
        made: when it was begun, as wandb writes it, which sorts.
        budget: of the run.
        study: of the run.
        variant: of the run.
        seed: of the run.
        identity: the first digits of the run's.
    """

    folder: Path
    made: str
    budget: str
    study: str
    variant: str
    seed: int
    identity: str

    @property
    def name(self) -> str:
        """As people read it."""
        return f"{self.study}/{self.variant} seed {self.seed} ({self.budget})"

    @property
    def cell(self) -> tuple[str, str, str, int]:
        """Its place in the ledger, which an edit does not change."""
        return self.budget, self.study, self.variant, self.seed

    @property
    def log(self) -> Path:
        """The file that holds all of it."""
        return self.folder / f"run-{self.folder.name.partition(f'{self.made}-')[2]}.wandb"

    @property
    def sent(self) -> bool:
        """Whether `wandb sync` has marked it as sent."""
        return Path(f"{self.log}.synced").exists()

    @property
    def damaged(self) -> bool:
        """Whether the file cannot be read from its beginning, at which `wandb sync` would send no other run either."""
        try:
            with self.log.open("rb") as file:
                return file.read(len(MARK)) != MARK
        except OSError:
            return True

    @property
    def whole(self) -> bool:
        """Whether it has ended, rather than being trained, or stopped and not yet gone on with."""
        return (self.folder / WHOLE).exists()


def mirrored() -> list[Mirrored]:
    """All runs in wandb's folder, the newest first. What others put there is passed over."""
    found = []
    for folder in (ROOT / "wandb").glob("*run-*"):
        if match := _form().fullmatch(folder.name):
            run = Mirrored(folder, match[1], match[2], match[3], match[4], int(match[5]), match[6])
            found += [run] if run.log.exists() else []
    return sorted(found, key=lambda run: (run.made, run.folder.name), reverse=True)


@functools.cache
def _form() -> re.Pattern[str]:
    budgets, studies = (_names(CONF / kind) for kind in ("budget", "study"))
    return re.compile(rf"(?:offline-)?run-(\d{{8}}_\d{{6}})-({budgets})-({studies})-(.+)-s(\d+)-([0-9a-f]{{6}})")


def _names(folder: Path) -> str:
    """A pattern for a name: those in `folder`, which may hold a hyphen, or one without."""
    known = sorted((re.escape(file.stem) for file in folder.glob("*.yaml")), key=len, reverse=True)
    return "|".join([*known, "[^-]+"])
