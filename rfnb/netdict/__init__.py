"""The annex for net dicts: networks that a dict describes, and the config files that hold them.

resolve, axes, options        what names, axis descriptions and options mean: read once, when a layer is constructed
layer, spec, losses           what a layer is, what its construction decides, and what a loss is
builder, build                each layer after those that it needs; its output on the meta device
network, interface, holder    `rf.Network`, its methods for configs, its losses after a batch
extern_data, params           the data keys, the parameters by layer
weights, variables            trained weights, by the names of TensorFlow's variables
layer_call, loops             what each call of a layer does; loops over subnetworks
layers, layer_classes         the classes of layers, and in which file each is
config, report, views         reads config files without running them; says what will not run; the pictures
"""
