import { describe, expect, it } from 'vitest';

import { item, runView } from '../examples';
import { settle } from '../fake_kernel';
import { session, shown } from './sessions';

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

  it('asks whether cells are recorded, and switches that', async () => {
    const { kernel, session: s } = await session([]);
    expect(s.records).toBe(false);
    s.record(true);
    await settle();
    expect([s.records, kernel.sent.slice(-1)[0]]).toMatchObject([
      true,
      { command: 'record_cells', args: { on: true } }
    ]);
    kernel.restart();
    expect(s.records).toBeNull();
  });

  it('keeps what the user has switched last, whatever the kernel answers to requests before', async () => {
    const { kernel, session: s } = await session([]);
    const before = kernel.sent.length;
    kernel.answer = () => null;
    kernel.connectionStatusChanged.emit('connected'); // the page asks again
    s.record(true);
    s.record(false);
    const told: (boolean | null)[] = [];
    for (const { id, command, args } of kernel.sent.slice(before)) {
      if (command === 'record_cells') {
        kernel.comms[0].say({ id, status: 'ok', data: args.on ?? true, error: null });
        await settle();
        told.push(s.records);
      }
    }
    expect(told).toEqual([false, false, false]);
  });

  it('runs a cell again, recorded, whose loop raised unrecorded', async () => {
    const { kernel, session: s } = await session([item(1)]);
    const cells: string[] = [];
    s.rerunning.connect((_, cell) => cells.push(cell));
    s.stepper?.recordAgain();
    s.show(runView({ raised_in: 'cell-4' }), null);
    s.stepper?.recordAgain();
    await settle();
    expect([s.records, cells]).toEqual([true, ['cell-4']]);
    kernel.answer = () => ({ status: 'error', error: 'unknown command' });
    s.stepper?.recordAgain();
    await settle();
    expect([s.records, s.error, cells]).toEqual([null, 'unknown command', ['cell-4']]);
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
