"""Networks of net dicts.

schema.py         the JSON
parts.py          layers, nets inside of layers, repeated blocks and sections: what is one box of the picture
fold.py           the boxes and lines of the picture, as a graph of a model call has them
loops.py          the loops in the picture: their steps, what ends them, and which layers have left them
masked_frames.py  the frames that masked_computation takes, as strips
cards.py          what each layer was given, what that became, and its parameters
view.py           the view of a network
report.py         the view of `net.report()`
"""
