import type {
  BeamAt,
  BeamNode,
  BeamStep,
  DimView,
  OpRow,
  RunItem,
  RunView,
  StateRow,
  StepView,
  ValueView,
  WatchRow
} from '../src/schema';

export const EVIL = '<script>alert(1)</script>';

export function dim(change: Partial<DimView> = {}): DimView {
  return {
    name: 'letters',
    serial: 7,
    size: 9,
    kind: 'spatial',
    lengths: [9, 3],
    length_range: [3, 9, 12],
    colour: 1,
    formula: null,
    made: 'cell 3, line 2',
    ...change
  };
}

export function value(name: string, text: string, change: Partial<ValueView> = {}): ValueView {
  return { name, text, dims: [dim()], dtype: 'float32', stats: null, picture: null, flags: [], ...change };
}

export function stateRow(name: string, before: string, after: string): StateRow {
  return {
    name,
    before: value(name, before),
    after: value(name, after),
    change: 0.5,
    spark: [0.1, 'nan', 0.4],
    flags: []
  };
}

export function item(run: number, change: Partial<RunItem> = {}): RunItem {
  return {
    run,
    loop: 'c1:2',
    name: 'decoder',
    place: 'cell 4, line 2',
    steps: 12,
    batch: 2,
    flags: [],
    pinned: false,
    parent: null,
    forked_at: null,
    ...change
  };
}

const CELL = 'import rfnb as rf\nwith loop:\n    x = embed(loop.state.y)\n\n    h = cell(x)';

export function runView(change: Partial<RunView> = {}): RunView {
  return {
    kind: 'run_facts',
    run: 1,
    name: 'decoder',
    loop: 'c1:2',
    place: 'cell 4, line 2',
    file: null,
    cell_id: 'cell-4',
    cell_text: CELL,
    first_line: 2,
    body: CELL.split('\n').slice(1),
    steps: 12,
    axis: 'phones',
    lengths: [12, 5],
    tags: ['banana', 'cat'],
    states: ['h'],
    flags: [],
    bytes: 4200,
    parent: null,
    forked_at: null,
    failure: null,
    ...change
  };
}

export function watchRow(text: string, error: string | null = null): WatchRow {
  return { text, value: error === null ? value(text, `${text}!`) : null, error };
}

export function opRow(number: number, change: Partial<OpRow> = {}): OpRow {
  return { number, op: 'add', name: 'x', path: '', line: 3, dims: [], dtype: 'float32', is_loop: false, ...change };
}

export function stepView(step: number, change: Partial<StepView> = {}): StepView {
  return {
    kind: 'step',
    run: 1,
    step,
    sequence: null,
    states: [stateRow('h', `${step - 1}.5`, `${step}.5`)],
    values: [
      { line: 3, op: 'embedding', value: value('x', `x at ${step}`) },
      { line: 5, op: 'lstm', value: value('h', `h at ${step}`) }
    ],
    ended: [false, step >= 5],
    check: 'replay agrees',
    agrees: true,
    watches: [],
    ops: null,
    ...change
  };
}

/** A beam of two that swap places at each step; with a pruned candidate, if asked for. */
export function beamColumn(step: number, pruned = false): BeamStep {
  const node = (row: number, change: Partial<BeamNode> = {}): BeamNode => ({
    row,
    parent: step > 0 ? 1 - row : null,
    joined: null,
    text: `${'abc'[row]}${step}`,
    score: row - 1.5,
    state: 'lives',
    ends: false,
    best: row === 1,
    reference: false,
    ...change
  });
  const candidates = pruned ? [node(2, { state: 'pruned', parent: 0 })] : [];
  return { step, nodes: [node(1), node(0), ...candidates], skipped: 0 };
}

export function beamAt(step: number, change: Partial<BeamAt> = {}): BeamAt {
  const parent = (rank: number) => (step > 0 ? rank : null);
  return {
    sequence: 0,
    name: 'banana',
    beam: 2,
    step,
    steps: 12,
    since: 0,
    columns: Array.from({ length: step + 1 }, (_, at) => beamColumn(at)),
    rows: [
      { place: 1, rank: 1, text: `b${step}`, score: -0.5, parts: { lm: -0.4 }, parent: parent(1), ended: false },
      { place: 0, rank: 2, text: `a${step}`, score: -1.5, parts: { lm: -1.1 }, parent: parent(2), ended: true }
    ],
    hypothesis: null,
    place: null,
    lost: null,
    ...change
  };
}
