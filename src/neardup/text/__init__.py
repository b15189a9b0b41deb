"""Text to the hashes of its units, and from there to shingles. No I/O but the shipped tables."""
