"""Other machinery for the stages of a batch run than the local one of `pipeline/stages/`."""

ENGINES = ("local", "spark")
