"""Searches of Hugging Face's `generate`, made again from its scores, without the model.

`scores` holds the best candidates of each step.
"""
