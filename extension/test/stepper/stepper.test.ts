import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import type { Message, StepView } from '../../src/schema';
import { Notes } from '../../src/stepper/notes';
import { Stepper } from '../../src/stepper/stepper';
import { runView, stepView } from '../examples';
import { settle } from '../fake_kernel';
import { settled, travelling } from './travelling';

/** A stepper whose questions a test answers by hand. */
function stepping(first: StepView | null = stepView(0)) {
  const asked: Message[] = [];
  const requests = new Requests(message => asked.push(message));
  const stepper = new Stepper(requests, runView(), first);
  const answer = async (i: number, data: unknown = null, status: 'ok' | 'busy' | 'error' = 'ok') => {
    const { id, args } = asked[i];
    const view = stepView(args.step as number, { sequence: args.sequence as number | null });
    requests.receive({ id, status, data: data ?? view, error: status === 'error' ? String(data) : null });
    await settle();
  };
  return { stepper, asked, answer, requests };
}

const steps = (asked: Message[]) => asked.map(message => message.args.step);

describe('Stepper', () => {
  it('stays where it is until the kernel has answered', async () => {
    const { stepper, answer } = stepping();
    stepper.next();
    expect(stepper.state.step?.step).toBe(0);
    expect(stepper.state.target).toBe(1);
    expect(stepper.state.waiting).toBe('asked');
    await answer(0);
    expect(stepper.state.step?.step).toBe(1);
    expect(stepper.state.target).toBeNull();
  });

  it('asks one question at a time, and of those that come meanwhile only the last', async () => {
    const { stepper, asked, answer } = stepping();
    stepper.next();
    stepper.next();
    stepper.next();
    stepper.next();
    expect(steps(asked)).toEqual([1]);
    await answer(0);
    expect(steps(asked)).toEqual([1, 4]);
    await answer(1);
    expect(stepper.state.step?.step).toBe(4);
  });

  it('stays within the run', async () => {
    const { stepper, asked, answer } = stepping();
    stepper.previous();
    expect(asked).toHaveLength(0);
    stepper.goto(99);
    await answer(0);
    stepper.next();
    expect(steps(asked)).toEqual([11]);
  });

  it('drops the answer for a sequence that is no longer wanted', async () => {
    const { stepper, answer } = stepping();
    stepper.next();
    stepper.choose(1);
    await answer(0);
    expect(stepper.state.step?.step).toBe(0);
    await answer(1);
    expect(stepper.state.step).toMatchObject({ step: 1, sequence: 1 });
  });

  it('drops the answer of another run', async () => {
    const { stepper, answer } = stepping();
    stepper.next();
    await answer(0, stepView(1, { run: 2 }));
    expect(stepper.state.step).toMatchObject({ run: 1, step: 0 });
  });

  it('says that the kernel is busy, and shows the answer when it comes', async () => {
    const { stepper, answer } = stepping();
    stepper.next();
    await answer(0, null, 'busy');
    expect(stepper.state.waiting).toBe('busy');
    await answer(0);
    expect(stepper.state).toMatchObject({ waiting: null, step: { step: 1 } });
  });

  it('keeps the last view when an answer is an error', async () => {
    const { stepper, answer } = stepping();
    stepper.next();
    await answer(0, 'out of memory', 'error');
    expect(stepper.state).toMatchObject({ error: 'out of memory', step: { step: 0 } });
    stepper.next();
    await answer(1);
    expect(stepper.state).toMatchObject({ error: null, step: { step: 1 } });
  });

  it('keeps what it saw of a run that the kernel has lost, and asks no more', async () => {
    const { stepper, asked, requests } = stepping();
    stepper.next();
    requests.abandon('restarted');
    await settle();
    expect(stepper.state).toMatchObject({ gone: true, step: { step: 0 }, waiting: null });
    stepper.next();
    expect(asked).toHaveLength(1);
  });

  it('looks at the first line that computed something, then where the user goes, passing empty lines', () => {
    const { stepper } = stepping();
    expect(stepper.state.line).toBe(3);
    stepper.lookOn(1);
    expect(stepper.state.line).toBe(5);
    stepper.lookOn(1);
    expect(stepper.state.line).toBe(5);
    stepper.lookOn(-1);
    stepper.lookOn(-1);
    expect(stepper.state.line).toBe(2);
  });

  it('a run that broke off can be looked at where it did', async () => {
    const failure = { step: 3, line: 5, error: 'no' };
    const { stepper, asked } = travelling(() => [], runView({ steps: 3, failure }));
    stepper.last();
    await settled();
    expect(asked[0].args.step).toBe(3);
  });

  it('the step where a run broke off is searched too, as soon as it is known', async () => {
    const failure = { step: 3, line: 5, error: 'no' };
    const found = ({ args }: Message) => ({ hits: args.stop === 4 ? [3] : [], next: null });
    const { stepper, asked } = travelling(found, runView({ steps: 3 }));
    const where = { kind: 'not finite' as const, name: null, line: null, limit: null, text: null };
    stepper.note({ where });
    stepper.grow(runView({ steps: 3, failure }), null);
    stepper.goToHit('next');
    await settled();
    expect(asked.filter(({ command }) => command === 'find').at(-1)?.args).toMatchObject({ stop: 4 });
    expect(stepper.state.step?.step).toBe(3);
    const broken = travelling(found, runView({ steps: 3, failure })).stepper;
    broken.note({ where });
    broken.goToHit('next');
    await settled();
    expect(broken.state.step?.step).toBe(3);
  });

  it('without a kernel there are only the steps', () => {
    const asked: Message[] = [];
    const context = { notes: new Notes(), trail: [], still: true, open: () => undefined };
    const stepper = new Stepper(new Requests(message => asked.push(message)), runView(), stepView(0), context);
    stepper.toggleStop(3);
    stepper.toggleOps();
    stepper.stepOp(1);
    stepper.goToHit('next');
    expect(asked).toEqual([]);
  });
});
