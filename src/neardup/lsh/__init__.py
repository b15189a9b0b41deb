"""Signatures to candidates: bands, blocks and buckets, and the S-curve of what they find."""
