"""The annex for net dicts: networks that a dict describes, and the config files that hold them.

resolve, axes, options      what names, axis descriptions and options mean; `versions`: which rules hold since when
layer, spec, layer_call     what a layer is, what its construction decides, what each call does; `losses`, `…_of_layers`
layers, user_layers         the classes of layers; functions and modules of the user as classes
builder, build              each layer after those that it needs; its output on the meta device; parameters by layer
loops, inner_net            loops over subnetworks; nets that a layer computes itself
network, loss_holder        `rf.Network`, its losses after a batch; `extern_data`: its data; `weights`: checkpoints
config, stages, code        config files, read but not run; networks of a training; nets as code, and their difference
report, views, folder       what will not run; the pictures; reports of many configs
"""
