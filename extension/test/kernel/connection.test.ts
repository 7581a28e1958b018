import { describe, expect, it } from 'vitest';

import { complaintAbout, Connection } from '../../src/kernel/connection';
import { PROTOCOL, type Event } from '../../src/schema';
import { FakeKernel, settle } from '../fake_kernel';

async function connected(kernel = new FakeKernel()): Promise<{ kernel: FakeKernel; connection: Connection }> {
  const connection = new Connection(kernel.connection);
  await connection.connect();
  return { kernel, connection };
}

describe('#connect', () => {
  it('opens the comm for commands, then the one for events, both on subshells', async () => {
    const { kernel, connection } = await connected();
    expect(connection.link).toBe('ready');
    expect(connection.session).toBe('abc');
    expect(kernel.comms.map(comm => comm.target)).toEqual(['rfnb.commands', 'rfnb.events']);
    expect(kernel.comms.map(comm => comm.commsOverSubshells)).toEqual(['perCommTarget', 'perCommTarget']);
  });

  it('does not wait for subshells that the kernel does not have', async () => {
    const kernel = new FakeKernel();
    kernel.supportsSubshells = false;
    const { connection } = await connected(kernel);
    expect(connection.link).toBe('ready');
  });

  it('tries again when a cell that imports something has ended', async () => {
    const kernel = new FakeKernel();
    kernel.imported = false;
    const { connection } = await connected(kernel);
    expect(connection.link).toBe('absent');
    kernel.startCell('1 + 1');
    kernel.endCell();
    await settle();
    expect(kernel.comms).toHaveLength(1);
    kernel.startCell('import rfnb as rf');
    kernel.imported = true;
    kernel.endCell();
    await settle();
    expect(connection.link).toBe('ready');
  });

  it('stops at another protocol, and says which side to update', async () => {
    const kernel = new FakeKernel();
    kernel.protocol = PROTOCOL + 1;
    const { connection } = await connected(kernel);
    expect(connection.link).toBe('mismatch');
    expect(connection.complaint).toContain('Update rfnb where JupyterLab runs');
    expect(kernel.comms.map(comm => comm.target)).toEqual(['rfnb.commands']);
    const older = complaintAbout({ protocol: PROTOCOL - 1, version: '0.0.1', session: '' });
    expect(older).toContain('Update rfnb where the kernel runs');
  });
});

describe('#requests', () => {
  it('hands a late answer, which comes as an event, to whoever asked', async () => {
    const { kernel, connection } = await connected();
    kernel.answer = () => ({ status: 'busy' });
    const waits: string[] = [];
    const answer = connection.requests.request('step', { run: 1, step: 0, sequence: null }, w => waits.push(w));
    expect(waits).toEqual(['busy']);
    const { id } = kernel.sent[kernel.sent.length - 1];
    kernel.emit({ event: 'reply', data: { id, status: 'ok', data: 'the step', error: null } });
    expect(await answer).toBe('the step');
  });

  it('rejects with the words of the kernel', async () => {
    const { kernel, connection } = await connected();
    kernel.answer = () => ({ status: 'error', error: 'no run 9' });
    await expect(connection.requests.request('run', { run: 9 })).rejects.toThrow('no run 9');
  });
});

describe('#restart', () => {
  it('tells those who wait, and connects again after the next import', async () => {
    const { kernel, connection } = await connected();
    kernel.answer = () => ({ status: 'busy' });
    const answer = connection.requests.request('runs', {});
    kernel.restart();
    await expect(answer).rejects.toThrow('restarted');
    expect(connection.link).toBe('absent');
    kernel.startCell('import rfnb');
    kernel.imported = true;
    kernel.endCell();
    await settle();
    expect(connection.link).toBe('ready');
  });

  it('does not take a comm that is closed later for its own', async () => {
    const { kernel, connection } = await connected();
    const [old] = kernel.comms;
    kernel.restart();
    kernel.imported = true;
    await connection.connect();
    old.close();
    expect(connection.link).toBe('ready');
  });
});

describe('#event', () => {
  it('tells of all events but late answers', async () => {
    const { kernel, connection } = await connected();
    const seen: Event[] = [];
    connection.event.connect((_, event) => seen.push(event));
    kernel.emit({ event: 'runs', data: [] });
    kernel.emit({ event: 'reply', data: { id: -1, status: 'ok', data: null, error: null } });
    expect(seen).toEqual([{ event: 'runs', data: [] }]);
  });
});
