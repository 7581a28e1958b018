import { describe, expect, it } from 'vitest';

import { runView } from '../examples';
import { settled, travelling } from './travelling';

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

  it('are not asked for of plain Python code, which has none', async () => {
    const { stepper, asked } = travelling(() => null, runView({ is_plain: true }));
    stepper.toggleOps();
    stepper.stepOp(1);
    await settled();
    expect(asked).toEqual([]);
  });
});
