"""Reproducible ablation studies of small transformers."""

import signal
import sys

# `python -m ablations.<command>`, which has this name while it looks for the command: Ctrl-C while libraries are still
# being imported ends it without a traceback. `settings.command` puts Python's own way back.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
