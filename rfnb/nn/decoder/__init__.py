"""Decoders: label by label, from what came before and from an encoder."""
