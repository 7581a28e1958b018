"""What happens in each call of a layer, whatever its class.

Batch norm of its output (`batch_norm`), parameters that differ for one call (`param_changes`), exact logarithms
of probabilities (`exact_log`), and errors that name the layer (`layer_errors`).
"""
