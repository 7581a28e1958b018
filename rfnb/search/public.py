"""Public names of this folder in `rf`, imported on first use."""

from rfnb import search as search
