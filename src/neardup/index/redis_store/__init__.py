"""The index on Redis servers, which any number of processes share: the protocol of docs/cluster.md."""
