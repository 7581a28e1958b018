"""A recorded run as one file: tensors and plain JSON in the safetensors format, read without model, code or data."""
