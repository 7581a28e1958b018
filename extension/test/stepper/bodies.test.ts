import { describe, expect, it } from 'vitest';

import { item } from '../examples';
import { settle } from '../fake_kernel';
import { session, shown } from './sessions';

describe('The text of loops', () => {
  it('knows the text of each loop before it is opened', async () => {
    const { session: s } = await session([item(3), item(2, { loop: 'c2:1' }), item(1, { loop: 'c2:1' })]);
    await settle();
    expect(s.bodies.map(run => run.run)).toEqual([3, 2]);
  });

  it('looks at the loop that is marked', async () => {
    const { session: s } = await session([item(3), item(2, { loop: 'c2:1' })]);
    await settle();
    s.toggleStop(s.bodies[1], 3);
    await settle();
    expect(shown(s)).toBe(2);
    expect(s.stepper?.state.notes.stops.map(stop => stop.line)).toEqual([3]);
  });
});
