"""The public names of this package in `rf`, imported on first use."""

from rfnb.core.graph.model_graph import ModelGraph as ModelGraph
from rfnb.trace.capture.capture import Captured as Captured, capture as capture
from rfnb.trace.compare.compare import compare as compare
from rfnb.trace.compare.comparison import Comparison as Comparison
from rfnb.trace.graph.model_graph import model_graph as model_graph
from rfnb.trace.pause import Pause as Pause, pause_when as pause_when, pauses as pauses
from rfnb.trace.plain.record import record_calls as record_calls, record_loops as record_loops, steps as steps
from rfnb.trace.probe.probe import Probe as Probe, load_probe as load_probe, probe as probe
from rfnb.trace.record.record import (
    get_tensor_consumers as get_tensor_consumers,
    get_tensor_dependencies as get_tensor_dependencies,
    walk_tensor_consumers as walk_tensor_consumers,
)
from rfnb.trace.run import when as when
from rfnb.trace.run.file.load import load_run as load_run
from rfnb.trace.run.options import options as options, recording as recording
from rfnb.trace.run.run import Run as Run
from rfnb.trace.run.runs import runs as runs
