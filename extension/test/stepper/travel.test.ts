import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import type { Message, OpsView, Where } from '../../src/schema';
import { conditions, Notes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import type { Place } from '../../src/stepper/stepper_state';
import { item, opRow, runView, stepView, watchRow } from '../examples';
import { settle } from '../fake_kernel';

type Answer = (message: Message) => unknown;

type Args = { step: number; sequence: number | null; watch?: string[]; ops?: boolean; op?: number | null };

const ROWS = [opRow(0), opRow(1), opRow(2, { line: 5 })];

function opsView({ ops, op }: Pick<Args, 'ops' | 'op'>): OpsView | null {
  const number = (op ?? 0) < 0 ? ROWS.length - 1 : (op ?? null);
  return ops ? { rows: ROWS, op: number === null ? null : { number, inputs: [], outputs: [] }, error: null } : null;
}

/** A stepper at step 0 of a kernel that answers as the test says; `null` stands for an error. */
function travelling(answer: Answer, run = runView()) {
  const asked: Message[] = [];
  const opened: [number, Place][] = [];
  const notes = new Notes();
  const requests = new Requests(message => {
    asked.push(message);
    const { step, sequence, watch, ...more } = message.args as Args;
    const shown = stepView(step, { sequence, watches: (watch ?? []).map(text => watchRow(text)), ops: opsView(more) });
    const data = message.command === 'step' ? shown : answer(message);
    const status = data === null ? 'error' : 'ok';
    setTimeout(() => requests.receive({ id: message.id, status, data, error: data === null ? 'refused' : null }));
  });
  const open = (other: number, at: Place) => void opened.push([other, at]);
  const stepper = new Stepper(requests, run, stepView(0), { notes, trail: [], open });
  return { stepper, asked, opened, notes };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 6; i++) {
    await settle();
  }
}

describe('watches', () => {
  it('are asked for with each step, and at once when one is added', async () => {
    const { stepper, asked } = travelling(() => []);
    stepper.note({ watches: ['h + 1'] });
    await settled();
    expect(asked[0].args).toMatchObject({ step: 0, watch: ['h + 1'] });
    expect(stepper.state.step?.watches[0].value?.text).toBe('h + 1!');
    stepper.next();
    await settled();
    expect(asked[1].args).toMatchObject({ step: 1, watch: ['h + 1'] });
  });

  it('belong to the loop, whichever run of it is shown', async () => {
    const { stepper, notes } = travelling(() => []);
    notes.change('another', { watches: ['x'] });
    expect(stepper.state.notes.watches).toEqual([]);
    notes.change(stepper.state.run.loop, { watches: ['y'] });
    expect(stepper.state.notes.watches).toEqual(['y']);
  });
});

describe('marks', () => {
  const run = runView();

  it('come and go at a line, in the order of the lines', () => {
    const notes = new Notes();
    [5, 3].forEach(line => notes.toggleStop(run, line));
    expect(notes.of(run.loop).stops.map(stop => [stop.line, stop.kind])).toEqual([
      [3, 'changes'],
      [5, 'changes']
    ]);
    notes.toggleStop(run, 3);
    expect(notes.of(run.loop).stops.map(stop => stop.line)).toEqual([5]);
    notes.toggleStop(run, 99);
    expect(notes.of(run.loop).stops).toHaveLength(1);
  });

  it('hold for the text that was marked', () => {
    const notes = new Notes();
    notes.toggleStop(run, 3);
    const edited = runView({ body: run.body.map(text => text.replace('embed', 'look')) });
    expect(conditions(notes.of(run.loop), run)).toHaveLength(1);
    expect(conditions(notes.of(run.loop), edited)).toHaveLength(0);
  });

  it('move with their lines when lines above change, and stay where their line is gone', () => {
    const notes = new Notes();
    notes.toggleStop(run, 3);
    const [code] = notes.of(run.loop).stops.map(stop => stop.code);
    const loop = run.loop.replace(/:\d+:/, ':9:');
    notes.follow(runView({ loop, first_line: run.first_line + 2 }));
    expect(notes.of(loop).stops).toMatchObject([{ line: 5, code }]);
    notes.follow(runView({ loop, body: run.body.map(() => 'pass') }));
    expect(notes.of(loop).stops).toMatchObject([{ line: 5, code }]);
  });

  it('are looked for together with the search row, if that is complete', () => {
    const where = (change: Partial<Where>): Where => ({
      kind: 'over', name: null, line: null, limit: null, text: null, ...change
    }); // prettier-ignore
    const found = (w: Where) => conditions({ watches: [], stops: [], pauses: false, where: w }, run).length;
    expect([where({}), where({ kind: 'changes' }), where({ kind: 'expression', text: ' ' })].map(found)).toEqual([
      0, 0, 0
    ]);
    expect([where({ limit: 0 }), where({ kind: 'changes', name: 'h' }), where({ kind: 'ends' })].map(found)).toEqual([
      1, 1, 1
    ]);
  });

  it('are searched for as soon as they are there, in the sequence that is shown', async () => {
    const { stepper, asked } = travelling(() => ({ hits: [4], next: null }));
    stepper.choose(1);
    await settled();
    stepper.toggleStop(3);
    await settled();
    expect(asked[1]).toMatchObject({ command: 'find', args: { where: [{ kind: 'changes', line: 3 }], sequence: 1 } });
    stepper.goToHit('next');
    await settled();
    expect(stepper.state.step?.step).toBe(4);
  });
});

