"""Filters: sets of keys, exact, or in less memory with a known rate of false positives."""
