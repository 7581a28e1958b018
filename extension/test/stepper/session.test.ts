import { describe, expect, it } from 'vitest';

import { Connection } from '../../src/kernel/connection';
import type { Message, RunItem } from '../../src/schema';
import { Session } from '../../src/stepper/session';
import { item, runView, stepView } from '../examples';
import { FakeKernel, settle } from '../fake_kernel';

async function session(runs: RunItem[]): Promise<{ kernel: FakeKernel; session: Session; runs: RunItem[] }> {
  const kernel = new FakeKernel();
  kernel.answer = ({ command, args }: Message) => {
    const run = args.run as number;
    const found = runs.find(item => item.run === run);
    switch (command) {
      case 'run':
        return { data: runView({ run, ...(found && { loop: found.loop, name: found.name, place: found.place }) }) };
      case 'step':
        return { data: stepView(args.step as number, { run, sequence: args.sequence as number | null }) };
      case 'paused':
      case 'pause':
      case 'pause_at':
      case 'resume':
        return { data: null };
      default:
        return { data: [...runs] };
    }
  };
  const connection = new Connection(kernel.connection);
  const made = new Session(connection);
  await connection.connect();
  await settle();
  return { kernel, session: made, runs };
}

const shown = (session: Session) => session.stepper?.state.run.run ?? null;

async function record(kernel: FakeKernel, runs: RunItem[], added: RunItem): Promise<void> {
  kernel.startCell('loop()');
  runs.unshift(added);
  kernel.emit({ event: 'runs', data: [...runs] });
  kernel.endCell();
  await settle();
}

const PAUSED = { run: 7, name: 'decoder', step: 2, why: 'h > 1', line: null, can_edit: true, cell_id: null };

describe('A paused loop', () => {
  const commands = (kernel: FakeKernel) => kernel.sent.map(({ command, args }) => [command, args.how ?? args.step]);

  it('is shown at its step, and the step after its last one is that of the real execution', async () => {
    const { kernel, session: s } = await session([item(1)]);
    kernel.startCell('train()');
    kernel.emit({ event: 'paused', data: PAUSED });
    await settle();
    expect([s.paused, shown(s), s.stepper?.state.held]).toEqual([PAUSED, 7, PAUSED]);
    expect(s.stepper?.state.step?.step).toBe(2);
    s.stepper?.last();
    await settle();
    s.stepper?.next();
    await settle();
    expect(commands(kernel).pop()).toEqual(['resume', 'step']);
  });

  it('is shown at its step, even if the panel was about to follow its run', async () => {
    const { kernel, session: s, runs } = await session([item(1)]);
    expect([shown(s), s.stepper?.state.step?.step]).toEqual([1, 0]);
    kernel.startCell('train()');
    runs.unshift(item(7));
    kernel.emit({ event: 'runs', data: [...runs] });
    kernel.emit({ event: 'paused', data: PAUSED });
    await settle();
    expect([shown(s), s.stepper?.state.step?.step, s.stepper?.state.held]).toEqual([7, 2, PAUSED]);
  });

  it('goes on, and the panel forgets it when the cell has ended', async () => {
    const { kernel, session: s } = await session([item(1)]);
    kernel.startCell('train()');
    kernel.emit({ event: 'paused', data: PAUSED });
    await settle();
    kernel.emit({ event: 'resumed', data: { run: 7 } });
    expect(s.stepper?.state.held).toBeNull();
    kernel.endCell();
    await settle();
    expect(s.paused).toBeNull();
  });

  it('pauses where marks match, if the user asks for it', async () => {
    const { kernel, session: s } = await session([item(1)]);
    s.stepper?.toggleStop(3);
    s.stepper?.note({ pauses: true });
    await settle();
    const asked = kernel.sent.filter(({ command }) => command === 'pause_at').pop();
    expect(asked?.args).toMatchObject({ loop: 'decoder', where: [{ kind: 'changes', line: 3 }] });
    s.stepper?.note({ pauses: false });
    await settle();
    expect(kernel.sent.filter(({ command }) => command === 'pause_at').pop()?.args.where).toEqual([]);
  });
});

describe('Session', () => {
  it('shows the newest run first', async () => {
    const { session: s } = await session([item(2), item(1)]);
    expect(s.runs.map(run => run.run)).toEqual([2, 1]);
    expect(shown(s)).toBe(2);
    expect(s.stepper?.state.step?.step).toBe(0);
  });

  it('tells that a cell runs', async () => {
    const { kernel, session: s } = await session([item(1)]);
    const told: boolean[] = [];
    s.changed.connect(() => told.push(s.connection.busy));
    kernel.startCell('sleep()');
    expect(told).toEqual([true]);
    kernel.endCell();
    expect(told[told.length - 1]).toBe(false);
  });

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

  it('opens the run that the kernel asks for', async () => {
    const { kernel, session: s } = await session([item(2), item(1)]);
    const opened: number[] = [];
    s.opened.connect((_, run) => opened.push(run));
    kernel.emit({ event: 'open', data: { run: 1 } });
    await settle();
    expect(opened).toEqual([1]);
    expect(shown(s)).toBe(1);
  });

  it('keeps the last view over a restart, until there is a new run', async () => {
    const { kernel, session: s, runs } = await session([item(5)]);
    kernel.restart();
    expect(s.runs).toEqual([]);
    expect(s.stepper?.state).toMatchObject({ gone: true, run: { run: 5 } });
    runs.splice(0, 1, item(1));
    kernel.startCell('import rfnb');
    kernel.imported = true;
    kernel.endCell();
    await settle();
    expect(s.stepper?.state).toMatchObject({ gone: false, run: { run: 1 } });
  });

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

  it('pins and forgets by asking the kernel', async () => {
    const { kernel, session: s } = await session([item(1)]);
    s.pin(1, true);
    s.forget(1);
    const commands = kernel.sent.slice(-2).map(({ command, args }) => [command, args]);
    expect(commands).toEqual([
      ['pin', { run: 1, pinned: true }],
      ['forget', { run: 1 }]
    ]);
  });
});
