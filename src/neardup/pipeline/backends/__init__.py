"""Backends that run the stages of a batch run elsewhere than in this process (`stages/`)."""

ENGINES = ("local", "spark")
