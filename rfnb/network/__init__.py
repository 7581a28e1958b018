"""Net dicts: networks that a dict describes, and the config files that hold them.

resolve, axes, options       what names, axis descriptions and options mean: read once, when a layer is constructed
layer, extern_data, losses   what a layer is, and data, and a loss
construct, template          each layer after those that it needs; its output on the meta device
network, holder, params      `rf.Network`, its losses after a batch, its parameters by layer
"""
