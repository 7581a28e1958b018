"""dims."""
