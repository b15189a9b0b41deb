"""Which machinery runs the stages of a batch run? The local one is the rest of `batch`."""

ENGINES = ("local", "spark")
