// Generated from rfnb/display/schema.py by `python -m rfnb.display.schema_ts`: do not edit.

/** Raised when a message changes in a way that an older panel or kernel would misread. */
export const PROTOCOL = 1;

export type Number = number | 'nan' | 'inf' | '-inf';

/** One axis: its name, its size (the longest, where sizes differ), and its true lengths. */
export interface DimView {
  name: string;
  serial: number;
  size: number;
  kind: 'batch' | 'spatial' | 'feature' | 'other';
  lengths: number[] | null;
  length_range: number[] | null;
  colour: number | null;
  formula: string | null;
  made: string | null;
}

/** Over the valid entries only; over a sample of them if `sampled` is not None. */
export interface StatsView {
  count: number;
  min: Number;
  mean: Number;
  max: Number;
  std: Number;
  nan: number;
  inf: number;
  first_bad: string | null;
  sampled: number | null;
}

export interface TensorView {
  kind: 'tensor';
  name: string;
  dtype: string;
  device: string;
  bytes: number;
  dims: DimView[];
  sparse: string | null;
  stats: StatsView | null;
  values: unknown[] | null;
  labels: string[][] | null;
  tags: string[] | null;
  picture: string | null;
  picture_alt: string | null;
  note: string | null;
}

export interface DimPage {
  kind: 'dim';
  dim: DimView;
  tags: string[] | null;
  vocab: string[] | null;
  vocab_size: number | null;
}

export interface ParamRow {
  name: string;
  dims: DimView[];
  dtype: string;
  count: number;
  trainable: boolean;
}

export interface ModuleNode {
  name: string;
  cls: string;
  note: string;
  params: ParamRow[];
  count: number;
  children: ModuleNode[];
}

export interface ModuleView {
  kind: 'module';
  root: ModuleNode;
  count: number;
  bytes: number;
}

/** Weights of one sequence: rows attend to columns. */
export interface AttentionView {
  kind: 'attention';
  name: string;
  row_dim: DimView;
  col_dim: DimView;
  rows: string[];
  cols: string[];
  weights: Number[][];
  tag: string | null;
  picture: string;
  note: string | null;
}

/** A line of the list of runs. */
export interface RunItem {
  run: number;
  name: string;
  place: string;
  steps: number;
  batch: number | null;
  flags: string[];
  pinned: boolean;
}

/** What does not change while one steps through a run. */
export interface RunView {
  kind: 'run';
  run: number;
  name: string;
  place: string;
  file: string | null;
  cell_id: string | null;
  cell_text: string | null;
  first_line: number;
  body: string[];
  steps: number;
  axis: string;
  lengths: number[] | null;
  tags: string[] | null;
  states: string[];
  flags: string[];
  bytes: number;
}

/** A value at one step, of one sequence if one was chosen. */
export interface ValueView {
  name: string;
  text: string;
  dims: DimView[];
  dtype: string;
  stats: StatsView | null;
  picture: string | null;
  flags: string[];
}

export interface StateRow {
  name: string;
  before: ValueView;
  after: ValueView;
  change: Number | null;
  spark: Number[];
  flags: string[];
}

export interface LineValue {
  line: number;
  op: string;
  value: ValueView;
}

export interface StepView {
  kind: 'step';
  run: number;
  step: number;
  sequence: number | null;
  states: StateRow[];
  values: LineValue[];
  ended: boolean[] | null;
  check: string;
}

/** The static picture of a run: chosen steps of each state. */
export interface HistoryView {
  kind: 'history';
  run: RunView;
  steps: StepView[];
  note: string | null;
}

/** Front end to kernel, on the command comm. */
export interface Message {
  id: number;
  command: 'hello' | 'runs' | 'run' | 'step' | 'value' | 'pin' | 'forget';
  args: { [key: string]: unknown };
}

/** Kernel to front end. `queued`: the answer comes as an event with the same id; `busy`: likewise, after the running cell. */
export interface Reply {
  id: number;
  status: 'ok' | 'error' | 'queued' | 'busy';
  data: unknown;
  error: string | null;
}

/** Kernel to front end, on the event comm. */
export interface Event {
  event: 'runs' | 'reply' | 'open';
  data: unknown;
}
