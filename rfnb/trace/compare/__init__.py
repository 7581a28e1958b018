"""Two runs beside each other: which values belong together, and where they part."""
