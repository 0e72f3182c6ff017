"""Canaries: no key in the environment or in a config reaches the ledger, the page, a log, or wandb."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import SMALL, Command, add_mixer, environment_of, records
from tests.test_commands import BROKEN_MIXER
from tests.warm import Warm, refused

CANARIES = {
    "WANDB_API_KEY": "c0ffee0123456789c0ffee0123456789c0ffee01",
    "AWS_SECRET_ACCESS_KEY": "Canary/AWS+SecretKeyOfFortyCharacters0000",
    "MY_SERVICE_TOKEN": "tok-canary-of-a-service-of-my-own-0000000",
}


def sung(folder: Path, *texts: str) -> list[str]:
    """Where a canary can be read, in any file below a folder or in the texts."""
    secrets = [secret.encode() for secret in CANARIES.values()]
    found = [text for text in texts if any(secret in text.encode() for secret in secrets)]
    for file in folder.rglob("*"):
        if file.is_file() and any(secret in file.read_bytes() for secret in secrets):
            found.append(str(file))
    return found


BROKEN = BROKEN_MIXER.replace("from torch", "import os\n\nfrom torch").replace(
    '"it broke"', '"it broke with " + os.environ["MY_SERVICE_TOKEN"]'
)


def test_no_secret_is_written_or_told(run: Command, project: Path) -> None:
    """Runs that are done and that fail, online and offline, a plan, a stage of DVC, tables and the page of a sweep."""
    for name in ("home", "temp"):
        (project / name).mkdir()
    env = CANARIES | {"HOME": str(project / "home"), "TMPDIR": str(project / "temp"), "WANDB_MODE": "offline"}
    add_mixer(project, "broken", BROKEN)
    params = (project / "params.yaml").read_text().partition("studies:")[0]
    (project / "params.yaml").write_text(params + "studies: {depth: 1}\n")
    online = {"WANDB_MODE": "online", "WANDB_BASE_URL": "http://127.0.0.1:9"}
    found = [
        run("ablations.train", "-m", "model/mixer=head,broken", *SMALL, **env, LAUNCHER="joblib"),
        run("ablations.train", *SMALL, "seed=1", **env | online),
        run("ablations.plan", "study=depth", "budget=quick", "time=no", **env),
        run("ablations.report.sweep", "budget=quick", **env),
    ]
    assert [done.returncode for done in found] == [1, 0, 0, 0], found
    assert "this run is mirrored offline" in found[1].stderr
    assert sorted(record["status"] for record in records(project).values()) == ["done", "done", "failed"]
    dvc = {"cwd": project, "env": environment_of(project, **env), "capture_output": True, "text": True}
    dvc["env"]["PATH"] = f"{Path(sys.executable).parent}:{dvc['env']['PATH']}"
    for command in (["init", "--no-scm", "--quiet"], ["repro", "--single-item", "plan", "--verbose"]):
        found.append(subprocess.run(["dvc", *command], **dvc))  # type: ignore[call-overload]
        assert found[-1].returncode == 0, found[-1]
    written = {file.suffix for file in project.rglob("*")}
    assert {".wandb", ".html", ".json", ".csv"} <= written
    (failed,) = (r for r in records(project).values() if r["status"] == "failed")
    assert failed["error"] == "RuntimeError: it broke with <MY_SERVICE_TOKEN>"
    assert not sung(project, *(done.stdout + done.stderr for done in found))
    assert not list((project / "home").rglob(".netrc")) and not list((project / "home").rglob("_netrc"))


GIVEN = (
    "logger.project=${oc.env:WANDB_API_KEY}",
    "+study.question='${oc.env:MY_SERVICE_TOKEN}'",
    "+model.mixer.x=${oc.env:WANDB_API_KEY}",
    "model/mixer='${oc.env:WANDB_API_KEY}'",
    "+api_key=WANDB_API_KEY",
    "logger.project=WANDB_API_KEY",
    "+study={question:'MY_SERVICE_TOKEN'}",
    "model/mixer=WANDB_API_KEY",
    "steps=MY_SERVICE_TOKEN",
    "runtime.results=xMY_SERVICE_TOKENy",
    "WANDB_API_KEY=5",
    "variant=depth/own",
)


def test_a_secret_in_a_config_is_refused_and_not_repeated(project: Path) -> None:
    text = (
        f"# @package _global_\ndefaults: [/study/depth, _self_]\nstudy: {{section: {CANARIES['MY_SERVICE_TOKEN']}}}\n"
    )
    warm = Warm(project, **CANARIES)
    try:
        for argument in GIVEN:
            (project / "conf/variant/depth/own.yaml").write_text(text)
            for name in CANARIES if "${" not in argument else ():
                argument = argument.replace(name, CANARIES[name])
            told = warm("ablations.train", argument, "budget=quick")
            (project / "conf/variant/depth/own.yaml").unlink()
            assert not refused(told), (argument, told)
            assert not sung(project, told["out"], told["err"]), (argument, told)
    finally:
        warm.close()
