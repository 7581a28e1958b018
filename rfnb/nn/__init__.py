"""Modules: parameters and what computes with them."""
