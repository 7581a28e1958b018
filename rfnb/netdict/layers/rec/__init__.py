"""Recurrent layers: cells, loops over subnetworks, and what stands in their steps."""
