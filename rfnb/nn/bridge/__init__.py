"""The bridge to plain torch: rfnb modules as `torch.nn.Module`, and the other way round."""
