"""Converting the weights of other libraries: torch, Hugging Face, Llama of Meta.

`convert` finds the weights that each parameter is made of, in `tables`, which list the names of weights by class of
module. `settings` compares or takes over what else changes the results of a torch module, such as the eps of norms, and
does so for a config of Hugging Face.
"""
