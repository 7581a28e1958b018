"""What happens in each call of a layer, whatever its class.

Batch norm of its output (`batch_norm`), parameters that differ for one call (`param_changes`), penalties on its output
(`penalties`), exact logarithms of probabilities (`exact_log`), and errors that name the layer (`layer_errors`).
"""
