"""An index made anew by another specification, beside the one that answers; and back again."""
