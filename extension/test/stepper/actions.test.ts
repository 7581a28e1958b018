import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import { actionsOf } from '../../src/stepper/actions';
import { STEP_KEYS, stepCommands } from '../../src/stepper/commands';
import { Stepper } from '../../src/stepper/stepper';
import { PLAIN } from '../../src/words';
import { runView, stepView } from '../examples';

const stepper = () => new Stepper(new Requests(() => undefined), runView(), stepView(0));

describe('the actions of a stepper', () => {
  it('are its methods, but not those of its owner', () => {
    const actions = actionsOf(stepper());
    expect(Object.keys(actions)).toEqual(expect.arrayContaining(['goto', 'next', 'stepOp', 'ask', 'dismiss']));
    expect(Object.keys(actions).filter(name => /^_|^(constructor|dispose|lose|complain|state)$/.test(name))).toEqual(
      []
    );
  });

  it('act on their stepper, and are the same object each time', () => {
    const mine = stepper();
    const { look } = actionsOf(mine);
    look(4);
    expect(mine.state.line).toBe(4);
    expect(actionsOf(mine)).toBe(actionsOf(mine));
  });
});

describe('the table of commands', () => {
  it('has each id, key and shortcut once', () => {
    const commands = stepCommands(PLAIN);
    const lists = [commands.map(row => row.id), commands.map(row => row.shortcut), STEP_KEYS.map(row => row.key)];
    lists.forEach(list => expect(new Set(list).size).toBe(list.length));
  });
});
