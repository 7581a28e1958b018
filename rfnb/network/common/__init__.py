"""What all layers share: `batch_norm`, `changed` (parameters of one call), `penalties` , `layer_errors`."""
