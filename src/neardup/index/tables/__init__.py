"""Tables in memory and on disk: from a key to documents."""
