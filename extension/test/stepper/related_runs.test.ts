import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import { Notes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import { item, runView } from '../examples';
import { travelling } from './travelling';

describe('other runs', () => {
  it('a fork is opened at the step that was edited', async () => {
    const { stepper, asked, opened } = travelling(() => runView({ run: 8 }));
    expect(await stepper.fork({ label: 'AH' })).toBe(true);
    expect(asked[0]).toMatchObject({ command: 'fork', args: { run: 1, step: 0, states: { label: 'AH' } } });
    expect(opened).toEqual([[8, { step: 0, sequence: null, trail: [] }]]);
  });

  it('a fork that is refused says why', async () => {
    const { stepper, opened } = travelling(() => null);
    expect(await stepper.fork({ h: 'x' })).toBe(false);
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
});
