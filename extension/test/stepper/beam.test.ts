import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import type { Message } from '../../src/schema';
import { beside, grown, pathTo } from '../../src/stepper/beam';
import { Stepper } from '../../src/stepper/stepper';
import { beamAt, beamColumn, runView, stepView } from '../examples';
import { settle } from '../fake_kernel';

describe('grown', () => {
  const steps = (tree: ReturnType<typeof grown>) => tree?.columns.map(column => column.step);

  it('adds the columns that come, and takes a column that comes again', () => {
    const first = grown(null, beamAt(1));
    expect(steps(first)).toEqual([0, 1]);
    const again = beamAt(2, { since: 1, columns: [beamColumn(1), beamColumn(2)] });
    const second = grown(first, again);
    expect(steps(second)).toEqual([0, 1, 2]);
    expect(second?.columns[0]).toBe(first?.columns[0]);
    expect(second?.columns[1]).toBe(again.columns[0]);
    expect(steps(grown(second, beamAt(0)))).toEqual([0, 1, 2]);
  });

  it('begins anew for another sequence, and does not take columns with a gap', () => {
    const first = grown(null, beamAt(2));
    expect(steps(grown(first, beamAt(0, { sequence: 1 })))).toEqual([0]);
    expect(grown(first, beamAt(9, { since: 9, columns: [beamColumn(9)] }))).toBe(first);
    expect(grown(first, null)).toBe(first);
  });
});

describe('beside', () => {
  it.each([
    [null, 1, 1],
    [1, 1, 0],
    [0, 1, 0],
    [0, -1, 1],
    [1, -1, null],
    [null, -1, null]
  ] as const)('goes from place %s by %s to %s, in the order of ranks', (from, way, to) => {
    expect(beside(beamAt(2), from, way)).toEqual(to === null ? null : { step: 2, place: to });
  });
});

describe('pathTo', () => {
  it('follows the parents back to the first step', () => {
    const { columns } = beamAt(3);
    expect([...pathTo(columns, { step: 3, place: 0 })]).toEqual([
      [3, 0],
      [2, 1],
      [1, 0],
      [0, 1]
    ]);
  });
});

describe('Stepper in a search', () => {
  function searching() {
    const asked: Message[] = [];
    const requests = new Requests(message => asked.push(message));
    const first = stepView(0, { beam: beamAt(0) });
    const stepper = new Stepper(requests, runView({ is_search: true }), first);
    const answer = async (i: number) => {
      const { id, args } = asked[i];
      const [step, since] = [args.step as number, args.seen as number];
      const hypothesis = args.hypothesis as { step: number; place: number } | null;
      const columns = beamAt(step).columns.slice(since);
      const beam = beamAt(step, { since, columns, hypothesis, place: hypothesis?.place ?? null });
      const data = stepView(step, { sequence: args.sequence as number | null, beam });
      requests.receive({ id, status: 'ok', data, error: null });
      await settle();
    };
    return { stepper, asked, answer };
  }

  it('asks for the columns that it lacks', async () => {
    const { stepper, asked, answer } = searching();
    stepper.goto(4);
    expect(asked[0].args).toMatchObject({ step: 4, seen: 1, hypothesis: null });
    await answer(0);
    expect(stepper.state.tree?.columns).toHaveLength(5);
    stepper.choose(1);
    expect(asked[1].args).toMatchObject({ sequence: 1, seen: 0 });
  });

  it('asks for one hypothesis, of the sequence whose tree is shown, and drops it with the sequence', async () => {
    const { stepper, asked, answer } = searching();
    stepper.chooseHypothesis({ step: 3, place: 1 });
    expect(asked[0].args).toMatchObject({ step: 3, sequence: 0, hypothesis: { step: 3, place: 1 } });
    await answer(0);
    stepper.next();
    expect(asked[1].args).toMatchObject({ step: 4, sequence: 0, hypothesis: { step: 3, place: 1 } });
    await answer(1);
    stepper.choose(1);
    expect(asked[2].args).toMatchObject({ sequence: 1, hypothesis: null });
  });

  it('moves by one hypothesis with each press, also before the answer is there', async () => {
    const { stepper, asked, answer } = searching();
    stepper.nextHypothesis(1);
    stepper.nextHypothesis(1);
    await answer(0);
    expect(asked.map(message => message.args.hypothesis)).toEqual([
      { step: 0, place: 1 },
      { step: 0, place: 0 }
    ]);
  });

  it('does not ask older kernels about hypotheses', () => {
    const asked: Message[] = [];
    const stepper = new Stepper(new Requests(message => asked.push(message)), runView(), stepView(0));
    stepper.nextHypothesis(1);
    stepper.next();
    expect(asked.map(message => Object.keys(message.args))).toEqual([
      ['run', 'step', 'sequence', 'ops', 'op', 'watch']
    ]);
  });
});
