"""What a net dict says, and whether it runs here.

outline.py        its layers and what each refers to, without constructing it
rehearsal.py      constructs what can be constructed, and the rest around grey boxes; runs it without numbers
findings.py       `net.report()`: what stops it, and what to write there; what is ignored, and what differs
training.py       `config.training()`: what the config says of the training, and what to write for it
"""
