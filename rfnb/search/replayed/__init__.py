"""What a recorded search did not keep, computed again from its run.

forced  The scores that the model gives to labels from outside.
steps   The steps of the run: candidates of any rank, and a fork in which a pruned one is kept.
"""
