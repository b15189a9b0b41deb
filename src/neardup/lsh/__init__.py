"""Signatures to candidates: the S-curve's mathematics, bands, and buckets."""
