"""Widgets: the static view first, and scripts that add stepping to it."""
