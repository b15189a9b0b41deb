"""The index on Redis servers, which any number of processes add to."""
