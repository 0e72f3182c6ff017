"""`make audit`: known vulnerabilities in the locks, but for the exceptions in audit.toml.

Exit code: 0 none, 1 some, 2 it cannot be run as it is, 3 not audited, since the advisory service does not answer.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("ABLATIONS_ROOT", Path(__file__).parents[1]))
SERVICE = "https://api.osv.dev/v1/query"
OPTIONS = ("--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off", "--vulnerability-service=osv")
SILENT = "ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|HTTPError|ServiceError|JSONDecodeError"
AUDITED, FOUND, BROKEN, NOT_AUDITED = 0, 1, 2, 3


def main() -> int:
    """Prints one line per finding, and one that sums up."""
    try:
        exceptions = excepted((ROOT / "audit.toml").read_text())
        locks = [part for lock in sorted(ROOT.glob("requirements*.lock")) for part in ("--requirement", str(lock))]
        told = subprocess.run(
            ["pip-audit", *locks, *OPTIONS, "--osv-url", os.environ.get("OSV_URL", SERVICE)],
            capture_output=True,
            text=True,
        )
    except (OSError, ValueError, KeyError) as error:
        print(f"audit: {' '.join(str(error).split())}")
        return BROKEN
    try:
        packages = json.loads(told.stdout)["dependencies"]
    except (ValueError, KeyError):
        words = told.stderr.strip().splitlines() or ["pip-audit says nothing"]
        silent = re.search(SILENT, told.stderr)
        print("not audited: the advisory service does not answer" if silent else f"audit: {words[-1]}")
        return NOT_AUDITED if silent else BROKEN
    return judged(packages, exceptions)


def judged(packages: list[dict[str, Any]], exceptions: dict[str, str]) -> int:
    """The exit code for what pip-audit found of each package."""
    found, passed = [], set()
    for package in packages:
        for flaw in package.get("vulns", []):
            names = [flaw["id"], *flaw["aliases"]]
            if known := [name for name in names if exceptions.get(name) == package["name"]]:
                passed.add(known[0])
            else:
                fixed = ", ".join(flaw["fix_versions"]) or "no version"
                found.append(f"{package['name']} {package['version']}: {', '.join(names)}; fixed in {fixed}")
    for line in found:
        print(line)
    for name in exceptions.keys() - passed:
        print(f"audit.toml: {name} is not found any more: the exception can go")
    if found:
        return FOUND
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        print(f"not audited: {len(skipped) or 'all'} packages, unknown to the advisory service")
        return NOT_AUDITED
    print(f"audited: {len(packages)} packages; excepted, with reasons in audit.toml: {', '.join(passed) or 'none'}")
    return AUDITED


def excepted(text: str) -> dict[str, str]:
    """Identifier to package, of audit.toml.

    Raises:
        ValueError: an exception without a package or a reason.
    """
    exceptions = tomllib.loads(text).get("exception", [])
    for one in exceptions:
        if not all(isinstance(one.get(key), str) and one[key].strip() for key in ("id", "package", "reason")):
            raise ValueError(f"audit.toml: {one}; allowed: an id, a package and a reason")
    return {one["id"]: one["package"] for one in exceptions}


if __name__ == "__main__":
    sys.exit(main())
