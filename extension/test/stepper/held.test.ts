import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import type { How, PausedView, Where } from '../../src/schema';
import { Notes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import { runView, stepView } from '../examples';
import { settled, travelling } from './travelling';

const PAUSED: PausedView = {
  run: 1, name: 'decoder', step: 2, why: 'h > 1', line: null, can_edit: true, cell_id: null
}; // prettier-ignore

describe('a loop that is held at a pause', () => {
  it('goes on to the next pause, or to the next step that matches', () => {
    const went: [How, Where[]][] = [];
    const notes = new Notes();
    const resume = (how: How, where: Where[]) => void went.push([how, where]);
    const context = { notes, trail: [], open: () => undefined, resume };
    const stepper = new Stepper(new Requests(() => undefined), runView(), stepView(0), context);
    stepper.toggleStop(3);
    stepper.resume('continue');
    expect(went).toEqual([]);
    stepper.grow(runView(), PAUSED);
    stepper.resume('continue');
    stepper.resume('continue', true);
    expect(went).toMatchObject([
      ['continue', []],
      ['continue', [{ kind: 'changes', line: 3 }]]
    ]);
    stepper.release();
    stepper.resume('continue');
    expect(went).toHaveLength(2);
  });

  it('gets its edited states, and the step is requested again', async () => {
    const { stepper, asked } = travelling(() => runView({ name: 'edited' }));
    stepper.grow(runView(), PAUSED);
    expect(await stepper.edit({ h: '0' })).toBe(true);
    await settled();
    expect(asked.map(({ command }) => command)).toEqual(['edit', 'step']);
    expect(asked[0].args).toMatchObject({ states: { h: '0' }, sequence: null });
    expect(stepper.state).toMatchObject({ run: { name: 'edited' }, step: { step: 0 }, waiting: null });
  });

  it('shows the step anew once its axes have names', async () => {
    const { stepper, asked } = travelling(({ command }) => (command === 'name_axes' ? runView() : null));
    expect(await stepper.nameAxes('x', 'batch')).toBe(true);
    await settled();
    expect(asked.map(({ command }) => command)).toEqual(['name_axes', 'step']);
    expect(asked[0].args).toMatchObject({ name: 'x', text: 'batch', step: 0 });
  });

  it('keeps its states when an edit is refused', async () => {
    const { stepper, asked } = travelling(() => null);
    expect(await stepper.edit({ h: 'x' })).toBe(false);
    expect(stepper.state.asides.edit?.error).toBe('refused');
    expect(asked).toHaveLength(1);
  });

  it('has more steps each time', async () => {
    const { stepper } = travelling(() => null, runView({ steps: 3 }));
    stepper.last();
    await settled();
    expect(stepper.state.step?.step).toBe(2);
    stepper.grow(runView({ steps: 5 }), PAUSED);
    stepper.last();
    await settled();
    expect(stepper.state.step?.step).toBe(4);
  });
});
