"""Sketches: signatures of fixed size that estimate the similarity of sets and bags."""
