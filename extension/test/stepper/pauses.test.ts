import { describe, expect, it, vi } from 'vitest';

import { Session } from '../../src/stepper/session';
import { item } from '../examples';
import { FakeKernel, settle } from '../fake_kernel';
import { session, shown } from './sessions';

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

  it('is found by a page that is opened meanwhile, whose panel comes to the front', async () => {
    const { kernel, session: s } = await session([item(1)]);
    const { answer } = kernel;
    kernel.answer = message => (message.command === 'paused' ? { data: PAUSED } : answer(message));
    const page = new Session(s.connection);
    const opened: number[] = [];
    page.opened.connect((_, run) => opened.push(run));
    await settle();
    await settle();
    expect([page.paused, shown(page), opened]).toEqual([PAUSED, 7, [7]]);
    expect(page.stepper?.state.step?.step).toBe(2);
  });

  it('stays where it pauses again soon, as when the user steps', async () => {
    const { kernel, session: s } = await session([item(1)]);
    const told: (number | null)[] = [];
    s.pausedChanged.connect(() => told.push(s.paused?.step ?? null));
    kernel.startCell('train()');
    kernel.emit({ event: 'paused', data: PAUSED });
    await settle();
    kernel.emit({ event: 'resumed', data: { run: 7 } });
    kernel.emit({ event: 'paused', data: { ...PAUSED, step: 3 } });
    await settle();
    expect(told).toEqual([2, 3]);
    expect([s.stepper?.state.held?.step, s.stepper?.state.step?.step]).toEqual([3, 3]);
  });

  it('goes on to a step', async () => {
    const { kernel, session: s } = await session([item(1)]);
    kernel.startCell('train()');
    kernel.emit({ event: 'paused', data: PAUSED });
    await settle();
    s.resume('continue', [], 40);
    expect(kernel.sent.pop()).toMatchObject({ command: 'resume', args: { how: 'continue', step: 40 } });
  });

  it('tells the kernel from time to time that the panel is still there', async () => {
    const { kernel, session: s } = await session([item(1)]);
    const told = () => kernel.sent.filter(({ command }) => command === 'paused').length;
    vi.useFakeTimers();
    try {
      kernel.startCell('train()');
      kernel.emit({ event: 'paused', data: PAUSED });
      const before = told();
      vi.advanceTimersByTime(5 * 60_000);
      expect(told() - before).toBe(10);
      kernel.emit({ event: 'resumed', data: { run: 7 } });
      vi.advanceTimersByTime(1000);
      const after = told();
      vi.advanceTimersByTime(5 * 60_000);
      expect([s.paused, told() - after]).toEqual([null, 0]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is wanted until a loop pauses, also over the end of a cell', async () => {
    const { kernel, session: s } = await session([item(1)]);
    s.pause(true);
    expect([s.pauses, kernel.sent[kernel.sent.length - 1]]).toMatchObject([
      true,
      { command: 'pause', args: { on: true } }
    ]);
    kernel.startCell('x = 1');
    kernel.endCell();
    expect(s.pauses).toBe(true);
    kernel.startCell('train()');
    kernel.emit({ event: 'paused', data: PAUSED });
    expect(s.pauses).toBe(false);
    s.pause(true);
    s.resume('run');
    expect(s.pauses).toBe(false);
  });
});
