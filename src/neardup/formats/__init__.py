"""Every byte that is written to disk: layouts, versions, checksums."""
