"""Where the tokens lie, and the checksum that their meta data carry of themselves: a run trusts them for where the
held-out text begins.
"""

import hashlib
import json
from typing import Any

from ablations.settings import ROOT

TOKENS = ROOT / "data" / "tokens"


def meta_digest(meta: dict[str, Any]) -> str:
    """SHA-256 of all fields but `digest`."""
    kept = {name: value for name, value in meta.items() if name != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
