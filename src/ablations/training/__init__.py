"""One run. Nothing is imported here, so that a name can be had without Lightning."""

CHECKPOINT = "last.ckpt"  # in a run's work folder, while it trains
