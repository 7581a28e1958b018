"""Importing the weights of other libraries: torch, Hugging Face, Llama of Meta.

Read `import_weights` first. `convert` finds the weights that each parameter is made of, in `tables`, which list the
names of weights by class of module; `transforms` changes their layout. `settings` compares or takes over what else
changes the results of a torch module, such as the eps of norms, and `config` does so for a config of Hugging Face.
"""
