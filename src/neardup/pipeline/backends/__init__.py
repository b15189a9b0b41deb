"""Backends, which do the work of the stages: on this machine, or on a Spark cluster."""
