"""Net dicts: networks that a dict describes, and the config files that hold them."""
