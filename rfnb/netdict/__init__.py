"""The annex for net dicts: networks that a dict describes, and the config files that hold them.

resolve, axes, options      what names, axis descriptions and options mean: read when a layer is constructed
layer, spec, losses         what a layer is, what its construction decides, and what a loss is
builder, build              each layer after those that it needs; its output on the meta device; parameters by layer
network, holder             `rf.Network`, its losses after a batch
extern_data, weights        data keys; parameters from checkpoints, by the names that these have
layers, layer_call, loops   the classes of layers; what each call does; loops over subnetworks
config, report, views       config files, read but not run; what will not run; the pictures; `folder`: many reports
"""
