"""What a net dict says, and whether it runs here.

outline.py        its layers and what each refers to, without constructing it
rehearsal.py      constructs what can be constructed, and runs it without numbers
findings.py       `net.report()`: these, what is ignored, and what differs from the reference; the worst first
"""
