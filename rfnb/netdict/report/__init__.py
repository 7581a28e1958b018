"""What a net dict says, and whether it runs here.

outline.py        its layers and what each refers to, without constructing it
rehearsal.py      constructs what can be constructed, and runs it without numbers
survey.py         constructs the rest around grey boxes, to find the faults behind others
ways.py           what to write where a net stops, functions to fill in
findings.py       `net.report()`: these, what is ignored, and what differs from the reference; the worst first
"""
