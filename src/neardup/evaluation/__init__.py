"""Measures quality on the user's own documents: against brute force, labels, a baseline."""
