"""The view of a beam search: `view` describes the tree of a sequence, `picture` draws it, also for papers.

The JSON has the steps as columns; text and picture are made from it alone.
"""
