import { expect, it } from 'vitest';

import { Connection } from '../../src/kernel/connection';
import type { Message } from '../../src/schema';
import { Session } from '../../src/stepper/session';
import { item, runView, stepView } from '../examples';
import { FakeKernel, settle } from '../fake_kernel';

const STEPS = [200, 400, 600, 800];
const LENGTHS: { [at: number]: number } = { 200: 3, 400: 12, 600: 12, 800: 12 };

/** The run of a probe at a training step; its number is a hundredth of it. */
const runAt = (at: number, steps = STEPS) =>
  runView({
    run: at / 100,
    steps: LENGTHS[at],
    lengths: null,
    tags: null,
    training: { step: at, steps, measures: {} }
  });

async function probed() {
  const kernel = new FakeKernel();
  let steps = STEPS;
  kernel.answer = ({ command, args }: Message) => {
    switch (command) {
      case 'run':
        return { data: runAt((args.run as number) * 100, steps) };
      case 'training': {
        const run = runAt(args.at as number, steps);
        const step = Math.min(args.step as number, run.steps - 1);
        return { data: { run, step: stepView(step, { run: run.run, sequence: null }) } };
      }
      case 'step':
        return { data: stepView(args.step as number, { run: args.run as number, sequence: null }) };
      case 'paused':
        return { data: null };
      default:
        return { data: [item(8), item(6)] };
    }
  };
  const connection = new Connection(kernel.connection);
  const session = new Session(connection);
  await connection.connect();
  await settle();
  const go = async (act: () => void) => {
    act();
    await settle();
    const { run, step } = session.stepper!.state;
    return [run.training?.step, step?.step];
  };
  return { kernel, session, go, grow: (more: number[]) => (steps = more) };
}

it('goes to other training steps at the same step of the loop', async () => {
  const { session: s, go } = await probed();
  await go(() => s.stepper!.goto(7));
  expect(await go(() => s.stepper!.nextTraining(-1))).toEqual([600, 7]);
  expect(await go(() => s.stepper!.train(400))).toEqual([400, 7]);
  expect(await go(() => s.stepper!.nextTraining(1))).toEqual([600, 7]);
});

it('comes back to the step of the loop that a shorter run does not have', async () => {
  const { session: s, go } = await probed();
  await go(() => s.stepper!.goto(7));
  expect(await go(() => s.stepper!.train(200))).toEqual([200, 2]);
  expect(await go(() => s.stepper!.train(400))).toEqual([400, 7]);
  await go(() => s.stepper!.train(200));
  await go(() => s.stepper!.goto(1));
  expect(await go(() => s.stepper!.train(800))).toEqual([800, 1]);
});

it('keeps the line, makes one request at a time, and shows the last of them', async () => {
  const { kernel, session: s, go } = await probed();
  s.stepper!.look(5);
  const before = kernel.sent.length;
  [600, 400, 200, 400].forEach(at => s.stepper!.train(at));
  expect(s.stepper!.state.trainingTarget).toBe(400);
  expect(await go(() => undefined)).toEqual([400, 0]);
  expect(s.stepper!.state.line).toBe(5);
  expect(s.stepper!.state.trainingTarget).toBeNull();
  expect(kernel.sent.slice(before).filter(({ command }) => command === 'training')).toHaveLength(2);
});

it('stays at an older training step while the training goes on, and learns of the new ones', async () => {
  const { kernel, session: s, go, grow } = await probed();
  await go(() => s.stepper!.train(400)); // which is not in the list
  grow([...STEPS, 1000]);
  LENGTHS[1000] = 12;
  kernel.emit({ event: 'runs', data: [item(10), item(8), item(6)] });
  expect(await go(() => undefined)).toEqual([400, 0]);
  expect(s.stepper!.state.run.training?.steps).toHaveLength(5);
  expect(await go(() => s.stepper!.train(1000))).toEqual([1000, 0]);
});

it('follows the training from its newest step', async () => {
  const { kernel, session: s, go, grow } = await probed();
  await go(() => s.stepper!.goto(4));
  grow([...STEPS, 1000]);
  LENGTHS[1000] = 12;
  kernel.emit({ event: 'runs', data: [item(10), item(8)] });
  await settle();
  expect(await go(() => undefined)).toEqual([1000, 4]);
});

it('shows an error, and the slider goes back', async () => {
  const { kernel, session: s, go } = await probed();
  const answer = kernel.answer;
  kernel.answer = message =>
    message.command === 'training' ? { status: 'error', error: 'cannot be read' } : answer(message);
  expect(await go(() => s.stepper!.train(400))).toEqual([800, 0]);
  expect([s.stepper!.state.error, s.stepper!.state.trainingTarget]).toEqual(['cannot be read', null]);
});
