"""Runs: the recorded steps of loops. The order to read it in:

run      `Run`, the recording of one execution of a loop; step: `RunStep`, and `Replayable`, from which a run reads.
runs     `rf.runs`, the runs of the session and their memory; options: `rf.options` and `rf.recording`.
session  Whether a loop is recorded, where its run goes, and its progress: called by loops, set by checks and captures.
find     `run.find` and `run.next`; when: the conditions of `rf.when`; entries: which entries of a value count.
names    The names in `run[i].eval`; stacked: `run.stack`; failure: the error of a run.
variables  Variables of plain Python as runs and files exchange them; axis_names: dims for the axes of their tensors.
job      The folder of a job; stretches: the newest steps of a loop that runs, in it. random_numbers: for conditions.
file     `run.save` and `rf.load_run`.
"""
