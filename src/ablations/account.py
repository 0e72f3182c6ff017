"""`python -m ablations.account CONFIG.json [--json]`: parameters and KV cache of a model, from its configuration."""

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ablations.measure.accounting import CONTEXTS, account, load
from ablations.settings import InputError, command, one_line

LARGEST = 10**18  # parameters, or bytes


@command
def main(arguments: list[str]) -> None:
    """Prints a table, or JSON for scripts: `total`, `active`, `parts`, `kv_cache_bytes` by context."""
    files = [argument for argument in arguments if argument != "--json"]
    if len(files) != 1 or files[0].startswith("-"):
        raise InputError(f"{' '.join(arguments) or 'no argument'}: not known; allowed: CONFIG.json, then --json")
    try:
        found = account(load(Path(files[0])), files[0])
    except (RecursionError, ArithmeticError) as error:
        raise InputError(f"{files[0]}: {one_line(error)}; allowed: a model's config.json") from error
    if max(found["total"], *(size for sizes in found["kv_cache_bytes"].values() for size in sizes.values())) > LARGEST:
        raise InputError(f"{files[0]}: sizes that no model has; allowed: at most 10^18 parameters or bytes")
    if "--json" in arguments:
        cache = {way: found["kv_cache_bytes"][way] for way in found["kv_cache_bytes"] if way != "as it is"}
        print(json.dumps(found | {"kv_cache_bytes": found["kv_cache_bytes"]["as it is"] | cache}, indent=1))
        return
    console = Console(highlight=False)
    table = Table("part", "parameters", box=None, header_style="bold")
    for part, number in found["parts"].items():
        table.add_row(part, f"{number:,}")
    table.add_row("total", f"{found['total']:,}")
    table.add_row("active per token", f"{found['active']:,}")
    console.print(table)
    cache_table = Table("KV cache, fp16", *CONTEXTS, box=None, header_style="bold")
    for way, sizes in found["kv_cache_bytes"].items():
        cache_table.add_row(way, *(f"{size / 2**30:.2f} GiB" for size in sizes.values()))
    console.print(cache_table)


if __name__ == "__main__":
    sys.exit(main())
