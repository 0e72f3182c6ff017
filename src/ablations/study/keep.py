"""Small files that only save time: what is kept for the next start, or shown while runs go on."""

import json
import os
from pathlib import Path
from typing import Any


def keep(file: Path, content: Any) -> None:
    """Writes JSON, replaced in one step. A file that cannot be written is no matter: it is made again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = Path(f"{file}.{os.getpid()}")
        part.write_text(json.dumps(content))
        os.replace(part, file)
    except OSError:
        return
