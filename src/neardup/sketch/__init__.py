"""Shingles to sketches of fixed size that still know how similar two documents are."""
