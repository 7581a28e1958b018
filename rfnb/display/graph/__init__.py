"""From the graph of a model to its picture: folding, cards, frames, rows of text."""
