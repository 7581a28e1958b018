import { describe, expect, it } from 'vitest';

import type { Where } from '../../src/schema';
import { conditions, Notes } from '../../src/stepper/notes';
import { runView } from '../examples';
import { settled, travelling } from './travelling';

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
