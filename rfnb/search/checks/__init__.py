"""What a search refuses: arguments that do not fit together, and scores that are NaN.

given       Those of `decode` for each sequence.
nan_scores  The scores of the hypotheses that got a place.
"""
