"""Many documents at once: from files, from a batch run, from an export."""
