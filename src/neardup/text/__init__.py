"""Texts to hashes of their units, and to shingles. No I/O except for the shipped tables."""
