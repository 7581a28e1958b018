"""The names of modules in `rf`, imported when one of them is first used."""

# fmt: off
# isort: skip_file

from rfnb.nn import decoder as decoder, encoder as encoder, init as init
from rfnb.nn.attention import (
    CausalSelfAttention as CausalSelfAttention, CausalSelfAttentionState as CausalSelfAttentionState,
    CrossAttention as CrossAttention, RelPosCausalSelfAttention as RelPosCausalSelfAttention,
    RelPosSelfAttention as RelPosSelfAttention, RotaryPosCausalSelfAttention as RotaryPosCausalSelfAttention,
    RotaryPosSelfAttention as RotaryPosSelfAttention, SelfAttention as SelfAttention,
    SelfAttentionBase as SelfAttentionBase,
)
from rfnb.nn.bridge import distributed as distributed
from rfnb.nn.bridge.distributed import average_parameters as average_parameters
from rfnb.nn.bridge.from_torch import from_torch as from_torch
from rfnb.nn.bridge.mirror import param_groups as param_groups, torch_parameters as torch_parameters
from rfnb.nn.bridge.to_torch import rf_module_to_pt_module as rf_module_to_pt_module, to_torch as to_torch
from rfnb.nn.cells.cell import RecCell as RecCell, make_cell as make_cell
from rfnb.nn.cells.lstm import (
    BasicLSTM as BasicLSTM, LayerNormVariantsLSTM as LayerNormVariantsLSTM, VanillaLSTM as VanillaLSTM,
    ZoneoutLSTM as ZoneoutLSTM,
)
from rfnb.nn.cells.simple import GRU as GRU, RHN as RHN, BasicRNN as BasicRNN
from rfnb.nn.decoder.transformer import (
    TransformerDecoder as TransformerDecoder, TransformerDecoderLayer as TransformerDecoderLayer,
)
from rfnb.nn.encoder.base import (
    IEncoder as IEncoder, ISeqDownsamplingEncoder as ISeqDownsamplingEncoder,
    ISeqFramewiseEncoder as ISeqFramewiseEncoder,
)
from rfnb.nn.encoder.conformer import (
    ConformerConvBlock as ConformerConvBlock, ConformerConvSubsample as ConformerConvSubsample,
    ConformerEncoder as ConformerEncoder, ConformerEncoderLayer as ConformerEncoderLayer,
    ConformerPositionwiseFeedForward as ConformerPositionwiseFeedForward, make_ff as make_ff,
)
from rfnb.nn.encoder.e_branchformer import EBranchformerLayer as EBranchformerLayer
from rfnb.nn.encoder.transformer import (
    TransformerEncoder as TransformerEncoder, TransformerEncoderLayer as TransformerEncoderLayer,
)
from rfnb.nn.layers.conv import (
    Conv1d as Conv1d, Conv2d as Conv2d, Conv3d as Conv3d, TransposedConv1d as TransposedConv1d,
    TransposedConv2d as TransposedConv2d, TransposedConv3d as TransposedConv3d,
)
from rfnb.nn.layers.dropout import Dropout as Dropout
from rfnb.nn.layers.linear import Embedding as Embedding, Linear as Linear
from rfnb.nn.layers.norm import (
    BatchNorm as BatchNorm, GroupNorm as GroupNorm, GroupNormSpatial as GroupNormSpatial, LayerNorm as LayerNorm,
    Normalize as Normalize, RMSNorm as RMSNorm, RunningMean as RunningMean,
    batch_norm_distributed_default as batch_norm_distributed_default,
    conv_norm_use_mask_default as conv_norm_use_mask_default, make_norm as make_norm,
)
from rfnb.nn.layers.rec import LSTM as LSTM, LstmState as LstmState
from rfnb.nn.layers.transformer import (
    FeedForward as FeedForward, FeedForwardGated as FeedForwardGated,
    LearnedRelativePositionalEncoding as LearnedRelativePositionalEncoding,
)
from rfnb.nn.module import hooks as hooks
from rfnb.nn.module.build import (
    GetModelFunc as GetModelFunc, StepFunc as StepFunc, build_dict as build_dict, build_from_dict as build_from_dict,
)
from rfnb.nn.module.container import (
    CollectOutputsDict as CollectOutputsDict, Functional as Functional, ModuleList as ModuleList,
    ParameterList as ParameterList, Sequential as Sequential, sequential as sequential,
)
from rfnb.nn.module.module import Module as Module, NotSpecified as NotSpecified
from rfnb.nn.module.parametrize import (
    WeightDropout as WeightDropout, WeightNoise as WeightNoise, is_parametrized as is_parametrized,
    register_parametrization as register_parametrization, remove_parametrization as remove_parametrization,
    weight_dropout as weight_dropout, weight_noise as weight_noise,
)
from rfnb.nn.schedule import (
    PiecewiseLinear as PiecewiseLinear, PiecewiseLinearStepwiseScheduler as PiecewiseLinearStepwiseScheduler,
)