describe('ops', () => {
  it('come with the step; those of one op have their numbers when it is looked at', async () => {
    const { stepper, asked } = travelling(() => null);
    stepper.toggleOps();
    await settled();
    expect(asked[0]).toMatchObject({ command: 'step', args: { step: 0, ops: true, op: null } });
    stepper.lookAtOp(2);
    await settled();
    expect(stepper.state).toMatchObject({ line: 5, step: { ops: { op: { number: 2 } } } });
    stepper.look(3);
    stepper.next();
    await settled();
    expect(asked[2].args).toMatchObject({ step: 1, ops: true, op: 2 });
    expect(stepper.state.line).toBe(3);
    stepper.toggleOps();
    stepper.next();
    await settled();
    expect(asked[3].args).toMatchObject({ step: 2, ops: false });
    expect(asked).toHaveLength(4);
  });

  it('are walked from the line that is looked at, into the next step and back', async () => {
    const { stepper } = travelling(() => null);
    const places: (number | null | undefined)[][] = [];
    stepper.look(5);
    for (const way of [1, 1, -1, -1] as const) {
      stepper.stepOp(way);
      await settled();
      places.push([stepper.state.step?.step, stepper.state.step?.ops?.op?.number, stepper.state.line]);
    }
    expect(places).toEqual([
      [0, 2, 5],
      [1, 0, 3],
      [0, 2, 5],
      [0, 1, 3]
    ]);
  });
});

describe('other runs', () => {
  it('a fork is opened at the step that was edited', async () => {
    const { stepper, asked, opened } = travelling(() => runView({ run: 8 }));
    await stepper.fork({ label: 'AH' });
    expect(asked[0]).toMatchObject({ command: 'fork', args: { run: 1, step: 0, states: { label: 'AH' } } });
    expect(opened).toEqual([[8, { step: 0, sequence: null, trail: [] }]]);
  });

  it('a fork that is refused says why', async () => {
    const { stepper, opened } = travelling(() => null);
    await stepper.fork({ h: 'x' });
    expect(stepper.state.asides.fork).toMatchObject({ waiting: false, error: 'refused' });
    expect(opened).toEqual([]);
  });

  it('the way into the loop of a step leads back again', async () => {
    const { stepper, opened } = travelling(() => [item(8)]);
    await stepper.enter();
    const crumb = { run: 1, name: 'decoder', step: 0, sequence: null };
    expect(opened).toEqual([[8, { step: 0, sequence: null, trail: [crumb] }]]);
    const inner = new Stepper(new Requests(() => undefined), runView({ run: 8 }), null, {
      notes: new Notes(),
      trail: [crumb],
      open: (run, at) => void opened.push([run, at])
    });
    inner.leaveTo(0);
    expect(opened[1]).toEqual([1, { step: 0, sequence: null, trail: [] }]);
  });

  it('asks which one, if there are several loops in a step', async () => {
    const { stepper, opened } = travelling(() => [item(8), item(9)]);
    await stepper.enter();
    expect(opened).toEqual([]);
    expect(stepper.state.asides.loops?.answer).toHaveLength(2);
  });

  it('a run that broke off can be looked at where it did', async () => {
    const failure = { step: 3, line: 5, error: 'no' };
    const { stepper, asked } = travelling(() => [], runView({ steps: 3, failure }));
    stepper.last();
    await settled();
    expect(asked[0].args.step).toBe(3);
  });

  it('without a kernel there are only the steps', () => {
    const asked: Message[] = [];
    const context = { notes: new Notes(), trail: [], still: true, open: () => undefined };
    const stepper = new Stepper(new Requests(message => asked.push(message)), runView(), stepView(0), context);
    stepper.toggleStop(3);
    stepper.toggleOps();
    stepper.stepOp(1);
    stepper.goToHit('next');
    expect(asked).toEqual([]);
  });
});
