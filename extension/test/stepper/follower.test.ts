import { afterEach, describe, expect, it, vi } from 'vitest';

import type { RunView } from '../../src/schema';
import { item } from '../examples';
import { settle } from '../fake_kernel';
import { record, session, shown } from './sessions';

describe('Following new runs', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('goes on to a new run of the same loop, at the same step, when the cell has ended', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    s.stepper?.goto(4);
    await settle();
    await record(kernel, runs, item(2, { place: 'cell 9, line 2' })); // the same cell, run again
    expect(shown(s)).toBe(2);
    expect(s.stepper?.state.step?.step).toBe(4);
  });

  it('goes on at the step that is asked for while the new run comes', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const recorded = record(kernel, runs, item(2));
    s.stepper?.goto(3);
    await recorded;
    await settle();
    expect(shown(s)).toBe(2);
    expect(s.stepper?.state.step?.step).toBe(3);
  });

  it('stays with an older run that the user has chosen, and with another loop', async () => {
    const { kernel, session: s, runs } = await session([item(2), item(1)]);
    await s.open(1);
    await record(kernel, runs, item(3));
    expect(shown(s)).toBe(1);
    await s.open(3);
    await record(kernel, runs, item(4, { loop: 'c2:1', name: 'encoder' }));
    expect(shown(s)).toBe(3);
  });

  it('goes to the older run that the user chooses while newer ones come', async () => {
    const { kernel, session: s, runs } = await session([item(2), item(1)]);
    const { answer } = kernel;
    kernel.answer = () => null; // later
    for (const run of [3, 4]) {
      runs.unshift(item(run));
      kernel.emit({ event: 'runs', data: [...runs] });
    }
    const opened = s.open(1);
    for (const run of [3, 1]) {
      const message = kernel.sent.find(({ command, args }) => command === 'run' && args.run === run)!;
      const reply = { id: message.id, status: 'ok', error: null, ...answer(message) };
      kernel.comms.filter(({ target }) => target !== 'rfnb.events').forEach(comm => comm.say(reply));
      await settle();
    }
    kernel.answer = answer;
    await opened;
    expect(shown(s)).toBe(1);
    await record(kernel, runs, item(5));
    expect(shown(s)).toBe(1);
  });

  it('leaves an older run on the page when it is dropped, until the newest is asked for', async () => {
    const { kernel, session: s, runs } = await session([item(2), item(1)]);
    await s.open(1);
    s.stepper?.goto(3);
    await settle();
    runs.pop();
    for (const run of [3, 4]) {
      await record(kernel, runs, item(run));
      expect(s.stepper?.state).toMatchObject({ gone: true, dropped: true, run: { run: 1 }, step: { step: 3 } });
    }
    s.stepper?.openNewest();
    await settle();
    expect(s.stepper?.state).toMatchObject({ gone: false, run: { run: 4 }, step: { step: 3 } });
    await record(kernel, runs, item(5));
    expect(shown(s)).toBe(5);
    kernel.restart();
    expect(s.stepper?.state).toMatchObject({ gone: true, dropped: false });
  });

  it('goes to the newest run at once when a step is asked for that was dropped', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const { answer } = kernel;
    let clock = performance.now() + 10_000;
    vi.spyOn(performance, 'now').mockImplementation(() => clock);
    kernel.answer = message => {
      clock += message.command === 'run' ? 1000 : 0;
      const isGone = runs.every(({ run }) => run !== message.args.run) && message.command === 'step';
      return isGone ? { status: 'gone', error: 'run 2 is no longer kept' } : answer(message);
    };
    kernel.startCell('train()');
    for (const run of [2, 3]) {
      runs.splice(0, 1, item(run));
      kernel.emit({ event: 'runs', data: [...runs] });
      await settle();
    }
    expect(shown(s)).toBe(2); // the cell has the time for a while
    s.stepper?.next();
    await settle();
    expect(s.stepper?.state).toMatchObject({ gone: false, run: { run: 3 }, step: { step: 1 } });
    expect(s.error).toBeNull();
    s.dispose();
  });

  it('goes to the newest run when the user forgets an older one', async () => {
    const { kernel, session: s, runs } = await session([item(2), item(1)]);
    await s.open(1);
    runs.pop();
    s.forget(1);
    await settle();
    expect([shown(s), kernel.sent.some(({ command }) => command === 'forget')]).toEqual([2, true]);
  });

  it('asks for one run at a time while a training cell makes many', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const before = kernel.sent.length;
    kernel.startCell('train()');
    for (let run = 2; run < 50; run++) {
      runs.unshift(item(run));
      kernel.emit({ event: 'runs', data: [...runs] });
    }
    expect(kernel.sent.length).toBeLessThan(before + 3);
    for (let i = 0; i < 20; i++) {
      await settle();
    }
    expect(shown(s)).toBe(49);
    kernel.endCell();
    await settle();
    expect(shown(s)).toBe(49);
  });

  it('keeps the values on the page while the steps of new runs wait for the running cell', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    s.stepper?.goto(4);
    await settle();
    let clock = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => (clock += 10_000)); // no run comes too early
    const { answer } = kernel;
    const steps: number[] = [];
    kernel.answer = message => {
      steps.push(...(message.command === 'step' ? [message.args.run as number] : []));
      return message.command === 'step' ? { status: 'busy' } : answer(message);
    };
    kernel.startCell('train()');
    for (const run of [2, 3, 4]) {
      runs.unshift(item(run));
      kernel.emit({ event: 'runs', data: [...runs] });
      await settle();
    }
    expect(s.stepper?.state).toMatchObject({ gone: false, waiting: null, run: { run: 1 }, step: { step: 4 } });
    expect(steps).toEqual([2]); // the kernel is asked once in the cell
    runs.pop();
    kernel.emit({ event: 'runs', data: [...runs] });
    expect(s.stepper?.state).toMatchObject({ gone: true, dropped: true, run: { run: 1 }, step: { step: 4 } });
    s.stepper?.openNewest(); // without values, as the user wants
    await settle();
    expect(s.stepper?.state).toMatchObject({ gone: false, waiting: 'busy', run: { run: 4 }, step: null, target: 4 });
    kernel.answer = answer;
    runs.unshift(item(5));
    kernel.emit({ event: 'runs', data: [...runs] });
    kernel.endCell();
    await settle();
    expect(s.stepper?.state).toMatchObject({ gone: false, waiting: null, run: { run: 5 }, step: { step: 4 } });
    s.dispose();
  });

  it('has the step of a new run when it takes the place of the one before', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const shownSteps: (number | undefined)[] = [];
    s.changed.connect(() => shownSteps.push(s.stepper?.state.step?.step));
    await record(kernel, runs, item(2));
    expect(shown(s)).toBe(2);
    expect(new Set(shownSteps)).toEqual(new Set([0]));
  });

  it('goes on from a run of a probe that is old when it has been opened', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const { answer } = kernel;
    kernel.answer = message => {
      const found = answer(message) as { data: RunView };
      const training = { step: message.args.run as number, steps: [1, 2, 3], measures: {} };
      return message.command === 'run' ? { data: { ...found.data, training } } : found;
    };
    await record(kernel, runs, item(2)); // meanwhile there is a third run
    expect(shown(s)).toBe(2);
    await record(kernel, runs, item(3));
    expect(shown(s)).toBe(3);
  });

  it('stays in the loop of a step when the list of runs changes', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    const trail = [{ run: 1, name: 'decoder', step: 2, sequence: null }];
    await s.open(50, { step: 1, sequence: null, trail });
    await settle();
    await record(kernel, runs, item(2));
    expect(shown(s)).toBe(50);
    s.stepper?.leaveTo(0);
    await settle();
    expect([shown(s), s.stepper?.state.step?.step]).toEqual([1, 2]);
  });
});
