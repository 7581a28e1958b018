"""Expressions written by users as strings: read, checked and computed here, never run as code."""
