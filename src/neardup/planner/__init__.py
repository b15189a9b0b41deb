"""Chooses an operating point: the planner by models, the tuner by trials on a sample."""
